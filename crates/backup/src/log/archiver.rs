//! Segments of a database's commit log into a repository.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cassette_database::Database;
use cassette_engine::EngineError;
use cassette_engine::commitlog::{ArchivedSegment, SegmentContent, archived_segments, remove_archived};
use cassette_rows::StorageError;
use cassette_vfs::FileSystem;

use super::chain::{LogRepository, chain_name};
use crate::error::{Error, Result};

/// Copies finished segments of one database's commit log into a repository. No other archiver may
/// do so for the same database.
#[derive(Debug)]
pub struct LogArchiver {
    fs: Arc<dyn FileSystem>,
    log: LogRepository,
    /// The segments in the repository, by chain, as far as they are known.
    stored: BTreeMap<String, Stored>,
}

/// The archived segments of a chain.
#[derive(Debug, Default)]
struct Stored {
    /// Their checksums, by id.
    segments: BTreeMap<u64, u32>,
    /// The last one that was archived, which may have been removed or lost since: the record of the
    /// next one names it, so that a restore misses it.
    last: Option<u64>,
}

impl Stored {
    /// Returns the segment before another one.
    fn before(&self, id: u64) -> Option<u64> {
        let known = self.segments.range(..id).next_back().map(|(id, _)| *id);
        known.max(self.last.filter(|last| *last < id))
    }
}

/// What was archived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Archived {
    /// The number of segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Everything that was acknowledged before is in the repository, microseconds since 1970.
    pub until_micros: i64,
}

impl fmt::Display for Archived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segments, bytes, until_micros } = self;
        let until = super::point::time_text(*until_micros);
        write!(f, "archived {segments} segments of the commit log, {bytes} bytes; complete until {until}")
    }
}

impl LogArchiver {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, log: LogRepository) -> Self {
        Self { fs, log, stored: BTreeMap::new() }
    }

    /// Archives everything that has been acknowledged: finishes the active segment of the database
    /// if it has records, and stores all finished ones.
    ///
    /// # Errors
    /// Invalid, if the database does not archive its commit log; otherwise those of the database
    /// and the repository. What has not been stored stays in the database's directory.
    pub fn archive(&mut self, database: &Database) -> Result<Archived> {
        let engine = database.engine();
        // A directory that has disappeared, such as one on a volume that is not mounted any more,
        // must not be created again in another place.
        self.log.check_exists()?;
        // Before the segment is finished, which contains everything acknowledged before then.
        let until_micros = database.now_micros();
        let in_engine = |source: EngineError| Error::Engine { context: "cannot archive".to_owned(), source };
        engine.archive_log().map_err(in_engine)?;
        let Some((chain, _)) = engine.archive_position() else {
            return Err(Error::invalid(
                "the commit log of this database is not archived: start the server with \
                 backup_options.archive_commitlog: true",
            ));
        };
        let commitlog = engine.options().data_dir.join("commitlog");
        let mut archived = self.archive_pending(&commitlog)?;
        archived.until_micros = until_micros;
        let chain = chain_name(chain.as_u128());
        let last = self.stored(&chain)?.last;
        self.log.put_through(&chain, until_micros, last)?;
        Ok(archived)
    }

    /// Stores the finished segments in the directory of a commit log.
    fn archive_pending(&mut self, commitlog: &Path) -> Result<Archived> {
        let list = || {
            archived_segments(self.fs.as_ref(), commitlog)
                .map_err(|error| StorageError::io(commitlog, "list the archived segments of", error))
        };
        // Segments are linked in the order of their ids: those before one in the first list are in
        // the second one.
        let seen = list()?;
        let Some(last) = seen.last().cloned() else { return Ok(Archived::default()) };
        let mut pending = list()?;
        pending.retain(|segment| *segment <= last);
        let mut archived = Archived::default();
        for segment in pending {
            if let Some(bytes) = self.archive_segment(&segment)? {
                archived.segments += 1;
                archived.bytes += bytes;
            }
        }
        Ok(archived)
    }

    /// Stores a segment and removes its link. Returns its bytes, unless it was stored before.
    fn archive_segment(&mut self, segment: &ArchivedSegment) -> Result<Option<u64>> {
        let content = match SegmentContent::load(self.fs.as_ref(), &segment.path) {
            Ok(content) => content,
            Err(error) => return Err(Error::Segment(Box::new(error))),
        };
        let chain = chain_name(segment.chain);
        let crc32 = crc32fast::hash(&content.bytes);
        let (known, previous) = {
            let stored = self.stored(&chain)?;
            (stored.segments.get(&segment.id).copied(), stored.before(segment.id))
        };
        let name = segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut stored_bytes = None;
        match known {
            Some(known) if known == crc32 => {}
            Some(known) => {
                let detail = format!(
                    "expected CRC-32 {known:08x} as of the segment in the repository, found {crc32:08x}; use another \
                     repository for a restored copy of a data directory"
                );
                return Err(Error::damaged(&segment.path, detail));
            }
            None => {
                let record = self.log.put(&chain, &name, previous, segment.id, &content)?;
                stored_bytes = Some(record.bytes);
                let stored = self.stored(&chain)?;
                stored.segments.insert(segment.id, crc32);
                stored.last = stored.last.max(Some(segment.id));
            }
        }
        // Its record in the repository names it.
        remove_archived(self.fs.as_ref(), segment).map_err(Error::io(&segment.path, "remove"))?;
        Ok(stored_bytes)
    }

    fn stored(&mut self, chain: &str) -> Result<&mut Stored> {
        if !self.stored.contains_key(chain) {
            let records = self.log.records(chain)?;
            let through = self.log.through(chain)?.and_then(|through| through.segment);
            let last = records.keys().next_back().copied().max(through);
            let segments = records.into_iter().map(|(id, record)| (id, record.crc32)).collect();
            self.stored.insert(chain.to_owned(), Stored { segments, last });
        }
        Ok(self.stored.entry(chain.to_owned()).or_default())
    }
}
