//! Simulates several servers on one store: clocks that differ, jump and stand still, pauses at any
//! point, and writes of unknown outcome that are applied late. Checks that timestamps increase in
//! the order in which they are taken, across servers.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::TimeLockError;
use super::election::{Election, Request, Response};
use super::lease::{ClockReading, Record, Stored};
use crate::store::StoreError;

const LEASE: Duration = Duration::from_secs(5);
const SERVERS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    /// Time passes.
    Pass {
        millis: u64,
    },
    /// A server's faulty clock jumps, or stands still while time passes.
    Jump {
        server: usize,
        millis: i64,
    },
    /// The lease keeper of a server sends a request, the request reaches the store, or the response
    /// reaches the keeper.
    Keep {
        server: usize,
        fate: Fate,
    },
    /// A write whose client gave up reaches the store after all.
    Late {
        which: usize,
    },
    /// Timestamps are taken, and not issued yet.
    Take {
        server: usize,
        count: i64,
    },
    /// Timestamps that were taken are issued, if the lease permits.
    Issue {
        which: usize,
    },
    /// A process ends and another one begins.
    Restart {
        server: usize,
    },
    Resign {
        server: usize,
    },
    FastForward {
        server: usize,
        by: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    AnswerLost,
    LostOrLate,
}

fn step() -> impl Strategy<Value = Step> {
    let server = 0..SERVERS;
    let fate = prop_oneof![8 => Just(Fate::Well), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::LostOrLate)];
    prop_oneof![
        10 => (0..1500u64).prop_map(|millis| Step::Pass { millis }),
        1 => (2000..20_000u64).prop_map(|millis| Step::Pass { millis }),
        1 => (server.clone(), -20_000..20_000i64).prop_map(|(server, millis)| Step::Jump { server, millis }),
        30 => (server.clone(), fate).prop_map(|(server, fate)| Step::Keep { server, fate }),
        2 => (0..8usize).prop_map(|which| Step::Late { which }),
        10 => (server.clone(), 1..400_000i64).prop_map(|(server, count)| Step::Take { server, count }),
        10 => (0..4usize).prop_map(|which| Step::Issue { which }),
        1 => server.clone().prop_map(|server| Step::Restart { server }),
        1 => server.clone().prop_map(|server| Step::Resign { server }),
        1 => (server, 1..3_000_000i64).prop_map(|(server, by)| Step::FastForward { server, by }),
    ]
}

/// Faults of a server's clocks.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    /// Rate in percent of true time.
    pace: u64,
    /// Whether the wall clock jumps; otherwise the monotonic clock stands still.
    wall_is_wrong: bool,
}

struct Server {
    election: Election,
    clocks: Clocks,
    now: ClockReading,
    /// How much longer the monotonic clock stands still.
    still_millis: u64,
    op: Option<(Request, Option<Response>)>,
}

struct Taken {
    server: usize,
    term: u64,
    /// Position in the order of taking.
    order: usize,
    first: i64,
    last: i64,
}

struct World {
    stored: Option<Bytes>,
    /// Writes whose clients gave up.
    late: Vec<Request>,
    servers: Vec<Server>,
    taken: Vec<Taken>,
    order: usize,
    holders: u64,
    issued: Vec<Taken>,
    /// Both clocks of a server may stand still, which violates the assumptions.
    freezes: bool,
}

impl World {
    fn new(clocks: &[Clocks], freezes: bool) -> Self {
        let mut world = Self {
            stored: None,
            late: Vec::new(),
            servers: Vec::new(),
            taken: Vec::new(),
            order: 0,
            holders: 0,
            issued: Vec::new(),
            freezes,
        };
        for clocks in clocks {
            let election = world.election();
            let now = ClockReading { monotonic: Duration::from_secs(100), wall_micros: 1_000_000_000 };
            world.servers.push(Server { election, clocks: *clocks, now, still_millis: 0, op: None });
        }
        world
    }

    fn election(&mut self) -> Election {
        self.holders += 1;
        Election::new(self.holders, format!("server {}", self.holders), LEASE, None)
    }

    fn write(&mut self, request: &Request) -> Response {
        match request {
            Request::Read => Response::Found(self.stored.clone()),
            Request::Create { new } if self.stored.is_none() => {
                self.stored = Some(new.clone());
                Response::Applied
            }
            Request::Replace { expected, new } if self.stored.as_ref() == Some(expected) => {
                self.stored = Some(new.clone());
                Response::Applied
            }
            Request::Create { .. } | Request::Replace { .. } => Response::Found(self.stored.clone()),
        }
    }

