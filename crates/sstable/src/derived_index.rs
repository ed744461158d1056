//! Builds a row index for SSTables whose index is not used.
//!
//! Cassandra 5.0's newer versions locate partitions in other ways than nb: da by two tries,
//! Partitions.db and Rows.db, and oa by an Index with shorter deletions. None of these files has
//! checksums, so all of Data would have to be compared with them before the first read, or their
//! errors could hide rows. Instead, only Data is read, which is covered by checksums, and an nb
//! Index of it is built: in memory for temporary readers, and in a separate file, NbIndex.db, when
//! the SSTable is adopted. The first compaction writes nb.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::{DeletionTime, Result, StorageError, Unfiltered};
use cassette_vfs::RandomAccessFile;

use crate::chunked_file::{Caching, ChunkedFile};
use crate::data::{Cursor, RowFormat};
use crate::index::{PromotedIndexBuilder, encode_entry};

/// Bytes of rows in an index block, the default of nb.
const COLUMN_INDEX_SIZE: u64 = 64 << 10;

/// Returns the Index.db of an nb SSTable with this Data.
pub(crate) fn derive(data: &Arc<ChunkedFile>, format: &Arc<RowFormat>) -> Result<Vec<u8>> {
    let mut cursor = Cursor::new(data.clone(), format.clone(), Caching::LeaveAlone);
    let mut index = Vec::new();
    let mut entry = Vec::new();
    while !cursor.at_end() {
        let start = cursor.offset();
        let header = cursor.partition_header()?;
        let header_length = cursor.offset() - start;
        let mut promoted = PromotedIndexBuilder::default();
        let mut open = DeletionTime::LIVE;
        let (mut first, mut last, mut block_start) = (Vec::new(), Vec::new(), 0);
        loop {
            let pending = cursor.next_head()?;
            let at = pending.start();
            if pending.is_end() {
                break;
            }
            last.clear();
            pending.encode_prefix(&format.clustering, &mut last);
            if first.is_empty() {
                first.extend_from_slice(&last);
                block_start = at;
            }
            if !pending.is_marker() {
                cursor.skip_body(&pending);
            } else if let Some(Unfiltered::Marker(marker)) = cursor.body(pending)? {
                open = marker.open.unwrap_or(DeletionTime::LIVE);
            }
            if cursor.offset() - block_start >= COLUMN_INDEX_SIZE {
                add(&mut promoted, &first, &last, (block_start - start, cursor.offset() - block_start), open);
                first.clear();
            }
        }
        if !first.is_empty() {
            add(&mut promoted, &first, &last, (block_start - start, cursor.offset() - block_start), open);
        }
        entry.clear();
        promoted.finish_into(header_length, header.deletion, &mut entry);
        encode_entry(header.key.key(), start, &entry, &mut index);
    }
    if index.is_empty() {
        return Err(StorageError::corrupt(data.path(), "at least one partition expected"));
    }
    Ok(index)
}

fn add(
    promoted: &mut PromotedIndexBuilder,
    first: &[u8],
    last: &[u8],
    (offset, width): (u64, u64),
    open: DeletionTime,
) {
    promoted.add(|out| out.extend_from_slice(first), |out| out.extend_from_slice(last), offset, width, open);
}

/// A file in memory.
pub(crate) struct InMemory(pub Bytes);

impl RandomAccessFile for InMemory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(buffer, offset)? == buffer.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
