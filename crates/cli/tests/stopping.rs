//! Shutdown takes limited time whatever clients do, and idle connections leave resources for
//! others.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::cql::{connect_to_keyspace, execute};
use support::{Launch, PATIENCE};

fn terminate(id: u32) {
    assert!(Command::new("kill").arg("-TERM").arg(id.to_string()).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn sampling_partitions_for_ten_minutes_does_not_keep_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Launch::new(&directory.path().join("data"))
        .flag(Box::leak(format!("--admin={admin}").into_boxed_str()))
        .flag("--stop-timeout=1s")
        .start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k bigint PRIMARY KEY)").await;
    let mut sampling = TcpStream::connect(admin).unwrap();
    let request =
        format!("GET /v1/top_partitions?millis=600000&capacity=9&top=3 HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    sampling.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < PATIENCE, "ten minutes");
}

/// Sends a request to the admin endpoint, and returns the body of the answer.
fn ask(admin: SocketAddr, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_cancels_a_running_statement_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = "user_defined_functions_enabled: true\nuser_defined_functions_fail_timeout: 600s\n\
                  user_defined_functions_warn_timeout: 600s\nread_request_timeout: 600s\n";
    let server = Launch::new(&directory.path().join("data"))
        .config(config)
        .flag(Box::leak(format!("--admin={admin}").into_boxed_str()))
        .start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY)").await;
    execute(&session, "INSERT INTO t (k) VALUES (1)").await;
    let forever = "CREATE FUNCTION forever (x int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua \
                   AS 'while true do end'";
    execute(&session, forever).await;
    let running =
        || -> Vec<serde_json::Value> { serde_json::from_str(&ask(admin, "GET /v1/running", "")).unwrap() };
    let query = session.query_unpaged("SELECT forever(k) FROM t WHERE k = 1", ());
    let cancel = async {
        let found = loop {
            if let Some(found) = running().into_iter().next() {
                break found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert!(found["text"].as_str().unwrap().contains("forever(k)"), "{found}");
        let operation = serde_json::json!({"operation": "cancel_statement", "id": found["id"]});
        let answer = ask(admin, "POST /v1/operations", &operation.to_string());
        assert!(answer.contains("cancelled: "), "{answer}");
    };
    let (answer, ()) = tokio::join!(query, cancel);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("the request was cancelled by an operator"), "{error}");
    execute(&session, "SELECT k FROM t WHERE k = 1").await;
    assert!(running().is_empty());
    let log: Vec<serde_json::Value> = serde_json::from_str(&ask(admin, "GET /v1/log", "")).unwrap();
    assert!(log.iter().any(|line| line["message"].as_str().unwrap().starts_with("opened ")), "{log:?}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_leave_descriptors_for_writes_and_ddl() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::new(&directory.path().join("data"))
        .wrapped_in(&["sh", "-c", "ulimit -n 1024 && exec \"$@\"", "sh"])
        .start();
    let session = connect_to_keyspace(server.address()).await;
    // The limit of this process.
    cassette_server::descriptors::raise_limit();
    let idle: Vec<_> = (0..1100).filter_map(|_| TcpStream::connect(server.address()).ok()).collect();
    assert!(idle.len() > 1000);
    execute(&session, "CREATE TABLE t (k bigint PRIMARY KEY, v text)").await;
    for k in 0..100 {
        execute(&session, &format!("INSERT INTO t (k, v) VALUES ({k}, 'v')")).await;
    }
    execute(&session, "CREATE TABLE u (k bigint PRIMARY KEY)").await;
    assert!(server.log().contains("exceeded maximum number of native connections (384)"), "{}", server.log());
    drop(idle);
    drop(session);
    server.stop();
}

#[test]
fn a_second_signal_does_not_wait_for_requests() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Launch::new(&directory.path().join("data")).flag("--stop-timeout=3600s").start();
    // A request that waits for a client that does not read: the connection stays until it is closed
    // by force.
    let mut client = TcpStream::connect(server.address()).unwrap();
    client.write_all(&[4, 0, 0, 0, 1, 0, 0, 0, 22]).unwrap();
    client.write_all(b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0").unwrap();
    let select = "SELECT * FROM system_schema.columns";
    let mut body = (select.len() as u32).to_be_bytes().to_vec();
    body.extend_from_slice(select.as_bytes());
    body.extend_from_slice(&[0, 1, 0]);
    let mut request = vec![4, 0, 0, 1, 7];
    request.extend_from_slice(&(body.len() as u32).to_be_bytes());
    request.extend_from_slice(&body);
    let pipelined = request.repeat(2000);
    let mut sender = client.try_clone().unwrap();
    std::thread::spawn(move || sender.write_all(&pipelined));
    std::thread::sleep(Duration::from_millis(1000));
    terminate(server.id());
    std::thread::sleep(Duration::from_millis(500));
    server.assert_running();
    server.stop();
}

#[test]
fn a_server_stops_when_the_process_that_started_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let shell = "\"$@\" --stop-with-parent $$ & wait";
    let server = Launch::new(&directory.path().join("data")).wrapped_in(&["sh", "-c", shell, "sh"]).start();
    let address = server.address();
    server.kill();
    wait_for_end(address);
}

#[test]
fn a_server_whose_parent_has_ended_already_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let ended = Launch::new(&directory.path().join("data")).flag("--stop-with-parent=1").refused();
    assert!(ended.log.contains("process 1 is not the parent of this process"), "{}", ended.log);
}

/// Waits for the end of the server at `address`.
fn wait_for_end(address: std::net::SocketAddr) {
    let began = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(began.elapsed() < PATIENCE, "the server still serves");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_temporary_server_stops_at_the_end_of_its_input_and_removes_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cassette"))
        .args(["serve", "--temporary", "--stop-with-stdin", "--listen=127.0.0.1:0", "--admin=off"])
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listens for CQL on 127.0.0.1:"), "{line}");
    let entries = || std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(entries(), 1);
    let data = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    child.stdin.as_mut().unwrap().write_all(b"input is ignored\n").unwrap();
    assert!(child.try_wait().unwrap().is_none());
    // `wait` closes the pipe.
    assert!(child.wait().unwrap().success());
    assert_eq!(entries(), 0);
}

#[test]
fn the_service_manager_is_notified_of_start_and_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let received = || {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let variable = format!("NOTIFY_SOCKET={}", path.display());
    let server = Launch::new(&directory.path().join("data")).wrapped_in(&["env", &variable]).start();
    assert_eq!(received(), "READY=1");
    server.stop();
    assert_eq!(received(), "STOPPING=1");
}
