//! Executed queries, as records and as JSON.

use serde_json::{Map, Value};

use crate::codec::{Fields, Malformed, put_bytes, put_text};

/// A query or batch that a client executed, with all that is needed to execute it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedQuery {
    /// When it began, microseconds since 1970.
    pub started_micros: i64,
    /// How long it took, microseconds.
    pub duration_micros: u64,
    /// The connection: requests of one are in the order in which they ended.
    pub connection: u64,
    /// The version of the native protocol.
    pub protocol_version: u8,
    /// The consistency by its number in the protocol.
    pub consistency: u16,
    /// The serial consistency by its number in the protocol.
    pub serial_consistency: Option<u16>,
    /// The page size.
    pub page_size: Option<i32>,
    /// Whether it is the continuation of a result, which another server cannot continue.
    pub is_next_page: bool,
    /// The write timestamp that the client specified, microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The present time that the client specified, seconds since 1970.
    pub now_in_seconds: Option<u32>,
    /// The keyspace of the session or the request.
    pub keyspace: Option<String>,
    /// The kind of a batch; `None` for a single statement.
    pub batch: Option<BatchKind>,
    /// The statements: one, or those of a batch.
    pub statements: Vec<LoggedStatement>,
}

/// The kind of a batch.
#[expect(missing_docs, reason = "the names are those of CQL")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// One statement and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedStatement {
    /// The text, without passwords.
    pub query: String,
    /// Whether it was prepared.
    pub is_prepared: bool,
    /// The values of its bind markers.
    pub values: LoggedValues,
}

/// Bound values, encoded as in the native protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedValues {
    /// In the order of the markers.
    Positional(Vec<LoggedValue>),
    /// By the names of the markers.
    Named(Vec<(String, LoggedValue)>),
}

/// A bound value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedValue {
    /// Null.
    Null,
    /// Unset: the column keeps its value.
    Unset,
    /// The serialized value.
    Set(Vec<u8>),
}

/// Bits of the field that marks which optional fields are present.
mod flag {
    pub const SERIAL_CONSISTENCY: u8 = 1;
    pub const PAGE_SIZE: u8 = 2;
    pub const NEXT_PAGE: u8 = 4;
    pub const TIMESTAMP: u8 = 8;
    pub const NOW_IN_SECONDS: u8 = 16;
    pub const ALL: u8 = 31;
}

/// Bits of a statement.
const PREPARED: u8 = 1;
const NAMED: u8 = 2;

/// The length of an unset value.
const UNSET: i32 = -2;

/// The minimum size of a statement and of a value in a record: bounds for what a count can claim.
const STATEMENT_SIZE_MIN: usize = 9;
const VALUE_SIZE_MIN: usize = 4;

