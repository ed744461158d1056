//! The rows before and after each change: `cassette cdc tail --images`.
//!
//! A write does not read the row that it changes, so the commit log has no images. The consumer has
//! them from a copy: an embedded engine in a directory, to which each change is applied in order.
//! The row is read from the copy before that, and merged with the change.
//!
//! The consumer continues at the position that it acknowledged last, where the copy may be ahead.
//! So the record of the copy's commit log that applies a change also adds its lines to an outbox,
//! and advances the copy's position. Lines up to that position come from the outbox, later ones
//! from the stream of changes. Acknowledged lines are removed.
//!
//! ```text
//! DIR/images.version     "1"; written first
//! DIR/acknowledged       the position that `cassette cdc acknowledge` was called with
//! DIR/copy               the data directory of the engine
//! ```

mod clock;
mod initial;
mod merge;
mod opening;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod translate;
mod values;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use cassette_engine::cdc::{Change, ChangeRecord, captured_chain};
use cassette_engine::commitlog::Position;
use cassette_engine::{Durability, Engine, Mutation};
use cassette_rows::{PartitionUpdate, TableId, TableMetadata};
use cassette_vfs::FileSystem;

use self::clock::{StreamClock, micros_of};
use self::merge::PartitionImages;
use self::store::OwnTables;
use self::tables::CopiedTable;
use super::json::{self, Target};
use super::position;

const VERSION_FILE: &str = "images.version";
const ACKNOWLEDGED_FILE: &str = "acknowledged";
/// Lines beyond this are added to the outbox before the record that makes them valid, so that it
/// does not grow beyond what the commit log accepts.
const LINES_IN_RECORD: usize = 1 << 20;

/// How a copy begins, and its limits.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// Snapshots with the initial rows of tables.
    pub from: Vec<PathBuf>,
    /// Whether the other tables were empty before their first change.
    pub empty: bool,
    /// The maximum number of rows in each image of the deletion of a range or a partition.
    pub rows: usize,
    /// The maximum size of lines that have not been acknowledged, bytes.
    pub outbox: u64,
    /// The captured tables, as keyspace.table; empty for all.
    pub tables: BTreeSet<String>,
    /// Whether the engine has threads in the background.
    pub background_threads: bool,
}

/// The consumer's copy of captured tables, with the lines that it has not acknowledged.
pub struct Images {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    options: ImageOptions,
    engine: Engine,
    clock: Arc<StreamClock>,
    own: OwnTables,
    tables: BTreeMap<TableId, CopiedTable>,
    /// Changes up to here have been applied.
    position: Position,
    /// Lines up to here have been processed by the consumer.
    acknowledged: Position,
    /// The number of the chain of captured segments that the changes belong to.
    chain: Option<u128>,
    /// The positions and the bytes of the lines in the outbox.
    outbox: VecDeque<(Position, u64)>,
    outbox_bytes: u64,
    is_new: bool,
}

impl Images {
    /// Returns whether changes before the first one of the copy may be missing.
    pub fn may_lack_changes(&self) -> bool {
        self.is_new && self.tables.is_empty()
    }

    /// The position up to which changes have been applied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Checks that the captured segments are those that the copy was begun with.
    ///
    /// # Errors
    /// If changes are missing, because they were not captured for a time.
    pub fn check_chain(&mut self, captured: &Path) -> anyhow::Result<()> {
        let chain = captured_chain(self.fs.as_ref(), captured)?;
        match (self.chain, chain) {
            (Some(known), Some(chain)) if known != chain => bail!(
                "{}: changes were not captured for a time, so the copy lacks some; begin a new one in another \
                 directory, with --images-from and a new snapshot",
                self.directory.display()
            ),
            (None, Some(chain)) => {
                self.chain = Some(chain);
                let written = self.own.write_state("chain", &chain.to_be_bytes());
                Ok(self.engine.apply(&[written])?)
            }
            _ => Ok(()),
        }
    }

    /// Removes the lines up to a position that the consumer has processed.
    ///
    /// # Errors
    /// If the consumer has acknowledged later ones, which are removed.
    pub fn acknowledge(&mut self, at: Position) -> anyhow::Result<()> {
        if at < self.acknowledged {
            bail!(
                "--from {at}: the lines up to {} were acknowledged, or precede the copy, and are not kept; continue \
                 --from {} or later",
                self.acknowledged,
                self.acknowledged
            );
        }
        self.advance_acknowledged(at)
    }

