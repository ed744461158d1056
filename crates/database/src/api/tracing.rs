//! Traces of requests, kept for a day in `system_traces`.
//!
//! Cassandra writes a session when it begins, each event as it happens, and the duration at the
//! end, all in the background; readers poll until the duration exists. Here everything is written
//! together before the response is sent, so a client that has the response can read its trace.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use cassette_engine::Mutation;
use cassette_engine::trace::{TraceEvent, collect};
use cassette_rows::{Clustering, DecoratedKey, PartitionUpdate};
use uuid::Uuid;

use crate::api::database::Database;
use crate::schema::catalog::Catalog;
use crate::schema::system::SYSTEM_TRACES;
use crate::schema::system::expiring_row::ExpiringRow;
use crate::schema::system::local::STORAGE_PORT;
use crate::store::Store;

/// The TTL of traces in seconds: Cassandra's `trace_type_query_ttl`.
const TTL: u32 = 24 * 60 * 60;

/// The description of a request in its trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracedRequest {
    /// The index of the virtual node that coordinates it; 0 without virtual nodes.
    pub node: u16,
    /// The address of the client.
    pub client: Option<IpAddr>,
    /// The kind of request, such as `Execute CQL3 query`.
    pub request: &'static str,
    /// `query`, `consistency_level` and similar parameters.
    pub parameters: BTreeMap<String, String>,
}

impl Database {
    /// Returns the id of a new trace.
    #[doc(hidden)]
    pub fn new_trace(&self) -> Uuid {
        self.store().new_time_uuid()
    }

    /// Returns the fraction of requests that are traced without the client's request.
    #[doc(hidden)]
    pub fn trace_probability(&self) -> f64 {
        f64::from_bits(self.trace_chance().probability.load(Ordering::Relaxed))
    }

    /// Sets the fraction of requests that are traced, 0 to 1: `nodetool settraceprobability`.
    #[doc(hidden)]
    pub fn set_trace_probability(&self, probability: f64) {
        self.trace_chance().probability.store(probability.clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
    }

    /// Returns whether the next request is traced, at random.
    #[inline]
    #[doc(hidden)]
    pub fn traces_by_chance(&self) -> bool {
        let chance = self.trace_chance();
        chance.probability.load(Ordering::Relaxed) != 0 && chance.draw()
    }

    /// Executes `work` and writes its events to `system_traces`, as the session `id` with the
    /// description that `describe` returns. A trace that cannot be written is logged and dropped.
    #[doc(hidden)]
    pub fn traced<T>(
        &self,
        id: Uuid,
        describe: impl FnOnce() -> TracedRequest,
        work: impl FnOnce() -> T,
    ) -> T {
        let started_at = self.store().clock().now_micros();
        let traced = collect(work);
        let request = describe();
        let session = Session { id, started_at, coordinator: self.address_of(request.node), request };
        let duration = i32::try_from(traced.elapsed.as_micros()).unwrap_or(i32::MAX);
        let mutations = session.mutations(self.store(), &self.catalog(), &traced.events, duration);
        if let Err(error) = self.engine().apply(&mutations) {
            tracing::warn!(%error, "cannot write a trace");
        }
        traced.output
    }
}

/// Chooses the requests to trace.
#[derive(Debug, Default)]
pub(crate) struct TraceChance {
    /// The bits of the probability; those of 0 are 0.
    probability: AtomicU64,
    drawn: AtomicU64,
}

impl TraceChance {
    fn draw(&self) -> bool {
        // SplitMix64 (Steele, Lea, Flood 2014): a mixed counter.
        let mut mixed = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64;
        unit < f64::from_bits(self.probability.load(Ordering::Relaxed))
    }
}

struct Session {
    id: Uuid,
    /// Microseconds since 1970.
    started_at: i64,
    coordinator: IpAddr,
    request: TracedRequest,
}

impl Session {
    fn mutations(
        &self,
        store: &Store,
        catalog: &Catalog,
        events: &[TraceEvent],
        duration: i32,
    ) -> Vec<Mutation> {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("main");
        let mut mutations = Vec::with_capacity(2);
        if let Some(table) = catalog.table(SYSTEM_TRACES, "sessions") {
            let mut row = ExpiringRow::new(table, Clustering::empty(), self.started_at, TTL);
            row.put("command", "QUERY".into());
            if let Some(client) = self.request.client {
                row.put("client", client.into());
            }
            row.put("coordinator", self.coordinator.into());
            row.put("coordinator_port", STORAGE_PORT.into());
            row.put("duration", duration.into());
            row.put("request", self.request.request.into());
            row.put("started_at", (self.started_at / 1000).into());
            let parameters = self.request.parameters.iter();
            row.put_map(
                "parameters",
                parameters.map(|(key, value)| (key.clone().into(), value.clone().into())),
            );
            let mut update = self.partition();
            update.add_row(row.finish(), table);
            mutations.push(Mutation { table: table.clone(), update });
        }
        if let Some(table) = catalog.table(SYSTEM_TRACES, "events") {
            let mut update = self.partition();
            for event in events {
                let id = store.new_time_uuid();
                let clustering = Clustering::of(&[id.as_bytes()]);
                let mut row = ExpiringRow::new(table, clustering, self.started_at, TTL);
                row.put("activity", event.activity.as_str().into());
                row.put("source", self.coordinator.into());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_the_share_of_requests_is_traced_that_is_asked_for() {
        let chance = TraceChance::default();
        for (probability, expected) in [(0.0, 0..=0), (0.25, 2300..=2700), (1.0, 10_000..=10_000)] {
            chance.probability.store(f64::to_bits(probability), Ordering::Relaxed);
            let drawn = (0..10_000).filter(|_| chance.draw()).count();
            assert!(expected.contains(&drawn), "{drawn} of 10000 with {probability}");
        }
    }

    #[test]
    fn a_traced_statement_leaves_its_session_and_its_steps_in_their_order_for_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path()).unwrap();
        let session = database.session();
        let id = database.new_trace();
        let describe = || TracedRequest {
            node: 0,
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
