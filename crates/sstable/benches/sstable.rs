//! Throughput of writing, scanning, compacting and point reads of an SSTable.
//!
//! The rows are those of YCSB: one per partition, ten fields of a hundred bytes, half of them
//! random; and small ones.

use std::hint::black_box;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::{
    Clustering, ColumnKind, ColumnMetadata, DataType, DecoratedKey, LivenessInfo, MergedStream,
    PartitionStream, PartitionUpdate, RowBuilder, Selection, Slice, Slices, TableId, TableMetadata,
    TableParams,
};
use cassette_sstable::{
    Caching, ChunkCache, Descriptor, EncodingStats, KeyCache, OpenOptions, SSTableId, SSTableReader,
    SSTableWriter, WriterOptions,
};
use cassette_vfs::RealFileSystem;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

struct Shape {
    name: &'static str,
    partitions: usize,
    fields: usize,
    field_length: usize,
}

const SHAPES: [Shape; 2] = [
    Shape { name: "1 KB rows", partitions: 50_000, fields: 10, field_length: 100 },
    Shape { name: "40 byte rows", partitions: 500_000, fields: 2, field_length: 8 },
];

fn table(shape: &Shape) -> Arc<TableMetadata> {
    let column = |name: String, kind| ColumnMetadata::new(name, kind, 0, DataType::Text);
    let mut columns = vec![column("key".into(), ColumnKind::PartitionKey)];
    columns.extend((0..shape.fields).map(|field| column(format!("field{field}"), ColumnKind::Regular)));
    let id = TableId(uuid::Uuid::from_u128(1));
    Arc::new(TableMetadata::new(id, "bench", "t", columns, TableParams::default()))
}

fn updates(shape: &Shape, table: &TableMetadata) -> Vec<PartitionUpdate> {
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut updates: Vec<_> = (0..shape.partitions)
        .map(|number| {
            let key = DecoratedKey::new(Bytes::from(format!("user{number:012}")));
            let mut update = PartitionUpdate::new(key);
            let mut row = RowBuilder::new(Clustering::empty());
            row.liveness(LivenessInfo::new(1_700_000_000_000_000 + number as i64));
            for column in table.columns.iter().flatten() {
                // Half of the bytes repeat, so that the data is compressible.
                let value: Vec<u8> = (0..shape.field_length)
                    .map(|i| if i % 8 < 4 { b'a' + (random() % 26) as u8 } else { b' ' })
                    .collect();
                row.live_cell(column.id, &value, 1_700_000_000_000_000 + number as i64);
            }
            update.rows.push(row.finish());
            update
        })
        .collect();
    updates.sort_by(|a, b| a.key.cmp(&b.key));
    updates
}

fn writer(directory: &Path, id: u64, table: &Arc<TableMetadata>, keys: usize) -> SSTableWriter {
    let mut stats = EncodingStats::default();
    stats.add(1_700_000_000_000_000, 0, u32::MAX);
    let options = WriterOptions { encoding_stats: stats, ..WriterOptions::new(table, keys as u64).unwrap() };
    let descriptor = Descriptor::new(directory, SSTableId::Sequence(id));
    SSTableWriter::create(Arc::new(RealFileSystem), descriptor, table.clone(), options).unwrap()
}

fn write(directory: &Path, id: u64, table: &Arc<TableMetadata>, updates: &[PartitionUpdate]) {
    let mut writer = writer(directory, id, table, updates.len());
    for update in updates {
        writer
            .begin(cassette_rows::PartitionHeader {
                key: update.key.clone(),
                deletion: update.deletion,
                static_row: None,
            })
            .unwrap();
        for row in &update.rows {
            writer.append(cassette_rows::Unfiltered::Row(row.clone())).unwrap();
        }
        writer.end().unwrap();
    }
    writer.finish().unwrap();
}

fn open(directory: &Path, id: u64, table: &Arc<TableMetadata>, cache: u64) -> SSTableReader {
    let descriptor = Descriptor::new(directory, SSTableId::Sequence(id));
    let cache = Arc::new(ChunkCache::new(cache));
    SSTableReader::open(Arc::new(RealFileSystem), descriptor, table.clone(), cache, OpenOptions::default())
        .unwrap()
}

fn drain(stream: &mut dyn PartitionStream) {
    while let Some(header) = stream.next_partition().unwrap() {
        black_box(header);
        while let Some(unfiltered) = stream.next_unfiltered().unwrap() {
            black_box(unfiltered);
        }
    }
}

