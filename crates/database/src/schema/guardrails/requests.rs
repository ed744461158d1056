//! Guardrails of SELECT, INSERT, UPDATE, DELETE and BATCH.

use super::guard::{Flag, Level, Threshold};
use super::{Guard, Key, collections};
use crate::basics::error::Result;

const PAGE_SIZE: Threshold =
    Threshold { name: "page_size", warn: Key::PageSizeWarn, fail: Key::PageSizeFail, reason: "" };
const PARTITION_KEYS: Threshold = Threshold {
    name: "partition_keys_in_select",
    warn: Key::PartitionKeysInSelectWarn,
    fail: Key::PartitionKeysInSelectFail,
    reason: "",
};
const CARTESIAN_PRODUCT: Threshold = Threshold {
    name: "in_select_cartesian_product",
    warn: Key::InSelectCartesianProductWarn,
    fail: Key::InSelectCartesianProductFail,
    reason: "",
};
const COLUMN_VALUE_SIZE: Threshold = Threshold {
    name: "column_value_size",
    warn: Key::ColumnValueSizeWarn,
    fail: Key::ColumnValueSizeFail,
    reason: "",
};
pub(super) const COLLECTION_SIZE: Threshold = Threshold {
    name: "collection_size",
    warn: Key::CollectionSizeWarn,
    fail: Key::CollectionSizeFail,
    reason: "",
};
pub(super) const ITEMS_PER_COLLECTION: Threshold = Threshold {
    name: "items_per_collection",
    warn: Key::ItemsPerCollectionWarn,
    fail: Key::ItemsPerCollectionFail,
    reason: "",
};
const MAXIMUM_TIMESTAMP: Threshold = Threshold {
    name: "maximum_timestamp",
    warn: Key::MaximumTimestampWarn,
    fail: Key::MaximumTimestampFail,
    reason: "Timestamps too far in the future can lead to data that can't be easily overwritten",
};
const MINIMUM_TIMESTAMP: Threshold = Threshold {
    name: "minimum_timestamp",
    warn: Key::MinimumTimestampWarn,
    fail: Key::MinimumTimestampFail,
    reason: "Timestamps too far in the past can cause writes can be unexpectedly lost",
};
const STRING_TERM_SIZE: Threshold = Threshold {
    name: "sai_string_term_size",
    warn: Key::SaiStringTermSizeWarn,
    fail: Key::SaiStringTermSizeFail,
    reason: "",
};
const FROZEN_TERM_SIZE: Threshold = Threshold {
    name: "sai_frozen_term_size",
    warn: Key::SaiFrozenTermSizeWarn,
    fail: Key::SaiFrozenTermSizeFail,
    reason: "",
};

const VECTOR_TERM_SIZE: Threshold = Threshold {
    name: "sai_vector_term_size",
    warn: Key::SaiVectorTermSizeWarn,
    fail: Key::SaiVectorTermSizeFail,
    reason: "",
};

const USER_TIMESTAMPS: Flag =
    Flag { name: "user_timestamps", enabled: Key::UserTimestampsEnabled, warned: None, reason: "" };
const GROUP_BY: Flag = Flag { name: "group_by", enabled: Key::GroupByEnabled, warned: None, reason: "" };
const ALLOW_FILTERING: Flag = Flag {
    name: "allow_filtering",
    enabled: Key::AllowFilteringEnabled,
    warned: None,
    reason: "ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.",
};
const READ_BEFORE_WRITE: Flag = Flag {
    name: "read_before_write_list_operations",
    enabled: Key::ReadBeforeWriteListOperationsEnabled,
    warned: None,
    reason: "",
};
const NON_PARTITION_RESTRICTED: Flag = Flag {
    name: "non_partition_restricted_index_query_enabled",
    enabled: Key::NonPartitionRestrictedQueryEnabled,
    warned: None,
    reason: "Executing a query on secondary indexes without partition key restriction might degrade performance",
};

/// An operation on list elements that must read the row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ListOperation {
    SetByIndex,
    RemoveByIndex,
    RemoveByValue,
}

