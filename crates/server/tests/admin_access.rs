//! Authentication at the admin endpoint: passwords of roles, and tokens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_database::{AuthSettings, Database, Options};
use cassette_server::admin::{Access, Admin, LogLevels, TOKEN_LEVELS};
use cassette_server::authentication::PasswordAuthenticator;
use cassette_server::tls::secret::Tokens;
use cassette_server::{Server, ServerConfig};

const READER: &str = "reader-0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef";

#[derive(Default)]
struct NoLevels;

impl LogLevels for NoLevels {
    fn levels(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn set(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// An endpoint of a database with roles, if it has passwords, and with tokens.
struct Endpoint {
    address: SocketAddr,
    database: Database,
    _runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

/// The response to a request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn tokens(directory: &Path) -> Arc<Tokens> {
    let path = directory.join("tokens");
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    writeln!(file, "read-only {READER}\noperator {OPERATOR}").unwrap();
    Arc::new(Tokens::read(&path, TOKEN_LEVELS).unwrap())
}

impl Endpoint {
    fn new(passwords: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let auth = AuthSettings { passwords, permissions: passwords, ..AuthSettings::default() };
        let database = Database::open(Options { auth, ..Options::in_memory() }).unwrap();
        if passwords {
            let session = database.session();
            for cql in [
                "CREATE ROLE root WITH PASSWORD = 'root' AND LOGIN = true AND SUPERUSER = true",
                "CREATE ROLE reader WITH PASSWORD = 'reader' AND LOGIN = true",
                "GRANT SELECT ON ALL MBEANS TO reader",
                "CREATE ROLE plain WITH PASSWORD = 'plain' AND LOGIN = true",
                "CREATE ROLE off WITH PASSWORD = 'off'",
            ] {
                session.execute(cql, ()).unwrap();
            }
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut config =
            ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
        if passwords {
            config.authenticator = Some(Arc::new(PasswordAuthenticator::new(database.clone())));
        }
        let server = runtime.block_on(Server::bind(config, Arc::new(database.clone()))).unwrap();
        let access = Access::new(server.logins(), Some(tokens(directory.path())));
        let admin = Admin::new(database.clone(), server.metrics(), Arc::new(NoLevels), access, || ());
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(server.serve(std::future::pending()));
        runtime.spawn(admin.serve(listener, std::future::pending()));
        Self { address, database, _runtime: runtime, _directory: directory }
    }

    fn send(&self, line: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let (host, length) = (self.address, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str, headers: &str) -> Answer {
        self.send(&format!("GET {path}"), headers, "")
    }

    fn operate(&self, headers: &str) -> Answer {
        let headers = format!("Content-Type: application/json\r\n{headers}");
        self.send("POST /v1/operations", &headers, "{\"operation\": \"flush\"}")
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics", &bearer(READER)).body;
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn basic(username: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{username}:{password}")))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn only_authenticated_clients_read_and_only_operators_change_something() {
    let endpoint = Endpoint::new(true);
    for path in ["/", "/page.js", "/metrics", "/v1/node", "/v1/top_partitions", "/unknown"] {
        let answer = endpoint.get(path, "");
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert!(answer.head.contains("www-authenticate: basic realm=\"cassette\", charset=\"utf-8\"\r\n"));
        assert!(answer.head.contains("www-authenticate: bearer realm=\"cassette\""), "{answer:?}");
    }
    assert_eq!(endpoint.operate("").status, 401);
    for (credentials, read, change) in [
        (basic("root", "root"), 200, 200),
        (basic("reader", "reader"), 200, 403),
        (basic("plain", "plain"), 403, 403),
        (bearer(READER), 200, 403),
        (bearer(OPERATOR), 200, 200),
    ] {
        for path in ["/", "/metrics", "/v1/node", "/v1/logging"] {
            assert_eq!(endpoint.get(path, &credentials).status, read, "{credentials} {path}");
        }
        assert_eq!(endpoint.operate(&credentials).status, change, "{credentials}");
        for path in ["/v1/slow_queries", "/v1/cidr_groups", "/v1/running", "/v1/log"] {
            assert_eq!(endpoint.get(path, &credentials).status, change, "{credentials}");
        }
        // Operators learn that the server injects none; others nothing.
        let expected = if change == 200 { 400 } else { 403 };
        assert_eq!(endpoint.get("/v1/faults", &credentials).status, expected, "{credentials}");
        // Partition keys are data.
        let sampled = "/v1/top_partitions?millis=1&capacity=1&top=1&keyspace=none";
        let expected = if change == 200 { 400 } else { 403 };
        assert_eq!(endpoint.get(sampled, &credentials).status, expected, "{credentials}");
    }
    assert!(endpoint.operate(&bearer(READER)).body.contains("EXECUTE or MODIFY on ALL MBEANS"));
    endpoint.database.session().execute("GRANT EXECUTE ON ALL MBEANS TO reader", ()).unwrap();
    assert_eq!(endpoint.operate(&basic("reader", "reader")).status, 200);
}

#[test]
fn queries_have_the_permissions_of_the_role_that_logs_in() {
    let endpoint = Endpoint::new(true);
    let session = endpoint.database.session();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY)",
        "CREATE ROLE operator WITH PASSWORD = 'operator' AND LOGIN = true",
        "GRANT EXECUTE ON ALL MBEANS TO operator",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let query = |credentials: &str| {
        let headers = format!("Content-Type: application/json\r\n{credentials}");
        endpoint.send("POST /v1/query", &headers, "{\"statement\": \"SELECT * FROM ks.t\"}").status
    };
    assert_eq!(query(""), 401);
    assert_eq!(query(&bearer(READER)), 403);
    assert_eq!(query(&basic("reader", "reader")), 403);
    assert_eq!(query(&bearer(OPERATOR)), 400, "a token has no permissions on tables");
    assert_eq!(query(&basic("root", "root")), 200);
    assert_eq!(query(&basic("operator", "operator")), 400, "the role has no permission on the table");
}

#[test]
fn a_refusal_does_not_reveal_whether_a_role_exists() {
    let endpoint = Endpoint::new(true);
    let unknown = endpoint.get("/metrics", &basic("unknown", "x"));
    assert_eq!(unknown.status, 401);
    let without_dates = |answer: Answer| {
        let head: Vec<String> =
            answer.head.lines().filter(|line| !line.starts_with("date:")).map(str::to_owned).collect();
        (answer.status, head, answer.body)
    };
    let unknown = without_dates(unknown);
    for credentials in [
        basic("root", "x"),
        basic("root", ""),
        basic("", ""),
        basic("off", "off"),
        basic("ro\0ot", "root"),
        basic("root", "x\0root"),
        bearer("wrong-0123456789abcdef"),
    ] {
        assert_eq!(without_dates(endpoint.get("/metrics", &credentials)), unknown, "{credentials:?}");
    }
    assert_eq!(endpoint.metric("cassette_logins_failed_total"), 8);
}

#[test]
fn many_wrong_tokens_and_passwords_lock_out_the_address_but_no_valid_token() {
    let endpoint = Endpoint::new(true);
    let locked_out = (0..1000).any(|_| {
        let wrong = endpoint.get("/metrics", &bearer("wrong-0123456789abcdef"));
        assert!([401, 429].contains(&wrong.status), "{wrong:?}");
        // A login is refused without a check, the right one too.
        wrong.status == 429 && endpoint.get("/metrics", &basic("root", "root")).status == 429
    });
    assert!(locked_out);
    assert!(endpoint.metric("cassette_logins_failed_total") >= 20);
    assert!(endpoint.metric("cassette_logins_refused_total") >= 2);
}

#[test]
fn tokens_protect_an_endpoint_without_passwords() {
    let endpoint = Endpoint::new(false);
    let refused = endpoint.get("/metrics", "");
    assert_eq!(refused.status, 401);
    assert!(!refused.head.contains("www-authenticate: basic"), "{refused:?}");
    assert_eq!(endpoint.get("/metrics", &basic("cassandra", "cassandra")).status, 401);
    assert_eq!(endpoint.get("/metrics", &bearer(READER)).status, 200);
    assert_eq!(endpoint.operate(&bearer(READER)).status, 403);
    assert_eq!(endpoint.operate(&bearer(OPERATOR)).status, 200);
    let both = format!("{}{}", bearer(OPERATOR), basic("a", "b"));
    assert_eq!(endpoint.operate(&both).status, 401);
}

#[test]
fn credentials_that_a_browser_adds_do_not_help_foreign_pages() {
    let endpoint = Endpoint::new(true);
    for foreign in ["Origin: http://foreign.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        let headers = format!("{foreign}{}", bearer(OPERATOR));
        assert_eq!(endpoint.operate(&headers).status, 403, "{foreign}");
        assert_eq!(endpoint.get("/v1/node", &headers).status, 403, "{foreign}");
    }
    // As a form of a foreign page sends it.
    let form = format!("Content-Type: text/plain\r\n{}", bearer(OPERATOR));
    assert_eq!(endpoint.send("POST /v1/operations", &form, "{\"operation\": \"flush\"}").status, 403);
}

#[test]
fn a_connection_verifies_a_password_once_but_checks_the_role_with_each_request() {
    let endpoint = Endpoint::new(true);
    let mut stream = TcpStream::connect(endpoint.address).unwrap();
    let mut get = |credentials: &str| {
        let request = format!("HEAD /page.css HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1);
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let session = endpoint.database.session();
    assert_eq!(get(&basic("reader", "reader")), 200);
    // As for connections of CQL, open ones stay.
    session.execute("ALTER ROLE reader WITH PASSWORD = 'other'", ()).unwrap();
    assert_eq!(get(&basic("reader", "reader")), 200);
    assert_eq!(endpoint.get("/page.css", &basic("reader", "reader")).status, 401);
    assert_eq!(get(&basic("reader", "wrong")), 401);
    assert_eq!(get(""), 401);
    session.execute("DROP ROLE reader", ()).unwrap();
    assert_eq!(get(&basic("reader", "reader")), 403);
}
