//! Leader election: which request to send to the store next, and what its response means. Without
//! I/O or waiting; the caller passes the time.
//!
//! `docs/transactions.md` describes the steps, L1 to L6, and why two servers never issue
//! timestamps at the same time.

use std::time::Duration;

use bytes::Bytes;

use super::halt::Halt;
use super::lease::{ClockReading, Record, Stored};
use super::timestamps::{BOUND_BUFFER, INITIAL_BOUND};
use super::{FAST_FORWARD_MAX, TimeLockError};
use crate::store::StoreError;
use crate::timestamp::Timestamp;

/// A request to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Reads the stored value serially.
    Read,
    /// Stores a value unless there is one. Sent only if nothing indicates that there was one.
    Create { new: Bytes },
    /// Replaces the stored value.
    Replace { expected: Bytes, new: Bytes },
}

/// The store's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// The value was stored.
    Applied,
    /// The value found in the store.
    Found(Option<Bytes>),
    /// Nothing is stored, but there is evidence that something was.
    Lost(String),
    /// The outcome is unknown.
    Failed(StoreError),
}

/// The election from the point of view of one server.
pub(super) struct Election {
    holder: u64,
    address: String,
    lease: Duration,
    /// After the loss of the bound: the operator's timestamp above all that were issued.
    recovered: Option<i64>,
    phase: Phase,
    /// The newest state that this server knows to have been stored. The stored state never falls
    /// below it unless the store lost data.
    known: Option<Mark>,
    /// A write whose outcome may be unknown. It is retried until the outcome is known.
    attempt: Option<Attempt>,
}

/// Progress of the stored state.
#[derive(Debug, Clone, Copy)]
struct Mark {
    term: u64,
    sequence: u64,
    bound: i64,
}

impl Mark {
    fn of(stored: &Stored) -> Self {
        match stored {
            Stored::Plain(bound) => Self { term: 0, sequence: 0, bound: *bound },
            Stored::Leased(record) => Self::of_record(record),
            Stored::Halted(halt) => Self { term: halt.term, sequence: halt.sequence, bound: halt.bound },
        }
    }

    fn of_record(record: &Record) -> Self {
        Self { term: record.term, sequence: record.sequence, bound: record.bound }
    }

    /// Returns whether the store lost the state `self`, given that it holds `later`: an older copy
    /// was put in its place.
    fn is_lost_at(self, later: Self) -> bool {
        later.bound < self.bound || (later.term, later.sequence) < (self.term, self.sequence)
    }
}

enum Phase {
    Standby(Standby),
    Leading(Leadership),
    /// The store lost state that this server knows of, so it halts the timestamps for all servers.
    Halting(Halting),
    Ended(TimeLockError),
}

struct Halting {
    /// State known to this server.
    known: Mark,
    what: String,
    error: TimeLockError,
    /// Stored value.
    expected: Bytes,
    new: Bytes,
    failed: Option<ClockReading>,
}

#[derive(Default)]
struct Standby {
    /// Stored value, and when it was first seen.
    seen: Option<(Bytes, Stored, ClockReading)>,
    last_read: Option<ClockReading>,
    /// Nothing was stored at the last read.
    absent: bool,
}

struct Attempt {
    expected: Option<Bytes>,
    new: Bytes,
    record: Record,
    /// For a claim: the last timestamp that the previous leader may have issued.
    last: i64,
    /// Time before it was first sent.
    sent: ClockReading,
    /// Time of the last failure.
    failed: Option<ClockReading>,
}

/// Timestamps that the leader may issue.
pub(super) struct Leadership {
    record: Record,
    stored: Bytes,
    /// Time before the record was sent.
    began: ClockReading,
    /// Last timestamp issued.
    last: i64,
    /// Greatest timestamp requested.
    wanted: i64,
    resigns: bool,
}

/// Why no timestamps are available.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NeedMore {
    /// The bound must be raised first.
    Bound,
    /// Permanently: no timestamps are left.
    Exhausted,
    /// The requested timestamp is above the limit.
    OutOfRange(i64),
}

impl Leadership {
    pub fn holder(&self) -> u64 {
        self.record.holder
    }

    pub fn term(&self) -> u64 {
        self.record.term
    }

    pub fn bound(&self) -> i64 {
        self.record.bound
    }

    pub fn last(&self) -> i64 {
        self.last
    }

