//! Secondary indexes of typed columns: declaration, and reads.

mod merged;

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use crate::encoding::{DecodeError, index_keys};
use crate::error::{Error, Result};
use crate::store::Cell;
use crate::transaction::{Definition, shard_of, shard_row};
use crate::typed::decode;
use crate::{Built, Column, Columns, Field, Table, Transaction, Transactions};

pub use crate::encoding::index_keys::{IndexKey, KeyPrefix};
use merged::Merged;

/// Maximum number of shards: each range read reads all of them.
const SHARDS_MAX: u16 = 256;

/// Returns the encoded keys of a cell with a value.
type Keys<K> = dyn Fn(&Table, &Cell, &Bytes) -> Result<Vec<K>> + Send + Sync;
/// Decodes the cell of an entry.
type Owner<O> = fn(&Table, Bytes) -> Result<O>;

/// An index as a program declares it: [`Column::index`] and [`Columns::index`]. The properties are
/// stored with the index, which [`open`](Self::open) creates if there is none.
#[must_use]
pub struct IndexDeclaration<K, O> {
    base: Table,
    definition: Definition,
    keys: Box<Keys<K>>,
    owner: Owner<O>,
}

/// A maintained secondary index of a typed column: keys of type `K`, each with the cells, of type
/// `O`, whose values have it. Of a [`Column`], `O` is the row; of [`Columns`], the row and the
/// column.
///
/// Each transaction that writes an indexed cell, in whatever way, also writes the entries of the
/// index, so every snapshot contains exactly the entries of its values. A process that writes the
/// table declares all of its indexes, always with the same functions.
///
/// ```
/// # use cassette_database::Database;
/// # use cassette_transactions::{ConflictHandler, Transactions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transactions = Transactions::embedded(Database::in_memory()?, "shop")?;
/// let orders = transactions.table("orders", ConflictHandler::WriteWriteByCell)?;
/// let customer = orders.column::<u64, String>("customer");
/// let by_customer = customer.index("by customer", |_, name| [name.clone()]).open(&transactions)?;
/// by_customer.build(&transactions)?;
///
/// transactions.run(|tx| {
///     customer.put(tx, 7, "ada")?;
///     customer.put(tx, 9, "ada")
/// })?;
/// let of_ada: Vec<u64> = transactions.read(|tx| by_customer.get(tx, "ada").collect())?;
/// assert_eq!(of_ada, [7, 9]);
/// # Ok(())
/// # }
/// ```
///
/// Keys sort as their type does ([`IndexKey`]); equal keys sort by the bytes of their cells. Reads
/// of a writing transaction are validated at its commit if the indexed table is serializable.
pub struct Index<K, O> {
    base: Table,
    definition: Arc<Definition>,
    owner: Owner<O>,
    key: PhantomData<fn() -> K>,
}

impl<K, O> Clone for Index<K, O> {
    fn clone(&self) -> Self {
        let (base, definition) = (self.base.clone(), self.definition.clone());
        Self { base, definition, owner: self.owner, key: PhantomData }
    }
}

impl<K, O> fmt::Debug for Index<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl<R: Field, V: Field> Column<R, V> {
    /// Declares an index of the column: `keys` returns the keys of a row with its value, none, one
    /// or several. It depends on nothing else, and never changes for the same
    /// [`version`](IndexDeclaration::version). Equal keys of one row are one entry.
    pub fn index<K: IndexKey + 'static, I: IntoIterator<Item = K>>(
        &self,
        name: &str,
        keys: impl Fn(&R, &V) -> I + Send + Sync + 'static,
    ) -> IndexDeclaration<K, R> {
        let keys = move |table: &Table, cell: &Cell, value: &Bytes| {
            let (row, value) = (decode::<R>(table, &cell.row)?, decode::<V>(table, value)?);
            Ok(keys(&row, &value).into_iter().collect())
        };
        let owner = |table: &Table, bytes: Bytes| decode::<R>(table, &bytes);
        // Names of typed columns are text.
        let column = String::from_utf8_lossy(&self.name).into_owned();
        IndexDeclaration::new(&self.table, name, Some(column), Box::new(keys), owner)
    }
}

