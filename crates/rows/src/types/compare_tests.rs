use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::sync::Arc;

use super::*;
use crate::types::{UserType, collection};

/// Asserts that `values` ascend strictly in every pair.
fn ascend(data_type: &DataType, values: &[Vec<u8>]) {
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            assert_eq!(data_type.compare(a, b), i.cmp(&j), "{data_type}: {a:02x?} and {b:02x?}");
            let (first, second) = (data_type.leading(a), data_type.leading(b));
            assert!(
                i > j || first <= second,
                "{data_type}: {a:02x?} and {b:02x?} have {first:x} and {second:x}"
            );
        }
    }
}

fn uuid(text: &str) -> Vec<u8> {
    uuid::Uuid::parse_str(text).unwrap().as_bytes().to_vec()
}

fn decimal(scale: i32, unscaled: &str) -> Vec<u8> {
    let unscaled: BigInt = unscaled.parse().unwrap();
    [&scale.to_be_bytes()[..], &unscaled.to_signed_bytes_be()].concat()
}

fn list(items: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    collection::write_count(&mut out, items.len());
    items.iter().for_each(|item| collection::write_item(&mut out, *item));
    out
}

fn tuple(items: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    collection::write_tuple(&mut out, items.iter().copied());
    out
}

#[test]
fn integers_order_by_value_with_the_empty_one_first() {
    let ints = [i32::MIN, -256, -1, 0, 1, 255, 256, i32::MAX].map(|n| n.to_be_bytes().to_vec());
    ascend(&DataType::Int, &[&[vec![]], &ints[..]].concat());
    let longs = [i64::MIN, -1, 0, 1, i64::MAX].map(|n| n.to_be_bytes().to_vec());
    ascend(&DataType::BigInt, &[&[vec![]], &longs[..]].concat());
    ascend(&DataType::Timestamp, &longs);
    ascend(&DataType::Counter, &longs);
    ascend(&DataType::TinyInt, &[-128_i8, -1, 0, 127].map(|n| n.to_be_bytes().to_vec()));
    ascend(&DataType::SmallInt, &[i16::MIN, -1, 0, 1, 256].map(|n| n.to_be_bytes().to_vec()));
    ascend(&DataType::Date, &[0_u32, 1, 1 << 31, u32::MAX].map(|n| n.to_be_bytes().to_vec()));
}

#[test]
fn leading_numbers_tell_values_apart_that_differ_early() {
    let first = |data_type: DataType, value: &[u8]| data_type.leading(value);
    assert!(first(DataType::Blob, b"a") < first(DataType::Blob, b"ab"));
    assert_eq!(first(DataType::Text, b"12345678"), first(DataType::Text, b"123456789"));
    assert!(first(DataType::Int, &(-1i32).to_be_bytes()) < first(DataType::Int, &0i32.to_be_bytes()));
    assert!(first(DataType::BigInt, &7i64.to_be_bytes()) < first(DataType::BigInt, &8i64.to_be_bytes()));
    let (a, b) = (uuid("00000001-0000-1000-8000-000000000000"), uuid("00000000-0001-1000-8000-000000000000"));
    assert!(first(DataType::TimeUuid, &a) < first(DataType::TimeUuid, &b));
    let (a, b) = (uuid("ffffffff-0000-1000-8000-000000000000"), uuid("00000000-0000-4000-8000-000000000000"));
    assert!(first(DataType::Uuid, &a) < first(DataType::Uuid, &b));
}

#[test]
fn floats_order_as_in_java() {
    let floats = [f32::NEG_INFINITY, -1.5, -0.0, 0.0, f32::MIN_POSITIVE, 2.0, f32::INFINITY, f32::NAN];
    ascend(&DataType::Float, &[&[vec![]], &floats.map(|n| n.to_be_bytes().to_vec())[..]].concat());
    let doubles = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 2.0, f64::INFINITY, f64::NAN];
    ascend(&DataType::Double, &doubles.map(|n| n.to_be_bytes().to_vec()));
    let other_nan = 0xffc0_0001_u32.to_be_bytes();
    assert_eq!(DataType::Float.compare(&f32::NAN.to_be_bytes(), &other_nan), Equal);
}

#[test]
fn varints_order_by_value_however_long_they_are_written() {
    let numbers =
        ["-340282366920938463463374607431768211456", "-65536", "-129", "-128", "-1", "0", "1", "127"];
    let numbers = numbers.iter().chain(&["128", "255", "65536", "340282366920938463463374607431768211456"]);
    let mut values: Vec<_> = numbers.map(|n| n.parse::<BigInt>().unwrap().to_signed_bytes_be()).collect();
    values.insert(0, vec![]);
    ascend(&DataType::VarInt, &values);
    assert_eq!(compare_varint(&[0, 0, 5], &[5]), Equal);
    assert_eq!(compare_varint(&[0xff, 0xff, 0x80], &[0x80]), Equal);
}