impl LoggedQuery {
    /// Encodes the query:
    ///
    /// ```text
    /// started i64 | duration u64 | connection u64 | protocol version u8 | consistency u16
    /// flags u8 | serial consistency u16, page size i32, timestamp i64, now u32: those in the flags
    /// keyspace text | batch u8: 0 for one statement, 1 logged, 2 unlogged, 3 counter
    /// number of statements u32, and for each:
    ///   flags u8 (1 prepared, 2 named values) | query text | number of values u32, and for each:
    ///     name text, if named | length i32: -1 null, -2 unset | bytes
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_hint());
        out.extend_from_slice(&self.started_micros.to_be_bytes());
        out.extend_from_slice(&self.duration_micros.to_be_bytes());
        out.extend_from_slice(&self.connection.to_be_bytes());
        out.push(self.protocol_version);
        out.extend_from_slice(&self.consistency.to_be_bytes());
        let flags = [
            (flag::SERIAL_CONSISTENCY, self.serial_consistency.is_some()),
            (flag::PAGE_SIZE, self.page_size.is_some()),
            (flag::NEXT_PAGE, self.is_next_page),
            (flag::TIMESTAMP, self.timestamp.is_some()),
            (flag::NOW_IN_SECONDS, self.now_in_seconds.is_some()),
        ];
        out.push(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum());
        out.extend(self.serial_consistency.iter().flat_map(|value| value.to_be_bytes()));
        out.extend(self.page_size.iter().flat_map(|value| value.to_be_bytes()));
        out.extend(self.timestamp.iter().flat_map(|value| value.to_be_bytes()));
        out.extend(self.now_in_seconds.iter().flat_map(|value| value.to_be_bytes()));
        put_text(&mut out, self.keyspace.as_deref());
        out.push(match self.batch {
            None => 0,
            Some(BatchKind::Logged) => 1,
            Some(BatchKind::Unlogged) => 2,
            Some(BatchKind::Counter) => 3,
        });
        put_count(&mut out, self.statements.len());
        for statement in &self.statements {
            statement.encode(&mut out);
        }
        out
    }

    fn size_hint(&self) -> usize {
        let value = |value: &LoggedValue| match value {
            LoggedValue::Set(bytes) => 4 + bytes.len(),
            LoggedValue::Null | LoggedValue::Unset => 4,
        };
        let values = |values: &LoggedValues| -> usize {
            match values {
                LoggedValues::Positional(values) => values.iter().map(value).sum(),
                LoggedValues::Named(values) => values.iter().map(|(name, v)| 4 + name.len() + value(v)).sum(),
            }
        };
        let statements = self.statements.iter().map(|s| 16 + s.query.len() + values(&s.values));
        80 + statements.sum::<usize>()
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// If its fields are not those of a query.
    pub fn decode(record: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(record);
        let (started_micros, duration_micros) = (fields.i64()?, fields.u64()?);
        let (connection, protocol_version, consistency) = (fields.u64()?, fields.u8()?, fields.u16()?);
        let flags = fields.u8()?;
        if flags & !flag::ALL != 0 {
            return Err(Malformed("a flag is unknown"));
        }
        let has = |flag: u8| flags & flag != 0;
        let serial_consistency = has(flag::SERIAL_CONSISTENCY).then(|| fields.u16()).transpose()?;
        let page_size = has(flag::PAGE_SIZE).then(|| fields.i32()).transpose()?;
        let timestamp = has(flag::TIMESTAMP).then(|| fields.i64()).transpose()?;
        let now_in_seconds = has(flag::NOW_IN_SECONDS).then(|| fields.u32()).transpose()?;
        let keyspace = fields.text()?;
        let batch = match fields.u8()? {
            0 => None,
            1 => Some(BatchKind::Logged),
            2 => Some(BatchKind::Unlogged),
            3 => Some(BatchKind::Counter),
            _ => return Err(Malformed("the kind of the batch is unknown")),
        };
        let count = take_count(&mut fields, STATEMENT_SIZE_MIN)?;
        let statements =
            (0..count).map(|_| LoggedStatement::decode(&mut fields)).collect::<Result<Vec<_>, _>>()?;
        if batch.is_none() && statements.len() != 1 {
            return Err(Malformed("a single query does not have one statement"));
        }
        fields.end()?;
        Ok(Self {
            started_micros,
            duration_micros,
            connection,
            protocol_version,
            consistency,
            serial_consistency,
            page_size,
            is_next_page: has(flag::NEXT_PAGE),
            timestamp,
            now_in_seconds,
            keyspace,
            batch,
            statements,
        })
    }

    /// Returns the query as JSON: Cassandra's names where its log has the same field, values as
    /// hexadecimal text.
    pub fn json(&self) -> Value {
        let mut json = Map::new();
        let mut put = |name: &str, value: Value| json.insert(name.to_owned(), value);
        put("type", if self.batch.is_some() { "batch" } else { "single-query" }.into());
        put("query-start-time", (self.started_micros.div_euclid(1000)).into());
        put("query-start-time-micros", self.started_micros.into());
        put("duration-micros", self.duration_micros.into());
        put("connection", self.connection.into());
        put("protocol-version", self.protocol_version.into());
        put("consistency", consistency_name(self.consistency));
        if let Some(serial) = self.serial_consistency {
            put("serial-consistency", consistency_name(serial));
        }
        if let Some(page_size) = self.page_size {
            put("page-size", page_size.into());
        }
        if self.is_next_page {
            put("next-page", true.into());
        }
        if let Some(timestamp) = self.timestamp {
            put("timestamp", timestamp.into());
        }
        if let Some(now) = self.now_in_seconds {
            put("now-in-seconds", now.into());
        }
        put("keyspace", self.keyspace.clone().into());
        match (self.batch, self.statements.as_slice()) {
            (None, [statement]) => {
                put("query", statement.query.clone().into());
                put("prepared", statement.is_prepared.into());
                put("values", statement.values.json());
            }
            (batch, statements) => {
                put("batch-type", batch.map(BatchKind::name).into());
                put("queries", statements.iter().map(|statement| statement.query.clone()).collect());
                put("values", statements.iter().map(|statement| statement.values.json()).collect());
            }
        }
        Value::Object(json)
    }
}

