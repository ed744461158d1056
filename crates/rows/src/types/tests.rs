use super::*;

fn reason(data_type: &DataType, bytes: &[u8]) -> String {
    data_type.validate(bytes).unwrap_err().to_string()
}

fn person() -> Arc<UserType> {
    let fields = vec![("name".to_owned(), DataType::Text), ("age".to_owned(), DataType::Int)];
    Arc::new(UserType::new("ks", "person", fields))
}

#[test]
fn bad_scalars_are_refused_in_the_words_of_cassandra() {
    for (data_type, bytes, words) in [
        (DataType::Int, &[1, 2, 3][..], "Expected 4 or 0 byte int (3)"),
        (DataType::BigInt, &[1], "Expected 8 or 0 byte long (1)"),
        (DataType::Boolean, &[1, 2], "Expected 1 or 0 byte value (2)"),
        (DataType::TinyInt, &[], "Expected 1 byte for a tinyint (0)"),
        (DataType::SmallInt, &[1], "Expected 2 bytes for a smallint (1)"),
        (DataType::Decimal, &[1, 2], "Expected 0 or at least 4 bytes (2)"),
        (DataType::Float, &[1], "Expected 4 or 0 byte value for a float (1)"),
        (DataType::Double, &[1], "Expected 8 or 0 byte value for a double (1)"),
        (DataType::Date, &[], "Expected 4 byte long for date (0)"),
        (DataType::Time, &[], "Expected 8 byte long for time (0)"),
        (DataType::Timestamp, &[1], "Expected 8 or 0 byte long for date (1)"),
        (DataType::Uuid, &[1], "UUID should be 16 or 0 bytes (1)"),
        (DataType::TimeUuid, &[0x40; 16], "Invalid version for TimeUUID type: 0x4"),
        (DataType::Inet, &[1, 0xff], "Expected 4 or 16 byte inetaddress; got 01ff"),
        (DataType::Ascii, b"a\xe9", "Invalid byte for ascii: -23"),
        (DataType::Text, b"a\xff", "String didn't validate."),
        (DataType::Duration, &[0, 0], "Expected at least 3 bytes for a duration (2)"),
        (
            DataType::Duration,
            &[2, 1, 0],
            "The duration months, days and nanoseconds must be all of the same sign (1, -1, 0)",
        ),
        (DataType::Empty, &[1], "EmptyType only accept empty values"),
    ] {
        assert_eq!(reason(&data_type, bytes), words);
    }
}

#[test]
fn empty_values_are_good_where_cassandra_takes_them() {
    use DataType::*;
    for good in
        [Ascii, BigInt, Blob, Boolean, Decimal, Double, Empty, Float, Inet, Int, Text, Timestamp, Uuid]
    {
        assert_eq!(good.validate(&[]), Ok(()), "{good}");
    }
    assert_eq!(TimeUuid.validate(&[]), Ok(()));
    assert_eq!(VarInt.validate(&[]), Ok(()));
}

#[test]
fn text_may_hold_what_only_java_strings_can() {
    assert_eq!(DataType::Text.validate("héllo 💾".as_bytes()), Ok(()));
    for odd in [&[0xc0, 0x80][..], &[0xed, 0xa0, 0x80]] {
        assert_eq!(DataType::Text.validate(odd), Ok(()), "{odd:02x?}");
    }
    for bad in [&[0xc0, 0x81][..], &[0xe0, 0x80, 0x80], &[0xf0, 0x80, 0x80, 0x80], &[0xe1, 0x80], &[0x80]] {
        assert!(DataType::Text.validate(bad).is_err(), "{bad:02x?}");
    }
}

