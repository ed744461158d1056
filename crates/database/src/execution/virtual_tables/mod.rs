//! Virtual tables: tables whose rows are computed from memory when they are read. All but those of
//! [`WritableTable`] are read-only.

mod cache_keys;
mod cidr;
mod clock;
mod cluster;
mod faults;
mod indexes;
mod metrics;
mod nodes;
mod pools;
mod schema;
mod settings;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use cassette_engine::{KeyRange, Mutation};
use cassette_rows::{DecoratedKey, PartitionStream, PartitionUpdate, Selection, TableMetadata};

use crate::basics::error::{Result, bail_invalid};
use crate::schema::authorization::AuthCacheKind;
use crate::schema::catalog::{Keyspace, KeyspaceKind, KeyspaceParams, Replication};
use crate::schema::options::own_table;
use crate::schema::system::TESTING;
use crate::schema::testing::WritableTable;
use crate::store::Store;
pub(crate) use cluster::{read_cluster, scan_cluster};
pub(crate) use pools::pools;
use schema::VirtualSchema;
pub(crate) use settings::of_engine as engine_settings;

/// Computes the rows of a virtual table.
pub(crate) trait VirtualTable: Debug + Send + Sync {
    /// Returns all current partitions, in any order.
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate>;

    /// Returns the partition with this key, if there is one. Overridden by tables that find it
    /// without computing all partitions.
    fn partition(
        &self,
        table: &Arc<TableMetadata>,
        store: &Store,
        key: &DecoratedKey,
    ) -> Option<PartitionUpdate> {
        self.partitions(table, store).into_iter().find(|partition| partition.key == *key)
    }
}

type Source = Box<dyn VirtualTable>;

