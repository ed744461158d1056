//! Who leads: what to ask of the store, and what its answers mean. No I/O, no waiting; times come from outside.
//!
//! `docs/transactions.md` has the steps, L1 to L6, and why two servers never give out timestamps at one time.

use std::time::Duration;

use bytes::Bytes;

use super::halt::Halt;
use super::lease::{Reading, Record, Stored};
use super::timestamps::{BOUND_BUFFER, INITIAL_BOUND};
use super::{FAST_FORWARD_MAX, TimeLockError};
use crate::store::StoreError;
use crate::timestamp::Timestamp;

/// What is asked of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// What is stored, serially.
    Read,
    /// To store this unless something is. Only where nothing says that something was.
    Create { new: Bytes },
    /// To store this in place of what was.
    Replace { expected: Bytes, new: Bytes },
}

/// What the store answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is stored.
    Applied,
    /// This is stored.
    Found(Option<Bytes>),
    /// Nothing is stored, but something was: what says so.
    Lost(String),
    /// Nobody knows whether it is stored.
    Failed(StoreError),
}

/// A server's part in who leads.
pub(super) struct Election {
    holder: u64,
    address: String,
    lease: Duration,
    /// For timestamps whose bound was lost: what an operator says is above all of them.
    recovered: Option<i64>,
    phase: Phase,
    /// What was stored when this server knew it last. Nothing that is stored later lies below.
    known: Option<Mark>,
    /// A write that nobody may know the outcome of. It is tried again until one is known.
    attempt: Option<Attempt>,
}

/// How far what is stored has got.
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

    /// Whether the store has lost what it had at `self`, when `later` is what it has: an older copy of it was put in its place.
    fn is_lost_at(self, later: Self) -> bool {
        later.bound < self.bound || (later.term, later.sequence) < (self.term, self.sequence)
    }
}

enum Phase {
    Standby(Standby),
    Leading(Leadership),
    /// The store has lost what this server knows of: it stops the timestamps for all servers.
    Halting(Halting),
    Ended(TimeLockError),
}

struct Halting {
    /// What the server knows of.
    known: Mark,
    what: String,
    error: TimeLockError,
    /// What is stored.
    expected: Bytes,
    new: Bytes,
    failed: Option<Reading>,
}

#[derive(Default)]
struct Standby {
    /// What is stored, and since when it has been seen.
    seen: Option<(Bytes, Stored, Reading)>,
    looked: Option<Reading>,
    /// Nothing was stored at the last look.
    absent: bool,
}

struct Attempt {
    expected: Option<Bytes>,
    new: Bytes,
    record: Record,
    /// The last timestamp that the leader before may have given out, for a claim.
    last: i64,
    /// Before it was first sent.
    sent: Reading,
    /// When it failed.
    failed: Option<Reading>,
}

/// What a server that leads may give out.
pub(super) struct Leadership {
    record: Record,
    stored: Bytes,
    /// Before the record was sent.
    began: Reading,
    /// The last timestamp given out.
    last: i64,
    /// Up to where timestamps are wanted.
    wanted: i64,
    resigns: bool,
}

