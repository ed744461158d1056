//! Test vectors of the formats, computed by an independent implementation from the definitions in
//! ADR 16 and all values printed there.

use std::ops::RangeInclusive;

use super::*;
use crate::timestamp::{Timestamp, TransactionStatus};
use proptest::prelude::*;
use tickets::Tickets;
use two_stage::Stage;

/// Value, VAR_LONG, VAR_SIGNED_LONG.
#[rustfmt::skip]
const NUMBERS: &[(i64, &str, &str)] = &[
    (0, "00", "80"),
    (1, "01", "81"),
    (2, "02", "82"),
    (10, "0a", "8a"),
    (20, "14", "94"),
    (28, "1c", "9c"),
    (33, "21", "a1"),
    (37, "25", "a5"),
    (42, "2a", "aa"),
    (63, "3f", "bf"),
    (64, "40", "c040"),
    (127, "7f", "c07f"),
    (128, "8080", "c080"),
    (129, "8081", "c081"),
    (255, "80ff", "c0ff"),
    (256, "8100", "c100"),
    (16383, "bfff", "e03fff"),
    (16384, "c04000", "e04000"),
    (65535, "c0ffff", "e0ffff"),
    (65536, "c10000", "e10000"),
    (1562499, "d7d783", "f017d783"),
    (2097151, "dfffff", "f01fffff"),
    (2097152, "e0200000", "f0200000"),
    (3141592, "e02fefd8", "f02fefd8"),
    (3141595, "e02fefdb", "f02fefdb"),
    (25000000, "e17d7840", "f17d7840"),
    (268435455, "efffffff", "f80fffffff"),
    (268435456, "f010000000", "f810000000"),
    (4294967295, "f0ffffffff", "f8ffffffff"),
    (4294967296, "f100000000", "f900000000"),
    (34359738367, "f7ffffffff", "fc07ffffffff"),
    (34359738368, "f80800000000", "fc0800000000"),
    (4398046511103, "fbffffffffff", "fe03ffffffffff"),
    (4398046511104, "fc040000000000", "fe040000000000"),
    (562949953421311, "fdffffffffffff", "ff01ffffffffffff"),
    (562949953421312, "fe02000000000000", "ff02000000000000"),
    (72057594037927935, "feffffffffffffff", "ff80ffffffffffffff"),
    (72057594037927936, "ff0100000000000000", "ff8100000000000000"),
    (9223372036854775806, "ff7ffffffffffffffe", "ffc07ffffffffffffffe"),
    (9223372036854775807, "ff7fffffffffffffff", "ffc07fffffffffffffff"),
    (-1, "ff80ffffffffffffffff", "7f"),
    (-2, "ff80fffffffffffffffe", "7e"),
    (-128, "ff80ffffffffffffff80", "3f80"),
    (-4294967296, "ff80ffffffff00000000", "0700000000"),
    (i64::MIN, "ff808000000000000000", "003f8000000000000000"),
];

/// Start, commit (-1: aborted), key, value.
#[rustfmt::skip]
const PLAIN: &[(i64, i64, &str, &str)] = &[
    (20, 33, "14", "21"),
    (28, 42, "1c", "2a"),
    (37, -1, "25", "ff80ffffffffffffffff"),
    (3141592, 3141595, "e02fefd8", "e02fefdb"),
    (1, 2, "01", "02"),
    (127, 128, "7f", "8080"),
    (128, 16384, "8080", "c04000"),
    (25000000, 25000001, "e17d7840", "e17d7841"),
];