impl<R: Field, C: Field, V: Field> Columns<R, C, V> {
    /// Declares an index of all columns of the table, as [`Column::index`].
    pub fn index<K: IndexKey + 'static, I: IntoIterator<Item = K>>(
        &self,
        name: &str,
        keys: impl Fn(&R, &C, &V) -> I + Send + Sync + 'static,
    ) -> IndexDeclaration<K, (R, C)> {
        let keys = move |table: &Table, cell: &Cell, value: &Bytes| {
            let (row, column) = (decode::<R>(table, &cell.row)?, decode::<C>(table, &cell.column)?);
            Ok(keys(&row, &column, &decode::<V>(table, value)?).into_iter().collect())
        };
        let owner = |table: &Table, bytes: Bytes| {
            let mut rest = &bytes[..];
            let row = index_keys::unescape(&mut rest).map_err(|error| other_type(table, error))?;
            Ok((decode::<R>(table, &row.into())?, decode::<C>(table, &bytes.slice_ref(rest))?))
        };
        IndexDeclaration::new(&self.table, name, None, Box::new(keys), owner)
    }
}

fn other_type(table: &Table, error: DecodeError) -> Error {
    Error::OtherType { table: table.name().to_owned(), error }
}

impl<K: IndexKey + 'static, O> IndexDeclaration<K, O> {
    fn new(base: &Table, name: &str, column: Option<String>, keys: Box<Keys<K>>, owner: Owner<O>) -> Self {
        let definition = Definition {
            id: 0,
            table: base.name().to_owned(),
            name: name.to_owned(),
            column,
            is_unique: false,
            shards: 1,
            version: 1,
            born: None,
            is_dropped: false,
            died: None,
        };
        Self { base: base.clone(), definition, keys, owner }
    }

    /// Restricts each key to at most one cell: a write that would assign it to a second one fails
    /// with `UniqueViolation`. The check is made at the write, so a transaction that moves a key
    /// deletes it from the old cell first. Of two concurrent transactions that write the same key,
    /// one fails with a conflict.
    pub fn unique(mut self) -> Self {
        self.definition.is_unique = true;
        self
    }

    /// Spreads the keys over this many rows of the store, 1 to 256, instead of one. A row is a
    /// partition: use enough of them to keep each below about 100 MB. Reads of a key read one row,
    /// reads of a range all of them.
    pub fn shards(mut self, shards: u16) -> Self {
        self.definition.shards = shards.clamp(1, SHARDS_MAX);
        self
    }

    /// Version of the function of the keys, 1 unless specified. An index that was built with
    /// another version is rejected by [`open`](Self::open), so a program that computes other keys
    /// than before specifies another one, deletes the index, and builds it again.
    pub fn version(mut self, version: u32) -> Self {
        self.definition.version = version;
        self
    }

    /// Creates the index unless it exists. From now on this process maintains it. A new index has
    /// to be [built](Index::build) before it can be read, even if the table is empty.
    ///
    /// # Errors
    /// `NoConflictChecks` for a table with the handler `Ignore`; `OtherIndex` if it exists with
    /// other properties; the error of the store or the timestamps.
    pub fn open(self, transactions: &Transactions) -> Result<Index<K, O>> {
        let Self { base, definition, keys, owner } = self;
        let table = base.clone();
        let keys_of = move |cell: &Cell, value: &Bytes| {
            let encode = |key: K| {
                let mut out = Vec::new();
                key.encode(&mut out);
                Bytes::from(out)
            };
            let mut keys: Vec<Bytes> = keys(&table, cell, value)?.into_iter().map(encode).collect();
            keys.sort_unstable();
            keys.dedup();
            Ok(keys)
        };
        let definition = transactions.declare(&base, definition, Arc::new(keys_of))?;
        Ok(Index { base, definition: Arc::new(definition), owner, key: PhantomData })
    }
}

fn encoded(key: &impl IndexKey) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode(&mut out);
    out
}

/// Returns the smallest bytes after everything that begins with `prefix`; `None` if there are none.
fn after_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

impl<K: IndexKey, O> Index<K, O> {
    /// Adds the entries of cells that were written before the index was declared, in bounded
    /// transactions, while other transactions write. Returns at once if the index is complete. An
    /// interrupted build continues where it ended, in any process.
    ///
    /// Waits for transactions that were open when the index was declared.
    ///
    /// # Errors
    /// `IndexBusy` if they stay open for [`Options::lock_timeout`](crate::Options::lock_timeout);
    /// `UniqueViolation` for two cells with one unique key; `OtherType` for a value that the
    /// function cannot read; the errors of a transaction. A repeated call continues the build.
    pub fn build(&self, transactions: &Transactions) -> Result<Built> {
        transactions.build_index(&self.base, &self.definition)
    }

