//! Shared counters: every acknowledged increment is included once, and no other except those
//! without an answer.

use scylla::client::caching_session::CachingSession;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::value::Counter;

use super::support::cql::rows;

/// The number of counters that all writers increment.
const COUNTERS: i32 = 4;

/// The increments of one writer.
#[derive(Debug, Default)]
pub struct Counts {
    acknowledged: [i64; COUNTERS as usize],
    /// The counter and the amount of the request without an answer.
    pending: Option<(i32, i64)>,
}

impl Counts {
    /// Adds `by` to a counter.
    pub async fn add(
        &mut self,
        session: &CachingSession,
        counter: i32,
        by: i64,
    ) -> Result<(), ExecutionError> {
        let counter = counter.rem_euclid(COUNTERS);
        self.pending = Some((counter, by));
        session.execute_unpaged("UPDATE counts SET n = n + ? WHERE k = ?", (Counter(by), counter)).await?;
        self.acknowledged[counter as usize] += by;
        self.pending = None;
        Ok(())
    }
}

/// Checks that each counter is the sum of the acknowledged and some of the unanswered increments;
/// these count as acknowledged from now on.
pub async fn check<'a>(session: &Session, all: impl Iterator<Item = &'a mut Counts>) {
    let mut all: Vec<_> = all.collect();
    let found = rows::<(i32, Counter)>(session, "SELECT k, n FROM counts", ()).await;
    for counter in 0..COUNTERS {
        let value = found.iter().find(|(k, _)| *k == counter).map_or(0, |(_, n)| n.0);
        let acknowledged: i64 = all.iter().map(|counts| counts.acknowledged[counter as usize]).sum();
        let pending = all.iter().filter_map(|counts| counts.pending).filter(|(k, _)| *k == counter);
        let sums =
            pending.fold(vec![0], |sums, (_, by)| sums.iter().flat_map(|sum| [*sum, sum + by]).collect());
        let more = value - acknowledged;
        assert!(
            sums.contains(&more),
            "counter {counter}: {value}, acknowledged {acknowledged}, pending sums {sums:?}"
        );
        if let Some(first) = all.first_mut() {
            first.acknowledged[counter as usize] += more;
        }
    }
    all.iter_mut().for_each(|counts| counts.pending = None);
}
