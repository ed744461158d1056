//! The admin endpoint over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cassette_admin_api::{NodeReport, TableReport, TopPartitions};
use cassette_database::Database;
use cassette_server::admin::{Access, Admin, Limits, LogLevels};
use cassette_server::{Server, ServerConfig};
use serde_json::{Value, json};

#[derive(Default)]
struct Levels(Mutex<Vec<(String, String)>>);

impl LogLevels for Levels {
    fn levels(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }

    fn set(&self, target: &str, level: &str) -> Result<(), String> {
        if level == "LOUD" {
            return Err("no such level".to_owned());
        }
        self.0.lock().unwrap().push((target.to_owned(), level.to_owned()));
        Ok(())
    }
}

struct Endpoint {
    address: SocketAddr,
    database: Database,
    _runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

impl Endpoint {
    fn new() -> Self {
        Self::within(Limits::new(64))
    }

    fn within(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("db")).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
        let server = runtime.block_on(Server::bind(config, Arc::new(database.clone()))).unwrap();
        let drain = || panic!("the drain panics");
        let admin = Admin::new(
            database.clone(),
            server.metrics(),
            Arc::new(Levels::default()),
            Access::default(),
            drain,
        );
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(server.serve(std::future::pending()));
        runtime.spawn(admin.serve_within(listener, limits, std::future::pending()));
        Self { address, database, _runtime: runtime, _directory: directory }
    }

    /// Sends a request with these header lines, and returns status and body.
    fn send(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(stream, "{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", self.address), "")
    }

    fn operate(&self, operation: Value) -> (u16, Value) {
        let head = format!(
            "POST /v1/operations HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n",
            self.address
        );
        let (status, body) = self.send(&head, &operation.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }
}

#[test]
fn storage_attached_indexes_show_what_they_were_asked_and_what_they_take() {
    let endpoint = Endpoint::new();
    let session = endpoint.database.session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w text, x int)",
        "CREATE INDEX v ON ks.t (v) USING 'sai'",
        "CREATE INDEX w ON ks.t (w) USING 'sai'",
        "CREATE INDEX x ON ks.t (x)",
        "INSERT INTO ks.t (k, v, w, x) VALUES (1, 7, 'seven', 7)",
        "INSERT INTO ks.t (k, v, w, x) VALUES (2, 7, 'seven', 7)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    let tables = || -> Vec<TableReport> {
        let tables: Vec<TableReport> = serde_json::from_str(&endpoint.get("/v1/tables").1).unwrap();
        tables.into_iter().filter(|table| table.keyspace == "ks").collect()
    };
    let indexes = || tables().into_iter().find_map(|table| table.attached_indexes).unwrap();
    let before = indexes();
    assert_eq!((before.indexes, before.queryable, before.disk_bytes), (2, 2, 0));
    assert_eq!((before.queries.count, before.queries.mean, before.filtering.mean), (0, None, None));
    endpoint.database.engine().flush(None).unwrap();
    session.execute("SELECT * FROM ks.t WHERE v = 7", ()).unwrap();
    session.execute("SELECT * FROM ks.t WHERE v = 8", ()).unwrap();
    session.execute("SELECT * FROM ks.t WHERE x = 7", ()).unwrap();
    let after = indexes();
    assert_eq!((after.queries.count, after.filtering.count), (2, 2));
    assert_eq!((after.sstables_hit.sum, after.rows_filtered.sum, after.rows_filtered.max), (1, 2, 2));
    let hidden: u64 = tables()
        .iter()
        .filter(|table| table.is_index && table.table != "t.x")
        .map(|table| table.live_bytes)
        .sum();
    assert!(hidden > 0);
    assert_eq!(after.disk_bytes, hidden);
    let (_, metrics) = endpoint.get("/metrics");
    let queries = "cassette_table_sai_query_latency_seconds_count{keyspace=\"ks\",table=\"t\"} 2\n";
    assert!(metrics.contains(queries), "{metrics}");
}

/// Returns the value of a metric without labels.
fn value_of(metrics: &str, name: &str) -> Option<u64> {
    let (_, rest) = metrics.split_once(&format!("\n{name} "))?;
    rest.lines().next()?.parse().ok()
}

