//! Cassandra's tools accept the results of compactions: with every strategy, with every storage
//! option, and with data removed that overlapping SSTables delete.

#[path = "../../sstable/tests/oracle/cassandra.rs"]
mod cassandra;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cassandra::{Cassandra, text};
use cassette_database::{Database, Options, Session};

/// Passed instead of the original file: the files are results of compactions. The filter is then
/// sized for more partitions than there are, and the level differs from that of a rewrite.
const COMPACTED: &str = "compacted";

const COLUMNS: &str = "k int, c1 int, c2 text, s text static, v text, n bigint, m map<text, int>, l list<int>, \
                       PRIMARY KEY (k, c1, c2)";

/// The tables: each storage option in at least one of them, each strategy in several.
const TABLES: &[(&str, &str)] = &[
    (
        "stcs_lz4",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 2, \
         'provide_overlapping_tombstones': 'row'}",
    ),
    (
        "stcs_plain",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'provide_overlapping_tombstones': 'cell'} \
         AND compression = {'enabled': false} AND crc_check_chance = 0.5",
    ),
    (
        "lcs_snappy",
        "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 1, 'fanout_size': 5, \
         'provide_overlapping_tombstones': 'row'} \
         AND compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}",
    ),
    (
        "lcs_zstd",
        "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 1} \
         AND compression = {'class': 'ZstdCompressor', 'compression_level': 5, 'min_compress_ratio': 1.2} \
         AND bloom_filter_fp_chance = 0.001",
    ),
    (
        "twcs_deflate",
        "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', \
         'compaction_window_size': 1, 'provide_overlapping_tombstones': 'cell'} \
         AND compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 64}",
    ),
    (
        "twcs_noop",
        "compaction = {'class': 'TimeWindowCompactionStrategy'} AND compression = {'class': 'NoopCompressor'} \
         AND min_index_interval = 4 AND max_index_interval = 8",
    ),
    (
        "ucs_high",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4', 'base_shard_count': 3, \
         'min_sstable_size': '100KiB', 'target_sstable_size': '1MiB'} \
         AND compression = {'class': 'LZ4Compressor', 'lz4_compressor_type': 'high', 'min_compress_ratio': 2.0}",
    ),
    (
        "ucs_leveled",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L4', \
         'provide_overlapping_tombstones': 'row'} \
         AND bloom_filter_fp_chance = 1.0 AND min_index_interval = 1 AND max_index_interval = 1",
    ),
];

/// A counter table, without options.
const COUNTED: &str = "CREATE TABLE oracle.counted (k int, c int, s counter static, n counter, m counter, \
    PRIMARY KEY (k, c)) \
                       WITH ID = 6f7261c0-0000-1000-8000-000000000100";

fn create(name: &str, number: usize, options: &str) -> String {
    format!(
        "CREATE TABLE oracle.{name} ({COLUMNS}) WITH ID = 6f7261c0-0000-1000-8000-{number:012} AND {options}"
    )
}

