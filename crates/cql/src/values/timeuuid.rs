//! Version 1 UUIDs: their times, the limits of a time, and generation.
//!
//! ```text
//! time_low 32 · time_mid 16 · 0001 time_high 12 · clock sequence 16 · node 48
//! ```
//!
//! Time counts 100 ns from 1582-10-15.

use std::sync::atomic::{AtomicU64, Ordering};

/// From 1582-10-15 to 1970-01-01 in 100 ns.
const EPOCH_TICKS: i64 = 122_192_928_000_000_000;

/// Returns the UUID's creation time in microseconds since 1970.
pub fn to_micros(uuid: [u8; 16]) -> i64 {
    let high = (u128::from_be_bytes(uuid) >> 64) as u64;
    let ticks = (high & 0x0fff) << 48 | (high & 0xffff_0000) << 16 | high >> 32;
    (ticks as i64) / 10 - EPOCH_TICKS / 10
}

/// Returns the UUID's creation time in milliseconds since 1970.
pub fn to_millis(uuid: [u8; 16]) -> i64 {
    to_micros(uuid) / 1000
}

/// Returns the lowest UUID of a millisecond, in the order of timeuuids. It is a limit for
/// comparisons, not an identifier.
pub fn min_at_millis(ms: i64) -> [u8; 16] {
    // Of signed bytes, 0x80 is the lowest.
    assemble(ticks_of_millis(ms), 0x8080_8080_8080_8080)
}

/// Returns the highest UUID of a millisecond, in the order of timeuuids. It is a limit for
/// comparisons, not an identifier.
pub fn max_at_millis(ms: i64) -> [u8; 16] {
    assemble(ticks_of_millis(ms.wrapping_add(1)).wrapping_sub(1), 0x7f7f_7f7f_7f7f_7f7f)
}

fn ticks_of_millis(ms: i64) -> i64 {
    ms.wrapping_mul(10_000).wrapping_add(EPOCH_TICKS)
}

fn assemble(ticks: i64, low: u64) -> [u8; 16] {
    let ticks = ticks as u64;
    let high = ticks << 32 | (ticks & 0xffff_0000_0000) >> 16 | 0x1000 | ticks >> 48;
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// Generates distinct, ascending time UUIDs from arbitrary times.
#[derive(Debug)]
pub struct TimeUuids {
    /// Clock sequence and node.
    low: u64,
    /// The last time used, in 100 ns.
    last_ticks: AtomicU64,
}

impl TimeUuids {
    /// Creates a generator with 62 distinctive bits, usually random: two generators with the same
    /// bits can return the same UUID.
    pub fn new(bits: u64) -> Self {
        // The variant's bits are 10; the multicast bit marks the node as no address of a network
        // card.
        let low = bits & !(0b11 << 62) | 0b10 << 62 | 1 << 40;
        Self { low, last_ticks: AtomicU64::new(0) }
    }

    /// Returns a UUID of `now_us` (microseconds since 1970), or of the first unused time after the
    /// last one.
    pub fn next(&self, now_us: i64) -> [u8; 16] {
        let now = now_us.wrapping_mul(10).wrapping_add(EPOCH_TICKS) as u64;
        let next = |last: u64| now.max(last + 1);
        let update =
            self.last_ticks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        assemble(next(update.unwrap_or_else(|last| last)) as i64, self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cassette_rows::types::DataType;

    #[test]
    fn a_time_uuid_lies_between_the_bounds_of_its_millisecond() {
        let ms = 1_700_000_000_123;
        let uuids = TimeUuids::new(0x1234_5678_9abc_def0);
        let uuid = uuids.next(ms * 1000 + 999);
        assert_eq!(to_millis(uuid), ms);
        assert_eq!(uuid::Uuid::from_bytes(uuid).get_version_num(), 1);
        assert_eq!(uuid::Uuid::from_bytes(uuid).get_variant(), uuid::Variant::RFC4122);
        let order = |a: [u8; 16], b: [u8; 16]| DataType::TimeUuid.compare(&a, &b);
        assert!(order(min_at_millis(ms), uuid).is_lt() && order(uuid, max_at_millis(ms)).is_lt());
        assert!(order(max_at_millis(ms - 1), min_at_millis(ms)).is_lt());
    }

    #[test]
    fn time_uuids_ascend_when_the_clock_stands_still_or_goes_back() {
        let uuids = TimeUuids::new(7);
        let made: Vec<_> = [5_000_000, 5_000_000, 1, 5_000_001].map(|now| uuids.next(now)).into();
        assert!(made.is_sorted_by(|a, b| DataType::TimeUuid.compare(a, b).is_lt()));
    }
}
