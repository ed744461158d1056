import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.QueryOptions;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * What YCSB's Cassandra binding does, which is not in Maven Central: one session for all threads, statements prepared once for
 * each set of fields, a blocking request at a time for each thread, QUORUM.
 */
public class CassandraClient extends DB {
  private static Session session;
  private static final Map<String, PreparedStatement> STATEMENTS = new ConcurrentHashMap<>();

  @Override
  public void init() {
    synchronized (CassandraClient.class) {
      if (session == null) {
        Cluster cluster = Cluster.builder()
            .addContactPoint(getProperties().getProperty("hosts"))
            .withPort(Integer.parseInt(getProperties().getProperty("port")))
            .withQueryOptions(new QueryOptions().setConsistencyLevel(ConsistencyLevel.QUORUM))
            .build();
        session = cluster.connect("ycsb");
      }
    }
  }

  /** Nothing: other threads may still use the session; it ends with the process. */
  @Override
  public void cleanup() {
  }

  private static PreparedStatement prepared(String cql) {
    return STATEMENTS.computeIfAbsent(cql, session::prepare);
  }

  private static String columns(Set<String> fields) {
    return fields == null ? "*" : String.join(", ", fields);
  }

  private static void take(Row row, Map<String, ByteIterator> into) {
    for (int column = 0; column < row.getColumnDefinitions().size(); column++) {
      ByteBuffer value = row.getBytesUnsafe(column);
      if (value != null) {
        byte[] bytes = new byte[value.remaining()];
        value.get(bytes);
        into.put(row.getColumnDefinitions().getName(column), new ByteArrayByteIterator(bytes));
      }
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    String cql = "SELECT " + columns(fields) + " FROM " + table + " WHERE y_id = ?";
    Row row = session.execute(prepared(cql).bind(key)).one();
    if (row == null) {
      return Status.NOT_FOUND;
    }
    take(row, result);
    return Status.OK;
  }

  @Override
  public Status scan(
      String table, String key, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    String cql = "SELECT " + columns(fields) + " FROM " + table + " WHERE token(y_id) >= token(?) LIMIT ?";
    ResultSet rows = session.execute(prepared(cql).bind(key, count));
    for (Row row : rows) {
      HashMap<String, ByteIterator> record = new HashMap<>();
      take(row, record);
      result.add(record);
    }
    return Status.OK;
  }

  private static void bind(BoundStatement statement, int first, Map<String, ByteIterator> values) {
    int at = first;
    for (ByteIterator value : values.values()) {
      statement.setString(at++, value.toString());
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    String places = String.join(", ", java.util.Collections.nCopies(values.size() + 1, "?"));
    String cql = "INSERT INTO " + table + " (y_id, " + String.join(", ", values.keySet()) + ") VALUES (" + places + ")";
    BoundStatement statement = prepared(cql).bind();
    statement.setString(0, key);
    bind(statement, 1, values);
    session.execute(statement);
    return Status.OK;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    String cql = "UPDATE " + table + " SET " + String.join(" = ?, ", values.keySet()) + " = ? WHERE y_id = ?";
    BoundStatement statement = prepared(cql).bind();
    bind(statement, 0, values);
    statement.setString(values.size(), key);
    session.execute(statement);
    return Status.OK;
  }

  @Override
  public Status delete(String table, String key) {
    session.execute(prepared("DELETE FROM " + table + " WHERE y_id = ?").bind(key));
    return Status.OK;
  }
}
