//! Writes Index.db.

use std::path::PathBuf;

use cassette_rows::{DecoratedKey, DeletionTime, Result, StorageError};
use cassette_vfs::WritableFile;

use crate::checksums::{BlockChecksums, INDEX_BLOCK};
use crate::index::{self, PromotedIndexBuilder};
use crate::large_partition::PartitionPlace;

/// An incomplete Index.db.
pub struct IndexFile {
    path: PathBuf,
    file: Box<dyn WritableFile>,
    out: Vec<u8>,
    promoted: Vec<u8>,
    written: u64,
    checksums: BlockChecksums,
}

/// Index.db is written in units of this many bytes.
const INDEX_WRITE_LENGTH: usize = 64 << 10;

impl IndexFile {
    /// Writes to a new file.
    pub fn new(path: PathBuf, file: Box<dyn WritableFile>) -> Self {
        let checksums = BlockChecksums::new(INDEX_BLOCK);
        Self { path, file, out: Vec::new(), promoted: Vec::new(), written: 0, checksums }
    }

    /// Returns the position of the next entry.
    pub fn position(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Appends a partition's entry, including its row index if that has two blocks or more, which
    /// empties it. Returns the position that a reader will find.
    pub fn append(
        &mut self,
        key: &DecoratedKey,
        position: u64,
        promoted: &mut PromotedIndexBuilder,
        header_length: u64,
        deletion: DeletionTime,
    ) -> Result<PartitionPlace> {
        self.promoted.clear();
        promoted.finish_into(header_length, deletion, &mut self.promoted);
        index::encode_entry(key.key(), position, &self.promoted, &mut self.out);
        let promoted_length = self.promoted.len() as u32;
        let promoted_start = self.position() - u64::from(promoted_length);
        if self.out.len() >= INDEX_WRITE_LENGTH {
            self.write()?;
        }
        Ok(PartitionPlace { position, promoted_start, promoted_length })
    }

    fn write(&mut self) -> Result<()> {
        self.checksums.update(&self.out);
        self.file.write_all(&self.out).map_err(|e| StorageError::io(&self.path, "write to the file", e))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Makes the file durable. Returns its length and the checksums of its blocks.
    pub fn finish(mut self) -> Result<(u64, Vec<u32>)> {
        self.write()?;
        self.file.sync().map_err(|e| StorageError::io(&self.path, "sync the file", e))?;
        Ok(self.checksums.finish())
    }
}
