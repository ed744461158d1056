//! Tests of the transaction services with every layout.

use std::collections::HashMap;
use std::sync::Arc;

use cassette_transactions::encoding::tickets::Tickets;
use cassette_transactions::service::{
    Batching, Caching, CommitRecords, Layout, Recorded, ServiceError, TransactionService,
};
use cassette_transactions::store::{FailingStore, Fault, MemoryStore};
use cassette_transactions::{Timestamp, TransactionStatus};
use proptest::prelude::*;

const LAYOUTS: [Layout; 3] =
    [Layout::Plain, Layout::Tickets(Tickets::STANDARD), Layout::TwoStage(Tickets::STANDARD)];

fn at(start: i64) -> Timestamp {
    Timestamp(start)
}

fn committed(commit: i64) -> TransactionStatus {
    TransactionStatus::Committed(Timestamp(commit))
}

type Failing = Arc<FailingStore<Arc<MemoryStore>>>;

fn service(layout: Layout) -> (Failing, CommitRecords<Failing>) {
    let store = Arc::new(FailingStore::new(Arc::new(MemoryStore::new())));
    (store.clone(), CommitRecords::open(store, layout).unwrap())
}

#[test]
fn a_start_timestamp_keeps_its_first_status() {
    for layout in LAYOUTS {
        let (_, service) = service(layout);
        assert_eq!(service.get(at(5)), Ok(None));
        assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded));
        assert_eq!(
            service.put_unless_exists(at(5), TransactionStatus::Aborted),
            Ok(Recorded::Exists(committed(9)))
        );
        assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded), "a second try");
        assert_eq!(service.put_unless_exists(at(6), TransactionStatus::Aborted), Ok(Recorded::Recorded));
        assert_eq!(
            service.put_unless_exists(at(6), committed(9)),
            Ok(Recorded::Exists(TransactionStatus::Aborted))
        );
        assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
        let known = service.get_many(&[at(5), at(6), at(7), at(-1), at(0)]).unwrap();
        let expected =
            [(5, committed(9)), (6, TransactionStatus::Aborted), (-1, committed(0)), (0, committed(0))];
        assert_eq!(known, expected.map(|(start, status)| (at(start), status)).into());
        assert_eq!(service.put_unless_exists(at(0), committed(9)), Err(ServiceError::BeforeTime(at(0))));
    }
}

#[test]
fn each_put_of_a_batch_has_its_result() {
    for layout in LAYOUTS {
        let (_, service) = service(layout);
        for start in [16, 48, 3] {
            service.put_unless_exists(at(start), committed(100)).unwrap();
        }
        let puts: Vec<_> = (1..=64).map(|start| (at(start), committed(start + 200))).collect();
        for ((start, _), result) in puts.iter().zip(service.put_many_unless_exists(&puts)) {
            let expected = match start.0 {
                3 | 16 | 48 => Recorded::Exists(committed(100)),
                _ => Recorded::Recorded,
            };
            assert_eq!(result, Ok(expected), "{start}");
        }
        let twice = [(at(70), committed(80)), (at(70), TransactionStatus::Aborted), (at(70), committed(80))];
        let results = service.put_many_unless_exists(&twice);
        assert_eq!(
            results,
            [Ok(Recorded::Recorded), Ok(Recorded::Exists(committed(80))), Ok(Recorded::Recorded)],
            "the first of one start wins"
        );
    }
}

#[test]
fn one_store_call_reads_8000_start_timestamps_of_a_quantum() {
    let (store, service) = service(Layout::Tickets(Tickets::STANDARD));
    let puts: Vec<_> = (1..=8000).map(|start| (at(start), committed(start + 1))).collect();
    assert!(service.put_many_unless_exists(&puts).iter().all(|result| *result == Ok(Recorded::Recorded)));
    let starts: Vec<_> = puts.iter().map(|(start, _)| *start).collect();
    let before = store.calls();
    assert_eq!(service.get_many(&starts).unwrap(), puts.into_iter().collect::<HashMap<_, _>>());
    assert_eq!(store.calls() - before, 1);
}

