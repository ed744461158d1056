//! The shell on databases and servers in this process.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cassette_database::Database;
use cassette_protocol::Version;
use cassette_server::{Server, ServerConfig};

use crate::link::{Embedded, Endpoint, Remote};
use crate::output::{Format, Target};
use crate::session::Session;
use crate::shell::{Shell, Source};

/// A writer whose content tests read.
#[derive(Clone, Default)]
pub struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A shell whose output tests read.
pub struct TestShell {
    /// The shell.
    pub shell: Shell,
    out: Buffer,
    errors: Buffer,
}

impl TestShell {
    /// A shell on an empty database in memory.
    pub fn embedded() -> Self {
        let database = Database::in_memory().unwrap();
        let mut shell = Self::on(Box::new(Embedded::new(database, "memory".to_owned(), Arc::default())));
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        shell.succeed(&format!("CREATE KEYSPACE k WITH replication = {replication}; USE k"));
        shell
    }

    /// A shell on an endpoint.
    pub fn on(endpoint: Box<dyn Endpoint>) -> Self {
        let (out, errors) = (Buffer::default(), Buffer::default());
        let target = Target::new(Box::new(out.clone()), Box::new(errors.clone()), false);
        Self { shell: Shell::new(Session::open(endpoint, None).unwrap(), target), out, errors }
    }

    /// Executes input, and returns its output and errors.
    pub fn run(&mut self, text: &str) -> (String, String) {
        self.shell.run(text, &Source { name: "test", first_line: 1 }, true);
        (self.out.take(), self.errors.take())
    }

    /// Executes input that does not fail, and returns its output.
    pub fn succeed(&mut self, text: &str) -> String {
        let (out, errors) = self.run(text);
        assert_eq!(errors, "", "{text}");
        out
    }
}

#[test]
fn rows_are_shown_as_tables() {
    let mut shell = TestShell::embedded();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY, v text, m map<text, int>)");
    shell.succeed("INSERT INTO t (k, v, m) VALUES (1, 'one', {'a': 1})");
    assert_eq!(
        shell.succeed("SELECT * FROM t"),
        "\n k | m        | v\n---+----------+-----\n 1 | {'a': 1} | one\n\n(1 rows)\n"
    );
    assert_eq!(shell.succeed("SELECT k FROM t WHERE k = 2"), "\n k\n---\n\n\n(0 rows)\n");
    assert_eq!(
        shell.succeed("EXPAND ON; SELECT k, v FROM t"),
        "EXPAND set to ON\n\n@ Row 1\n---+-----\n k | 1\n v | one\n\n\n(1 rows)\n"
    );
}

#[test]
fn pages_follow_each_other_and_are_counted() {
    let mut shell = TestShell::embedded();
    shell.succeed("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))");
    for c in 0..7 {
        shell.succeed(&format!("INSERT INTO t (k, c) VALUES (1, {c})"));
    }
    let out = shell.succeed("PAGING 3; SELECT c FROM t");
    assert_eq!(out, "Page size: 3\n\n c\n---\n 0\n 1\n 2\n 3\n 4\n 5\n 6\n\n(7 rows)\n");
}

#[test]
fn conditional_writes_show_whether_they_were_applied() {
    let mut shell = TestShell::embedded();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY, v int)");
    let out = shell.succeed("INSERT INTO t (k, v) VALUES (1, 1) IF NOT EXISTS");
    assert_eq!(out, "\n [applied]\n-----------\n      True\n");
}

#[test]
fn errors_name_the_line_and_point_at_the_place() {
    let mut shell = TestShell::embedded();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY)");
    let (out, errors) = shell.run("SELECT * FROM t;\nSELECT k,\n  nosuch FROM t;\nSELECT * FROM t;");
    assert_eq!(out.matches("(0 rows)").count(), 2, "the shell goes on");
    assert_eq!(
        errors,
        "test:3:InvalidRequest: Error from server: code=2200 [Invalid query] message=\"Undefined column name \
         nosuch in table k.t\"\n    nosuch FROM t\n    ^\n"
    );
    assert!(shell.shell.has_failed);
    let (_, errors) = shell.run("SELECT FROM t");
    assert!(errors.contains("test:1:SyntaxException") && errors.contains("\n         ^"), "{errors}");
    let (_, errors) = shell.run("SELECT 'open");
    assert!(errors.contains("Incomplete statement at end of file"), "{errors}");
    let (_, errors) = shell.run("CREATE ROLE r WITH PASSWORD = 'secret' AND nosuch = 1");
    assert!(errors.ends_with("  CREATE ROLE r WITH PASSWORD *******\n"), "{errors}");
}

