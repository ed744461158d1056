//! Calls of functions in Lua, and their limits.

use std::time::Duration;

use cassette_cql::values::{from_text, to_text};
use cassette_rows::DataType;

use super::*;

fn data_type(text: &str) -> DataType {
    match text {
        "list<int>" => DataType::list(DataType::Int),
        "set<text>" => DataType::set(DataType::Text),
        "map<text, int>" => DataType::map(DataType::Text, DataType::Int),
        "tuple<int, text>" => DataType::tuple([DataType::Int, DataType::Text]),
        "vector<float, 2>" => DataType::vector(DataType::Float, 2),
        "list<text>" => DataType::list(DataType::Text),
        native => match cassette_cql::parse_type(native) {
            Ok(cassette_cql::ast::CqlType::Native(native)) => native.data_type(),
            other => panic!("{other:?}"),
        },
    }
}

fn function(arguments: &[(&str, &str)], returns: &str, body: &str) -> UserFunction {
    let argument = |(name, of): &(&str, &str)| ((*name).to_owned(), data_type(of));
    UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: arguments.iter().map(argument).collect(),
        returns: data_type(returns),
        called_on_null_input: true,
        language: "lua".to_owned(),
        body: body.to_owned(),
    }
}

fn settings() -> Settings {
    Settings { enabled: true, ..Settings::default() }
}

/// Calls a function with arguments in their text form.
fn call_with(
    settings: &Settings,
    function: &UserFunction,
    values: &[&str],
) -> Result<Option<String>, CallError> {
    let program = Program::compile(function, settings)?;
    let bytes: Vec<_> = values
        .iter()
        .zip(&function.arguments)
        .map(|(text, (_, of))| (*text != "null").then(|| from_text(of, text).unwrap()))
        .collect();
    let values: Vec<_> = bytes.iter().map(Option::as_deref).collect();
    let result = program.call(function, &values, settings)?;
    Ok(result.map(|bytes| to_text(&function.returns, &bytes)))
}

fn evaluate(arguments: &[(&str, &str, &str)], returns: &str, body: &str) -> Result<String, String> {
    let types: Vec<_> = arguments.iter().map(|(name, of, _)| (*name, *of)).collect();
    let values: Vec<_> = arguments.iter().map(|(.., value)| *value).collect();
    match call_with(&settings(), &function(&types, returns, body), &values) {
        Ok(result) => Ok(result.unwrap_or_else(|| "null".to_owned())),
        Err(CallError::Failed(reason)) => Err(reason),
        Err(other) => panic!("{other:?}"),
    }
}

fn text(body: &str) -> Result<String, String> {
    evaluate(&[], "text", body)
}

#[test]
fn arguments_are_local_variables_and_return_is_the_result() {
    let sum = "local c = a + b return c * 2";
    assert_eq!(evaluate(&[("a", "int", "1"), ("b", "int", "2")], "int", sum), Ok("6".to_owned()));
    assert_eq!(evaluate(&[("a", "int", "null")], "int", "return a"), Ok("null".to_owned()));
    assert_eq!(evaluate(&[("a", "int", "1")], "int", "local x = a"), Ok("null".to_owned()));
}

#[test]
fn values_of_every_type_go_in_and_out_unchanged() {
    for (of, value) in [
        ("ascii", "a"),
        ("text", "ä"),
        ("blob", "00ff"),
        ("boolean", "True"),
        ("tinyint", "-128"),
        ("smallint", "32767"),
        ("int", "-2147483648"),
        ("bigint", "9223372036854775807"),
        ("varint", "99999999999999999999"),
        ("float", "1.5"),
        ("double", "0.1"),
        ("decimal", "1.10"),
        ("uuid", "123e4567-e89b-42d3-a456-426614174000"),
        ("inet", "127.0.0.1"),
        ("timestamp", "2024-02-29 12:00:00.001Z"),
        ("date", "1969-12-31"),
        ("time", "12:00:00.000000001"),
        ("duration", "1mo2d3ns"),
    ] {
        let of_type = data_type(of);
        let expected = to_text(&of_type, &from_text(&of_type, value).unwrap());
        assert_eq!(evaluate(&[("a", of, value)], of, "return a"), Ok(expected), "{of}");
    }
}

