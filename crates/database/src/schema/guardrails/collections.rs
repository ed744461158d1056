//! Guardrails on collections: `collection_size_*` and `items_per_collection_*`.
//!
//! Statements are checked by the elements that they write, because they do not read the others.
//! Flushes and compactions check all elements that they write, and only log, as in Cassandra: they
//! are the first to see elements added by several statements together.

use cassette_cql::values::text::to_literal;
use cassette_engine::WrittenRow;
use cassette_rows::{ColumnMetadata, DataType, DecoratedKey, Row, TableMetadata, key};

use super::guard::{self, Level, Threshold};
use super::requests::{COLLECTION_SIZE, ITEMS_PER_COLLECTION};
use super::{Guardrails, Key};
use crate::schema::system;

/// Bytes of a cell without its path and value, as Cassandra counts them: timestamp, TTL and
/// expiration time.
pub(crate) const CELL_SIZE: usize = 20;
/// Bytes of a collection's deletion, which Cassandra adds when a whole collection is written.
const DELETION_SIZE: usize = 12;

const LIMITS: [Key; 4] = [
    Key::CollectionSizeWarn,
    Key::CollectionSizeFail,
    Key::ItemsPerCollectionWarn,
    Key::ItemsPerCollectionFail,
];

/// Returns the message about a collection of `bytes` bytes.
pub(super) fn too_large(what: &str, bytes: i64, level: Level, threshold: i64) -> String {
    let level = level.name();
    format!("Detected collection {what} of size {bytes}, this exceeds the {level} threshold of {threshold}.")
}

/// Returns the message about a collection of `items` items.
pub(super) fn too_many_items(what: &str, items: i64, level: Level, threshold: i64) -> String {
    let level = level.name();
    format!(
        "Detected collection {what} with {items} items, this exceeds the {level} threshold of {threshold}."
    )
}

impl Guardrails {
    /// Whether a limit applies to collections of this table in flushes and compactions.
    pub(super) fn checks_written_collections(&self, table: &TableMetadata) -> bool {
        LIMITS.iter().any(|key| self.threshold(*key).is_some()) && !system::is_system(&table.keyspace)
    }

    /// Returns the violations by the collections of a row, with Cassandra's messages.
    pub(super) fn violations_of_collections(
        &self,
        written: WrittenRow<'_>,
    ) -> Vec<(&'static str, Level, String)> {
        let WrittenRow { table, key, row, now } = written;
        let mut violations = Vec::new();
        for column in collections_of(table, row) {
            let (mut items, mut bytes) = (0u64, DELETION_SIZE);
            for cell in row.cells_of(column.id).filter(|cell| cell.is_live(now)) {
                items += 1;
                bytes += CELL_SIZE + cell.path.map_or(0, <[u8]>::len) + cell.value.len();
            }
            if items == 0 {
                continue;
            }
            let mut check = |limit: &Threshold, value: u64, message: fn(&str, i64, Level, i64) -> String| {
                let Some((level, threshold)) = self.crossed(limit, value) else { return };
                let (row, table) = (key_literal(table, key, row), table.qualified_name());
                let what = format!("{} in row {row} in table {table}", column.name);
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                let message = message(&what, value, level, threshold);
                violations.push((limit.name, level, guard::violation(limit.name, &message, limit.reason)));
            };
            check(&COLLECTION_SIZE, bytes as u64, too_large);
            check(&ITEMS_PER_COLLECTION, items, too_many_items);
        }
        violations
    }
}

/// Returns the non-frozen collections of which a row has cells, in column order.
fn collections_of<'t>(table: &'t TableMetadata, row: &Row) -> Vec<&'t ColumnMetadata> {
    let mut ids: Vec<_> = row.cells().filter(|cell| cell.path.is_some()).map(|cell| cell.column).collect();
    ids.dedup();
    let columns = ids.into_iter().filter_map(|id| table.column_by_id(id));
    let is_collection = |column: &&ColumnMetadata| {
        matches!(column.data_type, DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. })
    };
    columns.map(|column| &**column).filter(is_collection).collect()
}