#[test]
fn decimals_order_by_value_and_are_equal_whatever_their_scale() {
    let values = [
        vec![],
        decimal(-2147483648, "-9"),
        decimal(0, "-1000"),
        decimal(1, "-15"),
        decimal(2147483647, "-1"),
        decimal(0, "0"),
        decimal(2147483647, "1"),
        decimal(3, "999"),
        decimal(0, "1"),
        decimal(30, "1000000000000000000000000000001"),
        decimal(1, "15"),
        decimal(-3, "1"),
        decimal(-2147483648, "1"),
    ];
    ascend(&DataType::Decimal, &values);
    for (a, b) in [
        (decimal(1, "15"), decimal(2, "150")),
        (decimal(-3, "7"), decimal(0, "7000")),
        (decimal(5, "0"), decimal(-7, "0")),
        (decimal(20, "-100000000000000000000"), decimal(0, "-1")),
    ] {
        assert_eq!(DataType::Decimal.compare(&a, &b), Equal);
    }
}

#[test]
fn booleans_take_any_nonzero_byte_for_true() {
    ascend(&DataType::Boolean, &[vec![], vec![0], vec![1]]);
    assert_eq!(DataType::Boolean.compare(&[1], &[9]), Equal);
}

#[test]
fn timeuuids_order_by_time_and_then_by_signed_bytes() {
    let values = [
        vec![],
        uuid("00000000-0000-1000-0000-000000000000"),
        uuid("ffffffff-0000-1000-8080-808080808080"),
        uuid("00000000-0001-1000-8080-808080808080"),
        uuid("00000000-0001-1000-8080-808080808000"),
        uuid("00000000-0001-1000-8000-000000000000"),
        uuid("00000000-0001-1000-0000-000000000000"),
        uuid("00000000-0001-1000-7f00-000000000000"),
        uuid("00000000-0000-1001-8080-808080808080"),
    ];
    ascend(&DataType::TimeUuid, &values);
}

#[test]
fn uuids_order_by_version_and_only_version_1_by_time() {
    let values = [
        vec![],
        uuid("00000000-0000-0000-0000-000000000000"),
        uuid("ffffffff-0000-1000-8080-808080808080"),
        uuid("00000000-0001-1000-7f00-000000000000"),
        uuid("00000000-0001-1000-8080-808080808000"),
        uuid("00000000-0001-4000-8080-808080808000"),
        uuid("ffffffff-0000-4000-8080-808080808080"),
        uuid("00000000-0000-5000-8080-808080808080"),
    ];
    ascend(&DataType::Uuid, &values);
}

#[test]
fn frozen_collections_order_item_by_item_and_then_by_count() {
    let one: &[u8] = &1_i32.to_be_bytes();
    let minus: &[u8] = &(-1_i32).to_be_bytes();
    let ints = DataType::list(DataType::Int).freeze();
    let values = [
        vec![],
        list(&[]),
        list(&[Some(minus)]),
        list(&[Some(minus), Some(one)]),
        list(&[Some(one)]),
        list(&[Some(one), Some(minus)]),
    ];
    ascend(&ints, &values);

    let map = DataType::map(DataType::Text, DataType::Int).freeze();
    let entries = |items: &[(&str, &[u8])]| {
        let mut out = Vec::new();
        collection::write_map(&mut out, items.iter().map(|(k, v)| (k.as_bytes(), *v)));
        out
    };
    let values = [
        entries(&[]),
        entries(&[("a", minus)]),
        entries(&[("a", minus), ("b", minus)]),
        entries(&[("a", one)]),
        entries(&[("b", minus)]),
    ];
    ascend(&map, &values);
}

#[test]
fn tuples_order_item_by_item_with_null_and_missing_ones_first() {
    let one: &[u8] = &1_i32.to_be_bytes();
    let minus: &[u8] = &(-1_i32).to_be_bytes();
    let pair = DataType::tuple([DataType::Int, DataType::Text]);
    let fields = vec![("a".to_owned(), DataType::Int), ("b".to_owned(), DataType::Text)];
    let definition = Arc::new(UserType::new("ks", "u", fields));
    for data_type in [pair, DataType::Udt { definition, frozen: true }] {
        let values = [
            vec![],
            tuple(&[None]),
            tuple(&[None, Some(b"")]),
            tuple(&[Some(minus)]),
            tuple(&[Some(one), None]),
            tuple(&[Some(one), Some(b"")]),
            tuple(&[Some(one), Some(b"x")]),
        ];
        ascend(&data_type, &values);
        assert_eq!(data_type.compare(&tuple(&[Some(one)]), &tuple(&[Some(one), None])), Equal);
    }
}

