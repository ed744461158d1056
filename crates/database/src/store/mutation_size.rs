//! Cassandra's `max_mutation_size`: the limit of a statement's or batch's changes in one partition.

use std::fmt::Write;

use cassette_cql::values::to_text;
use cassette_engine::Mutation;
use cassette_rows::{PartitionUpdate, Row, key};

/// The number of characters of tables and keys in the error.
const NAMES_LENGTH: usize = 1024;

/// Checks the size of each mutation as Cassandra defines it: the changes of a key in all tables of
/// a keyspace. Counts only keys and values, which is slightly less than Cassandra counts.
///
/// # Errors
/// Returns Cassandra's text for more than `limit` bytes.
pub(crate) fn check(mutations: &[Mutation], limit: u32) -> Result<(), String> {
    let limit = limit as usize;
    let total: usize = mutations.iter().map(|mutation| size(&mutation.update)).sum();
    if total <= limit {
        return Ok(());
    }
    let mut order: Vec<&Mutation> = mutations.iter().collect();
    order.sort_by(|a, b| {
        a.table.keyspace.cmp(&b.table.keyspace).then_with(|| a.update.key.cmp(&b.update.key))
    });
    let same =
        |a: &&Mutation, b: &&Mutation| a.table.keyspace == b.table.keyspace && a.update.key == b.update.key;
    let mut sizes =
        order.chunk_by(same).map(|group| (group.iter().map(|one| size(&one.update)).sum(), group));
    match sizes.find(|(size, _): &(usize, _)| *size > limit) {
        Some((size, group)) => Err(text(size, limit, group)),
        None => Ok(()),
    }
}

/// Returns the bytes of the keys and values of an update.
pub(crate) fn size(update: &PartitionUpdate) -> usize {
    let rows = update.static_row.iter().chain(&update.rows);
    update.key.key().len() + rows.map(Row::data_size).sum::<usize>()
}

fn text(size: usize, limit: usize, group: &[&Mutation]) -> String {
    let mut largest = group.to_vec();
    largest.sort_by_key(|mutation| std::cmp::Reverse(crate::store::mutation_size::size(&mutation.update)));
    let mut named = String::new();
    let mut left = largest.len();
    for mutation in &largest {
        let name = name_of(mutation);
        if !named.is_empty() && named.len() + name.len() + 2 > NAMES_LENGTH {
            break;
        }
        named.push_str(if named.is_empty() { "" } else { ", " });
        named.push_str(&name);
        left -= 1;
    }
    if left > 0 {
        let _ = write!(named, " and {left} more.");
    }
    let keyspace = group.first().map_or("", |mutation| &mutation.table.keyspace);
    format!("Rejected an oversized mutation ({size}/{limit}) for keyspace: {keyspace}. Top keys are: {named}")
}

/// Returns the table and the key, as `t.1:2`.
fn name_of(mutation: &Mutation) -> String {
    let table = &mutation.table;
    let columns = &table.partition_key;
    let values = key::components(mutation.update.key.key(), columns.len()).unwrap_or_default();
    let texts = columns.iter().zip(values).map(|(column, value)| to_text(&column.data_type, value));
    format!("{}.{}", table.name, texts.collect::<Vec<_>>().join(":"))
}
