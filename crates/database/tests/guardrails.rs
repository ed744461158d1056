//! Compares guardrails with those of Apache Cassandra.
//!
//! `tests/conformance/guardrails/NAME.cql` contains statements, one in each paragraph, and commands
//! for nodetool between them; `NAME.json` the responses of Cassandra 5.0.8 to a role that is not a
//! superuser: Cassandra exempts superusers, and without authentication every client is one.
//! `differences.json` contains the accepted differences.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Consistency, Database, DatabaseError, Options, Session, StatementOptions};
use cassette_vfs::{FakeFileSystem, ManualClock};
use serde_json::{Map, Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/guardrails")
}

fn read_json(name: &str) -> Value {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the paragraphs of a file without its comments.
fn statements(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let lines: String = text
        .lines()
        .filter(|line| !line.starts_with("--"))
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    lines.split("\n\n").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The configuration of Cassandra when its responses to the statements of a file were recorded.
fn database(name: &str, clock: Arc<ManualClock>) -> Database {
    let mut guardrails = vec![
        ("batch_size_warn_threshold", "1KiB"),
        ("batch_size_fail_threshold", "4KiB"),
        ("unlogged_batch_across_partitions_warn_threshold", "2"),
        ("tombstone_warn_threshold", "5"),
        ("tombstone_failure_threshold", "20"),
    ];
    let mut engine = cassette_engine::Options::new("/data");
    match name {
        "disk_usage" => guardrails.push(("data_disk_usage_max_disk_size", "10MiB")),
        "read_sizes" => {
            engine.column_index_size = 4 << 10;
            guardrails.extend([
                ("read_thresholds_enabled", "true"),
                ("coordinator_read_size_warn_threshold", "512KiB"),
                ("coordinator_read_size_fail_threshold", "1MiB"),
                ("local_read_size_warn_threshold", "4MiB"),
                ("local_read_size_fail_threshold", "10MiB"),
                ("row_index_read_size_warn_threshold", "2KiB"),
                ("row_index_read_size_fail_threshold", "16KiB"),
            ]);
        }
        _ => {}
    }
    let options = Options {
        engine,
        file_system: Arc::new(FakeFileSystem::new()),
        clock,
        materialized_views_enabled: true,
        guardrails: guardrails
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Options::new("/data")
    };
    Database::open(options).unwrap()
}

fn level(name: &str) -> Consistency {
    Consistency::ALL.into_iter().find(|level| level.to_string() == name).unwrap()
}

/// Returns the response to one paragraph, in the format of the recorded ones.
fn answer(clock: &ManualClock, database: &Database, session: &Session, statement: &str) -> Value {
    if let Some(seconds) = statement.strip_prefix("SLEEP ") {
        clock.advance(std::time::Duration::from_secs(seconds.parse().unwrap()));
        return json!({});
    }
    if statement == "nodetool flush" {
        database.engine().flush(None).unwrap();
        return json!({"exit": 0, "out": "", "err": ""});
    }
    if let Some(arguments) = statement.strip_prefix("nodetool setguardrailsconfig ") {
        let mut words = arguments.split(' ').map(str::to_owned);
        let setter = words.next().unwrap();
        let (exit, out) = match database.guardrails().set_by_name(&setter, &words.collect::<Vec<_>>()) {
            Ok(()) => (0, String::new()),
            Err(why) => (1, format!("nodetool: {why}\nSee 'nodetool help' or 'nodetool help <command>'.\n")),
        };
        return json!({"exit": exit, "out": out, "err": ""});
    }
    if let Some((count, repeated)) = statement.strip_prefix("REPEAT ").and_then(|rest| rest.split_once(": "))
    {
        let count: u32 = count.parse().unwrap();
        let mut last = json!({});
        for i in 1..=count {
            last = answer(clock, database, session, &expanded(repeated, i));
        }
        return last;
    }
    let mut options = StatementOptions {
        page_size: Some(5000),
        consistency: Consistency::LocalOne,
        ..StatementOptions::default()
    };
    let mut cql = statement;
    if let Some(rest) = statement.strip_prefix("CONSISTENCY ") {
        let (settings, rest) = rest.split_once(": ").unwrap();
        let mut words = settings.split(' ');
        options.consistency = level(words.next().unwrap());
        options.page_size = words.nth(1).map_or(options.page_size, |size| size.parse().ok());
        cql = rest;
    }
    match session.execute_with(cql, (), &options) {
        Ok(rows) => {
            let mut answer = Map::new();
            if !rows.warnings().is_empty() {
                answer.insert("warnings".into(), json!(rows.warnings()));
            }
            if !rows.columns().is_empty() {
                answer.insert("rows".into(), json!(rows.iter().count()));
            }
            Value::Object(answer)
        }
        Err(DatabaseError::AlreadyExists { keyspace, table }) => {
            json!({"error": "2400", "keyspace": keyspace, "table": table})
        }
        Err(error) => json!({"error": format!("{:04x}", error.code()), "message": error.to_string()}),
    }
}

/// Returns a repeated statement with its number for `{i}`, and 20 letters for `{20 x}`.
fn expanded(statement: &str, i: u32) -> String {
    let mut out = statement.replace("{i}", &i.to_string());
    while let Some((before, rest)) = out.split_once('{')
        && let Some((count, after)) = rest.split_once(" x}")
    {
        out = format!("{before}{}{after}", "x".repeat(count.parse().unwrap()));
    }
    out
}

/// Returns a response without values that differ between runs: the node's address, the time, the
/// order in Java's sets, values of rows.
fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("columns");
        if let Some(Value::Array(rows)) = fields.get("rows") {
            let count = rows.len();
            fields.insert("rows".into(), json!(count));
        }
        // The Python driver's error for a failed read.
        if fields.get("error") == Some(&json!("ReadFailure")) {
            fields.insert("error".into(), json!("1300"));
            let message = fields["message"].as_str().unwrap();
            let message = message.split("message=\"").nth(1).unwrap().split("\" info=").next().unwrap();
            fields.insert("message".into(), message.into());
        }
    }
    let text = |text: &mut String| {
        *text = text.replace("127.0.7.1", "127.0.0.1");
        *text = without_size(&in_order(text));
        if let Some((before, after)) = text.clone().split_once("_timestamp violated: ")
            && let Some((said, time)) = after.split_once(" threshold ")
        {
            let rest = time.trim_start_matches(|c: char| c.is_ascii_digit());
            *text = format!("{before}_timestamp violated: {said} threshold TIME{rest}");
        }
    };
    for key in ["message", "out"] {
        if let Some(Value::String(message)) = answer.get_mut(key) {
            text(message);
        }
    }
    if let Some(Value::Array(warnings)) = answer.get_mut("warnings") {
        for warning in warnings {
            if let Value::String(warning) = warning {
                text(warning);
            }
        }
    }
    answer
}