/// Why there are no timestamps now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Short {
    /// The bound must be raised first.
    Bound,
    /// For ever.
    Exhausted,
    /// So far nobody may go.
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

    /// L4: the first and the last of `count` timestamps that follow each other. They may only be given out after
    /// [`confirm`](Self::confirm).
    pub fn take(&mut self, count: i64) -> Result<(i64, i64), Short> {
        let last = self.reserve(count)?;
        let first = self.last + 1;
        self.last = last;
        Ok((first, last))
    }

    /// Makes sure that `count` timestamps can be taken, and says which would be the last.
    pub fn reserve(&mut self, count: i64) -> Result<i64, Short> {
        let last = self.last.checked_add(count.max(1)).filter(|last| *last < i64::MAX - 2 * BOUND_BUFFER);
        let last = last.ok_or(Short::Exhausted)?;
        if last <= self.record.bound {
            Ok(last)
        } else {
            self.wanted = self.wanted.max(last);
            Err(Short::Bound)
        }
    }

    /// Makes all later timestamps greater than `timestamp`. Never goes back.
    pub fn fast_forward(&mut self, timestamp: i64) -> Result<(), Short> {
        if timestamp <= self.last {
            return Ok(());
        }
        if timestamp > FAST_FORWARD_MAX {
            return Err(Short::OutOfRange(timestamp));
        }
        self.reserve(timestamp.saturating_sub(self.last))?;
        self.last = timestamp;
        Ok(())
    }

    /// L5: whether the server has led until now. To be asked after timestamps were taken, and before they are given out.
    pub fn confirm(&self, now: Reading) -> Result<(), TimeLockError> {
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
    /// A server that has not looked yet. `holder` must be unlike any other server's, also this machine's before.
    pub fn new(holder: u64, address: String, lease: Duration, recovered: Option<i64>) -> Self {
        let phase = Phase::Standby(Standby::default());
        Self { holder, address, lease, recovered, phase, known: None, attempt: None }
    }

    /// What this server may give out, if it leads.
    pub fn leadership(&mut self) -> Option<&mut Leadership> {
        match &mut self.phase {
            Phase::Leading(leadership) => Some(leadership),
            _ => None,
        }
    }

    /// Who leads, as far as this server knows.
    pub fn leader(&self) -> Option<&str> {
        match &self.phase {
            Phase::Leading(_) => Some(&self.address),
            Phase::Standby(Standby { seen: Some((_, Stored::Leased(record), _)), .. }) => {
                (!record.lease.is_zero()).then_some(&*record.address)
            }
            _ => None,
        }
    }

    /// Why it asks nothing of the store any more.
    pub fn ended(&self) -> Option<&TimeLockError> {
        match &self.phase {
            Phase::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Why it gives nothing out any more, also while it still stops the timestamps for others.
    pub fn stopped(&self) -> Option<&TimeLockError> {
        match &self.phase {
            Phase::Halting(halting) => Some(&halting.error),
            _ => self.ended(),
        }
    }

    /// L6: gives the lease back at the next write, if this server has it. It gives out nothing from now on.
    pub fn resign(&mut self) {
        match &mut self.phase {
            Phase::Leading(leadership) => leadership.resigns = true,
            Phase::Standby(_) => self.phase = Phase::Ended(TimeLockError::Stopped),
            Phase::Halting(_) | Phase::Ended(_) => {}
        }
    }

    /// How often the store is asked, at least.
    pub fn period(&self) -> Duration {
        self.lease / 5
    }

    /// What to ask of the store now; `None` if nothing. One thing at a time.
    pub fn ask(&mut self, now: Reading) -> Option<Ask> {
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
                Some(Ask::Replace { expected: halting.expected.clone(), new: halting.new.clone() })
            }
            Phase::Standby(standby) => {
                // The wall clock was set back: it is no measure any more. Wait from now on.
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
                        let due = standby.looked.is_none_or(|looked| now.longest_since(looked) >= period);
                        return due.then_some(Ask::Read);
                    }
                };
                // The same bytes as before, if it was tried before: then either try is good.
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
                Some(self.attempt.insert(attempt).ask())
            }
            // L3.
            Phase::Leading(leadership) => {
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
                Some(attempt.ask())
            }
        }
    }

    /// Takes the answer to what was asked; `now` is after it came.
    pub fn answer(&mut self, answer: Answer, now: Reading) {
        if let Phase::Halting(halting) = &mut self.phase {
            return match answer {
                Answer::Failed(_) => halting.failed = Some(now),
                Answer::Applied => {
                    let error = halting.error.clone();
                    self.end(error);
                }
                Answer::Found(Some(found)) if found == halting.new => {
                    let error = halting.error.clone();
                    self.end(error);
                }
                Answer::Found(Some(found)) => {
                    let (known, what) = (halting.known, halting.what.clone());
                    self.halt(known, what, found);
                }
                Answer::Found(None) | Answer::Lost(_) => {
                    let what = halting.what.clone();
                    self.end(TimeLockError::BoundLost { what });
                }
            };
        }
        let found = match answer {
            Answer::Failed(_) => {
                match &mut self.attempt {
                    Some(attempt) => attempt.failed = Some(now),
                    None => {
                        if let Phase::Standby(standby) = &mut self.phase {
                            standby.looked = Some(now);
                        }
                    }
                }
                // The same write again is also the look whether the first was done.
                return;
            }
            Answer::Lost(what) => return self.end(TimeLockError::BoundLost { what }),
            Answer::Applied => self.attempt.as_ref().map(|attempt| attempt.new.clone()),
            Answer::Found(found) => found,
        };
        let Some(found) = found else {
            return match &mut self.phase {
                Phase::Standby(standby) if standby.seen.is_none() => {
                    (standby.looked, standby.absent) = (Some(now), true);
                }
                Phase::Halting(_) | Phase::Ended(_) => {}
                _ => {
                    let what = "it was there, and is not there any more".to_owned();
                    self.end(TimeLockError::BoundLost { what });
                }
            };
        };
        match self.attempt.take() {
            // An own write, also an earlier try of it: nobody else writes these bytes.
            Some(attempt) if attempt.new == found => self.written(attempt),
            // Not yet, and maybe never.
            Some(attempt) if attempt.expected.as_ref() == Some(&found) => {
                self.attempt = Some(Attempt { failed: Some(now), ..attempt });
                self.saw(found, now);
            }
            // No value comes back, so an attempt to replace one that is gone does nothing any more.
            _ => self.saw(found, now),
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

    /// Another's value is stored.
    fn saw(&mut self, found: Bytes, now: Reading) {
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
                "the store says bound {} in term {}, write {}, and had {} in term {}, write {} before: an older copy of it was put in its place",
                mark.bound, mark.term, mark.sequence, known.bound, known.term, known.sequence
            );
            return self.halt(known, what, found);
        }
        match &mut self.phase {
            Phase::Halting(_) | Phase::Ended(_) => {}
            Phase::Standby(standby) => {
                standby.looked = Some(now);
                standby.absent = false;
                if standby.seen.as_ref().is_none_or(|(seen, ..)| *seen != found) {
                    standby.seen = Some((found, stored, now));
                }
            }
            Phase::Leading(leadership) if leadership.resigns => self.end(TimeLockError::Stopped),
            Phase::Leading(leadership) if leadership.stored == found => {}
            // Deposed.
            Phase::Leading(_) => {
                let seen = Some((found, stored, now));
                self.phase = Phase::Standby(Standby { seen, looked: Some(now), absent: false });
            }
        }
    }

    /// Gives out nothing from now on, and puts a record in place of `found` that keeps every server from
    /// doing so: only this one knows that the store has lost `known`.
    fn halt(&mut self, known: Mark, what: String, found: Bytes) {
        let stored = match Stored::decode(&found) {
            // Another server was first.
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
    fn ask(&mut self) -> Ask {
        self.failed = None;
        match &self.expected {
            Some(expected) => Ask::Replace { expected: expected.clone(), new: self.new.clone() },
            None => Ask::Create { new: self.new.clone() },
        }
    }
}

/// The error of a server that has no timestamps left.
pub(super) fn exhausted(leadership: &Leadership) -> TimeLockError {
    TimeLockError::Exhausted(Timestamp(leadership.last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Reading {
        Reading { monotonic: Duration::from_secs(seconds), wall_micros: (seconds * 1_000_000).cast_signed() }
    }

    fn record(term: u64, sequence: u64, bound: i64) -> Bytes {
        let (address, lease) = ("other".to_owned(), Duration::from_secs(5));
        Record { term, sequence, bound, holder: 9, lease, address }.encode()
    }

    /// A server that leads, with what it has stored.
    fn leading() -> (Election, Record) {
        let mut election = Election::new(1, "own".to_owned(), Duration::from_secs(5), None);
        assert_eq!(election.ask(at(100)), Some(Ask::Read));
        election.answer(Answer::Found(Some(record(3, 7, 5_000_000))), at(100));
        let asked = election.ask(at(200));
        let Some(Ask::Replace { new, .. }) = asked else { panic!("{asked:?}") };
        election.answer(Answer::Applied, at(200));
        let Ok(Stored::Leased(record)) = Stored::decode(&new) else { panic!("{new:?}") };
        assert!(election.leadership().is_some());
        (election, record)
    }

    #[test]
    fn a_server_ends_when_the_store_has_less_than_what_it_knows_to_have_been_stored() {
        let (_, own) = leading();
        for (found, is_lost) in [
            (record(own.term + 1, 0, own.bound + BOUND_BUFFER), false),
            (record(own.term + 1, 0, own.bound - 1), true),
            (record(own.term - 1, 99, own.bound + BOUND_BUFFER), true),
            (record(3, 7, 5_000_000), true),
            (Bytes::copy_from_slice(&(own.bound + 1).to_be_bytes()), true),
        ] {
            // A leader that is deposed, and what it looks at when it stands by.
            for is_leading in [true, false] {
                let mut election = leading().0;
                if !is_leading {
                    assert!(election.ask(at(202)).is_some());
                    let next = record(own.term + 1, 0, own.bound + BOUND_BUFFER);
                    election.answer(Answer::Found(Some(next)), at(202));
                    assert!(election.leadership().is_none() && election.ended().is_none());
                }
                assert!(election.ask(at(204)).is_some());
                election.answer(Answer::Found(Some(found.clone())), at(204));
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

    /// What a server does that has found out that the store lost a bound.
    fn stops_the_others(mut election: Election, bound: i64, found: Bytes) {
        let halt = |asked: Option<Ask>, instead_of: &Bytes| {
            let Some(Ask::Replace { expected, new }) = asked else { panic!("{asked:?}") };
            assert_eq!(expected, instead_of);
            let Ok(Stored::Halted(halt)) = Stored::decode(&new) else { panic!("{new:?}") };
            assert!(halt.bound >= bound && halt.reason.contains("an older copy"), "{halt:?}");
            new
        };
        halt(election.ask(at(205)), &found);
        // The store does not answer, and then another server of the lost term has written.
        election.answer(Answer::Failed(StoreError::unknown("", "")), at(205));
        assert_eq!(election.ask(at(205)), None, "not at once again");
        halt(election.ask(at(206)), &found);
        let next = record(4, 1, bound - 5);
        election.answer(Answer::Found(Some(next.clone())), at(206));
        let new = halt(election.ask(at(206)), &next);
        // SIGTERM does not keep it from stopping the others.
        election.resign();
        election.answer(Answer::Applied, at(206));
        assert!(matches!(election.ended(), Some(TimeLockError::Halted { .. })));
        // Others that lead, stand by or start find it, and end.
        let mut fresh = Election::new(5, "fresh".to_owned(), Duration::from_secs(5), None);
        let (mut leader, mut standby) = (leading().0, leading().0);
        assert!(standby.ask(at(202)).is_some());
        standby.answer(Answer::Found(Some(record(9, 0, bound + BOUND_BUFFER))), at(202));
        for other in [&mut fresh, &mut leader, &mut standby] {
            assert!(other.ask(at(208)).is_some());
            other.answer(Answer::Found(Some(new.clone())), at(208));
            assert!(matches!(other.ended(), Some(TimeLockError::Halted { .. })));
        }
    }
}