#[test]
fn metrics_follow_statements_and_operations_follow_requests() {
    let endpoint = Endpoint::new();
    let session = endpoint.database.session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
        "INSERT INTO ks.t (k, v) VALUES (1, 'x')",
        "SELECT * FROM ks.t WHERE k = 1",
    ] {
        session.execute(statement, ()).unwrap();
    }
    let table = || {
        let (status, body) = endpoint.get("/v1/tables");
        assert_eq!(status, 200, "{body}");
        let tables: Vec<TableReport> = serde_json::from_str(&body).unwrap();
        tables.into_iter().find(|table| table.keyspace == "ks").unwrap()
    };
    let before = table();
    assert_eq!((before.sstables, before.read.count, before.write.count), (0, 1, 1));
    assert_eq!((before.memtable_operations, before.partition_bytes), (1, None));
    let (status, done) = endpoint.operate(json!({"operation": "flush", "keyspace": "ks", "tables": ["t"]}));
    assert_eq!((status, done), (200, json!({"messages": []})));
    assert_eq!((table().sstables, table().flushes, table().memtable_operations), (1, 1, 0));
    assert_eq!(table().partition_bytes.unwrap().count, 1);
    assert_eq!(endpoint.operate(json!({"operation": "compact", "keyspace": "ks"})).0, 200);
    assert_eq!(table().compactions, 1);

    let (endpoint, session) = (&endpoint, endpoint.database.session());
    let mut rounds = 0;
    std::thread::scope(|scope| {
        let sampled =
            scope.spawn(|| endpoint.get("/v1/top_partitions?keyspace=ks&millis=700&capacity=9&top=3"));
        while !sampled.is_finished() {
            rounds += 1;
            session.execute("SELECT * FROM ks.t WHERE k = 1", ()).unwrap();
            session.execute("INSERT INTO ks.t (k, v) VALUES (2, 'y')", ()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let (status, found) = sampled.join().unwrap();
        let found: TopPartitions = serde_json::from_str(&found).unwrap();
        assert_eq!(status, 200);
        let most = |name: &str| (&*found.samplers[name][0].table, &*found.samplers[name][0].partition);
        assert_eq!((most("READS"), most("WRITES")), (("ks.t", "1"), ("ks.t", "2")));
        assert_eq!(
            (found.samplers["READ_SSTABLE_COUNT"][0].count, found.samplers["WRITE_SIZE"][0].count),
            (1, 1)
        );
    });

    let node: NodeReport = serde_json::from_str(&endpoint.get("/v1/node").1).unwrap();
    assert_eq!(
        (node.requests["Read"].latency.count, node.requests["Write"].latency.count),
        (rounds + 1, rounds + 1)
    );
    assert_eq!(node.percent_repaired, 100.0, "of one replica there is nothing to repair");
    assert!(node.load_bytes > 0 && node.memory_bytes > 0 && node.memory_max_bytes > node.memory_bytes);
    assert!(node.pools.iter().any(|pool| pool.name == "MemtableFlushWriter" && pool.completed >= 1));

    let (status, metrics) = endpoint.get("/metrics");
    assert_eq!(status, 200);
    let reads =
        format!("cassette_table_read_latency_seconds_count{{keyspace=\"ks\",table=\"t\"}} {}\n", rounds + 1);
    assert!(metrics.contains(&reads), "{metrics}");
    assert!(metrics.contains("\ncassette_compactions_total 1\n"), "{metrics}");
    for measured in
        ["cassette_flush_duration", "cassette_compaction_duration", "cassette_commit_log_sync_latency"]
    {
        let count = value_of(&metrics, &format!("{measured}_seconds_count"));
        assert!(count.is_some_and(|count| count > 0), "{measured}: {metrics}");
    }
    for named in ["cassette_build_info{version=", "process_cpu_seconds_total ", "process_open_fds "] {
        assert!(metrics.contains(named), "{named}: {metrics}");
    }
    assert!(metrics.contains("\ncassette_overlapping_rows_dropped_total 0\n"), "{metrics}");
}

#[test]
fn data_that_other_replicas_could_have_is_not_repaired() {
    let endpoint = Endpoint::new();
    let session = endpoint.database.session();
    for statement in [
        "CREATE KEYSPACE three WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
        "CREATE TABLE three.t (k int PRIMARY KEY, v text)",
        "INSERT INTO three.t (k, v) VALUES (1, 'x')",
    ] {
        session.execute(statement, ()).unwrap();
    }
    let three = endpoint.database.catalog().table("three", "t").unwrap().id;
    endpoint.database.engine().flush(Some(three)).unwrap();
    let node: NodeReport = serde_json::from_str(&endpoint.get("/v1/node").1).unwrap();
    assert_eq!(node.percent_repaired, 0.0);
}

#[test]
fn what_is_wrong_or_not_there_is_refused_with_a_reason() {
    let endpoint = Endpoint::new();
    let refused = |operation| {
        let (status, body) = endpoint.operate(operation);
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        (status, text("kind"), text("error"))
    };
    let at = json!(["/nowhere"]);
    for (operation, status, kind, reason) in [
        (
            json!({"operation": "flush", "keyspace": "nosuch"}),
            400,
            "wrong_use",
            "Keyspace [nosuch] does not exist.",
        ),
        (
            json!({"operation": "set_trace_probability", "probability": 1.5}),
            400,
            "wrong_use",
            "Trace probability must be between 0 and 1",
        ),
        (
            json!({"operation": "flush", "keyspace": "system", "tables": ["nosuch"]}),
            400,
            "invalid",
            "Unknown keyspace/cf pair (system.nosuch)",
        ),
        (
            json!({"operation": "enable_auto_compaction", "keyspace": "system", "tables": ["nosuch"]}),
            400,
            "wrong_use",
            "Unknown keyspace/cf pair (system.nosuch)",
        ),
        (
            json!({"operation": "snapshot", "name": "s", "of": ["system"], "skip_flush": true, "ttl_seconds": 1}),
            400,
            "wrong_use",
            "ttl for snapshot must be at least 60 seconds",
        ),
        (
            json!({"operation": "import", "keyspace": "system", "table": "nosuch", "directories": at, "copy": true,
                   "verify": true, "extended_verify": false, "keep_level": false, "keep_repaired": false}),
            404,
            "not_found",
            "ColumnFamilyStore for system/nosuch not found.",
        ),
    ] {
        assert_eq!(refused(operation), (status, kind.to_owned(), reason.to_owned()));
    }
    assert_eq!(refused(json!({"operation": "set_logging_level", "target": "", "level": "LOUD"})).0, 400);
    assert_eq!(
        endpoint.operate(json!({"operation": "set_logging_level", "target": "a", "level": "DEBUG"})).0,
        200
    );
    assert_eq!(endpoint.get("/v1/logging").1, "[[\"a\",\"DEBUG\"]]");
    assert_eq!(endpoint.operate(json!({"operation": "explode"})).0, 422);
    assert_eq!(endpoint.get("/nothing").0, 404);
    assert_eq!(endpoint.get("/v1/operations").0, 405);
}

#[test]
fn pages_of_other_origins_get_nothing_and_change_nothing() {
    let endpoint = Endpoint::new();
    let address = endpoint.address;
    let flush = "{\"operation\":\"flush\"}";
    for head in [
        "GET /v1/node HTTP/1.1\r\nHost: rebound.example\r\n".to_owned(),
        "GET /v1/node HTTP/1.1\r\n".to_owned(),
        format!("GET /v1/node HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\n"),
        format!("GET http://rebound.example/v1/node HTTP/1.1\r\nHost: {address}\r\n"),
        format!("GET /v1/node HTTP/1.1\r\nHost: {address}\r\nOrigin: http://example.org\r\n"),
        format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("POST /v1/operations HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain\r\n"),
        format!("POST /v1/query HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain\r\n"),
        format!(
            "POST /v1/query HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nSec-Fetch-Site: \
             cross-site\r\n"
        ),
        "POST /v1/query HTTP/1.1\r\nHost: rebound.example\r\nContent-Type: application/json\r\nOrigin: \
         http://rebound.example\r\n"
            .to_owned(),
        format!(
            "POST /v1/operations HTTP/1.1\r\nHost: {address}\r\nOrigin: http://example.org\r\nContent-Type: \
             application/json\r\n"
        ),
        format!(
            "OPTIONS /v1/operations HTTP/1.1\r\nHost: {address}\r\nOrigin: \
             http://example.org\r\nAccess-Control-Request-Method: POST\r\n"
        ),
    ] {
        let (status, body) = endpoint.send(&head, flush);
        assert_eq!(status, 403, "{head}: {body}");
    }
    let own = format!(
        "GET /v1/node HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"
    );
    assert_eq!(endpoint.send(&own, "").0, 200);
}

#[test]
fn the_dashboard_loads_and_runs_nothing_but_its_own_files() {
    let endpoint = Endpoint::new();
    let policy = "\r\ncontent-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
                  connect-src 'self'; ";
    let (_, page) = endpoint.get("/");
    for foreign in ["http:", "https:", "<style", " style=", " onclick=", "javascript:"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let named = page.split(['"', ' ']).filter(|word| word.ends_with(".js") || word.ends_with(".css"));
    let files: Vec<&str> = named.collect();
    assert_eq!(files, ["/page.css", "/chart.js", "/page.js"]);
    assert_eq!(page.matches("<script").count(), 2);
    for path in files.into_iter().chain(["/"]) {
        let mut stream = TcpStream::connect(endpoint.address).unwrap();
        let host = endpoint.address;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(policy), "{path}: {answer}");
        for unsafe_call in ["innerHTML", "insertAdjacent", "document.write", "eval(", "cookie"] {
            assert!(!answer.contains(unsafe_call), "{path}: {unsafe_call}");
        }
    }
}

#[test]
fn queries_read_and_never_write() {
    let endpoint = Endpoint::new();
    let session = endpoint.database.session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text, b blob)",
        "INSERT INTO ks.t (k, v) VALUES (1, '<b>''x''</b>')",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session.execute("INSERT INTO ks.t (k, b) VALUES (2, ?)", (vec![0u8; 5000],)).unwrap();
    let query = |statement: &str| {
        let head = format!(
            "POST /v1/query HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n",
            endpoint.address
        );
        let (status, body) = endpoint.send(&head, &json!({"statement": statement}).to_string());
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let (status, answer) = query("SELECT k, v FROM ks.t WHERE k = 1");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["columns"], json!([{"name": "k", "type": "int"}, {"name": "v", "type": "text"}]));
    assert_eq!(answer["rows"], json!([["1", "'<b>''x''</b>'"]]));
    assert_eq!(query("SELECT b FROM ks.t WHERE k = 2").1["rows"], json!([["(5000 bytes)"]]));
    (0..300).for_each(|k| drop(session.execute("INSERT INTO ks.t (k) VALUES (?)", (k,)).unwrap()));
    let (_, answer) = query("SELECT k FROM ks.t");
    assert_eq!((answer["rows"].as_array().unwrap().len(), &answer["has_more"]), (200, &json!(true)));
    for statement in
        ["DROP TABLE ks.t", "INSERT INTO ks.t (k) VALUES (7000)", "SELECT", "SELECT * FROM ks.absent"]
    {
        assert_eq!(query(statement).0, 400, "{statement}");
    }
    assert_eq!(query("SELECT k FROM ks.t WHERE k = 7000").1["rows"], json!([]));
}