#[test]
fn settings_are_shown_and_changed() {
    let mut shell = TestShell::embedded();
    for (command, out) in [
        ("CONSISTENCY", "Current consistency level is ONE.\n"),
        ("consistency quorum", "Consistency level set to QUORUM.\n"),
        ("CONSISTENCY", "Current consistency level is QUORUM.\n"),
        ("SERIAL CONSISTENCY", "Current serial consistency level is SERIAL.\n"),
        ("SERIAL CONSISTENCY LOCAL_SERIAL", "Serial consistency level set to LOCAL_SERIAL.\n"),
        ("TRACING", "TRACING is OFF\n"),
        ("EXPAND OFF", "EXPAND is already OFF\n"),
        ("PAGING", "PAGING is ON\nPage size: 100\n"),
        ("PAGING OFF", "PAGING set to OFF\n"),
        ("PAGING ON", "PAGING set to ON\nPage size: 100\n"),
        ("FORMAT json", "FORMAT set to JSON\n"),
        ("CAPTURE", "Currently not capturing query output.\n"),
        ("SHOW HOST", "Connected to Test Cluster at memory\n"),
    ] {
        assert_eq!(shell.succeed(command), out, "{command}");
    }
    for command in
        ["CONSISTENCY 3", "PAGING x", "SHOW x", "TRACING ON OFF", "SERIAL", ".nothing", "FORMAT xml"]
    {
        let (_, errors) = shell.run(command);
        assert!(errors.contains("expected"), "{command}: {errors}");
    }
}

#[test]
fn results_have_the_selected_format() {
    let mut shell = TestShell::embedded();
    shell.succeed(
        "CREATE TABLE t (k int PRIMARY KEY, \"V\" text); INSERT INTO t (k, \"V\") VALUES (1, 'a,b')",
    );
    shell.shell.format = Format::Json;
    assert_eq!(shell.succeed("SELECT * FROM t"), "{\"k\": 1, \"V\": \"a,b\"}\n");
    shell.shell.format = Format::Csv;
    assert_eq!(shell.succeed("SELECT * FROM t"), "k,V\n1,\"a,b\"\n");
    shell.shell.format = Format::Markdown;
    assert_eq!(shell.succeed("SELECT * FROM t"), "| k | V |\n| --: | --- |\n| 1 | a,b |\n");
}

#[test]
fn descriptions_come_from_the_server() {
    let mut shell = TestShell::embedded();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY)");
    assert_eq!(shell.succeed("DESCRIBE TABLES"), "\nt\n\n");
    assert!(shell.succeed("DESC TABLE t").starts_with("\nCREATE TABLE k.t (\n    k int PRIMARY KEY\n)"));
    assert!(shell.succeed("DESCRIBE KEYSPACES").contains("system_schema"));
    assert!(shell.succeed("DESCRIBE CLUSTER").starts_with("\nCluster: Test Cluster\nPartitioner: "));
    let (_, errors) = shell.run("DESCRIBE TABLE nosuch");
    assert!(errors.starts_with("test:1:Table 'nosuch' not found in keyspace 'k'"), "{errors}");
}

#[test]
fn files_are_executed_and_results_captured() {
    let mut shell = TestShell::embedded();
    let directory = tempfile::tempdir().unwrap();
    let (script, captured) = (directory.path().join("a.cql"), directory.path().join("out.txt"));
    std::fs::write(
        &script,
        "CREATE TABLE t (k int PRIMARY KEY);\nnonsense;\nINSERT INTO t (k) VALUES (5);\n",
    )
    .unwrap();
    let (_, errors) = shell.run(&format!("SOURCE '{}'", script.display()));
    assert!(errors.contains("a.cql:2:SyntaxException"), "{errors}");
    let out = shell.succeed(&format!("CAPTURE '{}'", captured.display()));
    assert_eq!(out, format!("Now capturing query output to '{}'.\n", captured.display()));
    assert_eq!(shell.succeed("SELECT * FROM t; CAPTURE OFF"), "");
    assert_eq!(std::fs::read_to_string(&captured).unwrap(), "\n k\n---\n 5\n\n(1 rows)\n");
}

#[test]
fn traces_follow_their_results() {
    let mut shell = TestShell::embedded();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY)");
    let out = shell.succeed("TRACING ON; SELECT * FROM t");
    assert!(out.contains("(0 rows)\n\nTracing session: ") && out.contains("Request complete"), "{out}");
    let id = out.split("Tracing session: ").nth(1).unwrap().lines().next().unwrap();
    let again = shell.succeed(&format!("SHOW SESSION {id}"));
    assert!(again.starts_with(&format!("\nTracing session: {id}\n\n activity ")), "{again}");
}

#[test]
fn help_describes_each_command_and_statement() {
    let mut shell = TestShell::embedded();
    let list = shell.succeed("HELP");
    for topic in crate::commands::topics() {
        assert!(list.contains(&topic), "{topic}");
        assert!(shell.succeed(&format!("HELP {topic}")).contains("SYNOPSIS"));
    }
    let two = shell.succeed("HELP create table copy");
    assert!(two.contains("CREATE TABLE - a table") && two.contains("COPY - CSV files"), "{two}");
    assert!(shell.run("HELP nothing").1.contains("No help on nothing"));
}

