//! Values of every type as clients bind them: validated, compared, printed, cast, given to
//! functions, stored.
//!
//! ```text
//! u8 the type, by its place in `subjects::TYPES`
//! the value
//! ```

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use cassette_cql::parse_term;
use cassette_cql::values::duration::Duration;
use cassette_cql::values::json::{Json, decode_value, encode_value};
use cassette_cql::values::{from_text, to_literal, to_text};
use cassette_database::{BoundValue, DatabaseError, Rows, Statement, StatementOptions, Values};
use cassette_rows::DataType;

use super::split;
use crate::Target;
use crate::subjects::{KEYSPACE, TYPES, World, with_world};

pub const TARGET: Target = Target {
    name: "values",
    run,
    seeds,
    words: &[
        b"\0\0\0\0",
        b"\0\0\0\x01",
        b"\xff\xff\xff\xff",
        b"\x80\0\0\0",
        b"\x7f\xc0\0\0",
        b"\x7f\xf0\0\0\0\0\0\0",
        b"\xc3\x28",
        b"\xed\xa0\x80",
    ],
    inputs: 2000,
};

/// What is selected of a value where its type has it; `$` is the column.
const TERMS: [&str; 42] = [
    "CAST($ AS text)",
    "CAST($ AS ascii)",
    "CAST($ AS int)",
    "CAST($ AS tinyint)",
    "CAST($ AS double)",
    "CAST($ AS float)",
    "CAST($ AS decimal)",
    "CAST($ AS varint)",
    "CAST($ AS timestamp)",
    "CAST($ AS date)",
    "to_json($)",
    "abs($)",
    "exp($)",
    "log($)",
    "log10($)",
    "round($)",
    "-$",
    "$ + $",
    "$ - 1",
    "$ * $",
    "$ / $",
    "$ % $",
    "$ + 1mo2d3h",
    "to_date($)",
    "to_timestamp($)",
    "to_unix_timestamp($)",
    "min_timeuuid($)",
    "floor($, 1h)",
    "floor($, 1mo)",
    "map_keys($)",
    "map_values($)",
    "collection_count($)",
    "collection_min($)",
    "collection_max($)",
    "collection_sum($)",
    "collection_avg($)",
    "similarity_cosine($, $)",
    "mask_inner($, 1, 1)",
    "mask_hash($)",
    "sum($)",
    "avg($)",
    "writetime($)",
];

/// Functions of longer values are not computed: logarithms of thousands of digits take seconds
/// without optimization.
const COMPUTED_LENGTH_MAX: usize = 1024;

/// A column, and what is asked of its values. Preparing takes far longer than executing.
struct Column {
    data_type: DataType,
    insert: String,
    selects: Vec<(String, Statement)>,
}

/// The columns of one world's table.
struct Columns {
    world: u64,
    columns: Vec<Option<Rc<Column>>>,
}

impl Column {
    fn new(world: &World, number: usize) -> Self {
        let tables = world.database.engine().tables();
        let table = &tables.iter().find(|(_, table)| table.name == "v").expect("a table of all types").1;
        let name = format!("c{number}");
        let selects = TERMS.iter().filter_map(|term| {
            let select = format!("SELECT {} FROM v WHERE k = 0", term.replace('$', &name));
            let prepared = world.session.prepare(&select).ok()?;
            Some((select, prepared))
        });
        Self {
            data_type: table.column(&name).expect("a column of each type").data_type.clone(),
            insert: format!("INSERT INTO v (k, {name}) VALUES (0, ?)"),
            selects: selects.collect(),
        }
    }

    /// The column of this world, prepared once.
    fn of(world: &World, number: usize) -> Rc<Self> {
        thread_local! {
            static COLUMNS: RefCell<Columns> = const { RefCell::new(Columns { world: 0, columns: Vec::new() }) };
        }
        COLUMNS.with_borrow_mut(|known| {
            if known.world != world.number {
                *known = Columns { world: world.number, columns: vec![None; TYPES.len()] };
            }
            Rc::clone(known.columns[number].get_or_insert_with(|| Rc::new(Self::new(world, number))))
        })
    }
}

