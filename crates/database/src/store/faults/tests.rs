use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::*;
use crate::basics::error::WriteType;
use crate::basics::request::Consistency;
use crate::schema::catalog::Catalog;
use crate::schema::system::TESTING;

fn request(text: &str) -> FaultedRequest {
    let mut request = FaultedRequest {
        class: StatementClass::Other,
        is_conditional: false,
        is_counter: false,
        texts: Vec::new(),
        tables: Vec::new(),
        write_type: WriteType::Simple,
        consistency: Consistency::Quorum,
        serial_consistency: Consistency::Serial,
        page_size: Some(100),
        client: Some(Ipv4Addr::new(10, 1, 2, 3).into()),
        node: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    request.add(text, Some("app"), &Catalog::new([]));
    request
}

fn rule(values: &[(&str, FaultValue)]) -> FaultRule {
    let mut rule = FaultRule { id: "rule".to_owned(), ..FaultRule::default() };
    for (name, value) in values {
        assert!(rule.set(name, Some(value.clone())), "{name}");
    }
    rule
}

fn text(text: &str) -> FaultValue {
    FaultValue::Text(text.to_owned())
}

fn with(values: &[(&str, FaultValue)]) -> Faults {
    let faults = Faults::default();
    faults.put(rule(values)).unwrap();
    faults
}

fn is_affected(faults: &Faults, statement: &str) -> bool {
    faults.injected(&request(statement)).is_some()
}

const READ: &str = "SELECT * FROM users WHERE id = 1";
const WRITE: &str = "INSERT INTO app.users (id) VALUES (1)";
const CONDITIONAL: &str = "UPDATE users SET v = 1 WHERE id = 1 IF v = 0";

#[test]
fn effects_concern_only_requests_that_can_meet_them() {
    for (effect, read, write, conditional) in [
        ("read_timeout", true, false, false),
        ("read_failure", true, false, false),
        ("write_timeout", false, true, true),
        ("write_failure", false, true, true),
        ("cas_write_unknown", false, false, true),
        ("unavailable", true, true, true),
        ("drop_connection", true, true, true),
        ("truncate_error", false, false, false),
    ] {
        let faults = with(&[("effect", text(effect))]);
        let affected = [READ, WRITE, CONDITIONAL].map(|statement| is_affected(&faults, statement));
        assert_eq!(affected, [read, write, conditional], "{effect}");
    }
}

#[test]
fn a_rule_matches_by_statement_kind_table_client_and_node() {
    for (column, value, read, write) in [
        ("statement", "SELECT%users%", true, false),
        ("kind", "read", true, false),
        ("kind", "insert", false, true),
        ("keyspace_name", "app", true, true),
        ("keyspace_name", "other", false, false),
        ("table_name", "users", true, true),
        ("table_name", "orders", false, false),
        ("client", "10.0.0.0/8", true, true),
        ("client", "10.1.2.3", true, true),
        ("client", "10.1.2.4", false, false),
        ("node", "127.0.0.1", true, true),
        ("node", "127.0.0.2", false, false),
    ] {
        let faults = with(&[("effect", text("overloaded")), (column, text(value))]);
        let affected = [READ, WRITE].map(|statement| is_affected(&faults, statement));
        assert_eq!(affected, [read, write], "{column} = {value}");
    }
}

#[test]
fn system_keyspaces_are_affected_only_by_their_name_and_the_rules_never() {
    let faults = with(&[("effect", text("overloaded"))]);
    assert!(!is_affected(&faults, "SELECT * FROM system.local"));
    assert!(!is_affected(&faults, "SELECT * FROM system_schema.tables"));
    let named = with(&[("effect", text("overloaded")), ("keyspace_name", text("system"))]);
    assert!(is_affected(&named, "SELECT * FROM system.local"));
    let own = with(&[("effect", text("overloaded")), ("keyspace_name", text(TESTING))]);
    assert!(!is_affected(&own, "TRUNCATE system_testing.cassette_faults"));
}

#[test]
fn skipped_requests_and_those_after_the_last_one_pass_and_are_counted() {
    let faults =
        with(&[("effect", text("overloaded")), ("skip", FaultValue::Int(1)), ("times", FaultValue::Int(2))]);
    let affected: Vec<bool> = (0..5).map(|_| is_affected(&faults, READ)).collect();
    assert_eq!(affected, [false, true, true, false, false]);
    assert_eq!(faults.list()[0].1, FaultCounts { matched: 5, injected: 2 });
    faults.change("rule", vec![("times".to_owned(), None)]).unwrap();
    assert_eq!(faults.list()[0].1, FaultCounts::default(), "a changed rule counts from zero");
}

#[test]
fn a_probability_affects_that_fraction_and_the_same_requests_in_each_run() {
    let run = || {
        let faults = with(&[("effect", text("overloaded")), ("probability", FaultValue::Double(0.25))]);
        (0..1000).map(|_| is_affected(&faults, READ)).collect::<Vec<_>>()
    };
    let affected = run();
    assert_eq!(affected, run());
    let count = affected.iter().filter(|affected| **affected).count();
    assert!((200..300).contains(&count), "{count}");
}

#[test]
fn a_request_that_passes_one_rule_is_tried_against_the_next() {
    let faults = with(&[("effect", text("overloaded")), ("times", FaultValue::Int(1))]);
    let delayed = FaultRule {
        id: "second".to_owned(),
        effect: Some("latency".to_owned()),
        delay_ms: Some(5),
        ..FaultRule::default()
    };
    faults.put(delayed).unwrap();
    assert!(faults.injected(&request(READ)).unwrap().failure.is_some());
    let second = faults.injected(&request(READ)).unwrap();
    assert_eq!(second, Injected { delay: Duration::from_millis(5), ..Injected::default() });
    faults.clear();
    assert!(!faults.is_active());
}

#[test]
fn errors_have_the_level_and_the_write_type_of_the_request_by_default() {
    let error = |statement: &str| {
        let faults = with(&[("effect", text("write_timeout")), ("applied", FaultValue::Boolean(true))]);
        let injected = faults.injected(&request(statement)).unwrap();
        assert!(injected.is_applied);
        match injected.failure {
            Some(Failure::Error(
                FaultError::WriteTimeout { consistency, received, required, write_type },
                _,
            )) => (consistency, received, required, write_type),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error(WRITE), (Consistency::Quorum, 1, 2, "SIMPLE"));
    assert_eq!(error(CONDITIONAL), (Consistency::Serial, 1, 2, "CAS"));
    let batch = format!("BEGIN UNLOGGED BATCH {WRITE}; APPLY BATCH");
    assert_eq!(error(&batch), (Consistency::Quorum, 1, 2, "UNLOGGED_BATCH"));
    assert_eq!(error(&format!("BEGIN BATCH {WRITE}; APPLY BATCH")).3, "BATCH");
}

#[test]
fn mistakes_are_refused_with_what_is_possible() {
    use FaultValue::{Double, Int};
    for (values, expected) in [
        (vec![], "effect: expected one of latency, read_timeout, "),
        (vec![("effect", text("timeout"))], "effect: expected one of latency, read_timeout, "),
        (vec![("effect", text("latency"))], "delay_ms: expected milliseconds"),
        (vec![("effect", text("short_page"))], "page_size: expected rows"),
        (
            vec![("effect", text("overloaded")), ("alive", Int(1))],
            "alive: the effect overloaded does not have it",
        ),
        (vec![("effect", text("overloaded")), ("probability", Double(1.5))], "probability: expected 0 to 1"),
        (vec![("effect", text("overloaded")), ("times", Int(-1))], "times: expected 0 to "),
        (vec![("effect", text("overloaded")), ("kind", text("query"))], "kind: expected one of read, "),
        (vec![("effect", text("overloaded")), ("client", text("here"))], "client: expected an address"),
        (
            vec![("effect", text("write_timeout")), ("write_type", text("X"))],
            "write_type: expected one of SIMPLE",
        ),
        (
            vec![("effect", text("unavailable")), ("consistency", text("X"))],
            "consistency: expected one of ANY",
        ),
    ] {
        let error = Faults::default().put(rule(&values)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{values:?}: {error}");
    }
}
