//! Validation of our files by Cassandra.

#[path = "../oracle/cassandra.rs"]
mod cassandra;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::random_table::{Contents, RandomTable, tables};
use crate::support::value_text::Simple;
use crate::support::{GoldenTable, component, golden_tables, model, open, rewrite, rewrite_options, write};
use cassandra::{Cassandra, text};
use cassette_sstable::compression::{ChunkFormat, Compressor};
use cassette_sstable::dump::{DumpFormat, DumpOptions};
use cassette_sstable::{ChunkCache, Component, Descriptor, SSTableId, WriterOptions};
use cassette_vfs::RealFileSystem;

/// The statements of a case's schema that create its table; types and keyspace too, once.
fn add_schema(golden: &GoldenTable, schema: &mut String) {
    let text = std::fs::read_to_string(golden.case.join("schema.cql")).unwrap();
    let name = format!("golden.{}", golden.table.name);
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        let of_table = [" ", "\n"].iter().any(|end| {
            [format!("CREATE TABLE {name}{end}"), format!("ALTER TABLE {name}{end}")]
                .iter()
                .any(|start| statement.starts_with(start.as_str()))
        });
        let shared = statement.starts_with("CREATE KEYSPACE") || statement.starts_with("CREATE TYPE");
        if of_table || shared && !schema.contains(statement) {
            writeln!(schema, "{statement};").unwrap();
        }
    }
}

/// Cassandra's dumps of its files and of our copies are equal, and our files pass all its
/// checks.
#[test]
fn golden_tables_written_by_us_are_cassandras_to_cassandra() {
    let Some(cassandra) = Cassandra::find() else { return };
    cassandra.compile();
    let root = tempfile::tempdir().unwrap();
    let (ours, theirs) = (root.path().join("ours"), root.path().join("theirs"));
    let mut tables = BTreeSet::new();
    let mut schema = String::new();
    let mut count = 0;
    for golden in golden_tables() {
        // Some cases contain the same table at different times, with other numbers.
        let table = golden.directory.file_name().unwrap();
        if tables.insert(table.to_owned()) {
            add_schema(&golden, &mut schema);
        }
        // Dropped data is not written again.
        let dropped = !golden.table.dropped_columns.is_empty();
        for reader in golden.open() {
            let [ours, theirs] = [&ours, &theirs].map(|root| root.join("golden").join(table));
            std::fs::create_dir_all(&ours).unwrap();
            std::fs::create_dir_all(&theirs).unwrap();
            rewrite(&reader, rewrite_options(&reader), &ours);
            if !dropped {
                for part in Component::ALL {
                    if let Some(bytes) = component(reader.descriptor(), part) {
                        std::fs::write(theirs.join(reader.descriptor().file_name(part)), bytes).unwrap();
                    }
                }
            }
            count += 1;
        }
    }
    std::fs::remove_dir(theirs.join("golden").join("altered-35ac221c64155c029dc7231a6e9b8ca5")).unwrap();
    // An ALTER opens the keyspace, which then accepts no more tables.
    let (alter, create): (Vec<_>, Vec<_>) =
        schema.split_inclusive(";\n").partition(|statement| statement.starts_with("ALTER"));
    let schema = create.concat() + &alter.concat();
    cassandra.judge(&schema, &theirs, None);
    let said = cassandra.judge(&schema, &ours, Some(&theirs));
    let verified = said.lines().filter(|line| line.ends_with(": verified")).count();
    assert_eq!(verified, count, "{said}");
}

fn formats() -> Vec<Option<ChunkFormat>> {
    let compressors = [
        Compressor::Lz4 { high: None },
        Compressor::Snappy,
        Compressor::Zstd { level: 3 },
        Compressor::Deflate,
        Compressor::Noop,
    ];
    let format = |compressor: Compressor, max_compressed_length| {
        Some(ChunkFormat { compressor, options: Vec::new(), chunk_length: 4096, max_compressed_length })
    };
    let always = compressors.iter().map(|compressor| format(compressor.clone(), i32::MAX));
    let sometimes = compressors.iter().map(|compressor| format(compressor.clone(), 3000));
    std::iter::once(None).chain(always).chain(sometimes).collect()
}

