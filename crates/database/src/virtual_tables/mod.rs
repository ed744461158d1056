//! Virtual tables: read-only tables whose rows are computed from memory when they are read.

mod figures;
mod indexes;
mod schema;
mod settings;

use std::fmt::Debug;
use std::sync::Arc;

use cassette_engine::KeyRange;
use cassette_rows::{DecoratedKey, PartitionStream, PartitionUpdate, Selection, TableMetadata};

use crate::catalog::{Keyspace, KeyspaceKind, KeyspaceParams, Replication};
use crate::database::Database;
use crate::schema::own_table;
use schema::VirtualSchema;
pub(crate) use settings::of_engine as engine_settings;

/// Computes the rows of a virtual table.
pub(crate) trait VirtualTable: Debug + Send + Sync {
    /// All partitions as they are now, in any order.
    fn partitions(&self, table: &Arc<TableMetadata>, database: &Database) -> Vec<PartitionUpdate>;

    /// The partition with this key, if there is one. Tables that can find it without computing all others override it.
    fn partition(
        &self,
        table: &Arc<TableMetadata>,
        database: &Database,
        key: &DecoratedKey,
    ) -> Option<PartitionUpdate> {
        self.partitions(table, database).into_iter().find(|partition| partition.key == *key)
    }
}

/// `system_virtual_schema` and `system_views`.
pub(crate) fn keyspaces() -> Vec<Keyspace> {
    type Table = (String, &'static str, Arc<dyn VirtualTable>);
    let keyspace = |name: &str, tables: Vec<Table>| {
        let params = KeyspaceParams { durable_writes: true, replication: Replication::local() };
        let mut keyspace = Keyspace::new(name, KeyspaceKind::Virtual, params);
        for (cql, comment, source) in tables {
            let mut table = own_table(name, &cql);
            comment.clone_into(&mut table.params.comment);
            table.params.gc_grace_seconds = 0;
            keyspace.virtual_tables.insert(table.name.clone(), source);
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }
        keyspace
    };
    let settings: (_, _, Arc<dyn VirtualTable>) = (
        "CREATE TABLE settings (name text PRIMARY KEY, value text)".to_owned(),
        "current settings",
        Arc::new(settings::Settings),
    );
    let indexes: (_, _, Arc<dyn VirtualTable>) = (
        indexes::ATTACHED.to_owned(),
        "Storage-attached column index metadata",
        Arc::new(indexes::AttachedIndexes),
    );
    let figures = figures::definitions().into_iter();
    let views =
        figures.map(|(cql, comment, source)| (cql, comment, Arc::new(source) as Arc<dyn VirtualTable>));
    vec![
        keyspace(
            "system_virtual_schema",
            vec![
                (
                    "CREATE TABLE keyspaces (keyspace_name text PRIMARY KEY)".to_owned(),
                    "virtual keyspace definitions",
                    Arc::new(VirtualSchema::Keyspaces),
                ),
                (
                    "CREATE TABLE tables (keyspace_name text, table_name text, comment text, \
                     PRIMARY KEY (keyspace_name, table_name))"
                        .to_owned(),
                    "virtual table definitions",
                    Arc::new(VirtualSchema::Tables),
                ),
                (
                    "CREATE TABLE columns (keyspace_name text, table_name text, column_name text, \
                     clustering_order text, column_name_bytes blob, kind text, position int, type text, \
                     PRIMARY KEY (keyspace_name, table_name, column_name))"
                        .to_owned(),
                    "virtual column definitions",
                    Arc::new(VirtualSchema::Columns),
                ),
            ],
        ),
        keyspace("system_views", views.chain([settings, indexes]).collect()),
    ]
}

/// The partitions of `source` within `range`, in the order of stored ones.
pub(crate) fn scan(
    source: &dyn VirtualTable,
    table: &Arc<TableMetadata>,
    database: &Database,
    range: &KeyRange,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    let mut partitions = source.partitions(table, database);
    partitions.retain(|partition| contains(range, &partition.key));
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    stream(partitions, table, selection)
}

/// The partition of `source` with this key.
pub(crate) fn read(
    source: &dyn VirtualTable,
    table: &Arc<TableMetadata>,
    database: &Database,
    key: &DecoratedKey,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    stream(Vec::from_iter(source.partition(table, database, key)), table, selection)
}

fn stream(
    partitions: Vec<PartitionUpdate>,
    table: &Arc<TableMetadata>,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    let streams =
        partitions.into_iter().map(|partition| partition.into_stream(table.clone(), selection)).collect();
    Box::new(Chain { streams, started: false })
}

fn contains(range: &KeyRange, key: &DecoratedKey) -> bool {
    use cassette_engine::PartitionPosition;
    use std::ops::Bound;
    let order = |position: &PartitionPosition| match position {
        PartitionPosition::Before(token) => key.token().cmp(token).then(std::cmp::Ordering::Greater),
        PartitionPosition::After(token) => key.token().cmp(token).then(std::cmp::Ordering::Less),
        PartitionPosition::At(other) => key.cmp(other),
    };
    let after_start = match &range.start {
        Bound::Unbounded => true,
        Bound::Included(start) => order(start).is_ge(),
        Bound::Excluded(start) => order(start).is_gt(),
    };
    let before_end = match &range.end {
        Bound::Unbounded => true,
        Bound::Included(end) => order(end).is_le(),
        Bound::Excluded(end) => order(end).is_lt(),
    };
    after_start && before_end
}

/// Streams of one partition each, one after the other.
struct Chain {
    streams: std::collections::VecDeque<cassette_rows::partition::UpdateStream>,
    started: bool,
}

impl PartitionStream for Chain {
    fn next_partition(&mut self) -> cassette_rows::Result<Option<cassette_rows::PartitionHeader>> {
        if self.started {
            self.streams.pop_front();
        }
        self.started = true;
        match self.streams.front_mut() {
            Some(stream) => stream.next_partition(),
            None => Ok(None),
        }
    }

    fn next_unfiltered(&mut self) -> cassette_rows::Result<Option<cassette_rows::Unfiltered>> {
        match self.streams.front_mut() {
            Some(stream) if self.started => stream.next_unfiltered(),
            _ => Ok(None),
        }
    }
}