#[test]
fn collections_are_tables() {
    let bytes =
        |items: &[i32]| build(&items.iter().map(|item| item.to_be_bytes().to_vec()).collect::<Vec<_>>());
    let program = |returns: &str, body: &str| function(&[("a", "list<int>")], returns, body);
    let call = |function: &UserFunction| {
        let program = Program::compile(function, &settings()).unwrap();
        program.call(function, &[Some(&bytes(&[3, 1, 2]))], &settings()).unwrap().unwrap()
    };
    assert_eq!(call(&program("int", "return a[1] * 100 + #a")), 303_i32.to_be_bytes());
    assert_eq!(call(&program("list<int>", "table.sort(a) return a")), bytes(&[1, 2, 3]));
    let set = program("set<text>", "return {b = true, a = true}");
    assert_eq!(call(&set), build(&[b"a".to_vec(), b"b".to_vec()]));
    let map = program("map<text, int>", "return {b = 1, a = 2}");
    assert_eq!(collection_of(&map.returns, &call(&map)), "{'a': 2, 'b': 1}");
    let tuple = program("tuple<int, text>", "return {nil, 'x'}");
    assert_eq!(collection_of(&tuple.returns, &call(&tuple)), "(null, 'x')");
    let vector = program("vector<float, 2>", "return {1, 2.5}");
    assert_eq!(collection_of(&vector.returns, &call(&vector)), "[1.0, 2.5]");
}

fn build(items: &[Vec<u8>]) -> Vec<u8> {
    cassette_cql::values::build_list(items)
}

fn collection_of(of: &DataType, bytes: &[u8]) -> String {
    cassette_cql::values::to_literal(of, Some(bytes))
}

#[test]
fn results_that_are_no_value_of_the_type_are_errors() {
    for (returns, body, reason) in [
        ("int", "return 'x'", "invalid result of type int: "),
        ("int", "return 1.5", "invalid result of type int: expected integer, found number"),
        ("tinyint", "return 128", "invalid result of type tinyint: "),
        ("text", "return 1", "invalid result of type text: expected string, found integer"),
        ("text", "return '\\255'", "invalid result of type text: "),
        ("list<int>", "return {1, nil, 3}", "invalid result of type list<int>: an element is nil"),
        ("list<int>", "return {1, 'x'}", "invalid result of type list<int>: "),
        ("set<text>", "return {'a'}", "invalid result of type set<text>: expected a table with true"),
        ("vector<float, 2>", "return {1}", "invalid result of type vector<float, 2>: "),
        ("date", "return 1 << 40", "invalid result of type date: expected days since 1970-01-01"),
    ] {
        let error = evaluate(&[], returns, body).unwrap_err();
        assert!(error.starts_with(reason), "{body}: {error}");
    }
}

#[test]
fn nothing_outside_of_the_function_can_be_reached() {
    for name in [
        "io",
        "os",
        "debug",
        "package",
        "require",
        "load",
        "loadstring",
        "dofile",
        "loadfile",
        "pcall",
        "xpcall",
        "coroutine",
        "setmetatable",
        "getmetatable",
        "rawset",
        "rawget",
        "collectgarbage",
        "print",
        "_G",
        "string.dump",
        "math.randomseed",
        "warn",
    ] {
        assert_eq!(text(&format!("return tostring({name})")), Ok("nil".to_owned()), "{name}");
    }
}

#[test]
fn nothing_of_one_call_is_visible_in_the_next() {
    let counter = function(&[], "int", "x = (x or 0) + 1 return x");
    let program = Program::compile(&counter, &settings()).unwrap();
    for _ in 0..3 {
        assert_eq!(program.call(&counter, &[], &settings()), Ok(Some(1_i32.to_be_bytes().to_vec())));
    }
    let change = text("string.x = 1 return 'changed'").unwrap_err();
    assert!(change.contains("libraries cannot be changed"), "{change}");
}

