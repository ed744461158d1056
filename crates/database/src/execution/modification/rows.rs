//! From a plan and its values to updates of partitions.

use std::sync::Arc;

use cassette_rows::key::MAX_KEY_LENGTH;
use cassette_rows::{
    Clustering, DecoratedKey, DeletionTime, Layout, LivenessInfo, PartitionUpdate, RangeTombstone, Row,
    RowBuilder, Selection, Slice, Slices, TableMetadata, Unfiltered, interrupt,
};

use super::{Mutations, cells};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::execution::Execution;
use crate::planning::modification::attributes::Times;
use crate::planning::modification::operation::ColumnOperations;
use crate::planning::modification::rows_plan::RowsPlan;
use crate::planning::restrictions::StatementKind;
use crate::planning::restrictions::product::{self, Product};

/// The maximum number of bytes that one statement may write to several partitions: each has its own
/// copy of the values.
const WRITTEN_BYTES_MAX: usize = 128 << 20;

impl RowsPlan {
    /// Returns the times of one execution. As in Cassandra, mistakes in keys are reported before
    /// those in the time to live, and after a timestamp that is null.
    pub fn times(
        &self,
        execution: &Execution<'_>,
        default_timestamp: impl FnOnce() -> Result<i64>,
    ) -> Result<Times> {
        let times = self.attributes.times(execution, &self.table, default_timestamp);
        times.map_err(|error| {
            if self.attributes.bound_timestamp(execution).is_err() {
                return error;
            }
            let keys = self.restrictions.partition.keys(execution);
            let mistake = keys.and_then(|_| self.restrictions.clustering.excludes_all(execution));
            mistake.err().unwrap_or(error)
        })
    }

    /// Adds the changes of one execution.
    pub fn add_to(&self, mutations: &mut Mutations, times: &Times, execution: &Execution<'_>) -> Result<()> {
        let keys = self.restrictions.partition.keys(execution)?;
        if keys.is_empty() {
            // As in Cassandra, mistakes in clustering columns are also reported without a key.
            self.restrictions.clustering.excludes_all(execution)?;
        }
        let (partitions, mut bytes) = (keys.len(), 0);
        for (at, key) in keys.into_iter().enumerate() {
            interrupt::check()?;
            let update = self.update_of(key, times, execution)?;
            if partitions > 1 {
                if at == 0 {
                    product::count(partitions, update.rows.len(), Product::Rows)?;
                }
                bytes += update.rows.iter().map(Row::data_size).sum::<usize>();
                if bytes > WRITTEN_BYTES_MAX {
                    bail_invalid!(
                        "the values to write to {partitions} partitions take more than {} MiB: write to \
                         fewer partitions at a time",
                        WRITTEN_BYTES_MAX >> 20
                    );
                }
            }
            mutations.add(update, &self.table);
        }
        Ok(())
    }

    /// Returns the changes of one partition.
    pub fn update_of(
        &self,
        key: DecoratedKey,
        times: &Times,
        execution: &Execution<'_>,
    ) -> Result<PartitionUpdate> {
        let mut update = PartitionUpdate::new(key);
        if self.deletes_cells_of_ranges {
            self.refuse_cells_of_ranges(execution)?;
            return Ok(update);
        }
        if !self.operations.statics.is_empty() {
            let read = || read_row(execution, &self.table, &update.key, None);
            let row = build_row(
                Clustering::empty(),
                LivenessInfo::EMPTY,
                &self.operations.statics,
                times,
                execution,
                read,
            )?;
            update.static_row = row;
        }
        if self.kind == StatementKind::Delete && self.operations.is_empty() {
            self.delete_rows(&mut update, times, execution)?;
        } else if !self.only_statics {
            self.write_rows(&mut update, times, execution)?;
        }
        Ok(update)
    }

    /// Rejects a DELETE of columns in ranges of rows, unless there are no ranges. As in Cassandra,
    /// invalid bounds are reported first.
    fn refuse_cells_of_ranges(&self, execution: &Execution<'_>) -> Result<()> {
        if self.restrictions.clustering.slices(execution)?.as_slice().is_empty() {
            return Ok(());
        }
        bail_invalid!("Range deletions are not supported for specific columns")
    }

    /// Writes rows of an INSERT or UPDATE, or of a DELETE of columns.
    fn write_rows(
        &self,
        update: &mut PartitionUpdate,
        times: &Times,
        execution: &Execution<'_>,
    ) -> Result<()> {
        let compact_value = self.table.compact_value();
        let liveness = match self.kind {
            StatementKind::Insert if compact_value.is_none() => times.liveness(),
            _ => LivenessInfo::EMPTY,
        };
        if self.operations.regulars.is_empty() && liveness.is_empty() && compact_value.is_none() {
            return Ok(());
        }
        for clustering in self.restrictions.clustering.clusterings(execution)? {
            interrupt::check()?;
            self.check_clustering(&clustering)?;
            if let (Some(value), true) = (compact_value, self.operations.regulars.is_empty()) {
                bail_invalid!("Column {} is mandatory for this COMPACT STORAGE table", value.name);
            }
            let read = || read_row(execution, &self.table, &update.key, Some(&clustering));
            let row =
                build_row(clustering.clone(), liveness, &self.operations.regulars, times, execution, read)?;
            if let Some(row) = row {
                update.add_row(row, &self.table);
            }
        }
        Ok(())
    }

