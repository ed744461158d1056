//! Guardrails of schema statements.

use cassette_rows::{DataType, TableParams};

use super::guard::{Flag, Level, Threshold};
use super::{Guard, Key};
use crate::basics::error::Result;
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};

const KEYSPACES: Threshold =
    Threshold { name: "keyspaces", warn: Key::KeyspacesWarn, fail: Key::KeyspacesFail, reason: "" };
const TABLES: Threshold =
    Threshold { name: "tables", warn: Key::TablesWarn, fail: Key::TablesFail, reason: "" };
const COLUMNS_PER_TABLE: Threshold = Threshold {
    name: "columns_per_table",
    warn: Key::ColumnsPerTableWarn,
    fail: Key::ColumnsPerTableFail,
    reason: "",
};
const INDEXES_PER_TABLE: Threshold = Threshold {
    name: "secondary_indexes_per_table",
    warn: Key::SecondaryIndexesPerTableWarn,
    fail: Key::SecondaryIndexesPerTableFail,
    reason: "",
};
const VIEWS_PER_TABLE: Threshold = Threshold {
    name: "materialized_views_per_table",
    warn: Key::MaterializedViewsPerTableWarn,
    fail: Key::MaterializedViewsPerTableFail,
    reason: "",
};
const FIELDS_PER_UDT: Threshold = Threshold {
    name: "fields_per_udt",
    warn: Key::FieldsPerUdtWarn,
    fail: Key::FieldsPerUdtFail,
    reason: "",
};
const VECTOR_DIMENSIONS: Threshold = Threshold {
    name: "vector_dimensions",
    warn: Key::VectorDimensionsWarn,
    fail: Key::VectorDimensionsFail,
    reason: "",
};
const MINIMUM_REPLICATION: Threshold = Threshold {
    name: "minimum_replication_factor",
    warn: Key::MinimumReplicationFactorWarn,
    fail: Key::MinimumReplicationFactorFail,
    reason: "",
};
const MAXIMUM_REPLICATION: Threshold = Threshold {
    name: "maximum_replication_factor",
    warn: Key::MaximumReplicationFactorWarn,
    fail: Key::MaximumReplicationFactorFail,
    reason: "",
};

const fn flag(name: &'static str, enabled: Key) -> Flag {
    Flag { name, enabled, warned: None, reason: "" }
}

const SECONDARY_INDEXES: Flag = flag("secondary_indexes", Key::SecondaryIndexesEnabled);
const UNCOMPRESSED_TABLES: Flag = flag("uncompressed_tables_enabled", Key::UncompressedTablesEnabled);
const COMPACT_TABLES: Flag = flag("compact_tables", Key::CompactTablesEnabled);
const ALTER_TABLE: Flag = flag("alter_table", Key::AlterTableEnabled);
const DROP_TABLE: Flag = flag("drop_truncate_table_enabled", Key::DropTruncateTableEnabled);
const DROP_KEYSPACE: Flag = flag("drop_keyspace_enabled", Key::DropKeyspaceEnabled);
const SIMPLE_STRATEGY: Flag = flag("simplestrategy", Key::SimpleStrategyEnabled);
const VECTOR_TYPE: Flag = flag("vector_type_enabled", Key::VectorTypeEnabled);
const ZERO_TTL: Flag = Flag {
    name: "zero_ttl_on_twcs",
    enabled: Key::ZeroTtlOnTwcsEnabled,
    warned: Some(Key::ZeroTtlOnTwcsWarned),
    reason: "It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in mind \
             that data will not start to automatically expire after they are older than a respective compaction window \
             unit of a certain size. Please set TTL for your INSERT or UPDATE statements if you expect data to be \
             expired as table settings will not do it. ",
};

const TIME_WINDOWS: &str = "TimeWindowCompactionStrategy";

fn user_keyspaces(catalog: &Catalog) -> impl Iterator<Item = &Keyspace> {
    catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User).map(|keyspace| &**keyspace)
}

