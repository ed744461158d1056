//! Resolution of calls, and the messages of invalid ones, as Cassandra 5.0.8 answered.

use cassette_rows::types::DataType;

use super::*;
use crate::ast::{ArithmeticOperator, BindMarker, NativeType, Term};

/// A column of this name, a marker, `null`, or a literal.
fn argument(text: &str) -> Box<dyn Argument> {
    let column = match text {
        "k" => DataType::Int,
        "ti" => DataType::TinyInt,
        "bi" => DataType::BigInt,
        "f" => DataType::Float,
        "d" => DataType::Double,
        "de" => DataType::Decimal,
        "vi" => DataType::VarInt,
        "tx" => DataType::Text,
        "a" => DataType::Ascii,
        "bl" => DataType::Blob,
        "dt" => DataType::Date,
        "tm" => DataType::Time,
        "ts" => DataType::Timestamp,
        "tu" => DataType::TimeUuid,
        "du" => DataType::Duration,
        "li" => DataType::list(DataType::Int),
        "se" => DataType::set(DataType::Text),
        "ma" => DataType::map(DataType::Text, DataType::Int),
        "ve" => DataType::vector(DataType::Float, 2),
        "ve3" => DataType::vector(DataType::Float, 3),
        "?" => return Box::new(BindMarker { index: 0, name: None }),
        "null" => return Box::new(NullArgument),
        literal => match crate::parse_term(literal) {
            Ok(Term::Literal(literal)) => return Box::new(literal),
            other => panic!("{literal}: {other:?}"),
        },
    };
    Box::new(TypedArgument { data_type: column, text: text.to_owned() })
}

/// The result's type, or the error's message.
fn meaning(call: &str, receiver: Option<DataType>) -> Result<String, String> {
    let (name, arguments) = call.strip_suffix(')').unwrap().split_once('(').unwrap();
    let arguments: Vec<_> = arguments.split(", ").filter(|text| !text.is_empty()).map(argument).collect();
    let arguments: Vec<&dyn Argument> = arguments.iter().map(|argument| &**argument).collect();
    let function = resolve(name, &arguments, receiver.as_ref()).map_err(|error| error.to_string())?;
    Ok(function.map_or("unknown".to_owned(), |function| function.returns().to_string()))
}

#[test]
fn calls_mean_the_function_whose_types_fit() {
    for (call, returns) in [
        ("to_date(ts)", "date"),
        ("todate(ts)", "date"),
        ("to_date(5)", "date"),
        ("to_date(bi)", "date"),
        ("now()", "timeuuid"),
        ("uuid()", "uuid"),
        ("currenttimestamp()", "timestamp"),
        ("min_timeuuid('2024-01-01')", "timeuuid"),
        ("min_timeuuid(5)", "timeuuid"),
        ("min_timeuuid(?)", "timeuuid"),
        ("int_as_blob(5)", "blob"),
        ("blobasint(0x00000005)", "int"),
        ("text_as_blob('abc')", "blob"),
        ("abs(-5)", "int"),
        ("abs(-5.5)", "double"),
        ("round(de)", "decimal"),
        ("map_keys(ma)", "frozen<set<text>>"),
        ("map_values(ma)", "frozen<list<int>>"),
        ("collection_count(ma)", "int"),
        ("collection_max(se)", "text"),
        ("collection_avg(li)", "int"),
        ("cast_as_int(d)", "int"),
        ("to_json(ma)", "text"),
        ("tojson(5)", "text"),
        ("similarity_cosine(ve, ?)", "float"),
        ("mask_null(k)", "int"),
        ("mask_replace(k, 7)", "int"),
        ("mask_inner(tx, 1, 1, '#')", "text"),
        ("mask_outer(tx, 1, null)", "text"),
        ("min(li)", "list<int>"),
        ("sum(ti)", "tinyint"),
        ("count(k)", "bigint"),
        ("count_rows()", "bigint"),
        ("floor(ts, 1h)", "timestamp"),
        ("floor(tu, 1h)", "timestamp"),
        ("floor(tm, 1h)", "time"),
        ("nosuch(ts)", "unknown"),
        ("dateof(tu)", "unknown"),
        ("countrows()", "unknown"),
        ("castasint(d)", "unknown"),
    ] {
        assert_eq!(meaning(call, None), Ok(returns.to_owned()), "{call}");
    }
    assert_eq!(meaning("abs(?)", Some(DataType::Int)), Ok("int".to_owned()));
    assert_eq!(meaning("from_json(?)", Some(DataType::list(DataType::Int))), Ok("list<int>".to_owned()));
}

