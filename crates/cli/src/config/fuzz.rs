//! Any text is either a configuration or rejected.

use std::path::Path;

use cassette_fuzz::Target;

use super::Config;

/// The target `configuration`.
pub const TARGET: Target = Target {
    name: "configuration",
    run: read,
    seeds,
    words: &[
        b": ",
        b"\n",
        b"- ",
        b"  ",
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!int ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"'",
        b"|",
        b"null",
        b"~",
        b"1e400",
        b"MiB",
        b"18446744073709551616",
        b"-1",
        b"#",
        b"---",
        b"...",
        b"%YAML 1.2",
    ],
    inputs: 3000,
};

fn read(input: &[u8]) {
    let Ok(config) = Config::parse(&String::from_utf8_lossy(input)) else { return };
    drop(config.admin());
    drop(config.server());
    drop(config.audit_log(Some(Path::new("/nowhere"))));
    drop(config.full_query_log());
    drop(config.database(Path::new("/nowhere")));
}

fn seeds() -> Vec<Vec<u8>> {
    let whole = "cluster_name: 'x'\nrpc_address: localhost\nnative_transport_port: 9042\nadmin_listen: 127.0.0.1:7199\n\
        commitlog_sync: group\ncommitlog_sync_group_window: 2ms\ncommitlog_segment_size: 32MiB\n\
        file_cache_size: 512MiB\n\
        compaction_throughput: 64MiB/s\nmemtable_cleanup_threshold: 0.3\ndisk_failure_policy: stop\n\
        native_transport_max_concurrent_connections: -1\nkey_cache_save_period: 4h\n\
        default_compaction:\n  class_name: LeveledCompactionStrategy\n  parameters:\n    sstable_size_in_mb: 160\n";
    let lists = "seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n\
        \x20     - seeds: '127.0.0.1:7000'\ndata_file_directories: [/a, '/b']\ncommitlog_segment_size_in_mb: 32\n\
        commitlog_sync: periodic\ncommitlog_sync_period_in_ms: 10000\n";
    vec![whole.as_bytes().to_vec(), lists.as_bytes().to_vec()]
}

#[test]
fn any_text_is_a_configuration_or_refused() {
    let inputs = cassette_fuzz::run::short(&TARGET);
    assert!(inputs > 3000);
}
