//! Counters of a server from virtual tables that Cassandra and Cassette share.

use super::connection::{Connection, Text};
use crate::run::Counters;

/// Reads the counters. Unavailable ones are omitted.
pub(super) fn sample(connection: &mut Connection) -> Counters {
    let mut counters = Counters::new();
    for row in rows(
        connection,
        "SELECT name, hit_count, request_count, size_bytes, entry_count FROM system_views.caches",
    ) {
        let Some(Some(cache)) = row.first() else { continue };
        // `chunks` is the file cache; the others are `keys` and `rows`.
        for (name, column) in [("hits_total", 1), ("requests_total", 2), ("bytes", 3), ("entries", 4)] {
            put(&mut counters, &format!("{}_cache_{name}", singular(cache)), &row, column);
        }
    }
    let pools = "SELECT name, pending_tasks, completed_tasks, blocked_tasks FROM system_views.thread_pools";
    for row in rows(connection, pools) {
        match row.first() {
            Some(Some(pool)) if pool == "CompactionExecutor" => {
                put(&mut counters, "compactions_pending", &row, 1);
                put(&mut counters, "compactions_total", &row, 2);
            }
            Some(Some(pool)) if pool == "MemtableFlushWriter" => put(&mut counters, "flushes_total", &row, 2),
            _ => {}
        }
    }
    counters
}

/// Returns the rows of a table; none if the table does not exist.
fn rows(connection: &mut Connection, query: &str) -> Vec<Vec<Text>> {
    // Cells are read as text, so other types are cast to text.
    let cast = cast_numbers(query);
    connection.query(&cast).unwrap_or_default()
}

/// Casts all columns but the first to text in `SELECT a, b, c FROM …`.
fn cast_numbers(query: &str) -> String {
    let Some((columns, from)) = query.trim_start_matches("SELECT ").split_once(" FROM ") else {
        return query.to_owned();
    };
    let mut columns = columns.split(", ");
    let first = columns.next().unwrap_or_default().to_owned();
    let cast = columns.map(|column| format!("CAST({column} AS text)"));
    let columns: Vec<String> = std::iter::once(first).chain(cast).collect();
    format!("SELECT {} FROM {from}", columns.join(", "))
}

fn put(counters: &mut Counters, name: &str, row: &[Text], column: usize) {
    let value = row.get(column).and_then(|cell| cell.as_deref()?.parse::<f64>().ok());
    if let Some(value) = value.filter(|value| value.is_finite()) {
        *counters.entry(name.to_owned()).or_insert(0.0) += value;
    }
}

fn singular(cache: &str) -> &str {
    cache.strip_suffix('s').unwrap_or(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_selected_as_text() {
        assert_eq!(
            cast_numbers("SELECT name, hit_count, size FROM system_views.caches"),
            "SELECT name, CAST(hit_count AS text), CAST(size AS text) FROM system_views.caches"
        );
        let mut counters = Counters::new();
        put(&mut counters, "x", &[Some("a".into()), Some("12".into())], 1);
        put(&mut counters, "y", &[Some("a".into()), Some("NaN".into())], 1);
        assert_eq!(counters, Counters::from([("x".into(), 12.0)]));
        assert_eq!(singular("chunks"), "chunk");
    }
}