/// Random rows of every kind, under every compressor, pass all of Cassandra's checks, and it would
/// write the same bytes.
#[test]
fn random_tables_written_by_us_pass_cassandras_checks() {
    let Some(cassandra) = Cassandra::find() else { return };
    cassandra.compile();
    let root = tempfile::tempdir().unwrap();
    let mut schema = String::from(
        "CREATE KEYSPACE random WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n",
    );
    let mut written = Vec::new();
    for (turn, RandomTable { table, cql }) in tables().into_iter().enumerate() {
        let options = if cql.contains(") WITH") { ") AND" } else { ") WITH" };
        let id = table.id.0;
        writeln!(schema, "CREATE TABLE random.{} ({cql}{options} ID = {id};", table.name).unwrap();
        let directory = root.path().join("random").join(table.directory_name());
        std::fs::create_dir_all(&directory).unwrap();
        // The tables use the formats in turn: all of each would take minutes.
        for (number, format) in (1..).zip(formats().into_iter().skip(turn).step_by(4)) {
            let mut random = model::random(number);
            let sizes: Vec<_> = (0..30).map(|i| [0, 1, 3, 10, 400][i % 5]).collect();
            let updates = Contents { random: &mut random, table: table.clone() }.partitions(&sizes);
            let descriptor = Descriptor::new(&directory, SSTableId::Sequence(number));
            let change = |options| WriterOptions { compression: format, ..options };
            write(Arc::new(RealFileSystem), &descriptor, &table, &updates, change).unwrap().unwrap();
            written.push((descriptor, table.clone()));
        }
    }
    let said = cassandra.judge(&schema, root.path(), None);
    let verified = said.lines().filter(|line| line.ends_with(": verified")).count();
    assert_eq!(verified, written.len(), "{said}");

    // Our dump equals Cassandra's.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    for (descriptor, table) in written {
        let reader = open(&descriptor, &table, &Arc::new(ChunkCache::new(1 << 20))).unwrap();
        let mut dump = Vec::new();
        let options =
            DumpOptions { format: DumpFormat::Json, raw_timestamps: true, keys: None, excluded: &[], now };
        reader.dump(&Simple, &options, &mut dump).unwrap();
        let ours: Vec<serde_json::Value> = serde_json::from_slice(&dump).unwrap();
        let name = descriptor.file_name(Component::Data).replace("-Data.db", ".json");
        let theirs = std::fs::read(descriptor.directory.join(name)).unwrap();
        let theirs: Vec<serde_json::Value> = serde_json::from_slice(&theirs).unwrap();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{descriptor}");
        }
    }
}

/// The tools themselves, run from the command line.
#[test]
fn sstabledump_and_sstablemetadata_take_our_files() {
    let Some(cassandra) = Cassandra::find() else { return };
    let root = tempfile::tempdir().unwrap();
    let RandomTable { table, .. } = tables().swap_remove(1);
    let directory = root.path().join("random").join(table.directory_name());
    std::fs::create_dir_all(&directory).unwrap();
    let mut random = model::random(3);
    let updates = Contents { random: &mut random, table: table.clone() }.partitions(&[3, 0, 20, 1]);
    let descriptor = Descriptor::new(&directory, SSTableId::Sequence(1));
    write(Arc::new(RealFileSystem), &descriptor, &table, &updates, |options| options).unwrap().unwrap();
    let data = descriptor.path(Component::Data);

    let output = cassandra.run("org.apache.cassandra.tools.SSTableExport", &[&data, Path::new("-t")]);
    assert!(output.status.success(), "{}", text(&output));
    let dump: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(dump.len(), updates.len());

    let output = cassandra.run("org.apache.cassandra.tools.SSTableMetadataViewer", &[&data]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for expected in
        ["Compressor: org.apache.cassandra.io.compress.LZ4Compressor", "SSTable Level: 0", "Repaired at: 0"]
    {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}
