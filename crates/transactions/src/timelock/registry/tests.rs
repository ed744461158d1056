//! Tests of lock ownership, queues and expiry.

use proptest::prelude::*;

use super::*;
use crate::timelock::messages::REQUEST_LOCKS_MAX;

const T0: Duration = Duration::from_secs(1000);

fn names(text: &str) -> Arc<[Name]> {
    text.chars().map(|c| Name::from(u32::from(c))).collect()
}

fn take(registry: &mut Registry, session: u64, number: u64, wanted: &str) -> Progress {
    registry.begin((session, number), 0, names(wanted), LockMode::Acquire, T0)
}

#[test]
fn locks_are_granted_in_arrival_order() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(take(&mut registry, 1, 0, "ab"), Progress::Done);
    for session in 2..6 {
        assert_eq!(take(&mut registry, session, 0, "b"), Progress::Queued);
    }
    for session in 1..5 {
        registry.cancel((session, 0), true);
        assert_eq!(registry.completed(), [(session + 1, 0)]);
    }
    registry.cancel((5, 0), true);
    assert_eq!((registry.completed(), registry.counts().locks), (vec![], 0));
}

#[test]
fn observers_wait_for_a_lock_without_acquiring_it() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    let see = |registry: &mut Registry, session, wanted| {
        registry.begin((session, 0), 0, names(wanted), LockMode::Observe, T0)
    };
    assert_eq!(see(&mut registry, 9, "ab"), Progress::Done);
    assert_eq!(take(&mut registry, 1, 0, "b"), Progress::Done);
    assert_eq!(see(&mut registry, 2, "ab"), Progress::Queued);
    assert_eq!(see(&mut registry, 3, "b"), Progress::Queued);
    assert_eq!(take(&mut registry, 4, 0, "ab"), Progress::Queued);
    assert_eq!(see(&mut registry, 5, "b"), Progress::Queued);
    registry.cancel((1, 0), true);
    assert_eq!(registry.completed(), [(2, 0), (3, 0), (4, 0)]);
    registry.cancel((4, 0), true);
    assert_eq!(registry.completed(), [(5, 0)]);
    assert_eq!(registry.counts(), Counts { sessions: 6, locks: 0, queued: 0, holds: 0 });
}

#[test]
fn a_retried_lock_request_keeps_its_locks_and_an_ended_one_gets_none() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(take(&mut registry, 1, 7, "a"), Progress::Done);
    assert!(registry.fence((1, 7), 500));
    assert_eq!(take(&mut registry, 1, 7, "a"), Progress::Done);
    assert_eq!(registry.fence_of((1, 7)), Some(500));
    registry.unlock(500);
    assert_eq!(take(&mut registry, 1, 7, "a"), Progress::Ended, "a late copy");
    assert_eq!(registry.begin((1, 9), 9, names("a"), LockMode::Acquire, T0), Progress::Done);
    assert_eq!(take(&mut registry, 1, 8, "b"), Progress::Ended, "below the oldest open one");
}

#[test]
fn a_repeated_wait_completes_until_the_client_ends_it() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    let see = |registry: &mut Registry, oldest_open, wanted| {
        registry.begin((2, 7), oldest_open, names(wanted), LockMode::Observe, T0)
    };
    assert_eq!(see(&mut registry, 7, "a"), Progress::Done);
    assert_eq!(see(&mut registry, 7, "a"), Progress::Done, "its reply may have been lost");
    assert_eq!(take(&mut registry, 1, 0, "a"), Progress::Done);
    assert_eq!(see(&mut registry, 7, "a"), Progress::Queued, "it waits again");
    registry.cancel((1, 0), true);
    assert_eq!(registry.completed(), [(2, 7)]);
    assert_eq!(see(&mut registry, 7, "a"), Progress::Done);
    assert_eq!(see(&mut registry, 8, "a"), Progress::Ended, "the client has ended it");
    assert_eq!(registry.counts().locks, 0);
}

#[test]
fn locks_and_holds_expire_without_a_heartbeat() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(take(&mut registry, 1, 0, "a"), Progress::Done);
    registry.fence((1, 0), 600);
    registry.hold(1, 500, 2, T0);
    assert_eq!(registry.begin((2, 0), 0, names("a"), LockMode::Acquire, T0), Progress::Queued);
    assert!(registry.is_held(500, Some(600), T0) && registry.is_held(500, None, T0));
    let later = T0 + SESSION_AGE_MAX;
    assert_eq!(registry.expire(later), []);
    assert_eq!(registry.batch(2, (1, 0), 0, later), Slot::First, "it lives");
    assert_eq!(registry.expire(later + Duration::from_millis(1)), [(1, 0)]);
    assert_eq!(registry.completed(), [(2, 0)]);
    assert!(!registry.is_held(500, Some(600), T0) && !registry.is_held(500, None, T0));
    assert_eq!(registry.smallest_held(), None);
}

