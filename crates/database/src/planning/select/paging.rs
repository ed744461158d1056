//! Paging states: the position of the next page.
//!
//! ```text
//! u8   version, 2
//! u8   flags: 1 a clustering follows, 2 remainder of LIMIT, 4 remainder of PER PARTITION LIMIT
//! u16 length, bytes       partition key of the last row
//! [u16 count, then for each value i32 length (-1 = null), bytes]
//!                         its clustering; absent after the whole partition
//! [u32 rows left]         of LIMIT
//! [u32 rows left]         of PER PARTITION LIMIT, in this partition
//! 16 bytes                tag of all before, see paging_key.rs
//! ```
//! All integers are big-endian. Clients store paging states, so they contain nothing that a restart
//! invalidates. A state is accepted only with a valid tag: of the same statement on the same table,
//! issued by this data directory.

use bytes::{Buf, BufMut, Bytes};
use cassette_rows::{Clustering, DecoratedKey, TableMetadata};

use super::limits::Limits;
use crate::basics::error::{DatabaseError, Result};
use crate::basics::paging_key::{PagingKey, PagingScope, TAG_LENGTH};

const VERSION: u8 = 2;
const HAS_CLUSTERING: u8 = 1;
const HAS_REMAINING: u8 = 2;
const HAS_REMAINING_IN_PARTITION: u8 = 4;

/// Authenticates paging states.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal<'k> {
    pub key: &'k PagingKey,
    pub scope: PagingScope,
}

/// Returns the error of an invalid paging state, in Cassandra's words.
pub(crate) fn invalid() -> DatabaseError {
    DatabaseError::Protocol("Invalid value for the paging state".into())
}

/// The position after a row, and the remaining limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PagingState {
    pub key: Bytes,
    /// `None`: continue with the next partition.
    pub clustering: Option<Clustering>,
    pub remaining: Option<u32>,
    pub remaining_in_partition: Option<u32>,
}

impl PagingState {
    /// Returns the position after the row at `clustering`, or after a static row that is returned
    /// without rows, with the current `limits`.
    pub fn after(key: &DecoratedKey, clustering: Option<&Clustering>, limits: &Limits) -> Self {
        let clustering = clustering.filter(|_| !limits.is_reached_in_partition()).cloned();
        let goes_on = clustering.is_some();
        Self {
            key: key.key_bytes().clone(),
            clustering,
            remaining: limits.total(),
            remaining_in_partition: limits.in_partition().filter(|_| goes_on),
        }
    }

    pub fn encode(&self, seal: &Seal<'_>) -> Bytes {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(self.clustering.is_some(), HAS_CLUSTERING)
            | flag(self.remaining.is_some(), HAS_REMAINING)
            | flag(self.remaining_in_partition.is_some(), HAS_REMAINING_IN_PARTITION);
        let mut out = Vec::with_capacity(32 + self.key.len());
        out.put_u8(VERSION);
        out.put_u8(flags);
        // Keys have at most 65,535 bytes and tables at most 65,535 columns.
        out.put_u16(self.key.len() as u16);
        out.put_slice(&self.key);
        if let Some(clustering) = &self.clustering {
            out.put_u16(clustering.len() as u16);
            for value in clustering.values() {
                out.put_i32(value.map_or(-1, |v| v.len() as i32));
                out.put_slice(value.unwrap_or_default());
            }
        }
        for left in [self.remaining, self.remaining_in_partition].into_iter().flatten() {
            out.put_u32(left);
        }
        let tag = seal.key.tag(&seal.scope, &out);
        out.put_slice(&tag);
        out.into()
    }

    /// Decodes and verifies a paging state.
    ///
    /// # Errors
    /// Protocol, if the bytes are not a paging state with the tag of `seal`.
    pub fn decode(bytes: &[u8], table: &TableMetadata, seal: &Seal<'_>) -> Result<Self> {
        let sealed = || {
            let (state, tag) = bytes.split_last_chunk::<TAG_LENGTH>()?;
            seal.key.verifies(&seal.scope, state, tag).then_some(state)
        };
        sealed().and_then(|state| Self::parse(state, table)).ok_or_else(invalid)
    }

    fn parse(mut bytes: &[u8], table: &TableMetadata) -> Option<Self> {
        let bytes = &mut bytes;
        if bytes.try_get_u8().ok()? != VERSION {
            return None;
        }
        let flags = bytes.try_get_u8().ok()?;
        if flags & !(HAS_CLUSTERING | HAS_REMAINING | HAS_REMAINING_IN_PARTITION) != 0 {
            return None;
        }
        let length = usize::from(bytes.try_get_u16().ok()?);
        let key = Bytes::copy_from_slice(take(bytes, length)?);
        cassette_rows::key::components(&key, table.partition_key.len())?;
        let clustering = if flags & HAS_CLUSTERING == 0 { None } else { Some(clustering(bytes, table)?) };
        let mut left = |flag| match flags & flag {
            0 => Some(None),
            _ => bytes.try_get_u32().ok().map(Some),
        };
        let remaining = left(HAS_REMAINING)?;
        let remaining_in_partition = left(HAS_REMAINING_IN_PARTITION)?;
        bytes.is_empty().then_some(Self { key, clustering, remaining, remaining_in_partition })
    }
}

fn clustering(bytes: &mut &[u8], table: &TableMetadata) -> Option<Clustering> {
    let count = usize::from(bytes.try_get_u16().ok()?);
    if count != table.clustering.len() {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(match usize::try_from(bytes.try_get_i32().ok()?) {
            Ok(length) => Some(take(bytes, length)?),
            Err(_) => None,
        });
    }
    Some(Clustering::new(values))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