#[test]
fn nested_values_are_checked_all_the_way_down() {
    let ints = DataType::list(DataType::Int);
    assert_eq!(ints.validate(&[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9]), Ok(()));
    assert_eq!(reason(&ints, &[]), "Not enough bytes to read a list");
    assert_eq!(reason(&ints, &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 9]), "Not enough bytes to read a list");
    assert_eq!(reason(&ints, &[0, 0, 0, 0, 7]), "Unexpected extraneous bytes after list value");
    assert_eq!(reason(&ints, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), "Null value read when not allowed");
    assert_eq!(reason(&ints, &[0, 0, 0, 1, 0, 0, 0, 1, 9]), "Expected 4 or 0 byte int (1)");
    let map = DataType::map(DataType::Text, DataType::Int);
    assert_eq!(reason(&map, &[0, 0, 0, 1, 0, 0, 0, 1, b'k', 0, 0, 0, 1, 9]), "Expected 4 or 0 byte int (1)");

    let pair = DataType::tuple([DataType::Int, DataType::Text]);
    assert_eq!(pair.validate(&[0xff, 0xff, 0xff, 0xff]), Ok(()), "trailing items may be missing");
    assert_eq!(reason(&pair, &[0, 0]), "Not enough bytes to read size of 0th component");
    assert_eq!(reason(&pair, &[0, 0, 0, 4, 0]), "Not enough bytes to read 0th component");

    let udt = DataType::Udt { definition: person(), frozen: true };
    assert_eq!(
        reason(&udt, &[0, 0, 0, 1, b'n', 0, 0, 0, 1, 9]),
        "Failure validating the 1th field age; Expected 4 or 0 byte int (1)"
    );

    let vector = DataType::vector(DataType::Float, 2);
    assert_eq!(vector.validate(&[0; 8]), Ok(()));
    assert_eq!(reason(&vector, &[]), "Invalid empty vector value");
    assert_eq!(reason(&vector, &[0; 7]), "Not enough bytes to read a vector<float, 2>");
    assert_eq!(reason(&vector, &[0; 9]), "Unexpected 1 extraneous bytes after vector<float, 2> value");
    let vector = DataType::vector(DataType::Text, 2);
    assert_eq!(vector.validate(&[1, b'a', 0]), Ok(()));
    assert_eq!(reason(&vector, &[1, b'a']), "Not enough bytes to read a vector<text, 2>");
}

#[test]
fn a_bound_collection_has_no_negative_count() {
    let negative = [0xff, 0xff, 0xff, 0xfe];
    let reason =
        |data_type: &DataType, bytes: &[u8]| data_type.validate_bound(bytes).unwrap_err().to_string();
    let ints = DataType::list(DataType::Int).freeze();
    let map = DataType::map(DataType::Int, DataType::Int);
    assert_eq!(reason(&ints, &negative), "The data cannot be deserialized as a list");
    assert_eq!(reason(&DataType::set(DataType::Int), &negative), "The data cannot be deserialized as a set");
    assert_eq!(reason(&map, &negative), "The data cannot be deserialized as a map");
    assert_eq!(reason(&ints, &negative[..3]), "Not enough bytes to read a list");

    let nested = DataType::list(ints.clone());
    assert_eq!(nested.validate_bound(&[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0]), Ok(()));
    let item = [&[0, 0, 0, 1, 0, 0, 0, 4][..], &negative].concat();
    assert_eq!(reason(&nested, &item), "The data cannot be deserialized as a list");
    let longer = [&[0, 0, 0, 1, 0, 0, 0, 5][..], &negative, &[0]].concat();
    assert_eq!(reason(&nested, &longer), "Unexpected extraneous bytes after list value");
    let vectors = DataType::list(DataType::vector(ints.clone(), 1));
    let item = [&[0, 0, 0, 1, 0, 0, 0, 5, 4][..], &negative].concat();
    assert_eq!(reason(&vectors, &item), "The data cannot be deserialized as a list");

    let with_null = [0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 9];
    assert_eq!(reason(&ints, &with_null), "Null value read when not allowed");
    let reason_in = |bytes: &[u8]| ints.validate_in_values(bytes).map_err(|reason| reason.to_string());
    assert_eq!(reason_in(&with_null[..8]), Err("Not enough bytes to read a list".to_owned()));
    assert_eq!(reason_in(&with_null), Err("Expected 4 or 0 byte int (1)".to_owned()));
    assert_eq!(reason_in(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), Ok(()));
    assert_eq!(reason_in(&negative), Err("The data cannot be deserialized as a list".to_owned()));

    let item = [&[0, 0, 0, 4][..], &negative].concat();
    let tuple = DataType::tuple([ints.clone()]);
    assert_eq!(tuple.validate_bound(&item), Ok(()), "Cassandra validates tuples without reading them");
    let list = [&[0, 0, 0, 1, 0, 0, 0, 8][..], &item].concat();
    assert_eq!(DataType::list(tuple).validate_bound(&list), Ok(()));
    let vector = DataType::vector(ints, 1);
    assert_eq!(vector.validate_bound(&[&[4][..], &negative].concat()), Ok(()));
}

