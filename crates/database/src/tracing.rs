//! Traces of requests, kept for a day in `system_traces`.
//!
//! Cassandra writes a session when it begins, each event as it happens, and the duration at the end, all in the background;
//! readers poll until the duration is there. Here everything is written at once, before the client is answered, so that whoever
//! has the answer can read its trace.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread;

use bytes::Bytes;
use cassette_engine::Mutation;
use cassette_engine::trace::{TraceEvent, collect};
use cassette_rows::row::Cell;
use cassette_rows::{Clustering, DecoratedKey, LivenessInfo, PartitionUpdate, RowBuilder, TableMetadata};
use uuid::Uuid;

use crate::catalog::Catalog;
use crate::database::Database;
use crate::system::encode::{Value, seconds};
use crate::system::local::STORAGE_PORT;

/// The keyspace of traces.
pub(crate) const SYSTEM_TRACES: &str = "system_traces";

/// Seconds that traces are kept: Cassandra's `trace_type_query_ttl`.
const TTL: u32 = 24 * 60 * 60;

/// What a trace says of its request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracedRequest {
    /// Who sent it.
    pub client: Option<IpAddr>,
    /// What it was, such as `Execute CQL3 query`.
    pub request: &'static str,
    /// `query`, `consistency_level` and the like.
    pub parameters: BTreeMap<String, String>,
}

impl Database {
    /// The id of a new trace.
    pub fn new_trace(&self) -> Uuid {
        self.next_time_uuid()
    }

    /// Does `work` and writes what was done for it to `system_traces`, as the session `id` with what `describe` says of it. A
    /// trace that cannot be written is logged and given up.
    pub fn traced<T>(
        &self,
        id: Uuid,
        describe: impl FnOnce() -> TracedRequest,
        work: impl FnOnce() -> T,
    ) -> T {
        let started_at = self.clock().now_micros();
        let traced = collect(work);
        let session = Session { id, started_at, request: describe() };
        let duration = i32::try_from(traced.elapsed.as_micros()).unwrap_or(i32::MAX);
        let mutations = session.mutations(self, &self.catalog(), &traced.events, duration);
        if let Err(error) = self.engine().apply(&mutations) {
            tracing::warn!(%error, "a trace could not be written");
        }
        traced.output
    }
}

struct Session {
    id: Uuid,
    /// Microseconds since 1970.
    started_at: i64,
    request: TracedRequest,
}

impl Session {
    fn mutations(
        &self,
        database: &Database,
        catalog: &Catalog,
        events: &[TraceEvent],
        duration: i32,
    ) -> Vec<Mutation> {
        let node = database.node().address;
        let thread = thread::current();
        let thread = thread.name().unwrap_or("main");
        let mut mutations = Vec::with_capacity(2);
        if let Some(table) = catalog.table(SYSTEM_TRACES, "sessions") {
            let mut row = ExpiringRow::new(table, Clustering::empty(), self.started_at);
            row.put("command", "QUERY".into());
            if let Some(client) = self.request.client {
                row.put("client", client.into());
            }
            row.put("coordinator", node.into());
            row.put("coordinator_port", STORAGE_PORT.into());
            row.put("duration", duration.into());
            row.put("request", self.request.request.into());
            row.put("started_at", (self.started_at / 1000).into());
            row.put_map("parameters", &self.request.parameters);
            let mut update = self.partition();
            update.add_row(row.finish(), table);
            mutations.push(Mutation { table: table.clone(), update });
        }
        if let Some(table) = catalog.table(SYSTEM_TRACES, "events") {
            let mut update = self.partition();
            for event in events {
                let id = database.next_time_uuid();
                let clustering = Clustering::of(&[id.as_bytes()]);
                let mut row = ExpiringRow::new(table, clustering, self.started_at);
                row.put("activity", event.activity.as_str().into());
                row.put("source", node.into());
                row.put("source_port", STORAGE_PORT.into());
                row.put(
                    "source_elapsed",
                    i32::try_from(event.elapsed.as_micros()).unwrap_or(i32::MAX).into(),
                );
                row.put("thread", thread.into());
                update.add_row(row.finish(), table);
            }
            mutations.push(Mutation { table: table.clone(), update });
        }
        mutations
    }

