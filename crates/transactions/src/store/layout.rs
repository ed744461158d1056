//! Tables and statements in CQL, the same for every store that speaks it.
//!
//! ```text
//! key blob | column1 blob | column2 bigint = !timestamp | value blob        PRIMARY KEY (key, column1, column2)
//! ```
//!
//! The complement makes newer versions come first: the newest below S is the first with `column2 > !S`. Sentinels (timestamp -1,
//! `column2` 0) come behind all versions.

use super::{StoreError, StoreResult};
use crate::timestamp::Timestamp;

/// What a table is for, which decides its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Cells of users, and small tables.
    Data,
    /// Conclusions of layout 1: a small partition for each start.
    SmallPartitions,
    /// Conclusions of layouts 2 and 3: a few partitions, each read all the time. A billion starts are 656 partitions, so perfect filters
    /// and indexes cost nothing, and large chunks compress neighbours, which resemble each other.
    DensePartitions,
}

/// How long tombstones are kept, as AtlasDB has it: a removal asks for all replicas, so few ever miss one.
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
             AND gc_grace_seconds = {GC_GRACE_SECONDS} AND compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': {chunk}}} \
             AND min_index_interval = {} AND max_index_interval = {} AND speculative_retry = 'NEVER'",
            index.0, index.1
        )
    }
}

/// `column2` of a timestamp.
pub const fn column2(timestamp: Timestamp) -> i64 {
    !timestamp.0
}

/// The timestamp of a `column2`.
pub const fn timestamp(column2: i64) -> Timestamp {
    Timestamp(!column2)
}

const NAME_LENGTH_MAX: usize = 48;

/// Refuses names that would have to be escaped.
pub fn check_name(name: &str) -> StoreResult<()> {
    let fine = (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fine {
        Ok(())
    } else {
        Err(StoreError::refused(
            format!("name {name:?}"),
            "a name is 1 to 48 letters, digits and underscores of ASCII",
        ))
    }
}

/// Asks for the tables of a keyspace.
pub const TABLES_OF_KEYSPACE: &str = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";

/// Asks for the columns of a table: keyspace, table.
pub const COLUMNS_OF_TABLE: &str = "SELECT column_name, kind, clustering_order, type FROM system_schema.columns \
     WHERE keyspace_name = ? AND table_name = ?";

/// The answer to it, sorted. Of two clustering columns of different types the statements can only be prepared in this order.
pub const COLUMNS: [&str; 4] = [
    "column1 clustering asc blob",
    "column2 clustering asc bigint",
    "key partition_key none blob",
    "value regular none blob",
];

/// CREATE TABLE.
pub fn create_table(keyspace: &str, table: &str, kind: TableKind) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS \"{keyspace}\".\"{table}\" (key blob, column1 blob, column2 bigint, value blob, \
         PRIMARY KEY (key, column1, column2)) WITH {}",
        kind.options()
    )
}

/// The texts of a table's statements. Markers stand in the order of their mention.
pub struct Texts {
    /// key, column1, column2: newest version below.
    pub get: String,
    /// key, column1 list, column2.
    pub get_many: String,
    /// key list, column1 list, column2; the answer has the key first.
    pub get_rows: String,
    /// key, first column1, column2, limit.
    pub columns: String,
    /// key, first column1, last column1 (exclusive), column2, limit.
    pub columns_until: String,
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
    /// Those of a table whose names were checked.
    pub fn new(keyspace: &str, table: &str) -> Self {
        let table = format!("\"{keyspace}\".\"{table}\"");
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
                "{newest} AND column1 >= ? AND column1 < ? AND column2 > ? GROUP BY key, column1 LIMIT ? ALLOW FILTERING"
            ),
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
