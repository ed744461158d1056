//! The coordination row: layouts of commit records by start timestamp.
//!
//! ```text
//! key 'm', column VAR_LONG(0):        {"sequence": s, "bound": b}, changed by check-and-set only
//! key 'm', column VAR_LONG(sequence): {"version": 1, "payload": base64 of the map}, put once
//! map: {"timestampToTransactionsTableSchemaVersion": {"timestampMappings": [
//!          {"longRange": {"lowerEndpoint": 1, "lowerBoundType": "CLOSED",
//!                         "upperEndpoint": 1000, "upperBoundType": "OPEN"}, "value": 1}, …]}}
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::DecodeError;
use crate::timestamp::Timestamp;

/// Table of the row.
pub const TABLE: &str = "_coordination";
/// Key of the row.
pub const ROW: &[u8] = b"m";

/// How far a new bound lies above a fresh timestamp: the number of timestamps between two reads of
/// the row. Must never shrink: a bound indicates how far timestamps have advanced.
pub const ADVANCE: i64 = 5_000_000;

/// Version of the envelope of values.
const ENVELOPE_VERSION: i32 = 1;

/// Sequence number of the current value, and the timestamp up to which clients may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceAndBound {
    /// Column of the value.
    pub sequence: i64,
    /// Last timestamp that the value decides.
    pub bound: i64,
}

impl SequenceAndBound {
    /// Returns a timestamp that was issued before the last change of the row.
    pub fn issued(&self) -> Timestamp {
        Timestamp(self.sequence.max(self.bound.saturating_sub(ADVANCE)))
    }

    /// Encodes it. A check-and-set compares bytes, so a writer must compare with the bytes it read.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(bytes)
            .map_err(|error| DecodeError::new("coordination bound", bytes, error.to_string()))
    }
}

/// Layout versions by start timestamp: covers [1, infinity) without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionMap {
    /// First start timestamp and version of each range, ascending; the first begins at 1.
    ranges: Vec<(i64, u32)>,
}

impl VersionMap {
    /// Creates a map with a single version.
    pub fn all(version: u32) -> Self {
        Self { ranges: vec![(Timestamp::FIRST.0, version)] }
    }

    /// Returns the version of `start`; `None` below 1.
    pub fn version(&self, start: Timestamp) -> Option<u32> {
        let after = self.ranges.partition_point(|(first, _)| *first <= start.0);
        Some(self.ranges.get(after.checked_sub(1)?)?.1)
    }

    /// Returns the version of the last, unbounded range.
    pub fn last_version(&self) -> u32 {
        self.ranges.last().map_or(0, |(_, version)| *version)
    }

    /// Returns the beginning of the last range.
    pub fn last_first(&self) -> i64 {
        self.ranges.last().map_or(Timestamp::FIRST.0, |(first, _)| *first)
    }

    /// Returns the same map up to `bound`, and `version` above it. `None` if the last range has
    /// that version or begins above `bound`.
    pub fn install(&self, bound: i64, version: u32) -> Option<Self> {
        let first = bound.checked_add(1)?;
        let (last_first, last_version) = *self.ranges.last()?;
        if last_version == version || last_first >= first {
            return None;
        }
        let mut ranges = self.ranges.clone();
        ranges.push((first, version));
        Some(Self { ranges })
    }

    /// Returns the first start timestamp and the version of each range, ascending.
    pub fn ranges(&self) -> &[(i64, u32)] {
        &self.ranges
    }

    /// Encodes the map with its envelope.
    pub fn encode(&self) -> Vec<u8> {
        let ends = self.ranges.iter().skip(1).map(|(first, _)| Some(*first)).chain([None]);
        let mappings = self.ranges.iter().zip(ends).map(|((first, version), end)| Mapping {
            long_range: LongRange {
                lower_endpoint: *first,
                lower_bound_type: BoundType::Closed,
                upper_endpoint: end,
                upper_bound_type: end.map(|_| BoundType::Open),
            },
            value: *version,
        });
        let map = Map { mappings: Mappings { timestamp_mappings: mappings.collect() } };
        let payload = BASE64.encode(serde_json::to_vec(&map).unwrap_or_default());
        serde_json::to_vec(&Envelope { version: ENVELOPE_VERSION, payload }).unwrap_or_default()
    }

