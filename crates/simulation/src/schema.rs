//! The schema of the model.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::value::{Type, Val};

/// Kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Part of the partition key.
    Partition,
    /// A clustering column.
    Clustering {
        /// Whether rows are in descending order of it.
        descending: bool,
    },
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub data_type: Type,
}

/// Source of the write timestamps of a table's statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// From the server: later statements win. Such tables can have conditional writes, views and
    /// TTLs, and purge early.
    Server,
    /// From the clients, drawn from a few numbers, so that they tie and are out of order.
    Client,
}

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The indexed column.
    pub column: String,
    /// Whether it is storage-attached.
    pub attached: bool,
}

/// The definition of a table, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// `keyspace.table`
    pub name: String,
    /// The columns: partition key, clustering, static, regular.
    pub columns: Vec<Column>,
    /// Source of write timestamps.
    pub stamps: Stamps,
    /// Indexes by name.
    pub indexes: BTreeMap<String, Index>,
    /// Materialized views by name; each is keyed by this regular column first.
    pub views: BTreeMap<String, String>,
    /// Whether tombstones are purged as soon as a compaction reads them.
    pub purges: bool,
}

/// A row of a result: one value per column of the table, in the order of [`Shape::columns`].
pub type Row = Vec<Option<Val>>;

impl Shape {
    /// The keyspace.
    pub fn keyspace(&self) -> &str {
        self.name.split_once('.').map_or("", |(keyspace, _)| keyspace)
    }

    /// The name without the keyspace.
    pub fn table(&self) -> &str {
        self.name.split_once('.').map_or("", |(_, table)| table)
    }

    /// The columns of a kind that `wanted` accepts.
    pub fn columns_of(&self, wanted: impl Fn(Kind) -> bool) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(move |column| wanted(column.kind))
    }

    /// The partition key's columns.
    pub fn partition_key(&self) -> Vec<&Column> {
        self.columns_of(|kind| kind == Kind::Partition).collect()
    }

    /// The clustering columns.
    pub fn clustering(&self) -> Vec<&Column> {
        self.columns_of(|kind| matches!(kind, Kind::Clustering { .. })).collect()
    }

    /// Returns the columns in which rows or partitions have values.
    pub fn values(&self) -> Vec<&Column> {
        self.columns_of(|kind| matches!(kind, Kind::Static | Kind::Regular)).collect()
    }

    /// The position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns whether it is a table of counters.
    pub fn is_counter(&self) -> bool {
        self.columns.iter().any(|column| column.data_type == Type::Counter)
    }

    /// The names of all columns, separated by commas.
    pub fn column_list(&self) -> String {
        self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The order of two clusterings in a partition.
    pub fn compare(&self, left: &[Val], right: &[Val]) -> Ordering {
        for (column, (left, right)) in self.clustering().iter().zip(left.iter().zip(right)) {
            let order = left.cmp(right);
            let reversed = column.kind == Kind::Clustering { descending: true };
            if order != Ordering::Equal {
                return if reversed { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }

    /// `CREATE TABLE`.
    pub fn create(&self, with: &str) -> String {
        let columns = self.columns.iter().map(|column| {
            let is_static = if column.kind == Kind::Static { " static" } else { "" };
            format!("{} {}{is_static}", column.name, column.data_type.cql())
        });
        let names = |columns: Vec<&Column>| {
            columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (partition, clustering) = (names(self.partition_key()), names(self.clustering()));
        let key = if clustering.is_empty() {
            format!("({partition})")
        } else {
            format!("({partition}), {clustering}")
        };
        let order = self.clustering().into_iter().map(|column| {
            let descending = column.kind == Kind::Clustering { descending: true };
            format!("{} {}", column.name, if descending { "DESC" } else { "ASC" })
        });
        let order = order.collect::<Vec<_>>().join(", ");
        let order =
            if order.is_empty() { String::new() } else { format!("CLUSTERING ORDER BY ({order}) AND ") };
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!("CREATE TABLE {} ({columns}, PRIMARY KEY ({key})) WITH {order}{with}", self.name)
    }

    /// The names of a view's columns: its key, the base table's key, and the regular columns that
    /// it was made with.
    pub fn view_columns(&self, view: &str) -> Vec<&Column> {
        let Some(first) = self.views.get(view) else { return Vec::new() };
        let first = self.columns.iter().filter(|column| column.name == *first);
        let keys = self.columns_of(|kind| matches!(kind, Kind::Partition | Kind::Clustering { .. }));
        first.chain(keys).collect()
    }

    /// `CREATE MATERIALIZED VIEW`. It has the keys and one regular column.
    pub fn create_view(&self, view: &str) -> String {
        let columns = self.view_columns(view);
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let conditions: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
        format!(
            "CREATE MATERIALIZED VIEW {}.{view} AS SELECT {} FROM {} WHERE {} PRIMARY KEY ({})",
            self.keyspace(),
            names.join(", "),
            self.name,
            conditions.join(" AND "),
            names.join(", "),
        )
    }
}
