//! Rows that are skipped with a probe, which receives some of their values, and rows that are read
//! are together those that are read without one.

use std::sync::Arc;

use cassette_rows::{
    Cell, ColumnId, LivenessInfo, NO_DELETION_TIME, NO_TTL, PROBED_COLUMNS, PartitionStream, PartitionUpdate,
    Row, RowBuilder, RowProbe, Selection, TableMetadata, Token, Unfiltered,
};
use cassette_sstable::compression::{ChunkFormat, Compressor};
use cassette_sstable::{ChunkCache, Descriptor, OpenOptions, SSTableId, SSTableReader, WriterOptions};
use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::support::random_table::{Contents, tables};
use crate::support::{Partition, collect, model, write};

/// The values of some columns of a row.
type Values = Vec<Option<Vec<u8>>>;

fn values(row: &Row, columns: &[ColumnId]) -> Values {
    columns.iter().map(|column| row.cell(*column).map(|cell| cell.value.to_vec())).collect()
}

/// Returns what the rows of partitions have in the columns.
fn all_values(partitions: &[Partition], columns: &[ColumnId]) -> Vec<Values> {
    let rows = partitions.iter().flat_map(|partition| &partition.rows);
    let of_row = |unfiltered: &Unfiltered| match unfiltered {
        Unfiltered::Row(row) => Some(values(row, columns)),
        Unfiltered::Marker(_) => None,
    };
    rows.filter_map(of_row).collect()
}

/// Skips most rows, and stops at others.
struct Sampler<'r, R> {
    columns: &'r [ColumnId],
    random: &'r mut R,
    skipped: Vec<Values>,
    stopped: Option<Values>,
}

impl<R: FnMut() -> usize> RowProbe for Sampler<'_, R> {
    fn columns(&self) -> &[ColumnId] {
        self.columns
    }

    fn skips(&mut self, values: &[Option<&[u8]>]) -> bool {
        assert_eq!(values.len(), self.columns.len());
        let values = values.iter().map(|value| value.map(<[u8]>::to_vec)).collect();
        if (self.random)().is_multiple_of(5) {
            self.stopped = Some(values);
            return false;
        }
        self.skipped.push(values);
        true
    }
}

/// A stream of which rows are skipped and read at random.
struct Reading<'r, R> {
    stream: &'r mut dyn PartitionStream,
    /// The tokens of the partitions, and the number of their rows.
    partitions: Vec<(Token, usize)>,
    columns: &'r [ColumnId],
    random: &'r mut R,
    rows: Vec<Values>,
    skipped: usize,
    /// The values of the row that must be read next, if it is not skipped after all.
    stopped: Option<Values>,
}

impl<R: FnMut() -> usize> Reading<'_, R> {
    fn chance(&mut self) -> bool {
        !(self.random)().is_multiple_of(3)
    }

    fn skip(&mut self, partitions: bool) {
        let limit = 1 + ((self.random)() % 40) as u64;
        let places = 2 * self.partitions.len();
        let before = self.partitions.get((self.random)() % places.max(1)).map(|(token, _)| *token);
        let mut probe =
            Sampler { columns: self.columns, random: self.random, skipped: Vec::new(), stopped: None };
        let passed = if partitions {
            self.stream.pass_live_partitions(before, limit, &mut probe)
        } else {
            self.stream.pass_live_rows(limit, &mut probe)
        };
        let passed = passed.unwrap();
        if self.columns.is_empty() {
            self.rows.resize(self.rows.len() + passed as usize, Values::new());
        } else {
            assert!(passed <= limit);
            assert_eq!(passed, probe.skipped.len() as u64);
        }
        self.stopped = probe.stopped;
        self.rows.extend(probe.skipped);
        self.skipped += passed as usize;
        if partitions
            && passed > 0
            && let Some(before) = before
        {
            let preceding = self.partitions.iter().filter(|(token, _)| *token < before);
            assert!(self.rows.len() <= preceding.map(|(_, rows)| rows).sum::<usize>());
        }
    }

    fn read(&mut self) {
        loop {
            if self.chance() {
                self.skip(true);
            }
            if self.stream.next_partition().unwrap().is_none() {
                break;
            }
            loop {
                if self.chance() {
                    self.skip(false);
                }
                let Some(next) = self.stream.next_unfiltered().unwrap() else { break };
                let Unfiltered::Row(row) = next else { continue };
                let read = values(&row, self.columns);
                assert_eq!(self.stopped.take().unwrap_or_else(|| read.clone()), read);
                self.rows.push(read);
            }
        }
        assert_eq!(self.stopped, None);
    }
}