#[test]
fn bytecode_is_not_loaded() {
    let error = text("\u{1b}Lua").unwrap_err();
    assert!(!error.is_empty());
}

#[test]
fn errors_name_the_line_without_a_stack_trace() {
    assert_eq!(
        text("local x = nil\nreturn x.y"),
        Err("ks.f:2: attempt to index a nil value (local 'x')".to_owned())
    );
    assert_eq!(text("error('no')"), Err("ks.f:1: no".to_owned()));
    let syntax = text("return )").unwrap_err();
    assert!(syntax.starts_with("ks.f:1: "), "{syntax}");
}

#[test]
fn names_of_arguments_must_be_names_in_lua() {
    for name in ["end", "a b", "1a", "é", ""] {
        let function = function(&[(name, "int")], "int", "return 1");
        let Err(CallError::Failed(reason)) = Program::compile(&function, &settings()) else {
            panic!("{name}")
        };
        assert!(reason.contains("is not a name in Lua"), "{reason}");
    }
}

#[test]
fn endless_loops_end_at_the_limit_of_instructions() {
    let limited = Settings { instructions: 100_000, ..settings() };
    for body in [
        "while true do end",
        "local function f() return f() end return f()",
        "for w in string.gmatch('aaaa', 'a') do while true do end end",
        "return string.rep('a', 1000):gsub('a', function() while true do end end)",
        "local t = {} for i = 1, 1e9 do t[1] = i end",
    ] {
        let result = call_with(&limited, &function(&[], "int", body), &[]);
        let Err(CallError::Failed(reason)) = result else { panic!("{body}: {result:?}") };
        assert!(reason.contains("too many instructions"), "{body}: {reason}");
    }
}

#[test]
fn work_of_library_functions_counts_as_instructions() {
    let limited = Settings { instructions: 400_000, ..settings() };
    let long = "local s = ('x'):rep(4 << 20) ";
    let many = "local t = {} for i = 1, 50000 do t[i] = -i end ";
    for body in [
        format!("{many} table.sort(t) return 'sorted'"),
        format!("{many} table.sort(t, math.ult) return 'sorted'"),
        format!("{many} for i = 1, 8 do table.concat(t, ',') end return 'joined'"),
        format!("{long} for i = 1, 2 do utf8.len(s) end return 'counted'"),
        format!("{long} for i = 1, 2 do s:byte(-1) end return 'read'"),
        format!("{long} for i = 1, 2 do string.format('%s', s) end return 'formatted'"),
    ] {
        let reason = match call_with(&limited, &function(&[], "text", &body), &[]) {
            Err(CallError::Failed(reason)) => reason,
            other => panic!("{body}: {other:?}"),
        };
        assert!(reason.contains("too many instructions"), "{body}: {reason}");
    }
    let body = "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t, '|', 1, 3)";
    assert_eq!(text(body).as_deref(), Ok("3|2|1"));
    let body = "local t = {'b', 'a'} table.sort(t, 5) return 'sorted'";
    assert!(text(body).unwrap_err().contains("function expected"));
}

#[test]
fn patterns_count_as_instructions() {
    // The limit of time must not come first on a slow machine.
    let fail_timeout = Duration::from_secs(600);
    let limited = Settings { instructions: 10_000_000, fail_timeout, ..settings() };
    for body in [
        "return string.find(string.rep('a', 10000), '.-.-.-.-b')",
        "return string.match(string.rep('a', 10000), 'a*a*a*a*b')",
        "return string.gsub(string.rep('(', 100000), '%b()', '')",
        "return string.find(string.rep('a', 1000000), string.rep('a', 100000) .. 'b', 1, true)",
    ] {
        let result = call_with(&limited, &function(&[], "int", body), &[]);
        let Err(CallError::Failed(reason)) = result else { panic!("{body}: {result:?}") };
        assert!(reason.contains("too many instructions"), "{body}: {reason}");
    }
}