    /// Decodes a map with its envelope.
    ///
    /// # Errors
    /// If the envelope has another version, or the map has gaps or overlaps.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let fail = |why: String| DecodeError::new("coordination value", bytes, why);
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| fail(error.to_string()))?;
        if envelope.version != ENVELOPE_VERSION {
            return Err(fail(format!(
                "envelope version: expected {ENVELOPE_VERSION}, found {}",
                envelope.version
            )));
        }
        let payload = BASE64.decode(&envelope.payload).map_err(|error| fail(error.to_string()))?;
        Self::decode_map(&payload)
    }

    /// Decodes a map without its envelope.
    fn decode_map(bytes: &[u8]) -> Result<Self, DecodeError> {
        let fail = |why: String| DecodeError::new("coordination map", bytes, why);
        let map: Map = serde_json::from_slice(bytes).map_err(|error| fail(error.to_string()))?;
        let mut mappings = map.mappings.timestamp_mappings;
        mappings.sort_by_key(|mapping| mapping.long_range.lower_endpoint);
        let mut next = Some(Timestamp::FIRST.0);
        let mut ranges = Vec::with_capacity(mappings.len());
        for Mapping { long_range: range, value } in mappings {
            if range.lower_bound_type != BoundType::Closed || Some(range.lower_endpoint) != next {
                return Err(fail(format!(
                    "start of a range: expected {next:?}, found {}",
                    range.lower_endpoint
                )));
            }
            next = match (range.upper_endpoint, range.upper_bound_type) {
                (None, None) => None,
                (Some(end), Some(BoundType::Open)) if end > range.lower_endpoint => Some(end),
                other => return Err(fail(format!("invalid end of a range: {other:?}"))),
            };
            ranges.push((range.lower_endpoint, value));
        }
        match next {
            None => Ok(Self { ranges }),
            Some(end) => Err(fail(format!("no range covers {end} and above"))),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    version: i32,
    payload: String,
}

#[derive(Serialize, Deserialize)]
struct Map {
    #[serde(rename = "timestampToTransactionsTableSchemaVersion")]
    mappings: Mappings,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mappings {
    timestamp_mappings: Vec<Mapping>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    long_range: LongRange,
    value: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LongRange {
    lower_endpoint: i64,
    lower_bound_type: BoundType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upper_endpoint: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upper_bound_type: Option<BoundType>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum BoundType {
    Open,
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_round_trips_in_the_format_of_atlasdb() {
        let map = VersionMap::all(1).install(999, 2).unwrap();
        let inner = [
            r#"{"timestampToTransactionsTableSchemaVersion":{"timestampMappings":["#,
            r#"{"longRange":{"lowerEndpoint":1,"lowerBoundType":"CLOSED","#,
            r#""upperEndpoint":1000,"upperBoundType":"OPEN"},"value":1},"#,
            r#"{"longRange":{"lowerEndpoint":1000,"lowerBoundType":"CLOSED"},"value":2}]}}"#,
        ]
        .concat();
        assert_eq!(VersionMap::decode_map(inner.as_bytes()).unwrap(), map);
        assert_eq!(VersionMap::decode(&map.encode()).unwrap(), map);
        let envelope: Envelope = serde_json::from_slice(&map.encode()).unwrap();
        assert_eq!(BASE64.decode(envelope.payload).unwrap(), inner.as_bytes());
    }

    #[test]
    fn a_map_returns_the_version_of_each_range() {
        let map = VersionMap::all(1).install(5_010_001, 3).unwrap();
        let of = |start| map.version(Timestamp(start));
        assert_eq!([of(0), of(1), of(5_010_001)], [None, Some(1), Some(1)]);
        assert_eq!([of(5_010_002), of(i64::MAX)], [Some(3), Some(3)]);
    }

    #[test]
    fn installing_the_same_version_or_below_the_bound_is_a_no_op() {
        let map = VersionMap::all(2).install(100, 3).unwrap();
        assert_eq!(map.install(200, 3), None);
        assert_eq!(map.install(100, 2), None);
        assert_eq!(map.install(i64::MAX, 2), None);
    }

    #[test]
    fn maps_with_gaps_overlaps_or_an_end_are_rejected() {
        let decode = |mappings: &str| {
            let text = format!(
                r#"{{"timestampToTransactionsTableSchemaVersion":{{"timestampMappings":[{mappings}]}}}}"#
            );
            VersionMap::decode_map(text.as_bytes())
        };
        let range = |low: i64, high: i64| {
            let lower = format!(r#""lowerEndpoint":{low},"lowerBoundType":"CLOSED""#);
            let upper = format!(r#""upperEndpoint":{high},"upperBoundType":"OPEN""#);
            format!(r#"{{"longRange":{{{lower},{upper}}},"value":1}}"#)
        };
        let rest = |low: i64| {
            format!(r#"{{"longRange":{{"lowerEndpoint":{low},"lowerBoundType":"CLOSED"}},"value":2}}"#)
        };
        assert!(decode(&format!("{},{}", rest(10), range(1, 10))).is_ok(), "order does not matter");
        for bad in [
            String::new(),
            range(1, 10),
            rest(2),
            format!("{},{}", range(1, 10), rest(11)),
            format!("{},{}", range(1, 10), rest(9)),
            format!("{},{}", rest(1), rest(5)),
            range(1, 1),
        ] {
            assert!(decode(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn newer_envelope_versions_are_rejected_with_a_clear_error() {
        let error = VersionMap::decode(br#"{"version":2,"payload":""}"#).unwrap_err().to_string();
        assert!(error.contains("expected 1, found 2"), "{error}");
    }

    #[test]
    fn sequence_and_bound_round_trip() {
        let value = SequenceAndBound { sequence: 10_001, bound: 5_010_001 };
        assert_eq!(SequenceAndBound::decode(&value.encode()).unwrap(), value);
        assert_eq!(SequenceAndBound::decode(br#"{"bound": 5010001, "sequence": 10001}"#).unwrap(), value);
        assert!(SequenceAndBound::decode(b"{}").is_err());
    }
}
