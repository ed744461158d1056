//! Definitions of indexes: one atomic cell of the store, changed by check-and-set.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::encoding::DecodeError;
use crate::error::{Error, Result};
use crate::service::Coordination;
use crate::store::{Cell, CheckOutcome, PutOutcome, PutRow, Store};
use crate::timestamp::Timestamp;
use crate::transaction::METADATA;

/// Row of the definitions in `_metadata`; no table has this name.
const ROW: &[u8] = b"_indexes";
const COLUMN: &[u8] = b"definitions";
/// Number of attempts to change the cell while other clients change it too.
const ATTEMPTS_MAX: usize = 50;

/// An index as all clients of a store agree on it.
///
/// Transactions maintain it whose start timestamps are above `born` and not above `died`. Each is a
/// bound of the coordination row, read after the change that it completes was stored, so no client
/// uses definitions from before the change for a start timestamp above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    /// Names the tables and rows of the index; never used again.
    pub id: u32,
    pub table: String,
    pub name: String,
    /// The indexed column; `None`: all columns of the table.
    pub column: Option<String>,
    pub is_unique: bool,
    pub shards: u16,
    /// Version of the function that computes the keys, chosen by the application.
    pub version: u32,
    pub born: Option<i64>,
    pub is_dropped: bool,
    pub died: Option<i64>,
}

impl Definition {
    /// Returns the name of the table with its entries.
    pub fn entries(&self) -> String {
        format!("_index_{}", self.id)
    }

    /// Returns whether a transaction that began at `start` maintains the index.
    pub fn is_maintained_at(&self, start: Timestamp) -> bool {
        self.born.is_some_and(|born| start.0 > born) && self.died.is_none_or(|died| start.0 <= died)
    }

    /// Returns whether the cells of `column` are indexed.
    pub fn covers(&self, column: &[u8]) -> bool {
        self.column.as_ref().is_none_or(|own| own.as_bytes() == column)
    }

    /// Returns what differs from another definition of the same name.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let described = |what: &Self| {
            let column = match &what.column {
                Some(column) => format!("column \"{column}\""),
                None => "all columns".to_owned(),
            };
            let unique = if what.is_unique { "unique" } else { "not unique" };
            format!("{column}, {unique}, {} shards, version {}", what.shards, what.version)
        };
        let (own, other) = (described(self), described(other));
        (own != other).then(|| format!("expected {own}, found {other}"))
    }
}

/// All definitions of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    /// The next identifier.
    pub next: u32,
    pub indexes: Vec<Definition>,
}

impl Catalog {
    /// Returns the definition of an index that is not dropped.
    pub fn find(&self, table: &str, name: &str) -> Option<&Definition> {
        self.indexes.iter().find(|known| known.table == table && known.name == name && !known.is_dropped)
    }

    fn decode(bytes: &Bytes) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            let what = "definitions of indexes".to_owned();
            Error::Indexes(DecodeError { what, why: format!("{error}; written by a newer program?") })
        })
    }

    fn encode(&self) -> Bytes {
        // Strings and numbers only, so encoding cannot fail; an empty value would be rejected when
        // it is read.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

fn stored(store: &dyn Store) -> Result<Option<Bytes>> {
    let columns = [Bytes::from_static(COLUMN)];
    Ok(store.get_serial(METADATA, &Bytes::from_static(ROW), &columns)?.pop().flatten())
}

/// Reads the definitions.
pub(super) fn read(store: &dyn Store) -> Result<Catalog> {
    stored(store)?.as_ref().map_or_else(|| Ok(Catalog::default()), Catalog::decode)
}

/// Changes the definitions, and returns those that stand. `change` may run several times.
pub(super) fn change(
    store: &dyn Store,
    mut change: impl FnMut(&mut Catalog) -> Result<()>,
) -> Result<Catalog> {
    for _ in 0..ATTEMPTS_MAX {
        let before = stored(store)?;
        let mut catalog = before.as_ref().map_or_else(|| Ok(Catalog::default()), Catalog::decode)?;
        let old = catalog.clone();
        change(&mut catalog)?;
        if catalog == old {
            return Ok(catalog);
        }
        let (row, column, value) = (Bytes::from_static(ROW), Bytes::from_static(COLUMN), catalog.encode());
        let is_stored = match before {
            Some(before) => {
                let cell = Cell::new(row, column);
                store.check_and_set(METADATA, &cell, &before, &value)? == CheckOutcome::Applied
            }
            None => {
                let put = PutRow { row, columns: vec![(column, value)] };
                let outcome = store.put_unless_exists(METADATA, &[put]).pop().transpose()?;
                matches!(outcome, Some(PutOutcome::Applied))
            }
        };
        if is_stored {
            return Ok(catalog);
        }
    }
    Err(crate::service::ServiceError::Contended { attempts: ATTEMPTS_MAX }.into())
}

/// Completes the definitions: chooses when each was born, and when it died if it is dropped. Any
/// client may do so.
pub(super) fn complete(store: &dyn Store, coordination: &Coordination, catalog: Catalog) -> Result<Catalog> {
    let is_complete = |of: &Definition| of.born.is_some() && of.is_dropped == of.died.is_some();
    if catalog.indexes.iter().all(is_complete) {
        return Ok(catalog);
    }
    // Read after the incomplete definitions: every client that did not see them had read a bound
    // that is not greater.
    let bound = coordination.agree()?.bound.0;
    let seen: Vec<(u32, bool)> = catalog.indexes.iter().map(|of| (of.id, of.is_dropped)).collect();
    change(store, |catalog| {
        for definition in &mut catalog.indexes {
            // Only what was seen before the bound was read.
            let Some((_, was_dropped)) = seen.iter().find(|(id, _)| *id == definition.id) else { continue };
            definition.born.get_or_insert(bound);
            if *was_dropped {
                definition.died.get_or_insert(bound);
            }
        }
        Ok(())
    })
}