fn run(input: &[u8]) {
    let (number, value) = split(input);
    let number = usize::from(number) % TYPES.len();
    with_world(|world| {
        let column = Column::of(world, number);
        let of = &column.data_type;
        if of.validate(value).is_err() {
            let stored = store(world, &column, value);
            assert!(stored.is_err(), "{of:?}: stored though invalid");
            return;
        }
        assert_eq!(of.compare(value, value), Ordering::Equal, "{of:?}");
        check_text(of, value);
        check_json(of, value);
        if store(world, &column, value).is_ok() && value.len() <= COMPUTED_LENGTH_MAX {
            compute(world, &column);
        }
    });
}

/// What is printed reads back as the value.
fn check_text(of: &DataType, value: &[u8]) {
    let literal = to_literal(of, Some(value));
    // A duration of zero is printed as nothing, as Cassandra prints it.
    if !of.contains_duration() {
        parse_term(&literal).unwrap_or_else(|error| panic!("{of:?}: {literal}: {error}"));
    }
    let text = to_text(of, value);
    if value.is_empty() || !is_read_back(of, value) {
        return;
    }
    let again = match from_text(of, &text) {
        Ok(again) => again,
        Err(_) if *of == DataType::Duration && text.is_empty() => return,
        Err(error) => panic!("{of:?}: {text}: {error:?}"),
    };
    let is_same = match of {
        // Bytes may follow a duration; Cassandra keeps them, too.
        DataType::Duration => to_text(of, &again) == text,
        _ => of.compare(value, &again).is_eq(),
    };
    assert!(is_same, "{of:?}: {value:02x?} is {text}, which reads as {again:02x?}");
}

/// Returns whether the value's text is one that is read. As in Cassandra, the text of some values
/// is not.
fn is_read_back(of: &DataType, value: &[u8]) -> bool {
    match of {
        // Values with parts are built of their elements, not read from one text.
        DataType::List { .. }
        | DataType::Set { .. }
        | DataType::Map { .. }
        | DataType::Tuple { .. }
        | DataType::Udt { .. }
        | DataType::Vector { .. } => false,
        // Cassandra's text may hold surrogates, which no string of ours can.
        DataType::Text => std::str::from_utf8(value).is_ok(),
        // The exponent of a text ends where that of a 32-bit scale does; digits before it take
        // more.
        DataType::Decimal => value
            .first_chunk::<4>()
            .is_some_and(|scale| (-2_000_000_000..2_000_000_000).contains(&i32::from_be_bytes(*scale))),
        // No text denotes a part with the least number, as in Cassandra: a text is its sign and
        // a magnitude.
        DataType::Duration => Duration::decode(value).is_none_or(|duration| {
            duration.months != i32::MIN && duration.days != i32::MIN && duration.nanoseconds != i64::MIN
        }),
        // Any eight bytes are a time.
        DataType::Time => is_time_of_day(value),
        // Years of more than four digits are printed, but not read.
        DataType::Timestamp => value.try_into().is_ok_and(|bytes| {
            (-62_135_596_800_000..253_402_300_800_000).contains(&i64::from_be_bytes(bytes))
        }),
        _ => true,
    }
}

fn is_time_of_day(value: &[u8]) -> bool {
    value.try_into().is_ok_and(|bytes| (0..86_400_000_000_000).contains(&i64::from_be_bytes(bytes)))
}

/// The value's JSON reads back as the value.
fn check_json(of: &DataType, value: &[u8]) {
    let text = encode_value(of, value);
    let json = Json::parse(&text).unwrap_or_else(|error| panic!("{of:?}: {text}: {error:?}"));
    // A duration of zero is printed as nothing, which reads as an empty value, as in Cassandra.
    if let Ok(again) = decode_value(of, &json)
        && !of.contains_duration()
    {
        of.validate(&again).unwrap_or_else(|error| panic!("{of:?}: {text}: {error:?}"));
    }
}

