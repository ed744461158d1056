//! The transaction services, over every layout.

use std::collections::HashMap;
use std::sync::Arc;

use cassette_transactions::encoding::tickets::Tickets;
use cassette_transactions::service::{
    Batching, Caching, Layout, Recorded, ServiceError, StoredConclusions, TransactionService,
};
use cassette_transactions::store::{FailingStore, Fault, MemoryStore};
use cassette_transactions::{Conclusion, Timestamp};
use proptest::prelude::*;

const LAYOUTS: [Layout; 3] =
    [Layout::Plain, Layout::Tickets(Tickets::STANDARD), Layout::TwoStage(Tickets::STANDARD)];

fn at(start: i64) -> Timestamp {
    Timestamp(start)
}

fn committed(commit: i64) -> Conclusion {
    Conclusion::Committed(Timestamp(commit))
}

type Failing = Arc<FailingStore<Arc<MemoryStore>>>;

fn service(layout: Layout) -> (Failing, StoredConclusions<Failing>) {
    let store = Arc::new(FailingStore::new(Arc::new(MemoryStore::new())));
    (store.clone(), StoredConclusions::open(store, layout).unwrap())
}

#[test]
fn a_start_has_one_conclusion_for_ever() {
    for layout in LAYOUTS {
        let (_, service) = service(layout);
        assert_eq!(service.get(at(5)), Ok(None));
        assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded));
        assert_eq!(service.put_unless_exists(at(5), Conclusion::Aborted), Ok(Recorded::Exists(committed(9))));
        assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded), "a second try");
        assert_eq!(service.put_unless_exists(at(6), Conclusion::Aborted), Ok(Recorded::Recorded));
        assert_eq!(service.put_unless_exists(at(6), committed(9)), Ok(Recorded::Exists(Conclusion::Aborted)));
        assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
        let known = service.get_many(&[at(5), at(6), at(7), at(-1), at(0)]).unwrap();
        let expected = [(5, committed(9)), (6, Conclusion::Aborted), (-1, committed(0)), (0, committed(0))];
        assert_eq!(known, expected.map(|(start, conclusion)| (at(start), conclusion)).into());
        assert_eq!(service.put_unless_exists(at(0), committed(9)), Err(ServiceError::BeforeTime(at(0))));
    }
}

#[test]
fn each_put_of_many_has_a_result_of_its_own() {
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
        let twice = [(at(70), committed(80)), (at(70), Conclusion::Aborted), (at(70), committed(80))];
        let results = service.put_many_unless_exists(&twice);
        assert_eq!(
            results,
            [Ok(Recorded::Recorded), Ok(Recorded::Exists(committed(80))), Ok(Recorded::Recorded)],
            "the first of one start wins"
        );
    }
}

#[test]
fn eight_thousand_starts_of_a_quantum_are_read_with_one_call_of_the_store() {
    let (store, service) = service(Layout::Tickets(Tickets::STANDARD));
    let puts: Vec<_> = (1..=8000).map(|start| (at(start), committed(start + 1))).collect();
    assert!(service.put_many_unless_exists(&puts).iter().all(|result| *result == Ok(Recorded::Recorded)));
    let starts: Vec<_> = puts.iter().map(|(start, _)| *start).collect();
    let before = store.calls();
    assert_eq!(service.get_many(&starts).unwrap(), puts.into_iter().collect::<HashMap<_, _>>());
    assert_eq!(store.calls() - before, 1);
}

#[test]
fn ranges_of_starts_are_enumerated_whole() {
    let small = Tickets::new(100, 16).unwrap();
    for layout in [Layout::Plain, Layout::Tickets(small), Layout::TwoStage(small)] {
        let (_, service) = service(layout);
        let conclusion = |start: i64| match start % 7 {
            0 => Conclusion::Aborted,
            _ => committed(start + 5),
        };
        let all: Vec<_> = (1..=450).step_by(3).map(|start| (at(start), conclusion(start))).collect();
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
fn a_put_that_nobody_answered_is_recognized_as_done() {
    for layout in LAYOUTS {
        let (store, service) = service(layout);
        store.fail_at(1, Fault::Unanswered);
        assert!(matches!(service.put_unless_exists(at(5), committed(9)), Err(ServiceError::Store(_))));
        assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded));
        assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    }
}

#[test]
fn a_staging_value_is_touched_and_finished_by_its_reader() {
    let (store, service) = service(Layout::TwoStage(Tickets::STANDARD));
    store.fail_at(2, Fault::Lost);
    assert_eq!(service.put_unless_exists(at(5), committed(9)), Ok(Recorded::Recorded), "W1 decides");
    let before = store.calls();
    assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    assert_eq!(store.calls() - before, 4, "get, look again, touch, finish");
    let before = store.calls();
    assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    assert_eq!(store.calls() - before, 1);
}

#[test]
fn only_conclusions_are_cached() {
    let (store, stored) = service(Layout::Tickets(Tickets::STANDARD));
    let service = Caching::new(stored, 1000);
    assert_eq!(service.get(at(5)), Ok(None));
    assert_eq!(service.cached(at(5)), None);
    service.put_unless_exists(at(5), committed(9)).unwrap();
    service.put_unless_exists(at(6), Conclusion::Aborted).unwrap();
    let before = store.calls();
    assert_eq!(service.get(at(5)), Ok(Some(committed(9))));
    assert_eq!(service.get(at(6)), Ok(Some(Conclusion::Aborted)));
    assert_eq!(store.calls(), before);
}

#[test]
fn puts_of_many_threads_go_in_batches_and_each_has_its_own_result() {
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
    /// Whatever fails: no start ever has two conclusions, and once one was read, it stays.
    #[test]
    fn what_was_read_once_stays(
        layout in 0..3usize,
        steps in prop::collection::vec((1..6i64, 0..3i64, prop::option::of((1..4u64, 0..3u8))), 1..60),
    ) {
        let (store, service) = service(LAYOUTS[layout]);
        let mut seen: HashMap<Timestamp, Conclusion> = HashMap::new();
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
                    let wanted = if act == 1 { Conclusion::Aborted } else { committed(start.0 + 10) };
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