#[test]
fn vectors_order_element_by_element() {
    let floats = DataType::vector(DataType::Float, 2);
    let value = |a: f32, b: f32| [a.to_be_bytes(), b.to_be_bytes()].concat();
    ascend(&floats, &[value(-1.0, 5.0), value(0.5, -1.0), value(0.5, 0.0), value(f32::NAN, 0.0)]);
    let texts = DataType::vector(DataType::Text, 2);
    ascend(&texts, &[b"\x01a\x01b".to_vec(), b"\x02aa\x00".to_vec(), b"\x01b\x00".to_vec()]);
}

fn types() -> Vec<DataType> {
    let mut types = vec![
        DataType::Ascii,
        DataType::BigInt,
        DataType::Boolean,
        DataType::Decimal,
        DataType::Double,
        DataType::Float,
        DataType::Int,
        DataType::SmallInt,
        DataType::TimeUuid,
        DataType::TinyInt,
        DataType::Uuid,
        DataType::VarInt,
    ];
    types.push(DataType::list(DataType::Decimal).freeze());
    types.push(DataType::map(DataType::Int, DataType::Boolean).freeze());
    types.push(DataType::tuple([DataType::VarInt, DataType::list(DataType::Float)]));
    types.push(DataType::vector(DataType::SmallInt, 2));
    types.push(DataType::vector(DataType::Float, 2));
    types
}

/// Bytes that often resemble a value: small counts, lengths and numbers.
fn bytes() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let byte = prop_oneof![4 => Just(0_u8), 2 => 1..5_u8, 1 => Just(0xff), 1 => Just(0x10), 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..20)
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

    #[test]
    fn the_order_is_total_over_arbitrary_bytes(a in bytes(), b in bytes(), c in bytes()) {
        for data_type in types() {
            let ab = data_type.compare(&a, &b);
            assert_eq!(data_type.compare(&a, &a), Equal, "{data_type}");
            assert_eq!(data_type.compare(&b, &a), ab.reverse(), "{data_type}");
            let (bc, ac) = (data_type.compare(&b, &c), data_type.compare(&a, &c));
            let implied: &[Ordering] = match (ab, bc) {
                (Less, Less | Equal) | (Equal, Less) => &[Less],
                (Greater, Greater | Equal) | (Equal, Greater) => &[Greater],
                (Equal, Equal) => &[Equal],
                _ => &[Less, Equal, Greater],
            };
            assert!(implied.contains(&ac), "{data_type}: {a:?} {ab:?} {b:?} {bc:?} {c:?} but {ac:?}");
        }
    }

    #[test]
    fn the_value_with_the_lesser_leading_number_comes_first(a in bytes(), b in bytes()) {
        for data_type in types() {
            let order = data_type.leading(&a).cmp(&data_type.leading(&b));
            assert!(order == Equal || order == data_type.compare(&a, &b), "{data_type}: {a:02x?} and {b:02x?}");
        }
    }

    #[test]
    fn validating_arbitrary_bytes_never_panics(a in bytes()) {
        for data_type in types() {
            let _ = data_type.validate(&a);
        }
    }
}

proptest::proptest! {
    /// Few bytes, so that equal values occur, and values that differ in a bit that an order might
    /// ignore.
    #[test]
    fn values_of_types_that_are_equal_by_bytes_have_the_same_bytes(
        a in proptest::collection::vec(proptest::sample::select(vec![0_u8, 1, 0x10, 0x40, 0x80, 0xff]), 0..17),
        flips in proptest::collection::vec((0..17_usize, 0..8_u32), 0..3),
    ) {
        let mut b = a.clone();
        for (index, bit) in flips {
            if let Some(byte) = b.get_mut(index) {
                *byte ^= 1 << bit;
            }
        }
        use DataType::*;
        let types = [
            Ascii, Text, Blob, Inet, Date, Time, TinyInt, SmallInt, Int, BigInt, Timestamp, TimeUuid, Uuid,
        ];
        for data_type in types {
            assert!(data_type.is_equal_by_bytes());
            assert_eq!(data_type.compare(&a, &b) == Equal, a == b, "{data_type}: {a:02x?} and {b:02x?}");
        }
    }
}

#[test]
fn types_with_several_forms_of_a_value_are_not_equal_by_bytes() {
    use DataType::{Boolean, Decimal, Double, Float, VarInt};
    assert!([Boolean, Float, Double, VarInt, Decimal].iter().all(|data_type| !data_type.is_equal_by_bytes()));
    assert_eq!(Boolean.compare(&[1], &[2]), Equal);
}