#[test]
fn small_integers_dates_and_times_have_no_fixed_width() {
    use DataType::*;
    for (data_type, width) in [
        (Boolean, Some(1)),
        (Int, Some(4)),
        (Timestamp, Some(8)),
        (TimeUuid, Some(16)),
        (TinyInt, None),
        (SmallInt, None),
        (Date, None),
        (Time, None),
        (Text, None),
        (Counter, None),
        (DataType::vector(Float, 3), Some(12)),
        (DataType::vector(SmallInt, 3), None),
        (DataType::vector(DataType::vector(Int, 2), 3), Some(24)),
    ] {
        assert_eq!(data_type.fixed_width(), width, "{data_type}");
    }
}

#[test]
fn durations_and_udts_are_found_however_deep() {
    let udt = DataType::Udt { definition: person(), frozen: false };
    let deep = DataType::map(DataType::Int, DataType::tuple([udt, DataType::Duration]));
    assert!(deep.references_udt("ks", "person") && !deep.references_udt("other", "person"));
    assert!(deep.contains_duration());
    assert!(!DataType::list(DataType::Int).contains_duration());
    // As in Cassandra, which has no rule for them.
    assert!(!DataType::vector(DataType::Duration, 2).contains_duration());
    assert!(!DataType::set(DataType::tuple([DataType::Duration])).contains_duration());
}

#[test]
fn an_altered_udt_replaces_its_older_self_everywhere() {
    let old = DataType::list(DataType::Udt { definition: person(), frozen: false });
    let mut fields = person().fields.clone();
    fields.push(("city".to_owned(), DataType::Text));
    let altered = Arc::new(person().with_fields(fields));
    let new = old.with_udt(&altered);
    assert_eq!(new, DataType::list(DataType::Udt { definition: altered, frozen: true }));
}

#[test]
fn cells_of_complex_columns_have_paths_and_values() {
    let udt = DataType::Udt { definition: person(), frozen: false };
    assert_eq!(udt.path_type(), Some(&DataType::SmallInt));
    assert_eq!(udt.cell_type(&[0, 1]), Some(&DataType::Int));
    assert_eq!(udt.cell_type(&[0, 2]), None);
    let set = DataType::set(DataType::Text);
    assert_eq!((set.path_type(), set.cell_type(b"x")), (Some(&DataType::Text), Some(&DataType::Empty)));
    assert_eq!(DataType::list(DataType::Int).path_type(), Some(&DataType::TimeUuid));
    assert_eq!(DataType::Int.path_type(), None);
}

#[test]
fn fields_are_found_by_name_and_the_first_of_equal_names() {
    let names = ["b", "", "a", "ä", "b", "B"];
    let fields = names.iter().map(|name| ((*name).to_owned(), DataType::Int)).collect();
    let user_type = UserType::new("ks", "t", fields);
    for name in names {
        let expected = names.iter().position(|other| *other == name);
        assert_eq!(user_type.field(name).map(|(index, _)| index), expected, "{name}");
    }
    assert_eq!(user_type.field("c"), None);
    assert_eq!(UserType::new("ks", "t", Vec::new()).field("a"), None);
}
