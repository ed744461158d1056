//! Verification of a backup.

use std::path::Path;

use crate::copy::examine;
use crate::error::{Error, Result};
use crate::log::Until;
use crate::manifest::FileRecord;
use crate::repository::{Backup, Repository};

/// What was verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of files.
    pub files: u64,
    /// Their bytes, all of which were read.
    pub bytes: u64,
}

impl Repository {
    /// Reads every file of a backup, and compares lengths and checksums with its manifest.
    ///
    /// # Errors
    /// Damaged, for the first file that is missing or differs.
    pub fn verify(&self, backup: &Backup) -> Result<Verified> {
        let mut verified = Verified::default();
        for keyspace in &backup.manifest.keyspaces {
            let path = self.root.join(&backup.name).join(&keyspace.name).join("keyspace.cql");
            self.verify_file(&path, keyspace, &mut verified)?;
        }
        for table in &backup.manifest.tables {
            let directory = self.table_directory(&backup.name, &table.keyspace, &table.directory);
            for file in &table.files {
                self.verify_file(&directory.join(&file.name), file, &mut verified)?;
            }
        }
        Ok(verified)
    }

    /// Reads the archived segments of the commit log that continue a backup, and compares them with
    /// their records: none is missing, and none is damaged. No-op if the log was not archived.
    ///
    /// # Errors
    /// Damaged, for the first segment that is missing or differs.
    pub fn verify_log(&self, backup: &Backup) -> Result<Verified> {
        let mut verified = Verified::default();
        let log = self.log();
        let Some(position) = &backup.manifest.log else { return Ok(verified) };
        // Nothing has been archived since the backup.
        if log.through(&position.chain)?.is_none() && log.records(&position.chain)?.is_empty() {
            return Ok(verified);
        }
        let needed = log.needed(position, Until::Latest)?;
        for record in &needed.segments {
            log.read_segment(&needed.chain, record, &mut |_| Ok(()))?;
            verified.files += 1;
            verified.bytes = verified.bytes.saturating_add(record.bytes);
        }
        Ok(verified)
    }

    /// Checks that the archived commit log has everything between a backup and a moment, without
    /// reading the segments.
    ///
    /// # Errors
    /// Invalid, if the moment is not archived; Damaged, if a segment is missing.
    pub fn check_until(&self, backup: &Backup, until: Until) -> Result<()> {
        match &backup.manifest.log {
            Some(position) => self.log().needed(position, until).map(drop),
            None => Ok(()),
        }
    }

    fn verify_file(&self, path: &Path, file: &FileRecord, verified: &mut Verified) -> Result<()> {
        if let Some(layout) = &self.objects {
            layout.read_file(file, &mut |_| Ok(()))?;
            verified.files += 1;
            verified.bytes += file.bytes;
            return Ok(());
        }
        if !self.fs.exists(path).map_err(Error::io(path, "examine"))? {
            return Err(Error::damaged(path, "the file is missing"));
        }
        let found = examine(self.fs.as_ref(), path)?;
        if found.bytes != file.bytes {
            return Err(Error::damaged(
                path,
                format!("expected {} bytes, found {}", file.bytes, found.bytes),
            ));
        }
        if found.crc32 != file.crc32 {
            let detail = format!("expected CRC-32 {:08x}, found {:08x}", file.crc32, found.crc32);
            return Err(Error::damaged(path, detail));
        }
        verified.files += 1;
        verified.bytes += found.bytes;
        Ok(())
    }
}