    fn partition(&self) -> PartitionUpdate {
        PartitionUpdate::new(DecoratedKey::new(Bytes::copy_from_slice(self.id.as_bytes())))
    }
}

/// A row whose cells all live for [`TTL`].
struct ExpiringRow<'t> {
    table: &'t TableMetadata,
    clustering: Clustering,
    timestamp: i64,
    cells: Vec<NamedCell>,
}

/// Column name, path and value.
type NamedCell = (&'static str, Option<Vec<u8>>, Vec<u8>);

impl<'t> ExpiringRow<'t> {
    fn new(table: &'t TableMetadata, clustering: Clustering, timestamp: i64) -> Self {
        Self { table, clustering, timestamp, cells: Vec::new() }
    }

    fn put(&mut self, column: &'static str, value: Value) {
        if let Value::Bytes(bytes) = value {
            self.cells.push((column, None, bytes));
        }
    }

    fn put_map(&mut self, column: &'static str, map: &BTreeMap<String, String>) {
        let cell =
            |(key, value): (&String, &String)| (column, Some(key.clone().into()), value.clone().into());
        self.cells.extend(map.iter().map(cell));
    }

    fn finish(mut self) -> cassette_rows::Row {
        let expiration = seconds(self.timestamp).saturating_add(TTL);
        let mut row = RowBuilder::new(self.clustering);
        row.liveness(LivenessInfo::expiring(self.timestamp, TTL, expiration));
        // Stable: a map's entries stay in the order of their keys.
        self.cells.sort_by_key(|(column, ..)| self.table.column(column).map(|column| column.id));
        for (column, path, value) in &self.cells {
            let Some(column) = self.table.column(column) else { continue };
            row.cell(Cell {
                column: column.id,
                path: path.as_deref(),
                value,
                timestamp: self.timestamp,
                ttl: TTL,
                local_deletion_time: expiration,
            });
        }
        row.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traced_statement_leaves_its_session_and_its_steps_in_their_order_for_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path()).unwrap();
        let session = database.session();
        let id = database.new_trace();
        let describe = || TracedRequest {
            client: Some(IpAddr::from([127, 0, 0, 7])),
            request: "Execute CQL3 query",
            parameters: BTreeMap::from([("query".into(), "SELECT".into()), ("page_size".into(), "5".into())]),
        };
        let all = "SELECT * FROM system.local WHERE key = 'local'";
        database.traced(id, describe, || session.execute(all, ()).unwrap());
        let cql = format!(
            "SELECT command, parameters['page_size'], ttl(duration) FROM system_traces.sessions WHERE session_id = {id}"
        );
        let found = session.execute(&cql, ()).unwrap();
        let row = found.first().unwrap();
        assert_eq!(
            (row.get::<String>(0).unwrap(), row.get::<String>(1).unwrap()),
            ("QUERY".into(), "5".into())
        );
        let ttl: i32 = row.get(2).unwrap();
        assert!((TTL as i32 - 100..=TTL as i32).contains(&ttl), "{ttl}");
        let cql = format!("SELECT activity FROM system_traces.events WHERE session_id = {id}");
        let events = session.execute(&cql, ()).unwrap();
        let events: Vec<String> = events.iter().map(|row| row.get(0).unwrap()).collect();
        let place = |text: &str| events.iter().position(|activity| activity.contains(text));
        let steps =
            ["Parsing SELECT", "Preparing statement", "Executing single-partition query on local", "Merg"];
        let places: Vec<_> = steps.iter().map(|step| place(step)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{events:?}");
    }
}
