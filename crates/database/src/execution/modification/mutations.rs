//! The partition updates of one statement or batch, one for each partition.

use std::collections::HashMap;
use std::sync::Arc;

use cassette_engine::{Durability, Mutation};
use cassette_rows::{DecoratedKey, PartitionUpdate, TableId, TableMetadata};

use super::counters;
use crate::basics::error::{Result, WriteType};
use crate::execution::Execution;
use crate::store::admission::{Admission, Unapplied};

/// Collects updates, and merges those of one partition.
#[derive(Debug, Default)]
pub(crate) struct Mutations {
    pub(crate) list: Vec<Mutation>,
    /// The index of a partition in `list`; used from [`INDEXED_FROM`](Self::INDEXED_FROM)
    /// partitions on.
    index: HashMap<(TableId, DecoratedKey), usize>,
}

/// With fewer partitions, a linear search is cheaper than hashing keys.
const INDEXED_FROM: usize = 16;

impl Mutations {
    /// Adds an update of `table`.
    pub fn add(&mut self, update: PartitionUpdate, table: &Arc<TableMetadata>) {
        if update.is_empty() {
            return;
        }
        match self.position(table.id, &update.key) {
            Some(at) => self.list[at].update.absorb(update, table),
            None => {
                if self.list.len() + 1 >= INDEXED_FROM {
                    self.index_all();
                    self.index.insert((table.id, update.key.clone()), self.list.len());
                }
                self.list.push(Mutation { table: table.clone(), update });
            }
        }
    }

    fn position(&self, table: TableId, key: &DecoratedKey) -> Option<usize> {
        if self.list.len() < INDEXED_FROM {
            return self.list.iter().position(|m| m.table.id == table && m.update.key == *key);
        }
        self.index.get(&(table, key.clone())).copied()
    }

    fn index_all(&mut self) {
        if self.index.is_empty() {
            let entries = self.list.iter().enumerate();
            self.index.extend(entries.map(|(i, m)| ((m.table.id, m.update.key.clone()), i)));
        }
    }

    /// Returns the number of partitions.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Applies all mutations or none; counter updates partition by partition.
    pub fn apply(self, execution: &Execution<'_>, write_type: WriteType) -> Result<()> {
        self.apply_with(execution, write_type, Durability::Configured)
    }

    /// Attempts to apply the mutations of a conditional write, whose partition is locked.
    ///
    /// # Errors
    /// MustWait, if the write has to be admitted first, without the lock.
    pub fn apply_locked<'s>(
        mut self,
        execution: &Execution<'s>,
        admission: &mut Admission<'s>,
    ) -> Result<(), Unapplied> {
        if self.list.is_empty() {
            return Ok(());
        }
        let store = execution.store;
        store.try_apply(execution, WriteType::Cas, &mut self.list, Durability::Configured, admission)
    }

    /// [`apply`](Self::apply) with the specified durability, which counters ignore.
    pub fn apply_with(
        self,
        execution: &Execution<'_>,
        write_type: WriteType,
        durability: Durability,
    ) -> Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        // Planning rejects statements that mix counters and other tables.
        if self.list.iter().any(|mutation| mutation.table.is_counter) {
            return counters::apply(&self.list, execution);
        }
        execution.store.apply(execution, write_type, self.list, durability)
    }
}
