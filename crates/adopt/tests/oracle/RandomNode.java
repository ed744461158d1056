import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.function.Supplier;
import java.util.stream.*;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.*;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.service.CassandraDaemon;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;

/**
 * Fills a node with tables of random schemas, and records what Cassandra answers; the test `oracle.rs` compiles and
 * runs it.
 *
 *   RandomNode EXPECTED SEED TABLES [SYNC COMPRESSION | FORMAT]
 *
 * EXPECTED is written as JSON: the `data` directory, `taken_at` in seconds, and `results` with `query` and the
 * hexadecimal values in `raw`. The node is drained at the end; with SYNC, a mode of the commit log, its process stops
 * at once, without a flush. COMPRESSION is the class that compresses the commit log then, or `none`. With FORMAT, `big`
 * or `bti`, SSTables have the version of Cassandra 5.0, and expire after 2038.
 */
public class RandomNode
{
    static Random random;
    static boolean isOfCassandra5;

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
        return new UUID(random.nextLong() & ~0xf000L | (long) version << 12,
                random.nextLong() & 0x3fffffffffffffffL | 0x8000000000000000L);
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
        NATIVE.put("inet", () -> chance(0.5) ? "'10.0.0." + below(256) + "'" : "'2001:db8::"
                + Long.toHexString(below(65536)) + "'");
        NATIVE.put("int", () -> "" + random.nextInt());
        NATIVE.put("smallint", () -> "" + (short) random.nextInt());
        NATIVE.put("tinyint", () -> "" + (byte) random.nextInt());
        NATIVE.put("text", () -> "'" + choose(List.of("é", "x".repeat((int) below(40) + 1), "it''s")) + "'");
        NATIVE.put("time", () -> String.format("'%02d:%02d:%02d.%09d'", below(24), below(60), below(60),
                below(1_000_000_000)));
        NATIVE.put("timestamp", () -> "" + (below(5_000_000_000_000L) - 1_000_000_000_000L));
        NATIVE.put("timeuuid", () -> "" + uuid(1));
        NATIVE.put("uuid", () -> "" + uuid(4));
        NATIVE.put("varint", () -> random.nextLong() + "" + below(1_000_000));
    }

    /** Types whose empty value differs from null, besides those of texts and blobs. */
    static final List<String> EMPTIABLE = List.of("ascii", "bigint", "blob", "boolean", "decimal", "double", "float",
            "inet", "int", "text", "timestamp", "timeuuid", "uuid", "varint");
    /** A type that has no order, so keys and sets cannot contain it. */
    static final Type DURATION = new Type("duration", () -> below(30) + "mo" + below(100) + "d"
            + below(1_000_000_000_000L) + "ns");

    static Type nativeType(String name) { return new Type(name, NATIVE.get(name)); }
    static Type list(boolean frozen, Type of) { return frozen(frozen, "list<" + of.cql + ">", () -> "["
            + repeat(of.value) + "]"); }
    static Type set(boolean frozen, Type of) { return frozen(frozen, "set<" + of.cql + ">", () -> "{"
            + repeat(of.value) + "}"); }
    static Type map(boolean frozen, Type key, Type of) { return frozen(frozen, "map<" + key.cql + ", " + of.cql + ">",
            () -> "{" + repeat(() -> key.value.get() + ": " + of.value.get()) + "}"); }
    static Type tuple(Type a, Type b) { return frozen(true, "tuple<" + a.cql + ", " + b.cql + ">", () -> "("
            + orNull(a) + ", " + orNull(b) + ")"); }
    static Type vector(Type of, int length) { return new Type("vector<" + of.cql + ", " + length + ">", () -> "["
            + join(Stream.generate(of.value).limit(length)) + "]"); }
    static String orNull(Type of) { return chance(0.1) ? "null" : of.value.get(); }

    /** Returns a random type: frozen where keys and elements have to be, with an order where keys and sets need one. */
    static Type type(int depth, boolean frozen, boolean ordered)
    {
        if (depth > 2 || chance(depth == 0 && !frozen ? 0.4 : 0.7))
        {
            if (!ordered && hasDurations() && chance(0.1))
                return DURATION;
            return nativeType(choose(new ArrayList<>(NATIVE.keySet())));
        }
        boolean freeze = frozen || depth > 0 || chance(0.3);
        Type a = type(depth + 1, true, true), b = type(depth + 1, true, ordered);
        switch (random.nextInt(6))
        {
            case 0: return list(freeze, b);
            case 1: return set(freeze, a);
            case 2: return map(freeze, a, b);
            case 3: return tuple(a, b);
            case 4:
                Type element = chance(0.5) ? nativeType("float") : b;
                return version() < 500 ? nativeType("float") : vector(element, 1 + random.nextInt(3));
            default:
                if (UDTS.isEmpty())
                    return new Type("int", NATIVE.get("int"));
                Type udt = choose(UDTS);
                return frozen(freeze || !hasUnfrozenTypes(), udt.cql, udt.value);
        }
    }

    static Type frozen(boolean frozen, String cql, Supplier<String> value) {
        return new Type(frozen ? "frozen<" + cql + ">" : cql, value);
    }
    static String repeat(Supplier<String> value) { return join(Stream.generate(value).limit(1 + below(3))); }

    static UntypedResultSet run(String cql)
    {
        try { return QueryProcessor.process(cql, ConsistencyLevel.ONE); }
        catch (Exception e) { throw new RuntimeException(cql, e); }
    }

    /** The version of Cassandra: 3.11 is 311, 4.0 is 400. */
    static int version()
    {
        String[] parts = FBUtilities.getReleaseVersionString().split("[.-]");
        return Integer.parseInt(parts[0]) * 100 + Integer.parseInt(parts[1]);
    }

    /** Whether WRITETIME and TTL support a type: collections since later versions. */
    static boolean hasTimes(String type) {
        return version() >= 500 || !type.matches("(frozen<)?(list|set|map)<.*|u[0-9]+");
    }

    static boolean hasDurations() { return version() >= 310; }

    /** Whether user-defined types can have a cell for each field. */
    static boolean hasUnfrozenTypes() { return version() != 300; }

    static List<Column> columns(String prefix, int count, boolean frozen)
    {
        List<Column> out = new ArrayList<>();
        for (int i = 0; i < count; i++) out.add(new Column(prefix + i, type(0, frozen, frozen)));
        return out;
    }

    static Table create(int number)
    {
        boolean clustered = chance(0.7);
        List<Column> key = columns("p", 1 + random.nextInt(2), true);
        List<Column> clustering = columns("c", clustered ? 1 + random.nextInt(2) : 0, true);
        List<Column> statics = columns("s", clustered ? random.nextInt(3) : 0, false);
        return create(new Table("random.r" + number, key, clustering, statics, columns("v", random.nextInt(5), false)));
    }

    /** Returns a table with a type wherever it is possible. */
    static Table create(String name, Type of, Type unfrozen, boolean ordered)
    {
        Type key = ordered ? of : nativeType("int");
        List<Type> types = new ArrayList<>(List.of(unfrozen, of, list(false, of), list(true, of), map(false, key, of),
                map(true, key, of), set(false, key), set(true, key), tuple(of, key)));
        if (version() >= 500)
            types.add(vector(of, 2));
        List<Column> regular = new ArrayList<>();
        for (Type type : types) regular.add(new Column("v" + regular.size(), type));
        List<Column> keys = List.of(new Column("p0", key), new Column("p1", key));
        List<Column> clustering = List.of(new Column("c0", key), new Column("c1", key));
        List<Column> statics = List.of(new Column("s0", of), new Column("s1", list(false, of)));
        return create(new Table("random.t_" + name, keys, clustering, statics, regular));
    }

    static Table create(Table t)
    {
        boolean clustered = !t.clustering.isEmpty();
        String order = clustered ? " AND CLUSTERING ORDER BY (" + join(t.clustering.stream().map(c -> c.name
                + choose(List.of(" ASC", " DESC")))) + ")" : "";
        String all = join(Stream.of(t.key, t.clustering, t.statics, t.regular).flatMap(List::stream)
                                .map(c -> c.name + " " + c.type.cql + (t.statics.contains(c) ? " static" : "")));
        run("CREATE TABLE " + t.name + " (" + all + ", PRIMARY KEY ((" + names(t.key) + ")"
                + (clustered ? ", " + names(t.clustering) : "") + ")) WITH compression = "
                + choose(List.of("{'class': 'LZ4Compressor'}", "{'enabled': false}",
                        "{'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}",
                        version() < 500 ? "{'class': 'DeflateCompressor'}" : "{'class': 'ZstdCompressor'}"))
                + " AND compaction = {'class': '" + choose(List.of("SizeTiered", "Leveled",
                        version() < 308 ? "Leveled" : "TimeWindow", version() < 500 ? "SizeTiered" : "Unified"))
                + "CompactionStrategy'}"
                + choose(List.of("", " AND default_time_to_live = 200000000", " AND bloom_filter_fp_chance = 1.0"))
                + order);
        return t;
    }

    static String names(List<Column> columns) { return join(columns.stream().map(Column::name)); }
    /** Returns values, some of them empty, of keys and cells; a partition key of one column cannot be empty. */
    static List<String> values(List<Column> columns)
    {
        boolean isKey = columns.size() == 1 && columns.get(0).name.startsWith("p");
        return columns.stream().map(c -> isKey ? c.type.value.get() : value(c)).collect(Collectors.toList());
    }

    static String value(Column of)
    {
        boolean isCell = of.name.startsWith("v") || of.name.startsWith("s");
        if (isCell && chance(0.04))
            return "null";
        if (!EMPTIABLE.contains(of.type.cql) || !chance(0.06))
            return of.type.value.get();
        return of.type.cql.equals("blob") ? "0x" : "blobAs" + of.type.cql + "(0x)";
    }

    static String where(List<Column> columns, List<String> values)
    {
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < columns.size(); i++) parts.add(columns.get(i).name + " = " + values.get(i));
        return String.join(" AND ", parts);
    }

    static String using()
    {
        return " USING TIMESTAMP " + (1_700_000_000_000_000L + below(1_000_000_000)) + (chance(0.3) ? " AND TTL "
                + (100_000_000 + below(isOfCassandra5 ? 500_000_000 : 100_000_000)) : "");
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
            String deleted = " FROM " + t.name + " USING TIMESTAMP " + (1_700_000_000_000_000L + below(300_000_000))
                    + " WHERE ";
            double kind = random.nextDouble();
            if (kind < 0.05)
                run("DELETE" + deleted + where(t.key, key));
            else if (kind < 0.1 && !clustering.isEmpty())
                run("DELETE" + deleted + where(t.key, key) + " AND " + t.clustering.get(0).name + " >= "
                        + clustering.get(0));
            else if (kind < 0.15)
                run("DELETE" + deleted + where(whole, row));
            else if (kind < 0.2 && !t.regular.isEmpty())
                run("DELETE " + choose(t.regular).name + deleted + where(whole, row));
            else if (kind < 0.3 && !t.statics.isEmpty())
                insert(t, t.key, key, some(t.statics, 1));
            else if (kind < 0.6 && !t.regular.isEmpty())
            {
                String assignments = join(some(t.regular, 1).stream().map(RandomNode::assignment));
                run("UPDATE " + t.name + using() + " SET " + assignments + " WHERE " + where(whole, row));
            }
            else
                insert(t, whole, row, some(t.regular, 0));
        }
    }

    /** Returns an assignment: of the value, or of more elements. */
    static String assignment(Column of)
    {
        boolean adds = of.type.cql.matches("(list|set|map)<.*") && chance(0.5);
        if (!adds)
            return of.name + " = " + value(of);
        String operator = of.type.cql.startsWith("map") ? " + " : choose(List.of(" + ", " - "));
        return of.name + " = " + of.name + operator + of.type.value.get();
    }

    static void flush(String table) throws Exception { StorageService.instance.forceKeyspaceFlush("random", table); }

    /**
     * Writes what the random tables lack, in part flushed: counters, elements of collections, a view, changes
     * of the schema.
     */
    static List<String> writeMore() throws Exception
    {
        run("CREATE TABLE random.counters (k int, c int, n counter, s counter static, PRIMARY KEY (k, c))");
        run("CREATE TYPE random.place (street text, number int)");
        run("CREATE TABLE random.sets (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, p "
                + (hasUnfrozenTypes() ? "place" : "frozen<place>")
                + ", f frozen<place>, gone map<int, int>, old text)");
        run("CREATE TABLE random.beside (k int PRIMARY KEY, v text)");
        run("CREATE TABLE random.base (k int, c int, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)");
        run("CREATE MATERIALIZED VIEW random.of_base AS SELECT v, k, c FROM random.base "
                + "WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)");
        run("CREATE TABLE random.emptied (k int PRIMARY KEY, v int)");
        run("CREATE TABLE random.dropped (k int PRIMARY KEY, v int)");
        // Its partitions have indexes of their rows.
        run("CREATE TABLE random.wide (k int, c int, s text static, v text, PRIMARY KEY (k, c))");
        for (int c = 0; c < 1200; c++)
            run("INSERT INTO random.wide (k, c, s, v) VALUES (" + c % 2 + ", " + c + ", 's', '" + "x".repeat(300)
                    + "')");
        run("DELETE FROM random.wide WHERE k = 1 AND c > 300 AND c < 800");
        run("DELETE FROM random.wide WHERE k = 0 AND c = 500");
        for (int round = 0; round < 3; round++)
        {
            for (int k = 0; k < 10; k++)
            {
                run("UPDATE random.counters SET n = n + " + (k + round) + ", s = s - 1 WHERE k = " + k % 3
                        + " AND c = " + k);
                run("INSERT INTO random.sets (k, l, s, m, p, f, gone, old) VALUES (" + k
                        + ", [1, 2], {'a', 'b'}, {'x': " + round
                        + "}, {street: 's', number: 1}, {street: 't', number: 2}, {1: 1}, 'o') USING TTL 200000000");
                run("UPDATE random.sets SET l = l + [" + round + "], l[0] = 7, s = s - {'a'}, m['y'] = " + k
                        + (hasUnfrozenTypes() ? ", p.number = " + round : "") + " WHERE k = " + k);
                run("DELETE l[1], m['x'] FROM random.sets WHERE k = " + k);
                run("BEGIN UNLOGGED BATCH INSERT INTO random.beside (k, v) VALUES (" + k + ", 'v" + round
                        + "'); DELETE s FROM random.sets WHERE k = " + k + "; APPLY BATCH");
                run("INSERT INTO random.base (k, c, v) VALUES (" + k % 4 + ", " + (k + round) + ", "
                        + (k * round) % 5 + ")");
                run("INSERT INTO random.emptied (k, v) VALUES (" + (k + 10 * round) + ", " + round + ")");
                if (round == 0)
                    run("INSERT INTO random.dropped (k, v) VALUES (" + k + ", 1)");
            }
            run("DELETE FROM random.base WHERE k = " + round + " AND c > 3 AND c <= 6");
            run("DELETE n FROM random.counters WHERE k = 2 AND c = 5");
            if (round == 0)
                for (String table : List.of("counters", "sets")) flush(table);
            // Flushes all tables.
            if (round == 0)
                run("DROP TABLE random.dropped");
            if (round == 1)
                Keyspace.open("random").getColumnFamilyStore("emptied").truncateBlocking();
        }
        run("ALTER TABLE random.sets DROP gone");
        run("ALTER TABLE random.sets DROP old");
        run("ALTER TYPE random.place ADD more text");
        run("UPDATE random.sets SET f = {street: 'u', number: 3, more: 'm'} WHERE k = 1");
        return List.of("SELECT k, c, s FROM random.wide",
                "SELECT c, v FROM random.wide WHERE k = 0 AND c >= 900 AND c < 910",
                "SELECT c FROM random.wide WHERE k = 1 AND c > 600 AND c < 806",
                "SELECT * FROM random.counters", "SELECT k, v, writetime(v) FROM random.beside",
                "SELECT * FROM random.base", "SELECT * FROM random.emptied",
                "SELECT k, l, s, m, p, f" + (version() < 500 ? "" : ", writetime(l), writetime(m)")
                        + ", writetime(f), ttl(f)" + (version() < 500 ? "" : ", ttl(s)") + " FROM random.sets");
    }

    static String value(UntypedResultSet.Row row, String column)
    {
        // For a null, Cassandra 3.0 and 3.7 answer with the times of an earlier row.
        if (version() < 311 && column.endsWith(")") && !row.has(column.substring(column.indexOf('(') + 1,
                column.length() - 1)))
            return "null";
        return row.has(column) ? "\"" + ByteBufferUtil.bytesToHex(row.getBytes(column)) + "\"" : "null";
    }

    static String record(String query)
    {
        Stream<String> raw = StreamSupport.stream(run(query).spliterator(), false).map(row -> "["
                + join(row.getColumns().stream().map(c -> value(row, c.name.toString()))) + "]");
        return "{\"query\": \"" + query + "\", \"raw\": [" + join(raw) + "]}";
    }

    static int freePort() throws Exception
    {
        try (ServerSocket socket = new ServerSocket(0)) { return socket.getLocalPort(); }
    }

    public static void main(String[] arguments)
    {
        try { fill(arguments); }
        catch (Throwable e)
        {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    static void fill(String[] arguments) throws Exception
    {
        random = new Random(Long.parseLong(arguments[1]));
        // Beside other nodes on this machine.
        Path configuration = Paths.get(java.net.URI.create(System.getProperty("cassandra.config")));
        int port = freePort();
        boolean stops = arguments.length > 4;
        isOfCassandra5 = arguments.length == 4;
        String yaml = Files.readString(configuration).replace("127.0.0.1:7000", version() < 400 ? "127.0.0.1"
                : "127.0.0.1:" + port) + "storage_port: " + port + "\n";
        if (version() >= 400)
            yaml += version() > 400 ? "materialized_views_enabled: true\n" : "enable_materialized_views: true\n";
        if (isOfCassandra5)
            yaml += "storage_compatibility_mode: NONE\nsstable:\n  selected_format: " + arguments[3] + "\n";
        if (stops)
        {
            // Many segments.
            yaml += version() > 400 ? "commitlog_segment_size: 1MiB\n" : "commitlog_segment_size_in_mb: 1\n";
            if (arguments[3].equals("batch"))
                yaml = yaml.replaceAll("commitlog_sync: .*\ncommitlog_sync_period.*: .*\n", "commitlog_sync: batch\n");
            if (!arguments[4].equals("none"))
                yaml += "commitlog_compression:\n  - class_name: " + arguments[4] + "\n";
        }
        Files.writeString(configuration, yaml);
        // Otherwise the daemon closes the standard output, and errors are not seen.
        System.setProperty("cassandra-foreground", "yes");
        System.setProperty("cassandra.start_native_transport", "false");
        System.setProperty("cassandra.ring_delay_ms", "100");
        System.setProperty("cassandra.skip_wait_for_gossip_to_settle", "0");
        System.setProperty("cassandra.superuser_setup_delay_ms", "0");
        // The drain flushes the schema, once: flushing it for each table takes longer than all writes.
        if (!stops)
            System.setProperty("cassandra.test.flush_local_schema_changes", "false");
        CassandraDaemon daemon = new CassandraDaemon(true);
        daemon.activate();
        // Counters are written by nodes that serve clients.
        StorageService.instance.setRpcReady(true);
        run("CREATE KEYSPACE random WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        for (int i = 0; i < 3; i++)
        {
            List<Column> fields = columns("f", 1 + random.nextInt(3), true);
            run("CREATE TYPE random.u" + i + " (" + join(fields.stream().map(c -> c.name + " " + c.type.cql)) + ")");
            UDTS.add(new Type("u" + i, () -> "{" + join(fields.stream().map(c -> c.name + ": " + orNull(c.type)))
                    + "}"));
        }
        List<String> results = new ArrayList<>();
        List<Table> tables = new ArrayList<>();
        // First: its changes of the schema flush tables.
        List<String> more = writeMore();
        for (int i = 0; i < Integer.parseInt(arguments[2]); i++)
            tables.add(create(i));
        // The small archives of stopped nodes do not have these.
        boolean hasEachType = !stops || tables.size() > 4;
        for (String type : hasEachType ? NATIVE.keySet() : Set.<String>of())
            tables.add(create(type, nativeType(type), nativeType(type), true));
        for (Type type : hasEachType ? UDTS : List.<Type>of())
        {
            Type frozen = frozen(true, type.cql, type.value);
            tables.add(create(type.cql, frozen, hasUnfrozenTypes() ? type : frozen, true));
        }
        if (hasDurations() && hasEachType)
            tables.add(create("duration", DURATION, DURATION, false));
        for (Table t : tables)
        {
            List<List<String>> keys = Stream.generate(() -> values(t.key)).limit(8).collect(Collectors.toList());
            List<List<String>> clusterings = Stream.generate(() -> values(t.clustering)).limit(6)
                    .collect(Collectors.toList());
            write(t, keys, clusterings, 50);
            flush(t.name.substring(7));
            write(t, keys, clusterings, 30);
        }
        for (Table t : tables)
        {
            List<Column> cells = new ArrayList<>(t.statics);
            cells.addAll(t.regular);
            Stream<String> times = Stream.of("writetime", "ttl").flatMap(f -> cells.stream()
                    .filter(c -> hasTimes(c.type.cql)).map(c -> f + "(" + c.name + ")"));
            Stream<String> names = Stream.of(t.key, t.clustering, cells).flatMap(List::stream).map(Column::name);
            results.add(record("SELECT " + join(Stream.concat(names, times)) + " FROM " + t.name));
        }
        more.forEach(query -> results.add(record(query)));
        results.add(record("SELECT * FROM random.of_base"));
        String json = "{\"data\": \"" + DatabaseDescriptor.getAllDataFileLocations()[0] + "\", \"taken_at\": "
                + System.currentTimeMillis() / 1000 + ", \"results\": [" + String.join(",\n", results) + "]}";
        Files.write(Paths.get(arguments[0]), json.getBytes(StandardCharsets.UTF_8));
        if (!stops)
            StorageService.instance.drain();
        Runtime.getRuntime().halt(0);
    }
}