#[test]
fn a_disconnected_session_expires_soon_unless_it_reconnects() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    for session in [1, 2] {
        assert_eq!(take(&mut registry, session, 0, &session.to_string()), Progress::Done);
        registry.fence((session, 0), 600 + session.cast_signed());
        registry.hold(session, 500 + session.cast_signed(), 1, T0);
        registry.disconnected(session, T0);
    }
    assert_eq!(registry.expire(T0 + DISCONNECTED_AGE_MAX), []);
    assert_eq!(
        registry.batch(2, (1, 0), 0, T0 + DISCONNECTED_AGE_MAX),
        Slot::First,
        "it has connected again"
    );
    let later = T0 + DISCONNECTED_AGE_MAX + Duration::from_millis(1);
    assert_eq!(registry.expire(later), [(1, 0)]);
    assert!(!registry.is_held(501, Some(601), later) && registry.is_held(502, Some(602), later));
    registry.disconnected(3, later);
    assert_eq!(registry.expire(later), [], "a session that has ended already");
}

#[test]
fn locks_are_limited_per_session_and_in_total() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    let mut next: Name = 0;
    let mut fill = |registry: &mut Registry, session: u64, number: u64, count: usize| {
        registry.admit(session, count)?;
        let names: Arc<[Name]> = (0..count as Name).map(|n| next + n).collect();
        next += count as Name;
        assert_eq!(registry.begin((session, number), 0, names, LockMode::Acquire, T0), Progress::Done);
        Ok(())
    };
    assert_eq!(fill(&mut registry, 1, 0, REQUEST_LOCKS_MAX), Ok(()));
    assert_eq!(fill(&mut registry, 1, 1, REQUEST_LOCKS_MAX), Ok(()));
    assert_eq!(fill(&mut registry, 1, 2, 1), Err(CapacityError::LocksOfSession));
    for session in 2..=(LOCKS_MAX / SESSION_LOCKS_MAX) as u64 {
        assert_eq!(fill(&mut registry, session, 0, SESSION_LOCKS_MAX), Ok(()));
    }
    assert_eq!(fill(&mut registry, 99, 0, 1), Err(CapacityError::Locks));
    registry.cancel((1, 0), true);
    assert_eq!(fill(&mut registry, 99, 0, 1), Ok(()), "room was made");
    assert_eq!(registry.admit(1, REQUEST_LOCKS_MAX - 1), Ok(()));
    assert_eq!(registry.admit(1, REQUEST_LOCKS_MAX), Err(CapacityError::Locks));
    registry.expire(T0 + SESSION_AGE_MAX * 2);
    assert_eq!((registry.names, registry.counts().locks, registry.sessions.len()), (0, 0, 0));
    assert!(registry.locks.capacity() < SHRINK_MIN, "{}", registry.locks.capacity());
}

#[test]
fn ended_requests_use_bounded_memory_beside_an_open_one() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(take(&mut registry, 1, 0, "z"), Progress::Done);
    registry.fence((1, 0), 500);
    let last = 3 * ENDED_MAX as u64;
    for number in 1..=last {
        assert_eq!(take(&mut registry, 1, number, "a"), Progress::Done);
        registry.cancel((1, number), true);
    }
    assert!(registry.sessions[&1].ended.len() <= ENDED_MAX);
    for number in [1, ENDED_MAX as u64, last - 1, last] {
        assert_eq!(take(&mut registry, 1, number, "a"), Progress::Ended, "{number}");
    }
    assert_eq!(take(&mut registry, 1, 0, "z"), Progress::Done, "it is still open");
    assert_eq!(registry.fence_of((1, 0)), Some(500));
    assert_eq!(take(&mut registry, 1, last + 1, "a"), Progress::Done);
}

#[test]
fn sessions_are_bounded() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    for id in 0..SESSIONS_MAX as u64 {
        assert_eq!(registry.admit(id, 0), Ok(()));
        assert_eq!(registry.batch(id, (1, 0), 0, T0), Slot::First);
    }
    assert_eq!(registry.admit(0, 1), Ok(()));
    assert_eq!(registry.admit(u64::MAX, 0), Err(CapacityError::Sessions));
}

#[test]
fn locks_and_holds_of_a_hanging_transaction_expire() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(take(&mut registry, 1, 0, "a"), Progress::Done);
    registry.hold(1, 500, 1, T0);
    let later = T0 + LOCK_AGE_MAX + Duration::from_secs(1);
    assert_eq!(registry.batch(1, (1, 0), 0, later), Slot::First);
    assert_eq!(registry.expire(later), [(1, 0)]);
    assert_eq!(registry.smallest_held(), Some(500));
    let later = T0 + HOLD_AGE_MAX + Duration::from_secs(1);
    assert_eq!(registry.batch(1, (2, 0), 0, later), Slot::First);
    registry.expire(later);
    assert_eq!(registry.smallest_held(), None);
}

