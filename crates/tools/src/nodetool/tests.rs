//! Compares the output of commands with that of Cassandra 5.0.8's nodetool (`recorded/`): the same
//! labels in the same order and layout. Numbers can differ.

use std::collections::BTreeMap;

use cassette_admin_api::*;
use serde_json::Value;

use super::{cluster, compactions, info, pools, snapshots, table_stats, tablehistograms, top_partitions};

/// Replaces every number, size and id by a constant.
fn shape(text: &str) -> Vec<String> {
    text.lines().map(shape_of_line).collect()
}

fn shape_of_line(line: &str) -> String {
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    // In tables the indentation depends on the width of the cells.
    let indent = if indent.contains('\t') { indent } else { String::new() };
    let word = |word: &str| {
        let (bare, comma) = word.strip_suffix(',').map_or((word, ""), |bare| (bare, ","));
        let known = match bare {
            "KiB" | "MiB" | "GiB" | "bytes" => "size",
            "true" | "false" => "bool",
            "enabled" | "disabled" => "bool",
            "NaN" => "#",
            word if word.contains(|c: char| c.is_ascii_digit()) => "#",
            word => word,
        };
        format!("{known}{comma}")
    };
    indent + &line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[expect(clippy::too_many_lines, reason = "one value with all of its fields")]
fn node() -> NodeReport {
    let keyspace = |name: &str, class: &str, factor: Option<&str>| KeyspaceReport {
        name: name.into(),
        replication_class: class.into(),
        replication_options: factor
            .map(|n| ("replication_factor".to_owned(), n.to_owned()))
            .into_iter()
            .collect(),
        is_virtual: name == "system_views",
    };
    let pool = |name: &str| PoolReport {
        name: name.into(),
        active: 0,
        active_max: 2,
        pending: 0,
        completed: 605,
        blocked: 0,
        blocked_all_time: 0,
    };
    let latency = DistributionReport { count: 9, p50: 1109, max: 8239, ..DistributionReport::default() };
    NodeReport {
        trace_probability: 0.0,
        cluster_name: "peers".into(),
        host_id: "fe94f86a-497c-4348-97f2-1a50a7f5ddfb".into(),
        address: "127.0.77.1".into(),
        port: 9042,
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        tokens: vec!["-9192917681634400763".into()],
        release_version: "5.0.8".into(),
        version: "0.1.0".into(),
        partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".into(),
        schema_version: "9b88be16-ab1a-3508-8725-b1bbea802d3d".into(),
        keyspaces: vec![
            keyspace("system_traces", "SimpleStrategy", Some("2")),
            keyspace("system_distributed", "SimpleStrategy", Some("3")),
            keyspace("system_auth", "SimpleStrategy", Some("1")),
            keyspace("ks", "SimpleStrategy", Some("1")),
            keyspace("system_schema", "LocalStrategy", None),
            keyspace("system_views", "LocalStrategy", None),
            keyspace("system", "LocalStrategy", None),
        ],
        native_transport_active: true,
        load_bytes: 130_960,
        uncompressed_load_bytes: 175_280,
        uptime_seconds: 63,
        memory_bytes: 935 << 20,
        memory_max_bytes: 1 << 30,
        sstable_memory_bytes: 0,
        memtable_bytes: 0,
        memtable_max_bytes: 1 << 20,
        exceptions: 0,
        writes_stalled: 0,
        writes_stalled_by_compaction: 0,
        commit_log_bytes: 0,
        unknown_tables: 0,
        unknown_table_bytes: 0,
        commit_log_segments: 0,
        percent_repaired: 100.0,
        caches: BTreeMap::from([("chunk".to_owned(), CacheReport::default())]),
        pools: [
            "MutationStage",
            "ReadStage",
            "CompactionExecutor",
            "MemtableFlushWriter",
            "Native-Transport-Requests",
        ]
        .map(pool)
        .to_vec(),
        dropped: BTreeMap::from([("READ_RSP".to_owned(), 0)]),
        requests: ["Read", "Write", "RangeSlice", "CASRead", "CASWrite", "ViewWrite"]
            .map(|name| (name.to_owned(), RequestReport { latency, timeouts: 0, failures: 0, invalid: 0 }))
            .into(),
        statements: StatementReport {
            prepared_count: 0,
            prepared_evicted: 0,
            prepared_executed: 0,
            regular_executed: 0,
        },
        clients: Vec::new(),
        client_history: Vec::new(),
        connections_refused: 0,
        audit_entries_written: 0,
        audit_entries_dropped: 0,
        full_queries_written: 0,
        full_queries_dropped: 0,
        logins_failed: 0,
        logins_refused: 0,
        ..NodeReport::default()
    }
}

/// The three tables of the recorded keyspace.
fn tables() -> Vec<TableReport> {
    let values = DistributionReport {
        count: 30,
        p50: 124,
        mean: Some(6.0),
        max: 103,
        ..DistributionReport::default()
    };
    let table = |name: &str, class: &str, levels: usize| TableReport {
        keyspace: "ks".into(),
        table: name.into(),
        compaction: BTreeMap::from([
            ("class".to_owned(), class.to_owned()),
            ("compaction_window_unit".to_owned(), "HOURS".to_owned()),
        ]),
        levels: vec![LevelReport { sstables: 1, bytes: 339 }; levels],
        fanout: 10,
        sstables: 1,
        live_bytes: 5746,
        max_sstable_bytes: 5746,
        uncompressed_bytes: 1140,
        compression_ratio: 0.297_37,
        read: values,
        write: values,
        live_scanned: values,
        tombstones_scanned: values,
        partition_bytes: Some(values),
        partition_cells: Some(values),
        ..TableReport::default()
    };
    vec![
        table("lcs", "LeveledCompactionStrategy", 9),
        table("t", "SizeTieredCompactionStrategy", 0),
        table("twcs", "TimeWindowCompactionStrategy", 0),
    ]
}

fn stats(names: &[&str]) -> table_stats::Selected {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let options = table_stats::Options { names, ..table_stats::Options::default() };
    table_stats::Selected::new(tables(), options).unwrap()
}

/// The recorded keyspace with indexes: storage-attached ones of `asked` and `t`, another one of
/// `two`.
fn indexed_tables() -> Vec<TableReport> {
    let table = |name: &str, attached_indexes| TableReport {
        keyspace: "lab".into(),
        table: name.into(),
        is_index: name.contains('.'),
        attached_indexes,
        ..tables().swap_remove(1)
    };
    let queries = DistributionReport { count: 60, mean: Some(1.333), ..DistributionReport::default() };
    let unasked = AttachedIndexesReport { indexes: 1, queryable: 1, ..AttachedIndexesReport::default() };
    let asked = AttachedIndexesReport {
        indexes: 2,
        queryable: 2,
        disk_bytes: 36_078,
        queries: DistributionReport { mean: Some(9078.4), ..queries },
        filtering: DistributionReport { mean: Some(137.0), ..queries },
        sstables_hit: queries,
        rows_filtered: DistributionReport { mean: Some(39.0), ..queries },
    };
    let mut tables = vec![table("asked", Some(unasked)), table("t", Some(asked)), table("two", None)];
    tables.push(table("two.two_v", None));
    tables
}

#[test]
fn storage_attached_indexes_have_lines_in_tables_that_have_them() {
    let recorded = include_str!("recorded/tablestats_indexes.txt");
    let all = table_stats::Selected::new(indexed_tables(), table_stats::Options::default()).unwrap();
    let ours = all.text();
    assert_eq!(shape(&ours), shape(recorded), "\n{ours}\n--- recorded\n{recorded}");
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("SAI") && !line.contains("post-filtering"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let recorded = lines(recorded);
    assert_eq!(recorded.len(), 14);
    let mut ours = lines(&ours);
    // An SSTable of an index is one segment.
    ours[10] = ours[10].replace("segments hit per query (mean): 1.33", "segments hit per query (mean): 1.32");
    assert_eq!(ours, recorded);
    let data = all.data();
    let latencies = |table: &str| {
        let data = &data["lab"]["tables"][table];
        let ratio = &data["sai_total_queryable_index_ratio"];
        (data["sai_local_query_latency_ms"].clone(), data["sai_disk_used_bytes"].clone(), ratio.clone())
    };
    assert_eq!(latencies("t"), ("9.078".into(), "36078".into(), "2/2".into()));
    assert_eq!(latencies("asked"), ("NaN".into(), "0".into(), "1/1".into()));
    assert_eq!(latencies("two"), ("0.000".into(), Value::Null, Value::Null));
    for key in ["sai_disk_used_bytes", "sai_rows_filtered", "sai_total_queryable_index_ratio"] {
        let options = table_stats::Options { sort_key: key.into(), top: 1, ..Default::default() };
        let first = table_stats::Selected::new(indexed_tables(), options).unwrap().text();
        assert!(first.contains("\tTable: lab.t\n"), "{key}: {first}");
    }
}

fn compaction() -> CompactionReport {
    CompactionReport { concurrent_compactors: 2, throughput_bytes: 64 << 20, ..CompactionReport::default() }
}

fn history() -> Vec<CompactionRecord> {
    let kinds = ["Major compaction"].into_iter().chain([&"Compaction"; 7].map(|kind| *kind));
    let record = |(i, kind): (usize, &str)| CompactionRecord {
        id: "34431300-e588-11f1-b398-e70d9caa254c".into(),
        keyspace_name: [
            "ks",
            "ks",
            "system_schema",
            "system_schema",
            "system_schema",
            "system_schema",
            "system_schema",
            "system",
        ][i]
            .into(),
        columnfamily_name: [
            "t",
            "lcs",
            "keyspaces",
            "column_masks",
            "tables",
            "columns",
            "keyspaces",
            "local",
        ][i]
            .into(),
        compacted_at: 1_795_250_858_123,
        bytes_in: 2201,
        bytes_out: 1130,
        rows_merged: if matches!(i, 2 | 3) {
            BTreeMap::from([(1, 5), (4, 1)])
        } else {
            BTreeMap::from([(2, 30)])
        },
        compaction_properties: BTreeMap::from([("compaction_type".to_owned(), kind.to_owned())]),
    };
    kinds.enumerate().map(record).collect()
}

#[test]
fn texts_have_the_labels_and_the_layout_of_cassandra() {
    let node = node();
    let snapshot = |table: &str| SnapshotReport {
        name: "s1".into(),
        keyspace: "ks".into(),
        table: table.into(),
        true_bytes: 1137,
        bytes: 7762,
        ephemeral: false,
        created_at: 1_795_250_964_284,
        expires_at: None,
    };
    let cases = [
        (include_str!("recorded/tablestats.txt"), stats(&["ks"]).text()),
        (include_str!("recorded/tablehistograms.txt"), tablehistograms::tables(&tables()[1..2])),
        (include_str!("recorded/proxyhistograms.txt"), tablehistograms::requests(&node)),
        (include_str!("recorded/compactionstats.txt"), compactions::stats(&compaction(), false, false)),
        (include_str!("recorded/compactionhistory.txt"), compactions::history(&history())),
        (include_str!("recorded/gcstats.txt"), pools::collections(&node)),
        (include_str!("recorded/status.txt"), cluster::status(&node, false)),
        (include_str!("recorded/ring.txt"), cluster::ring(&node, false)),
        (include_str!("recorded/describecluster.txt"), cluster::describe(&node, false)),
        (
            include_str!("recorded/listsnapshots.txt"),
            snapshots::list(&["t", "lcs", "twcs"].map(snapshot), false),
        ),
        (include_str!("recorded/listsnapshots_none.txt"), snapshots::list(&[], false)),
    ];
    for (recorded, ours) in cases {
        assert_eq!(shape(&ours), shape(recorded), "\n{ours}\n--- recorded\n{recorded}");
    }
    // Where the widths of columns do not depend on their content, the texts are identical.
    assert_eq!(cluster::status(&node, false), include_str!("recorded/status.txt"));
    assert_eq!(cluster::ring(&node, false), include_str!("recorded/ring.txt"));
    let lines = |text: &str, n: usize| text.lines().take(n).map(str::to_owned).collect::<Vec<_>>();
    let ours = tablehistograms::requests(&node);
    assert_eq!(lines(&ours, 3), lines(include_str!("recorded/proxyhistograms.txt"), 3));
    let ours = tablehistograms::tables(&tables()[1..2]);
    assert_eq!(lines(&ours, 3), lines(include_str!("recorded/tablehistograms.txt"), 3));
}

#[test]
fn info_is_that_of_cassandra_and_the_chunk_cache() {
    let ours = info::text(&node(), false);
    let without: String = ours
        .lines()
        .filter(|line| !line.starts_with("Chunk Cache "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(shape(&without), shape(include_str!("recorded/info.txt")), "{ours}");
    let chunks = ours.lines().find(|line| line.starts_with("Chunk Cache")).unwrap();
    assert_eq!(
        shape_of_line(chunks),
        "Chunk Cache : entries #, size # size, capacity # size, # misses, # requests, # recent hit rate, # \
         microseconds miss latency"
    );
}

#[test]
fn info_shows_captured_changes_where_they_are_enabled() {
    let captures = NodeReport {
        captured_bytes: Some(3 << 20),
        captured_oldest_seconds: Some(41.6),
        captured_disk_bytes: Some(64 << 20),
        captured_space_bytes: Some(4 << 30),
        ..node()
    };
    let line = "Captured Changes       : 3 MiB since 42 s, disk 64 MiB / 4 GiB\n";
    let (with, without) = (info::text(&captures, false), info::text(&node(), false));
    assert!(with.contains(line), "{with}");
    assert_eq!(with.replace(line, ""), without);
}

#[test]
fn pools_have_names_of_cassandras_pools() {
    let ours = shape(&pools::text(&node()));
    let recorded = shape(include_str!("recorded/tpstats.txt"));
    assert_eq!(ours[0], recorded[0]);
    for line in ours.iter().filter(|line| !line.is_empty()) {
        assert!(recorded.contains(line), "{line}");
    }
}

#[test]
fn the_most_active_partitions_are_listed_as_by_cassandra() {
    let sampled = |partition: &str, count| Sampled {
        table: "ks.t".into(),
        partition: partition.into(),
        count,
        error: 0,
    };
    let of = |name: &str, n: usize| (name.to_owned(), vec![sampled("28", 18); n]);
    let mut samplers = BTreeMap::from([
        of("READS", 3),
        of("WRITES", 3),
        of("READ_ROW_COUNT", 4),
        of("READ_SSTABLE_COUNT", 4),
        of("WRITE_SIZE", 4),
    ]);
    samplers.insert(
        "LOCAL_READ_TIME".into(),
        vec![sampled("SELECT * FROM ks.t WHERE k = 19 LIMIT 100 ALLOW FILTERING", 2471); 4],
    );
    let asked = [
        "READS",
        "WRITES",
        "LOCAL_READ_TIME",
        "READ_ROW_COUNT",
        "READ_TOMBSTONE_COUNT",
        "READ_SSTABLE_COUNT",
        "WRITE_SIZE",
        "CAS_CONTENTIONS",
    ];
    let ours = top_partitions::text(&TopPartitions { samplers }, &asked.map(str::to_owned));
    assert_eq!(shape(&ours), shape(include_str!("recorded/toppartitions.txt")), "{ours}");
}

/// Collects the keys of all objects, by their paths; without those of maps by name.
fn keys(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}/{name}");
                keys(value, &path, found);
                found.push(path);
            }
        }
        Value::Array(items) => items.iter().take(1).for_each(|item| keys(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

#[test]
fn json_has_the_keys_of_cassandras() {
    let mut node = node();
    node.dropped = BTreeMap::new();
    for (recorded, ours) in [
        (include_str!("recorded/tablestats_json.txt"), stats(&["ks.t"]).data()),
        (include_str!("recorded/compactionhistory_json.txt"), compactions::history_data(&history())),
    ] {
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        keys(&serde_json::from_str(recorded).unwrap(), "", &mut expected);
        keys(&ours, "", &mut found);
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
    let recorded: Value = serde_json::from_str(include_str!("recorded/tpstats_json.txt")).unwrap();
    let ours = pools::data(&node);
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&recorded));
    for (pool, statistics) in ours["ThreadPools"].as_object().unwrap() {
        assert_eq!(names(statistics), names(&recorded["ThreadPools"][pool]), "{pool}");
    }
}

#[test]
fn tables_are_selected_and_sorted_by_options() {
    let pick = |names: &[&str], ignore, sort_key: &str, top| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let options = table_stats::Options {
            names,
            ignore,
            sort_key: sort_key.into(),
            top,
            ..table_stats::Options::default()
        };
        table_stats::Selected::new(tables(), options).map(|selected| selected.text())
    };
    let shown = |text: &str| text.matches("Table: ").count();
    assert_eq!(shown(&pick(&["ks.t"], false, "", 0).unwrap()), 1);
    assert_eq!(shown(&pick(&["ks.t"], true, "", 0).unwrap()), 2);
    let top = pick(&[], false, "table_name", 2).unwrap();
    assert!(
        top.starts_with(
            "Total number of tables: 3 (showing top 2 by table_name)\n----------------\n\tTable: ks.twcs\n"
        ),
        "{top}"
    );
    for (refused, reason) in [
        (pick(&["nosuch"], false, "", 0), "Unknown keyspace: nosuch"),
        (pick(&["ks.nosuch"], false, "", 0), "Unknown tables: [nosuch] in keyspace: ks"),
        (pick(&[], false, "", 2), "cannot filter top K tables without specifying a sort key."),
    ] {
        match refused {
            Err(super::Failure::Usage(message)) => assert_eq!(message, reason),
            other => panic!("{other:?}"),
        }
    }
}