/// Binds the value to its column of the row 0.
fn store(world: &World, column: &Column, value: &[u8]) -> Result<(), DatabaseError> {
    let mut rows = Rows::default();
    let values = [BoundValue::Set(value)];
    let options = StatementOptions::default();
    let done = world.database.query(
        Some(KEYSPACE),
        &column.insert,
        Values::positional(&values),
        &options,
        &mut rows,
    );
    if let Err(error) = &done {
        assert!(!matches!(error, DatabaseError::Server(_) | DatabaseError::Storage { .. }), "{error}");
    }
    done.map(drop)
}

/// Reads the value back by every function that its type has.
fn compute(world: &World, column: &Column) {
    for (select, prepared) in &column.selects {
        if let Err(error) = world.session.execute(prepared, ()) {
            assert!(
                !matches!(error, DatabaseError::Server(_) | DatabaseError::Storage { .. }),
                "{select}: {error}"
            );
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let item = |bytes: &[u8]| [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat();
    let list = |items: &[&[u8]]| {
        let body: Vec<u8> = items.iter().flat_map(|bytes| item(bytes)).collect();
        [&(items.len() as i32).to_be_bytes()[..], &body].concat()
    };
    let map = |entries: &[(&[u8], &[u8])]| {
        let body: Vec<u8> = entries.iter().flat_map(|(k, v)| [item(k), item(v)].concat()).collect();
        [&(entries.len() as i32).to_be_bytes()[..], &body].concat()
    };
    let decimal = [0, 0, 0, 2, 0x30, 0x39];
    let time_uuid = [0x2f, 0xe5, 0x6d, 0x00, 0x0d, 0x4b, 0x11, 0xef, 0x80, 0, 1, 2, 3, 4, 5, 6];
    let one = 1_i32.to_be_bytes();
    let udt = [item(&one), item(b"text"), item(&list(&[&7_i64.to_be_bytes()]))].concat();
    let floats: Vec<u8> = [1.5_f32, -2.0, 0.25].iter().flat_map(|f| f.to_be_bytes()).collect();
    let values: [Vec<u8>; TYPES.len()] = [
        b"ascii".to_vec(),
        1_234_567_890_123_i64.to_be_bytes().to_vec(),
        b"\0\xff".to_vec(),
        vec![1],
        0x8000_4e20_u32.to_be_bytes().to_vec(),
        decimal.to_vec(),
        1.5e300_f64.to_be_bytes().to_vec(),
        vec![0x02, 0x04, 0xf0, 0x10, 0x20, 0x30, 0x40],
        (-0.0_f32).to_be_bytes().to_vec(),
        vec![127, 0, 0, 1],
        one.to_vec(),
        vec![0x7f, 0xff],
        "täxt \u{1f4a9} 'quoted'".as_bytes().to_vec(),
        86_399_999_999_999_i64.to_be_bytes().to_vec(),
        1_700_000_000_000_i64.to_be_bytes().to_vec(),
        time_uuid.to_vec(),
        vec![0x80],
        time_uuid.to_vec(),
        vec![0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09],
        list(&[&one, &2_i32.to_be_bytes()]),
        list(&[b"a", b"b"]),
        map(&[(b"a", &[1]), (b"b", &[0xff, 0])]),
        [item(&one), item(b"x"), item(&decimal)].concat(),
        udt.clone(),
        floats,
        [&[1, b'a'][..], &[2, b'b', b'c']].concat(),
        list(&[b"x", b"y"]),
        list(&[&0_i64.to_be_bytes(), &1_i64.to_be_bytes()]),
        map(&[(&one, &list(&[&1.5_f64.to_be_bytes()]))]),
        udt.clone(),
        list(&[&map(&[(&time_uuid, &udt)])]),
    ];
    values.iter().enumerate().map(|(number, value)| [&[number as u8], value.as_slice()].concat()).collect()
}