#[test]
fn calls_that_fit_nothing_are_refused_in_the_words_of_cassandra() {
    for (call, words) in [
        (
            "to_date(tx)",
            "Invalid call to function to_date, none of its type signatures match (known type signatures: \
             system.to_date : (timeuuid) -> date, system.to_date : (timestamp) -> date)",
        ),
        ("now(1)", "Invalid number of arguments in call to function system.now: 0 required but 1 provided"),
        (
            "min_timeuuid(tx)",
            "Type error: tx cannot be passed as argument 0 of function system.min_timeuuid of type timestamp",
        ),
        (
            "to_unix_timestamp('2024-01-01')",
            "Ambiguous call to function to_unix_timestamp (can be matched by following signatures: \
             system.to_unix_timestamp : (timestamp) -> bigint, system.to_unix_timestamp : (date) -> \
             bigint): use type casts to disambiguate",
        ),
        ("map_keys(k)", "Function system.map_keys requires a map argument, but found argument k of type int"),
        (
            "collection_count(tx)",
            "Function system.collection_count requires a collection argument, but found argument tx of type text",
        ),
        (
            "collection_sum(ma)",
            "Function system.collection_sum requires a numeric set/list argument, but found argument ma of \
             type map<text, int>",
        ),
        (
            "to_json(null)",
            "Cannot infer type of argument NULL in call to function system.to_json(any): use type casts to \
             disambiguate",
        ),
        ("from_json('5')", "from_json() cannot be used in the selection clause of a SELECT statement"),
        ("similarity_cosine(ve, ve3)", "All arguments must have the same vector dimensions"),
        (
            "similarity_cosine(ve, k)",
            "Function system.similarity_cosine requires a float vector argument, but found argument k of type int",
        ),
        (
            "mask_replace(k, 'x')",
            "Type error: 'x' cannot be passed as argument 1 of function system.mask_replace of type int",
        ),
        (
            "mask_inner(k, 1, 1)",
            "Function system.mask_inner requires an argument of type [text|varchar|ascii], but found \
             argument k of type int",
        ),
        (
            "count(tx, k)",
            "Invalid number of arguments in call to function system.count: 1 required but 2 provided",
        ),
        ("min()", "Invalid number of arguments for function system.min(any)"),
        (
            "min(?)",
            "Cannot infer type of argument ? in call to function system.min(any): use type casts to disambiguate",
        ),
    ] {
        assert_eq!(meaning(call, None), Err(words.to_owned()), "{call}");
    }
}

fn operation(
    left: &str,
    operator: ArithmeticOperator,
    right: &str,
    receiver: Option<DataType>,
) -> Result<String, String> {
    resolve_arithmetic(operator, &*argument(left), &*argument(right), receiver.as_ref())
        .map(|function| function.returns.to_string())
        .map_err(|error| error.to_string())
}

