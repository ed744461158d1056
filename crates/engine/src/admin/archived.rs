//! Replay of archived commit log segments, up to a moment, into the tables of an open engine.
//!
//! 1. The segments are scanned: where the moment is, and which records truncations have removed.
//! 2. Records are applied to memtables in their order, and flushed. They are not logged again.
//!
//! The moment is a position: replay ends before the first time after which no earlier one follows,
//! so a clock that is set back loses no record.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::{StorageError, TableId, TableMetadata};
use cassette_vfs::FileSystem;
use cassette_vfs::encryption::Encryption;
use hashbrown::HashMap;
use uuid::Uuid;

use crate::admin::recovery::ReplaySummary;
use crate::basics::error::{EngineError, Result};
use crate::log::commitlog::{
    EventKind, OpenError, Position, SegmentBody, SegmentContent, SegmentRecord, TableVersion, cipher_of,
    first_record, read_record, segment_id,
};
use crate::log::mutation_codec::{self, Decoder};
use crate::store::core::{Core, Phase};
use crate::store::table::Table;

/// Archived segments of one chain that are to be replayed up to a moment.
pub struct ArchivedLog {
    fs: Arc<dyn FileSystem>,
    encryption: Option<Arc<dyn Encryption>>,
    segments: Vec<(u64, PathBuf)>,
    /// Records up to here are in the tables already.
    from: Position,
    /// Records after this are not applied; `None` for no limit.
    end: Option<Position>,
    truncated: HashMap<TableId, Position>,
    imported: Vec<TableId>,
    last_time: Option<i64>,
}

impl ArchivedLog {
    /// Scans the segments, which must be complete and in their order, without a gap. Records up to
    /// `from` are skipped, and those that were appended after `until_micros` since 1970.
    ///
    /// # Errors
    /// If a segment is damaged, or its key is not available.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        encryption: Option<Arc<dyn Encryption>>,
        segments: &[PathBuf],
        from: Position,
        until_micros: Option<i64>,
    ) -> std::result::Result<Self, OpenError> {
        let mut log = Self {
            fs,
            encryption,
            segments: Vec::with_capacity(segments.len()),
            from,
            end: None,
            truncated: HashMap::new(),
            imported: Vec::new(),
            last_time: None,
        };
        for path in segments {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(id) = segment_id(&name) else {
                let damage = "its name is not that of a segment".to_owned();
                return Err(OpenError::Corrupt { file: path.clone(), offset: 0, damage });
            };
            log.segments.push((id, path.clone()));
        }
        log.scan(until_micros.unwrap_or(i64::MAX))?;
        Ok(log)
    }

    fn scan(&mut self, until: i64) -> std::result::Result<(), OpenError> {
        let (mut events, mut before, mut end, mut last_time) = (Vec::new(), Position::ZERO, None, None);
        self.read(|record| {
            match record.body {
                SegmentBody::Time(time) if time > until => end = end.or(Some(before)),
                SegmentBody::Time(time) => {
                    end = None;
                    last_time = Some(time);
                }
                SegmentBody::Event(event) => events.push((record.position, event)),
                _ => {}
            }
            before = record.position;
            Ok(())
        })?;
        self.end = end;
        self.last_time = last_time;
        for (position, event) in events {
            if end.is_some_and(|end| position > end) || event.position < self.from {
                continue;
            }
            let id = TableId(Uuid::from_u128(event.table));
            match event.kind {
                EventKind::Truncated => {
                    let truncated = self.truncated.entry(id).or_default();
                    *truncated = event.position.max(*truncated);
                }
                EventKind::Imported => self.imported.push(id),
            }
        }
        Ok(())
    }

    /// Whether the table was truncated after the position from which records are applied.
    pub fn truncates(&self, table: TableId) -> bool {
        self.truncated.contains_key(&table)
    }

    /// Returns the tables that got SSTables which no record contains.
    pub fn imported(&self) -> &[TableId] {
        &self.imported
    }

    /// Returns the last time before the end, microseconds since 1970.
    pub fn last_time(&self) -> Option<i64> {
        self.last_time
    }

    /// Passes the records of all segments to `handler`, up to the end if it is known.
    fn read(
        &self,
        mut handler: impl FnMut(Record<'_>) -> std::result::Result<(), OpenError>,
    ) -> std::result::Result<(), OpenError> {
        for (id, path) in &self.segments {
            if self.end.is_some_and(|end| end.segment < *id) {
                break;
            }
            let content = SegmentContent::load(self.fs.as_ref(), path)?;
            let cipher = cipher_of(*id, path, &content.bytes, self.encryption.as_deref())?;
            let mut offset = first_record();
            loop {
                let corrupt = |damage: &str| OpenError::Corrupt {
                    file: path.clone(),
                    offset: offset as u64,
                    damage: damage.to_owned(),
                };
                let read = read_record(*id, &content.bytes, offset, cipher.as_deref()).map_err(corrupt)?;
                let Some(SegmentRecord { body, end }) = read else { break };
                let position = Position { segment: *id, offset: end as u32 };
                if matches!(body, SegmentBody::End) || self.end.is_some_and(|end| position > end) {
                    break;
                }
                handler(Record { path, position, body })?;
                offset = end;
            }
        }
        Ok(())
    }
}

