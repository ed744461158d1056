import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.function.Supplier;
import java.util.stream.*;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.*;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.service.CassandraDaemon;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.service.QueryState;
import org.apache.cassandra.transport.Dispatcher;
import org.apache.cassandra.transport.messages.ResultMessage;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Fills a node with tables of random schemas, and records what Cassandra answers; the test `oracle.rs` compiles and runs it.
 *
 *   RandomNode EXPECTED SEED TABLES
 *
 * EXPECTED is written as JSON: the `data` directory, `taken_at` in seconds, and `results` with `query` and the hexadecimal values
 * in `raw`. The node is drained at the end.
 */
public class RandomNode
{
    static Random random;

    /** A CQL type, and a source of literals of it. */
    record Type(String cql, Supplier<String> value) {}
    record Column(String name, Type type) {}
    record Table(String name, List<Column> key, List<Column> clustering, List<Column> statics, List<Column> regular) {}

    static final Map<String, Supplier<String>> NATIVE = new LinkedHashMap<>();
    static final List<Type> UDTS = new ArrayList<>();

    static long below(long end) { return (long) (random.nextDouble() * end); }
    static boolean chance(double p) { return random.nextDouble() < p; }
    static <T> T choose(List<T> of) { return of.get(random.nextInt(of.size())); }
    static String join(Stream<String> parts) { return parts.collect(Collectors.joining(", ")); }
    static UUID uuid(int version)
    {
        return new UUID(random.nextLong() & ~0xf000L | (long) version << 12, random.nextLong() & 0x3fffffffffffffffL | 0x8000000000000000L);
    }

    static
    {
        NATIVE.put("ascii", () -> "'a" + below(1000) + "'");
        NATIVE.put("bigint", () -> "" + random.nextLong());
        NATIVE.put("blob", () -> "0x" + "0f".repeat((int) below(6) + 1));
        NATIVE.put("boolean", () -> "" + random.nextBoolean());
        NATIVE.put("date", () -> String.format("'%d-%02d-%02d'", 1900 + below(200), 1 + below(12), 1 + below(28)));
        NATIVE.put("decimal", () -> (below(2_000_000) - 1_000_000) + "." + below(100_000));
        NATIVE.put("double", () -> "" + (random.nextDouble() - 0.5) * 1e9);
        NATIVE.put("float", () -> "" + (random.nextFloat() - 0.5f) * 1e4f);
        NATIVE.put("inet", () -> chance(0.5) ? "'10.0.0." + below(256) + "'" : "'2001:db8::" + Long.toHexString(below(65536)) + "'");
        NATIVE.put("int", () -> "" + random.nextInt());
        NATIVE.put("smallint", () -> "" + (short) random.nextInt());
        NATIVE.put("tinyint", () -> "" + (byte) random.nextInt());
        NATIVE.put("text", () -> "'" + choose(List.of("é", "x".repeat((int) below(40) + 1), "it''s")) + "'");
        NATIVE.put("time", () -> String.format("'%02d:%02d:%02d.%09d'", below(24), below(60), below(60), below(1_000_000_000)));
        NATIVE.put("timestamp", () -> "" + (below(5_000_000_000_000L) - 1_000_000_000_000L));
        NATIVE.put("timeuuid", () -> "" + uuid(1));
        NATIVE.put("uuid", () -> "" + uuid(4));
        NATIVE.put("varint", () -> random.nextLong() + "" + below(1_000_000));
    }

    /** Returns a random type: frozen where keys and elements have to be. */
    static Type type(int depth, boolean frozen)
    {
        if (depth > 2 || chance(depth == 0 && !frozen ? 0.4 : 0.7))
        {
            String name = choose(new ArrayList<>(NATIVE.keySet()));
            return new Type(name, NATIVE.get(name));
        }
        boolean freeze = frozen || depth > 0 || chance(0.3);
        Type a = type(depth + 1, true), b = type(depth + 1, true);
        switch (random.nextInt(6))
        {
            case 0: return frozen(freeze, "list<" + a.cql + ">", () -> "[" + repeat(a.value) + "]");
            case 1: return frozen(freeze, "set<" + a.cql + ">", () -> "{" + repeat(a.value) + "}");
            case 2: return frozen(freeze, "map<" + a.cql + ", " + b.cql + ">", () -> "{" + repeat(() -> a.value.get() + ": " + b.value.get()) + "}");
            case 3: return frozen(true, "tuple<" + a.cql + ", " + b.cql + ">", () -> "(" + a.value.get() + ", " + b.value.get() + ")");
            case 4: return new Type("vector<float, 3>", () -> "[" + join(Stream.generate(NATIVE.get("float")).limit(3)) + "]");
            default:
                if (UDTS.isEmpty())
                    return new Type("int", NATIVE.get("int"));
                Type udt = choose(UDTS);
                return frozen(freeze, udt.cql, udt.value);
        }
    }

