//! Properties of all values, and the absence of panics for external input.

use cassette_rows::types::DataType;
use proptest::prelude::*;

use super::decimal::Decimal;
use super::duration::Duration;
use super::*;

fn scalars() -> Vec<DataType> {
    use DataType::*;
    vec![
        Ascii, BigInt, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Empty, Float, Inet, Int,
        SmallInt, Text, Time, Timestamp, TimeUuid, TinyInt, Uuid, VarInt,
    ]
}

fn nested() -> Vec<DataType> {
    let map = DataType::map(DataType::Text, DataType::list(DataType::Decimal));
    vec![
        DataType::tuple([DataType::Int, map.clone(), DataType::Duration]),
        DataType::set(DataType::vector(DataType::Float, 2)),
        DataType::vector(DataType::Text, 2),
        map,
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(0_u8), 2 => 1..6_u8, 1 => Just(0xff), 2 => any::<u8>()];
    proptest::collection::vec(byte, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_is_valid_reads_back_from_its_text(bytes in bytes()) {
        for data_type in scalars() {
            if data_type.validate(&bytes).is_err() || bytes.is_empty() {
                continue;
            }
            let text = to_text(&data_type, &bytes);
            match from_text(&data_type, &text) {
                // Equal, if not always the same bytes: NaNs, padded numbers, a true that is not 1.
                Ok(read) => prop_assert_eq!(to_text(&data_type, &read), text, "{}", data_type),
                Err(error) => {
                    // Invalid times of day, years without a text, mapped addresses, texts that only
                    // Java can represent.
                    let odd = matches!(
                        data_type,
                        DataType::Time | DataType::Timestamp | DataType::Date | DataType::Decimal
                    );
                    prop_assert!(odd, "{}: {} is {}", data_type, text, error);
                }
            }
        }
    }

    #[test]
    fn no_bytes_and_no_text_make_anything_panic(bytes in bytes(), text in ".{0,40}") {
        for data_type in scalars().into_iter().chain(nested()) {
            let _ = to_text(&data_type, &bytes);
            let _ = to_literal(&data_type, Some(&bytes));
            let _ = json::encode_value(&data_type, &bytes);
            let _ = from_text(&data_type, &text);
            if let Ok(json) = json::Json::parse(&text) {
                let _ = json::decode_value(&data_type, &json);
            }
        }
    }

    #[test]
    fn valid_nested_values_become_json_that_parses(bytes in bytes()) {
        for data_type in nested() {
            if data_type.validate(&bytes).is_err() {
                continue;
            }
            let text = json::encode_value(&data_type, &bytes);
            prop_assert!(json::Json::parse(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn texts_that_look_like_times_never_panic(
        text in "[-+]?[0-9]{1,12}-[0-9]{1,3}-[0-9]{1,3}([T \
            ][0-9]{1,3}:[0-9]{1,2}(:[0-9]{1,2}(\\.[0-9]{0,10})?)?)?( ?[-+Z][0-9:]{0,6})?",
        duration in "-?P?([0-9]{1,20}(y|mo|w|d|h|m|s|ms|us|ns|Y|M|T|S)){1,4}",
    ) {
        let _ = temporal::parse_timestamp(&text);
        let _ = temporal::parse_date(&text);
        let _ = Duration::parse(&duration);
    }

    #[test]
    fn moving_by_durations_never_panics(
        ms in any::<i64>(),
        start in any::<i64>(),
        months in any::<i32>(),
        days in any::<i32>(),
        nanoseconds in any::<i64>(),
    ) {
        let duration = Duration { months, days, nanoseconds };
        let _ = duration.add_to(ms);
        let _ = duration.negate().add_to(ms);
        let _ = duration.to_string();
        let positive = Duration {
            months: months & i32::MAX,
            days: days & i32::MAX,
            nanoseconds: nanoseconds & i64::MAX,
        };
        if let Ok(floor) = positive.floor(ms, start) {
            prop_assert!(floor <= ms && floor >= start, "{} is not between {} and {}", floor, start, ms);
        }
    }

    #[test]
    fn decimals_calculate_as_whole_numbers_do(
        a in -1_000_000_i64..1_000_000,
        b in -1_000_000_i64..1_000_000,
        s in 0_i32..6,
        t in 0_i32..6,
    ) {
        let (x, y) = (Decimal { unscaled: a.into(), scale: s }, Decimal { unscaled: b.into(), scale: t });
        prop_assert_eq!(Decimal::parse(&x.to_string()), Some(x.clone()));
        let scale = |number: &Decimal, scale: i32| {
            i128::try_from(&number.unscaled).unwrap() * 10_i128.pow((scale - number.scale) as u32)
        };
        prop_assert_eq!(scale(&x.add(&y).unwrap(), 6), scale(&x, 6) + scale(&y, 6));
        prop_assert_eq!(scale(&x.multiply(&y).unwrap(), 12), scale(&x, 6) * scale(&y, 6));
        if b != 0 {
            prop_assert_eq!(scale(&x.remainder(&y).unwrap(), 6), scale(&x, 6) % scale(&y, 6));
            let back = x.divide(&y).unwrap().multiply(&y).unwrap().subtract(&x).unwrap();
            prop_assert!(back.to_double().abs() < 1e-24, "{}", back);
        }
    }
}