impl BatchKind {
    /// Returns the name in Cassandra's log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logged => "LOGGED",
            Self::Unlogged => "UNLOGGED",
            Self::Counter => "COUNTER",
        }
    }
}

impl LoggedStatement {
    fn encode(&self, out: &mut Vec<u8>) {
        let named = matches!(self.values, LoggedValues::Named(_));
        out.push(if self.is_prepared { PREPARED } else { 0 } | if named { NAMED } else { 0 });
        put_bytes(out, self.query.as_bytes());
        match &self.values {
            LoggedValues::Positional(values) => {
                put_count(out, values.len());
                values.iter().for_each(|value| value.encode(out));
            }
            LoggedValues::Named(values) => {
                put_count(out, values.len());
                for (name, value) in values {
                    put_bytes(out, name.as_bytes());
                    value.encode(out);
                }
            }
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let flags = fields.u8()?;
        if flags & !(PREPARED | NAMED) != 0 {
            return Err(Malformed("a flag of a statement is unknown"));
        }
        let query = fields.required_text()?;
        let count = take_count(fields, VALUE_SIZE_MIN)?;
        let values = if flags & NAMED != 0 {
            let named = |_| Ok((fields.required_text()?, LoggedValue::decode(fields)?));
            LoggedValues::Named((0..count).map(named).collect::<Result<_, Malformed>>()?)
        } else {
            let values = (0..count).map(|_| LoggedValue::decode(fields));
            LoggedValues::Positional(values.collect::<Result<_, _>>()?)
        };
        Ok(Self { query, is_prepared: flags & PREPARED != 0, values })
    }
}

impl LoggedValues {
    fn json(&self) -> Value {
        match self {
            Self::Positional(values) => values.iter().map(LoggedValue::json).collect(),
            Self::Named(values) => {
                Value::Object(values.iter().map(|(name, value)| (name.clone(), value.json())).collect())
            }
        }
    }
}

impl LoggedValue {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => put_text(out, None),
            Self::Unset => out.extend_from_slice(&UNSET.to_be_bytes()),
            Self::Set(bytes) => put_bytes(out, bytes),
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let length = i32::from_be_bytes(fields.0.first_chunk().copied().unwrap_or_default());
        if length == UNSET {
            fields.take(size_of::<i32>())?;
            return Ok(Self::Unset);
        }
        Ok(fields.bytes()?.map_or(Self::Null, |bytes| Self::Set(bytes.to_vec())))
    }

    fn json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Unset => "<unset>".into(),
            Self::Set(bytes) => {
                let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
                "0x".chars().chain(digits).collect::<String>().into()
            }
        }
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