    /// Advances the current request of a server's keeper, or begins the next one.
    fn keep(&mut self, number: usize, fate: Fate) {
        let server = &mut self.servers[number];
        match server.op.take() {
            None => server.op = server.election.next_request(server.now).map(|request| (request, None)),
            Some((request, None)) if fate == Fate::LostOrLate => {
                let failed = Response::Failed(StoreError::unknown("ask", "no answer"));
                server.election.handle_response(failed, server.now);
                self.late.push(request);
            }
            Some((request, None)) => {
                let response = self.write(&request);
                self.servers[number].op = Some((request, Some(response)));
            }
            Some((_, Some(response))) => {
                let response = match fate {
                    Fate::Well => response,
                    _ => Response::Failed(StoreError::unknown("ask", "no answer")),
                };
                server.election.handle_response(response, server.now);
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Pass { millis } => {
                for server in &mut self.servers {
                    let still = server.still_millis.min(millis);
                    server.still_millis -= still;
                    let micros = |millis: u64| millis * 10 * server.clocks.pace;
                    let wall = if self.freezes { millis - still } else { millis };
                    server.now.wall_micros += micros(wall).cast_signed();
                    server.now.monotonic += Duration::from_micros(micros(millis - still));
                }
            }
            Step::Jump { server, millis } => {
                let server = &mut self.servers[server];
                if server.clocks.wall_is_wrong && !self.freezes {
                    server.now.wall_micros += millis * 1000
                } else {
                    server.still_millis += millis.unsigned_abs()
                }
            }
            Step::Keep { server, fate } => self.keep(server, fate),
            Step::Late { which } => {
                if which < self.late.len() {
                    let request = self.late.swap_remove(which);
                    self.write(&request);
                }
            }
            Step::Take { server, count } => {
                self.order += 1;
                if let Some(leadership) = self.servers[server].election.leadership()
                    && let Ok((first, last)) = leadership.take(count)
                {
                    let term = leadership.term();
                    self.taken.push(Taken { server, term, order: self.order, first, last });
                }
            }
            Step::Issue { which } => {
                if which < self.taken.len() {
                    let taken = self.taken.swap_remove(which);
                    let server = &mut self.servers[taken.server];
                    let now = server.now;
                    if let Some(leadership) = server.election.leadership()
                        && leadership.term() == taken.term
                        && leadership.confirm(now).is_ok()
                    {
                        self.issued.push(taken);
                    }
                }
            }
            Step::Restart { server } => {
                let election = self.election();
                let server = &mut self.servers[server];
                (server.election, server.op) = (election, None);
            }
            Step::Resign { server } => self.servers[server].election.resign(),
            Step::FastForward { server, by } => {
                if let Some(leadership) = self.servers[server].election.leadership() {
                    let to = leadership.last() + by;
                    // Has no effect if the bound must be raised first.
                    let _ = leadership.fast_forward(to);
                }
            }
        }
    }

    /// Returns the timestamps issued, in the order in which they were taken.
    fn in_order(&mut self) -> &[Taken] {
        self.issued.sort_by_key(|taken| taken.order);
        &self.issued
    }
}

fn clocks() -> impl Strategy<Value = Vec<Clocks>> {
    let one = (90..=110u64, any::<bool>()).prop_map(|(pace, wall_is_wrong)| Clocks { pace, wall_is_wrong });
    prop::collection::vec(one, SERVERS)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn timestamps_increase_across_servers_within_the_clock_assumptions(
        clocks in clocks(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut world = World::new(&clocks, false);
        steps.into_iter().for_each(|step| world.step(step));
        for pair in world.in_order().windows(2) {
            prop_assert!(pair[0].last < pair[1].first, "{} then {}", pair[0].last, pair[1].first);
        }
    }

    #[test]
    fn no_timestamp_is_issued_twice_even_with_arbitrary_clocks(
        clocks in clocks(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut world = World::new(&clocks, true);
        steps.into_iter().for_each(|step| world.step(step));
        world.issued.sort_by_key(|taken| taken.first);
        for pair in world.issued.windows(2) {
            prop_assert!(pair[0].last < pair[1].first, "{} then {}", pair[0].last, pair[1].first);
        }
    }
}

/// Lets a server's keeper send a request, the store respond, and the response arrive.
fn keep(world: &mut World, server: usize) {
    for _ in 0..3 {
        world.step(Step::Keep { server, fate: Fate::Well });
    }
}

fn exact() -> Vec<Clocks> {
    vec![Clocks { pace: 100, wall_is_wrong: false }; SERVERS]
}

fn pass(world: &mut World, millis: u64) {
    world.step(Step::Pass { millis });
}

/// Returns a world in which server 0 leads.
fn leading_world(freezes: bool) -> World {
    let mut world = World::new(&exact(), freezes);
    for _ in 0..2 {
        keep(&mut world, 0);
    }
    assert!(world.servers[0].election.leadership().is_some());
    world
}

#[test]
fn a_standby_leads_only_after_the_lease_has_certainly_ended() {
    let mut world = leading_world(false);
    keep(&mut world, 1);
    for waited in 0..25 {
        keep(&mut world, 1);
        assert!(world.servers[1].election.leadership().is_none(), "after {} ms", waited * 250);
        pass(&mut world, 250);
    }
    keep(&mut world, 1);
    let term = world.servers[1].election.leadership().map(|leadership| leadership.term());
    assert_eq!(term, Some(2));
    // The previous leader finds out with its next write.
    keep(&mut world, 0);
    assert!(world.servers[0].election.leadership().is_none());
    assert_eq!(world.servers[0].election.leader(), Some("server 2"));
}

#[test]
fn timestamps_taken_before_a_long_pause_are_not_issued() {
    let mut world = leading_world(false);
    world.step(Step::Take { server: 0, count: 1 });
    pass(&mut world, 5000);
    world.step(Step::Issue { which: 0 });
    assert!(world.issued.is_empty());
    let now = world.servers[0].now;
    let lapsed = world.servers[0].election.leadership().unwrap().confirm(now).unwrap_err();
    assert!(matches!(lapsed, TimeLockError::LeaseLapsed { jumped: false, .. }), "{lapsed}");
    // No other server led meanwhile: it continues with the same term.
    keep(&mut world, 0);
    world.step(Step::Take { server: 0, count: 1 });
    world.step(Step::Issue { which: 0 });
    assert_eq!(world.issued.len(), 1);
}

#[test]
fn a_wall_clock_jump_ends_the_lease_early() {
    let mut world = leading_world(false);
    world.servers[0].now.wall_micros += 3_600_000_000;
    let now = world.servers[0].now;
    let lapsed = world.servers[0].election.leadership().unwrap().confirm(now).unwrap_err();
    assert!(matches!(lapsed, TimeLockError::LeaseLapsed { jumped: true, .. }), "{lapsed}");
}

/// Shows why the assumption is needed: both clocks of a leader stand still, and it continues with
/// the timestamps below its bound.
#[test]
fn a_leader_with_frozen_clocks_breaks_order_but_not_uniqueness() {
    let mut world = leading_world(true);
    keep(&mut world, 1);
    world.step(Step::Jump { server: 0, millis: 10_000 });
    pass(&mut world, 7000);
    keep(&mut world, 1);
    for server in [1, 0] {
        world.step(Step::Take { server, count: 1 });
        world.step(Step::Issue { which: 0 });
    }
    let [new, old] = world.in_order() else { panic!("both issue") };
    assert!(old.last < new.first, "clients that saw {} stop at {}", new.first, old.first);
}

#[test]
fn a_write_of_unknown_outcome_is_retried_and_applied_once() {
    for fate in [Fate::AnswerLost, Fate::LostOrLate] {
        let mut world = leading_world(false);
        pass(&mut world, 1000);
        world.step(Step::Keep { server: 0, fate: Fate::Well });
        world.step(Step::Keep { server: 0, fate });
        world.step(Step::Keep { server: 0, fate });
        pass(&mut world, 1000);
        keep(&mut world, 0);
        keep(&mut world, 0);
        let Some(Stored::Leased(record)) =
            world.stored.as_deref().map(|bytes| Stored::decode(bytes).unwrap())
        else {
            panic!("a record")
        };
        assert_eq!(record.term, 1);
        assert_eq!(world.servers[0].election.leadership().unwrap().bound(), record.bound);
        // The late duplicate finds another value.
        let stored = world.stored.clone();
        world.step(Step::Late { which: 0 });
        assert_eq!(world.stored, stored);
    }
}

#[test]
fn a_lost_bound_stops_servers_permanently() {
    let mut world = leading_world(false);
    keep(&mut world, 1);
    world.stored = None;
    pass(&mut world, 1000);
    for server in 0..2 {
        keep(&mut world, server);
        let ended = world.servers[server].election.ended().unwrap();
        assert!(matches!(ended, TimeLockError::BoundLost { .. }), "{ended}");
    }
    world.stored = Some(Bytes::from_static(b"no bound and no record"));
    keep(&mut world, 2);
    let ended = world.servers[2].election.ended().unwrap();
    assert!(ended.to_string().contains("fast-forward --lost-bound"), "{ended}");
}

#[test]
fn a_returned_lease_is_acquired_immediately() {
    let mut world = leading_world(false);
    world.step(Step::Take { server: 0, count: 5 });
    world.step(Step::Resign { server: 0 });
    world.step(Step::Issue { which: 0 });
    assert!(world.issued.is_empty(), "a server that resigned issues nothing");
    keep(&mut world, 0);
    keep(&mut world, 1);
    keep(&mut world, 1);
    let leadership = world.servers[1].election.leadership().unwrap();
    assert_eq!(leadership.term(), 2);
    assert!(leadership.last() >= 1_010_000, "above the bound of the one before");
}

#[test]
fn a_server_continues_above_the_bound_of_an_earlier_process() {
    let mut world = World::new(&exact(), false);
    world.stored = Some(Bytes::copy_from_slice(&5_000_000i64.to_be_bytes()));
    keep(&mut world, 0);
    keep(&mut world, 0);
    assert_eq!(world.servers[0].election.leadership().unwrap().take(1).unwrap().0, 5_000_001);
}

#[test]
fn the_largest_record_exhausts_timestamps_without_a_panic() {
    let record = Record {
        term: u64::MAX,
        sequence: u64::MAX,
        bound: i64::MAX,
        holder: 9,
        lease: Duration::ZERO,
        address: String::new(),
    };
    let mut world = World::new(&exact(), false);
    world.stored = Some(record.encode());
    keep(&mut world, 0);
    keep(&mut world, 0);
    let leadership = world.servers[0].election.leadership();
    assert!(leadership.is_none_or(|leadership| leadership.take(1).is_err()));
}