    static Type frozen(boolean frozen, String cql, Supplier<String> value) { return new Type(frozen ? "frozen<" + cql + ">" : cql, value); }
    static String repeat(Supplier<String> value) { return join(Stream.generate(value).limit(1 + below(3))); }

    static ResultMessage run(String cql)
    {
        try
        {
            QueryState state = QueryState.forInternalCalls();
            QueryOptions options = QueryOptions.forInternalCalls(ConsistencyLevel.ONE, List.of());
            return QueryProcessor.instance.process(QueryProcessor.instance.parse(cql, state, options), state, options, Dispatcher.RequestTime.forImmediateExecution());
        }
        catch (RuntimeException e) { throw new RuntimeException(cql, e); }
    }

    static List<Column> columns(String prefix, int count, boolean frozen)
    {
        List<Column> out = new ArrayList<>();
        for (int i = 0; i < count; i++) out.add(new Column(prefix + i, type(0, frozen)));
        return out;
    }

    static Table create(int number)
    {
        boolean clustered = chance(0.7);
        Table t = new Table("random.r" + number, columns("p", 1 + random.nextInt(2), true), columns("c", clustered ? 1 + random.nextInt(2) : 0, true),
                            columns("s", clustered ? random.nextInt(3) : 0, false), columns("v", random.nextInt(5), false));
        String order = clustered ? " AND CLUSTERING ORDER BY (" + join(t.clustering.stream().map(c -> c.name + choose(List.of(" ASC", " DESC")))) + ")" : "";
        String all = join(Stream.of(t.key, t.clustering, t.statics, t.regular).flatMap(List::stream)
                                .map(c -> c.name + " " + c.type.cql + (t.statics.contains(c) ? " static" : "")));
        run("CREATE TABLE " + t.name + " (" + all + ", PRIMARY KEY ((" + names(t.key) + ")" + (clustered ? ", " + names(t.clustering) : "") + ")) WITH compression = "
            + choose(List.of("{'class': 'LZ4Compressor'}", "{'enabled': false}", "{'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}", "{'class': 'ZstdCompressor'}"))
            + " AND compaction = {'class': '" + choose(List.of("SizeTiered", "Leveled", "TimeWindow", "Unified")) + "CompactionStrategy'}"
            + choose(List.of("", " AND default_time_to_live = 200000000", " AND bloom_filter_fp_chance = 1.0")) + order);
        return t;
    }

    static String names(List<Column> columns) { return join(columns.stream().map(Column::name)); }
    static List<String> values(List<Column> columns) { return columns.stream().map(c -> c.type.value.get()).collect(Collectors.toList()); }

