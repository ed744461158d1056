import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.*;
import org.apache.cassandra.cql3.statements.schema.AlterSchemaStatement;
import org.apache.cassandra.db.*;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.*;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.*;
import org.apache.cassandra.io.sstable.format.*;
import org.apache.cassandra.io.sstable.metadata.*;
import org.apache.cassandra.io.util.*;
import org.apache.cassandra.schema.*;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.tools.JsonTransformer;
import org.apache.cassandra.tools.Util;
import org.apache.cassandra.utils.OutputHandler;

/**
 * Judges SSTables with Cassandra's own code, offline; the test `oracle.rs` compiles and runs it.
 *
 *   SSTableCheck SCHEMA ROOT [ORIGINAL | compacted]
 *
 * SCHEMA holds CREATE and ALTER statements. ROOT/<keyspace>/<table>-<id>/ holds copies of SSTables: they are moved into a
 * private data directory. What each of them goes through:
 *   open        Summary and Filter must be taken as they are
 *   dump        what sstabledump prints, kept as ROOT/<keyspace>/<table>-<id>/<name>.json; equal to that of the SSTable of the same
 *               name below ORIGINAL, if there is one
 *   verify      what sstableverify --extended does
 *   deep        every key is found through Filter, Summary and Index; every row through the promoted index, both ways; then
 *               Cassandra's writer writes the rows anew, and Data, Index, Summary, Filter and the statistics must be equal
 * SSTables that were `compacted` have filters for as many keys as there were at most, and levels: these are not compared.
 * Prints lines that begin with ok, note or FAIL; exits with 0 if nothing failed.
 */
public class SSTableCheck
{
    static int bad = 0;
    static boolean compacted = false;

    static void fail(String f, Object... a) { bad++; System.out.println("FAIL " + String.format(f, a)); }
    static void ok(String f, Object... a) { System.out.println("ok   " + String.format(f, a)); }