#[test]
fn the_last_line_of_a_script_can_lack_its_end() {
    let mut shell = TestShell::embedded();
    for (script, out) in
        [("CONSISTENCY", "Current"), ("CONSISTENCY\n-- the end", "Current"), ("// nothing", "")]
    {
        shell.shell.run(script, &Source { name: "test", first_line: 1 }, false);
        assert!(shell.succeed("").starts_with(out), "{script}");
    }
}

#[test]
fn exit_ends_the_input() {
    let mut shell = TestShell::embedded();
    assert_eq!(shell.succeed("CONSISTENCY; EXIT; CONSISTENCY").lines().count(), 1);
    assert!(shell.shell.has_ended);
}

#[test]
fn servers_are_used_in_each_version_of_the_protocol() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
    let database = Database::in_memory().unwrap();
    let server = runtime.block_on(Server::bind(config, Arc::new(database))).unwrap();
    let address = server.local_address().unwrap().to_string();
    runtime.spawn(server.serve(std::future::pending()));
    for (version, name) in [(Version::V5, "v5"), (Version::V4, "v4"), (Version::V3, "v3")] {
        let remote = Remote {
            address: address.clone(),
            credentials: None,
            tls: None,
            versions: vec![version],
            request_timeout: Duration::from_secs(60),
            interrupt: Arc::default(),
        };
        let mut shell = TestShell::on(Box::new(remote));
        let versions = shell.succeed("SHOW VERSION");
        assert!(versions.contains(&format!("Native protocol {name}]")), "{versions}");
        assert!(shell.succeed("SELECT key FROM system.local").contains("local"));
        shell.succeed("LOGIN a 'b'");
    }
}

fn written(shell: &mut TestShell, command: &str) -> String {
    let (out, errors) = shell.run(command);
    assert_eq!(errors, "", "{command}");
    out
}

#[test]
fn rows_are_copied_out_and_in_without_loss() {
    let mut shell = TestShell::embedded();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    let columns = "(k int PRIMARY KEY, v text, l list<text>, d double, b blob, ts timestamp, du duration)";
    shell.succeed(&format!("CREATE TABLE t {columns}; CREATE TABLE u {columns}"));
    shell.succeed(
        "INSERT INTO t (k, v, l, d) VALUES (1, 'a\\b\"c, d\ne', ['x\\y', 'it''s', '[,'], 0.1234567890123456)",
    );
    shell.succeed("INSERT INTO t (k, b, ts, du) VALUES (2, 0xcafe, '2024-01-02 03:04:05.678Z', 1mo2d3h)");
    shell.succeed("INSERT INTO t (k, v) VALUES (3, '''quoted''')");
    let out = written(&mut shell, &format!("COPY t TO '{}' WITH HEADER = true", file.display()));
    assert!(out.starts_with("\nStarting copy of k.t with columns [k, b, d, du, l, ts, v].\n"), "{out}");
    assert!(out.contains("3 rows exported to 1 files in "), "{out}");
    let out = written(&mut shell, &format!("COPY u FROM '{}' WITH HEADER = true", file.display()));
    assert!(out.contains("3 rows imported from 1 files in ") && out.ends_with(" (0 skipped).\n"), "{out}");
    assert_eq!(shell.succeed("SELECT * FROM u"), shell.succeed("SELECT * FROM t"));
    let out = written(
        &mut shell,
        "COPY t (k, v) TO STDOUT WITH DELIMITER = '|' AND NULL = '-' AND NUMPROCESSES = 1",
    );
    assert!(out.contains("2|-\n") && out.contains("3|'quoted'\n"), "{out}");
}

#[test]
fn rejected_rows_are_kept_and_the_others_inserted() {
    let mut shell = TestShell::embedded();
    let directory = tempfile::tempdir().unwrap();
    let (file, errors) = (directory.path().join("t.csv"), directory.path().join("t.err"));
    std::fs::write(&file, "1,a\nx,b\n2\n3,c\n,d\n").unwrap();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY, v text)");
    let (out, message) =
        shell.run(&format!("COPY t FROM '{}' WITH ERRFILE = '{}'", file.display(), errors.display()));
    assert!(out.contains("2 rows imported from 1 files"), "{out}");
    assert!(message.contains("Failed to process 3 rows; failed rows written to "), "{message}");
    assert_eq!(std::fs::read_to_string(&errors).unwrap(), "x,b\n2\n,d\n");
    let (out, _) = shell.run(&format!(
        "COPY t FROM '{}' WITH ERRFILE = '{}' AND MAXPARSEERRORS = 0 AND NUMPROCESSES = 1 AND CHUNKSIZE = 1",
        file.display(),
        errors.display()
    ));
    assert!(out.contains("1 rows imported"), "{out}");
    let kept = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(kept, 3, "the rows of the first COPY are kept");
}