/// Reads a count of items that have at least `size_min` bytes each.
fn take_count(fields: &mut Fields<'_>, size_min: usize) -> Result<u32, Malformed> {
    let count = fields.u32()?;
    if (count as usize).saturating_mul(size_min) > fields.0.len() {
        return Err(Malformed("a count exceeds the record"));
    }
    Ok(count)
}

/// Returns the name of a consistency; its number, if there is none.
fn consistency_name(number: u16) -> Value {
    const NAMES: [&str; 11] = [
        "ANY",
        "ONE",
        "TWO",
        "THREE",
        "QUORUM",
        "ALL",
        "LOCAL_QUORUM",
        "EACH_QUORUM",
        "SERIAL",
        "LOCAL_SERIAL",
        "LOCAL_ONE",
    ];
    NAMES.get(usize::from(number)).map_or_else(|| number.into(), |name| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> LoggedQuery {
        LoggedQuery {
            started_micros: 1_795_443_842_076_123,
            duration_micros: 456,
            connection: 3,
            protocol_version: 5,
            consistency: 10,
            serial_consistency: Some(8),
            page_size: Some(100),
            is_next_page: false,
            timestamp: Some(-5),
            now_in_seconds: Some(7),
            keyspace: Some("ks".into()),
            batch: None,
            statements: vec![LoggedStatement {
                query: "INSERT INTO t (k, v, w) VALUES (?, ?, ?)".into(),
                is_prepared: true,
                values: LoggedValues::Positional(vec![
                    LoggedValue::Set(vec![0, 0, 0, 1]),
                    LoggedValue::Null,
                    LoggedValue::Unset,
                ]),
            }],
        }
    }

    fn batch() -> LoggedQuery {
        let named =
            vec![("k".to_owned(), LoggedValue::Set(Vec::new())), ("v".to_owned(), LoggedValue::Unset)];
        let mut statements = query().statements;
        statements.push(LoggedStatement {
            query: String::new(),
            is_prepared: false,
            values: LoggedValues::Named(named),
        });
        LoggedQuery {
            serial_consistency: None,
            page_size: None,
            is_next_page: true,
            timestamp: None,
            now_in_seconds: None,
            keyspace: None,
            batch: Some(BatchKind::Unlogged),
            statements,
            ..query()
        }
    }

    #[test]
    fn a_record_has_all_fields() {
        for query in [query(), batch(), LoggedQuery { statements: Vec::new(), ..batch() }] {
            assert_eq!(LoggedQuery::decode(&query.encode()), Ok(query));
        }
    }

    #[test]
    fn a_cut_or_altered_record_is_an_error_and_no_panic() {
        for record in [query().encode(), batch().encode()] {
            for length in 0..record.len() {
                assert!(LoggedQuery::decode(&record[..length]).is_err(), "{length}");
            }
            for at in 0..record.len() {
                for mask in [0xff, 0x80, 1] {
                    let mut altered = record.clone();
                    altered[at] ^= mask;
                    // The checksum finds it; here only panics and large allocations matter.
                    let _ = LoggedQuery::decode(&altered);
                }
            }
        }
    }

    #[test]
    fn json_has_cassandras_names() {
        assert_eq!(
            query().json(),
            serde_json::json!({
                "type": "single-query", "query-start-time": 1_795_443_842_076_i64,
                "query-start-time-micros": 1_795_443_842_076_123_i64, "duration-micros": 456,
                "connection": 3, "protocol-version": 5, "consistency": "LOCAL_ONE",
                "serial-consistency": "SERIAL", "page-size": 100, "timestamp": -5, "now-in-seconds": 7,
                "keyspace": "ks", "query": "INSERT INTO t (k, v, w) VALUES (?, ?, ?)", "prepared": true,
                "values": ["0x00000001", null, "<unset>"],
            })
        );
        let json = batch().json();
        assert_eq!((&json["type"], &json["batch-type"]), (&"batch".into(), &"UNLOGGED".into()));
        assert_eq!(json["values"][1], serde_json::json!({"k": "0x", "v": "<unset>"}));
    }
}