/// Returns the partition without deletions and expirations.
fn lasting(update: &PartitionUpdate) -> PartitionUpdate {
    let lasting = |row: &Row| {
        let mut out = RowBuilder::new(row.clustering().clone());
        if !row.liveness().is_empty() {
            out.liveness(LivenessInfo::new(row.liveness().timestamp));
        }
        for cell in row.cells() {
            out.cell(Cell { ttl: NO_TTL, local_deletion_time: NO_DELETION_TIME, ..cell });
        }
        Some(out.finish()).filter(|row| !row.is_empty())
    };
    let mut out = PartitionUpdate::new(update.key.clone());
    out.static_row = update.static_row.as_ref().and_then(lasting);
    out.rows = update.rows.iter().filter_map(lasting).collect();
    out
}

/// Returns some of the columns that can be probed, in any order.
fn some_columns(table: &TableMetadata, random: &mut impl FnMut() -> usize) -> Vec<ColumnId> {
    let simple = table.regular_columns().filter(|column| !column.data_type.is_multi_cell());
    let mut columns: Vec<ColumnId> = simple.map(|column| column.id).collect();
    for i in (1..columns.len()).rev() {
        columns.swap(i, random() % (i + 1));
    }
    columns.truncate(random() % (PROBED_COLUMNS + 1));
    columns
}

/// Writes partitions in chunks and blocks of random sizes.
fn written(
    table: &Arc<TableMetadata>,
    updates: &[PartitionUpdate],
    random: &mut impl FnMut() -> usize,
) -> SSTableReader {
    let descriptor = Descriptor::new("/data", SSTableId::Sequence(1));
    let files: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
    files.create_dir_all(&descriptor.directory).unwrap();
    let chunk_length = [64, 1024, 4096, 16384][random() % 4];
    let compression = ChunkFormat {
        compressor: Compressor::Lz4 { high: None },
        options: Vec::new(),
        chunk_length,
        max_compressed_length: i32::MAX,
    };
    let column_index_size = [200, 4096, 65536][random() % 3];
    let finished = write(files.clone(), &descriptor, table, updates, |options| WriterOptions {
        compression: Some(compression),
        column_index_size,
        ..options
    });
    finished.unwrap().unwrap();
    let cache = Arc::new(ChunkCache::new(1 << 20));
    SSTableReader::open(files, descriptor, table.clone(), cache, OpenOptions::default()).unwrap()
}

#[test]
fn skipped_rows_and_read_rows_are_together_all_rows_in_order() {
    let (mut skipped, mut rows) = (0, 0);
    for seed in 0..24 {
        let mut random = model::random(seed);
        let tables = tables();
        let table = tables[seed as usize % tables.len()].table.clone();
        let sizes: Vec<usize> = (0..1 + random() % 30).map(|_| [1, 1, 2, 5, 100][random() % 5]).collect();
        let updates = Contents { random: &mut random, table: table.clone() }.partitions(&sizes);
        // Every fourth SSTable has deletions, so that nothing is skipped.
        let updates: Vec<_> = updates
            .iter()
            .map(|update| if seed % 16 < 4 { update.clone() } else { lasting(update) })
            .filter(|update| !update.is_empty())
            .collect();
        if updates.is_empty() {
            continue;
        }
        let reader = written(&table, &updates, &mut random);
        let all = collect(&mut reader.scan_all().unwrap()).unwrap();
        let mut check = |stream: &mut dyn PartitionStream, expected: &[Partition], random: &mut _| {
            let columns = some_columns(&table, random);
            let is_row = |unfiltered: &&Unfiltered| matches!(unfiltered, Unfiltered::Row(_));
            let rows_of = |partition: &Partition| partition.rows.iter().filter(is_row).count();
            let partitions = expected.iter().map(|p| (p.header.key.token(), rows_of(p))).collect();
            let mut reading = Reading {
                stream,
                partitions,
                columns: &columns,
                random,
                rows: Vec::new(),
                skipped: 0,
                stopped: None,
            };
            reading.read();
            assert_eq!(reading.rows, all_values(expected, &columns), "seed {seed}, {columns:?}");
            skipped += reading.skipped;
            rows += reading.rows.len();
        };
        for _ in 0..4 {
            check(&mut reader.scan_all().unwrap(), &all, &mut random);
        }
        for partition in &all {
            for selection in model::selections(partition, &table, &mut random) {
                let expected = model::expected(partition, &table, &selection);
                let selection: Arc<Selection> = Arc::new(selection);
                let mut stream = reader.partition(&partition.header.key, &selection).unwrap().unwrap();
                check(&mut stream, &[expected], &mut random);
            }
        }
    }
    assert!(skipped > rows / 10, "{skipped} of {rows} rows were skipped");
}
