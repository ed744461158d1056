//! What Cassandra accepts and refuses, as data.

use cassette_cql::parse;

#[test]
fn what_cassandra_accepts_is_accepted() {
    let mut failures = Vec::new();
    for line in include_str!("statements/good.cql").lines() {
        if line.starts_with("--") {
            continue;
        }
        // a comment needs the end of its line
        if let Err(error) = parse(&format!("{line}\n")) {
            failures.push(format!("{line}\n    {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