#[test]
fn options_of_copy_are_checked_and_applied() {
    let mut shell = TestShell::embedded();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY, v double, b boolean)");
    std::fs::write(&file, "h\n1;1.234,5;yes\n2;2;no\n3;3;no\n").unwrap();
    shell.succeed(&format!(
        "COPY t (k, v, b) FROM '{}/*.csv' WITH HEADER = true AND DELIMITER = ';' AND THOUSANDSSEP = '.' AND \
         DECIMALSEP = \
         ',' AND BOOLSTYLE = 'yes,no' AND SKIPROWS = 1 AND MAXROWS = 2 AND TTL = 1000 AND PREPAREDSTATEMENTS = false",
        directory.path().display()
    ));
    assert!(shell.succeed("SELECT k, v, b FROM t").contains(" 2 | 2 | False\n\n(1 rows)"));
    assert!(!shell.succeed("SELECT ttl(v) FROM t").contains("null"));
    let out = directory.path().join("out");
    shell.succeed("INSERT INTO t (k) VALUES (4); INSERT INTO t (k) VALUES (5)");
    shell.succeed(&format!(
        "COPY t (k) TO '{}' WITH MAXOUTPUTSIZE = 1 AND PAGESIZE = 1 AND MAXREQUESTS = 1",
        out.display()
    ));
    assert_eq!(std::fs::read_to_string(out.with_extension("2")).unwrap().lines().count(), 1);
    for (options, message) in [
        ("WITH NOSUCH = 1", "Unrecognized COPY TO options: nosuch"),
        ("WITH DELIMITER = 'ab'", "invalid DELIMITER: expected one ASCII character, found 'ab'"),
        ("WITH BOOLSTYLE = 'a'", "invalid BOOLSTYLE"),
        ("WITH ENCODING = 'latin1'", "invalid ENCODING: expected utf8"),
        ("WITH BEGINTOKEN = 5 AND ENDTOKEN = 4", "Found no ranges to query"),
        ("WITH", "expected the name of an option"),
    ] {
        let (_, errors) = shell.run(&format!("COPY t TO STDOUT {options}"));
        assert!(errors.contains(message), "{options}: {errors}");
    }
}

#[test]
fn counters_are_copied_as_increments() {
    let mut shell = TestShell::embedded();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    std::fs::write(&file, "1,5\n2,7\n1,\n").unwrap();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY, n counter)");
    shell.succeed(&format!("COPY t FROM '{0}'; COPY t FROM '{0}'", file.display()));
    assert_eq!(shell.succeed("SELECT n FROM t WHERE k = 1"), "\n n\n----\n 10\n\n(1 rows)\n");
}

#[test]
fn csv_and_json_files_are_imported_and_their_rejects_kept() {
    let mut shell = TestShell::embedded();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    shell.succeed("CREATE TABLE t (k int PRIMARY KEY, \"V\" text, l list<int>)");
    std::fs::write(path("a.csv"), "V,k,l\n\"it's, \"\"x\"\"\",1,\"[1, 2]\"\nb,x,\n").unwrap();
    let (out, errors) = shell.run(&format!(".import {} t", path("a.csv")));
    assert!(out.starts_with("1 rows imported into k.t in "), "{out}");
    assert!(errors.contains("1 rows were rejected"), "{errors}");
    let rejected = std::fs::read_to_string(path("a.csv.rejected.jsonl")).unwrap();
    assert!(rejected.contains("\"row\":2") && rejected.contains("Unable to make int from 'x'"), "{rejected}");
    let lines = "{\"k\": 2, \"V\": \"json\", \"l\": [3]}\n{\"k\": 3}\n";
    std::fs::write(path("b.jsonl"), lines).unwrap();
    std::fs::write(path("c.json"), format!("[{}]", lines.trim().replace('\n', ",").replace(": 2", ": 4")))
        .unwrap();
    shell.succeed(&format!(".import {} t\n.import '{}' k.t --threads 1", path("b.jsonl"), path("c.json")));
    let out = shell.succeed("SELECT k, \"V\", l FROM t");
    for row in [" 1 | it's, \"x\" | [1, 2]", " 2 |      json |    [3]", " 3 |      null |   null", " 4 |"] {
        assert!(out.contains(row), "{row}: {out}");
    }
    let (_, errors) = shell.run(&format!(".import {} t", path("nosuch.csv")));
    assert!(errors.contains("cannot read"), "{errors}");
    std::fs::write(path("d.xml"), "").unwrap();
    assert!(shell.run(&format!(".import {} t", path("d.xml"))).1.contains("expected .csv"));
}
