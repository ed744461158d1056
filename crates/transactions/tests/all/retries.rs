//! Which failures are retriable: those that certainly did not commit, for a cause that may pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use cassette_transactions::service::{Layout, ServiceError};
use cassette_transactions::store::{Effect, FailingStore, Fault, MemoryStore, Store, StoreError};
use cassette_transactions::timelock::messages::{Refusal, RefusalKind};
use cassette_transactions::timelock::{LocalTimeLock, TimeLockError};
use cassette_transactions::{
    ConflictHandler, Error, Outcome, Retries, Table, Timestamp, Transaction, Transactions,
};

use super::timelock::{Counting, Pages};
use super::transactions::options;

const AT: Timestamp = Timestamp(5);

fn store_error(is_transient: bool) -> StoreError {
    let (attempted, cause) = ("put".to_owned(), "a node is down".to_owned());
    StoreError { attempted, cause, effect: Effect::Unknown, is_transient }
}

#[test]
fn transient_failures_before_the_commit_point_are_retriable() {
    let passes = || store_error(true);
    let stays = || store_error(false);
    let no_leader = || TimeLockError::NoLeader { waited: Duration::ZERO, last: String::new() };
    let lapsed = TimeLockError::LeaseLapsed { elapsed: Duration::ZERO, lease: Duration::ZERO, jumped: false };
    let refusal = Refusal { kind: RefusalKind::Never, message: String::new(), leader: None };
    let refused = TimeLockError::Refused { server: String::new(), refusal };
    let backwards = TimeLockError::WentBackwards { seen: AT, got: AT, server: String::new() };
    let not_put = |cause: ServiceError| ServiceError::NotPut { start: AT, cause: Box::new(cause) };
    let unknown = |cause: ServiceError| Error::OutcomeUnknown { start: AT, commit: AT, cause };
    let broken = ServiceError::Broken { start: AT, what: String::new() };
    let (known, unknown_outcome) = (Outcome::NotCommitted, Outcome::Unknown);
    for (error, outcome, is_retriable, is_unavailable) in [
        (Error::Store(passes()), known, true, true),
        (Error::Store(stays()), known, false, false),
        (Error::from(ServiceError::Store(passes())), known, true, true),
        (Error::from(ServiceError::Store(stays())), known, false, false),
        (Error::from(ServiceError::TimeLock(no_leader())), known, true, true),
        (Error::from(ServiceError::Contended { attempts: 50 }), known, true, true),
        (Error::from(not_put(ServiceError::Store(passes()))), known, true, true),
        (Error::from(not_put(broken.clone())), known, false, false),
        (Error::from(broken.clone()), known, false, false),
        (Error::TimeLock(no_leader()), known, true, true),
        (Error::TimeLock(lapsed), known, true, true),
        (Error::TimeLock(TimeLockError::Bound(passes())), known, true, true),
        (Error::TimeLock(TimeLockError::Bound(stays())), known, false, false),
        (Error::TimeLock(TimeLockError::LockTimeout { waited: Duration::ZERO }), known, true, false),
        (Error::TimeLock(TimeLockError::RequestEnded { server: String::new() }), known, true, false),
        (Error::TimeLock(refused), known, false, false),
        (Error::TimeLock(backwards), known, false, false),
        (Error::LocksLost { start: AT }, known, true, false),
        (Error::RolledBack { start: AT }, known, true, false),
        (Error::ReservedTable(String::new()), known, false, false),
        // A transaction that may have committed is never run again automatically.
        (unknown(ServiceError::Store(passes())), unknown_outcome, false, false),
        (unknown(ServiceError::TimeLock(no_leader())), unknown_outcome, false, false),
        (unknown(broken), unknown_outcome, false, false),
    ] {
        assert_eq!(error.outcome(), outcome, "{error:?}");
        assert_eq!(error.is_retriable(), is_retriable, "{error:?}");
        assert_eq!(error.is_unavailable(), is_unavailable, "{error:?}");
    }
}

/// Increments a counter in a serializable table.
fn increment(transactions: &Transactions, table: &Table) -> Result<(), Error> {
    let mut tx = transactions.start()?;
    let count = tx.get(table, "row", "count")?.map_or(0, |count| count[0]);
    tx.put(table, "row", "count", [count + 1])?;
    tx.commit().map(drop)
}

fn count(transactions: &Transactions, table: &Table) -> u8 {
    transactions.read(|tx| tx.get(table, "row", "count")).unwrap().map_or(0, |count| count[0])
}

/// Stores that preserve and that do not preserve the order of puts, each with its default layout.
fn stores() -> [(Arc<dyn Store>, u32); 2] {
    let unordered = Counting { below: MemoryStore::new(), calls: AtomicU64::new(0), pages: Pages::default() };
    [(Arc::new(MemoryStore::new()), 2), (Arc::new(unordered), 3)]
}