/// Start, commit (-1: aborted), row number, key, column number, column, value, staging value,
/// committed value.
#[rustfmt::skip]
#[expect(clippy::type_complexity, reason = "a table")]
const TICKETS: &[(i64, i64, i64, &str, i64, &str, &str, &str, &str)] = &[
    (1, 2, 1, "8000000000000000", 0, "00", "01", "0100", "0101"),
    (2, 3, 2, "4000000000000000", 0, "00", "01", "0100", "0101"),
    (15, 18, 15, "f000000000000000", 0, "00", "03", "0300", "0301"),
    (16, 17, 0, "0000000000000000", 1, "01", "01", "0100", "0101"),
    (17, -1, 1, "8000000000000000", 1, "01", "", "00", "01"),
    (20, 33, 4, "2000000000000000", 1, "01", "0d", "0d00", "0d01"),
    (28, 42, 12, "3000000000000000", 1, "01", "0e", "0e00", "0e01"),
    (37, -1, 5, "a000000000000000", 2, "02", "", "00", "01"),
    (255, 256, 15, "f000000000000000", 15, "0f", "01", "0100", "0101"),
    (2032, 2159, 0, "0000000000000000", 127, "7f", "7f", "7f00", "7f01"),
    (2048, 2176, 0, "0000000000000000", 128, "8080", "8080", "808000", "808001"),
    (10000, 10016, 0, "0000000000000000", 625, "8271", "10", "1000", "1001"),
    (123456, 123457, 0, "0000000000000000", 7716, "9e24", "01", "0100", "0101"),
    (999999, 1000126, 15, "f000000000000000", 62499, "c0f423", "7f", "7f00", "7f01"),
    (999999, 1000127, 15, "f000000000000000", 62499, "c0f423", "8080", "808000", "808001"),
    (3141592, 3141595, 8, "1000000000000000", 196349, "c2fefd", "03", "0300", "0301"),
    (262128, 262129, 0, "0000000000000000", 16383, "bfff", "01", "0100", "0101"),
    (262144, 278528, 0, "0000000000000000", 16384, "c04000", "c04000", "c0400000", "c0400001"),
    (24999984, 25000001, 0, "0000000000000000", 1562499, "d7d783", "11", "1100", "1101"),
    (24999999, 25000000, 15, "f000000000000000", 1562499, "d7d783", "01", "0100", "0101"),
    (25000000, 25000003, 16, "0800000000000000", 0, "00", "03", "0300", "0301"),
    (25000001, -1, 17, "8800000000000000", 0, "00", "", "00", "01"),
    (25000016, 25002064, 16, "0800000000000000", 1, "01", "8800", "880000", "880001"),
    (49999999, 50000000, 31, "f800000000000000", 1562499, "d7d783", "01", "0100", "0101"),
    (50000000, 50000021, 32, "0400000000000000", 0, "00", "15", "1500", "1501"),
    (317578432, 317578433, 192, "0300000000000000", 1098652, "d0c39c", "01", "0100", "0101"),
    (400000000, 400000000, 256, "0080000000000000", 0, "00", "00", "0000", "0001"),
    (1000000007, 1000016391, 647, "e140000000000000", 0, "00", "c04000", "c0400000", "c0400001"),
    (102400000000, 102400000001, 65536, "0000800000000000", 0, "00", "01", "0100", "0101"),
    (1099511627776, 1099511627903, 703680, "033d500000000000", 726736, "cb16d0", "7f", "7f00", "7f01"),
    (9007199254740993, 9007199254741121, 5764607521, "847719ea80000000", 296312, "c48578", "8080", "808000", "808001"),
    (i64::MAX - 1, i64::MAX, 5902958103598, "74311dc67aa00000", 298487, "c48df7", "01", "0100", "0101"),
    (
        1, i64::MAX, 1, "8000000000000000", 0, "00",
        "ff7ffffffffffffffe", "ff7ffffffffffffffe00", "ff7ffffffffffffffe01",
    ),
];

/// Row number, key.
#[rustfmt::skip]
const KEYS: &[(i64, &str)] = &[
    (0, "0000000000000000"), (16, "0800000000000000"),
    (1, "8000000000000000"), (17, "8800000000000000"),
    (2, "4000000000000000"), (18, "4800000000000000"),
    (3, "c000000000000000"), (19, "c800000000000000"),
    (4, "2000000000000000"), (20, "2800000000000000"),
    (5, "a000000000000000"), (21, "a800000000000000"),
    (6, "6000000000000000"), (22, "6800000000000000"),
    (7, "e000000000000000"), (23, "e800000000000000"),
    (8, "1000000000000000"), (24, "1800000000000000"),
    (9, "9000000000000000"), (25, "9800000000000000"),
    (10, "5000000000000000"), (26, "5800000000000000"),
    (11, "d000000000000000"), (27, "d800000000000000"),
    (12, "3000000000000000"), (28, "3800000000000000"),
    (13, "b000000000000000"), (29, "b800000000000000"),
    (14, "7000000000000000"), (30, "7800000000000000"),
    (15, "f000000000000000"), (31, "f800000000000000"),
];