fn as_number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Guard<'_> {
    /// Checks a SELECT with GROUP BY.
    #[inline]
    pub fn group_by(self) -> Result<()> {
        self.allowed(&GROUP_BY, "GROUP BY functionality")
    }

    /// Checks a SELECT with ALLOW FILTERING.
    #[inline]
    pub fn allow_filtering(self) -> Result<()> {
        self.allowed(&ALLOW_FILTERING, "Querying with ALLOW FILTERING")
    }

    /// Checks a SELECT that searches an index without a partition key.
    #[inline]
    pub fn search_of_all_partitions(self) -> Result<()> {
        self.allowed(&NON_PARTITION_RESTRICTED, "Non-partition key restricted query")
    }

    /// Checks the page size of a SELECT from `table`.
    #[inline]
    pub fn page_size(self, table: &str, rows: u32) -> Result<()> {
        self.at_most(&PAGE_SIZE, rows.into(), |level, threshold| match level {
            Level::Warn => {
                format!("Query for table {table} with page size {rows} exceeds warning threshold of {threshold}.")
            }
            Level::Fail => {
                format!("Aborting query for table {table}, page size {rows} exceeds fail threshold of {threshold}.")
            }
        })
    }

    /// Checks the number of partitions of a SELECT with IN on the partition key of `table`.
    #[inline]
    pub fn partition_keys(self, table: &str, count: usize) -> Result<()> {
        self.at_most(&PARTITION_KEYS, as_number(count), |level, threshold| match level {
            Level::Warn => format!(
                "Query with partition keys in IN clause on table {table}, with number of partition keys {count} \
                 exceeds warning threshold of {threshold}."
            ),
            Level::Fail => format!(
                "Aborting query with partition keys in IN clause on table {table}, number of partition keys {count} \
                 exceeds fail threshold of {threshold}."
            ),
        })
    }

    /// Checks the number of combinations of INs on the columns of `key` (`partition key`,
    /// `clustering key`).
    #[inline]
    pub fn product(self, key: &str, count: usize) -> Result<()> {
        self.at_most(&CARTESIAN_PRODUCT, as_number(count), |level, threshold| match level {
            Level::Warn => format!(
                "The cartesian product of the IN restrictions on {key} produces {count} values, this exceeds warning \
                 threshold of {threshold}."
            ),
            Level::Fail => format!(
                "Aborting query because the cartesian product of the IN restrictions on {key} produces {count} values, \
                 this exceeds fail threshold of {threshold}."
            ),
        })
    }

    /// Checks a statement with USING TIMESTAMP.
    #[inline]
    pub fn user_timestamp(self) -> Result<()> {
        self.allowed(&USER_TIMESTAMPS, "User provided timestamps (USING TIMESTAMP)")
    }

    /// Checks the `timestamp`, microseconds, that a write of `table` specifies, at time `now`.
    pub fn timestamp(self, table: &str, timestamp: i64, now: i64) -> Result<()> {
        self.at_most(&MAXIMUM_TIMESTAMP, timestamp.saturating_sub(now), |level, threshold| {
            format!(
                "The modification to table {table} has a timestamp {timestamp} after the maximum allowable \
                 {} threshold {}",
                level.name(),
                now.saturating_add(threshold)
            )
        })?;
        self.at_most(&MINIMUM_TIMESTAMP, now.saturating_sub(timestamp), |level, threshold| {
            format!(
                "The modification to table {table} has a timestamp {timestamp} before the minimum allowable \
                 {} threshold {}",
                level.name(),
                now.saturating_sub(threshold)
            )
        })
    }

    /// Checks a list operation that has to read the list first.
    #[cold]
    pub fn list_operation(self, operation: ListOperation) -> Result<()> {
        let what = match operation {
            ListOperation::SetByIndex => "Setting of list items by index requiring read before write",
            ListOperation::RemoveByIndex => "Removal of list items by index requiring read before write",
            ListOperation::RemoveByValue => "Removal of list items requiring read before write",
        };
        self.allowed(&READ_BEFORE_WRITE, what)
    }

    /// Checks the size of a value or element of `column`.
    #[inline]
    pub fn value_size(self, column: &str, bytes: usize) -> Result<()> {
        self.size_of_value(&COLUMN_VALUE_SIZE, column, bytes)
    }

    /// Checks the size of a text in `column`, which has a storage-attached index.
    #[inline]
    pub fn indexed_text_size(self, column: &str, bytes: usize) -> Result<()> {
        self.size_of_value(&STRING_TERM_SIZE, column, bytes)
    }

    /// Checks the size of a frozen value in `column`, which has a storage-attached index.
    #[inline]
    pub fn indexed_frozen_size(self, column: &str, bytes: usize) -> Result<()> {
        self.size_of_value(&FROZEN_TERM_SIZE, column, bytes)
    }

    /// Checks the size of a vector in `column`, which has a storage-attached index.
    #[inline]
    pub fn indexed_vector_size(self, column: &str, bytes: usize) -> Result<()> {
        self.size_of_value(&VECTOR_TERM_SIZE, column, bytes)
    }

    #[inline]
    fn size_of_value(self, limit: &Threshold, column: &str, bytes: usize) -> Result<()> {
        self.at_most(limit, as_number(bytes), |level, threshold| {
            format!(
                "Value of column '{column}' has size {bytes}, this exceeds the {} threshold of {threshold}.",
                level.name()
            )
        })
    }

    /// Checks the number and total size of items written to the collection `column`.
    #[inline]
    pub fn collection(self, column: &str, items: usize, bytes: impl FnOnce() -> usize) -> Result<()> {
        self.at_most(&ITEMS_PER_COLLECTION, as_number(items), |level, threshold| {
            collections::too_many_items(column, as_number(items), level, threshold)
        })?;
        let is_limited = |key| self.guardrails().threshold(key).is_some();
        if !is_limited(Key::CollectionSizeWarn) && !is_limited(Key::CollectionSizeFail) {
            return Ok(());
        }
        let bytes = as_number(bytes());
        self.at_most(&COLLECTION_SIZE, bytes, |level, threshold| {
            collections::too_large(column, bytes, level, threshold)
        })
    }
}
