//! CQL tables and statements, the same for every CQL store.
//!
//! ```text
//! key blob | column1 blob | column2 bigint = !timestamp | value blob        PRIMARY KEY (key, column1, column2)
//! ```
//!
//! The complement sorts newer versions first: the newest one below S is the first with `column2 >
//! !S`. Sentinels (timestamp -1, `column2` 0) follow all versions.

use cassette_rows::TableMetadata;

use super::{StoreError, StoreResult};
use crate::timestamp::Timestamp;

/// Purpose of a table, which determines its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Cells of applications, and small tables.
    Data,
    /// Commit records of layout 1: a small partition per start timestamp.
    SmallPartitions,
    /// Commit records of layouts 2 and 3: few partitions, each read constantly. A billion start
    /// timestamps are 656 partitions, so perfect filters and indexes cost nothing, and large chunks
    /// compress neighbouring values, which are similar.
    DensePartitions,
}

/// How long tombstones are kept, as in AtlasDB: a removal requires all replicas, so few ever miss
/// one.
const GC_GRACE_SECONDS: u32 = 3_600;

impl TableKind {
    fn options(self) -> String {
        let (bloom_filter, chunk, index) = match self {
            Self::Data | Self::SmallPartitions => (0.1, 4, (128, 2048)),
            Self::DensePartitions => (0.0001, 64, (1, 1)),
        };
        format!(
            "CLUSTERING ORDER BY (column1 ASC, column2 ASC) AND bloom_filter_fp_chance = {bloom_filter} \
             AND compaction = {{'class': 'LeveledCompactionStrategy'}} \
             AND gc_grace_seconds = {GC_GRACE_SECONDS} \
             AND compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': {chunk}}} \
             AND min_index_interval = {} AND max_index_interval = {} AND speculative_retry = 'NEVER'",
            index.0, index.1
        )
    }
}

/// Returns whether a table has the columns of a store's tables.
pub fn is_table_of_versions(table: &TableMetadata) -> bool {
    let names = ["key", "column1", "column2", "value"];
    table.all_columns().count() == names.len() && names.iter().all(|name| table.column(name).is_some())
}

/// Returns the `column2` of a timestamp.
pub const fn column2(timestamp: Timestamp) -> i64 {
    !timestamp.0
}

/// Returns the timestamp of a `column2`.
pub const fn timestamp(column2: i64) -> Timestamp {
    Timestamp(!column2)
}

const NAME_LENGTH_MAX: usize = 48;

/// Rejects names that would need escaping.
pub fn check_name(name: &str) -> StoreResult<()> {
    let fine = (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fine {
        Ok(())
    } else {
        Err(StoreError::refused(
            format!("name {name:?}"),
            "invalid table name: expected 1 to 48 ASCII letters, digits and underscores",
        ))
    }
}

/// Selects the tables of a keyspace.
pub const TABLES_OF_KEYSPACE: &str = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";

/// Selects the columns of a table: keyspace, table.
pub const COLUMNS_OF_TABLE: &str = "SELECT column_name, kind, clustering_order, type FROM system_schema.columns \
     WHERE keyspace_name = ? AND table_name = ?";

/// Expected result of [`COLUMNS_OF_TABLE`], sorted. The statements can only be prepared with the
/// clustering columns in this order, because their types differ.
pub const COLUMNS: [&str; 4] = [
    "column1 clustering asc blob",
    "column2 clustering asc bigint",
    "key partition_key none blob",
    "value regular none blob",
];

/// Returns the CREATE TABLE statement.
pub fn create_table(keyspace: &str, table: &str, kind: TableKind) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS \"{keyspace}\".\"{table}\" (key blob, column1 blob, column2 bigint, value blob, \
         PRIMARY KEY (key, column1, column2)) WITH {}",
        kind.options()
    )
}

/// Statements of a table. Their markers are listed in order.
pub struct Texts {
    /// key, column1, column2: newest version below.
    pub get: String,
    /// key, column1 list, column2.
    pub get_many: String,
    /// key list, column1 list, column2; the result begins with the key.
    pub get_rows: String,
    /// key, first column1, column2, limit.
    pub columns: String,
    /// key, first column1, last column1 (exclusive), column2, limit.
    pub columns_until: String,
    /// key, first column1, column2, limit: names only, the last ones first.
    pub names_reversed: String,
    /// key, first column1, last column1 (exclusive), column2, limit: as `names_reversed`.
    pub names_until_reversed: String,
    /// limit.
    pub rows: String,
    /// key, limit. Begins with the rows that share the key's token.
    pub rows_from: String,
    /// key, column1, column2, value, write time.
    pub put: String,
    /// key, column1, column2, value.
    pub put_unless_exists: String,
    /// new value, key, column1, column2, expected value.
    pub check_and_set: String,
    /// write time, key, column1, column2.
    pub delete: String,
    /// write time, key, column1, column2 (exclusive, of the greatest timestamp).
    pub delete_older: String,
    /// write time, key.
    pub delete_row: String,
}

impl Texts {
    /// Returns the statements of a table whose name was checked.
    pub fn new(keyspace: &str, table: &str) -> Self {
        let table = format!("\"{keyspace}\".\"{table}\"");
        let names = format!("SELECT column1 FROM {table} WHERE key = ? AND column1 >= ?");
        let reversed = "AND column2 > ? GROUP BY key, column1 ORDER BY column1 DESC, column2 DESC LIMIT ? \
                        ALLOW FILTERING";
        let newest = format!("SELECT column1, column2, value FROM {table} WHERE key = ?");
        Self {
            get: format!("{newest} AND column1 = ? AND column2 > ? LIMIT 1"),
            get_many: format!("{newest} AND column1 IN ? AND column2 > ? GROUP BY key, column1"),
            get_rows: format!(
                "SELECT key, column1, column2, value FROM {table} WHERE key IN ? AND column1 IN ? AND column2 > ? \
                 GROUP BY key, column1"
            ),
            columns: format!(
                "{newest} AND column1 >= ? AND column2 > ? GROUP BY key, column1 LIMIT ? ALLOW FILTERING"
            ),
            columns_until: format!(
                "{newest} AND column1 >= ? AND column1 < ? AND column2 > ? GROUP BY key, column1 LIMIT ? \
                 ALLOW FILTERING"
            ),
            names_reversed: format!("{names} {reversed}"),
            names_until_reversed: format!("{names} AND column1 < ? {reversed}"),
            rows: format!("SELECT DISTINCT key FROM {table} LIMIT ?"),
            rows_from: format!("SELECT DISTINCT key FROM {table} WHERE token(key) >= token(?) LIMIT ?"),
            put: format!(
                "INSERT INTO {table} (key, column1, column2, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
            ),
            put_unless_exists: format!(
                "INSERT INTO {table} (key, column1, column2, value) VALUES (?, ?, ?, ?) IF NOT EXISTS"
            ),
            check_and_set: format!(
                "UPDATE {table} SET value = ? WHERE key = ? AND column1 = ? AND column2 = ? IF value = ?"
            ),
            delete: format!(
                "DELETE FROM {table} USING TIMESTAMP ? WHERE key = ? AND column1 = ? AND column2 = ?"
            ),
            delete_row: format!("DELETE FROM {table} USING TIMESTAMP ? WHERE key = ?"),
            delete_older: format!(
                "DELETE FROM {table} USING TIMESTAMP ? WHERE key = ? AND column1 = ? AND column2 > ? AND column2 < 0"
            ),
        }
    }
}