/// Quantum, rows, start, row number, key, column number, column.
#[rustfmt::skip]
const OTHER_PARAMETERS: &[(i64, i64, i64, i64, &str, i64, &str)] = &[
    (1000000, 100, 1234567, 167, "e500000000000000", 2345, "8929"),
    (1000000, 100, 42, 42, "5400000000000000", 0, "00"),
    (50000000, 31, 50000000, 31, "f800000000000000", 0, "00"),
    (50000000, 31, 49999999, 6, "6000000000000000", 1612903, "d89c67"),
    (50000000, 31, 123456789, 81, "8a00000000000000", 756670, "cb8bbe"),
];

/// First and last start, first and last row number, rows.
#[rustfmt::skip]
const RANGES: &[(i64, i64, i64, i64, i64)] = &[
    (1, 1, 0, 15, 16),
    (2, 7, 0, 15, 16),
    (0, 24999999, 0, 15, 16),
    (24999999, 25000000, 0, 31, 32),
    (25000000, 25000000, 16, 31, 16),
    (49999999, 100000001, 16, 79, 64),
    (100000000, 199999999, 64, 127, 64),
    (1, 1000000000, 0, 655, 656),
];

fn status(commit: i64) -> TransactionStatus {
    match commit {
        -1 => TransactionStatus::Aborted,
        commit => TransactionStatus::Committed(Timestamp(commit)),
    }
}

#[test]
fn numbers_match_the_test_vectors_and_round_trip() {
    for (value, plain, signed) in NUMBERS {
        let bytes = var_long::encode(*value);
        assert_eq!(hex(&bytes), *plain, "{value}");
        assert_eq!(bytes.len(), var_long::length(*value), "{value}");
        assert_eq!(var_long::decode(&bytes), Ok(*value));
        assert_eq!(var_long::decode_non_negative(&bytes).is_ok(), *value >= 0, "{value}");
        assert_eq!(hex(&var_long::encode_signed(*value)), *signed, "{value}");
        assert_eq!(var_long::decode_signed(&var_long::encode_signed(*value)), Ok(*value));
    }
}

#[test]
fn truncated_numbers_and_trailing_bytes_are_rejected() {
    for (value, _, _) in NUMBERS {
        for mut bytes in [var_long::encode(*value), var_long::encode_signed(*value)] {
            let decode =
                if bytes == var_long::encode(*value) { var_long::decode } else { var_long::decode_signed };
            for length in 0..bytes.len() {
                assert!(decode(&bytes[..length]).is_err(), "{value}: {length} bytes");
            }
            bytes.push(0);
            assert!(decode(&bytes).is_err(), "{value}");
        }
    }
    assert!(var_long::decode(&[0xff; 10]).is_err());
    assert!(var_long::decode(&[0x80, 0x01]).is_err(), "longer than 1 needs");
}

#[test]
fn layout_1_matches_the_test_vectors() {
    for (start, commit, row, value) in PLAIN {
        let start = Timestamp(*start);
        assert_eq!(hex(&plain::row(start)), *row);
        assert_eq!(plain::start(&plain::row(start)), Ok(start));
        let bytes = plain::value(status(*commit));
        assert_eq!(hex(&bytes), *value);
        assert_eq!(plain::status(&bytes), Ok(status(*commit)));
    }
    assert_eq!(hex(plain::COLUMN), "74");
    assert!(plain::status(&var_long::encode(-2)).is_err());
}

#[test]
fn layouts_2_and_3_match_the_test_vectors() {
    let tickets = Tickets::STANDARD;
    for (start, commit, row, key, column, column_bytes, value, staging, committed) in TICKETS {
        let (start, status) = (Timestamp(*start), status(*commit));
        assert_eq!((tickets.row_number(start.0), tickets.column_number(start.0)), (*row, *column));
        let cell = tickets.cell(start);
        assert_eq!((hex(&cell.0).as_str(), hex(&cell.1).as_str()), (*key, *column_bytes), "{start}");
        assert_eq!(tickets.start(&cell.0, &cell.1), Ok(start));
        let bytes = tickets::value(start, status);
        assert_eq!(hex(&bytes), *value, "{start}");
        assert_eq!(tickets::status(start, &bytes), Ok(status));
        for (stage, expected) in [(Stage::Staging, staging), (Stage::Committed, committed)] {
            let bytes = two_stage::value(start, status, stage);
            assert_eq!(hex(&bytes), *expected, "{start}");
            assert_eq!(two_stage::status(start, &bytes), Ok((status, stage)));
        }
    }
}

#[test]
fn keys_of_the_first_two_quanta_match_the_test_vectors() {
    for (number, key) in KEYS {
        assert_eq!(hex(&tickets::row_key(*number)), *key);
    }
}

