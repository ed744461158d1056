//! The table of all guardrails: names, kinds and defaults of Cassandra 5.0.8.

/// The kind of a setting, which determines how its text is read and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A positive number, or -1 for none.
    Count,
    /// A positive number up to 100, or -1 for none.
    Percentage,
    /// An integer that Cassandra does not check.
    Number,
    /// A size with its unit, or empty.
    Size,
    /// A duration with its unit, or empty.
    Duration,
    /// Names of table properties.
    Properties,
    /// Names of consistency levels.
    ConsistencyLevels,
}

/// A key of cassandra.yaml.
#[derive(Debug)]
pub struct Setting {
    /// The index in [`SETTINGS`].
    pub key: Key,
    /// The name in cassandra.yaml and `system_views.settings`.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The default, as in cassandra.yaml; empty for null.
    pub default: &'static str,
    /// Whether Cassandra's `nodetool getguardrailsconfig` lists it.
    pub in_nodetool: bool,
    /// The limited operation or object.
    pub limits: &'static str,
}

macro_rules! settings {
    ($($key:ident $name:literal $kind:ident $default:literal $in_nodetool:literal $limits:literal;)*) => {
        /// The keys of all guardrails.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Key {
            $(#[doc = concat!("`", $name, "`: ", $limits, ".")] $key,)*
        }

        /// All guardrails, indexed by [`Key`].
        pub const SETTINGS: &[Setting] = &[$(Setting {
            key: Key::$key,
            name: $name,
            kind: Kind::$kind,
            default: $default,
            in_nodetool: $in_nodetool,
            limits: $limits,
        },)*];
    };
}

