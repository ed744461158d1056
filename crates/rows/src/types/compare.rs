//! The order of values, which is Cassandra's for every type.
//!
//! Every order is total over arbitrary bytes, so that merging and binary search remain sound on
//! values that no client could have written: values of a wrong length have a defined position, and
//! ties among them are broken by bytes. Equal values can have different bytes: decimals 1.5 and
//! 1.50 are one key.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

use super::{DataType, collection, vector};

impl DataType {
    /// Compares two values of this type in Cassandra's order. An empty value sorts before all
    /// others.
    ///
    /// Durations have no order in CQL; here they are ordered by their bytes.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Ascii | Self::Text | Self::Blob | Self::Inet | Self::Date | Self::Time | Self::Duration => {
                a.cmp(b)
            }
            Self::Int => compare_signed(a, b, i32::from_be_bytes),
            Self::BigInt | Self::Timestamp | Self::Counter => compare_signed(a, b, i64::from_be_bytes),
            Self::TimeUuid => compare_by(a, b, |uuid: [u8; 16]| time_uuid_rank(u128::from_be_bytes(uuid))),
            Self::Uuid => compare_by(a, b, |uuid: [u8; 16]| uuid_rank(u128::from_be_bytes(uuid))),
            other => other.compare_other(a, b),
        }
    }

    /// Returns whether values are equal only if their bytes are. False for 1.5 and 1.50, `true`
    /// written as 1 and as 2, and all NaNs.
    pub fn is_equal_by_bytes(&self) -> bool {
        matches!(
            self,
            Self::Ascii
                | Self::Text
                | Self::Blob
                | Self::Inet
                | Self::Date
                | Self::Time
                | Self::TinyInt
                | Self::SmallInt
                | Self::Int
                | Self::BigInt
                | Self::Timestamp
                | Self::TimeUuid
                | Self::Uuid
        )
    }

    /// Returns a number that is monotonic in the order of values: values with different numbers are
    /// ordered by them, and [`compare`](Self::compare) decides for equal numbers. It consists of
    /// the first eight bytes of a representation that sorts as the value does, and is 0 for types
    /// without one.
    #[inline]
    pub fn leading(&self, value: &[u8]) -> u64 {
        let first_bytes = || match value.first_chunk::<8>() {
            Some(first) => u64::from_be_bytes(*first),
            None => {
                value.iter().zip((0..8).rev()).fold(0, |sum, (byte, at)| sum | u64::from(*byte) << (8 * at))
            }
        };
        // Values of other lengths sort before all of the right length.
        let uuid = || <[u8; 16]>::try_from(value).map(u128::from_be_bytes);
        match self {
            Self::Ascii | Self::Text | Self::Blob | Self::Inet | Self::Date | Self::Time => first_bytes(),
            // A value without a first byte sorts first.
            Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt | Self::Timestamp => match value {
                [] => 0,
                _ => first_bytes() ^ 1 << 63,
            },
            Self::TimeUuid => uuid().map_or(0, |uuid| time_uuid_rank(uuid).0),
            Self::Uuid => uuid().map_or(0, |uuid| {
                let (version, high, _) = uuid_rank(uuid);
                u64::from(version) << 60 | high >> 4
            }),
            _ => 0,
        }
    }

    fn compare_other(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::TinyInt => compare_signed(a, b, i8::from_be_bytes),
            Self::SmallInt => compare_signed(a, b, i16::from_be_bytes),
            Self::Boolean => a.first().map(|byte| *byte != 0).cmp(&b.first().map(|byte| *byte != 0)),
            Self::Float => compare_by(a, b, |bytes| float_rank(f32::from_be_bytes(bytes))),
            Self::Double => compare_by(a, b, |bytes| double_rank(f64::from_be_bytes(bytes))),
            Self::VarInt => compare_varint(a, b),
            Self::Decimal => compare_decimal(a, b),
            Self::Empty => Ordering::Equal,
            Self::List { element, .. } | Self::Set { element, .. } => {
                compare_collection(a, b, collection::read_list, |_, a, b| element.compare(a, b))
            }
            Self::Map { key, value, .. } => {
                compare_collection(a, b, collection::read_map_items, |i, a, b| {
                    if i % 2 == 0 { key.compare(a, b) } else { value.compare(a, b) }
                })
            }
            Self::Tuple(items) => compare_tuple(items.iter(), a, b),
            Self::Udt { definition, .. } => {
                compare_tuple(definition.fields.iter().map(|(_, field)| field), a, b)
            }
            Self::Vector { element, dimension } => compare_vector(element, *dimension, a, b),
            Self::Custom(custom) => custom.compare(a, b),
            // All others are ordered by their bytes, or were handled by `compare`.
            _ => a.cmp(b),
        }
    }
}

