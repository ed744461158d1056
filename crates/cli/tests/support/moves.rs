//! Moves in progress.

use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use cassette_database::{Database, Options};
use serde_json::Value;

use super::PATIENCE;

/// Bytes of a row.
const ROW: usize = 1000;

/// Returns what a command has printed.
pub fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until the progress file of a move has this many completed parts.
pub fn wait_for_parts(directory: &Path, child: &mut Child, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(directory.join("cassette-move.progress")).unwrap_or_default();
        if text.matches("\"done\"").count() >= count {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the move has ended before {count} parts");
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a number in the environment.
pub fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Writes rows into a data directory, in several SSTables; each has the rows of all others, too.
pub fn fill(path: &Path, megabytes: usize, sstables: usize) -> usize {
    let mut options = Options::new(path);
    options.engine.background_threads = false;
    let database = Database::open(options).unwrap();
    let session = database.session();
    session
        .execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    session.execute("CREATE TABLE ks.t (k bigint, c int, v blob, PRIMARY KEY (k, c))", ()).unwrap();
    let rows = megabytes * 1_000_000 / ROW / sstables;
    let mut state = 1u64;
    for sstable in 0..sstables {
        for row in 0..rows {
            // xorshift64*: what does not compress takes as long to send as it is long.
            let value: Vec<u8> = (0..ROW / 8)
                .flat_map(|_| {
                    state ^= state >> 12;
                    state ^= state << 25;
                    state ^= state >> 27;
                    state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()
                })
                .collect();
            let key = (row as i64, sstable as i32, value);
            session.execute("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)", key).unwrap();
        }
        database.flush().unwrap();
    }
    database.close().unwrap();
    rows * sstables
}

/// Returns the events of a kind in the file `events`.
pub fn events(directory: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("events")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["event"] == kind).collect()
}

/// Creates certificates, and returns the options of a node that requires them.
pub fn internode_encryption(directory: &Path, address: &str) -> String {
    let certificates = directory.join("certificates");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.arg("certificates").arg(&certificates).args(["--name", address]);
    assert!(command.output().unwrap().status.success());
    let file = |name: &str| certificates.join(name).display().to_string();
    format!(
        "{{internode_encryption: all, require_client_auth: true, keystore: \"{}\", truststore: \"{}\", \
         ssl_context_factory: {{class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}}}",
        file("server.pem"),
        file("ca.pem")
    )
}