#[test]
fn checked_locks_and_holds_do_not_expire() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(take(&mut registry, 1, 0, "a"), Progress::Done);
    registry.fence((1, 0), 600);
    registry.hold(1, 500, 1, T0);
    registry.hold(1, 510, 1, T0);
    let mut now = T0;
    for n in 0..20 {
        now += LOCK_AGE_MAX - Duration::from_secs(1);
        assert_eq!(registry.batch(1, (n + 1, 0), n, now), Slot::First);
        assert!(registry.is_held(500, Some(600), now), "round {n}");
        assert_eq!(registry.expire(now), [], "round {n}");
    }
    assert!(!registry.is_held(510, Some(600), now), "it was not requested");
    assert!(!registry.is_held(500, Some(601), now) && !registry.is_held(501, Some(600), now));
    now += LOCK_AGE_MAX + Duration::from_secs(1);
    assert_eq!(registry.batch(1, (90, 1), 90, now), Slot::First);
    assert_eq!(registry.expire(now), [(1, 0)]);
}

#[test]
fn a_retried_batch_holds_once_and_stale_copies_have_no_effect() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    assert_eq!(registry.batch(1, (4, 0), 3, T0), Slot::First);
    registry.hold(1, 500, 3, T0);
    assert_eq!(registry.batch(1, (4, 1), 3, T0), Slot::Repeat);
    registry.hold(1, 520, 3, T0);
    assert!(!registry.is_held(500, None, T0) && registry.is_held(520, None, T0));
    assert_eq!(registry.batch(1, (4, 0), 3, T0), Slot::Stale);
    assert_eq!(registry.batch(1, (3, 9), 2, T0), Slot::Stale);
    assert_eq!(registry.batch(1, (5, 0), 4, T0), Slot::First);
    assert!(registry.is_held(520, None, T0));
    registry.hold(1, 540, 3, T0);
    assert_eq!(registry.batch(1, (7, 0), 4, T0), Slot::First);
    assert!(!registry.is_held(540, None, T0), "its response was lost");
    assert!(registry.is_held(520, None, T0));
    (0..3).for_each(|_| registry.release(520));
    assert!(!registry.is_held(520, None, T0));
}

#[test]
fn sessions_get_distinct_residues_while_enough_are_left() {
    let mut registry = Registry::new(SESSION_AGE_MAX);
    let mut residues: Vec<usize> = (0..16).map(|id| registry.residue(id, T0)).collect();
    residues.sort_unstable();
    assert_eq!(residues, (0..16).collect::<Vec<_>>());
    let shared = registry.residue(16, T0);
    registry.expire(T0 + SESSION_AGE_MAX * 2);
    assert_eq!(registry.residues, [0; 16]);
    assert!(shared < 16);
}

proptest! {
    #[test]
    fn locks_are_exclusive_and_every_waiter_gets_its_turn(
        steps in prop::collection::vec((0..6u64, prop::collection::btree_set(0..5u8, 1..4), any::<bool>()), 1..60),
    ) {
        let mut registry = Registry::new(SESSION_AGE_MAX);
        let mut next = 0;
        let mut open: HashMap<u64, (Key, BTreeSet<u8>, LockMode, bool)> = HashMap::new();
        for (session, wanted, see) in steps {
            if let Some((key, ..)) = open.remove(&session) {
                registry.cancel(key, true);
            } else {
                next += 1;
                let key = (session, next);
                let list: Arc<[Name]> = wanted.iter().map(|n| Name::from(*n)).collect();
                let mode = if see { LockMode::Observe } else { LockMode::Acquire };
                let done = registry.begin(key, 0, list, mode, T0) == Progress::Done;
                open.insert(session, (key, wanted, mode, done));
            }
            for (session, number) in registry.completed() {
                let entry = open.get_mut(&session).unwrap();
                prop_assert_eq!(entry.0.1, number);
                prop_assert!(!entry.3);
                entry.3 = true;
            }
            let mut held = BTreeSet::new();
            for (_, wanted, ..) in open.values().filter(|(.., mode, done)| *done && *mode == LockMode::Acquire) {
                for name in wanted {
                    prop_assert!(held.insert(*name), "{} is held twice", name);
                }
            }
        }
        // All holders release until no request waits.
        while !open.is_empty() {
            let done: Vec<u64> = open.iter().filter(|(_, (.., done))| *done).map(|(s, _)| *s).collect();
            prop_assert!(!done.is_empty(), "all wait");
            for session in done {
                let (key, ..) = open.remove(&session).unwrap();
                registry.cancel(key, true);
            }
            for (session, _) in registry.completed() {
                open.get_mut(&session).unwrap().3 = true;
            }
        }
        prop_assert_eq!(registry.counts().locks, 0);
    }
}