#[test]
fn a_statement_that_has_ended_cannot_be_cancelled() {
    let endpoint = Endpoint::new();
    assert_eq!(endpoint.get("/v1/running").1, "[]");
    let (status, body) = endpoint.operate(json!({"operation": "cancel_statement", "id": 7}));
    assert_eq!((status, &body["kind"]), (404, &json!("not_found")));
    assert_eq!(endpoint.get("/v1/log"), (200, "[]".to_owned()));
    assert_eq!(endpoint.get("/v1/history").0, 400, "no history is recorded");
}

#[test]
fn the_admin_endpoint_closes_connections_that_stall() {
    let wait_max = Duration::from_millis(50);
    let endpoint = Endpoint::within(Limits {
        connections_max: 1,
        head_wait_max: wait_max,
        body_wait_max: wait_max,
        ..Limits::new(1)
    });
    let address = endpoint.address;
    let post = format!(
        "POST /v1/operations HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    );
    let stalled = ["", "GET /v1/no", &post].map(|sent| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    });
    assert_eq!(endpoint.get("/v1/logging").0, 200, "only one connection is open at a time");
    for (mut stream, expected) in stalled.into_iter().zip(["", "", "HTTP/1.1 408 "]) {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(expected) && answer.is_empty() == expected.is_empty(), "{answer}");
    }
}

#[test]
fn a_panic_of_an_operation_is_answered_and_counted() {
    let endpoint = Endpoint::new();
    let (status, body) = endpoint.operate(json!({"operation": "drain"}));
    assert_eq!(status, 500, "{body}");
    assert!(body.to_string().contains("panicked"), "{body}");
    let (status, report) = endpoint.get("/v1/node");
    let report: NodeReport = serde_json::from_str(&report).unwrap();
    assert_eq!((status, report.exceptions), (200, 1));
}