    /// Deletes the partition, rows, or ranges.
    fn delete_rows(
        &self,
        update: &mut PartitionUpdate,
        times: &Times,
        execution: &Execution<'_>,
    ) -> Result<()> {
        let deletion = DeletionTime::new(times.timestamp, times.now);
        let clustering = &self.restrictions.clustering;
        if clustering.is_empty() {
            update.deletion = times.deletion_of_many();
        } else if clustering.names_rows() {
            for clustering in clustering.clusterings(execution)? {
                self.check_clustering(&clustering)?;
                let mut row = RowBuilder::new(clustering);
                match self.table.compact_value() {
                    // Its only cell is the row, in Cassandra's files, too.
                    Some(value) => row.cell(cells::cell(value.id, None, None, times)),
                    None => row.deletion(deletion),
                };
                update.add_row(row.finish(), &self.table);
            }
        } else {
            for slice in clustering.slices(execution)?.as_slice() {
                let Slice { start, end } = slice.clone();
                // A SELECT may have a range above null, but the bound of such a tombstone would not
                // be valid in a row.
                if [&start, &end].iter().any(|bound| bound.prefix.values().any(|value| value.is_none())) {
                    bail_invalid!(
                        "Invalid null value in the range to delete from {}",
                        self.table.qualified_name()
                    );
                }
                let deletion = times.deletion_of_many();
                update.range_tombstones.add(RangeTombstone { start, end, deletion }, &self.table.comparator);
            }
        }
        Ok(())
    }

    /// Rejects clusterings that cannot be stored.
    fn check_clustering(&self, clustering: &Clustering) -> Result<()> {
        if let Some(length) = clustering.excessive_length() {
            bail_invalid!("Key length of {length} is longer than maximum of {MAX_KEY_LENGTH}");
        }
        if self.table.layout == Layout::Dense && clustering.value(0).is_none_or(<[u8]>::is_empty) {
            let name = self.table.clustering.first().map_or("", |column| &column.name);
            bail_invalid!("Invalid empty or null value for column {name}");
        }
        Ok(())
    }
}

/// Builds a row with these changes; `None` if there are none. `read` returns the current row, for
/// changes that depend on it.
fn build_row(
    clustering: Clustering,
    liveness: LivenessInfo,
    columns: &[ColumnOperations],
    times: &Times,
    execution: &Execution<'_>,
    read: impl Fn() -> Result<Option<Row>>,
) -> Result<Option<Row>> {
    let requires_read =
        columns.iter().any(|c| c.operations.iter().any(|o| o.requires_read(&c.column.data_type)));
    let current = if requires_read { read()? } else { None };

    // All values are bound before the first is copied, so the row's buffer is allocated with its
    // final size.
    let mut bound = Vec::with_capacity(columns.len());
    let mut bytes = 0;
    for column in columns {
        let change = cells::Change::bind(column, current.as_ref(), times, execution)?;
        bytes += change.size();
        bound.push(change);
    }
    let count = bound.iter().map(cells::Change::cell_count).sum();
    let mut row = RowBuilder::with_capacity(clustering, count, bytes);
    row.liveness(liveness);
    for change in bound {
        change.write(&mut row, times);
    }
    Ok((!row.is_empty()).then(|| row.finish()))
}

/// Reads the current row at `clustering`, or the static row.
pub(crate) fn read_row(
    execution: &Execution<'_>,
    table: &Arc<TableMetadata>,
    key: &DecoratedKey,
    clustering: Option<&Clustering>,
) -> Result<Option<Row>> {
    let slices = match clustering {
        Some(clustering) => Slices::new(vec![Slice::prefix(clustering.clone())], &table.comparator),
        None => Slices::none(),
    };
    let failed = |error: cassette_rows::StorageError| {
        DatabaseError::read_failure(execution.options.consistency, error)
    };
    let mut stream = execution.store.read(execution, table, key, &Selection { slices, reversed: false })?;
    let Some(header) = stream.next_partition().map_err(failed)? else { return Ok(None) };
    if clustering.is_none() {
        return Ok(header.static_row);
    }
    while let Some(next) = stream.next_unfiltered().map_err(failed)? {
        if let Unfiltered::Row(row) = next {
            return Ok(Some(row));
        }
    }
    Ok(None)
}