fn benches(c: &mut Criterion) {
    for shape in &SHAPES {
        let table = table(shape);
        let updates = updates(shape, &table);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        write(path, 1, &table, &updates);
        let half = |rest: usize| updates.iter().skip(rest).step_by(2).cloned().collect::<Vec<_>>();
        write(path, 2, &table, &half(0));
        write(path, 3, &table, &half(1));
        let reader = open(path, 1, &table, 256 << 20);

        let mut group = c.benchmark_group(shape.name);
        group.sample_size(10).throughput(Throughput::Bytes(reader.uncompressed_bytes()));
        group.bench_function("write", |b| b.iter(|| write(path, 9, &table, &updates)));
        group.bench_function("read through", |b| b.iter(|| drain(&mut reader.scan_all().unwrap())));
        group.bench_function("compact two", |b| {
            let inputs = [open(path, 2, &table, 1 << 20), open(path, 3, &table, 1 << 20)];
            b.iter(|| {
                let sources = inputs.iter().map(|input| Box::new(input.scan_all().unwrap()) as _).collect();
                let mut merged = MergedStream::new(sources, table.clone(), false);
                let mut writer = writer(path, 8, &table, updates.len());
                writer.write_all(&mut merged).unwrap();
                writer.finish().unwrap()
            });
        });
        group.finish();

        let mut group = c.benchmark_group(shape.name);
        let selection = Arc::new(Selection::all());
        drain(&mut reader.scan(Bound::Unbounded, Bound::Unbounded, &selection, Caching::Use).unwrap());
        let mut turn = 0;
        group.throughput(Throughput::Elements(1)).bench_function("find a partition, cached", |b| {
            b.iter(|| {
                turn = (turn + 7919) % updates.len();
                let mut read = reader.partition(&updates[turn].key, &selection).unwrap().unwrap();
                drain(&mut read);
            });
        });
        group.bench_function("miss a partition", |b| {
            b.iter(|| {
                turn += 1;
                let key = DecoratedKey::new(Bytes::from(format!("absent{turn}")));
                black_box(reader.partition(&key, &selection).unwrap().is_none())
            });
        });
        group.finish();
    }
}

/// Rows like transactions' commit records, 200,000: one per partition, and in 16 partitions with
/// thousands. The key cache is enabled, as in an engine.
fn conclusions(c: &mut Criterion) {
    const ALL: u32 = 200_000;
    const ROWS: u32 = 12_500;
    let columns = vec![
        ColumnMetadata::new("key", ColumnKind::PartitionKey, 0, DataType::Blob),
        ColumnMetadata::new("column", ColumnKind::Clustering, 0, DataType::Blob),
        ColumnMetadata::new("value", ColumnKind::Regular, 0, DataType::Blob),
    ];
    let id = TableId(uuid::Uuid::from_u128(2));
    let table = Arc::new(TableMetadata::new(id, "bench", "wide", columns, TableParams::default()));
    let value = table.columns.iter().flatten().next().unwrap().id;
    let clustering = |number: u32| Clustering::new([Some(&number.to_be_bytes()[..])]);
    let row = |number: u32| {
        let mut row = RowBuilder::new(clustering(number));
        let timestamp = 1_700_000_000_000_000 + i64::from(number);
        row.liveness(LivenessInfo::new(timestamp));
        row.live_cell(value, &[1], timestamp);
        row.finish()
    };
    let directory = tempfile::tempdir().unwrap();
    let find = |c: &mut Criterion, id, name: &str, rows: u32| {
        let mut updates: Vec<_> = (0..ALL / rows)
            .map(|number| {
                let key = DecoratedKey::new(Bytes::copy_from_slice(&number.to_be_bytes()));
                let mut update = PartitionUpdate::new(key);
                update.rows.extend((0..rows).map(row));
                update
            })
            .collect();
        updates.sort_by(|a, b| a.key.cmp(&b.key));
        write(directory.path(), id, &table, &updates);
        let reader = open(directory.path(), id, &table, 64 << 20);
        let reader = reader.with_key_cache(Arc::new(KeyCache::new(50 << 20)));
        let mut turn = 0;
        c.bench_function(name, |b| {
            b.iter(|| {
                turn = (turn + 79_187) % ALL;
                let key = &updates[(turn / rows) as usize].key;
                let slices = Slices::new(vec![Slice::prefix(clustering(turn % rows))], &table.comparator);
                let selection = Arc::new(Selection { slices, reversed: false });
                drain(&mut reader.partition(key, &selection).unwrap().unwrap());
            });
        });
    };
    find(c, 1, "find a row of 12,500, cached", ROWS);
    find(c, 2, "find a row alone in its partition, cached", 1);
}

criterion_group!(all, benches, conclusions);
criterion_main!(all);
