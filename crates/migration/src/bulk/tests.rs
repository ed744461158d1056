//! Rows that are written into parts are those of the source.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_database::{Database, ImportOptions, Options};
use cassette_rows::{PartitionHeader, PartitionStream, Unfiltered};
use proptest::prelude::*;
use tempfile::TempDir;

use super::parts::PartsDirectory;
use super::progress::Progress;
use super::slice_writer::{Density, SliceWriter, Writing, Written};
use super::source::{Source, SourceTable};
use crate::endpoint::{Endpoint, Session};
use crate::plan::Plan;
use crate::schema;
use crate::statements::Statements;
use crate::throttle::Throttle;
use crate::token_range::TokenRange;
use crate::verify::selected;

#[expect(dead_code, reason = "the tests of moves use all of it")]
#[path = "../../tests/all/random.rs"]
mod random;

/// What the random tables need.
mod support {
    use bytes::Bytes;
    use cassette_database::Database;

    pub fn execute(database: &Database, cql: &str) {
        database.session().execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    pub fn rows(_: &Database, _: &str) -> Vec<Vec<Option<Bytes>>> {
        Vec::new()
    }
}

use support::execute;

/// A partition with its rows and markers.
type Content = Vec<(PartitionHeader, Vec<Unfiltered>)>;

fn content(stream: &mut dyn PartitionStream) -> Content {
    let mut content = Vec::new();
    while let Some(header) = stream.next_partition().unwrap() {
        let mut rows = Vec::new();
        while let Some(unfiltered) = stream.next_unfiltered().unwrap() {
            rows.push(unfiltered);
        }
        // A partition without anything is not written.
        if !rows.is_empty() || !header.deletion.is_live() || header.static_row.is_some() {
            content.push((header, rows));
        }
    }
    content
}

fn open(path: &Path) -> Database {
    let mut options = Options::new(path);
    options.engine.background_threads = false;
    Database::open(options).unwrap()
}

/// Returns a plan with the tables of keyspace `ks`.
fn plan(database: &Database, path: &Path) -> Plan {
    let path = path.to_owned();
    let mut session = Session::Directory { database, path: &path };
    let keyspaces = vec![schema::keyspace(&mut session, "ks").unwrap().unwrap()];
    Plan { keyspaces, before: Vec::new(), after: Vec::new(), warnings: Vec::new() }
}

/// Writes a range of a table into parts.
fn parts(
    source: &Source<'_>,
    table: &SourceTable<'_>,
    directory: &PartsDirectory,
    part_bytes: u64,
    range: TokenRange,
) -> Vec<Written> {
    let (density, throttle) = (Density::of_table(table), Throttle::new(None));
    let writing = Writing { directory, part_bytes, throttle, rows: AtomicU64::new(0), is_stopped: &|| false };
    let partitions = source.partitions(table, range).unwrap();
    let mut writer = SliceWriter::new(&writing, table, &density, partitions, range).unwrap();
    let mut parts: Vec<Written> = Vec::new();
    while !writer.is_complete() {
        parts.extend(writer.next_part().unwrap());
    }
    let rows: u64 = parts.iter().map(|part| part.rows).sum();
    assert_eq!(rows, writing.rows.load(Ordering::Relaxed));
    parts
}

/// Compares all tables with their parts, and returns the number of partitions.
fn parts_have_the_rows_of_the_source(
    database: &Database,
    work: &TempDir,
    part_bytes: u64,
    slices: u32,
) -> usize {
    let path = work.path().join("data");
    let plan = plan(database, &path);
    let progress = Progress::open(&work.path().join("progress"), "a", "b", 1).unwrap();
    let directory = PartsDirectory::claim(&work.path().join("parts"), &progress).unwrap();
    let endpoint = Endpoint::Directory { database: database.clone(), path };
    let source = Source::new(&endpoint, 0);
    let mut partitions = 0;
    for table in &source.tables(&plan).unwrap() {
        for range in (0..slices).map(|slice| TokenRange::part(slice, slices)) {
            let (start, end) = (cassette_rows::Token(range.0), cassette_rows::Token(range.1));
            let mut stored = database.stored_rows(&table.metadata, start, end).unwrap();
            let expected = content(&mut *stored);
            let written = parts(&source, table, &directory, part_bytes, range);
            let mut found = Content::new();
            let mut last = range.0;
            for part in &written {
                assert!(part.reader.is_index_confirmed());
                part.reader.verify().unwrap();
                let of_part = content(&mut part.reader.scan_all().unwrap());
                assert!(of_part.iter().all(|(header, _)| part.range.contains(header.key.token().0)));
                assert_eq!(part.range.0, last);
                last = part.range.1;
                found.extend(of_part);
            }
            assert!(last == range.1 || expected.is_empty());
            partitions += expected.len();
            assert_eq!(found, expected, "{}", table.table.name);
        }
    }
    drop(directory);
    assert!(!work.path().join("parts").exists(), "parts are removed");
    partitions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn parts_of_random_tables_have_all_cells_and_deletions(seed in any::<u64>(), slices in 1u32..4) {
        let work = TempDir::new().unwrap();
        let database = open(&work.path().join("data"));
        let tables = random::fill(&database, seed, 7, 0);
        execute(&database, "CREATE TABLE ks.n (k int, c int, s counter static, a counter, PRIMARY KEY (k, c))");
        for round in 0..3u64 {
            for table in &tables {
                table.write_and_delete(&database, seed.wrapping_add(round), 60);
            }
            for key in 0..5 {
                execute(&database, &format!("UPDATE ks.n SET a = a + {key}, s = s - 1 WHERE k = {key} AND c = 1"));
            }
            // The rows of the last round are in the commit log only.
            if round < 2 {
                database.flush().unwrap();
            }
        }
        prop_assert!(parts_have_the_rows_of_the_source(&database, &work, 1 << 20, slices) > 20);
    }
}

#[test]
fn parts_end_at_their_size_and_a_partition_is_not_divided() {
    let work = TempDir::new().unwrap();
    let path = work.path().join("data");
    let database = open(&path);
    execute(
        &database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    execute(
        &database,
        "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c)) WITH compression = {'class': \
         'LZ4Compressor', 'chunk_length_in_kb': '4'}",
    );
    let mut state = 1u64;
    let mut text = || {
        let letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + (state >> 58) as u8)
        };
        (0..1000).map(letter).filter(|letter| *letter != '\'').collect::<String>()
    };
    for key in 0..600 {
        let rows = if key == 300 { 400 } else { 1 };
        for row in 0..rows {
            execute(&database, &format!("INSERT INTO ks.t (k, c, v) VALUES ({key}, {row}, '{}')", text()));
        }
    }
    assert_eq!(parts_have_the_rows_of_the_source(&database, &work, 100 << 10, 1), 600);
    let plan = plan(&database, &path);
    let progress = Progress::open(&work.path().join("progress"), "a", "b", 1).unwrap();
    let directory = PartsDirectory::claim(&work.path().join("parts"), &progress).unwrap();
    let endpoint = Endpoint::Directory { database: database.clone(), path };
    let source = Source::new(&endpoint, 0);
    let tables = source.tables(&plan).unwrap();
    let written = parts(&source, &tables[0], &directory, 100 << 10, TokenRange(i64::MIN, i64::MAX));
    let bytes: Vec<u64> = written.iter().map(|part| part.reader.data_bytes_on_disk()).collect();
    assert!(written.len() >= 5, "{bytes:?}");
    let large = bytes.iter().filter(|bytes| **bytes > 150 << 10).count();
    assert_eq!(large, 1, "the part with the large partition: {bytes:?}");
}

