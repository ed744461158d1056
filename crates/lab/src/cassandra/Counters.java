import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import javax.management.JMException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Metrics that Cassandra exposes by JMX only. Arguments: the cluster's directory, and the nodes' JMX ports on 127.0.0.1. Prints one
 * line for each line that it reads: `name=value name=value ...`, summed over nodes and user tables. Nodes that do not respond are
 * omitted.
 *
 * The process that writes the lines ends this program when it stops the nodes itself. The end of the input therefore means that it was
 * killed: this program then stops the nodes, whose process ids are in node1/pid and so on.
 */
public class Counters {
  private static final String TABLES = "org.apache.cassandra.metrics:type=Table,keyspace=%s,scope=%s,name=%s";
  private static final String TABLE = "org.apache.cassandra.db:type=Tables,keyspace=%s,table=%s";

  /** How long a node may take to stop in order. */
  private static final long STOP_SECONDS = 60;

  private final MBeanServerConnection node;
  private final Map<String, Double> counters;

  private Counters(MBeanServerConnection node, Map<String, Double> counters) {
    this.node = node;
    this.counters = counters;
  }

  public static void main(String[] arguments) throws IOException {
    respond(Arrays.copyOfRange(arguments, 1, arguments.length));
    stop(Path.of(arguments[0]));
  }

  private static void respond(String[] ports) throws IOException {
    MBeanServerConnection[] nodes = new MBeanServerConnection[ports.length];
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    while (requests.readLine() != null) {
      Map<String, Double> counters = new TreeMap<>();
      for (int index = 0; index < ports.length; index++) {
        try {
          if (nodes[index] == null) {
            String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + ports[index] + "/jmxrmi";
            nodes[index] = JMXConnectorFactory.connect(new JMXServiceURL(url)).getMBeanServerConnection();
          }
          new Counters(nodes[index], counters).sample();
        } catch (IOException | JMException | RuntimeException gone) {
          // A node that was restarted needs a new connection.
          nodes[index] = null;
        }
      }
      StringBuilder line = new StringBuilder();
      counters.forEach((name, value) -> line.append(name).append('=').append(value).append(' '));
      System.out.println(line);
    }
  }

  private static void stop(Path cluster) throws IOException {
    List<ProcessHandle> nodes = new ArrayList<>();
    try (DirectoryStream<Path> directories = Files.newDirectoryStream(cluster, "node*")) {
      for (Path directory : directories) {
        Path pid = directory.resolve("pid");
        if (Files.exists(pid)) {
          ProcessHandle.of(Long.parseLong(Files.readString(pid).trim())).filter(Counters::isNode).ifPresent(nodes::add);
        }
      }
    }
    nodes.forEach(ProcessHandle::destroy);
    for (ProcessHandle node : nodes) {
      try {
        node.onExit().get(STOP_SECONDS, TimeUnit.SECONDS);
      } catch (Exception late) {
        node.destroyForcibly();
      }
    }
  }

  /** Whether the number is still that of a Cassandra. */
  private static boolean isNode(ProcessHandle process) {
    try {
      byte[] command = Files.readAllBytes(Path.of("/proc", Long.toString(process.pid()), "cmdline"));
      return new String(command, StandardCharsets.ISO_8859_1).contains("org.apache.cassandra.service.CassandraDaemon");
    } catch (IOException gone) {
      return false;
    }
  }

  private void sample() throws IOException, JMException {
    for (ObjectName collector : node.queryNames(new ObjectName("java.lang:type=GarbageCollector,*"), null)) {
      String name = collector.getKeyProperty("name");
      // Concurrent marking stops nothing for long; what it costs is processor time.
      String what = name.contains("Concurrent") ? "gc_concurrent" : "gc";
      add(what + "_count_total", number(collector, "CollectionCount"));
      add(what + "_seconds_total", number(collector, "CollectionTime") / 1e3);
    }
    for (String request : new String[] {"Read", "Write", "RangeSlice"}) {
      String scope = "org.apache.cassandra.metrics:type=ClientRequest,scope=" + request + ",name=";
      add("timeouts_total", number(new ObjectName(scope + "Timeouts"), "Count"));
    }
    String compaction = "org.apache.cassandra.metrics:type=Compaction,name=";
    add("compactions_pending", number(new ObjectName(compaction + "PendingTasks"), "Value"));
    add("compactions_total", number(new ObjectName(compaction + "CompletedTasks"), "Value"));
    for (String[] table : tables()) {
      for (String[] metric : new String[][] {
        {"sstables", "LiveSSTableCount", "Value"},
        {"disk_bytes", "LiveDiskSpaceUsed", "Count"},
        {"memtable_bytes", "AllMemtablesHeapSize", "Value"},
        {"flushes_total", "MemtableSwitchCount", "Count"},
        {"flushed_bytes_total", "BytesFlushed", "Count"},
        {"compacted_bytes_total", "CompactionBytesWritten", "Count"},
        {"bloom_filter_false_positives_total", "BloomFilterFalsePositives", "Value"},
        {"table_reads_total", "ReadLatency", "Count"},
        {"table_read_us_total", "ReadTotalLatency", "Count"},
      }) {
        add(metric[0], number(new ObjectName(String.format(TABLES, table[0], table[1], metric[1])), metric[2]));
      }
      // JMX has no sum of a histogram: the mean of the last minutes stands for that of the phase.
      ObjectName reads = new ObjectName(String.format(TABLES, table[0], table[1], "SSTablesPerReadHistogram"));
      counters.merge("sstables_per_read_recent", number(reads, "Mean"), Math::max);
      add("sstables_unleveled", unleveled(new ObjectName(String.format(TABLE, table[0], table[1]))));
    }
  }

  /** SSTables of level 0, where there are levels. */
  private double unleveled(ObjectName table) throws IOException, JMException {
    Object levels = node.getAttribute(table, "SSTableCountPerLevel");
    return levels instanceof int[] && ((int[]) levels).length > 0 ? ((int[]) levels)[0] : 0;
  }

  private TreeSet<String[]> tables() throws IOException, JMException {
    TreeSet<String[]> tables = new TreeSet<>((a, b) -> String.join(".", a).compareTo(String.join(".", b)));
    for (ObjectName name : node.queryNames(new ObjectName("org.apache.cassandra.db:type=Tables,*"), null)) {
      String keyspace = name.getKeyProperty("keyspace");
      if (!keyspace.equals("system") && !keyspace.startsWith("system_")) {
        tables.add(new String[] {keyspace, name.getKeyProperty("table")});
      }
    }
    return tables;
  }

  /** A metric; NaN if this version does not have it. */
  private double number(ObjectName bean, String attribute) throws IOException {
    try {
      Object value = node.getAttribute(bean, attribute);
      return value instanceof Number ? ((Number) value).doubleValue() : Double.NaN;
    } catch (JMException missing) {
      return Double.NaN;
    }
  }

  private void add(String name, double value) {
    if (!Double.isNaN(value)) {
      counters.merge(name, value, Double::sum);
    }
  }
}