type Failing = Arc<FailingStore<Arc<dyn Store>>>;

/// Opens transactions over a store that fails on command, and others over the same store that never
/// does.
fn over(below: Arc<dyn Store>, layout: u32, outage_max: Duration) -> (Failing, Transactions, Transactions) {
    let timelock = Arc::new(LocalTimeLock::open(below.clone()).unwrap());
    let layout = Layout::of_version(layout);
    let options = options().layout(layout).retries(Retries::new().outage_max(outage_max));
    let failing = Arc::new(FailingStore::new(below.clone()));
    let ours = Transactions::open(failing.clone(), timelock.clone(), options.clone()).unwrap();
    (failing, ours, Transactions::open(below, timelock, options).unwrap())
}

#[test]
fn every_store_failure_of_a_commit_is_retriable_unless_it_may_have_committed() {
    for fault in [Fault::Lost, Fault::Half, Fault::Unanswered] {
        for which in 0..2 {
            let (mut retriable, mut unknown) = (0, 0);
            for call in 1.. {
                let (below, layout) = stores().into_iter().nth(which).unwrap();
                let (failing, ours, others) = over(below, layout, Duration::ZERO);
                let table = ours.table("t", ConflictHandler::SerializableByCell).unwrap();
                others.table("t", ConflictHandler::SerializableByCell).unwrap();
                increment(&ours, &table).unwrap();
                let before = failing.calls();
                failing.fail_at(call, fault);
                let result = increment(&ours, &table);
                let is_past_the_last = failing.calls() < before + call;
                failing.settle();
                match result {
                    Ok(()) => assert_eq!(count(&others, &table), 2),
                    Err(error) => match error.outcome() {
                        Outcome::NotCommitted => {
                            assert!(error.is_retriable(), "{fault:?} at call {call}: {error}");
                            assert_eq!(count(&others, &table), 1, "{fault:?} at call {call}: {error}");
                            retriable += 1;
                        }
                        Outcome::Unknown => {
                            assert!(!error.is_retriable(), "{fault:?} at call {call}: {error}");
                            unknown += 1;
                        }
                    },
                }
                if is_past_the_last {
                    break;
                }
            }
            assert!(retriable >= 3 && unknown >= 1, "{fault:?}: {retriable} retriable, {unknown} unknown");
        }
    }
}

#[test]
fn run_retries_through_an_outage_and_commits_once() {
    for call in 1..4 {
        for (below, layout) in stores() {
            let (failing, ours, others) = over(below, layout, Duration::from_secs(60));
            let table = ours.table("t", ConflictHandler::SerializableByCell).unwrap();
            others.table("t", ConflictHandler::SerializableByCell).unwrap();
            // The store is unavailable for the first runs.
            failing.die_at(call, Fault::Lost);
            let runs = AtomicUsize::new(0);
            ours.run(|tx| {
                if runs.fetch_add(1, Ordering::Relaxed) == 3 {
                    failing.settle();
                }
                let count = tx.get(&table, "row", "count")?.map_or(0, |count| count[0]);
                tx.put(&table, "row", "count", [count + 1])
            })
            .unwrap();
            assert_eq!((runs.into_inner(), count(&others, &table)), (4, 1), "call {call}");
        }
    }
}

#[test]
fn run_returns_the_last_error_when_an_outage_lasts_too_long() {
    let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (failing, ours, others) = over(below, 2, Duration::from_millis(20));
    let table = ours.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    others.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    failing.die_at(1, Fault::Lost);
    let error = ours.run(|tx| tx.put(&table, "row", "count", [1])).unwrap_err();
    assert!(error.is_unavailable() && error.outcome() == Outcome::NotCommitted, "{error}");
    failing.settle();
    assert_eq!(count(&others, &table), 0);
}

#[test]
fn run_with_bounds_the_number_of_runs_and_returns_the_last_error() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let transactions = super::transactions::over(store, options().retries(Retries::new().max(2)));
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let runs_of = |retries: Option<Retries>| {
        let mut runs = 0;
        let body = |tx: &mut Transaction| {
            runs += 1;
            // A conflict in each run.
            transactions.run(|other| other.put(&table, "row", "count", [1]))?;
            tx.put(&table, "row", "count", [2])
        };
        let result = match retries {
            Some(retries) => transactions.run_with(retries, body),
            None => transactions.run(body),
        };
        assert!(matches!(result, Err(Error::WriteWriteConflict { .. })), "{result:?}");
        runs
    };
    assert_eq!(runs_of(None), 3, "as specified by the options");
    assert_eq!(runs_of(Some(Retries::none())), 1);
    assert_eq!(runs_of(Some(Retries::new().max(5).pause_max(Duration::ZERO))), 6);
    assert_eq!(runs_of(Some(Retries::new().unlimited().within(Duration::ZERO))), 1);
    assert_eq!(count(&transactions, &table), 1);
}