    /// Removes the lines up to the position of the last `cassette cdc acknowledge`.
    pub fn read_acknowledged(&mut self) -> anyhow::Result<()> {
        let path = self.directory.join(ACKNOWLEDGED_FILE);
        let content = match self.fs.read_start(&path, 100) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            content => content?,
        };
        let text = String::from_utf8_lossy(&content);
        let at = position(text.trim()).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        self.advance_acknowledged(at)
    }

    fn advance_acknowledged(&mut self, at: Position) -> anyhow::Result<()> {
        if at <= self.acknowledged {
            return Ok(());
        }
        let removed = self.own.remove_lines(at, false);
        let state = self.own.write_state("acknowledged", at.to_string().as_bytes());
        self.engine.apply(&[removed, state])?;
        self.acknowledged = at;
        while let Some((position, bytes)) = self.outbox.front().copied()
            && position <= at
        {
            self.outbox.pop_front();
            self.outbox_bytes -= bytes;
        }
        Ok(())
    }

    /// Calls `print` with the lines of each position that was applied and not acknowledged, in
    /// order.
    ///
    /// # Errors
    /// Those of `print`; if the outbox cannot be read.
    pub fn replay(&self, mut print: impl FnMut(&[String]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.own.read_lines(&self.engine, self.acknowledged, |entry| print(&entry.lines))
    }

    /// Returns whether the outbox has room for further lines.
    pub fn has_room(&self) -> bool {
        self.outbox_bytes < self.options.outbox
    }

    /// Returns why no change can be applied before lines are acknowledged.
    pub fn full(&self) -> String {
        format!(
            "{}: the outbox is full: {} bytes of lines were not acknowledged, and the limit is {} \
             (--images-outbox); continue with --from and the last position that was processed, or call \
             `cassette cdc acknowledge`",
            self.directory.display(),
            self.outbox_bytes,
            self.options.outbox
        )
    }

    /// Applies the changes of a record, and returns their lines. They are durable after
    /// [`sync`](Self::sync). Returns no lines if the consumer has acknowledged them, or the changes
    /// have been applied.
    pub fn apply(&mut self, record: &ChangeRecord) -> anyhow::Result<Vec<String>> {
        if record.position <= self.position {
            return Ok(Vec::new());
        }
        self.clock.advance_to(record.position.segment);
        let changes: Vec<&Change> =
            record.changes.iter().filter(|change| self.is_selected(&change.table)).collect();
        let written = written_at(record.position, &changes);
        let mut updates = BTreeMap::new();
        for change in &changes {
            self.add_change(change, written, record.position, &mut updates)?;
        }
        let is_printed = record.position > self.acknowledged;
        let mut lines = Vec::new();
        if is_printed {
            let now = u32::try_from(written.div_euclid(1_000_000).max(0)).unwrap_or(u32::MAX - 1);
            for change in &changes {
                self.add_lines(record.position, change, &updates, now, &mut lines)?;
            }
        }
        let mutations = updates.into_iter().filter_map(|((id, _), update)| {
            let table = self.tables.get(&id)?.stored.clone();
            Some(Mutation { table, update })
        });
        let mut mutations: Vec<Mutation> = mutations.collect();
        let (mut pending, mut bytes) = (Vec::new(), 0);
        for (part, line) in lines.iter().enumerate() {
            pending.push(self.own.write_line(record.position, part, line));
            bytes += line.len();
            if bytes > LINES_IN_RECORD {
                self.engine.apply_with(&pending, Durability::WithLater)?;
                (pending, bytes) = (Vec::new(), 0);
            }
        }
        mutations.extend(pending);
        mutations.push(self.own.write_state("position", record.position.to_string().as_bytes()));
        self.engine.apply_with(&mutations, Durability::WithLater)?;
        self.position = record.position;
        if !lines.is_empty() {
            let size = size_of(&lines);
            self.outbox.push_back((record.position, size));
            self.outbox_bytes += size;
        }
        Ok(lines)
    }

    /// Makes everything that was applied durable. `consumed` is the position up to which the stream
    /// has no further changes.
    pub fn sync(&mut self, consumed: Position) -> anyhow::Result<()> {
        if consumed > self.position {
            let state = self.own.write_state("position", consumed.to_string().as_bytes());
            self.engine.apply_with(&[state], Durability::WithLater)?;
            self.position = consumed;
        }
        Ok(self.engine.sync_log()?)
    }

    /// Closes the engine.
    pub fn close(&self) -> anyhow::Result<()> {
        Ok(self.engine.close()?)
    }

    fn is_selected(&self, table: &TableMetadata) -> bool {
        let selected = &self.options.tables;
        selected.is_empty() || selected.contains(&format!("{}.{}", table.keyspace, table.name))
    }

    /// Adds a change to the updates of its record, with the columns of the copy.
    fn add_change(
        &mut self,
        change: &Change,
        written: i64,
        at: Position,
        updates: &mut Updates,
    ) -> anyhow::Result<()> {
        let id = change.table.id;
        match self.tables.get(&id) {
            // Its columns may be those of an earlier version, too.
            Some(copied) if at <= copied.contained => return Ok(()),
            Some(_) => {}
            None => self.create_table(&change.table)?,
        }
        let columns_of = |copied: &mut CopiedTable| copied.columns_of(&change.table, at.segment);
        let mut columns = self.tables.get_mut(&id).and_then(columns_of);
        if columns.is_none() {
            self.alter_table(&change.table, written)?;
            columns = self.tables.get_mut(&id).and_then(columns_of);
        }
        let (Some(columns), Some(copied)) = (columns, self.tables.get(&id)) else {
            bail!("{}: its columns differ from those of the copy", change.table.qualified_name());
        };
        let update = columns.update(&change.update);
        match updates.get_mut(&(id, update.key.key_bytes().clone())) {
            Some(other) => other.absorb(update, &copied.stored),
            None => drop(updates.insert((id, update.key.key_bytes().clone()), update)),
        }
        Ok(())
    }

    fn add_lines(
        &self,
        at: Position,
        change: &Change,
        updates: &Updates,
        now: u32,
        lines: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let key = &change.update.key;
        let (Some(copied), Some(update)) =
            (self.tables.get(&change.table.id), updates.get(&(change.table.id, key.key_bytes().clone())))
        else {
            return Ok(());
        };
        let images = PartitionImages {
            engine: &self.engine,
            stored: &copied.stored,
            shown: &change.table,
            update,
            now,
            rows: self.options.rows,
        };
        for mut line in json::lines(at, change) {
            let target = line.target.clone();
            for (name, update) in [("before", None), ("after", Some(update))] {
                let image = match &target {
                    Target::Static => images.static_row(update)?,
                    Target::Row(clustering) => images.row(clustering, update)?,
                    Target::Partition => images.partition(update)?,
                    Target::Range(slice) => images.range(slice, update)?,
                };
                line = line.with(name, &image.json);
                if !image.is_complete {
                    line = line.with(&format!("{name}_complete"), "false");
                }
            }
            if !copied.is_known {
                line = line.with("before_known", "false");
            }
            lines.push(line.finish());
        }
        Ok(())
    }

    /// Adds a table to the copy. One with the same name, which must have been dropped, is removed.
    fn create_table(&mut self, table: &TableMetadata) -> anyhow::Result<()> {
        let same_name = |other: &&CopiedTable| {
            (&other.stored.keyspace, &other.stored.name) == (&table.keyspace, &table.name)
        };
        let dropped: Vec<TableId> =
            self.tables.values().filter(same_name).map(|copied| copied.stored.id).collect();
        for id in dropped {
            self.engine.intend_drops(&[id])?;
            let removed = self.own.remove_definition(id);
            self.engine.apply(&[removed])?;
            self.engine.sync_log()?;
            self.engine.drop_table(id)?;
            self.tables.remove(&id);
        }
        let is_known = self.options.empty;
        self.add_table(CopiedTable::new(table, is_known, Position::ZERO))
    }

    fn add_table(&mut self, copied: CopiedTable) -> anyhow::Result<()> {
        // The definition first: an engine keeps the files of tables that it does not know.
        let definition = self.own.write_definition(&copied, &copied.stored)?;
        self.engine.apply(&[definition])?;
        self.engine.sync_log()?;
        self.engine.create_table(copied.stored.clone())?;
        self.tables.insert(copied.stored.id, copied);
        Ok(())
    }

    fn alter_table(&mut self, table: &TableMetadata, written: i64) -> anyhow::Result<()> {
        let Some(copied) = self.tables.get_mut(&table.id) else { return Ok(()) };
        let stored = Arc::new(copied.altered(table, written)?);
        let definition = self.own.write_definition(copied, &stored)?;
        self.engine.apply(&[definition])?;
        self.engine.sync_log()?;
        self.engine.alter_table(stored.clone())?;
        copied.set_stored(stored);
        Ok(())
    }
}

