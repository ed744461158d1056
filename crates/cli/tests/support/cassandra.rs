//! Apache Cassandra on dedicated loopback addresses.
//!
//! Cassandra 5.0.8 comes from Maven, once, into the target directory (or from `CASSANDRA_LIB`, a
//! folder of its jars), and runs on JDK 17. Without Maven or a JDK the tests that need it print a
//! warning and check nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use cassette_lab::cassandra::{Cluster, ClusterSettings};

/// Nodes, stopped at the end.
pub struct Nodes(pub Cluster);

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn skipped(why: &str) {
    // Not by a macro, whose output the test harness captures if a test passes.
    let _ =
        writeln!(std::io::stderr(), "\n######## SKIPPED: nothing runs on Cassandra here: {why} ########\n");
    // Where it must not be skipped (continuous integration), that is a failure.
    assert!(std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none(), "{why}");
}

fn works(command: &str) -> bool {
    Command::new(command).arg("-version").output().is_ok_and(|output| output.status.success())
}

/// Starts nodes on 127.0.`network`.* with these lines of cassandra.yaml; `None` if this machine has
/// no Cassandra. What they have acknowledged survives kills.
pub fn start(directory: &Path, nodes: usize, network: u8, yaml: &[(&str, String)]) -> Option<Nodes> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra");
    let defaults = ClusterSettings::default();
    let library = cache.join(format!("lib-{}", defaults.version));
    if !works("java") {
        skipped("no JDK 17 (java)");
        return None;
    }
    match std::env::var_os("CASSANDRA_LIB") {
        Some(lib) if !library.exists() => {
            std::fs::create_dir_all(&cache).unwrap();
            std::os::unix::fs::symlink(lib, &library).unwrap();
        }
        None if !library.exists() && !works("mvn") => {
            skipped("no Maven (mvn) to fetch Cassandra with, and no CASSANDRA_LIB");
            return None;
        }
        _ => {}
    }
    // An acknowledged write must not be lost with the process.
    let batch = ("commitlog_sync".to_owned(), "batch".to_owned());
    let yaml = yaml.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let settings = ClusterSettings {
        nodes,
        heap: "512M".to_owned(),
        directory: directory.to_path_buf(),
        cache,
        network: [127, 0, network],
        // A node runs for seconds, mostly to start: optimized code would not repay its compilation.
        java: vec!["-XX:TieredStopAtLevel=1".to_owned()],
        yaml: yaml.chain([batch]).collect(),
        ..defaults
    };
    Some(Nodes(Cluster::start(settings).unwrap()))
}