    /// Reserves `count` consecutive timestamps and returns the first and the last: step L4. They
    /// may be issued only after [`confirm`](Self::confirm).
    pub fn take(&mut self, count: i64) -> Result<(i64, i64), NeedMore> {
        let last = self.reserve(count)?;
        let first = self.last + 1;
        self.last = last;
        Ok((first, last))
    }

    /// Checks that `count` timestamps are available and returns the last of them.
    pub fn reserve(&mut self, count: i64) -> Result<i64, NeedMore> {
        let last = self.last.checked_add(count.max(1)).filter(|last| *last < i64::MAX - 2 * BOUND_BUFFER);
        let last = last.ok_or(NeedMore::Exhausted)?;
        if last <= self.record.bound {
            Ok(last)
        } else {
            self.wanted = self.wanted.max(last);
            Err(NeedMore::Bound)
        }
    }

    /// Makes all later timestamps greater than `timestamp`. Timestamps never go back.
    pub fn fast_forward(&mut self, timestamp: i64) -> Result<(), NeedMore> {
        if timestamp <= self.last {
            return Ok(());
        }
        if timestamp > FAST_FORWARD_MAX {
            return Err(NeedMore::OutOfRange(timestamp));
        }
        self.reserve(timestamp.saturating_sub(self.last))?;
        self.last = timestamp;
        Ok(())
    }

    /// Returns whether the server has led until now: step L5. Called after timestamps were taken
    /// and before they are issued.
    pub fn confirm(&self, now: ClockReading) -> Result<(), TimeLockError> {
        if self.resigns {
            return Err(TimeLockError::Stopped);
        }
        let elapsed = now.longest_since(self.began);
        if elapsed < self.record.lease {
            Ok(())
        } else {
            Err(TimeLockError::LeaseLapsed {
                elapsed,
                lease: self.record.lease,
                jumped: now.jumped_since(self.began),
            })
        }
    }
}

impl Election {
    /// Creates the election of a server that has not read the store yet. `holder` must be unique
    /// among all servers, including previous ones on this machine.
    pub fn new(holder: u64, address: String, lease: Duration, recovered: Option<i64>) -> Self {
        let phase = Phase::Standby(Standby::default());
        Self { holder, address, lease, recovered, phase, known: None, attempt: None }
    }

    /// Returns the leadership, if this server leads.
    pub fn leadership(&mut self) -> Option<&mut Leadership> {
        match &mut self.phase {
            Phase::Leading(leadership) => Some(leadership),
            _ => None,
        }
    }

    /// Returns the address of the leader, as far as this server knows.
    pub fn leader(&self) -> Option<&str> {
        match &self.phase {
            Phase::Leading(_) => Some(&self.address),
            Phase::Standby(Standby { seen: Some((_, Stored::Leased(record), _)), .. }) => {
                (!record.lease.is_zero()).then_some(&*record.address)
            }
            _ => None,
        }
    }

