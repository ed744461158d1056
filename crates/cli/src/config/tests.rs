//! Files of Cassandra and of users, and the settings that follow from them.

use cassette_engine::commitlog::SyncMode;
use cassette_engine::{CdcSettings, OverlappingTombstones};

use super::*;

#[test]
fn a_cassandra_yaml_is_taken_as_it_is() {
    let config = Config::parse(
        "cluster_name: 'Test'\nnum_tokens: 16\nseed_provider:\n  - class_name: x\n    parameters: [{seeds: a}]\n\
         commitlog_sync: batch\nmemtable_heap_space: 64MiB\nrpc_address: 127.0.0.2\nnative_transport_port: 9999\n\
         compaction_throughput: 16MiB/s\nprovide_overlapping_tombstones: row\n\
         overlapping_tombstones_max_sources: 10\noverlapping_tombstones_policy: skip\n\
         overlapping_tombstones_threshold: 0.3\n\
         compaction_backpressure_stop_sstables: 500\ncompaction_backpressure_stop_timeout: 3s\n\
         saved_caches_directory: /tmp/caches\nkey_cache_save_period: 4m\nkey_cache_keys_to_save: 100\n\
         row_cache_save_period: 0s\nrow_cache_keys_to_save: 0\ncounter_cache_size: 1MiB\n\
         counter_cache_save_period: 7200s\n\
         default_compaction:\n  class_name: org.apache.cassandra.db.compaction.UnifiedCompactionStrategy\n\
         \x20 parameters:\n    scaling_parameters: T4\n\
         cache_load_timeout: 9s\nkey_cache_migrate_during_compaction: false\n\
         cdc_enabled: true\ncdc_raw_directory: /tmp/cdc\ncdc_total_space: 64MiB\ncdc_block_writes: false\n\
         cdc_free_space_check_interval_ms: 1000\n",
    )
    .unwrap();
    let options = config.database(Path::new("x")).unwrap();
    assert_eq!(options.engine.memtable_heap_space, 64 << 20);
    assert_eq!(options.engine.compaction_throughput, 16 << 20);
    assert_eq!(options.engine.overlapping.provide, OverlappingTombstones::Row);
    assert_eq!(options.engine.overlapping.max_sources, 10);
    assert!((options.engine.overlapping.threshold - 0.3).abs() < f64::EPSILON);
    assert_eq!(options.engine.backpressure.stop_sstables, 500);
    assert_eq!(options.engine.backpressure.stop_timeout, Duration::from_secs(3));
    assert!(matches!(options.engine.commitlog_sync, SyncMode::Batch));
    let saved = &options.engine.saved_caches;
    assert_eq!(saved.directory.as_deref(), Some(Path::new("/tmp/caches")));
    assert_eq!((saved.key.period, saved.key.keys_to_save), (Duration::from_secs(240), 100));
    assert_eq!((saved.row.period, saved.row.keys_to_save), (Duration::ZERO, usize::MAX));
    assert_eq!((saved.counter.period, saved.load_timeout.as_secs()), (Duration::from_secs(7200), 9));
    assert_eq!(options.engine.counter_cache_size, 1 << 20);
    assert!(!options.engine.key_cache_migrate_during_compaction);
    let cdc = CdcSettings {
        enabled: true,
        directory: Some("/tmp/cdc".into()),
        total_space: Some(64 << 20),
        block_writes: false,
        check_interval: Duration::from_secs(1),
    };
    assert_eq!(options.engine.cdc, cdc);
    assert_eq!(options.default_compaction.class, "UnifiedCompactionStrategy");
    assert_eq!(options.default_compaction.options, [("scaling_parameters".into(), "T4".into())].into());
    assert_eq!(config.server().unwrap().listen_address, "127.0.0.2:9999".parse().unwrap());
}

