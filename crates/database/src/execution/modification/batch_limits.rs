//! The limits of BATCH: `batch_size_*_threshold` and
//! `unlogged_batch_across_partitions_warn_threshold`.

use std::collections::HashSet;

use cassette_cql::ast::BatchKind;
use cassette_engine::Mutation;
use cassette_rows::{PartitionUpdate, Row, TableMetadata};

use crate::basics::error::{DatabaseError, Result};
use crate::execution::Execution;
use crate::schema::guardrails::Key;

/// Sizes in bytes that `Mutation.dataSize` of Cassandra adds to those of values: a timestamp, the
/// deletion of a row or of a complex column, an expiration, and the overhead of a cell.
const TIMESTAMP: usize = 8;
const DELETION: usize = 12;
const ROW_DELETION: usize = DELETION + 1;
const EXPIRATION: usize = 12;
const CELL: usize = 20;

/// Warns about a batch that is large or, if unlogged, changes many partitions; rejects one that is
/// too large.
///
/// The changes of one key are one mutation, in all tables of a keyspace, and not checked.
///
/// # Errors
/// Invalid, for more bytes than `batch_size_fail_threshold`.
pub(crate) fn check(kind: BatchKind, mutations: &[Mutation], execution: &Execution<'_>) -> Result<()> {
    if are_one(mutations) {
        return Ok(());
    }
    check_size(mutations, execution)?;
    if kind != BatchKind::Logged {
        warn_of_partitions(mutations, execution);
    }
    Ok(())
}

/// Whether they are one mutation of Cassandra: of one key in one keyspace.
fn are_one(mutations: &[Mutation]) -> bool {
    let same = |a: &Mutation, b: &Mutation| {
        a.update.key == b.update.key && (a.table.id == b.table.id || a.table.keyspace == b.table.keyspace)
    };
    mutations.windows(2).all(|pair| same(&pair[0], &pair[1]))
}

fn check_size(mutations: &[Mutation], execution: &Execution<'_>) -> Result<()> {
    let guard = execution.guard();
    let (Some(warn), fail) = (guard.limit(Key::BatchSizeWarn), guard.limit(Key::BatchSizeFail)) else {
        return Ok(());
    };
    let size = mutations.iter().map(|mutation| data_size(&mutation.update)).sum::<usize>();
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if size <= warn {
        return Ok(());
    }
    let tables = tables(mutations);
    match fail {
        Some(fail) if size > fail => {
            guard.log(
                "batch_size_fail_threshold",
                &format!(
                    "Batch for {tables} is of size {size}, exceeding specified failure threshold of {fail} by {}. \
                     (see batch_size_fail_threshold)",
                    size - fail
                ),
            );
            Err(DatabaseError::invalid("Batch too large"))
        }
        _ => {
            guard.warn(
                "batch_size_warn_threshold",
                format!(
                    "Batch for {tables} is of size {size}, exceeding specified threshold of {warn} by {}.",
                    size - warn
                ),
            );
            Ok(())
        }
    }
}

fn warn_of_partitions(mutations: &[Mutation], execution: &Execution<'_>) {
    let guard = execution.guard();
    let limit = usize::try_from(guard.value(Key::UnloggedBatchAcrossPartitionsWarn)).unwrap_or(usize::MAX);
    // There are at most as many keys as mutations.
    if mutations.len() <= limit {
        return;
    }
    let keys: HashSet<&[u8]> = mutations.iter().map(|mutation| mutation.update.key.key()).collect();
    if keys.len() <= limit {
        return;
    }
    let tables = tables(mutations);
    guard.warn(
        "unlogged_batch_across_partitions_warn_threshold",
        format!(
            "Unlogged batch covering {} partitions detected against table{} {tables}. You should use a logged \
             batch for atomicity, or asynchronous writes for performance.",
            keys.len(),
            if tables.contains(',') { "s" } else { "" }
        ),
    );
}

/// `[ks.a, ks.b]`
fn tables(mutations: &[Mutation]) -> String {
    let mut tables: Vec<&TableMetadata> = Vec::new();
    for mutation in mutations {
        if tables.iter().all(|table| table.id != mutation.table.id) {
            tables.push(&mutation.table);
        }
    }
    let names: Vec<String> = tables.iter().map(|table| table.qualified_name()).collect();
    format!("[{}]", names.join(", "))
}

/// Returns the size of a partition's changes as Cassandra computes it.
fn data_size(update: &PartitionUpdate) -> usize {
    let ranges = update.range_tombstones.as_slice().iter().map(|range| {
        let bound =
            |bound: &cassette_rows::Bound| bound.prefix.values().flatten().map(<[u8]>::len).sum::<usize>();
        bound(&range.start) + bound(&range.end) + TIMESTAMP + 4
    });
    let static_row = update.static_row.as_ref().map_or(TIMESTAMP + ROW_DELETION, row_size);
    TIMESTAMP + static_row + update.rows.iter().map(row_size).sum::<usize>() + ranges.sum::<usize>()
}

fn row_size(row: &Row) -> usize {
    let clustering = row.clustering().values().flatten().map(<[u8]>::len).sum::<usize>();
    let liveness = if row.liveness().is_expiring() { TIMESTAMP + EXPIRATION } else { TIMESTAMP };
    let cells = row.cells().map(|cell| CELL + cell.path.map_or(0, <[u8]>::len) + cell.value.len());
    clustering + liveness + ROW_DELETION + DELETION * row.complex_deletions().len() + cells.sum::<usize>()
}