struct Record<'a> {
    path: &'a Path,
    /// The end of the record.
    position: Position,
    body: SegmentBody<'a>,
}

impl Core {
    /// See [`Engine::apply_archived`](crate::Engine::apply_archived).
    pub fn apply_archived(
        self: &Arc<Self>,
        log: &ArchivedLog,
        is_meant: &dyn Fn(&TableMetadata) -> bool,
    ) -> Result<ReplaySummary> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let known = self.tables.load();
        let meant = known.values().filter(|table| is_meant(&table.metadata()));
        let tables = meant.map(|table| (table.id.0.as_u128(), table.clone())).collect();
        let mut applying = Applying {
            core: self,
            log,
            tables,
            versions: HashMap::new(),
            decoders: HashMap::new(),
            summary: ReplaySummary::default(),
        };
        let mut segment = 0;
        log.read(|record| {
            if std::mem::replace(&mut segment, record.position.segment) != record.position.segment {
                // Every segment defines its tables again.
                applying.versions.clear();
                applying.decoders.clear();
            }
            applying.take(&record)
        })?;
        applying.flush()?;
        Ok(applying.summary)
    }
}

struct Applying<'a> {
    core: &'a Arc<Core>,
    log: &'a ArchivedLog,
    tables: HashMap<u128, Arc<Table>>,
    /// By dictionary index of the present segment.
    versions: HashMap<u16, TableVersion>,
    /// Those of meant tables.
    decoders: HashMap<u16, Decoder>,
    summary: ReplaySummary,
}

impl Applying<'_> {
    fn take(&mut self, record: &Record<'_>) -> std::result::Result<(), OpenError> {
        let handled = match &record.body {
            SegmentBody::Dictionary { index, table, content } => self.define(*index, *table, content),
            SegmentBody::Entry { indexes, content } => self.apply(record.position, indexes, content),
            SegmentBody::End | SegmentBody::Time(_) | SegmentBody::Event(_) | SegmentBody::Other => Ok(()),
        };
        handled.map_err(|source| OpenError::Handler {
            file: record.path.to_owned(),
            position: record.position,
            source: source.into(),
        })
    }

    fn define(
        &mut self,
        index: u16,
        version: TableVersion,
        content: &[u8],
    ) -> std::result::Result<(), String> {
        self.versions.insert(index, version);
        self.decoders.remove(&index);
        let Some(table) = self.tables.get(&version.table) else { return Ok(()) };
        let decoder = Decoder::new(table.metadata(), content)
            .ok_or("a dictionary that cannot be decoded, though its checksum holds")?;
        if let Some(column) = decoder.missing_columns().first() {
            let name = table.metadata().qualified_name();
            return Err(format!("table {name} has no column {column} and never dropped one of this name"));
        }
        self.decoders.insert(index, decoder);
        Ok(())
    }

    fn apply(
        &mut self,
        position: Position,
        indexes: &[u16],
        content: &[u8],
    ) -> std::result::Result<(), String> {
        const UNDECODABLE: &str = "a mutation that cannot be decoded, though its checksum holds";
        self.summary.records += 1;
        self.summary.bytes += content.len() as u64;
        if position <= self.log.from || indexes.iter().all(|index| !self.decoders.contains_key(index)) {
            return Ok(());
        }
        for (place, update) in mutation_codec::split_record(content).ok_or(UNDECODABLE)? {
            let index = indexes.get(place).ok_or(UNDECODABLE)?;
            let version = self.versions.get(index).ok_or("a mutation whose dictionary is missing")?;
            let (Some(table), Some(decoder)) = (self.tables.get(&version.table), self.decoders.get(index))
            else {
                continue;
            };
            if self.log.truncated.get(&table.id).is_some_and(|truncated| position <= *truncated) {
                continue;
            }
            let update = decoder.update(update).ok_or(UNDECODABLE)?;
            if update.is_empty() {
                continue;
            }
            let changes = [(&update, &**decoder.table())];
            let growth = table.view().memtable.apply(&update.key, changes.into_iter());
            self.core.memory.grow(growth);
            self.summary.mutations += 1;
        }
        if self.core.memory.wants_flush() {
            self.flush().map_err(|error| format!("no room in memtables, and a flush failed: {error}"))?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.tables.values().try_for_each(|table| self.core.flush(table))
    }
}

impl Core {
    /// See [`Engine::archive_log`](crate::Engine::archive_log).
    pub fn archive_log(&self) -> Result<()> {
        Ok(self.usable_log()?.finish_and_archive()?)
    }

    /// See [`Engine::archive_position`](crate::Engine::archive_position).
    pub fn archive_position(&self) -> Option<(Uuid, Position)> {
        let (chain, position) = self.log.load_full()?.archive_position()?;
        Some((Uuid::from_u128(chain), position))
    }

    /// See [`Engine::archived_segments`](crate::Engine::archived_segments).
    pub fn archived_segments(&self) -> Result<Vec<crate::commitlog::ArchivedSegment>> {
        let directory = self.directory.commitlog();
        crate::commitlog::archived_segments(self.fs.as_ref(), &directory)
            .map_err(|error| StorageError::io(&directory, "list the archived segments of", error).into())
    }
}