    /// Returns why this server sends no more requests to the store.
    pub fn ended(&self) -> Option<&TimeLockError> {
        match &self.phase {
            Phase::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Returns why this server issues no more timestamps, including while it still halts those
    /// of the others.
    pub fn stopped(&self) -> Option<&TimeLockError> {
        match &self.phase {
            Phase::Halting(halting) => Some(&halting.error),
            _ => self.ended(),
        }
    }

    /// Releases the lease with the next write if this server leads: step L6. From now on it issues
    /// nothing.
    pub fn resign(&mut self) {
        match &mut self.phase {
            Phase::Leading(leadership) => leadership.resigns = true,
            Phase::Standby(_) => self.phase = Phase::Ended(TimeLockError::Stopped),
            Phase::Halting(_) | Phase::Ended(_) => {}
        }
    }

    /// Ends with `error`: this server issues nothing from now on. A lease that it holds
    /// expires.
    pub fn fail(&mut self, error: TimeLockError) {
        self.phase = Phase::Ended(error);
    }

    /// Maximum interval between requests to the store.
    pub fn period(&self) -> Duration {
        self.lease / 5
    }

    /// Returns the next request to the store, if one is due. There is at most one at a time.
    ///
    /// The order of the cases follows the protocol: a write of unknown outcome is repeated with the
    /// same bytes before anything else, so that either attempt counts as the same write.
    pub fn next_request(&mut self, now: ClockReading) -> Option<Request> {
        let period = self.period();
        if let Some(attempt) = &self.attempt
            && attempt.failed.is_some_and(|failed| now.shortest_since(failed) < period / 4)
        {
            return None;
        }
        match &mut self.phase {
            Phase::Ended(_) => None,
            Phase::Halting(halting) => {
                if halting.failed.is_some_and(|failed| now.shortest_since(failed) < period / 4) {
                    return None;
                }
                Some(Request::Replace { expected: halting.expected.clone(), new: halting.new.clone() })
            }
            Phase::Standby(_) => self.next_claim(now),
            Phase::Leading(_) => self.next_renewal(now),
        }
    }

    /// Returns the next request of a standby: L1 and L2.
    fn next_claim(&mut self, now: ClockReading) -> Option<Request> {
        let period = self.period();
        let Phase::Standby(standby) = &mut self.phase else { return None };
        // The wall clock was set back and measures nothing any more: the wait starts again.
        if let Some((_, _, since)) = &mut standby.seen
            && now.wall_micros < since.wall_micros
        {
            *since = now;
        }
        let (last, expected, term) = match &standby.seen {
            // L2.
            Some((bytes, stored, since)) if now.shortest_since(*since) >= stored.wait() => {
                let term = match stored {
                    Stored::Plain(_) | Stored::Halted(_) => 1,
                    Stored::Leased(record) => record.term.saturating_add(1),
                };
                (stored.bound(), Some(bytes.clone()), term)
            }
            None if standby.absent => (self.recovered.unwrap_or(INITIAL_BOUND), None, 1),
            // L1.
            _ => {
                let due = standby.last_read.is_none_or(|last_read| now.longest_since(last_read) >= period);
                return due.then_some(Request::Read);
            }
        };
        // The same bytes as the previous attempt, so that the success of either is enough.
        let attempt = match self.attempt.take().filter(|attempt| attempt.expected == expected) {
            Some(attempt) => attempt,
            None => {
                let record = Record {
                    term,
                    sequence: 0,
                    bound: last.saturating_add(BOUND_BUFFER),
                    holder: self.holder,
                    lease: self.lease,
                    address: self.address.clone(),
                };
                Attempt { expected, new: record.encode(), record, last, sent: now, failed: None }
            }
        };
        Some(self.attempt.insert(attempt).request())
    }

    /// Returns the next request of the leader: L3.
    fn next_renewal(&mut self, now: ClockReading) -> Option<Request> {
        let period = self.period();
        let Phase::Leading(leadership) = &mut self.phase else { return None };
        let short = leadership.wanted > leadership.record.bound;
        let due = short || leadership.resigns || now.longest_since(leadership.began) >= period;
        if self.attempt.is_none() && !due {
            return None;
        }
        let attempt = self.attempt.get_or_insert_with(|| {
            let mut record = leadership.record.clone();
            record.sequence = record.sequence.saturating_add(1);
            let used = leadership.last.max(leadership.wanted);
            record.bound = record.bound.max(used.saturating_add(BOUND_BUFFER));
            if leadership.resigns {
                record.lease = Duration::ZERO;
            }
            let expected = Some(leadership.stored.clone());
            let last = leadership.last;
            Attempt { expected, new: record.encode(), record, last, sent: now, failed: None }
        });
        Some(attempt.request())
    }

    /// Handles the response to the last request. `now` is the time after it arrived.
    pub fn handle_response(&mut self, response: Response, now: ClockReading) {
        if let Phase::Halting(halting) = &mut self.phase {
            return match response {
                Response::Failed(_) => halting.failed = Some(now),
                Response::Applied => {
                    let error = halting.error.clone();
                    self.end(error);
                }
                Response::Found(Some(found)) if found == halting.new => {
                    let error = halting.error.clone();
                    self.end(error);
                }
                Response::Found(Some(found)) => {
                    let (known, what) = (halting.known, halting.what.clone());
                    self.halt(known, what, found);
                }
                Response::Found(None) | Response::Lost(_) => {
                    let what = halting.what.clone();
                    self.end(TimeLockError::BoundLost { what });
                }
            };
        }
        let found = match response {
            Response::Failed(_) => {
                match &mut self.attempt {
                    Some(attempt) => attempt.failed = Some(now),
                    None => {
                        if let Phase::Standby(standby) = &mut self.phase {
                            standby.last_read = Some(now);
                        }
                    }
                }
                // Retrying the same write also finds out whether the first attempt succeeded.
                return;
            }
            Response::Lost(what) => return self.end(TimeLockError::BoundLost { what }),
            Response::Applied => self.attempt.as_ref().map(|attempt| attempt.new.clone()),
            Response::Found(found) => found,
        };
        let Some(found) = found else {
            return match &mut self.phase {
                Phase::Standby(standby) if standby.seen.is_none() => {
                    (standby.last_read, standby.absent) = (Some(now), true);
                }
                Phase::Halting(_) | Phase::Ended(_) => {}
                _ => {
                    let what = "expected a stored bound, found none".to_owned();
                    self.end(TimeLockError::BoundLost { what });
                }
            };
        };
        match self.attempt.take() {
            // Our own write or an earlier attempt of it: no other server writes these bytes.
            Some(attempt) if attempt.new == found => self.written(attempt),
            // Not applied yet, and maybe never.
            Some(attempt) if attempt.expected.as_ref() == Some(&found) => {
                self.attempt = Some(Attempt { failed: Some(now), ..attempt });
                self.observe(found, now);
            }
            // No value recurs, so a pending attempt to replace an older one can have no effect
            // any more.
            _ => self.observe(found, now),
        }
    }

    fn written(&mut self, attempt: Attempt) {
        let Attempt { new, record, last, sent, .. } = attempt;
        self.known = Some(Mark::of_record(&record));
        match &mut self.phase {
            Phase::Halting(_) | Phase::Ended(_) => {}
            Phase::Standby(_) => {
                self.phase = Phase::Leading(Leadership {
                    stored: new,
                    began: sent,
                    last,
                    wanted: last,
                    resigns: false,
                    record,
                });
            }
            Phase::Leading(leadership) => {
                if record.lease.is_zero() {
                    return self.end(TimeLockError::Stopped);
                }
                (leadership.stored, leadership.record, leadership.began) = (new, record, sent);
            }
        }
    }

    /// Handles the value of another server.
    fn observe(&mut self, found: Bytes, now: ClockReading) {
        let stored = match Stored::decode(&found) {
            Ok(stored) => stored,
            Err(why) => return self.end(TimeLockError::BoundLost { what: why }),
        };
        if let Stored::Halted(halt) = &stored {
            return self.end(halt.error());
        }
        let mark = Mark::of(&stored);
        if let Some(known) = self.known.replace(mark)
            && known.is_lost_at(mark)
        {
            let what = format!(
                "the stored bound went back: expected at least bound {3} in term {4}, write {5}, \
                 found bound {0} in term {1}, write {2}: an older copy replaced it",
                mark.bound, mark.term, mark.sequence, known.bound, known.term, known.sequence
            );
            return self.halt(known, what, found);
        }
        match &mut self.phase {
            Phase::Halting(_) | Phase::Ended(_) => {}
            Phase::Standby(standby) => {
                standby.last_read = Some(now);
                standby.absent = false;
                if standby.seen.as_ref().is_none_or(|(seen, ..)| *seen != found) {
                    standby.seen = Some((found, stored, now));
                }
            }
            Phase::Leading(leadership) if leadership.resigns => self.end(TimeLockError::Stopped),
            Phase::Leading(leadership) if leadership.stored == found => {}
            // This server was deposed.
            Phase::Leading(_) => {
                let seen = Some((found, stored, now));
                self.phase = Phase::Standby(Standby { seen, last_read: Some(now), absent: false });
            }
        }
    }

    /// Stops issuing timestamps, and replaces `found` by a record that stops every other server:
    /// only this one knows that the store lost `known`.
    fn halt(&mut self, known: Mark, what: String, found: Bytes) {
        let stored = match Stored::decode(&found) {
            // Another server halted first.
            Ok(Stored::Halted(halt)) => return self.end(halt.error()),
            Ok(stored) => Mark::of(&stored),
            Err(why) => return self.end(TimeLockError::BoundLost { what: why }),
        };
        let (term, sequence) = (known.term, known.sequence).max((stored.term, stored.sequence));
        let sequence = sequence.saturating_add(1);
        let halt = Halt { term, sequence, bound: known.bound.max(stored.bound), reason: what.clone() };
        self.attempt = None;
        self.phase = Phase::Halting(Halting {
            known,
            what,
            error: halt.error(),
            expected: found,
            new: halt.encode(),
            failed: None,
        });
    }

    fn end(&mut self, error: TimeLockError) {
        self.attempt = None;
        self.phase = Phase::Ended(error);
    }
}

impl Attempt {
    fn request(&mut self) -> Request {
        self.failed = None;
        match &self.expected {
            Some(expected) => Request::Replace { expected: expected.clone(), new: self.new.clone() },
            None => Request::Create { new: self.new.clone() },
        }
    }
}

/// Returns the error of a server without timestamps left.
pub(super) fn exhausted(leadership: &Leadership) -> TimeLockError {
    TimeLockError::Exhausted(Timestamp(leadership.last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> ClockReading {
        ClockReading {
            monotonic: Duration::from_secs(seconds),
            wall_micros: (seconds * 1_000_000).cast_signed(),
        }
    }

    fn record(term: u64, sequence: u64, bound: i64) -> Bytes {
        let (address, lease) = ("other".to_owned(), Duration::from_secs(5));
        Record { term, sequence, bound, holder: 9, lease, address }.encode()
    }

    /// Returns a leading server and its stored record.
    fn leading() -> (Election, Record) {
        let mut election = Election::new(1, "own".to_owned(), Duration::from_secs(5), None);
        assert_eq!(election.next_request(at(100)), Some(Request::Read));
        election.handle_response(Response::Found(Some(record(3, 7, 5_000_000))), at(100));
        let asked = election.next_request(at(200));
        let Some(Request::Replace { new, .. }) = asked else { panic!("{asked:?}") };
        election.handle_response(Response::Applied, at(200));
        let Ok(Stored::Leased(record)) = Stored::decode(&new) else { panic!("{new:?}") };
        assert!(election.leadership().is_some());
        (election, record)
    }

    #[test]
    fn a_server_ends_when_the_store_lost_a_record_it_knows() {
        let (_, own) = leading();
        for (found, is_lost) in [
            (record(own.term + 1, 0, own.bound + BOUND_BUFFER), false),
            (record(own.term + 1, 0, own.bound - 1), true),
            (record(own.term - 1, 99, own.bound + BOUND_BUFFER), true),
            (record(3, 7, 5_000_000), true),
            (Bytes::copy_from_slice(&(own.bound + 1).to_be_bytes()), true),
        ] {
            // A deposed leader, and a standby server.
            for is_leading in [true, false] {
                let mut election = leading().0;
                if !is_leading {
                    assert!(election.next_request(at(202)).is_some());
                    let next = record(own.term + 1, 0, own.bound + BOUND_BUFFER);
                    election.handle_response(Response::Found(Some(next)), at(202));
                    assert!(election.leadership().is_none() && election.ended().is_none());
                }
                assert!(election.next_request(at(204)).is_some());
                election.handle_response(Response::Found(Some(found.clone())), at(204));
                let case = format!("leading: {is_leading}, {:?}", Stored::decode(&found));
                let stopped = matches!(election.stopped(), Some(TimeLockError::Halted { .. }));
                assert_eq!(stopped, is_lost, "{case}");
                if is_lost {
                    assert!(election.leadership().is_none() && election.ended().is_none(), "{case}");
                    stops_the_others(election, own.bound, found.clone());
                }
            }
        }
    }

    /// Checks how a server acts after it found that the store lost a bound.
    fn stops_the_others(mut election: Election, bound: i64, found: Bytes) {
        let halt = |asked: Option<Request>, instead_of: &Bytes| {
            let Some(Request::Replace { expected, new }) = asked else { panic!("{asked:?}") };
            assert_eq!(expected, instead_of);
            let Ok(Stored::Halted(halt)) = Stored::decode(&new) else { panic!("{new:?}") };
            assert!(halt.bound >= bound && halt.reason.contains("an older copy"), "{halt:?}");
            new
        };
        halt(election.next_request(at(205)), &found);
        // The store does not respond, and then another server of the lost term has written.
        election.handle_response(Response::Failed(StoreError::unknown("", "")), at(205));
        assert_eq!(election.next_request(at(205)), None, "not at once again");
        halt(election.next_request(at(206)), &found);
        let next = record(4, 1, bound - 5);
        election.handle_response(Response::Found(Some(next.clone())), at(206));
        let new = halt(election.next_request(at(206)), &next);
        // A request to stop does not keep it from halting the others.
        election.resign();
        election.handle_response(Response::Applied, at(206));
        assert!(matches!(election.ended(), Some(TimeLockError::Halted { .. })));
        // Leaders, standbys and new servers find the record and end.
        let mut fresh = Election::new(5, "fresh".to_owned(), Duration::from_secs(5), None);
        let (mut leader, mut standby) = (leading().0, leading().0);
        assert!(standby.next_request(at(202)).is_some());
        standby.handle_response(Response::Found(Some(record(9, 0, bound + BOUND_BUFFER))), at(202));
        for other in [&mut fresh, &mut leader, &mut standby] {
            assert!(other.next_request(at(208)).is_some());
            other.handle_response(Response::Found(Some(new.clone())), at(208));
            assert!(matches!(other.ended(), Some(TimeLockError::Halted { .. })));
        }
    }
}