fn as_number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Guard<'_> {
    /// Checks the creation of a keyspace called `name`.
    pub fn new_keyspace(self, name: &str, catalog: &Catalog) -> Result<()> {
        let count = as_number(user_keyspaces(catalog).count()) + 1;
        self.at_most(&KEYSPACES, count, |level, threshold| match level {
            Level::Warn => format!(
                "Creating keyspace {name}, current number of keyspaces {count} exceeds warning threshold of \
                 {threshold}."
            ),
            Level::Fail => {
                format!(
                    "Cannot have more than {threshold} keyspaces, aborting the creation of keyspace {name}"
                )
            }
        })
    }

    /// Checks the number of full replicas of the keyspace `name`: in total, or in each data center.
    pub fn replication(self, name: &str, factors: impl Iterator<Item = i64>) -> Result<()> {
        for factor in factors {
            self.at_least(&MINIMUM_REPLICATION, factor, |level, threshold| {
                format!(
                    "The keyspace {name} has a replication factor of {factor}, below the {} threshold of {threshold}.",
                    level.name()
                )
            })?;
            self.at_most(&MAXIMUM_REPLICATION, factor, |level, threshold| {
                format!(
                    "The keyspace {name} has a replication factor of {factor}, above the {} threshold of {threshold}.",
                    level.name()
                )
            })?;
        }
        Ok(())
    }

    /// Checks a statement with SimpleStrategy.
    pub fn simple_strategy(self) -> Result<()> {
        self.allowed(&SIMPLE_STRATEGY, "SimpleStrategy")
    }

    /// Checks DROP KEYSPACE.
    pub fn drop_keyspace(self) -> Result<()> {
        self.allowed(&DROP_KEYSPACE, "DROP KEYSPACE functionality")
    }

    /// Checks the creation of a table called `name`.
    pub fn new_table(self, name: &str, catalog: &Catalog) -> Result<()> {
        // Views have a separate guardrail.
        let tables = |keyspace: &Keyspace| keyspace.tables.len().saturating_sub(keyspace.views.len());
        let count = as_number(user_keyspaces(catalog).map(tables).sum()) + 1;
        self.at_most(&TABLES, count, |level, threshold| match level {
            Level::Warn => format!(
                "Creating table {name}, current number of tables {count} exceeds warning threshold of {threshold}."
            ),
            Level::Fail => {
                format!("Cannot have more than {threshold} tables, aborting the creation of table {name}")
            }
        })
    }

    /// Checks the number of columns of the table called `name`.
    pub fn columns_of_table(self, name: &str, count: usize) -> Result<()> {
        let count = as_number(count);
        self.at_most(&COLUMNS_PER_TABLE, count, |level, threshold| match level {
            Level::Warn => {
                format!(
                    "The table {name} has {count} columns, this exceeds the warning threshold of {threshold}."
                )
            }
            Level::Fail => {
                format!(
                    "Tables cannot have more than {threshold} columns, but {count} provided for table {name}"
                )
            }
        })
    }

    /// Checks the compression of a table. As in Cassandra, views are not checked.
    pub fn uncompressed(self, params: &TableParams) -> Result<()> {
        if params.compression.compressor.is_some() {
            Ok(())
        } else {
            self.allowed(&UNCOMPRESSED_TABLES, "Uncompressed table")
        }
    }

    /// Checks the creation of a table with COMPACT STORAGE.
    pub fn new_compact_table(self) -> Result<()> {
        self.allowed(&COMPACT_TABLES, "Creation of new COMPACT STORAGE tables")
    }

    /// Checks the compaction options of a table that a statement specifies.
    pub fn zero_ttl(self, params: &TableParams) -> Result<()> {
        if params.default_time_to_live == 0 && params.compaction.class == TIME_WINDOWS {
            self.allowed(
                &ZERO_TTL,
                "0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy",
            )
        } else {
            Ok(())
        }
    }

    /// Checks an ALTER TABLE that changes columns.
    pub fn alter_columns(self) -> Result<()> {
        self.allowed(&ALTER_TABLE, "ALTER TABLE changing columns")
    }

    /// Checks DROP TABLE and TRUNCATE.
    pub fn drop_or_truncate(self) -> Result<()> {
        self.allowed(&DROP_TABLE, "DROP and TRUNCATE TABLE functionality")
    }

    /// Checks CREATE INDEX.
    pub fn index_creation(self) -> Result<()> {
        self.allowed(&SECONDARY_INDEXES, "Creating secondary indexes")
    }

    /// Checks the creation of an index on `table`, which has `before` indexes. `name` is the name
    /// in the statement.
    pub fn new_index(self, name: Option<&str>, table: &str, before: usize) -> Result<()> {
        let count = as_number(before) + 1;
        let name = name.map(|name| format!("{name} ")).unwrap_or_default();
        self.at_most(&INDEXES_PER_TABLE, count, |level, threshold| match level {
            Level::Warn => format!(
                "Creating secondary index {name}on table {table}, current number of indexes {count} exceeds warning \
                 threshold of {threshold}."
            ),
            Level::Fail => format!(
                "Tables cannot have more than {threshold} secondary indexes, aborting the creation of secondary index \
                 {name}on table {table}"
            ),
        })
    }

    /// Checks the creation of the view `name` on `table`, which has `before` views.
    pub fn new_view(self, name: &str, table: &str, before: usize) -> Result<()> {
        let count = as_number(before) + 1;
        self.at_most(&VIEWS_PER_TABLE, count, |level, threshold| match level {
            Level::Warn => format!(
                "Creating materialized view {name} on table {table}, current number of views {count} exceeds warning \
                 threshold of {threshold}."
            ),
            Level::Fail => format!(
                "Tables cannot have more than {threshold} materialized views, aborting the creation of materialized \
                 view {name} on table {table}"
            ),
        })
    }

    /// Checks the number of fields of the type called `name`.
    pub fn fields_of_type(self, name: &str, count: usize) -> Result<()> {
        let count = as_number(count);
        self.at_most(&FIELDS_PER_UDT, count, |level, threshold| match level {
            Level::Warn => {
                format!("The user type {name} has {count} columns, this exceeds the warning threshold of {threshold}.")
            }
            Level::Fail => format!(
                "User types cannot have more than {threshold} columns, but {count} provided for user type {name}."
            ),
        })
    }

    /// Checks the vectors in the type of `what` (`Column v`, `Field f`).
    pub fn vectors(self, what: &str, data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::Vector { element, dimension } => {
                self.allowed(&VECTOR_TYPE, what)?;
                let dimensions = i64::from(*dimension);
                self.at_most(&VECTOR_DIMENSIONS, dimensions, |level, threshold| {
                    format!(
                        "{what} has a vector of {dimensions} dimensions, this exceeds the {} threshold of {threshold}.",
                        level.name()
                    )
                })?;
                self.vectors(what, element)
            }
            DataType::List { element, .. } | DataType::Set { element, .. } => self.vectors(what, element),
            DataType::Map { key, value, .. } => {
                self.vectors(what, key)?;
                self.vectors(what, value)
            }
            DataType::Tuple(items) => items.iter().try_for_each(|item| self.vectors(what, item)),
            // Fields of user-defined types were checked when the types were created.
            _ => Ok(()),
        }
    }
}
