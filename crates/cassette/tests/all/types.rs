//! Values of other crates, each behind a feature.

use cassette::convert::{FromCql, ToCql};
use cassette::{Database, Session};

fn session() -> Session {
    let session = Database::in_memory().unwrap().session();
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE app",
        "CREATE TYPE place (name text, level int)",
        "CREATE TABLE t (k int PRIMARY KEY, ts timestamp, d date, tm time, dec decimal, n int, tags set<text>, \
         tup tuple<int, text>, places list<frozen<place>>)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

/// Writes a value to a column and reads it back.
fn back<T: ToCql + FromCql>(session: &Session, column: &str, value: T) -> T {
    session.execute(&format!("INSERT INTO t (k, {column}) VALUES (1, ?)"), (value,)).unwrap();
    session.query_one::<(T,)>(&format!("SELECT {column} FROM t WHERE k = 1"), ()).unwrap().0
}

/// Writes a literal and reads it as `T`.
fn read<T: FromCql>(session: &Session, column: &str, literal: &str) -> cassette::Result<T> {
    session.execute(&format!("INSERT INTO t (k, {column}) VALUES (1, {literal})"), ()).unwrap();
    session.query_one::<(T,)>(&format!("SELECT {column} FROM t WHERE k = 1"), ()).map(|row| row.0)
}

#[test]
fn tuples_are_cql_tuples() {
    let session = session();
    assert_eq!(back(&session, "tup", (7, "seven".to_owned())), (7, "seven".to_owned()));
    assert_eq!(back(&session, "tup", (None::<i32>, "x".to_owned())), (None, "x".to_owned()));
    let error = session.execute("INSERT INTO t (k, tup) VALUES (1, ?)", ((1, 2, 3),)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tup: cannot convert a Rust tuple: expected a CQL tuple of 3, found frozen<tuple<int, text>>"
    );
}

#[test]
fn chrono_has_timestamps_dates_and_times() {
    use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
    let session = session();
    let before_1970 = DateTime::<Utc>::from_timestamp_millis(-1).unwrap();
    assert_eq!(back(&session, "ts", before_1970), before_1970);
    for date in [NaiveDate::from_ymd_opt(1969, 2, 28), NaiveDate::from_ymd_opt(2024, 2, 29)] {
        assert_eq!(back(&session, "d", date.unwrap()), date.unwrap());
    }
    let time = NaiveTime::from_hms_nano_opt(23, 59, 59, 999_999_999).unwrap();
    assert_eq!(back(&session, "tm", time), time);
    let date: NaiveDate = read(&session, "d", "'2024-02-29'").unwrap();
    assert_eq!(date, NaiveDate::from_ymd_opt(2024, 2, 29).unwrap());
    assert!(read::<NaiveDate>(&session, "d", "0").is_err());
    assert!(read::<DateTime<Utc>>(&session, "ts", "9223372036854775807").is_err());
    assert_eq!(read::<Option<NaiveTime>>(&session, "tm", "null").unwrap(), None);
    let error = session.execute("INSERT INTO t (k, ts) VALUES (1, ?)", (time,)).unwrap_err();
    let text = "ts: cannot convert chrono::NaiveTime: expected a value of CQL's time, found timestamp";
    assert_eq!(error.to_string(), text);
}

#[test]
fn time_has_timestamps_dates_and_times() {
    use time::{Date, Month, OffsetDateTime, Time};
    let session = session();
    let before_1970 = OffsetDateTime::from_unix_timestamp_nanos(-1_000_000).unwrap();
    assert_eq!(back(&session, "ts", before_1970), before_1970);
    let date = Date::from_calendar_date(1969, Month::February, 28).unwrap();
    assert_eq!(back(&session, "d", date), date);
    let time = Time::from_hms_nano(23, 59, 59, 999_999_999).unwrap();
    assert_eq!(back(&session, "tm", time), time);
    let read_date: Date = read(&session, "d", "'2024-02-29'").unwrap();
    assert_eq!(read_date, Date::from_calendar_date(2024, Month::February, 29).unwrap());
    assert!(read::<Date>(&session, "d", "0").is_err());
    assert!(read::<OffsetDateTime>(&session, "ts", "9223372036854775807").is_err());
}

#[test]
fn jiff_has_timestamps_dates_and_times() {
    use jiff::Timestamp;
    use jiff::civil::{Date, Time};
    let session = session();
    let before_1970 = Timestamp::from_millisecond(-1).unwrap();
    assert_eq!(back(&session, "ts", before_1970), before_1970);
    let with_nanoseconds = Timestamp::from_nanosecond(-1).unwrap();
    assert_eq!(back(&session, "ts", with_nanoseconds), before_1970);
    for date in [Date::constant(1969, 2, 28), Date::constant(2024, 2, 29)] {
        assert_eq!(back(&session, "d", date), date);
    }
    let time = Time::constant(23, 59, 59, 999_999_999);
    assert_eq!(back(&session, "tm", time), time);
    assert!(read::<Date>(&session, "d", "0").is_err());
    assert!(read::<Timestamp>(&session, "ts", "9223372036854775807").is_err());
}

#[test]
fn bigdecimal_is_a_decimal() {
    use bigdecimal::BigDecimal;
    let session = session();
    for text in ["0", "-12.50", "1e40", "123456789012345678901234567890.123"] {
        let decimal: BigDecimal = text.parse().unwrap();
        assert_eq!(back(&session, "dec", decimal.clone()), decimal, "{text}");
    }
    assert_eq!(read::<BigDecimal>(&session, "dec", "1.5").unwrap(), "1.5".parse::<BigDecimal>().unwrap());
    assert!(read::<BigDecimal>(&session, "n", "1").is_err());
}

#[test]
fn json_is_any_type() {
    use serde_json::{Value, json};
    let session = session();
    assert_eq!(back(&session, "n", json!(5)), json!(5));
    assert_eq!(back(&session, "tags", json!(["b", "a"])), json!(["a", "b"]));
    assert_eq!(back(&session, "ts", Value::Null), Value::Null);
    let places = json!([{"name": "hall", "level": 1}, {"name": "roof", "level": null}]);
    assert_eq!(back(&session, "places", places.clone()), places);
    assert!(session.execute("INSERT INTO t (k, n) VALUES (1, ?)", (json!("x"),)).is_err());
}
