//! Secondary indexes: which tables have them, and their maintenance by the writes of a transaction.
//!
//! Entries are cells of a table of the index, written by the transaction that writes the indexed
//! cell, whose conflict detection protects them. All transactions with a start timestamp above a
//! certain one maintain an index (`catalog`). Its build (`build`) therefore knows when no other
//! transaction adds cells without entries.

mod build;
mod catalog;
mod drop;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use parking_lot::Mutex;

use super::manager::Inner;
use super::table::{ConflictHandler, Table};
use super::{Transaction, Transactions, check_length, check_name};
use crate::error::{Error, Result};
use crate::service::Coordination;
use crate::store::{Cell, Store, TableKind};
use crate::sweep::SweepStrategy;
use crate::timelock::TimeLock;
use crate::timestamp::Timestamp;

pub use build::Built;
pub(crate) use catalog::Definition;

/// Table with the progress of builds: a row for each index.
const BUILDS: &str = "_index_builds";
const PROGRESS: &[u8] = b"progress";
/// Progress of a build that has ended.
const COMPLETE: &[u8] = &[1];
/// Value of an entry of an index that is not unique.
const ENTRY: &[u8] = &[1];

/// Returns the encoded keys of a cell with a value, sorted and distinct.
pub(crate) type KeysOf = Arc<dyn Fn(&Cell, &Bytes) -> Result<Vec<Bytes>> + Send + Sync>;

/// An index of a store, with the function of this process, if it has declared it.
pub(crate) struct Maintained {
    definition: Definition,
    keys_of: Option<KeysOf>,
    /// A start timestamp from which on the index is known to be complete.
    complete_from: AtomicI64,
}

/// The indexes of a store as they are up to a start timestamp.
pub(super) struct Known {
    until: Timestamp,
    tables: HashMap<Box<str>, Vec<Arc<Maintained>>>,
}

/// The indexes of a store that this process knows.
#[derive(Default)]
pub(super) struct Indexes {
    known: ArcSwap<Known>,
    /// Held by the thread that reads the definitions.
    reading: Mutex<()>,
}

impl Default for Known {
    fn default() -> Self {
        Self { until: Timestamp::ATOMIC, tables: HashMap::new() }
    }
}

/// Returns the column that an entry has besides its key: the indexed cell.
pub(crate) fn owner(definition: &Definition, cell: &Cell) -> Bytes {
    if definition.column.is_some() {
        return cell.row.clone();
    }
    let mut owner = Vec::with_capacity(cell.name_length() + 2);
    crate::encoding::index_keys::escape(&cell.row, &mut owner);
    owner.extend_from_slice(&cell.column);
    owner.into()
}

/// Returns the row of the entries with a key.
pub(crate) fn shard_of(definition: &Definition, key: &[u8]) -> u16 {
    match definition.shards {
        0 | 1 => 0,
        // Below the number of shards.
        shards => (crc32fast::hash(key) % u32::from(shards)) as u16,
    }
}

/// Returns the name of a row of entries.
pub(crate) fn shard_row(shard: u16) -> Bytes {
    Bytes::copy_from_slice(&shard.to_be_bytes())
}

fn entry(definition: &Definition, key: &[u8], owner: &[u8]) -> Cell {
    let row = shard_row(shard_of(definition, key));
    if definition.is_unique {
        Cell::new(row, Bytes::copy_from_slice(key))
    } else {
        Cell::new(row, [key, owner].concat())
    }
}

fn builds() -> Table {
    Table::new(BUILDS, ConflictHandler::WriteWriteByCell, SweepStrategy::Conservative)
}

fn progress(definition: &Definition) -> Cell {
    Cell::new(Bytes::copy_from_slice(&definition.id.to_be_bytes()), PROGRESS)
}

impl Maintained {
    /// Returns the table of the entries.
    ///
    /// While the index is built, entries have conflict checks: the build writes them without
    /// writing the indexed cells. Afterwards those of the indexed cells suffice, except for unique
    /// keys, which different cells have, and for serializable reads.
    pub fn entries(&self, base: &Table, is_complete: bool) -> Table {
        let handler = if base.handler().is_serializable() {
            ConflictHandler::SerializableByCell
        } else if self.definition.is_unique || !is_complete {
            ConflictHandler::WriteWriteByCell
        } else {
            ConflictHandler::Ignore
        };
        Table::new(&self.definition.entries(), handler, SweepStrategy::Thorough)
    }

    /// Returns whether the index was complete when the transaction began.
    pub fn is_complete(&self, tx: &Transaction) -> Result<bool> {
        if tx.start.0 >= self.complete_from.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let found = tx.committed(&builds(), &[&progress(&self.definition)])?.pop().flatten();
        let is_complete = found.is_some_and(|found| found[..] == *COMPLETE);
        if is_complete {
            self.complete_from.fetch_min(tx.start.0, Ordering::Relaxed);
        }
        Ok(is_complete)
    }

