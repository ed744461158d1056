//! Statistics.db: statistics about an SSTable's rows, and their encoding.
//!
//! ```text
//! i32  n = 4
//! i32  CRC-32 of the 4 bytes before
//! n *  (i32 type, i32 offset of the component in the file)
//! i32  CRC-32 of count and table together, without the first CRC
//! n *  component, i32 CRC-32 of its bytes                        in the order of the types
//! ```
//! Versions of Cassandra 3 have no checksums.

pub mod drop_times;
pub mod header;
pub mod histogram;
pub mod hyper_log_log;
pub mod stats;
mod validation;

pub use drop_times::{DropTimes, DropTimesBuilder};
pub use header::{ColumnDefinition, SerializationHeader};
pub use histogram::EstimatedHistogram;
pub use hyper_log_log::HyperLogLog;
pub use stats::{CommitLogPosition, Stats};
pub use validation::{MURMUR3_PARTITIONER, Validation};

use bytes::BufMut;

use crate::descriptor::Version;
use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// The component types, in file order.
const TYPES: [(u32, &str); 4] = [(0, "validation"), (1, "compaction"), (2, "stats"), (3, "header")];

/// The content of Statistics.db.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// The preconditions for reading the files.
    pub validation: Validation,
    /// The cardinality sketch of the partition keys, as stored: it is decoded on demand.
    pub cardinality: Box<[u8]>,
    /// Statistics of the rows.
    pub stats: Stats,
    /// The encoding of rows.
    pub header: SerializationHeader,
}

impl Statistics {
    /// The file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut compaction = Vec::with_capacity(4 + self.cardinality.len());
        compaction.put_bytes32(&self.cardinality);
        let bodies = [self.validation.encode(), compaction, self.stats.encode(), self.header.encode()];
        let mut out = Vec::new();
        out.put_i32(TYPES.len() as i32);
        let mut table = crc32fast::Hasher::new();
        table.update(&out);
        put_crc(&mut out, table.clone().finalize());
        let table_start = out.len();
        let mut offset = table_start + TYPES.len() * 8 + 4;
        for ((component, _), body) in TYPES.iter().zip(&bodies) {
            out.put_i32(*component as i32);
            out.put_i32(offset as i32);
            offset += body.len() + 4;
        }
        table.update(&out[table_start..]);
        put_crc(&mut out, table.finalize());
        for body in &bodies {
            out.put_slice(body);
            put_crc(&mut out, crc32fast::hash(body));
        }
        out
    }

    /// Decodes the file of an nb SSTable; its checksums cover every byte.
    pub fn decode(bytes: &[u8]) -> Parsed<Self> {
        Self::decode_version(bytes, Version::Nb)
    }

    /// Reads the file of an SSTable of `version`.
    pub fn decode_version(bytes: &[u8], version: Version) -> Parsed<Self> {
        let [validation, compaction, stats, header] = components(bytes, version)?;
        let mut input = compaction;
        let cardinality = input.bytes32()?.into();
        input.end()?;
        let header = SerializationHeader::decode(header)?;
        Ok(Self {
            validation: Validation::decode(validation)?,
            cardinality,
            stats: Stats::decode(stats, version, header.clustering_types.len())?,
            header,
        })
    }
}

/// Returns the content of Statistics.db with another level and another time of repair
/// (milliseconds, 0 for never), as far as specified. The version stays the same.
pub fn with_level_and_repair(
    bytes: &[u8],
    version: Version,
    level: Option<i32>,
    repaired_at: Option<i64>,
) -> Parsed<Vec<u8>> {
    let [_, _, stats, _] = components(bytes, version)?;
    let (start, end) = (stats.offset() as usize, stats.offset() as usize + stats.remaining());
    let place = Stats::place_of_level(stats, version)? as usize;
    let mut out = bytes.to_vec();
    // The component contains its level and repair, and its checksum follows it: both were read.
    if let Some(level) = level {
        out[place..place + 4].copy_from_slice(&level.to_be_bytes());
    }
    if let Some(repaired_at) = repaired_at {
        out[place + 4..place + 12].copy_from_slice(&repaired_at.to_be_bytes());
    }
    if !version.is_of_cassandra_3() {
        let crc = crc32fast::hash(&out[start..end]);
        out[end..end + 4].copy_from_slice(&crc.to_be_bytes());
    }
    Ok(out)
}

fn put_crc(out: &mut Vec<u8>, crc: u32) {
    out.put_u32(crc);
}

/// Checks `expected`, read at `at`, against the checksum of `bytes`.
fn check_crc(what: &str, at: u64, expected: u32, found: u32) -> Parsed<()> {
    if expected == found {
        Ok(())
    } else {
        Err(Malformed::new(
            at,
            format!("the checksum of the {what} must be {expected:#010x} but is {found:#010x}"),
        ))
    }
}

/// Returns the four components, with verified checksums if the version has them.
fn components(bytes: &[u8], version: Version) -> Parsed<[Input<'_>; 4]> {
    let is_checksummed = !version.is_of_cassandra_3();
    let checksum_length = if is_checksummed { 4 } else { 0 };
    let mut input = Input::new(bytes);
    let mut table = crc32fast::Hasher::new();
    let count = input.bytes(4)?;
    table.update(count);
    if is_checksummed {
        check_crc("count of components", 4, input.u32()?, table.clone().finalize())?;
    }
    if count != (TYPES.len() as u32).to_be_bytes() {
        return Err(Malformed::new(0, format!("{} components expected, {count:02x?} found", TYPES.len())));
    }
    let start = input.position();
    let rows = input.bytes(TYPES.len() * 8)?;
    table.update(rows);
    if is_checksummed {
        check_crc("table of components", input.offset(), input.u32()?, table.finalize())?;
    }

    let mut rows = Input::at(rows, start as u64);
    let mut expected_offset = input.position();
    let mut offsets = [0; TYPES.len() + 1];
    for (place, (component, name)) in offsets.iter_mut().zip(TYPES) {
        let at = rows.offset();
        let (found, offset) = (rows.u32()?, rows.u32()? as usize);
        if found != component || offset < expected_offset || offset > bytes.len() {
            return Err(Malformed::new(
                at,
                format!(
                    "{name} (type {component}) at {expected_offset} or later expected, type {found} at {offset} found"
                ),
            ));
        }
        // A component needs at least its checksum.
        expected_offset = offset + checksum_length;
        *place = offset;
    }
    if offsets[0] != input.position() {
        return Err(Malformed::new(start as u64, "the first component expected right after the table"));
    }
    offsets[TYPES.len()] = bytes.len();

    let mut out = [const { Input::at_start() }; TYPES.len()];
    for (index, place) in out.iter_mut().enumerate() {
        let (start, end) = (offsets[index], offsets[index + 1]);
        let whole = bytes.get(start..end).unwrap_or_default();
        if !is_checksummed {
            *place = Input::at(whole, start as u64);
            continue;
        }
        let Some((body, crc)) = whole.split_last_chunk::<4>() else {
            return Err(Malformed::new(start as u64, "a component and its checksum expected"));
        };
        check_crc(TYPES[index].1, end as u64 - 4, u32::from_be_bytes(*crc), crc32fast::hash(body))?;
        *place = Input::at(body, start as u64);
    }
    Ok(out)
}
