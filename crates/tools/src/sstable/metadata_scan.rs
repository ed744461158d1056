//! What `cassette sstable metadata --scan` reads from the rows.

use cassette_rows::{PartitionStream, Row, TableMetadata, Unfiltered};
use cassette_sstable::SSTableReader;
use cassette_sstable::dump::partition_key_text;

use super::metadata::{Fields, bytes_text};
use super::values::CassandraText;

/// The number of partitions of each ranking.
const SHOWN: usize = 5;

/// sstablemetadata omits partitions with tombstones if their text is not longer, such as a single
/// one with a key of one character.
const LEADERS_MIN: usize = 10;

/// Bytes that Cassandra counts for deletions and times, beside values.
const DELETION: u64 = 12;
const ROW_DELETION: u64 = DELETION + 1;
const TIMESTAMP: u64 = 8;
const TTL_AND_EXPIRATION: u64 = 4 + 8;

/// Totals of an SSTable, and its extreme partitions.
#[derive(Default)]
pub(super) struct Scan {
    bytes: u64,
    partitions: u64,
    rows: u64,
    tombstones: u64,
    cells: u64,
    /// By rows.
    widest: Ranking,
    /// By bytes.
    largest: Ranking,
    /// By tombstones.
    deleted: Ranking,
}

/// The keys with the largest values, descending; of equal values, those that come first.
#[derive(Default)]
struct Ranking(Vec<(u64, Vec<u8>)>);

impl Ranking {
    fn add(&mut self, value: u64, key: &[u8]) {
        let place = self.0.partition_point(|(other, _)| *other >= value);
        if place < SHOWN {
            self.0.truncate(SHOWN - 1);
            self.0.insert(place, (value, key.to_vec()));
        }
    }
}

/// What a partition contains.
#[derive(Default)]
struct Partition {
    rows: u64,
    cells: u64,
    tombstones: u64,
    bytes: u64,
}

impl Partition {
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.bytes += size(row);
        self.cells += row.cell_count() as u64;
        self.tombstones += row.cells().filter(cassette_rows::Cell::is_tombstone).count() as u64;
    }
}

impl Scan {
    /// Reads all rows of an SSTable.
    pub fn of(reader: &SSTableReader) -> anyhow::Result<Self> {
        let mut scan = Self { bytes: reader.uncompressed_bytes(), ..Self::default() };
        let mut stream = reader.scan_positions(0, scan.bytes);
        while let Some(header) = stream.next_partition()? {
            let mut partition = Partition::default();
            partition.tombstones += u64::from(!header.deletion.is_live());
            // As in Cassandra's tool, cells of static rows are not counted.
            if let Some(row) = header.static_row.as_ref().filter(|row| !row.is_empty()) {
                partition.rows += 1;
                partition.bytes += size(row);
            }
            while let Some(unfiltered) = stream.next_unfiltered()? {
                match unfiltered {
                    Unfiltered::Row(row) => partition.add(&row),
                    Unfiltered::Marker(_) => partition.tombstones += 1,
                }
            }
            scan.add(&partition, header.key.key());
        }
        Ok(scan)
    }

    fn add(&mut self, partition: &Partition, key: &[u8]) {
        self.partitions += 1;
        self.rows += partition.rows;
        self.cells += partition.cells;
        self.tombstones += partition.tombstones;
        self.widest.add(partition.rows, key);
        self.largest.add(partition.bytes, key);
        if partition.tombstones > 0 {
            self.deleted.add(partition.tombstones, key);
        }
    }

    /// Adds the fields of sstablemetadata.
    pub fn put(&self, table: &TableMetadata, out: &mut Fields) {
        for (label, value) in [
            ("Size", self.bytes),
            ("Partitions", self.partitions),
            ("Rows", self.rows),
            ("Tombstones", self.tombstones),
            ("Cells", self.cells),
        ] {
            out.put(label, value);
        }
        let ranking = |ranking: &Ranking, comment: fn(u64) -> String| {
            let line = |(value, key): &(u64, Vec<u8>)| {
                let key = partition_key_text(table, &CassandraText, key);
                format!("  [{key}] {value}{}\n", comment(*value))
            };
            ranking.0.iter().map(line).collect::<String>()
        };
        out.put("Widest Partitions", "");
        out.0 += &ranking(&self.widest, |_| String::new());
        out.put("Largest Partitions", "");
        out.0 += &ranking(&self.largest, |bytes| {
            let text = bytes_text(i64::try_from(bytes).unwrap_or(i64::MAX));
            format!(" ({})", text.as_deref().unwrap_or("null"))
        });
        let deleted = ranking(&self.deleted, |_| String::new());
        if deleted.chars().count() > LEADERS_MIN {
            out.put("Tombstone Leaders", "");
            out.0 += &deleted;
        }
    }
}

/// Returns the bytes of a row as Cassandra counts them: values, with times and deletions of fixed
/// size, also where there are none.
fn size(row: &Row) -> u64 {
    let liveness = TIMESTAMP + if row.liveness().is_expiring() { TTL_AND_EXPIRATION } else { 0 };
    let mut values: usize = row.clustering().values().flatten().map(<[u8]>::len).sum();
    let mut bytes = liveness + ROW_DELETION;
    let mut complex: Vec<_> = row.complex_deletions().iter().map(|(column, _)| *column).collect();
    for cell in row.cells() {
        values += cell.value.len() + cell.path.map_or(0, <[u8]>::len);
        bytes += TIMESTAMP + TTL_AND_EXPIRATION;
        if cell.path.is_some() && !complex.contains(&cell.column) {
            complex.push(cell.column);
        }
    }
    bytes + values as u64 + DELETION * complex.len() as u64
}