#[test]
fn what_would_not_be_kept_is_refused_and_what_does_not_matter_is_not() {
    for (text, expected) in [
        (
            "role_manager:\n  class_name: org.example.LdapRoleManager\n",
            "role_manager: org.example.LdapRoleManager is not supported",
        ),
        ("partitioner: org.apache.cassandra.dht.RandomPartitioner\n", "RandomPartitioner"),
        ("incremental_backups: true\n", "incremental_backups: true"),
    ] {
        let error = Config::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let file = "authenticator:\n  class_name: AllowAllAuthenticator\npartitioner: \
        org.apache.cassandra.dht.Murmur3Partitioner\n\
                client_encryption_options:\n  enabled: false\ncdc_enabled: false\ntrickle_fsync: false\n\
                trickle_fsync_interval: 10240KiB\nsstable_preemptive_open_interval: 50MiB\n\
                commit_failure_policy: stop\n";
    assert_eq!(Config::parse(file).unwrap().others.len(), 5);
}

#[test]
fn a_key_that_nobody_knows_is_an_error_that_names_it() {
    let error = Config::parse("memtable_heep_space: 1GiB\n").unwrap_err();
    assert!(error.to_string().contains("memtable_heep_space"), "{error}");
}

#[test]
fn a_value_that_makes_no_sense_is_an_error_that_names_its_key() {
    let config = Config::parse("memtable_heap_space: plenty\n").unwrap();
    let error = format!("{:#}", config.database(Path::new("x")).err().unwrap());
    assert!(error.contains("memtable_heap_space") && error.contains("plenty"), "{error}");
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    for (text, says) in [
        ("row_cache_size: -5\n", "row_cache_size: -5: expected a size"),
        ("row_cache_size: 5\n", "row_cache_size: 5: expected a size"),
        ("key_cache_save_period: -5s\n", "key_cache_save_period: -5s: expected a duration"),
        (
            "compaction_backpressure_slowdown_sstables: 300\n",
            "compaction_backpressure_slowdown_sstables of 300 is above \
             compaction_backpressure_stop_sstables of 256",
        ),
        (
            "default_compaction:\n  class_name: NoStrategy\n",
            "default_compaction: Unable to find compaction strategy class \
             'org.apache.cassandra.db.compaction.NoStrategy'",
        ),
        (
            "default_compaction:\n  class_name: LeveledCompactionStrategy\n  parameters:\n    fanout: 3\n",
            "default_compaction: Properties specified [fanout] are not understood by LeveledCompactionStrategy",
        ),
        ("native_transport_max_threads: 0\n", "native_transport_max_threads must be positive, but was 0"),
        ("native_transport_max_response_size: 2GiB\n", "expected 1MiB to 1GiB, found 2147483648 bytes"),
        ("native_transport_idle_timeout: 5\n", "native_transport_idle_timeout: 5"),
    ] {
        let config = Config::parse(text).unwrap();
        let error = config.database(Path::new("x")).err().or_else(|| config.server().err());
        let error = format!("{:#}", error.expect(text));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn guardrails_of_the_file_reach_the_database() {
    let text = "tables_warn_threshold: 10\nallow_filtering_enabled: false\ncollection_size_warn_threshold: 1MiB\n\
                collection_size_fail_threshold:\nread_consistency_levels_warned: [ANY, ALL]\n\
                table_properties_disallowed: []\nbatch_size_warn_threshold_in_kb: 5\n";
    let options = Config::parse(text).unwrap().database(Path::new("x")).unwrap();
    let guardrail = |name: &str| options.guardrails.get(name).map(String::as_str);
    assert_eq!(guardrail("tables_warn_threshold"), Some("10"));
    assert_eq!(guardrail("allow_filtering_enabled"), Some("false"));
    assert_eq!(guardrail("collection_size_warn_threshold"), Some("1MiB"));
    assert_eq!(guardrail("collection_size_fail_threshold"), Some(""));
    assert_eq!(guardrail("read_consistency_levels_warned"), Some("ANY,ALL"));
    assert_eq!(guardrail("batch_size_warn_threshold"), Some("5KiB"));
    assert_eq!(guardrail("keyspaces_warn_threshold"), None);
}

#[test]
fn every_guardrail_is_documented_and_has_an_effect() {
    let documentation = include_str!("../../../../docs/settings.md");
    for guardrail in GUARDRAILS {
        let name = guardrail.name;
        assert!(documentation.contains(&format!("`{name}`")), "{name} is not in docs/settings.md");
        assert!(!WITHOUT_EFFECT.lines().any(|key| key == name), "{name} is said to have no effect");
    }
}

#[test]
fn configurations_in_the_documents_have_an_effect() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut blocks = 0;
    for document in std::fs::read_dir(documents).unwrap().map(|entry| entry.unwrap().path()) {
        if document.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&document).unwrap();
        for block in text.split("\n```yaml\n").skip(1) {
            let block = block.split("\n```\n").next().unwrap();
            let config = Config::parse(block).unwrap_or_else(|e| panic!("{}: {e:#}", document.display()));
            let ignored: Vec<&String> = config.others.keys().collect();
            assert!(ignored.is_empty(), "{}: {ignored:?} has no effect", document.display());
            if let Err(error) = config.database(Path::new("x")) {
                // Files that an administrator creates.
                let error = format!("{error:#}");
                assert!(error.contains("cannot read /etc/cassette/"), "{}: {error}", document.display());
            }
            config.server().unwrap();
            blocks += 1;
        }
    }
    assert!(blocks > 0, "no document has a configuration");
}

#[test]
fn guardrails_that_cassandra_refuses_are_refused() {
    for (text, says) in [
        ("tables_warn_threshold: 0\n", "Invalid value for tables_warn_threshold: 0 is not allowed"),
        (
            "tables_warn_threshold: 5\ntables_fail_threshold: 3\n",
            "The warn threshold 5 for tables_warn_threshold should be lower than the fail threshold 3",
        ),
        ("batch_size_warn_threshold: 5\n", "Invalid data storage: 5"),
        ("group_by_enabled: maybe\n", "Use 'true' or 'false' values"),
    ] {
        let error = format!("{:#}", Config::parse(text).unwrap_err());
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_file_of_comments_sets_nothing() {
    assert!(Config::parse("# nothing\n\n").unwrap().cluster_name.is_none());
}
