//! Printed statements parse to the same statements, and no input makes the parser panic.

use cassette_cql::ast::{Identifier, Selection, Selector, Statement};
use cassette_cql::{parse, parse_term, parse_type, quote_identifier, quote_string};
use proptest::collection::vec;
use proptest::prelude::*;

/// Pieces of CQL, including some that are only valid together, and invalid ones.
const PIECES: &[&str] = &[
    "SELECT",
    "*",
    "FROM",
    "WHERE",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "BEGIN",
    "BATCH",
    "APPLY",
    "CREATE",
    "TABLE",
    "TYPE",
    "INDEX",
    "ALTER",
    "DROP",
    "ADD",
    "RENAME",
    "TO",
    "WITH",
    "AND",
    "OR",
    "REPLACE",
    "IF",
    "NOT",
    "EXISTS",
    "USING",
    "TTL",
    "TIMESTAMP",
    "IN",
    "CONTAINS",
    "KEY",
    "KEYS",
    "TOKEN",
    "LIMIT",
    "ORDER",
    "BY",
    "GROUP",
    "PER",
    "PARTITION",
    "ASC",
    "DESC",
    "ALLOW",
    "FILTERING",
    "JSON",
    "DISTINCT",
    "CAST",
    "AS",
    "COUNT",
    "WRITETIME",
    "PRIMARY",
    "STATIC",
    "MASKED",
    "DEFAULT",
    "GRANT",
    "ALL",
    "ON",
    "ROLE",
    "USER",
    "FUNCTION",
    "AGGREGATE",
    "RETURNS",
    "NULL",
    "CALLED",
    "INPUT",
    "LANGUAGE",
    "SFUNC",
    "STYPE",
    "LIST",
    "MAP",
    "FROZEN",
    "TUPLE",
    "VECTOR",
    "int",
    "text",
    "uuid",
    "DESCRIBE",
    "KEYSPACE",
    "MATERIALIZED",
    "VIEW",
    "t",
    "k",
    "\"Q\"\"q\"",
    "\"\"",
    "'it''s'",
    "$$x$$",
    "1",
    "-2",
    "3.5",
    "1e9",
    "1h",
    "P1Y",
    "0xCAFE",
    "true",
    "NaN",
    "-Infinity",
    "123e4567-e89b-12d3-a456-426614174000",
    "?",
    ":m",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "=",
    "!=",
    "<=",
    ">=",
    "+=",
    "-=",
    "+",
    "-",
    "/",
    "%",
    ".",
    "..",
    ",",
    ":",
    ";",
    "expr(",
    "--",
    "/*",
    "*/",
    "\n",
    "é",
    "'",
    "\"",
    "$",
];

fn soup() -> impl Strategy<Value = String> {
    vec((proptest::sample::select(PIECES), proptest::bool::ANY), 0..40).prop_map(|pieces| {
        let mut text = String::new();
        for (piece, blank) in pieces {
            text.push_str(piece);
            if blank {
                text.push(' ');
            }
        }
        text
    })
}

/// Terms as text, by the grammar.
fn term() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "null",
        "?",
        ":n",
        "1",
        "-1",
        "1.",
        "2.5e-3",
        "true",
        "1h2m",
        "-PT3S",
        "0xfF",
        "'a''b'",
        "$$it's$$",
        "nan",
        "-Infinity",
        "123e4567-e89b-12d3-a456-426614174000",
        "[]",
        "{}",
        "now()",
        "Ks.\"F\"()",
        "\"ttl\"(1)",
        "token(1)",
        "count(?)",
        "(int) ?",
        "('x.Y') 1",
        "(frozen<list<\"T\">>) []",
        "(ks.\"int\") ?",
        "- 'x'",
    ])
    .prop_map(str::to_string);
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            (inner.clone(), proptest::sample::select(vec!["+", "-", "*", "/", "%"]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left}) {operator} ({right})")),
            (inner.clone(), proptest::sample::select(vec!["+ ", "- ", "*", "/", "%"]), inner.clone())
                .prop_map(|(left, operator, right)| format!("{left} {operator}{right}")),
            vec(inner.clone(), 1..4).prop_map(|terms| format!("[{}]", terms.join(","))),
            vec(inner.clone(), 1..4).prop_map(|terms| format!("{{{}}}", terms.join(","))),
            vec(inner.clone(), 1..4).prop_map(|terms| format!("({})", terms.join(","))),
            vec(inner.clone(), 0..3).prop_map(|terms| format!("f({})", terms.join(","))),
            vec((inner.clone(), inner.clone()), 1..3).prop_map(|entries| {
                let entries: Vec<String> =
                    entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", entries.join(","))
            }),
            vec((proptest::sample::select(vec!["a", "\"A\"", "key", "ttl"]), inner), 1..3).prop_map(
                |fields| {
                    let fields: Vec<String> =
                        fields.iter().map(|(name, value)| format!("{name}:{value}")).collect();
                    format!("{{{}}}", fields.join(","))
                }
            ),
        ]
    })
}