/// Returns a primary key as in Cassandra's log: literals, in parentheses if there are several.
fn key_literal(table: &TableMetadata, key: &DecoratedKey, row: &Row) -> String {
    let values = key::components(key.key(), table.partition_key.len()).unwrap_or_default();
    let partition = table.partition_key.iter().zip(values).map(|(column, value)| (column, Some(value)));
    let clustering = table.clustering.iter().zip(row.clustering().values());
    let literals: Vec<String> =
        partition.chain(clustering).map(|(column, value)| to_literal(&column.data_type, value)).collect();
    match &literals[..] {
        [only] => only.clone(),
        several => format!("({})", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_rows::Unfiltered;
    use cassette_vfs::{FakeFileSystem, ManualClock};

    use super::*;
    use crate::api::database::{Database, Options};
    use crate::api::embedded::Session;

    /// 2023-11-14.
    const NOW_MICROS: i64 = 1_700_000_000_000_000;

    fn open() -> (Database, Session, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at_micros(NOW_MICROS));
        let mut options = Options {
            file_system: Arc::new(FakeFileSystem::new()),
            clock: clock.clone(),
            ..Options::new("/data")
        };
        options.engine.commitlog_sync = cassette_engine::commitlog::SyncMode::Batch;
        options.engine.background_threads = false;
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (a int, b text, c int, d text, s set<text> static, m map<text, int>, l list<int>, \
             f frozen<set<int>>, PRIMARY KEY ((a, b), c, d))",
            "CREATE TABLE ks.\"One\" (k text PRIMARY KEY, \"M\" map<text, int>)",
        ] {
            session.execute(statement, ()).unwrap();
        }
        (database, session, clock)
    }

    /// Returns the violations by the rows that a flush of the table writes.
    fn violations(database: &Database, table: &str) -> Vec<(Level, String)> {
        let catalog = database.catalog();
        let table = catalog.table("ks", table).unwrap();
        let guardrails = database.guardrails();
        assert!(guardrails.checks_written_collections(table));
        let now = (database.store().clock().now_micros() / 1_000_000) as u32;
        let (range, selection) = (cassette_engine::KeyRange::ALL, cassette_rows::Selection::all());
        let mut stream = database.engine().scan(table.id, &range, &selection).unwrap();
        let mut found = Vec::new();
        while let Some(header) = cassette_rows::PartitionStream::next_partition(&mut stream).unwrap() {
            let key = header.key.clone();
            let mut check = |row: &Row| {
                let row = WrittenRow { table, key: &key, row, now };
                let violations = guardrails.violations_of_collections(row).into_iter();
                found.extend(violations.map(|(_, level, message)| (level, message)));
            };
            header.static_row.iter().for_each(&mut check);
            while let Some(unfiltered) = cassette_rows::PartitionStream::next_unfiltered(&mut stream).unwrap()
            {
                if let Unfiltered::Row(row) = unfiltered {
                    check(&row);
                }
            }
        }
        found.sort_by(|a, b| a.1.cmp(&b.1));
        found
    }

    const CHANGES: [(Key, &str); 4] = [
        (Key::CollectionSizeWarn, "100B"),
        (Key::CollectionSizeFail, "200B"),
        (Key::ItemsPerCollectionWarn, "2"),
        (Key::ItemsPerCollectionFail, "4"),
    ];

    /// Cassandra 5.0.8 executed these statements and logged these messages at the flush.
    #[test]
    fn collections_in_a_flush_are_logged_with_the_words_of_cassandra() {
        let (database, session, clock) = open();
        let long = "z".repeat(149);
        for statement in [
            "INSERT INTO ks.t (a, b, c, d, m) VALUES (1, 'it''s', 2, 'x', {'a': 1, 'bb': 2, 'ccc': 3})",
            "UPDATE ks.t SET m = m + {'a': 1, 'bb': 2, 'ccc': 3} WHERE a = 2 AND b = 'upd' AND c = 2 AND d = 'x'",
            "DELETE m['a'] FROM ks.t WHERE a = 2 AND b = 'upd' AND c = 2 AND d = 'x'",
            "UPDATE ks.t SET s = s + {'a', 'b', 'c', 'd', 'e'} WHERE a = 3 AND b = 'static'",
            "UPDATE ks.t SET l = [1, 2, 3] WHERE a = 4 AND b = 'list' AND c = 2 AND d = 'x'",
            "UPDATE ks.t SET f = {1, 2, 3, 4, 5, 6} WHERE a = 5 AND b = 'frozen' AND c = 2 AND d = 'x'",
            "UPDATE ks.t USING TTL 1 SET m = m + {'p': 1, 'q': 2, 'r': 3, 's': 4, 't': 5} \
             WHERE a = 6 AND b = 'ttl' AND c = 2 AND d = 'x'",
            &format!("UPDATE ks.\"One\" SET \"M\" = {{'x': 1, 'y': 2, '{long}': 3}} WHERE k = 'kk'"),
            "INSERT INTO ks.t (a, b, c, d, m) VALUES (7, 'in', 2, 'x', {'a': 1})",
        ] {
            session.execute(statement, ()).unwrap();
        }
        clock.advance(std::time::Duration::from_secs(2));
        database.guardrails().set(&CHANGES).unwrap();
        let size = "Guardrail collection_size violated: Detected collection";
        let items = "Guardrail items_per_collection violated: Detected collection";
        let warned = |what: String| (Level::Warn, what);
        let expected = [
            warned(format!(
                "{size} l in row (4, 'list', 2, 'x') in table ks.t of size 132, this exceeds the warning \
                 threshold of 100."
            )),
            warned(format!(
                "{size} s in row (3, 'static') in table ks.t of size 117, this exceeds the warning \
                 threshold of 100."
            )),
            warned(format!(
                "{items} l in row (4, 'list', 2, 'x') in table ks.t with 3 items, this exceeds the warning \
                 threshold of 2."
            )),
            warned(format!(
                "{items} m in row (1, 'it''s', 2, 'x') in table ks.t with 3 items, this exceeds the warning \
                 threshold of 2."
            )),
            (
                Level::Fail,
                format!(
                    "{items} s in row (3, 'static') in table ks.t with 5 items, this exceeds the failure \
                     threshold of 4."
                ),
            ),
        ];
        assert_eq!(violations(&database, "t"), expected);
        let expected = [
            (
                Level::Fail,
                format!(
                    "{size} M in row 'kk' in table ks.\"One\" of size 235, this exceeds the failure threshold of 200."
                ),
            ),
            (
                Level::Warn,
                format!(
                    "{items} M in row 'kk' in table ks.\"One\" with 3 items, this exceeds the warning threshold of 2."
                ),
            ),
        ];
        assert_eq!(violations(&database, "One"), expected);
    }

    #[test]
    fn a_flush_and_a_compaction_log_collections_that_no_single_statement_made_too_large() {
        let (database, session, _) = open();
        let logged = || database.guardrails().log.logged("items_per_collection");
        database.guardrails().set(&CHANGES).unwrap();
        let table = database.catalog().table("ks", "One").unwrap().id;
        for (element, expected) in [("x", 0), ("y", 0), ("z", 0)] {
            let add = format!("UPDATE ks.\"One\" SET \"M\" = \"M\" + {{'{element}': 1}} WHERE k = 'kk'");
            session.execute(&add, ()).unwrap();
            database.engine().flush(Some(table)).unwrap();
            assert_eq!(logged(), expected);
        }
        database.engine().compact(table).unwrap();
        assert_eq!(logged(), 1);

        for element in ["p", "q", "r"] {
            let add = format!("UPDATE ks.\"One\" SET \"M\" = \"M\" + {{'{element}': 1}} WHERE k = 'flushed'");
            session.execute(&add, ()).unwrap();
        }
        database.engine().flush(Some(table)).unwrap();
        assert_eq!(logged(), 2);
    }

    #[test]
    fn without_limits_and_in_system_keyspaces_no_row_is_looked_at() {
        let (database, ..) = open();
        let catalog = database.catalog();
        let (table, schema) = (catalog.table("ks", "t"), catalog.table("system_schema", "keyspaces"));
        let checks = |table: Option<&Arc<TableMetadata>>| {
            database.guardrails().checks_written_collections(table.unwrap())
        };
        assert!(!checks(table) && !checks(schema));
        database.guardrails().set(&[(Key::ItemsPerCollectionWarn, "2")]).unwrap();
        assert!(checks(table) && !checks(schema));
    }
}