#[test]
fn parts_of_selected_rows_have_what_a_select_shows() {
    let work = TempDir::new().unwrap();
    let path = work.path().join("data");
    let database = open(&path);
    let tables = random::fill(&database, 2032, 14, 120);
    for cql in [
        "CREATE TABLE ks.k (k int PRIMARY KEY)",
        "INSERT INTO ks.k (k) VALUES (1)",
        "CREATE TABLE ks.s (k int, c int, s int static, v int, PRIMARY KEY (k, c))",
        "INSERT INTO ks.s (k, s) VALUES (1, 1)",
        "UPDATE ks.s USING TTL 900 SET v = 1 WHERE k = 2 AND c = 1",
    ] {
        execute(&database, cql);
    }
    let plan = plan(&database, &path);
    let progress = Progress::open(&work.path().join("progress"), "a", "b", 1).unwrap();
    let directory = PartsDirectory::claim(&work.path().join("parts"), &progress).unwrap();
    let endpoint = Endpoint::Directory { database: database.clone(), path: path.clone() };
    let source = Source::Selected { endpoint: &endpoint, marker: 77 };
    let target = open(&work.path().join("target"));
    execute(
        &target,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    plan.keyspaces[0].objects.iter().for_each(|object| execute(&target, &object.statement));
    let ring = TokenRange(i64::MIN, i64::MAX);
    let mut rows = 0;
    // Twice: the same rows change nothing.
    for _ in 0..2 {
        for table in &source.tables(&plan).unwrap() {
            for part in parts(&source, table, &directory, 1 << 20, ring) {
                let imported = &part.files.descriptor.directory;
                target.import("ks", &table.table.name, imported, &ImportOptions::default()).unwrap();
            }
            let statements = Statements::new(table.table.clone());
            let now = crate::copy::now();
            let digest = |database: &Database| {
                let mut session = Session::Directory { database, path: &path };
                selected(&mut session, &statements, ring, now).unwrap()
            };
            let expected = digest(&database);
            assert_eq!(digest(&target), expected, "{}", table.table.name);
            rows += expected.rows;
        }
    }
    assert!(rows > 200 && tables.len() == 14, "{rows} rows");
}
