import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.*;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.data.*;
import com.datastax.oss.driver.api.core.metadata.schema.*;
import com.datastax.oss.driver.api.core.servererrors.*;
import com.datastax.oss.driver.api.core.type.*;

import java.math.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.time.*;
import java.util.*;
import java.util.stream.*;

/** The Java driver, unmodified, against the server at HOST PORT: one line a check, exit code 1 when one fails. */
public class DriverCheck {
  interface Check {
    void run(CqlSession session) throws Exception;
  }

  static int failed = 0;

  static void check(CqlSession session, String promise, Check check) {
    try {
      check.run(session);
      System.out.println("ok   " + promise);
    } catch (Throwable e) {
      failed++;
      System.out.println("FAIL " + promise + ": " + e);
      e.printStackTrace(System.out);
    }
  }

  static void equal(Object expected, Object found) {
    if (!Objects.equals(expected, found)) throw new AssertionError("expected " + expected + ", found " + found);
  }

  public static void main(String[] args) throws Exception {
    String keyspace = "java_" + UUID.randomUUID().toString().replace("-", "").substring(0, 12);
    var address = new InetSocketAddress(args[0], Integer.parseInt(args[1]));
    try (CqlSession session =
        CqlSession.builder()
            .addContactPoint(address)
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(DriverConfigLoader.programmaticBuilder()
                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(60))
                .build())
            .build()) {
      session.execute("CREATE KEYSPACE " + keyspace
          + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      session.execute("USE " + keyspace);
      check(session, "every scalar comes back as it was bound", DriverCheck::scalars);
      check(session, "collections, tuples and UDTs come back as they were bound", DriverCheck::nested);
      check(session, "pages hold every row once", DriverCheck::pages);
      check(session, "batches apply whole", DriverCheck::batches);
      check(session, "conditional writes say whether they applied", DriverCheck::conditions);
      check(session, "schema metadata follows the schema", s -> schema(s, keyspace));
      check(session, "a prepared statement follows an altered table", DriverCheck::altered);
      check(session, "errors have their class", DriverCheck::errors);
      session.execute("DROP KEYSPACE " + keyspace);
    }
    System.exit(failed == 0 ? 0 : 1);
  }

