//! Audit entries, as records and as text.

use std::fmt::Write;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::codec::{Fields, Malformed, put_bytes, put_text};
use crate::entry_type::AuditEntryType;

/// One entry of the audit log. Its fields are those of Cassandra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The role that has logged in, `anonymous` without authentication; `None` for a failed login.
    pub user: Option<String>,
    /// The server's address.
    pub host: String,
    /// The client's address.
    pub source: String,
    /// The client's port.
    pub port: u16,
    /// When the request arrived, milliseconds since 1970.
    pub timestamp: i64,
    /// What happened.
    pub entry_type: AuditEntryType,
    /// The id that the entries of a batch share.
    pub batch: Option<Uuid>,
    /// The keyspace of the statement, or the session's.
    pub keyspace: Option<String>,
    /// The table or other object of the statement.
    pub scope: Option<String>,
    /// The text of the statement without passwords, and the message of an error.
    pub operation: String,
}

impl AuditEntry {
    /// Encodes the entry:
    ///
    /// ```text
    /// type u8 | timestamp i64 | port u16 | batch: 0, or 1 and 16 bytes
    /// user | host | source | keyspace | scope | operation: texts, length i32 or -1 if absent
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.operation.len());
        out.push(self.entry_type.code());
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.port.to_be_bytes());
        out.push(u8::from(self.batch.is_some()));
        if let Some(batch) = &self.batch {
            out.extend_from_slice(batch.as_bytes());
        }
        put_text(&mut out, self.user.as_deref());
        put_bytes(&mut out, self.host.as_bytes());
        put_bytes(&mut out, self.source.as_bytes());
        put_text(&mut out, self.keyspace.as_deref());
        put_text(&mut out, self.scope.as_deref());
        put_bytes(&mut out, self.operation.as_bytes());
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// If its fields are not those of an entry.
    pub fn decode(record: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(record);
        let entry_type = AuditEntryType::of_code(fields.u8()?).ok_or(Malformed("its type is unknown"))?;
        let timestamp = fields.i64()?;
        let port = fields.u16()?;
        let batch = match fields.u8()? {
            0 => None,
            1 => Some(Uuid::from_bytes(fields.array()?)),
            _ => return Err(Malformed("the mark of its batch is neither 0 nor 1")),
        };
        let entry = Self {
            user: fields.text()?,
            host: fields.required_text()?,
            source: fields.required_text()?,
            port,
            timestamp,
            entry_type,
            batch,
            keyspace: fields.text()?,
            scope: fields.text()?,
            operation: fields.required_text()?,
        };
        fields.end()?;
        Ok(entry)
    }

    /// Returns the line of Cassandra's `FileAuditLogger`, with line breaks as spaces, so that a
    /// statement cannot forge an entry.
    pub fn line(&self) -> String {
        let mut line = format!(
            "user:{}|host:{}|source:/{}",
            self.user.as_deref().unwrap_or("null"),
            self.host,
            self.source
        );
        let Self { timestamp, entry_type, .. } = self;
        // Writing to a string does not fail.
        if self.port > 0 {
            let _ = write!(line, "|port:{}", self.port);
        }
        let category = entry_type.category().name();
        let _ = write!(line, "|timestamp:{timestamp}|type:{}|category:{category}", entry_type.name());
        if let Some(batch) = &self.batch {
            let _ = write!(line, "|batch:{batch}");
        }
        for (name, text) in [
            ("ks", self.keyspace.as_deref()),
            ("scope", self.scope.as_deref()),
            ("operation", Some(self.operation.as_str())),
        ] {
            if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                let _ = write!(line, "|{name}:{text}");
            }
        }
        line.replace(['\n', '\r'], " ")
    }

    /// Returns the entry with the names of its line as keys.
    pub fn json(&self) -> Value {
        let mut json = Map::new();
        let mut put = |name: &str, value: Value| json.insert(name.to_owned(), value);
        put("user", self.user.clone().into());
        put("host", self.host.clone().into());
        put("source", self.source.clone().into());
        put("port", self.port.into());
        put("timestamp", self.timestamp.into());
        put("type", self.entry_type.name().into());
        put("category", self.entry_type.category().name().into());
        if let Some(batch) = &self.batch {
            put("batch", batch.to_string().into());
        }
        for (name, text) in [("ks", &self.keyspace), ("scope", &self.scope)] {
            if let Some(text) = text {
                put(name, text.clone().into());
            }
        }
        put("operation", self.operation.clone().into());
        Value::Object(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AuditEntry {
        AuditEntry {
            user: Some("cassandra".into()),
            host: "/127.0.0.1:7000".into(),
            source: "127.0.0.1".into(),
            port: 59116,
            timestamp: 1_795_443_842_076,
            entry_type: AuditEntryType::Update,
            batch: Some(Uuid::from_u128(0xa3e2_892f_fef8_499c_b836_f729_e418_c522)),
            keyspace: Some("aud".into()),
            scope: Some("t".into()),
            operation: "INSERT INTO aud.t (k, v) VALUES (?, ?)".into(),
        }
    }

    #[test]
    fn a_record_has_all_fields() {
        for entry in
            [entry(), AuditEntry { user: None, batch: None, keyspace: None, scope: None, port: 0, ..entry() }]
        {
            assert_eq!(AuditEntry::decode(&entry.encode()), Ok(entry));
        }
    }

    #[test]
    fn a_cut_or_altered_record_is_an_error_and_no_panic() {
        let record = entry().encode();
        for length in 0..record.len() {
            assert!(AuditEntry::decode(&record[..length]).is_err(), "{length}");
        }
        assert!(AuditEntry::decode(&[record.clone(), vec![0]].concat()).is_err());
        for at in 0..record.len() {
            let mut altered = record.clone();
            altered[at] ^= 0xff;
            // The checksum finds it; here only panics matter.
            let _ = AuditEntry::decode(&altered);
        }
    }

    /// As recorded from Cassandra 5.0.8.
    #[test]
    fn the_line_is_that_of_cassandra() {
        assert_eq!(
            entry().line(),
            "user:cassandra|host:/127.0.0.1:7000|source:/127.0.0.1|port:59116|timestamp:1795443842076|\
             type:UPDATE|category:DML|batch:a3e2892f-fef8-499c-b836-f729e418c522|ks:aud|scope:t|\
             operation:INSERT INTO aud.t (k, v) VALUES (?, ?)"
        );
        let failed = AuditEntry {
            user: None,
            batch: None,
            keyspace: None,
            scope: None,
            entry_type: AuditEntryType::LoginError,
            operation: "LOGIN FAILURE;\nuser:x".into(),
            ..entry()
        };
        assert_eq!(
            failed.line(),
            "user:null|host:/127.0.0.1:7000|source:/127.0.0.1|port:59116|timestamp:1795443842076|\
             type:LOGIN_ERROR|category:AUTH|operation:LOGIN FAILURE; user:x"
        );
    }

    #[test]
    fn json_has_the_fields_that_are_present() {
        let json = AuditEntry { batch: None, scope: None, ..entry() }.json();
        assert_eq!(
            json,
            serde_json::json!({
                "user": "cassandra", "host": "/127.0.0.1:7000", "source": "127.0.0.1", "port": 59116,
                "timestamp": 1_795_443_842_076_i64, "type": "UPDATE", "category": "DML", "ks": "aud",
                "operation": "INSERT INTO aud.t (k, v) VALUES (?, ?)",
            })
        );
    }
}
