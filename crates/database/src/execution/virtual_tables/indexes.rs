//! `system_views.sai_column_indexes`: the storage-attached indexes, and whether queries can use
//! them.

use std::sync::Arc;

use cassette_rows::{DataType, PartitionUpdate, TableMetadata};

use super::VirtualTable;
use crate::schema::indexes::{BOOLEAN_OPTIONS, Index, IndexKind, Part};
use crate::schema::system::encode::{row_update_of, text_key};
use crate::store::Store;

/// Its CREATE TABLE.
pub(crate) const ATTACHED: &str = "CREATE TABLE sai_column_indexes (keyspace_name text, index_name text, \
    analyzer text, \
     column_name text, is_building boolean, is_queryable boolean, is_string boolean, table_name text, \
     PRIMARY KEY (keyspace_name, index_name))";

/// `system_views.sai_column_indexes`
#[derive(Debug)]
pub(crate) struct AttachedIndexes;

impl VirtualTable for AttachedIndexes {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let mut partitions = Vec::new();
        for keyspace in store.catalog().keyspaces() {
            let mut partition = PartitionUpdate::new(text_key(&keyspace.name));
            for index in keyspace.indexes.values().filter(|index| index.kind == IndexKind::StorageAttached) {
                let values = [
                    ("analyzer", (&*analyzer(index)).into()),
                    ("column_name", (&*index.column.name).into()),
                    ("is_building", (!store.is_built(index)).into()),
                    ("is_queryable", store.is_built(index).into()),
                    ("is_string", is_literal(index).into()),
                    ("table_name", (&*index.base.name).into()),
                ];
                partition.add_row(row_update_of(table, &[index.name.as_bytes()], &values, 1), table);
            }
            if !partition.is_empty() {
                partitions.push(partition);
            }
        }
        partitions
    }
}

/// Returns Cassandra's description of the analyzer.
fn analyzer(index: &Index) -> String {
    let [case_sensitive, normalized, ascii] = BOOLEAN_OPTIONS.map(|name| index.options.get(name));
    if [case_sensitive, normalized, ascii].iter().all(Option::is_none) {
        return "NoOpAnalyzer".to_owned();
    }
    let is = |option: Option<&String>, default: bool| {
        option.map_or(default, |value| value.eq_ignore_ascii_case("true"))
    };
    format!(
        "NonTokenizingAnalyzer{{caseSensitive={}, normalized={}, ascii={}}}",
        is(case_sensitive, true),
        is(normalized, false),
        is(ascii, false)
    )
}

/// Whether values are compared only for equality, so that ranges are not supported.
fn is_literal(index: &Index) -> bool {
    let indexed = match (&index.column.data_type, index.target.part) {
        (data_type, _) if !data_type.is_multi_cell() => data_type,
        (DataType::List { element, .. } | DataType::Set { element, .. }, _) => element,
        (DataType::Map { key, .. }, Part::Keys) => key,
        (DataType::Map { value, .. }, Part::Values) => value,
        _ => return true,
    };
    let is_frozen = matches!(
        indexed,
        DataType::List { .. }
            | DataType::Set { .. }
            | DataType::Map { .. }
            | DataType::Tuple(_)
            | DataType::Udt { .. }
            | DataType::Vector { .. }
    );
    is_frozen || matches!(indexed, DataType::Text | DataType::Ascii | DataType::Boolean)
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::api::database::{Database, Options};

    #[test]
    fn indexes_say_what_they_do_with_values_and_whether_they_answer() {
        let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int, w text, m map<text, int>, legacy int)",
            "CREATE INDEX v ON ks.t (v) USING 'sai'",
            "CREATE INDEX w ON ks.t (w) USING 'sai' WITH OPTIONS = {'case_sensitive': 'FALSE'}",
            "CREATE INDEX m ON ks.t (entries(m)) USING 'sai'",
            "CREATE INDEX ON ks.t (legacy)",
        ] {
            session.execute(statement, ()).unwrap();
        }
        let cql = "SELECT index_name, table_name, column_name, is_string, analyzer FROM \
            system_views.sai_column_indexes WHERE keyspace_name = 'ks'";
        let rows = session.execute(cql, ()).unwrap();
        let found: Vec<(String, String, String, bool, String)> = rows
            .iter()
            .map(|row| {
                let text = |name: &str| row.get::<String>(name).unwrap();
                let is_string = row.get::<bool>("is_string").unwrap();
                (text("index_name"), text("table_name"), text("column_name"), is_string, text("analyzer"))
            })
            .collect();
        let expected = [
            ("m", "m", true, "NoOpAnalyzer"),
            ("v", "v", false, "NoOpAnalyzer"),
            ("w", "w", true, "NonTokenizingAnalyzer{caseSensitive=false, normalized=false, ascii=false}"),
        ];
        let expected = expected.map(|(index, column, is_string, analyzer)| {
            (index.to_owned(), "t".to_owned(), column.to_owned(), is_string, analyzer.to_owned())
        });
        assert_eq!(found, expected);
    }
}