/// The updates of a record, by table and partition key.
type Updates = BTreeMap<(TableId, bytes::Bytes), PartitionUpdate>;

fn size_of(lines: &[String]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

/// Returns the time of a record's write, microseconds since 1970: its latest timestamp, or the time
/// when its segment was begun if that is later.
fn written_at(at: Position, changes: &[&Change]) -> i64 {
    let of_row = |row: &cassette_rows::Row| {
        let deletions = row.complex_deletions().iter().map(|(_, deletion)| deletion.timestamp);
        let cells = row.timestamps().map_or(i64::MIN, |(_, last)| last);
        deletions.fold(cells.max(row.liveness().timestamp).max(row.deletion().timestamp), i64::max)
    };
    let of_update = |update: &PartitionUpdate| {
        let ranges = update.range_tombstones.as_slice().iter().map(|range| range.deletion.timestamp);
        let rows = update.static_row.iter().chain(&update.rows).map(of_row);
        ranges.chain(rows).fold(update.deletion.timestamp, i64::max)
    };
    changes.iter().map(|change| of_update(&change.update)).fold(micros_of(at.segment), i64::max)
}

/// Durably records that the consumer has processed all lines up to a position, for a running or
/// later `cassette cdc tail --images`.
///
/// # Errors
/// If the directory is not one of images.
pub fn acknowledge(fs: &dyn FileSystem, directory: &Path, at: Position) -> anyhow::Result<()> {
    let is_images = fs.metadata(&directory.join(VERSION_FILE)).is_ok();
    if !is_images {
        bail!("{}: expected a directory of images, found no {VERSION_FILE}", directory.display());
    }
    Ok(fs.write_atomically(&directory.join(ACKNOWLEDGED_FILE), at.to_string().as_bytes())?)
}
