//! The store in memory: the simplest implementation of the contract. For tests, including those of
//! applications.

use std::collections::BTreeMap;
use std::collections::HashMap;

use bytes::Bytes;
use cassette_rows::DecoratedKey;
use parking_lot::Mutex;

use super::layout::{self, TableKind, column2};
use super::{
    Cell, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, StoreError, StoreResult, Version,
    check_put_row, check_puts,
};
use crate::timestamp::Timestamp;

/// Values and write times by column and `column2`.
type Columns = BTreeMap<(Bytes, i64), (Bytes, i64)>;
type Table = BTreeMap<DecoratedKey, Columns>;

/// Versioned cells in memory, lost with the process.
#[derive(Default)]
pub struct MemoryStore {
    tables: Mutex<HashMap<String, Table>>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, table: &str, act: impl FnOnce(&mut Table) -> T) -> StoreResult<T> {
        match self.tables.lock().get_mut(table) {
            Some(table) => Ok(act(table)),
            None => Err(StoreError::refused(format!("table {table}"), "it was not created")),
        }
    }
}

fn newest(columns: &Columns, column: &Bytes, below: Timestamp) -> Option<Version> {
    // `column2` above that of `below`; the greatest i64 belongs to no timestamp.
    let from = (column.clone(), column2(below).saturating_add(1));
    let ((found, at), (value, _)) = columns.range(from..).next()?;
    (found == column).then(|| Version { timestamp: layout::timestamp(*at), value: value.clone() })
}

fn write(table: &mut Table, cell: &Cell, at: Timestamp, value: Bytes, write_time: i64) {
    let columns = table.entry(DecoratedKey::new(cell.row.clone())).or_default();
    let key = (cell.column.clone(), column2(at));
    if columns.get(&key).is_none_or(|(_, existing)| *existing <= write_time) {
        columns.insert(key, (value, write_time));
    }
}

impl Store for MemoryStore {
    fn create_table(&self, table: &str, _: TableKind) -> StoreResult<()> {
        layout::check_name(table)?;
        self.tables.lock().entry(table.to_owned()).or_default();
        Ok(())
    }

    fn open_table(&self, table: &str) -> StoreResult<bool> {
        Ok(self.tables.lock().contains_key(table))
    }

    fn tables(&self) -> StoreResult<Vec<String>> {
        Ok(self.tables.lock().keys().cloned().collect())
    }

    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>> {
        self.with(table, |table| {
            let get = |(cell, below): &(&Cell, Timestamp)| {
                newest(table.get(&DecoratedKey::new(cell.row.clone()))?, &cell.column, *below)
            };
            cells.iter().map(get).collect()
        })
    }

    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        self.with(table, |table| {
            let page = |range: &ColumnRange| {
                let Some(columns) = table.get(&DecoratedKey::new(range.row.clone())) else {
                    return Vec::new();
                };
                let mut names: Vec<&Bytes> = columns
                    .range((range.start.clone(), i64::MIN)..)
                    .map(|((column, _), _)| column)
                    .take_while(|column| range.end.as_ref().is_none_or(|end| *column < end))
                    .collect();
                names.dedup();
                if range.is_reversed {
                    names.reverse();
                }
                let versions = names.into_iter().filter_map(|column| {
                    newest(columns, column, below).map(|version| (column.clone(), version))
                });
                versions.take(range.limit).collect()
            };
            ranges.iter().map(page).collect()
        })
    }

    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>> {
        self.with(table, |table| {
            let after = after.map(|after| DecoratedKey::new(Bytes::copy_from_slice(after)));
            let keys = table.iter().filter(|(key, columns)| {
                !columns.is_empty() && after.as_ref().is_none_or(|after| *key > after)
            });
            keys.take(limit).map(|(key, _)| key.key_bytes().clone()).collect()
        })
    }

    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        check_puts(puts)?;
        for put in puts {
            self.with(put.table, |table| {
                write(table, put.cell, put.timestamp, put.value.clone(), put.write_time);
            })?;
        }
        Ok(())
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        let put = |row: &PutRow| {
            check_put_row(table, row)?;
            self.with(table, |table| {
                let at = column2(Timestamp::ATOMIC);
                let columns = table.entry(DecoratedKey::new(row.row.clone())).or_default();
                let existing: Vec<_> = row
                    .columns
                    .iter()
                    .filter_map(|(column, _)| {
                        let (value, _) = columns.get(&(column.clone(), at))?;
                        Some((column.clone(), value.clone()))
                    })
                    .collect();
                if !existing.is_empty() {
                    return PutOutcome::Exists(existing);
                }
                for (column, value) in &row.columns {
                    columns.insert((column.clone(), at), (value.clone(), 0));
                }
                PutOutcome::Applied
            })
        };
        rows.iter().map(put).collect()
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        self.with(table, |table| {
            let key = (cell.column.clone(), column2(Timestamp::ATOMIC));
            let columns = table.entry(DecoratedKey::new(cell.row.clone())).or_default();
            match columns.get_mut(&key) {
                Some((value, _)) if value == expected => {
                    *value = new.clone();
                    CheckOutcome::Applied
                }
                other => CheckOutcome::Actual(other.map(|(value, _)| value.clone())),
            }
        })
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        self.with(table, |table| {
            let of_row = table.get(&DecoratedKey::new(row.clone()));
            let value = |column: &Bytes| {
                let (value, _) = of_row?.get(&(column.clone(), column2(Timestamp::ATOMIC)))?;
                Some(value.clone())
            };
            columns.iter().map(value).collect()
        })
    }

    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        self.with(table, |table| {
            for (cell, at) in versions {
                let key = (cell.column.clone(), column2(*at));
                if let Some(columns) = table.get_mut(&DecoratedKey::new(cell.row.clone()))
                    && columns.get(&key).is_some_and(|(_, existing)| *existing <= write_time)
                {
                    columns.remove(&key);
                }
            }
        })
    }

    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        self.with(table, |table| {
            for (cell, below) in cells {
                let key = DecoratedKey::new(cell.row.clone());
                let Some(columns) = table.get_mut(&key) else { continue };
                let newest = column2(*below).saturating_add(1).min(0);
                let covered = (cell.column.clone(), newest)..(cell.column.clone(), 0);
                let old = columns.range(covered).filter(|(_, (_, existing))| *existing <= write_time);
                let old: Vec<_> = old.map(|(key, _)| key.clone()).collect();
                old.iter().for_each(|old| drop(columns.remove(old)));
                if columns.is_empty() {
                    table.remove(&key);
                }
            }
        })
    }

    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()> {
        self.with(table, |table| {
            for row in rows {
                let key = DecoratedKey::new(row.clone());
                if let Some(columns) = table.get_mut(&key) {
                    columns.retain(|_, (_, existing)| *existing > write_time);
                    if columns.is_empty() {
                        table.remove(&key);
                    }
                }
            }
        })
    }

    fn puts_in_order(&self) -> bool {
        true
    }

    fn is_linearizable_after_failures(&self) -> bool {
        true
    }
}