/// Two's complement numbers of one width. With the sign bit flipped their bytes have the right
/// order, which also defines positions for values of other lengths.
#[inline]
fn compare_signed<const WIDTH: usize, N: Ord>(
    a: &[u8],
    b: &[u8],
    decode: impl Fn([u8; WIDTH]) -> N,
) -> Ordering {
    match (<[u8; WIDTH]>::try_from(a), <[u8; WIDTH]>::try_from(b)) {
        (Ok(a), Ok(b)) => decode(a).cmp(&decode(b)),
        _ => {
            let flipped = |bytes: &[u8]| bytes.first().map(|byte| byte ^ 0x80);
            flipped(a).cmp(&flipped(b)).then_with(|| a.cmp(b))
        }
    }
}

/// Values of `WIDTH` bytes by their rank, after all of other lengths, which are ordered by their
/// bytes (the empty one first).
#[inline]
fn compare_by<const WIDTH: usize, R: Ord>(a: &[u8], b: &[u8], rank: impl Fn([u8; WIDTH]) -> R) -> Ordering {
    match (<[u8; WIDTH]>::try_from(a), <[u8; WIDTH]>::try_from(b)) {
        (Ok(a), Ok(b)) => rank(a).cmp(&rank(b)),
        (a_fits, b_fits) => a_fits.is_ok().cmp(&b_fits.is_ok()).then_with(|| a.cmp(b)),
    }
}

/// The timestamp of a version 1 UUID (time_low, time_mid, version and time_hi), most significant
/// part first. All other bits are kept, so it also orders the high halves of arbitrary UUIDs of one
/// version.
#[inline]
fn reordered_timestamp(uuid: u128) -> u64 {
    let high = (uuid >> 64) as u64;
    high << 48 | (high << 16) & 0xffff_0000_0000 | high >> 32
}

/// By timestamp, then by the low eight bytes as **signed** bytes.
#[inline]
fn time_uuid_rank(uuid: u128) -> (u64, u64) {
    (reordered_timestamp(uuid), uuid as u64 ^ 0x8080_8080_8080_8080)
}

/// By version; version 1 then by timestamp, others by the high half; then by the low half,
/// unsigned.
#[inline]
fn uuid_rank(uuid: u128) -> (u8, u64, u64) {
    let high = (uuid >> 64) as u64;
    let version = (high >> 12 & 0xf) as u8;
    (version, if version == 1 { reordered_timestamp(uuid) } else { high }, uuid as u64)
}

/// Java's order: -0.0 before 0.0, all NaNs equal and last. As sign and magnitude, with the
/// magnitude of negative numbers inverted.
fn float_rank(value: f32) -> i32 {
    let bits = if value.is_nan() { f32::NAN.to_bits() & i32::MAX as u32 } else { value.to_bits() } as i32;
    bits ^ (bits >> 31) & i32::MAX
}

fn double_rank(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() & i64::MAX as u64 } else { value.to_bits() } as i64;
    bits ^ (bits >> 63) & i64::MAX
}

/// Compares two's complement numbers of any length, including redundant leading bytes; the empty
/// one sorts first.
pub fn compare_varint(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((a_first, _)), Some((b_first, _))) = (a.split_first(), b.split_first()) else {
        return a.len().cmp(&b.len());
    };
    let (a_negative, b_negative) = (a_first & 0x80 != 0, b_first & 0x80 != 0);
    if a_negative != b_negative {
        return b_negative.cmp(&a_negative);
    }
    let (a, b) = (significant(a), significant(b));
    let by_length = if a_negative { b.len().cmp(&a.len()) } else { a.len().cmp(&b.len()) };
    // With equal sign and length, two's complement numbers order as their bytes.
    by_length.then_with(|| a.cmp(b))
}

/// Returns the number without leading bytes that only repeat its sign.
fn significant(mut number: &[u8]) -> &[u8] {
    while let [first, second, ..] = number {
        if !(*first == 0 && *second < 0x80 || *first == 0xff && *second >= 0x80) {
            break;
        }
        number = &number[1..];
    }
    number
}