/// The values of a linear congruential generator, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Writes the rows of one flush: small partitions and one that has a row index; deletions of every
/// kind.
fn write(session: &Session, table: &str, random: &mut Random, turn: u64) {
    let execute = |cql: String| {
        session.execute(&cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    };
    let mut timestamp = 1_700_000_000_000_000 + turn * 1_000_000_000;
    for i in 0..700 {
        timestamp += 1;
        // Every third row is in a large partition.
        let k = if i % 3 == 0 { 0 } else { 1 + random.below(120) };
        let (c1, c2) = (random.below(60), random.below(6));
        let of_row = format!("k = {k} AND c1 = {c1} AND c2 = 'c{c2}'");
        let text: String = (0..20).map(|_| format!("{:08x}", random.below(1 << 32))).collect();
        execute(match random.below(20) {
            0 => format!("DELETE FROM oracle.{table} USING TIMESTAMP {timestamp} WHERE {of_row}"),
            1 => format!("DELETE v, m FROM oracle.{table} USING TIMESTAMP {timestamp} WHERE {of_row}"),
            2 => {
                format!("DELETE FROM oracle.{table} USING TIMESTAMP {timestamp} WHERE k = {k} AND c1 = {c1}")
            }
            3 => format!(
                "DELETE FROM oracle.{table} USING TIMESTAMP {timestamp} WHERE k = {k} AND c1 > {c1} AND c1 <= {}",
                c1 + 3
            ),
            4 if k > 0 => format!("DELETE FROM oracle.{table} USING TIMESTAMP {timestamp} WHERE k = {k}"),
            5 => format!(
                "INSERT INTO oracle.{table} (k, s) VALUES ({k}, 'static {c1}') USING TIMESTAMP {timestamp}"
            ),
            6 => format!(
                "INSERT INTO oracle.{table} (k, c1, c2, v) VALUES ({k}, {c1}, 'c{c2}', '{text}') \
                 USING TIMESTAMP {timestamp} AND TTL 100000000"
            ),
            7 => format!(
                "UPDATE oracle.{table} USING TIMESTAMP {timestamp} SET m['x{c2}'] = {c1}, l = [1, {c1}] WHERE {of_row}"
            ),
            8 => format!("UPDATE oracle.{table} USING TIMESTAMP {timestamp} SET n = {c1} WHERE {of_row}"),
            _ => format!(
                "INSERT INTO oracle.{table} (k, c1, c2, v, n) VALUES ({k}, {c1}, 'c{c2}', '{text}', {i}) \
                 USING TIMESTAMP {timestamp}"
            ),
        });
    }
}

/// Writes the increments of one flush, and some deletions of counters that are not incremented
/// again.
fn count(session: &Session, random: &mut Random, turn: u64) {
    let execute = |cql: String| {
        session.execute(&cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    };
    for _ in 0..200 {
        let (k, c) = (random.below(20), random.below(8));
        let by = i64::try_from(random.below(1 << 20)).unwrap() - (1 << 19);
        let column = if random.below(3) == 0 { "m" } else { "n" };
        match random.below(10) {
            0 => execute(format!("UPDATE oracle.counted SET s = s + {by} WHERE k = {k}")),
            _ => execute(format!(
                "UPDATE oracle.counted SET {column} = {column} + {by} WHERE k = {k} AND c = {c}"
            )),
        }
    }
    execute(format!("UPDATE oracle.counted SET n = n + {turn} WHERE k = {} AND c = 1", 1000 + turn));
    if turn > 0 {
        execute(format!("DELETE FROM oracle.counted WHERE k = {}", 999 + turn));
    }
}

/// Counts that are not null, by `key clustering column`; the clustering is `-` for a static column.
type Counts = BTreeMap<String, i64>;

fn counts(session: &Session) -> Counts {
    let mut counts = Counts::new();
    for row in &session.execute("SELECT k, c, s, n, m FROM oracle.counted", ()).unwrap() {
        let (k, c): (i32, Option<i32>) = (row.get("k").unwrap(), row.get("c").unwrap());
        for (column, clustering) in [("s", None), ("n", c), ("m", c)] {
            if let Some(count) = row.get::<Option<i64>>(column).unwrap() {
                let clustering = clustering.map_or("-".to_owned(), |c| c.to_string());
                counts.insert(format!("{k} {clustering} {column}"), count);
            }
        }
    }
    counts
}

/// The counts in the output of `SSTableCheck`.
fn judged_counts(said: &str) -> Counts {
    let counts = said.lines().filter_map(|line| line.strip_prefix("COUNT ")?.rsplit_once(' '));
    counts.map(|(of, count)| (of.to_owned(), count.parse().unwrap())).collect()
}

/// Returns the Data files below a directory.
fn data_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(data_files(&path));
        } else if path.to_string_lossy().ends_with("-Data.db") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Checks the values of counters as sstabledump shows them: the first eight bytes, which are one
/// shard, which is global, and half of its node's id.
fn check_dumped_counters(cassandra: &Cassandra, files: &[&Path], count: usize) {
    let output = cassandra.run("org.apache.cassandra.tools.SSTableExport", files);
    assert!(output.status.success(), "{}", text(&output));
    let dumped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let dumped = dumped.to_string();
    let values: Vec<i64> = dumped
        .split("\"value\":")
        .skip(1)
        .filter_map(|rest| rest.split([',', '}']).next()?.parse().ok())
        .collect();
    assert_eq!(values.len(), count, "{dumped}");
    assert!(values.iter().all(|value| value >> 32 == 0x0001_8000), "{values:x?}");
}

#[test]
fn cassandras_tools_accept_what_compactions_write_under_every_option() {
    let Some(cassandra) = Cassandra::find() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::new(home.path());
    options.engine.background_threads = false;
    options.engine.compaction_throughput = 0;
    let database = Database::open(options).unwrap();
    let session = database.session();
    let keyspace =
        "CREATE KEYSPACE oracle WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(keyspace, ()).unwrap();
    let mut schema = format!("{keyspace};\n");
    for (number, (name, options)) in (1..).zip(TABLES) {
        let create = create(name, number, options);
        session.execute(&create, ()).unwrap_or_else(|error| panic!("{create}: {error}"));
        // Cassandra 5.0 has no option that limits sources. No table here sets one, so Cassandra
        // accepts the statement.
        writeln!(schema, "{create};").unwrap();
    }
    session.execute(COUNTED, ()).unwrap();
    writeln!(schema, "{COUNTED};").unwrap();
    let engine = database.engine();
    let id = |name: &str| engine.tables().into_iter().find(|(_, table)| table.name == name).unwrap().0;
    let mut random = Random(1);
    for turn in 0..9 {
        for (name, _) in TABLES {
            write(&session, name, &mut random, turn);
            engine.flush(Some(id(name))).unwrap();
        }
        count(&session, &mut random, turn);
        engine.flush(Some(id("counted"))).unwrap();
        engine.run_pending_compactions();
    }
    engine.compact(id("counted")).unwrap();
    let counted = counts(&session);
    for (name, _) in TABLES {
        // Whatever the strategy has compacted, the oldest SSTable is compacted while others overlap
        // it.
        let mut sstables = engine.sstables(id(name)).unwrap();
        sstables.sort_by_key(|sstable| sstable.max_timestamp);
        engine.compact_sstables(id(name), &[sstables[0].id]).unwrap();
        assert!(engine.table_stats(id(name)).unwrap().compactions > 0, "{name}");
    }
    assert!(engine.overlap_metrics().rows_dropped > 0, "something was left out");
    // A whole table with levels above L0.
    engine.compact(id("lcs_zstd")).unwrap();
    database.close().unwrap();

    // Only the tables, without the system keyspaces.
    let root = tempfile::tempdir_in(home.path()).unwrap();
    std::fs::rename(home.path().join("data/oracle"), root.path().join("oracle")).unwrap();
    let files = data_files(root.path());
    let deletions =
        |data: &&PathBuf| PathBuf::from(data.to_string_lossy().replace("-Data.db", "-Deletions.db")).exists();
    assert!(files.iter().any(|data| deletions(&data)), "a component that is not Cassandra's");

    cassandra.compile();
    let judged = cassandra.judge(&schema, root.path(), Some(Path::new(COMPACTED)));
    let verified = judged.lines().filter(|line| line.ends_with(": verified")).count();
    assert_eq!(verified, files.len(), "{judged}");

    let arguments: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = cassandra.run("org.apache.cassandra.tools.SSTableMetadataViewer", &arguments);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("Repaired at: 0").count(), files.len(), "{said}");
    assert!(said.contains("SSTable Level: 1"), "{said}");
    assert!(counted.len() > 200 && judged_counts(&judged) == counted, "{judged}\n{counted:?}");
    let counters: Vec<&Path> =
        arguments.iter().copied().filter(|path| path.to_string_lossy().contains("/counted-")).collect();
    check_dumped_counters(&cassandra, &counters, counted.len());
    for compressor in ["LZ4", "Snappy", "Zstd", "Deflate", "Noop"] {
        assert!(said.contains(&format!("{compressor}Compressor")), "{compressor} in {said}");
    }
}