settings! {
    KeyspacesWarn "keyspaces_warn_threshold" Count "-1" true "user keyspaces";
    KeyspacesFail "keyspaces_fail_threshold" Count "-1" true "user keyspaces";
    TablesWarn "tables_warn_threshold" Count "-1" true "tables of all user keyspaces";
    TablesFail "tables_fail_threshold" Count "-1" true "tables of all user keyspaces";
    ColumnsPerTableWarn "columns_per_table_warn_threshold" Count "-1" true "columns of a table";
    ColumnsPerTableFail "columns_per_table_fail_threshold" Count "-1" true "columns of a table";
    SecondaryIndexesPerTableWarn "secondary_indexes_per_table_warn_threshold" Count "-1" true
        "indexes of a table";
    SecondaryIndexesPerTableFail "secondary_indexes_per_table_fail_threshold" Count "-1" true
        "indexes of a table";
    MaterializedViewsPerTableWarn "materialized_views_per_table_warn_threshold" Count "-1" true
        "views of a table";
    MaterializedViewsPerTableFail "materialized_views_per_table_fail_threshold" Count "-1" true
        "views of a table";
    TablePropertiesWarned "table_properties_warned" Properties "" true
        "properties that CREATE and ALTER warn of";
    TablePropertiesIgnored "table_properties_ignored" Properties "" true
        "properties that CREATE and ALTER leave out, with a warning";
    TablePropertiesDisallowed "table_properties_disallowed" Properties "" true
        "properties that CREATE and ALTER refuse";
    UserTimestampsEnabled "user_timestamps_enabled" Flag "true" true "USING TIMESTAMP";
    GroupByEnabled "group_by_enabled" Flag "true" true "GROUP BY";
    DropTruncateTableEnabled "drop_truncate_table_enabled" Flag "true" true "DROP TABLE and TRUNCATE";
    DropKeyspaceEnabled "drop_keyspace_enabled" Flag "true" true "DROP KEYSPACE";
    AlterTableEnabled "alter_table_enabled" Flag "true" true "ALTER TABLE that changes columns";
    SecondaryIndexesEnabled "secondary_indexes_enabled" Flag "true" true "CREATE INDEX";
    UncompressedTablesEnabled "uncompressed_tables_enabled" Flag "true" true
        "tables without compression";
    CompactTablesEnabled "compact_tables_enabled" Flag "true" true "tables WITH COMPACT STORAGE";
    ReadBeforeWriteListOperationsEnabled "read_before_write_list_operations_enabled" Flag "true" true
        "list operations by index or value";
    AllowFilteringEnabled "allow_filtering_enabled" Flag "true" true "ALLOW FILTERING";
    SimpleStrategyEnabled "simplestrategy_enabled" Flag "true" true "SimpleStrategy";
    PageSizeWarn "page_size_warn_threshold" Count "-1" true "rows of a page";
    PageSizeFail "page_size_fail_threshold" Count "-1" true "rows of a page";
    PartitionKeysInSelectWarn "partition_keys_in_select_warn_threshold" Count "-1" true
        "partitions that IN names in a SELECT";
    PartitionKeysInSelectFail "partition_keys_in_select_fail_threshold" Count "-1" true
        "partitions that IN names in a SELECT";
    InSelectCartesianProductWarn "in_select_cartesian_product_warn_threshold" Count "-1" true
        "keys or rows that a product of INs names";
    InSelectCartesianProductFail "in_select_cartesian_product_fail_threshold" Count "-1" true
        "keys or rows that a product of INs names";
    ReadConsistencyLevelsWarned "read_consistency_levels_warned" ConsistencyLevels "" true
        "levels that reads are warned of";
    ReadConsistencyLevelsDisallowed "read_consistency_levels_disallowed" ConsistencyLevels "" true
        "levels that reads are refused with";
    WriteConsistencyLevelsWarned "write_consistency_levels_warned" ConsistencyLevels "" true
        "levels that writes are warned of";
    WriteConsistencyLevelsDisallowed "write_consistency_levels_disallowed" ConsistencyLevels "" true
        "levels that writes are refused with";
    ColumnValueSizeWarn "column_value_size_warn_threshold" Size "" true
        "bytes of a value outside the primary key";
    ColumnValueSizeFail "column_value_size_fail_threshold" Size "" true
        "bytes of a value outside the primary key";
    CollectionSizeWarn "collection_size_warn_threshold" Size "" true "bytes that are written of a collection";
    CollectionSizeFail "collection_size_fail_threshold" Size "" true "bytes that are written of a collection";
    ItemsPerCollectionWarn "items_per_collection_warn_threshold" Count "-1" true
        "items that are written of a collection";
    ItemsPerCollectionFail "items_per_collection_fail_threshold" Count "-1" true
        "items that are written of a collection";
    FieldsPerUdtWarn "fields_per_udt_warn_threshold" Count "-1" true "fields of a user-defined type";
    FieldsPerUdtFail "fields_per_udt_fail_threshold" Count "-1" true "fields of a user-defined type";
    VectorTypeEnabled "vector_type_enabled" Flag "true" true "columns and fields of vector types";
    VectorDimensionsWarn "vector_dimensions_warn_threshold" Count "-1" true "dimensions of a vector";
    VectorDimensionsFail "vector_dimensions_fail_threshold" Count "-1" true "dimensions of a vector";
    MinimumReplicationFactorWarn "minimum_replication_factor_warn_threshold" Count "-1" true
        "replicas of a keyspace, at least";
    MinimumReplicationFactorFail "minimum_replication_factor_fail_threshold" Count "-1" true
        "replicas of a keyspace, at least";
    MaximumReplicationFactorWarn "maximum_replication_factor_warn_threshold" Count "-1" true
        "replicas of a keyspace";
    MaximumReplicationFactorFail "maximum_replication_factor_fail_threshold" Count "-1" true
        "replicas of a keyspace";
    MaximumTimestampWarn "maximum_timestamp_warn_threshold" Duration "" true
        "how far in the future USING TIMESTAMP may be";
    MaximumTimestampFail "maximum_timestamp_fail_threshold" Duration "" true
        "how far in the future USING TIMESTAMP may be";
    MinimumTimestampWarn "minimum_timestamp_warn_threshold" Duration "" true
        "how far in the past USING TIMESTAMP may be";
    MinimumTimestampFail "minimum_timestamp_fail_threshold" Duration "" true
        "how far in the past USING TIMESTAMP may be";
    ZeroTtlOnTwcsWarned "zero_ttl_on_twcs_warned" Flag "true" true
        "warns of tables of TimeWindowCompactionStrategy without default_time_to_live";
    ZeroTtlOnTwcsEnabled "zero_ttl_on_twcs_enabled" Flag "true" true
        "tables of TimeWindowCompactionStrategy without default_time_to_live";
    NonPartitionRestrictedQueryEnabled "non_partition_restricted_index_query_enabled" Flag "true" true
        "queries by index that do not name a partition";
    SaiStringTermSizeWarn "sai_string_term_size_warn_threshold" Size "1KiB" true
        "bytes of a text that a storage-attached index holds";
    SaiStringTermSizeFail "sai_string_term_size_fail_threshold" Size "8KiB" true
        "bytes of a text that a storage-attached index holds";
    SaiFrozenTermSizeWarn "sai_frozen_term_size_warn_threshold" Size "1KiB" true
        "bytes of a frozen value that a storage-attached index holds";
    SaiFrozenTermSizeFail "sai_frozen_term_size_fail_threshold" Size "8KiB" true
        "bytes of a frozen value that a storage-attached index holds";
    SaiVectorTermSizeWarn "sai_vector_term_size_warn_threshold" Size "16KiB" true
        "bytes of a vector that a storage-attached index holds";
    SaiVectorTermSizeFail "sai_vector_term_size_fail_threshold" Size "32KiB" true
        "bytes of a vector that a storage-attached index holds";
    SaiSSTableIndexesPerQueryWarn "sai_sstable_indexes_per_query_warn_threshold" Count "32" true
        "SSTables of a storage-attached index that a query without a partition reads";
    SaiSSTableIndexesPerQueryFail "sai_sstable_indexes_per_query_fail_threshold" Count "-1" true
        "SSTables of a storage-attached index that a query without a partition reads";
    PartitionSizeWarn "partition_size_warn_threshold" Size "" true
        "bytes of a partition that a flush or compaction writes";
    PartitionSizeFail "partition_size_fail_threshold" Size "" true
        "bytes of a partition that a flush or compaction writes";
    PartitionTombstonesWarn "partition_tombstones_warn_threshold" Count "-1" true
        "tombstones of a partition that a flush or compaction writes";
    PartitionTombstonesFail "partition_tombstones_fail_threshold" Count "-1" true
        "tombstones of a partition that a flush or compaction writes";
    DataDiskUsagePercentageWarn "data_disk_usage_percentage_warn_threshold" Percentage "-1" true
        "percent of the disk that data takes when writes are made";
    DataDiskUsagePercentageFail "data_disk_usage_percentage_fail_threshold" Percentage "-1" true
        "percent of the disk that data takes when writes are made";
    DataDiskUsageMaxDiskSize "data_disk_usage_max_disk_size" Size "" true
        "bytes that the percentage is of, if the disk is larger";
    BatchSizeWarn "batch_size_warn_threshold" Size "5KiB" false "bytes of a batch of several partitions";
    BatchSizeFail "batch_size_fail_threshold" Size "50KiB" false "bytes of a batch of several partitions";
    UnloggedBatchAcrossPartitionsWarn "unlogged_batch_across_partitions_warn_threshold" Number "10" false
        "partitions of an unlogged batch";
    TombstoneWarn "tombstone_warn_threshold" Number "1000" false "tombstones that one read scans";
    TombstoneFailure "tombstone_failure_threshold" Number "100000" false "tombstones that one read scans";
    ReadThresholdsEnabled "read_thresholds_enabled" Flag "false" false "switches on the thresholds below";
    CoordinatorReadSizeWarn "coordinator_read_size_warn_threshold" Size "" false
        "bytes of the values of an answer";
    CoordinatorReadSizeFail "coordinator_read_size_fail_threshold" Size "" false
        "bytes of the values of an answer";
    LocalReadSizeWarn "local_read_size_warn_threshold" Size "" false
        "bytes of keys and rows that one read takes into memory";
    LocalReadSizeFail "local_read_size_fail_threshold" Size "" false
        "bytes of keys and rows that one read takes into memory";
    RowIndexReadSizeWarn "row_index_read_size_warn_threshold" Size "" false
        "bytes of the row index of a partition in an SSTable";
    RowIndexReadSizeFail "row_index_read_size_fail_threshold" Size "" false
        "bytes of the row index of a partition in an SSTable";
}

impl Key {
    /// Returns the setting with this key.
    pub fn setting(self) -> &'static Setting {
        &SETTINGS[self as usize]
    }
}

impl Setting {
    /// Returns the setting called `name` in cassandra.yaml.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Returns the warning and the failure threshold of the pair that this setting belongs to.
    pub fn pair(&self) -> Option<(&'static Self, &'static Self)> {
        let base = self
            .name
            .strip_suffix("_warn_threshold")
            .or_else(|| self.name.strip_suffix("_fail_threshold"))?;
        Some((
            Self::named(&format!("{base}_warn_threshold"))?,
            Self::named(&format!("{base}_fail_threshold"))?,
        ))
    }
}