    static String where(List<Column> columns, List<String> values)
    {
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < columns.size(); i++) parts.add(columns.get(i).name + " = " + values.get(i));
        return String.join(" AND ", parts);
    }

    static String using()
    {
        return " USING TIMESTAMP " + (1_700_000_000_000_000L + below(1_000_000_000)) + (chance(0.3) ? " AND TTL " + (100_000_000 + below(100_000_000)) : "");
    }

    static <T> List<T> some(List<T> of, int min)
    {
        List<T> shuffled = new ArrayList<>(of);
        Collections.shuffle(shuffled, random);
        return shuffled.subList(0, min + random.nextInt(of.size() - min + 1));
    }

    static void insert(Table t, List<Column> columns, List<String> values, List<Column> more)
    {
        List<Column> all = new ArrayList<>(columns);
        List<String> with = new ArrayList<>(values);
        all.addAll(more);
        with.addAll(values(more));
        run("INSERT INTO " + t.name + " (" + names(all) + ") VALUES (" + String.join(", ", with) + ")" + using());
    }

    /** Writes rows, and deletions of every kind. */
    static void write(Table t, List<List<String>> keys, List<List<String>> clusterings, int count)
    {
        for (int i = 0; i < count; i++)
        {
            List<String> key = choose(keys), clustering = choose(clusterings);
            List<Column> whole = new ArrayList<>(t.key);
            whole.addAll(t.clustering);
            List<String> row = new ArrayList<>(key);
            row.addAll(clustering);
            String deleted = " FROM " + t.name + " USING TIMESTAMP " + (1_700_000_000_000_000L + below(300_000_000)) + " WHERE ";
            double kind = random.nextDouble();
            if (kind < 0.05)
                run("DELETE" + deleted + where(t.key, key));
            else if (kind < 0.1 && !clustering.isEmpty())
                run("DELETE" + deleted + where(t.key, key) + " AND " + t.clustering.get(0).name + " >= " + clustering.get(0));
            else if (kind < 0.15)
                run("DELETE" + deleted + where(whole, row));
            else if (kind < 0.2 && !t.regular.isEmpty())
                run("DELETE " + choose(t.regular).name + deleted + where(whole, row));
            else if (kind < 0.3 && !t.statics.isEmpty())
                insert(t, t.key, key, some(t.statics, 1));
            else if (kind < 0.6 && !t.regular.isEmpty())
                run("UPDATE " + t.name + using() + " SET " + join(some(t.regular, 1).stream().map(c -> c.name + " = " + c.type.value.get())) + " WHERE " + where(whole, row));
            else
                insert(t, whole, row, some(t.regular, 0));
        }
    }

    static String record(String query)
    {
        ResultMessage.Rows rows = (ResultMessage.Rows) run(query);
        Stream<String> raw = rows.result.rows.stream().map(row -> "[" + join(row.stream().map(v -> v == null ? "null" : "\"" + ByteBufferUtil.bytesToHex((ByteBuffer) v) + "\"")) + "]");
        return "{\"query\": \"" + query + "\", \"raw\": [" + join(raw) + "]}";
    }

    static int freePort() throws Exception
    {
        try (ServerSocket socket = new ServerSocket(0)) { return socket.getLocalPort(); }
    }

    public static void main(String[] arguments) throws Exception
    {
        random = new Random(Long.parseLong(arguments[1]));
        // Beside other nodes on this machine.
        Path configuration = Paths.get(java.net.URI.create(System.getProperty("cassandra.config")));
        int port = freePort();
        Files.writeString(configuration, Files.readString(configuration).replace("127.0.0.1:7000", "127.0.0.1:" + port) + "storage_port: " + port + "\n");
        // Otherwise the daemon closes the standard output, and errors are not seen.
        System.setProperty("cassandra-foreground", "yes");
        System.setProperty("cassandra.start_native_transport", "false");
        System.setProperty("cassandra.ring_delay_ms", "100");
        System.setProperty("cassandra.skip_wait_for_gossip_to_settle", "0");
        System.setProperty("cassandra.superuser_setup_delay_ms", "0");
        CassandraDaemon daemon = new CassandraDaemon(true);
        daemon.activate();
        run("CREATE KEYSPACE random WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        for (int i = 0; i < 3; i++)
        {
            List<Column> fields = columns("f", 1 + random.nextInt(3), true);
            run("CREATE TYPE random.u" + i + " (" + join(fields.stream().map(c -> c.name + " " + c.type.cql)) + ")");
            UDTS.add(new Type("u" + i, () -> "{" + join(fields.stream().map(c -> c.name + ": " + c.type.value.get())) + "}"));
        }
        List<String> results = new ArrayList<>();
        List<Table> tables = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(arguments[2]); i++)
        {
            Table t = create(i);
            tables.add(t);
            List<List<String>> keys = Stream.generate(() -> values(t.key)).limit(8).collect(Collectors.toList());
            List<List<String>> clusterings = Stream.generate(() -> values(t.clustering)).limit(6).collect(Collectors.toList());
            write(t, keys, clusterings, 50);
            StorageService.instance.forceKeyspaceFlush("random", t.name.substring(7));
            write(t, keys, clusterings, 30);
        }
        for (Table t : tables)
        {
            List<Column> cells = new ArrayList<>(t.statics);
            cells.addAll(t.regular);
            Stream<String> times = Stream.of("writetime", "ttl").flatMap(f -> cells.stream().map(c -> f + "(" + c.name + ")"));
            Stream<String> names = Stream.of(t.key, t.clustering, cells).flatMap(List::stream).map(Column::name);
            results.add(record("SELECT " + join(Stream.concat(names, times)) + " FROM " + t.name));
        }
        String json = "{\"data\": \"" + DatabaseDescriptor.getAllDataFileLocations()[0] + "\", \"taken_at\": " + System.currentTimeMillis() / 1000 + ", \"results\": [" + String.join(",\n", results) + "]}";
        Files.write(Paths.get(arguments[0]), json.getBytes(StandardCharsets.UTF_8));
        StorageService.instance.drain();
        Runtime.getRuntime().halt(0);
    }
}