#[test]
fn operations_are_of_the_wider_type() {
    use ArithmeticOperator::{Add, Divide, Subtract};
    for (left, operator, right, returns) in [
        ("k", Add, "1", "int"),
        ("k", Add, "1.5", "double"),
        ("k", Add, "bi", "bigint"),
        ("k", Add, "f", "float"),
        ("k", Add, "de", "decimal"),
        ("k", Add, "vi", "varint"),
        ("ti", Add, "ti", "tinyint"),
        ("ti", Add, "1", "int"),
        ("tx", Add, "a", "text"),
        ("a", Add, "'x'", "ascii"),
        ("dt", Add, "du", "date"),
        ("ts", Subtract, "1d", "timestamp"),
    ] {
        assert_eq!(operation(left, operator, right, None), Ok(returns.to_owned()), "{left} {right}");
    }
    let double = Some(DataType::Double);
    assert_eq!(operation("1", Divide, "2", double), Ok("double".to_owned()));
    assert_eq!(operation("5", Add, "6", Some(DataType::BigInt)), Ok("bigint".to_owned()));
    assert_eq!(operation("5", Add, "6", Some(DataType::TinyInt)), Ok("tinyint".to_owned()));
    for (left, right, words) in [
        ("k", "tx", "the '+' operation is not supported between k and tx"),
        (
            "k",
            "?",
            "Ambiguous '+' operation with args k and ?: use type hint to disambiguate, example '(int) ?'",
        ),
        (
            "ts",
            "1",
            "Ambiguous '+' operation with args ts and 1: use type hint to disambiguate, example '(int) ?'",
        ),
    ] {
        assert_eq!(operation(left, Add, right, None), Err(words.to_owned()));
    }
    assert_eq!(
        operation("1", Add, "?", Some(DataType::BigInt)),
        Err("Ambiguous '+' operation with args 1 and ?: use type hint to disambiguate, example '(int) ?'"
            .to_owned())
    );
}

#[test]
fn a_cast_to_the_same_type_is_nothing_and_an_unknown_one_an_error() {
    let cast = |argument: &dyn Argument, to| resolve_cast(argument, to).map_err(|error| error.to_string());
    assert_eq!(cast(&*argument("k"), NativeType::Int), Ok(None));
    assert_eq!(cast(&*argument("tx"), NativeType::Varchar), Ok(None));
    assert_eq!(cast(&*argument("k"), NativeType::Varchar).unwrap().unwrap().returns, DataType::Text);
    assert_eq!(cast(&*argument("k"), NativeType::Blob), Err("k cannot be cast to blob".to_owned()));
    let error = cast(&*argument("tx"), NativeType::Int).unwrap_err();
    assert!(error.starts_with("Invalid call to function system.cast_as_int, none of its type"), "{error}");
    let error = resolve_negation(&*argument("tx"), None).unwrap_err().to_string();
    assert!(error.contains("system.\"_negate\" : (int) -> int"), "{error}");
}

struct Fixed;

impl Surroundings for Fixed {
    fn now_us(&self) -> i64 {
        1_700_000_000_123_456
    }

    fn next_time_uuid(&self) -> [u8; 16] {
        crate::values::timeuuid::min_at_millis(1)
    }

    fn random_uuid(&self) -> [u8; 16] {
        [7; 16]
    }

    fn call(&self, _: &Arc<UserFunction>, _: &[Option<&[u8]>]) -> Evaluated {
        Ok(None)
    }
}

fn value(call: &str, values: &[Option<&[u8]>]) -> Result<Option<String>, String> {
    let (name, arguments) = call.strip_suffix(')').unwrap().split_once('(').unwrap();
    let arguments: Vec<_> = arguments.split(", ").filter(|text| !text.is_empty()).map(argument).collect();
    let arguments: Vec<&dyn Argument> = arguments.iter().map(|argument| &**argument).collect();
    let Ok(Some(Function::Scalar(function))) = resolve(name, &arguments, None) else { panic!("{call}") };
    let result = function.evaluate(values, &Fixed).map_err(|error| error.to_string())?;
    Ok(result.map(|bytes| crate::values::to_literal(&function.returns, Some(&bytes))))
}

