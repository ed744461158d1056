//! A full disk: writes are rejected with the reason, reads continue, and writes resume with the
//! space.
//!
//! The disk is a small tmpfs in a dedicated mount namespace, which only root can create; elsewhere
//! the test prints that it is skipped.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::cql::{connect, connect_to_keyspace, execute, execute_eventually, rows};
use support::{Launch, Server};

const CONFIG: &str = "memtable_heap_space: 4MiB\ncommitlog_segment_size: 1MiB\ncommitlog_sync: batch\n";

/// A tmpfs that exists as long as the process that holds its namespace.
struct SmallDisk {
    holder: Child,
    mounted: PathBuf,
}

impl SmallDisk {
    /// Returns `None`, with a message, where that is not permitted.
    fn mount(on: &Path, size: &str) -> Option<Self> {
        fs::create_dir(on).unwrap();
        let script =
            format!("mount -t tmpfs -o size={size} tmpfs \"$0\" && echo mounted && exec sleep infinity");
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .arg(on)
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut said = String::new();
        let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut said).unwrap();
        let disk = Self { holder, mounted: on.to_owned() };
        (said.trim() == "mounted").then_some(disk)
    }

    fn start(&self) -> Server {
        let holder = self.holder.id().to_string();
        let wrapper = ["nsenter", "--mount", "--target", &holder];
        Launch::new(&self.mounted.join("data"))
            .logs_beside(&self.mounted)
            .config(CONFIG)
            .wrapped_in(&wrapper)
            .start()
    }

    /// Returns the path of a file on it, outside of the namespace.
    fn outside(&self, name: &str) -> PathBuf {
        let mounted = self.mounted.strip_prefix("/").unwrap();
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(mounted).join(name)
    }

    fn fill(&self) {
        let file = fs::File::create(self.outside("ballast")).unwrap();
        let error = std::io::copy(&mut std::io::repeat(1), &mut &file).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        fs::remove_file(self.outside("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may have ended already; the mount ends with it either way.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk"), "64m") else {
        eprintln!("SKIPPED: a full disk, since no tmpfs can be mounted here (are you root?)");
        return;
    };
    let server = disk.start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v blob)").await;
    execute(&session, "CREATE TABLE small (k int PRIMARY KEY)").await;
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    let value = vec![7_u8; 10_000];
    let (mut acknowledged, mut key) = (Vec::new(), 0);
    for _ in 0..100 {
        session.execute_unpaged(&insert, (key, &value)).await.unwrap();
        acknowledged.push(key);
        key += 1;
    }

    // Reserved space is used up first, and then writes are rejected.
    disk.fill();
    let mut refused = None;
    for _ in 0..10_000 {
        match session.execute_unpaged(&insert, (key, &value)).await {
            Ok(_) => acknowledged.push(key),
            Err(error) => refused = Some(error.to_string()),
        }
        key += 1;
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("a full disk takes 100 MB");
    assert!(refused.contains("No space left"), "{refused}");
    for _ in 0..3 {
        session.execute_unpaged(&insert, (key, &value)).await.unwrap_err();
        key += 1;
    }
    let count = rows::<(i64,)>(&session, "SELECT count(*) FROM t", ()).await[0].0;
    assert_eq!(count, acknowledged.len() as i64);
    for key in [0, *acknowledged.last().unwrap()] {
        let found: Vec<(Vec<u8>,)> = rows(&session, "SELECT v FROM t WHERE k = ?", (key,)).await;
        assert!(found == [(value.clone(),)], "{key}");
    }

    disk.make_room();
    execute_eventually(&session, "INSERT INTO small (k) VALUES (1)").await;
    session.execute_unpaged(&insert, (-1, &value)).await.unwrap();
    acknowledged.push(-1);

    server.kill();
    let server = disk.start();
    let session = connect(server.address()).await;
    let mut found: Vec<(i32,)> = rows(&session, "SELECT k FROM ks.t", ()).await;
    found.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(found.into_iter().map(|(key,)| key).collect::<Vec<_>>(), acknowledged);
    server.stop();
}
