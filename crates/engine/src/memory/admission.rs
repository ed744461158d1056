//! The order in which writes are admitted when not all can be.
//!
//! Two resources are scarce. Memtable memory is freed only as fast as memtables are flushed. And
//! one thread at a time writes the commit log, so a write of 100 bytes waits while the megabytes
//! before it are copied. Therefore an owner that writes much must not be admitted first merely
//! because it came first:
//!
//! 1. **Large writes** are admitted until [`IN_FLIGHT_MAX`] bytes of them are in progress, or a
//!    larger one alone. The next one is that of the owner with the fewest recently written bytes.
//!    If small writes of another owner arrive meanwhile, large ones pause for [`PAUSE`] times the
//!    duration of the last one: the others wait at most a third of the time.
//! 2. **The last part of the memory** is shared by owners: large writes get none of it, and small
//!    ones of an owner until it uses as much as is left (Choudhury and Hahne's dynamic threshold).
//!    An owner that writes at the maximum rate gets half of it and leaves half for the others, two
//!    leave a third, and so on: some is always left for the next.
//!
//! This module decides; [`MemtablePool`](crate::memory::pool::MemtablePool) counts and waits.

use std::time::Duration;

use cassette_rows::owner::Owner;
use hashbrown::HashMap;

/// Writes from this size on are large, bytes. Copying one takes about as long as a few complete
/// small writes.
pub(crate) const LARGE: usize = 256 << 10;

/// The maximum bytes of large writes in progress: what the commit log writes in about 10 ms.
const IN_FLIGHT_MAX: usize = 8 << 20;

/// Beyond this, the recent bytes of all owners are halved, so that older writes count less.
const RECENT_MAX: usize = 256 << 20;

/// The length of a pause of large writes, as a multiple of the duration of the last one.
const PAUSE: u32 = 2;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The memory and time at an admission.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub used: usize,
    /// Beyond this, memory is for small writes and shared by owners.
    pub shared_from: usize,
    pub limit: usize,
    /// Monotonic time.
    pub now: Duration,
}

/// Waiting writes, and recently written bytes.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    waiting: Vec<Waiter>,
    /// Bytes of admitted large writes.
    in_flight: usize,
    /// The end of the pause of large writes.
    pause_until: Duration,
    /// Bytes admitted by this module, which excludes small writes while there is memory for all.
    recent: HashMap<Owner, usize>,
    next_id: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    id: u64,
    owner: Owner,
    bytes: usize,
}

impl Admission {
    /// Registers a write of `owner`. Returns its number.
    pub fn enter(&mut self, owner: Owner, bytes: usize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.push(Waiter { id, owner, bytes });
        id
    }

    /// Removes a waiting write.
    pub fn leave(&mut self, id: u64) {
        self.waiting.retain(|waiter| waiter.id != id);
    }

    /// Admits a write, if it can continue now. [`end`](Self::end) must follow.
    pub fn admit(&mut self, id: u64, found: Found) -> bool {
        let Some(place) = self.waiting.iter().position(|waiter| waiter.id == id) else { return false };
        let waiter = self.waiting[place];
        if !self.may_go_on(&waiter, found) {
            return false;
        }
        self.waiting.remove(place);
        if waiter.bytes >= LARGE {
            self.in_flight += waiter.bytes;
        }
        let recent = self.recent.entry(waiter.owner).or_default();
        *recent += waiter.bytes;
        if *recent > RECENT_MAX {
            self.age();
        }
        true
    }

    fn may_go_on(&self, waiter: &Waiter, found: Found) -> bool {
        if waiter.bytes < LARGE {
            let left = found.limit.saturating_sub(found.used);
            return found.used < found.shared_from || self.recent(waiter) + waiter.bytes <= left;
        }
        let fits = |bytes: usize, limit: usize| self.in_flight == 0 || self.in_flight + bytes <= limit;
        let turn = |waiter: &Waiter| (self.recent(waiter), waiter.id);
        let mut large = self.waiting.iter().filter(|other| other.bytes >= LARGE);
        found.used < found.shared_from
            && found.now >= self.pause_until
            && fits(waiter.bytes, IN_FLIGHT_MAX)
            && fits(waiter.bytes, found.shared_from.saturating_sub(found.used))
            && large.all(|other| turn(other) >= turn(waiter))
    }

    fn recent(&self, waiter: &Waiter) -> usize {
        self.recent.get(&waiter.owner).copied().unwrap_or(0)
    }

    /// Adds bytes to an admitted large write that turned out to be larger.
    pub fn grow(&mut self, bytes: usize) {
        self.in_flight += bytes;
    }

    /// Ends an admitted large write.
    pub fn end(&mut self, bytes: usize) {
        self.in_flight -= bytes;
    }

    /// Pauses large writes, because one of them stalled others for `took` until `now`.
    pub fn pause(&mut self, now: Duration, took: Duration) {
        self.pause_until = self.pause_until.max(now + (took * PAUSE).min(PAUSE_MAX));
    }

    /// Returns the remaining time of the pause.
    pub fn pause_left(&self, now: Duration) -> Duration {
        self.pause_until.saturating_sub(now)
    }

    /// Reduces the weight of earlier writes after memory was freed.
    pub fn age(&mut self) {
        self.recent.retain(|_, bytes| {
            *bytes /= 2;
            *bytes > 0
        });
    }

