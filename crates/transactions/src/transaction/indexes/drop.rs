//! Deletion of indexes.

use bytes::Bytes;

use super::{BUILDS, catalog, no_index};
use crate::error::{Error, Result};
use crate::store::{Store, TableKind};
use crate::timelock::TimeLock;
use crate::transaction::Transactions;

/// Rows of entries that are removed together.
const ROWS: usize = 100;

impl Transactions {
    /// Deletes the definition of an index and its entries. Transactions that begin later neither
    /// maintain nor read it; those that are open keep it, and are waited for. An index of the same
    /// name can be declared again at once, and is then built again. The index's empty table stays
    /// in the store.
    ///
    /// # Errors
    /// `NoIndex`; `IndexBusy` if a transaction stays open longer than
    /// [`Options::lock_timeout`](crate::Options::lock_timeout): the index is dropped, and the call
    /// can be repeated to remove its entries.
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        let Transactions(inner, _) = self;
        let store = &*inner.store;
        let catalog = catalog::change(store, |catalog| {
            let of_name = catalog.indexes.iter_mut();
            let mut of_name = of_name.filter(|known| known.table == table && known.name == index).peekable();
            if of_name.peek().is_none() {
                return Err(no_index(table, index));
            }
            of_name.for_each(|known| known.is_dropped = true);
            Ok(())
        })?;
        let catalog = catalog::complete(store, &inner.coordination, catalog)?;
        // Transactions that begin in this process from now on read the definitions again.
        let _reading = inner.indexes.reading.lock();
        inner.indexes.read(inner, inner.timelock.timestamp()?, None)?;
        drop(_reading);
        let dropped = catalog.indexes.into_iter();
        for dropped in dropped.filter(|of| of.table == table && of.name == index && of.is_dropped) {
            self.wait_until_ended(dropped.died.unwrap_or(i64::MAX), |oldest| Error::IndexBusy {
                table: table.to_owned(),
                index: index.to_owned(),
                oldest,
            })?;
            let entries = dropped.entries();
            if store.open_table(&entries)? {
                self.remove_rows(&entries)?;
            }
            store.create_table(BUILDS, TableKind::Data)?;
            let fresh = inner.timelock.timestamp()?;
            let row = Bytes::copy_from_slice(&dropped.id.to_be_bytes());
            store.delete_rows(BUILDS, &[row], fresh.0)?;
            catalog::change(store, |catalog| {
                catalog.indexes.retain(|known| known.id != dropped.id);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Removes everything in a table that no transaction uses.
    fn remove_rows(&self, table: &str) -> Result<()> {
        let Transactions(inner, _) = self;
        let mut after: Option<Bytes> = None;
        loop {
            let rows = inner.store.rows(table, after.as_deref(), ROWS)?;
            let fresh = inner.timelock.timestamp()?;
            if !rows.is_empty() {
                inner.store.delete_rows(table, &rows, fresh.0)?;
            }
            if rows.len() < ROWS {
                return Ok(());
            }
            after = rows.last().cloned();
        }
    }
}