fn cql_type() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "int",
        "TEXT",
        "counter",
        "ks.ty",
        "\"Ty\"",
        "\"int\"",
        "\"date\"",
        "\"byte\"",
        "\"ttl\"",
        "key",
        "\"select\"",
        "list",
        "'org.x.Y'",
        "ks.\"a\"\"b\"",
    ])
    .prop_map(str::to_string);
    leaf.prop_recursive(5, 20, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|element| format!("list<{element}>")),
            inner.clone().prop_map(|element| format!("Set < {element} >")),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| format!("map<{key},{value}>")),
            vec(inner.clone(), 1..4).prop_map(|elements| format!("tuple<{}>", elements.join(","))),
            (inner.clone(), -3..2000).prop_map(|(element, n)| format!("vector<{element}, {n}>")),
            inner.prop_map(|element| format!("frozen<list<{element}>>")),
        ]
    })
}

fn selections(text: &str) -> Option<Vec<Selection>> {
    match parse(&format!("SELECT {text} FROM t")).ok()?.statement {
        Statement::Select(select) => Some(select.selections),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_the_parser_panic(text in ".*") {
        let _ = parse(&text);
        let _ = parse_term(&text);
        let _ = parse_type(&text);
    }

    #[test]
    fn no_pieces_of_cql_make_the_parser_panic(text in soup()) {
        let _ = parse(&text);
        let _ = parse(&format!("SELECT {text} FROM t"));
        let _ = parse(&format!("SELECT * FROM t WHERE {text}"));
        let _ = parse(&format!("CREATE TABLE t ({text})"));
        let _ = parse_term(&text);
        let _ = parse_type(&text);
    }

    #[test]
    fn a_printed_term_reads_back(text in term()) {
        if let Ok(parsed) = parse_term(&text) {
            let printed = parsed.to_string();
            prop_assert_eq!(parse_term(&printed), Ok(parsed), "{} printed as {}", text, printed);
        }
    }

    #[test]
    fn a_printed_piece_of_soup_reads_back(text in soup()) {
        if let Ok(parsed) = parse_term(&text) {
            prop_assert_eq!(parse_term(&parsed.to_string()), Ok(parsed));
        }
        if let Ok(parsed) = parse_type(&text) {
            prop_assert_eq!(parse_type(&parsed.to_string()), Ok(parsed));
        }
    }

    #[test]
    fn a_printed_type_reads_back(text in cql_type()) {
        let parsed = parse_type(&text);
        prop_assert!(parsed.is_ok(), "{} {:?}", text, parsed);
        let parsed = parsed.unwrap();
        prop_assert_eq!(parse_type(&parsed.to_string()), Ok(parsed));
    }

    #[test]
    fn a_printed_selector_reads_back(terms in vec(term(), 1..3)) {
        let text = terms.join(", ");
        if let Some(selections) = selections(&text) {
            for selection in selections {
                let printed = format!("{} AS \"X\"", selection.selector);
                let again = self::selections(&printed);
                let expected = Selection { selector: selection.selector, alias: Some(Identifier::from("X")) };
                // Markers are numbered again.
                if !printed.contains(['?', ':']) {
                    prop_assert_eq!(again, Some(vec![expected]), "{} printed as {}", text, printed);
                }
            }
        }
    }

    #[test]
    fn any_name_reads_back_once_quoted(name in "[a-zA-Z0-9_\"é ]{1,12}") {
        let read = selections(&quote_identifier(&name));
        let column = Selector::Column(Identifier::new(name));
        prop_assert_eq!(read, Some(vec![Selection { selector: column, alias: None }]));
    }

    #[test]
    fn any_string_reads_back_once_quoted(text in ".*") {
        let read = parse_term(&quote_string(&text));
        let literal = cassette_cql::ast::Literal::new(cassette_cql::ast::LiteralKind::String, text);
        prop_assert_eq!(read, Ok(cassette_cql::ast::Term::Literal(literal)));
    }
}

#[test]
fn every_keyword_quoted_or_not_reads_back() {
    for word in "add true false select token count ttl key json distinct cast writetime list int expr nan \
        byte entries"
        .split(' ')
    {
        let read = selections(&quote_identifier(word));
        let column = Selector::Column(Identifier::from(word));
        assert_eq!(read, Some(vec![Selection { selector: column, alias: None }]), "{word}");
    }
}

#[test]
fn selectors_print_as_they_read() {
    let text = "a.b.c, m[1], m[1..2], m[..2], m[1..], (a, b), [a, b], {a, b}, {a: b}, {}, (int) a, - a, - - a, \
        a + b * c % d / e - f, count(*), writetime(v), ttl(m['a']), maxwritetime(u.f), cast(a as text), f(a, 1), \
        ks.g(), 1 .a, \"Q\", token(k), \"ttl\"(k), \"expr\"(k)";
    let read = selections(text).expect("selectors");
    let printed: Vec<String> = read.iter().map(Selection::to_string).collect();
    assert_eq!(printed.join(", "), text);
}
