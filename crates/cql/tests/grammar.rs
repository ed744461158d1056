//! Statements that Cassandra accepts and rejects, as data.

use cassette_cql::parse;

/// Undoes `\n`, `\t` and `\\`.
fn unescape(text: &str) -> String {
    let mut chars = text.chars();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        plain.push(match (c, chars.clone().next()) {
            ('\\', Some(escaped)) => {
                chars.next();
                match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                }
            }
            _ => c,
        });
    }
    plain
}

fn answer(statement: &str) -> String {
    match parse(&unescape(statement)) {
        Ok(_) => "accepted".to_string(),
        Err(error) => error.to_string().replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t"),
    }
}

fn assert_accepted(statements: &str) {
    let mut failures = Vec::new();
    for line in statements.lines().filter(|line| !line.starts_with("--")) {
        // A comment needs the end of its line.
        if let Err(error) = parse(&format!("{line}\n")) {
            failures.push(format!("{line}\n    {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_cassandra_accepts_is_accepted() {
    assert_accepted(include_str!("statements/good.cql"));
}

#[test]
fn schemas_of_real_tables_are_accepted() {
    assert_accepted(include_str!("statements/schemas.cql"));
}

#[test]
fn what_cassandra_refuses_is_refused_with_its_words() {
    let mut failures = Vec::new();
    for line in include_str!("statements/refused.tsv").lines().filter(|line| !line.starts_with("# ")) {
        let (statement, expected) = line.split_once('\t').expect("two columns");
        let ours = answer(statement);
        if ours != expected {
            failures.push(format!("{statement}\n    expected {expected}\n    got      {ours}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// An open list: a change of an answer requires a change of the list.
#[test]
fn known_differences_are_as_listed() {
    let mut failures = Vec::new();
    for line in include_str!("statements/differences.tsv").lines().filter(|line| !line.starts_with("# ")) {
        let mut columns = line.split('\t');
        let (Some(statement), Some(cassandra), Some(expected), Some(_why)) =
            (columns.next(), columns.next(), columns.next(), columns.next())
        else {
            panic!("four columns in {line}");
        };
        assert_ne!(cassandra, expected, "no difference any more: {statement}");
        let ours = answer(statement);
        if ours != expected {
            failures.push(format!("{statement}\n    listed {expected}\n    got    {ours}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