/// Compares `i32 scale, unscaled…` by numeric value. Values too short for a scale sort right after
/// the empty one.
fn compare_decimal(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((a_scale, a_unscaled)), Some((b_scale, b_unscaled))) =
        (a.split_first_chunk::<4>(), b.split_first_chunk::<4>())
    else {
        return (a.len() >= 4).cmp(&(b.len() >= 4)).then_with(|| a.cmp(b));
    };
    let (a_scale, b_scale) = (i32::from_be_bytes(*a_scale), i32::from_be_bytes(*b_scale));
    if a_scale == b_scale && !a_unscaled.is_empty() && !b_unscaled.is_empty() {
        return compare_varint(a_unscaled, b_unscaled);
    }
    let (a, b) = (BigInt::from_signed_bytes_be(a_unscaled), BigInt::from_signed_bytes_be(b_unscaled));
    match (a.sign(), b.sign()) {
        (Sign::Plus, Sign::Plus) => compare_magnitude(a.magnitude(), a_scale, b.magnitude(), b_scale),
        (Sign::Minus, Sign::Minus) => compare_magnitude(b.magnitude(), b_scale, a.magnitude(), a_scale),
        (a, b) => a.cmp(&b),
    }
}

/// Compares `a * 10^-a_scale` with `b * 10^-b_scale`, both positive.
fn compare_magnitude(a: &BigUint, a_scale: i32, b: &BigUint, b_scale: i32) -> Ordering {
    // A number of n bits has between (n - 1) * log10(2) and n * log10(2) decimal digits, before the
    // scale. Scales reach 2^31, so numbers are multiplied for a comparison only if their sizes are
    // close; the power then has no more digits than the longer number.
    let digits = |number: &BigUint, scale: i32| {
        let bits = number.bits() as f64;
        let log2 = std::f64::consts::LOG10_2;
        ((bits - 1.0) * log2 - f64::from(scale), bits * log2 - f64::from(scale))
    };
    let ((a_low, a_high), (b_low, b_high)) = (digits(a, a_scale), digits(b, b_scale));
    // A margin far above the rounding errors of numbers of this size.
    if a_high + 0.001 < b_low {
        return Ordering::Less;
    }
    if b_high + 0.001 < a_low {
        return Ordering::Greater;
    }
    let shift = i64::from(a_scale) - i64::from(b_scale);
    let power = BigUint::from(10_u8).pow(shift.unsigned_abs().min(u64::from(u32::MAX)) as u32);
    if shift < 0 { (a * power).cmp(b) } else { a.cmp(&(b * power)) }
}

/// Frozen lists, sets and maps: item by item, then by count.
fn compare_collection<'a>(
    a: &'a [u8],
    b: &'a [u8],
    read: impl Fn(&'a [u8]) -> collection::Items<'a>,
    compare: impl Fn(usize, &[u8], &[u8]) -> Ordering,
) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return b.is_empty().cmp(&a.is_empty());
    }
    let (mut a, mut b) = (read(a), read(b));
    for i in 0.. {
        let order = match (a.next(), b.next()) {
            (Some(Some(a)), Some(Some(b))) => compare(i, a, b),
            (Some(a), Some(b)) => a.is_some().cmp(&b.is_some()),
            (None, None) => break,
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    // Only values that end before their count can still differ.
    a.claimed().cmp(&b.claimed()).then_with(|| a.rest().cmp(b.rest()))
}

/// Compares tuples and UDTs item by item; null and missing items sort first.
fn compare_tuple<'t>(types: impl Iterator<Item = &'t DataType>, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return b.is_empty().cmp(&a.is_empty());
    }
    let (mut a, mut b) = (collection::read_tuple(a), collection::read_tuple(b));
    for item_type in types {
        let order = match (a.next().flatten(), b.next().flatten()) {
            (Some(a), Some(b)) => item_type.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    a.rest().cmp(b.rest())
}

fn compare_vector(element: &DataType, dimension: u32, a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) =
        (vector::read_vector(element, dimension, a), vector::read_vector(element, dimension, b));
    loop {
        let order = match (a.next(), b.next()) {
            (Some(a), Some(b)) => element.compare(a, b),
            (None, None) => return a.rest().cmp(b.rest()),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