    static List<String> statements(String cql)
    {
        List<String> out = new ArrayList<>();
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < cql.length(); i++)
        {
            char c = cql.charAt(i);
            if (cql.startsWith("--", i) || cql.startsWith("//", i))
            {
                while (i < cql.length() && cql.charAt(i) != '\n') i++;
                b.append('\n');
            }
            else if (cql.startsWith("/*", i))
                i = cql.indexOf("*/", i) + 1;
            else if (c == '\'' || c == '"')
            {
                int j = cql.indexOf(c, i + 1);
                b.append(cql, i, j + 1);
                i = j;
            }
            else if (c == ';')
            {
                out.add(b.toString().trim());
                b.setLength(0);
            }
            else
                b.append(c);
        }
        out.add(b.toString().trim());
        out.removeIf(s -> s.isEmpty() || s.toUpperCase().startsWith("USE "));
        return out;
    }

    static void loadSchema(String file) throws Exception
    {
        Util.initDatabaseDescriptor();
        Keyspaces before = Schema.instance.distributedKeyspaces();
        ClientState state = ClientState.forInternalCalls();
        for (String s : statements(Files.readString(Paths.get(file))))
        {
            CQLStatement st = QueryProcessor.parseStatement(s, state);
            st.validate(state);
            Schema.instance.transform((SchemaTransformation) st);
        }
        Keyspaces after = Schema.instance.distributedKeyspaces();
        // The verifier reads its schema from the system_schema tables: write SSTables of these, before that keyspace is opened.
        java.lang.reflect.Method m = SchemaKeyspace.class.getDeclaredMethod("convertSchemaDiffToMutations", Keyspaces.KeyspacesDiff.class, long.class);
        m.setAccessible(true);
        Map<TableMetadata, TreeMap<DecoratedKey, PartitionUpdate>> updates = new LinkedHashMap<>();
        for (Object mut : (Collection<?>) m.invoke(null, Keyspaces.diff(before, after), 1L))
            for (PartitionUpdate u : ((Mutation) mut).getPartitionUpdates())
                updates.computeIfAbsent(u.metadata(), k -> new TreeMap<>()).put(u.partitionKey(), u);
        for (Map.Entry<TableMetadata, TreeMap<DecoratedKey, PartitionUpdate>> e : updates.entrySet())
        {
            TableMetadata md = e.getKey();
            Path to = new Directories(md).getDirectoryForNewSSTables().toPath();
            Files.createDirectories(to);
            SSTableFormat<?, ?> format = DatabaseDescriptor.getSelectedSSTableFormat();
            Descriptor d = new Descriptor(new org.apache.cassandra.io.util.File(to), md.keyspace, md.name, new SequenceBasedSSTableId(1), format);
            EncodingStats stats = EncodingStats.merge(new ArrayList<>(e.getValue().values()), PartitionUpdate::stats);
            try (LifecycleTransaction txn = LifecycleTransaction.offline(OperationType.WRITE))
            {
                SSTableWriter w = format.getWriterFactory().builder(d).setTableMetadataRef(TableMetadataRef.forOfflineTools(md)).setKeyCount(e.getValue().size())
                                        .setRepairedAt(0).setPendingRepair(null).setTransientSSTable(false).setMetadataCollector(new MetadataCollector(md.comparator, null))
                                        .setSerializationHeader(new SerializationHeader(true, md, md.regularAndStaticColumns(), stats))
                                        .addDefaultComponents(Collections.emptySet()).build(txn, null);
                for (PartitionUpdate u : e.getValue().values())
                    try (UnfilteredRowIterator it = u.unfilteredIterator()) { w.append(it); }
                w.finish(false);
                txn.finish();
            }
        }
    }

    static Path place(TableMetadata md, File dir) throws Exception
    {
        Path to = new Directories(md).getDirectoryForNewSSTables().toPath();
        Files.createDirectories(to);
        for (File f : dir.listFiles(f -> f.isFile() && f.getName().matches("[a-z]{2}-.*-big-.*")))
            Files.copy(f.toPath(), to.resolve(f.getName()), StandardCopyOption.REPLACE_EXISTING);
        return to;
    }

    static List<Descriptor> descriptors(ColumnFamilyStore cfs)
    {
        List<Descriptor> ds = new ArrayList<>(cfs.getDirectories().sstableLister(Directories.OnTxnErr.THROW).skipTemporary(true).list().keySet());
        ds.sort(Comparator.comparing(d -> d.baseFile().name()));
        return ds;
    }

    static String dump(SSTableReader r, TableMetadata md) throws Exception
    {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (ISSTableScanner scanner = r.getScanner())
        {
            JsonTransformer.toJson(scanner, Util.iterToStream(scanner), true, md, out);
        }
        return out.toString(StandardCharsets.UTF_8);
    }

    /** What counters come to: a line with key, clustering (or -), column and total for each. */
    static void counters(SSTableReader r, TableMetadata md) throws Exception
    {
        try (ISSTableScanner scanner = r.getScanner())
        {
            while (scanner.hasNext())
                try (UnfilteredRowIterator it = scanner.next())
                {
                    String key = md.partitionKeyType.getString(it.partitionKey().getKey());
                    counters(key, "-", it.staticRow());
                    while (it.hasNext())
                    {
                        Unfiltered u = it.next();
                        if (u.isRow()) counters(key, md.comparator.subtype(0).getString(((Row) u).clustering().bufferAt(0)), (Row) u);
                    }
                }
        }
    }

    static void counters(String key, String clustering, Row row)
    {
        for (Cell<?> c : row.cells())
            if (!c.isTombstone())
                System.out.println("COUNT " + key + " " + clustering + " " + c.column().name + " " + CounterContext.instance().total(c));
    }

    public static void main(String[] a) throws Exception
    {
        try
        {
            loadSchema(a[0]);
            compacted = a.length > 2 && a[2].equals("compacted");
            for (File ks : new File(a[1]).listFiles(File::isDirectory))
                for (File dir : ks.listFiles(File::isDirectory))
                    table(ks.getName(), dir, a.length > 2 && !compacted ? new File(a[2]) : null);
        }
        catch (Throwable t)
        {
            t.printStackTrace(System.out);
            fail("%s", t);
        }
        System.exit(bad == 0 ? 0 : 1);
    }

    static void table(String ks, File dir, File original) throws Exception
    {
        String table = dir.getName().substring(0, dir.getName().lastIndexOf('-'));
        TableMetadata md = Schema.instance.getTableMetadata(ks, table);
        if (md == null) throw new RuntimeException("the schema has no table " + ks + "." + table);
        Path where = place(md, dir);
        ColumnFamilyStore cfs = Keyspace.openWithoutSSTables(ks).getColumnFamilyStore(table);
        List<Descriptor> ds = descriptors(cfs);
        if (ds.isEmpty()) fail("no SSTables were recognised in %s", where);
        for (Descriptor d : ds)
        {
            String name = d.baseFile().name();
            try
            {
                Map<String, byte[]> orig = new TreeMap<>();
                for (String c : new String[]{ "Summary.db", "Filter.db" })
                {
                    Path p = Paths.get(d.baseFile().path() + "-" + c);
                    if (Files.exists(p)) orig.put(c, Files.readAllBytes(p));
                }
                SSTableReader r = SSTableReader.open(cfs, d, null, cfs.metadata);
                for (String c : orig.keySet())
                    if (!Arrays.equals(orig.get(c), Files.readAllBytes(Paths.get(d.baseFile().path() + "-" + c))))
                        fail("%s %s: Cassandra rejected %s and rebuilt it", dir.getName(), name, c);
                // Cassandra 5.0.8 cannot print tuples that lack items (its own SSTables of that table neither).
                if (!table.equals("tuple_short"))
                {
                    String json = dump(r, md);
                    Files.writeString(dir.toPath().resolve(name + ".json"), json);
                    File like = original == null ? null : new File(new File(new File(original, ks), dir.getName()), name + ".json");
                    if (like != null && like.exists() && !json.equals(Files.readString(like.toPath())))
                        fail("%s %s: the dump differs from that of the original", dir.getName(), name);
                }
                ok("%s %s: dumped", dir.getName(), name);
                if (md.isCounter()) counters(r, md);
                IVerifier.Options options = IVerifier.options().invokeDiskFailurePolicy(false).extendedVerification(true).build();
                try (IVerifier verifier = r.getVerifier(cfs, new OutputHandler.SystemOutput(false, false), true, options)) { verifier.verify(); }
                ok("%s %s: verified", dir.getName(), name);
                deep(cfs, r);
                r.selfRef().release();
            }
            catch (Throwable t)
            {
                t.printStackTrace(System.out);
                fail("%s %s: %s", dir.getName(), name, t);
            }
        }
    }

    static String show(Unfiltered u, TableMetadata md) { return u.toString(md, false, true); }

    static void deep(ColumnFamilyStore cfs, SSTableReader r) throws Exception
    {
        TableMetadata md = cfs.metadata();
        String name = r.descriptor.baseFile().name();
        Map<DecoratedKey, List<Unfiltered>> all = new LinkedHashMap<>();
        DecoratedKey prev = null;
        long rows = 0;
        try (ISSTableScanner sc = r.getScanner())
        {
            while (sc.hasNext())
                try (UnfilteredRowIterator it = sc.next())
                {
                    if (prev != null && prev.compareTo(it.partitionKey()) >= 0) fail("%s: partitions out of order at %s", name, it.partitionKey());
                    prev = it.partitionKey();
                    md.partitionKeyType.validate(prev.getKey());
                    if (!it.staticRow().isEmpty()) it.staticRow().validateData(md);
                    List<Unfiltered> us = new ArrayList<>();
                    boolean open = false;
                    while (it.hasNext())
                    {
                        Unfiltered u = it.next();
                        u.validateData(md);
                        md.comparator.validate(u.clustering());
                        if (!us.isEmpty() && md.comparator.compare(us.get(us.size() - 1), u) >= 0) fail("%s: unfiltereds out of order: %s", name, show(u, md));
                        if (u.isRangeTombstoneMarker())
                        {
                            RangeTombstoneMarker m = (RangeTombstoneMarker) u;
                            if (m.isClose(false) != open) fail("%s: unpaired range tombstone marker %s", name, show(u, md));
                            open = m.isOpen(false);
                        }
                        us.add(u);
                        rows++;
                    }
                    if (open) fail("%s: a range tombstone is left open in %s", name, prev);
                    all.put(prev, us);
                }
        }
        ok("%s: %d partitions, %d rows and markers scanned", name, all.size(), rows);

        int slices = 0, absent = 0, tries = 20000;
        for (Map.Entry<DecoratedKey, List<Unfiltered>> e : all.entrySet())
        {
            DecoratedKey k = e.getKey();
            List<Unfiltered> us = e.getValue();
            if (!r.mayContainAssumingKeyIsInRange(k)) fail("%s: the filter denies %s", name, k);
            if (r.getPosition(k, SSTableReader.Operator.EQ) < 0) { fail("%s: no index entry for %s", name, k); continue; }
            ColumnFilter cf = ColumnFilter.all(md);
            List<String> want = us.stream().map(u -> show(u, md)).collect(Collectors.toList());
            List<String> got = new ArrayList<>(), back = new ArrayList<>(), wantRows = new ArrayList<>();
            try (UnfilteredRowIterator it = r.rowIterator(k, Slices.ALL, cf, false, SSTableReadsListener.NOOP_LISTENER))
            {
                while (it.hasNext()) got.add(show(it.next(), md));
            }
            if (!got.equals(want)) fail("%s: a read through the index differs from the scan in %s", name, k);
            for (Unfiltered u : us) if (u.isRow()) wantRows.add(show(u, md));
            Collections.reverse(wantRows);
            try (UnfilteredRowIterator it = r.rowIterator(k, Slices.ALL, cf, true, SSTableReadsListener.NOOP_LISTENER))
            {
                while (it.hasNext()) { Unfiltered u = it.next(); if (u.isRow()) back.add(show(u, md)); }
            }
            if (!back.equals(wantRows)) fail("%s: a reversed read differs in %s", name, k);
            if (md.comparator.size() > 0)
            {
                TreeSet<Integer> picks = new TreeSet<>();
                for (int i = 0; i < us.size(); i += Math.max(1, us.size() / 300)) picks.add(i);
                if (!us.isEmpty()) picks.add(us.size() - 1);
                for (int i : picks)
                {
                    Unfiltered u = us.get(i);
                    if (!u.isRow()) continue;
                    for (boolean rev : new boolean[]{ false, true })
                    {
                        slices++;
                        List<String> s = new ArrayList<>();
                        try (UnfilteredRowIterator it = r.rowIterator(k, Slices.with(md.comparator, Slice.make((Clustering<?>) u.clustering())), cf, rev, SSTableReadsListener.NOOP_LISTENER))
                        {
                            while (it.hasNext()) { Unfiltered x = it.next(); if (x.isRow()) s.add(show(x, md)); }
                        }
                        if (!s.equals(Collections.singletonList(show(u, md)))) fail("%s: slice of one row %s found %s", name, show(u, md), s);
                    }
                }
            }
        }
        Random rnd = new Random(1);
        for (int i = 0; i < tries; i++)
        {
            byte[] b = new byte[16];
            rnd.nextBytes(b);
            if (r.mayContainAssumingKeyIsInRange(md.partitioner.decorateKey(ByteBuffer.wrap(b)))) absent++;
        }
        ok("%s: every key found through filter, summary and index; %d one-row slices; filter passes %.4f of absent keys (chance %.4f)",
           name, slices, absent / (double) tries, md.params.bloomFilterFpChance);

        if (md.droppedColumns.values().stream().anyMatch(dc -> r.header.columns().contains(dc.column) || r.header.columns().iterator().hasNext() && StreamSupport.stream(r.header.columns().spliterator(), false).anyMatch(c -> c.name.equals(dc.column.name))))
        {
            System.out.println("note " + name + ": has columns that the schema drops or dropped; Cassandra's rewrite would lose old cells of these, so it is not compared");
            return;
        }
        // Rewrite with Cassandra's writer, using this SSTable's own header, and compare the components.
        Descriptor nd = new Descriptor(r.descriptor.version, new org.apache.cassandra.io.util.File(Files.createDirectories(r.descriptor.directory.toPath().resolve("rewrite"))), md.keyspace, md.name, new SequenceBasedSSTableId(1));
        MetadataCollector mc = new MetadataCollector(md.comparator, r.getSSTableMetadata().originatingHostId).commitLogIntervals(r.getSSTableMetadata().commitLogIntervals);
        SSTableReader w;
        try (LifecycleTransaction txn = LifecycleTransaction.offline(OperationType.SCRUB))
        {
            SSTableWriter wr = nd.getFormat().getWriterFactory().builder(nd).setTableMetadataRef(cfs.metadata).setKeyCount(all.size())
                                 .setRepairedAt(r.getSSTableMetadata().repairedAt).setPendingRepair(null).setTransientSSTable(false).setMetadataCollector(mc)
                                 .setSerializationHeader(new SerializationHeader(true, md, r.header.columns(), r.header.stats()))
                                 .addDefaultComponents(Collections.emptySet()).build(txn, cfs);
            try (ISSTableScanner sc = r.getScanner())
            {
                while (sc.hasNext())
                    try (UnfilteredRowIterator it = sc.next()) { wr.append(it); }
            }
            w = wr.finish(true);
            try (RandomAccessReader x = r.openDataReader(); RandomAccessReader y = w.openDataReader())
            {
                byte[] p = read(x), q = read(y);
                same(name, "Data.db (uncompressed)", p, q);
            }
            String from = r.descriptor.baseFile().path() + "-", to = nd.baseFile().path() + "-";
            for (String c : new String[]{ "Index.db", "Summary.db", "Filter.db" })
            {
                if (compacted && c.equals("Filter.db")) continue;
                Path p = Paths.get(from + c), q = Paths.get(to + c);
                if (!Files.exists(p) && !Files.exists(q)) continue;
                if (!Files.exists(p) || !Files.exists(q)) { fail("%s: %s exists only in one of this SSTable and its rewrite", name, c); continue; }
                same(name, c, Files.readAllBytes(p), Files.readAllBytes(q));
            }
            Map<MetadataType, MetadataComponent> s1 = r.descriptor.getMetadataSerializer().deserialize(r.descriptor, EnumSet.allOf(MetadataType.class));
            Map<MetadataType, MetadataComponent> s2 = nd.getMetadataSerializer().deserialize(nd, EnumSet.allOf(MetadataType.class));
            StatsMetadata p = (StatsMetadata) s1.get(MetadataType.STATS), q = (StatsMetadata) s2.get(MetadataType.STATS);
            List<String> diff = new ArrayList<>();
            for (java.lang.reflect.Field f : StatsMetadata.class.getFields())
            {
                if (java.lang.reflect.Modifier.isStatic(f.getModifiers()) || f.getName().equals("compressionRatio") || f.getName().equals("encodingStats")) continue;
                Object u = f.get(p), v = f.get(q);
                if (f.getName().equals("clusteringTypes") || compacted && f.getName().equals("sstableLevel")) continue;
                if (!String.valueOf(u).equals(String.valueOf(v)) && !Objects.equals(u, v)) diff.add(f.getName() + ": " + u + " / Cassandra: " + v);
            }
            if (!Objects.equals(((ValidationMetadata) s1.get(MetadataType.VALIDATION)).bloomFilterFPChance, md.params.bloomFilterFpChance)) diff.add("bloomFilterFPChance in the validation part");
            long c1 = ((CompactionMetadata) s1.get(MetadataType.COMPACTION)).cardinalityEstimator.cardinality(), c2 = ((CompactionMetadata) s2.get(MetadataType.COMPACTION)).cardinalityEstimator.cardinality();
            if (c1 != c2) diff.add("cardinality: " + c1 + " / Cassandra: " + c2);
            String h1 = String.valueOf(s1.get(MetadataType.HEADER)), h2 = String.valueOf(s2.get(MetadataType.HEADER));
            if (!h1.equals(h2)) System.out.println("note " + name + ": header " + h1 + " / from the schema: " + h2);
            if (diff.isEmpty()) ok("%s: Statistics.db as Cassandra would write it", name);
            else fail("%s: Statistics.db differs: %s", name, String.join("; ", diff));
            w.selfRef().release();
        }
    }

    static byte[] read(RandomAccessReader r) throws Exception
    {
        byte[] b = new byte[(int) r.length()];
        r.readFully(b);
        return b;
    }

    static void same(String name, String what, byte[] p, byte[] q)
    {
        if (Arrays.equals(p, q)) { ok("%s: %s is byte for byte what Cassandra writes (%d bytes)", name, what, p.length); return; }
        int i = Arrays.mismatch(p, q);
        fail("%s: %s differs from Cassandra's at byte %d (%d bytes, Cassandra's has %d): %s / %s", name, what, i, p.length, q.length, hex(p, i), hex(q, i));
    }

    static String hex(byte[] b, int i)
    {
        StringBuilder s = new StringBuilder();
        for (int j = Math.max(0, i - 8); j < Math.min(b.length, i + 16); j++) s.append(j == i ? "|" : "").append(String.format("%02x", b[j]));
        return s.toString();
    }
}