  static void scalars(CqlSession s) throws Exception {
    Map<String, Object> values = new LinkedHashMap<>();
    values.put("ascii", "plain");
    values.put("bigint", Long.MIN_VALUE);
    values.put("blob", ByteBuffer.wrap(new byte[] {0, -1}));
    values.put("boolean", true);
    values.put("date", LocalDate.of(-5, 3, 4));
    values.put("decimal", new BigDecimal("-123.456e-7"));
    values.put("double", 1.5e-300);
    values.put("duration", CqlDuration.newInstance(14, 3, 5_000_000_000L));
    values.put("float", -2.5f);
    values.put("inet", InetAddress.getByName("2001:db8::1"));
    values.put("int", Integer.MAX_VALUE);
    values.put("smallint", Short.MIN_VALUE);
    values.put("text", "ünï ☃");
    values.put("time", LocalTime.parse("08:12:54.123456789"));
    values.put("timestamp", Instant.parse("2021-03-04T05:06:07.089Z"));
    values.put("timeuuid", UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f"));
    values.put("tinyint", Byte.MIN_VALUE);
    values.put("uuid", UUID.fromString("123e4567-e89b-42d3-a456-426655440000"));
    values.put("varint", BigInteger.TEN.pow(40).negate());
    values.put("vector<float, 3>", CqlVector.newInstance(1f, -2.5f, 0f));
    List<String> names = IntStream.range(0, values.size()).mapToObj(i -> "c" + i).collect(Collectors.toList());
    Iterator<String> types = values.keySet().iterator();
    s.execute("CREATE TABLE scalars (k int PRIMARY KEY, "
        + names.stream().map(n -> n + " " + types.next()).collect(Collectors.joining(", ")) + ")");
    PreparedStatement insert = s.prepare("INSERT INTO scalars (k, " + String.join(", ", names) + ") VALUES (?"
        + ", ?".repeat(names.size()) + ")");
    List<Object> bound = new ArrayList<>(List.of(1));
    bound.addAll(values.values());
    s.execute(insert.bind(bound.toArray()));
    Row row = s.execute(s.prepare("SELECT " + String.join(", ", names) + " FROM scalars WHERE k = ?").bind(1)).one();
    int i = 0;
    for (Object value : values.values()) equal(value, row.getObject(i++));
  }

  static void nested(CqlSession s) {
    s.execute("CREATE TYPE place (street text, number int, tags frozen<set<text>>)");
    s.execute("CREATE TABLE nested (k int PRIMARY KEY, l list<int>, st set<text>, m map<text, bigint>,"
        + " t tuple<int, text>, p place, fp frozen<place>, d map<int, frozen<list<text>>>)");
    PreparedStatement insert =
        s.prepare("INSERT INTO nested (k, l, st, m, t, p, fp, d) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    var types = insert.getVariableDefinitions();
    TupleValue tuple = ((TupleType) types.get("t").getType()).newValue(1, "one");
    UdtValue place = ((UserDefinedType) types.get("fp").getType()).newValue("Main", 5, Set.of("a"));
    List<Object> values = List.of(List.of(3, 1, 2), Set.of("x", "y"), Map.of("a", 1L), tuple, place, place,
        Map.of(7, List.of("a", "b")));
    List<Object> bound = new ArrayList<>(List.of(1));
    bound.addAll(values);
    s.execute(insert.bind(bound.toArray()));
    Row row = s.execute("SELECT l, st, m, t, p, fp, d FROM nested WHERE k = 1").one();
    equal(values.get(0), row.getObject(0));
    equal(values.get(1), row.getObject(1));
    equal(values.get(2), row.getObject(2));
    equal("one", row.getTupleValue(3).getString(1));
    equal("Main", row.getUdtValue(4).getString("street"));
    equal(Set.of("a"), row.getUdtValue(5).getSet("tags", String.class));
    equal(values.get(6), row.getObject(6));
  }

  static void pages(CqlSession s) {
    s.execute("CREATE TABLE pages (k int, c int, PRIMARY KEY (k, c))");
    PreparedStatement insert = s.prepare("INSERT INTO pages (k, c) VALUES (?, ?)");
    for (int k = 0; k < 10; k++) for (int c = 0; c < 20; c++) s.execute(insert.bind(k, c));
    for (int size : new int[] {1, 7, 100, 5000}) {
      Set<List<Integer>> seen = new HashSet<>();
      int count = 0;
      for (Row row : s.execute(SimpleStatement.newInstance("SELECT k, c FROM pages").setPageSize(size))) {
        seen.add(List.of(row.getInt(0), row.getInt(1)));
        count++;
      }
      equal(200, count);
      equal(200, seen.size());
    }
  }

  static void batches(CqlSession s) {
    s.execute("CREATE TABLE batches (k int, c int, PRIMARY KEY (k, c))");
    PreparedStatement insert = s.prepare("INSERT INTO batches (k, c) VALUES (?, ?)");
    for (BatchType type : List.of(DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED)) {
      int k = type.getProtocolCode();
      BatchStatementBuilder batch = BatchStatement.builder(type);
      for (int c = 0; c < 30; c++) batch.addStatement(insert.bind(k, c));
      s.execute(batch.build());
      equal(30L, s.execute("SELECT count(*) FROM batches WHERE k = " + k).one().getLong(0));
    }
  }

  static void conditions(CqlSession s) {
    s.execute("CREATE TABLE conditions (k int PRIMARY KEY, v int)");
    equal(true, s.execute("INSERT INTO conditions (k, v) VALUES (1, 1) IF NOT EXISTS").wasApplied());
    ResultSet refused = s.execute("INSERT INTO conditions (k, v) VALUES (1, 2) IF NOT EXISTS");
    equal(false, refused.wasApplied());
    equal(1, refused.one().getInt("v"));
    PreparedStatement update = s.prepare("UPDATE conditions SET v = ? WHERE k = ? IF v = ?");
    equal(true, s.execute(update.bind(2, 1, 1)).wasApplied());
    equal(false, s.execute(update.bind(3, 1, 1)).wasApplied());
  }

  static void schema(CqlSession s, String keyspace) {
    s.execute("CREATE TABLE meta (a int, b text, c timeuuid, s int static, v map<text, int>, PRIMARY KEY ((a, b), c))"
        + " WITH CLUSTERING ORDER BY (c DESC) AND comment = 'noted'");
    KeyspaceMetadata metadata = s.refreshSchema().getKeyspace(keyspace).orElseThrow();
    TableMetadata table = metadata.getTable("meta").orElseThrow();
    equal(List.of("a", "b"),
        table.getPartitionKey().stream().map(c -> c.getName().asInternal()).collect(Collectors.toList()));
    equal(ClusteringOrder.DESC, table.getClusteringColumns().values().iterator().next());
    equal(true, table.getColumn("s").orElseThrow().isStatic());
    equal(DataTypes.mapOf(DataTypes.TEXT, DataTypes.INT), table.getColumn("v").orElseThrow().getType());
    s.execute("ALTER TABLE meta ADD extra blob");
    equal(true, s.refreshSchema().getKeyspace(keyspace).orElseThrow().getTable("meta").orElseThrow()
        .getColumn("extra").isPresent());
    equal(true, s.checkSchemaAgreement());
  }

  static void altered(CqlSession s) {
    s.execute("CREATE TABLE altered (k int PRIMARY KEY, v int)");
    PreparedStatement select = s.prepare("SELECT * FROM altered WHERE k = ?");
    s.execute("INSERT INTO altered (k, v) VALUES (1, 2)");
    equal(2, s.execute(select.bind(1)).one().getInt("v"));
    s.execute("ALTER TABLE altered ADD w text");
    s.execute("INSERT INTO altered (k, v, w) VALUES (1, 3, 'w')");
    Row row = s.execute(select.bind(1)).one();
    equal(3, row.getInt("v"));
    equal("w", row.getString("w"));
  }

  static void errors(CqlSession s) {
    try {
      s.execute("SELECT * FROM nosuch");
      throw new AssertionError("no error");
    } catch (InvalidQueryException expected) {
      equal("table nosuch does not exist", expected.getMessage());
    }
    try {
      s.execute("SELEC");
      throw new AssertionError("no error");
    } catch (SyntaxError expected) {
      // The class is the promise; the text is judged elsewhere.
    }
    s.execute("CREATE TABLE twice (k int PRIMARY KEY)");
    try {
      s.execute("CREATE TABLE twice (k int PRIMARY KEY)");
      throw new AssertionError("no error");
    } catch (AlreadyExistsException expected) {
      // As above.
    }
  }
}