#[test]
fn what_json_holds_must_be_a_value_of_the_type() {
    let text = argument("?");
    let Ok(Some(Function::Scalar(function))) = resolve("from_json", &[&*text], Some(&DataType::Duration))
    else {
        panic!("from_json")
    };
    let read =
        |json: &str| function.evaluate(&[Some(json.as_bytes())], &Fixed).map_err(|error| error.to_string());
    assert_eq!(read(r#""0s""#), Ok(Some(vec![0; 3])));
    assert_eq!(
        read(r#""""#).unwrap_err(),
        "Return of function system.from_json : (text) -> duration () is not a valid value for its declared \
         return type duration"
    );
}

#[test]
fn functions_of_now_take_it_from_their_surroundings() {
    for (call, expected) in [
        ("current_timestamp()", "'2023-11-14T22:13:20.123Z'"),
        ("current_date()", "'2023-11-14'"),
        ("current_time()", "'22:13:20.123456000'"),
        ("uuid()", "07070707-0707-0707-0707-070707070707"),
    ] {
        assert_eq!(value(call, &[]), Ok(Some(expected.to_owned())), "{call}");
    }
}

#[test]
fn masks_hide_what_they_should() {
    let text: Option<&[u8]> = Some(b"text");
    let one: Option<&[u8]> = Some(&[0, 0, 0, 1]);
    for (call, values, expected) in [
        ("mask_default(tx)", vec![text], Some("'****'")),
        ("mask_default(ts)", vec![None], Some("'1970-01-01T00:00:00.000Z'")),
        ("mask_null(tx)", vec![text], None),
        ("mask_replace(k, 7)", vec![one, Some(&[0, 0, 0, 7])], Some("7")),
        ("mask_inner(tx, 1, 1)", vec![text, one, one], Some("'t**t'")),
        ("mask_outer(tx, 1, null)", vec![text, one, None], Some("'*ext'")),
        ("mask_inner(tx, 1, 1, '#')", vec![text, one, one, Some(b"#")], Some("'t##t'")),
        ("mask_inner(a, 1, 1, 'é')", vec![text, one, one, Some("é".as_bytes())], Some("'t??t'")),
        ("mask_hash(tx)", vec![None], None),
        ("mask_hash(tx, 'md5')", vec![text, Some(b"md5")], Some("0x1cb251ec0d568de6a929b520c4aed8d1")),
        (
            "mask_hash(tx)",
            vec![text],
            Some("0x982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"),
        ),
    ] {
        assert_eq!(value(call, &values), Ok(expected.map(str::to_owned)), "{call}");
    }
    assert_eq!(
        value("mask_inner(tx, 1, 1, '##')", &[text, one, one, Some(b"##")]),
        Err(
            "The padding argument for function system.mask_inner should be single-character, but '##' has 2 \
             characters."
                .to_owned()
        )
    );
}

#[test]
fn masks_of_columns_have_arguments_of_the_types_that_follow_from_the_column() {
    let types = |name: &str, data_type: &DataType, arguments: usize| {
        let resolved = resolve_mask(name, data_type, arguments).map_err(|error| error.to_string())?;
        Ok(resolved
            .map(|function| function.arguments.iter().map(DataType::to_string).collect::<Vec<_>>().join(" ")))
    };
    let known = |types: &str| Ok::<_, String>(Some(types.to_owned()));
    assert_eq!(types("mask_default", &DataType::Int, 0), known("int"));
    assert_eq!(types("mask_replace", &DataType::list(DataType::Int), 1), known("list<int> list<int>"));
    assert_eq!(types("mask_inner", &DataType::Ascii, 2), known("ascii int int"));
    assert_eq!(types("mask_outer", &DataType::Text, 3), known("text int int text"));
    assert_eq!(types("mask_hash", &DataType::Blob, 1), known("blob text"));
    assert_eq!(types("to_json", &DataType::Int, 0), Ok(None));
    assert_eq!(
        types("mask_null", &DataType::Int, usize::MAX),
        Err("Invalid number of arguments for function system.mask_null(any)".to_owned())
    );
    assert_eq!(
        types("mask_inner", &DataType::Int, 2),
        Err("Function system.mask_inner requires an argument of type [text|varchar|ascii], but found argument \
             org.apache.cassandra.db.marshal.Int32Type of type int"
            .to_owned())
    );
}

#[test]
fn an_unknown_hash_algorithm_is_named() {
    assert_eq!(
        value("mask_hash(tx, 'ROT13')", &[Some(b"text"), Some(b"ROT13")]),
        Err("Hash algorithm not found: ROT13".to_owned())
    );
}

#[test]
fn vectors_are_as_similar_as_in_cassandra() {
    let vector = |a: f32, b: f32| [a.to_be_bytes(), b.to_be_bytes()].concat();
    let (x, diagonal, zero) = (vector(1.0, 0.0), vector(0.5, 0.5), vector(0.0, 0.0));
    let similar = |call: &str, other: &[u8]| value(call, &[Some(&x), Some(other)]);
    assert_eq!(similar("similarity_cosine(ve, ve)", &x), Ok(Some("1.0".to_owned())));
    assert_eq!(similar("similarity_euclidean(ve, ve)", &x), Ok(Some("1.0".to_owned())));
    assert_eq!(similar("similarity_dot_product(ve, ve)", &diagonal), Ok(Some("0.75".to_owned())));
    assert_eq!(
        similar("similarity_cosine(ve, ve)", &zero),
        Err("Function system.similarity_cosine doesn't support all-zero vectors.".to_owned())
    );
}

#[test]
fn collections_are_counted_and_summed() {
    let int = |n: i32| n.to_be_bytes().to_vec();
    let list = crate::values::build_list(&[int(3), int(1), int(2)]);
    for (call, expected) in [
        ("collection_count(li)", "3"),
        ("collection_min(li)", "1"),
        ("collection_max(li)", "3"),
        ("collection_sum(li)", "6"),
        ("collection_avg(li)", "2"),
    ] {
        assert_eq!(value(call, &[Some(&list)]), Ok(Some(expected.to_owned())), "{call}");
        assert_eq!(value(call, &[None]), Ok(None), "{call}");
    }
    let map =
        crate::values::build_map(&DataType::Text, vec![(b"x".to_vec(), int(1)), (b"a".to_vec(), int(2))]);
    assert_eq!(value("map_keys(ma)", &[Some(&map)]), Ok(Some("{'a', 'x'}".to_owned())));
    assert_eq!(value("map_values(ma)", &[Some(&map)]), Ok(Some("[2, 1]".to_owned())));
}

#[test]
fn numbers_too_long_to_calculate_with_are_refused_by_every_function() {
    let long = vec![1; 10_000_000];
    for data_type in [DataType::VarInt, DataType::Decimal] {
        let mut functions: Vec<ScalarFunction> = ["exp", "log", "log10", "round", "abs"]
            .into_iter()
            .flat_map(super::maths::functions)
            .filter(|function| function.arguments == [data_type.clone()])
            .collect();
        for name in ["cast_as_text", "cast_as_bigint", "cast_as_double"] {
            functions.extend(
                super::casts::functions(name).into_iter().filter(|f| f.arguments == [data_type.clone()]),
            );
        }
        let argument = TypedArgument { text: "n".to_owned(), data_type: data_type.clone() };
        for operator in [ArithmeticOperator::Divide, ArithmeticOperator::Modulo] {
            functions.push(resolve_arithmetic(operator, &argument, &argument, None).unwrap());
        }
        assert!(functions.len() >= 10, "{functions:?}");
        for function in functions {
            let values = vec![Some(&*long); function.arguments.len()];
            let error = function.evaluate(&values, &Fixed).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("a {data_type} of 10000000 bytes has more than 200000 digits"),
                "{function:?}"
            );
        }
    }
}