#[test]
fn library_functions_cannot_loop_without_limit() {
    for (body, result) in [
        ("return string.rep('', 1 << 62)", Ok("")),
        ("table.move({}, 1, 1 << 60, 2) return 'moved'", Err("too many elements")),
        ("return string.rep('x', 1 << 40)", Err("")),
        ("local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end", Err("memory")),
    ] {
        match (text(body), result) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{body}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{body}: {found}"),
            (found, _) => panic!("{body}: {found:?}"),
        }
    }
}

#[test]
fn results_are_bounded_where_one_text_is_used_many_times() {
    let body = "local s = string.rep('x', 1 << 20) local t = {} for i = 1, 1000 do t[i] = s end return t";
    let error = evaluate(&[], "list<text>", body).unwrap_err();
    assert_eq!(error, "invalid result of type list<text>: out of memory");
}

#[test]
fn a_call_that_runs_too_long_fails_with_the_text_of_cassandra() {
    let limited = Settings { fail_timeout: Duration::ZERO, ..settings() };
    let endless = function(&[("a", "int")], "int", "while true do end");
    let expected = "User defined function ks.f : (int) -> int ran longer than 0ms";
    assert_eq!(call_with(&limited, &endless, &["1"]), Err(CallError::Failed(expected.to_owned())));
}

#[test]
fn patterns_match_as_the_manual_describes() {
    for (expression, expected) in [
        ("('hello world'):find('o w')", "5 7"),
        ("('hello world'):find('o', 6)", "8 8"),
        ("('hello'):find('l+')", "3 4"),
        ("('a.b'):find('.', 1, true)", "2 2"),
        ("('hello'):find('xyz')", "nil"),
        ("('hello'):find('')", "1 0"),
        ("('hello'):find('', 10)", "nil"),
        ("('key = value'):match('^(%w+)%s*=%s*(%w+)$')", "key value"),
        ("('2024-02-29'):match('(%d+)-(%d+)-(%d+)')", "2024 02 29"),
        ("('  trim  '):match('^%s*(.-)%s*$')", "trim"),
        ("('f(a(b)c)d'):match('%b()')", "(a(b)c)"),
        ("('THE (quick) fox'):find('%((%a+)%)')", "5 11 quick"),
        ("('hello'):match('()ll()')", "3 5"),
        ("('abc'):gsub('%w', '%0%0')", "aabbcc 3"),
        ("('hello world'):gsub('o', '0', 1)", "hell0 world 1"),
        ("('abc'):gsub('', '-')", "-a-b-c- 4"),
        ("('$name is $age'):gsub('%$(%w+)', {name = 'Bob', age = 7})", "Bob is 7 2"),
        ("('abc'):gsub('b', function(x) return x:upper() end)", "aBc 1"),
        ("('abc'):gsub('b', function() end)", "abc 1"),
        ("('THE (quick) fox'):gsub('%f[%a]%a+', 'x')", "x (x) x 3"),
        ("('\"it\\'s\"'):match('([\"\\'])(.-)%1')", "\" it's"),
        ("('a-b]c'):gsub('[]-]', '')", "abc 2"),
        ("('x^y'):gsub('[%^]', '')", "xy 1"),
        ("('abc123'):gsub('[^%d]', '')", "123 3"),
        ("('a,b,,c'):gsub(',*', ';')", ";a;b;c; 4"),
    ] {
        let body = format!(
            "local r = table.pack({expression}) for i = 1, r.n do r[i] = tostring(r[i]) end \
                            return table.concat(r, ' ')"
        );
        assert_eq!(text(&body), Ok(expected.to_owned()), "{expression}");
    }
    let all = "local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end \
               return table.concat(t, ' ')";
    assert_eq!(text(all), Ok("a1 b2".to_owned()));
    for (pattern, reason) in [
        ("%", "malformed pattern (ends with '%')"),
        ("[a", "malformed pattern (missing ']')"),
        ("(a", "unfinished capture"),
        ("a)", "invalid pattern capture"),
        ("%1", "invalid capture index %1"),
        ("%f", "missing '[' after '%f' in pattern"),
    ] {
        let error = text(&format!("return ('aaa'):match('{pattern}')")).unwrap_err();
        assert!(error.contains(reason), "{pattern}: {error}");
    }
}