    fn keys_of(&self, cell: &Cell, value: &Bytes) -> Result<Vec<Bytes>> {
        match &self.keys_of {
            _ if value.is_empty() => Ok(Vec::new()),
            Some(keys_of) => keys_of(cell, value),
            None => Err(Error::IndexNotDeclared {
                table: self.definition.table.clone(),
                index: self.definition.name.clone(),
            }),
        }
    }

    fn violation(&self, key: &[u8], owner: &[u8], other: &[u8]) -> Error {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        Error::UniqueViolation {
            table: self.definition.table.clone(),
            index: self.definition.name.clone(),
            key: shown(key),
            owner: shown(owner),
            other: shown(other),
        }
    }
}

impl Indexes {
    /// Returns the indexes that a transaction with this start timestamp maintains.
    pub fn at(&self, inner: &Inner, start: Timestamp) -> Result<Guard<Arc<Known>>> {
        let known = self.known.load();
        if start <= known.until {
            return Ok(known);
        }
        drop(known);
        let _reading = self.reading.lock();
        if start > self.known.load().until {
            self.read(inner, start, None)?;
        }
        Ok(self.known.load())
    }

    /// Reads the definitions of a store that is being opened, for start timestamps up to a bound of
    /// the coordination row that was read before.
    pub fn open(store: &dyn Store, coordination: &Coordination, bound: Timestamp) -> Self {
        let indexes = Self::default();
        if let Err(error) = indexes.read_after(store, coordination, bound, None) {
            // A store may be opened for reading only. The first write reads them again.
            tracing::debug!(%error, "the definitions of indexes are not known yet");
        }
        indexes
    }

    /// Reads the definitions for start timestamps up to at least `start`. Keeps the functions that
    /// were declared, and adds one. The caller holds `reading`.
    fn read(&self, inner: &Inner, start: Timestamp, declared: Option<(u32, KeysOf)>) -> Result<()> {
        // The bound is read before the definitions: see `catalog`.
        inner.coordination.version(start)?;
        let bound = inner.coordination.agree()?.bound;
        self.read_after(&*inner.store, &inner.coordination, bound, declared)
    }

    fn read_after(
        &self,
        store: &dyn Store,
        coordination: &Coordination,
        bound: Timestamp,
        declared: Option<(u32, KeysOf)>,
    ) -> Result<()> {
        let catalog = catalog::complete(store, coordination, catalog::read(store)?)?;
        let before = self.known.load_full();
        let mut tables: HashMap<Box<str>, Vec<Arc<Maintained>>> = HashMap::new();
        for definition in catalog.indexes {
            let old = before.tables.get(&*definition.table).into_iter().flatten();
            let old = old.into_iter().find(|old| old.definition.id == definition.id);
            let keys_of = match &declared {
                Some((id, keys_of)) if *id == definition.id => Some(keys_of.clone()),
                _ => old.and_then(|old| old.keys_of.clone()),
            };
            if keys_of.is_some() {
                store.create_table(&definition.entries(), TableKind::Data)?;
                store.create_table(BUILDS, TableKind::Data)?;
            }
            let complete_from = old.map_or(i64::MAX, |old| old.complete_from.load(Ordering::Relaxed));
            let maintained = Maintained { definition, keys_of, complete_from: AtomicI64::new(complete_from) };
            tables.entry(maintained.definition.table.as_str().into()).or_default().push(Arc::new(maintained));
        }
        self.known.store(Arc::new(Known { until: bound, tables }));
        Ok(())
    }

    /// Returns an index for a read.
    ///
    /// # Errors
    /// `NoIndex` if it does not exist at the transaction's start timestamp.
    pub fn of_reader(&self, tx: &Transaction, wanted: &Definition) -> Result<Arc<Maintained>> {
        let known = self.at(&tx.inner, tx.start)?;
        let of_table = known.tables.get(&*wanted.table).into_iter().flatten();
        let found = of_table.into_iter().find(|known| known.definition.id == wanted.id);
        let found = found.filter(|found| found.definition.died.is_none_or(|died| tx.start.0 <= died));
        found.cloned().ok_or_else(|| no_index(&wanted.table, &wanted.name))
    }
}

fn no_index(table: &str, index: &str) -> Error {
    Error::NoIndex { table: table.to_owned(), index: index.to_owned() }
}

