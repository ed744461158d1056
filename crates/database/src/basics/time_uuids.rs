//! Time UUIDs for `now()` and for the paths of list elements.
//!
//! A version 1 UUID counts ticks of 100 ns since 1582-10-15. Elements appended to a list get the
//! current ticks. Elements prepended get the ticks of a clock that runs backwards from 2010, so
//! they sort before all other elements, including those prepended before a restart. (Cassandra's
//! rule: `cql3/Lists.java`.)

use std::sync::atomic::{AtomicI64, Ordering};

use uuid::Uuid;

/// Ticks from 1582-10-15 to 1970-01-01.
const GREGORIAN_OFFSET: i64 = 0x01b2_1dd2_1381_4000;
/// 2010-01-01T00:00:00Z in microseconds.
const REFERENCE: i64 = 1_262_304_000_000_000;
const TICKS_PER_MICROSECOND: i64 = 10;
/// The last 8 bytes: a clock sequence, and a node id with the multicast bit, which no network
/// card's address has.
const CLOCK_AND_NODE: [u8; 8] = [0x80, 0, MULTICAST, 0, 0, 0, 0, 1];
/// The bit of the first byte of a node id.
const MULTICAST: u8 = 0x01;

/// A generator of unique time UUIDs.
#[derive(Debug)]
pub(crate) struct TimeUuids {
    /// Ticks since 1970 of the last UUID returned by `next`.
    last: AtomicI64,
    /// Microseconds since 1970 of the earliest UUID returned by `prepended`.
    last_prepended: AtomicI64,
    clock_and_node: [u8; 8],
}

impl TimeUuids {
    /// Returns a generator whose UUIDs are later than `micros` since 1970, even if the clock is
    /// earlier.
    pub fn after(micros: i64) -> Self {
        Self {
            last: AtomicI64::new(micros.saturating_mul(TICKS_PER_MICROSECOND)),
            last_prepended: AtomicI64::new(backwards(micros)),
            clock_and_node: CLOCK_AND_NODE,
        }
    }

    /// Returns the generator with another node id: the last 6 of these bytes.
    pub fn of_node(mut self, bytes: [u8; 16]) -> Self {
        self.clock_and_node[2..].copy_from_slice(&bytes[10..]);
        self.clock_and_node[2] |= MULTICAST;
        self
    }

    /// Lets `next` continue after `micros` since 1970, also if it has returned later UUIDs, which
    /// are returned again then.
    pub fn restart(&self, micros: i64) {
        self.last.store(micros.saturating_mul(TICKS_PER_MICROSECOND), Ordering::Relaxed);
    }

    /// Returns a UUID for `now_micros` (since 1970), later than all earlier ones.
    pub fn next(&self, now_micros: i64) -> Uuid {
        let now = now_micros.saturating_mul(TICKS_PER_MICROSECOND);
        let next = |last: i64| now.max(last.saturating_add(1));
        let update = |last| Some(next(last));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).unwrap_or(now);
        of_ticks(next(last), &self.clock_and_node)
    }

    /// Returns `count` ascending UUIDs that sort before those of all earlier calls.
    pub fn prepended(&self, now_micros: i64, count: usize) -> impl Iterator<Item = [u8; 16]> + use<> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let backwards = backwards(now_micros);
        let first = |earliest: i64| backwards.min(earliest).saturating_sub(count);
        let update = |earliest| Some(first(earliest));
        let earliest = self
            .last_prepended
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .unwrap_or(backwards);
        let first = first(earliest);
        let clock_and_node = self.clock_and_node;
        (0..count).map(move |i| {
            let ticks = first.saturating_add(i).saturating_mul(TICKS_PER_MICROSECOND);
            *of_ticks(ticks, &clock_and_node).as_bytes()
        })
    }

    /// Returns the time, in microseconds since 1970, whose UUIDs would sort before all prepended
    /// ones so far.
    pub fn prepended_upto(&self) -> i64 {
        backwards(self.last_prepended.load(Ordering::Relaxed))
    }
}

/// Mirrors `micros` at the reference time.
fn backwards(micros: i64) -> i64 {
    REFERENCE.saturating_sub(micros.saturating_sub(REFERENCE))
}

/// Returns the microseconds since 1970 of a version 1 UUID.
pub(crate) fn micros(uuid: Uuid) -> i64 {
    let ticks = uuid.get_timestamp().map_or(0, |timestamp| timestamp.to_gregorian().0);
    i64::try_from(ticks).map_or(0, |ticks| {
        ticks.saturating_sub(GREGORIAN_OFFSET).div_euclid(TICKS_PER_MICROSECOND).saturating_add(1)
    })
}

/// Returns the UUID of `ticks` since 1970.
fn of_ticks(ticks: i64, clock_and_node: &[u8; 8]) -> Uuid {
    let ticks = ticks.saturating_add(GREGORIAN_OFFSET) as u64;
    let (low, mid, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 & 0x0fff);
    Uuid::from_fields(low, mid, high | 0x1000, clock_and_node)
}

#[cfg(test)]
mod tests {
    use cassette_rows::DataType;

    use super::*;

    fn ascends(uuids: &[[u8; 16]]) -> bool {
        uuids.windows(2).all(|pair| DataType::TimeUuid.compare(&pair[0], &pair[1]).is_lt())
    }

    #[test]
    fn uuids_ascend_also_when_the_clock_stands_still_or_goes_back() {
        let uuids = TimeUuids::after(0);
        let given: Vec<_> =
            [5, 5, 4, 6, 6, 1_700_000_000_000_000].map(|now| *uuids.next(now).as_bytes()).into();
        assert!(ascends(&given));
        assert_eq!(micros(Uuid::from_bytes(given[5])), 1_700_000_000_000_001);
        assert_eq!(Uuid::from_bytes(given[5]).get_version_num(), 1);
        assert_eq!(Uuid::from_bytes(given[5]).get_timestamp().unwrap().to_unix(), (1_700_000_000, 0));
    }

    #[test]
    fn prepended_elements_ascend_among_themselves_and_come_before_all_earlier_ones() {
        let uuids = TimeUuids::after(0);
        let now = 1_700_000_000_000_000;
        let first: Vec<_> = uuids.prepended(now, 3).collect();
        assert_eq!(uuids.prepended_upto(), now + 3);
        let second: Vec<_> = uuids.prepended(now, 2).collect();
        let later: Vec<_> = TimeUuids::after(0).prepended(now + 10, 2).collect();
        assert!(ascends(&[&later[..], &second, &first, &[*uuids.next(now).as_bytes()]].concat()));
    }
}