/// Returns the text without the number of bytes of a read: objects on Java's heap have other sizes.
fn without_size(text: &str) -> String {
    match text.split_once(" nodes loaded over ") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before} nodes loaded over N{rest}")
        }
        None => text.to_owned(),
    }
}

/// Sorts the words between brackets.
fn in_order(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[')
        && let Some((within, after)) = after.split_once(']')
    {
        let mut words: Vec<&str> = within.split(", ").collect();
        words.sort_unstable();
        out += &format!("{before}[{}]", words.join(", "));
        rest = after;
    }
    out + rest
}

fn judge(name: &str) {
    let differences = read_json("differences.json");
    let recorded = read_json(&format!("{name}.json"));
    let recorded = recorded.as_array().unwrap();
    let known: Vec<&str> = recorded.iter().filter_map(|entry| entry["statement"].as_str()).collect();
    assert_eq!(statements(&format!("{name}.cql")), known, "{name}: record the answers again");
    let clock = Arc::new(ManualClock::at_micros(1_795_363_115_000_000));
    let database = database(name, clock.clone());
    let session = database.session();
    session
        .execute(
            "CREATE KEYSPACE conformance WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    session.execute("USE conformance", ()).unwrap();
    let mut wrong = Vec::new();
    for (at, entry) in recorded.iter().enumerate() {
        let statement = entry["statement"].as_str().unwrap();
        let ours = comparable(&answer(&clock, &database, &session, statement));
        let cassandra = comparable(&entry["answer"]);
        let kept = &differences[name][statement]["answer"];
        let expected = if kept.is_null() { &cassandra } else { kept };
        if ours != *expected {
            wrong.push(format!("{at} {statement}\n  ours      {ours}\n  expected  {expected}"));
        } else if !kept.is_null() && ours == cassandra {
            wrong.push(format!("{statement}\n  no longer differs: take it out of differences.json"));
        }
    }
    assert!(wrong.is_empty(), "{name}: {} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn schema_statements_meet_the_guardrails_of_cassandra() {
    judge("schema");
}

#[test]
fn requests_meet_the_guardrails_of_cassandra() {
    judge("requests");
}

#[test]
fn tombstones_of_rows_that_indexes_lead_to_are_judged_as_in_cassandra() {
    judge("index_reads");
}

#[test]
fn sizes_of_reads_are_judged_as_in_cassandra() {
    judge("read_sizes");
}

#[test]
fn writes_to_a_disk_that_is_too_full_are_judged_as_in_cassandra() {
    judge("disk_usage");
}

#[test]
fn large_batches_and_tombstones_are_judged_as_in_cassandra() {
    judge("thresholds");
}