#[test]
fn other_ticket_parameters_match_the_test_vectors() {
    for (quantum, rows, start, row, key, column, column_bytes) in OTHER_PARAMETERS {
        let tickets = Tickets::new(*quantum, *rows).unwrap();
        assert_eq!((tickets.row_number(*start), tickets.column_number(*start)), (*row, *column));
        let cell = tickets.cell(Timestamp(*start));
        assert_eq!((hex(&cell.0).as_str(), hex(&cell.1).as_str()), (*key, *column_bytes));
        assert_eq!(tickets.start(&cell.0, &cell.1), Ok(Timestamp(*start)));
    }
    assert_eq!([Tickets::new(10, 0), Tickets::new(10, 11), Tickets::new(0, 0)], [None, None, None]);
}

#[test]
fn row_ranges_of_start_timestamps_match_the_test_vectors() {
    let tickets = Tickets::STANDARD;
    for (low, high, first, last, count) in RANGES {
        let rows = tickets.row_numbers(*low..=*high).unwrap();
        assert_eq!((*rows.start(), *rows.end()), (*first, *last));
        assert_eq!(rows.end() - rows.start() + 1, *count);
    }
    assert_eq!(tickets.row_numbers(RangeInclusive::new(7, 6)), None);
    assert!(tickets.row_numbers(i64::MAX..=i64::MAX).is_some());
    assert_eq!(tickets.column_numbers(2..=40), Some(0..=2));
    assert_eq!(tickets.column_numbers(24_999_999..=25_000_000), None);
}

#[test]
fn malformed_commit_records_are_rejected() {
    let start = Timestamp(5);
    assert!(two_stage::status(start, &[]).is_err(), "an abort of layout 2");
    assert!(two_stage::status(start, &[1, 2]).is_err());
    assert!(tickets::status(Timestamp(i64::MAX), &[1]).is_err());
    assert!(tickets::status(start, &var_long::encode(-1)).is_err());
    assert!(Tickets::STANDARD.start(&[0; 7], &[0]).is_err());
    assert!(Tickets::STANDARD.start(&[0; 8], &var_long::encode(1_562_500)).is_err(), "beyond the quantum");
    assert!(Tickets::STANDARD.start(&[0xff; 8], &[0]).is_err());
}

proptest! {
    #[test]
    fn numbers_round_trip_and_sort_in_order(a in any::<i64>(), b in any::<i64>()) {
        let (ua, ub) = (a.cast_unsigned(), b.cast_unsigned());
        prop_assert_eq!(var_long::decode(&var_long::encode(a)), Ok(a));
        prop_assert_eq!(var_long::encode(a).cmp(&var_long::encode(b)), ua.cmp(&ub));
        prop_assert_eq!(var_long::decode_signed(&var_long::encode_signed(a)), Ok(a));
        prop_assert_eq!(var_long::encode_signed(a).cmp(&var_long::encode_signed(b)), a.cmp(&b));
    }

    #[test]
    fn arbitrary_bytes_decode_to_a_number_with_that_encoding_or_fail(
        bytes in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        if let Ok(value) = var_long::decode(&bytes) {
            prop_assert_eq!(var_long::encode(value), bytes.clone());
        }
        if let Ok(value) = var_long::decode_signed(&bytes) {
            prop_assert_eq!(var_long::encode_signed(value), bytes);
        }
    }

    #[test]
    fn start_timestamps_round_trip_with_any_parameters(
        start in 0..=i64::MAX,
        quantum in 1..100_000_000i64,
        share in 0.0..1.0f64,
    ) {
        let rows = ((quantum as f64 * share) as i64).max(1);
        let tickets = Tickets::new(quantum, rows).unwrap();
        let (row, column) = tickets.cell(Timestamp(start));
        prop_assert_eq!(tickets.start(&row, &column), Ok(Timestamp(start)));
        if let Some(numbers) = tickets.row_numbers(start..=start) {
            prop_assert!(numbers.contains(&tickets.row_number(start)));
        }
    }

    #[test]
    fn any_row_and_column_decode_to_their_start_timestamp_or_fail(
        row in any::<[u8; 8]>(),
        column in prop::collection::vec(any::<u8>(), 0..11),
    ) {
        if let Ok(start) = Tickets::STANDARD.start(&row, &column) {
            prop_assert_eq!(Tickets::STANDARD.cell(start), (row, column));
        }
    }
}
