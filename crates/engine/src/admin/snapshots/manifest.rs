//! manifest.json of a snapshot, in Cassandra's format.
//!
//! ```text
//! {
//!   "files" : [ "nb-1-big-Data.db" ],
//!   "created_at" : "2026-11-21T08:30:00.123Z",
//!   "expires_at" : null,
//!   "ephemeral" : false
//! }
//! ```
//! While changes are captured, it also has `"log_position" : "<segment>:<offset>"` and
//! `"log_chain"`, which Cassandra ignores.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::SnapshotPosition;
use crate::log::commitlog::Position;

/// The contents of a manifest. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    /// The names of the Data components.
    pub files: Vec<String>,
    pub created_at: Option<i64>,
    pub expires_at: Option<i64>,
    /// Cassandra's repairs create such snapshots; this engine does not.
    pub ephemeral: bool,
    /// The changes that the SSTables contain.
    pub log: Option<SnapshotPosition>,
}

impl Manifest {
    /// Returns the contents of the file.
    pub fn encode(&self) -> String {
        let files: Vec<_> = self.files.iter().map(|file| Value::from(file.as_str()).to_string()).collect();
        let files = if files.is_empty() { "[ ]".to_owned() } else { format!("[ {} ]", files.join(", ")) };
        let time = |at: Option<i64>| match at.and_then(|at| Timestamp::from_millisecond(at).ok()) {
            Some(at) => format!("\"{}\"", at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")),
            None => "null".to_owned(),
        };
        let log = self.log.map(|log| {
            let chain = Uuid::from_u128(log.chain);
            format!(",\n  \"log_position\" : \"{}\",\n  \"log_chain\" : \"{chain}\"", log.position)
        });
        format!(
            "{{\n  \"files\" : {files},\n  \"created_at\" : {},\n  \"expires_at\" : {},\n  \"ephemeral\" : {}{}\n}}",
            time(self.created_at),
            time(self.expires_at),
            self.ephemeral,
            log.unwrap_or_default()
        )
    }

    /// Reads the file. Absent fields, as in manifests of older versions, are empty.
    pub fn decode(content: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(content).map_err(|error| error.to_string())?;
        let Value::Object(fields) = value else { return Err("an object expected".to_owned()) };
        let time = |name: &str| match fields.get(name) {
            Some(Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(at) => Ok(Some(at.as_millisecond())),
                Err(error) => Err(format!("{name}: {error}")),
            },
            _ => Ok(None),
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let files = fields.get("files").and_then(Value::as_array).into_iter().flatten();
        Ok(Self {
            files: files.filter_map(|file| file.as_str().map(str::to_owned)).collect(),
            created_at: time("created_at")?,
            expires_at: time("expires_at")?,
            ephemeral: fields.get("ephemeral").and_then(Value::as_bool).unwrap_or(false),
            log: match (text("log_position"), text("log_chain")) {
                (Some(position), Some(chain)) => Some(SnapshotPosition {
                    position: position_of(position).ok_or("log_position: expected SEGMENT:OFFSET")?,
                    chain: Uuid::try_parse(chain).map_err(|error| format!("log_chain: {error}"))?.as_u128(),
                }),
                _ => None,
            },
        })
    }
}

fn position_of(text: &str) -> Option<Position> {
    let (segment, offset) = text.split_once(':')?;
    Some(Position { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_laid_out_as_cassandra_does_and_reads_back() {
        let manifest = Manifest {
            files: vec!["nb-1-big-Data.db".into(), "nb-2-big-Data.db".into()],
            created_at: Some(1_795_249_800_120),
            expires_at: None,
            ephemeral: false,
            log: None,
        };
        let text = manifest.encode();
        let expected = "{\n  \"files\" : [ \"nb-1-big-Data.db\", \"nb-2-big-Data.db\" ],\n  \"created_at\" : \
            \"2026-11-21T08:30:00.120Z\",\n  \"expires_at\" : null,\n  \"ephemeral\" : false\n}";
        assert_eq!(text, expected);
        assert_eq!(Manifest::decode(text.as_bytes()).unwrap(), manifest);
        let position = Position { segment: 1_795_249_800_120, offset: 77 };
        let captured = Manifest { log: Some(SnapshotPosition { position, chain: 5 << 100 }), ..manifest };
        assert_eq!(Manifest::decode(captured.encode().as_bytes()).unwrap(), captured);
    }

    #[test]
    fn a_manifest_of_an_older_version_is_read_and_a_damaged_one_refused() {
        let manifest = Manifest::decode(br#"{"files":["a-Data.db"]}"#).unwrap();
        assert_eq!((manifest.files.len(), manifest.created_at), (1, None));
        assert!(Manifest::decode(b"{").is_err());
        assert!(Manifest::decode(b"[]").is_err());
        assert!(Manifest::decode(br#"{"created_at":"yesterday"}"#).is_err());
        assert!(Manifest::decode(br#"{"log_position":"5","log_chain":"x"}"#).is_err());
    }
}