impl Transactions {
    /// Defines an index unless it exists, and sets its function in this process.
    pub(crate) fn declare(&self, base: &Table, wanted: Definition, keys_of: KeysOf) -> Result<Definition> {
        let Transactions(inner, _) = self;
        if !base.handler().checks_writes() {
            return Err(Error::NoConflictChecks { table: base.name().to_owned() });
        }
        let catalog =
            catalog::change(&*inner.store, |catalog| match catalog.find(&wanted.table, &wanted.name) {
                None => {
                    catalog.next += 1;
                    let definition = Definition { id: catalog.next, ..wanted.clone() };
                    catalog.indexes.push(definition);
                    Ok(())
                }
                Some(stored) => match wanted.difference(stored) {
                    None => Ok(()),
                    Some(difference) => Err(Error::OtherIndex {
                        table: wanted.table.clone(),
                        index: wanted.name.clone(),
                        difference,
                    }),
                },
            })?;
        let missing = || no_index(&wanted.table, &wanted.name);
        let id = catalog.find(&wanted.table, &wanted.name).ok_or_else(missing)?.id;
        let _reading = inner.indexes.reading.lock();
        inner.indexes.read(inner, inner.timelock.timestamp()?, Some((id, keys_of)))?;
        let known = inner.indexes.known.load();
        let mut of_table = known.tables.get(&*wanted.table).into_iter().flatten();
        // A deletion that was interrupted: this process may have no function for that index, which
        // transactions above its end do not need.
        let died = of_table.clone().filter_map(|known| known.definition.died).max().unwrap_or(0);
        if inner.timelock.timestamp()?.0 <= died {
            inner.timelock.fast_forward(Timestamp(died))?;
        }
        let found = of_table.find(|known| known.definition.id == id).ok_or_else(missing)?;
        Ok(found.definition.clone())
    }

    /// Returns a table that has an index, if any has.
    pub(crate) fn first_index(&self) -> Result<Option<(String, String)>> {
        let first = catalog::read(self.store())?.indexes.into_iter().next();
        Ok(first.map(|first| (first.table, first.name)))
    }
}

impl Transaction {
    /// Returns the values of cells without the transaction's own writes, and without recording that
    /// they were read.
    fn committed(&self, table: &Table, cells: &[&Cell]) -> Result<Vec<Option<Bytes>>> {
        let found = self.snapshot().get(table, cells)?;
        self.check_hold(table)?;
        let value = |version: Option<crate::store::Version>| version.map(|version| version.value);
        Ok(found.into_iter().map(|version| value(version).filter(|value| !value.is_empty())).collect())
    }

    /// Returns the value of a cell as the transaction sees it, without recording that it was read:
    /// the transaction writes the cell, or fails.
    fn current(&self, table: &Table, cell: &Cell) -> Result<Option<Bytes>> {
        match self.writes.get(table, cell) {
            Some(own) => Ok(Some(own.clone()).filter(|own| !own.is_empty())),
            None => Ok(self.committed(table, &[cell])?.pop().flatten()),
        }
    }

    /// Returns the writes of index entries that belong to a write. Checks them all, so that none or
    /// all of them are buffered.
    pub(super) fn index_writes(
        &self,
        table: &Table,
        cell: &Cell,
        value: &Bytes,
    ) -> Result<Vec<(Table, Cell, Bytes)>> {
        let known = self.inner.indexes.at(&self.inner, self.start)?;
        let Some(indexes) = known.tables.get(table.name()) else { return Ok(Vec::new()) };
        let mut writes = Vec::new();
        let mut before: Option<Bytes> = None;
        for index in indexes {
            let definition = &index.definition;
            if !definition.covers(&cell.column) || !definition.is_maintained_at(self.start) {
                continue;
            }
            let before = match &before {
                Some(before) => before,
                None => {
                    self.check_age()?;
                    before.insert(self.current(table, cell)?.unwrap_or_default())
                }
            };
            let (old, new) = (index.keys_of(cell, before)?, index.keys_of(cell, value)?);
            if old == new {
                continue;
            }
            let owner = owner(definition, cell);
            let entries = index.entries(table, index.is_complete(self)?);
            for key in old.iter().filter(|key| new.binary_search(key).is_err()) {
                let entry = entry(definition, key, &owner);
                // Of a unique key that is not built yet, the entry may be that of another cell.
                let is_other = definition.is_unique
                    && self.current(&entries, &entry)?.is_some_and(|found| found != owner);
                if !is_other {
                    writes.push((entries.clone(), entry, Bytes::new()));
                }
            }
            for key in new.iter().filter(|key| old.binary_search(key).is_err()) {
                let entry = entry(definition, key, &owner);
                let value = if definition.is_unique { owner.clone() } else { Bytes::from_static(ENTRY) };
                if definition.is_unique
                    && let Some(other) = self.current(&entries, &entry)?.filter(|other| *other != owner)
                {
                    return Err(index.violation(key, &owner, &other));
                }
                check_name(&entries, &entry)?;
                check_length(entries.name(), &entry, value.len(), self.inner.version_max)?;
                writes.push((entries.clone(), entry, value));
            }
        }
        Ok(writes)
    }

    /// Returns an index that this transaction can read, with the table of its entries.
    pub(crate) fn readable_index(&self, base: &Table, wanted: &Definition) -> Result<Table> {
        self.check_age()?;
        let index = self.inner.indexes.of_reader(self, wanted)?;
        if index.is_complete(self)? {
            return Ok(index.entries(base, true));
        }
        Err(Error::IndexIncomplete { table: wanted.table.clone(), index: wanted.name.clone() })
    }
}