#[test]
fn enumeration_covers_ranges_of_start_timestamps() {
    let small = Tickets::new(100, 16).unwrap();
    for layout in [Layout::Plain, Layout::Tickets(small), Layout::TwoStage(small)] {
        let (_, service) = service(layout);
        let status = |start: i64| match start % 7 {
            0 => TransactionStatus::Aborted,
            _ => committed(start + 5),
        };
        let all: Vec<_> = (1..=450).step_by(3).map(|start| (at(start), status(start))).collect();
        assert!(service.put_many_unless_exists(&all).iter().all(Result::is_ok));
        for (low, high) in [(1, 450), (-5, 99), (100, 100), (99, 301), (449, i64::MAX / 2)] {
            let high = high.min(10_000);
            let mut found = Vec::new();
            service
                .enumerate(at(low)..=at(high), |start, c| {
                    found.push((start, c));
                    Ok(())
                })
                .unwrap();
            found.sort_by_key(|(start, _)| *start);
            let expected: Vec<_> =
                all.iter().copied().filter(|(start, _)| (low..=high).contains(&start.0)).collect();
            assert_eq!(found, expected, "{layout:?} {low}..={high}");
        }
    }
}

#[test]
fn a_put_without_a_response_is_recognized_on_retry() {
    for layout in LAYOUTS {
        let (store, service) = service(layout);
        store.fail_at(1, Fault::Unanswered);
        assert!(matches!(service.put_unless_exists(at(5), committed(9)), Err(ServiceError::Store(_))));
        assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded));
        assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    }
}

#[test]
fn readers_touch_and_finish_staging_values() {
    let (store, service) = service(Layout::TwoStage(Tickets::STANDARD));
    store.fail_at(2, Fault::Lost);
    assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded), "W1 decides");
    let before = store.calls();
    assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    assert_eq!(store.calls() - before, 4, "get, get again, touch, finish");
    let before = store.calls();
    assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    assert_eq!(store.calls() - before, 1);
}

#[test]
fn only_final_statuses_are_cached() {
    let (store, stored) = service(Layout::Tickets(Tickets::STANDARD));
    let service = Caching::new(stored, 1000);
    assert_eq!(service.get(at(5)), Ok(None));
    assert_eq!(service.cached(at(5)), None);
    service.put_unless_exists(at(5), committed(9)).unwrap();
    service.put_unless_exists(at(6), TransactionStatus::Aborted).unwrap();
    let before = store.calls();
    assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    assert_eq!(service.get(at(6)), Ok(Some(TransactionStatus::Aborted)));
    assert_eq!(store.calls(), before);
}

#[test]
fn concurrent_puts_share_batches_and_each_has_its_result() {
    let (store, stored) = service(Layout::Tickets(Tickets::STANDARD));
    let service = Batching::new(stored);
    let wins: usize = std::thread::scope(|scope| {
        let service = &service;
        let put = move |thread: i64| {
            let put = move |start: i64| service.put_unless_exists(at(start), committed(1000 + thread));
            (1..=100).filter(|start| put(*start).unwrap() == Recorded::Recorded).count()
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || put(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(wins, 100);
    store.fail_at(1, Fault::Lost);
    assert!(service.put_unless_exists(at(500), committed(501)).is_err());
    assert_eq!(service.put_unless_exists(at(500), committed(501)), Ok(Recorded::Recorded));
}

proptest! {
    /// Under any faults, no start timestamp has two statuses, and a status that was read stays.
    #[test]
    fn a_status_that_was_read_never_changes(
        layout in 0..3usize,
        steps in prop::collection::vec((1..6i64, 0..3i64, prop::option::of((1..4u64, 0..3u8))), 1..60),
    ) {
        let (store, service) = service(LAYOUTS[layout]);
        let mut seen: HashMap<Timestamp, TransactionStatus> = HashMap::new();
        for (start, act, fault) in steps {
            if let Some((call, fault)) = fault {
                let faults = [Fault::Lost, Fault::Half, Fault::Unanswered];
                store.fail_at(call, faults[usize::from(fault)]);
            }
            let start = at(start);
            let answer = match act {
                0 => {
                    let answer = service.get(start);
                    prop_assert!(answer != Ok(None) || !seen.contains_key(&start), "{start} was forgotten");
                    answer.unwrap_or(None)
                }
                _ => {
                    let wanted = if act == 1 { TransactionStatus::Aborted } else { committed(start.0 + 10) };
                    match service.put_unless_exists(start, wanted) {
                        Ok(Recorded::Recorded) => Some(wanted),
                        Ok(Recorded::Exists(other)) => Some(other),
                        Err(_) => None,
                    }
                }
            };
            if let Some(answer) = answer {
                prop_assert_eq!(*seen.entry(start).or_insert(answer), answer);
            }
        }
    }
}
