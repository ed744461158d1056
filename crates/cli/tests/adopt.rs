//! `cassette adopt`, and servers on directories of Cassandra.

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use support::cql::{connect, execute, rows};
use support::{Launch, Server};

/// Unpacks a node that Cassandra 5.0.8 wrote into `node`.
fn node() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../adopt/tests/golden/nb.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(directory.path()).status();
    assert!(unpacked.unwrap().success());
    let node = directory.path().join("node");
    (directory, node)
}

fn adopt(node: &Path, data: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.arg("adopt").arg(node).arg("--data").arg(data).args(flags).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the sizes, modification times and inodes of everything below a directory.
fn listing(directory: &Path) -> BTreeMap<PathBuf, (u64, SystemTime, u64)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(listing(&path));
        }
        found.insert(path, (metadata.len(), metadata.modified().unwrap(), metadata.ino()));
    }
    found
}

#[test]
fn a_node_is_adopted_by_links_and_served() {
    let (directory, node) = node();
    let (before, data) = (listing(&node), directory.path().join("data"));
    let planned = adopt(&node, &data, &["--dry-run"]);
    let said = text(&planned);
    assert!(planned.status.success() && !data.exists(), "{said}");
    for words in
        ["Cassandra 5.0.8", "Keyspace shop", "items_of_name (view)", "function shop.plus", "takes about"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let adopted = adopt(&node, &data, &["--roles"]);
    assert!(adopted.status.success() && text(&adopted).contains(" 0 copied"), "{}", text(&adopted));
    assert_eq!(listing(&node), before);
    let inodes: Vec<u64> = before.values().map(|(_, _, inode)| *inode).collect();
    let of_data = listing(&data);
    let is_data = |path: &Path| path.to_string_lossy().ends_with("-Data.db");
    let linked = of_data.iter().filter(|(path, (_, _, inode))| is_data(path) && inodes.contains(inode));
    assert!(linked.count() > 20, "{of_data:?}");

    let server = Server::start(&data);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let session = connect(server.address()).await;
        let found: Vec<(i64,)> = rows(&session, "SELECT count(*) FROM shop.items", ()).await;
        assert_eq!(found, [(59,)]);
        execute(&session, "INSERT INTO shop.items (id, name) VALUES (1000, 'new')").await;
    });
    server.stop();
    assert_eq!(listing(&node), before);
}

#[test]
fn an_adoption_that_is_killed_leaves_nothing_or_everything() {
    let (directory, node) = node();
    let data = directory.path().join("data");
    let before = listing(&node);
    for millis in [0, 20, 60, 150, 400, 1000] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
        command.arg("adopt").arg(&node).arg("--data").arg(&data).arg("--skip-unsupported");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        if !data.exists() {
            let done = adopt(&node, &data, &["--skip-unsupported"]);
            assert!(done.status.success(), "{millis} ms: {}", text(&done));
        }
        let names: Vec<_> =
            std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().any(|name| name == "cassette.version"), "{names:?}");
        std::fs::remove_dir_all(&data).unwrap();
    }
    assert_eq!(listing(&node), before);
}

#[test]
fn a_server_refuses_foreign_directories_and_serves_them_for_reading_only() {
    let (directory, node) = node();
    let before = listing(&node);
    let beside = directory.path().join("log");
    for path in [node.clone(), node.join("data"), node.join("data/new")] {
        let ended = Launch::new(&path).logs_beside(&beside).refused();
        let expected = if path.ends_with("new") { "is within" } else { "cassette adopt" };
        assert!(ended.log.contains(expected), "{}", ended.log);
    }
    assert_eq!(listing(&node), before);

    let server = Launch::new(&node).read_only(&beside).start();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let session = connect(server.address()).await;
        let found: Vec<(i64,)> = rows(&session, "SELECT count(*) FROM shop.items", ()).await;
        assert_eq!(found, [(59,)]);
        for statement in ["INSERT INTO shop.items (id) VALUES (7)", "DROP TABLE shop.items"] {
            let error = session.query_unpaged(statement, ()).await.unwrap_err().to_string();
            assert!(error.contains("reading only"), "{error}");
        }
    });
    server.stop();
    assert_eq!(listing(&node), before);
}

#[test]
fn files_are_queried_without_a_server() {
    let (_directory, node) = node();
    let before = listing(&node);
    let query = |format: &str, statement: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
        command.args(["sstable", "query", "-f", format, statement]).arg(&node).output().unwrap()
    };
    let table = query("table", "SELECT id, tags FROM shop.items WHERE id = 7");
    let shown = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(shown.contains("id | tags") && shown.contains("7  | {'t1', 'u2'}"), "{}", text(&table));
    assert!(shown.contains("(1 rows)"), "{shown}");
    let json = query("json", "SELECT id, name FROM shop.items WHERE id IN (40, 41)");
    let rows: Vec<serde_json::Value> = String::from_utf8_lossy(&json.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    assert_eq!(rows.len(), 2, "{}", text(&json));
    assert!(rows.contains(&serde_json::json!({"id": 40, "name": "n5"})), "{rows:?}");
    let refused = query("table", "DELETE FROM shop.items WHERE id = 7");
    assert!(!refused.status.success() && text(&refused).contains("reading only"), "{}", text(&refused));
    assert_eq!(listing(&node), before);
}
