//! Counters that writers share: every acknowledged increment is in them once, and no other but those without an answer.

use scylla::client::caching_session::CachingSession;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::value::Counter;

use super::support::cql::rows;

/// How many counters all writers increment together.
const COUNTERS: i32 = 4;

/// What one writer has added.
#[derive(Debug, Default)]
pub struct Counts {
    acknowledged: [i64; COUNTERS as usize],
    /// Which counter the request without an answer increments, and by how much.
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

/// Each counter is the sum of what was acknowledged and of some of the increments without an answer; these count as
/// acknowledged from now on.
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