    /// Whether large writes are in progress.
    pub fn is_busy(&self) -> bool {
        self.in_flight > 0 || !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const FREE: Found = Found { used: 0, shared_from: 112 * MIB, limit: 128 * MIB, now: Duration::ZERO };

    fn used(mib: usize) -> Found {
        Found { used: mib * MIB, ..FREE }
    }

    /// Returns the waiting writes that are admitted now.
    fn let_in(admission: &mut Admission, waiting: &[u64], found: Found) -> Vec<u64> {
        waiting.iter().copied().filter(|id| admission.admit(*id, found)).collect()
    }

    #[test]
    fn a_small_write_goes_on_before_large_ones_of_another_owner_that_came_first() {
        let mut admission = Admission::default();
        let large: Vec<u64> = (0..8).map(|_| admission.enter(Owner(1), 15 * MIB)).collect();
        let small = admission.enter(Owner(2), 100);
        assert!(admission.admit(small, FREE));
        assert_eq!(let_in(&mut admission, &large, FREE), large[..1], "one at a time");
        let small = admission.enter(Owner(2), 100);
        assert!(admission.admit(small, FREE), "while a large one is on its way");
        let small = admission.enter(Owner(2), 100);
        assert!(admission.admit(small, used(127)), "and when there is no memory for large ones");
        admission.end(15 * MIB);
        assert_eq!(let_in(&mut admission, &large, used(112)), large[..0]);
        assert_eq!(let_in(&mut admission, &large, FREE), large[1..2]);
    }

    #[test]
    fn a_large_write_goes_on_before_those_of_an_owner_who_has_written_more() {
        let mut admission = Admission::default();
        let mut first: Vec<u64> = (0..3).map(|_| admission.enter(Owner(1), 5 * MIB)).collect();
        assert_eq!(let_in(&mut admission, &first, FREE), first[..1]);
        let second: Vec<u64> = (0..2).map(|_| admission.enter(Owner(2), 6 * MIB)).collect();
        first.remove(0);
        admission.end(5 * MIB);
        let all = [&first[..], &second].concat();
        assert_eq!(let_in(&mut admission, &all, FREE), second[..1]);
        admission.end(6 * MIB);
        assert_eq!(let_in(&mut admission, &all, FREE), first[..1]);
        admission.end(5 * MIB);
        assert_eq!(let_in(&mut admission, &all, FREE), second[1..]);
        admission.end(6 * MIB);
        assert_eq!(let_in(&mut admission, &all, FREE), first[1..]);
        admission.end(5 * MIB);
        assert!(!admission.is_busy());
    }

    #[test]
    fn large_writes_go_on_together_while_they_are_few_bytes() {
        let mut admission = Admission::default();
        let writes: Vec<u64> = (0..3).map(|_| admission.enter(Owner(1), 3 * MIB)).collect();
        assert_eq!(let_in(&mut admission, &writes, FREE), writes[..2]);
        admission.leave(writes[2]);
        admission.end(3 * MIB);
        admission.end(3 * MIB);
        assert!(!admission.is_busy());
    }

    #[test]
    fn large_writes_pause_after_one_that_held_others_up() {
        let at = |millis| Found { now: Duration::from_millis(millis), ..FREE };
        let mut admission = Admission::default();
        let writes: Vec<u64> = (0..2).map(|_| admission.enter(Owner(1), 15 * MIB)).collect();
        assert!(admission.admit(writes[0], at(1000)));
        admission.end(15 * MIB);
        admission.pause(Duration::from_millis(1010), Duration::from_millis(10));
        assert!(!admission.admit(writes[1], at(1029)));
        let small = admission.enter(Owner(2), 100);
        assert!(admission.admit(small, at(1029)));
        assert_eq!(admission.pause_left(Duration::from_millis(1029)), Duration::from_millis(1));
        assert!(admission.admit(writes[1], at(1030)));
    }

    #[test]
    fn no_owner_of_small_writes_takes_the_last_memory_from_the_others() {
        const BYTES: usize = 64 << 10;
        let mut admission = Admission::default();
        let mut memory = used(112);
        let write = |admission: &mut Admission, owner: u64, memory: &mut Found| {
            let id = admission.enter(Owner(owner), BYTES);
            let goes_on = admission.admit(id, *memory);
            if goes_on {
                memory.used += BYTES
            } else {
                admission.leave(id)
            }
            goes_on
        };
        while write(&mut admission, 1, &mut memory) {}
        assert_eq!(memory.used, 120 * MIB, "half of what is shared");
        while write(&mut admission, 2, &mut memory) {}
        assert_eq!(memory.used, 124 * MIB, "half of the rest");
        assert!(write(&mut admission, 3, &mut memory));
        assert!(!write(&mut admission, 1, &mut memory) && !write(&mut admission, 2, &mut memory));
        admission.age();
        assert!(write(&mut admission, 1, &mut used(120)), "memory was freed meanwhile");
    }

    #[test]
    fn what_was_written_long_ago_does_not_count() {
        let mut admission = Admission::default();
        for _ in 0..1000 {
            let id = admission.enter(Owner(1), 15 * MIB);
            assert!(admission.admit(id, FREE));
            admission.end(15 * MIB);
        }
        let old = admission.enter(Owner(1), 15 * MIB);
        for turn in 0.. {
            let new = admission.enter(Owner(2), 15 * MIB);
            if admission.admit(old, FREE) {
                break;
            }
            assert!(turn < RECENT_MAX / (15 * MIB), "the other owner never gets its turn");
            assert!(admission.admit(new, FREE));
            admission.end(15 * MIB);
        }
    }
}
