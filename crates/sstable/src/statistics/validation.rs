//! The first component of Statistics.db: the preconditions for reading the files.

use bytes::BufMut;

use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// The only supported partitioner. Tables of secondary indexes have another, `LocalPartitioner`.
pub const MURMUR3_PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The content: utf partitioner class, f64 chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The class of the partitioner.
    pub partitioner: String,
    /// `bloom_filter_fp_chance` when the table was written.
    pub bloom_filter_fp_chance: f64,
}

impl Validation {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_bytes16(self.partitioner.as_bytes());
        out.put_f64(self.bloom_filter_fp_chance);
        out
    }

    pub(super) fn decode(mut input: Input<'_>) -> Parsed<Self> {
        let at = input.offset();
        let partitioner = input.utf()?.to_owned();
        if partitioner != MURMUR3_PARTITIONER {
            return Err(Malformed::new(
                at,
                format!("partitioner {MURMUR3_PARTITIONER} expected, {partitioner:?} found"),
            ));
        }
        let bloom_filter_fp_chance = input.f64()?;
        input.end()?;
        Ok(Self { partitioner, bloom_filter_fp_chance })
    }
}