    /// Returns the cells with a key.
    ///
    /// # Errors
    /// Each item: `IndexIncomplete`, `NoIndex`, `OtherType`, and the errors of
    /// [`Transaction::columns`].
    pub fn get<'t>(&self, tx: &'t Transaction, key: impl Into<K>) -> Owners<'t, K, O> {
        let key = encoded(&key.into());
        let shard = shard_of(&self.definition, &key);
        let end = after_prefix(key.clone());
        self.entries(tx, shard..shard + 1, key, end).map(|entry| Ok(entry?.1))
    }

    /// Returns the entries with keys within bounds in order, as an iterator that reads page by page
    /// and can be reversed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn range<'t>(&self, tx: &'t Transaction, keys: impl RangeBounds<K>) -> Entries<'t, K, O> {
        let start = match keys.start_bound() {
            Bound::Included(first) => Some(encoded(first)),
            Bound::Excluded(before) => after_prefix(encoded(before)),
            Bound::Unbounded => Some(Vec::new()),
        };
        let end = match keys.end_bound() {
            Bound::Included(last) => after_prefix(encoded(last)),
            Bound::Excluded(end) => Some(encoded(end)),
            Bound::Unbounded => None,
        };
        match start {
            Some(start) => self.entries(tx, 0..self.definition.shards, start, end),
            None => self.entries(tx, 0..0, Vec::new(), None),
        }
    }

    /// Returns the entries whose keys begin with a text or, of tuples, with the first components:
    /// `prefix(tx, "Lon")`, `prefix(tx, ("London".to_owned(),))`. As [`range`](Self::range).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn prefix<'t>(&self, tx: &'t Transaction, prefix: impl KeyPrefix<K>) -> Entries<'t, K, O> {
        let mut start = Vec::new();
        prefix.encode(&mut start);
        let end = after_prefix(start.clone());
        self.entries(tx, 0..self.definition.shards, start, end)
    }

    /// Returns the entries of some shards whose columns are in a range.
    fn entries<'t>(
        &self,
        tx: &'t Transaction,
        shards: std::ops::Range<u16>,
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    ) -> Entries<'t, K, O> {
        let (merged, refused) = match tx.readable_index(&self.base, &self.definition) {
            Ok(table) => {
                let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
                let range = |shard| tx.range(&table, shard_row(shard), bounds.clone());
                (Merged::new(shards.map(range).collect()), None)
            }
            Err(error) => (Merged::new(Vec::new()), Some(error)),
        };
        Entries { merged, refused, index: self.clone() }
    }
}

/// The cells with a key, as an iterator that reads page by page: [`Index::get`].
pub type Owners<'t, K, O> = std::iter::Map<Entries<'t, K, O>, fn(Result<(K, O)>) -> Result<O>>;

/// Entries of an index, each a key and the cell that has it, in order: [`Index::range`] and
/// [`Index::prefix`]. [`rev`](Iterator::rev) reverses the order.
///
/// Reads pages as [`Range`](crate::Range) does, of each shard. An error ends the iterator.
pub struct Entries<'t, K, O> {
    merged: Merged<'t>,
    refused: Option<Error>,
    index: Index<K, O>,
}

impl<K: IndexKey, O> Entries<'_, K, O> {
    fn decoded(&self, (column, value): (Bytes, Bytes)) -> Result<(K, O)> {
        let Index { base, definition, owner, .. } = &self.index;
        let mut rest = &column[..];
        let key = K::decode(&mut rest).map_err(|error| other_type(base, error))?;
        let cell = if definition.is_unique { value } else { column.slice_ref(rest) };
        Ok((key, owner(base, cell)?))
    }

    fn item(&mut self, next: Result<(Bytes, Bytes)>) -> Result<(K, O)> {
        let item = next.and_then(|next| self.decoded(next));
        if item.is_err() {
            self.merged = Merged::new(Vec::new());
        }
        item
    }
}

impl<K: IndexKey, O> Iterator for Entries<'_, K, O> {
    type Item = Result<(K, O)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.refused.take() {
            Some(refused) => Some(Err(refused)),
            None => self.merged.next().map(|next| self.item(next)),
        }
    }
}

impl<K: IndexKey, O> DoubleEndedIterator for Entries<'_, K, O> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self.refused.take() {
            Some(refused) => Some(Err(refused)),
            None => self.merged.next_back().map(|next| self.item(next)),
        }
    }
}

impl<K: IndexKey, O> FusedIterator for Entries<'_, K, O> {}