/// A virtual table: CREATE TABLE, comment, source.
type Definition = (String, &'static str, Source);

fn virtual_schema() -> Vec<Definition> {
    let definition = |cql: &str, comment, source: VirtualSchema| -> Definition {
        (cql.to_owned(), comment, Box::new(source))
    };
    vec![
        definition(
            "CREATE TABLE keyspaces (keyspace_name text PRIMARY KEY)",
            "virtual keyspace definitions",
            VirtualSchema::Keyspaces,
        ),
        definition(
            "CREATE TABLE tables (keyspace_name text, table_name text, comment text, \
             PRIMARY KEY (keyspace_name, table_name))",
            "virtual table definitions",
            VirtualSchema::Tables,
        ),
        definition(
            "CREATE TABLE columns (keyspace_name text, table_name text, column_name text, \
             clustering_order text, column_name_bytes blob, kind text, position int, type text, \
             PRIMARY KEY (keyspace_name, table_name, column_name))",
            "virtual column definitions",
            VirtualSchema::Columns,
        ),
    ]
}

fn system_views() -> Vec<Definition> {
    let settings = "CREATE TABLE settings (name text PRIMARY KEY, value text)".to_owned();
    let mut tables: Vec<Definition> = metrics::definitions()
        .into_iter()
        .map(|(cql, comment, source)| (cql, comment, Box::new(source) as Source))
        .collect();
    tables.extend(AuthCacheKind::ALL.map(|kind| {
        let source = cache_keys::CacheKeys(kind);
        let (cql, comment) = source.definition();
        (cql, comment, Box::new(source) as Source)
    }));
    tables.extend(cidr::CidrMetricsTable::ALL.map(|source| {
        let (cql, comment) = source.definition();
        (cql.to_owned(), comment, Box::new(source) as Source)
    }));
    tables.push((settings, "current settings", Box::new(settings::Settings)));
    tables.push((
        indexes::ATTACHED.to_owned(),
        "Storage-attached column index metadata",
        Box::new(indexes::AttachedIndexes),
    ));
    tables
}

fn system_testing() -> Vec<Definition> {
    let (faults, of_faults) = faults::FaultRules::definition();
    let (nodes, of_nodes) = nodes::NodeStates::definition();
    let (clock, of_clock) = clock::SeededClock::definition();
    vec![
        (faults, of_faults, Box::new(faults::FaultRules)),
        (nodes, of_nodes, Box::new(nodes::NodeStates)),
        (clock, of_clock, Box::new(clock::SeededClock)),
    ]
}

/// The tables of virtual keyspaces, and the source of each, by keyspace and name.
struct VirtualTables {
    keyspaces: Vec<Keyspace>,
    sources: HashMap<(String, String), Source>,
}

static TABLES: LazyLock<VirtualTables> = LazyLock::new(|| {
    let (mut keyspaces, mut sources) = (Vec::new(), HashMap::new());
    let all = [
        ("system_virtual_schema", virtual_schema()),
        ("system_views", system_views()),
        (TESTING, system_testing()),
    ];
    for (name, tables) in all {
        let params = KeyspaceParams { durable_writes: true, replication: Replication::local() };
        let mut keyspace = Keyspace::new(name, KeyspaceKind::Virtual, params);
        for (cql, comment, source) in tables {
            let mut table = own_table(name, &cql);
            comment.clone_into(&mut table.params.comment);
            table.params.gc_grace_seconds = 0;
            keyspace.virtual_tables.insert(table.name.clone());
            sources.insert((name.to_owned(), table.name.clone()), source);
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }
        keyspaces.push(keyspace);
    }
    VirtualTables { keyspaces, sources }
});

/// Returns `system_virtual_schema` and `system_views`, and `system_testing` of a server for tests.
pub(crate) fn keyspaces(is_for_tests: bool) -> Vec<Keyspace> {
    let is_present = |keyspace: &&Keyspace| is_for_tests || keyspace.name != TESTING;
    TABLES.keyspaces.iter().filter(is_present).cloned().collect()
}

/// Applies changes of rows of a virtual table.
///
/// # Errors
/// Invalid, for changes that the table does not support.
pub(crate) fn apply(table: WritableTable, mutations: &[Mutation], store: &Store) -> Result<()> {
    match table {
        WritableTable::CacheKeys(kind) => cache_keys::delete_keys(kind, mutations, store),
        WritableTable::Faults => faults::apply(mutations, store),
        WritableTable::Nodes => nodes::apply(mutations, store),
        WritableTable::Clock => clock::apply(mutations, store),
    }
}

/// Removes all rows of a virtual table.
///
/// # Errors
/// Invalid, if the table does not support that.
pub(crate) fn truncate(table: WritableTable, store: &Store) -> Result<()> {
    match table {
        WritableTable::CacheKeys(kind) => {
            store.authorization().invalidate_cache(kind);
            Ok(())
        }
        WritableTable::Faults => faults::truncate(store),
        WritableTable::Nodes => bail_invalid!("nodes cannot be deleted: set their state to removed"),
        WritableTable::Clock => clock::truncate(store),
    }
}

/// Returns the source of a table; `None` for tables of `system` and other keyspaces that are always
/// empty.
fn source_of(table: &TableMetadata) -> Option<&'static dyn VirtualTable> {
    TABLES.sources.get(&(table.keyspace.clone(), table.name.clone())).map(|source| &**source)
}

/// Returns the partitions of a virtual table within `range`, in the order of stored ones.
pub(crate) fn scan(
    table: &Arc<TableMetadata>,
    store: &Store,
    range: &KeyRange,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    let mut partitions = source_of(table).map_or_else(Vec::new, |source| source.partitions(table, store));
    partitions.retain(|partition| contains(range, &partition.key));
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    stream(partitions, table, selection)
}

/// Returns the partition of a virtual table with this key.
pub(crate) fn read(
    table: &Arc<TableMetadata>,
    store: &Store,
    key: &DecoratedKey,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    let partition = source_of(table).and_then(|source| source.partition(table, store, key));
    stream(Vec::from_iter(partition), table, selection)
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

/// A chain of streams with one partition each.
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
