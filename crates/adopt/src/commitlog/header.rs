//! The header of a segment.
//!
//! ```text
//! i32  version: 6 of Cassandra 3.0 to 3.11, 7 of 4.0 to 5.0, 8 of 5.0 without compatibility to 4
//! i64  id
//! i16  length of the parameters
//! JSON parameters: of compression and encryption
//! u32  CRC-32 of the version, the low and the high half of the id, the length as i32, the parameters
//! ```
//! Integers are big-endian. Source: `CommitLogDescriptor` of Cassandra.

use cassette_sstable::compression::Compressor;
use crc32fast::Hasher;
use serde_json::Value;

/// The versions whose records are all of one format.
const VERSIONS: std::ops::RangeInclusive<u32> = 6..=8;

/// The header of a segment whose records can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Bytes of the header.
    pub length: usize,
    /// The compression of sections.
    pub compressor: Option<Compressor>,
}

impl SegmentHeader {
    /// Decodes the header at the start of the segment with this id. The error is a text for users.
    pub fn decode(bytes: &[u8], id: u64) -> Result<Self, String> {
        let int = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let short = || "the header is cut short".to_owned();
        let version = int(0).ok_or_else(short)?;
        if !VERSIONS.contains(&version) {
            return Err(format!("version {version} of the format is not supported: expected {VERSIONS:?}"));
        }
        let (high, low) = (int(4).ok_or_else(short)?, int(8).ok_or_else(short)?);
        let length = bytes.get(12..14).and_then(|bytes| bytes.first_chunk()).ok_or_else(short)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let parameters = bytes.get(14..14 + length).ok_or_else(short)?;
        let checksum = int(14 + length).ok_or_else(short)?;
        let mut crc = Hasher::new();
        for field in [version, low, high, length as u32] {
            crc.update(&field.to_be_bytes());
        }
        crc.update(parameters);
        if crc.finalize() != checksum {
            return Err("the header fails its checksum".to_owned());
        }
        let found = u64::from(high) << 32 | u64::from(low);
        if found != id {
            return Err(format!("segment {id} expected by its name, {found} found in its header"));
        }
        Ok(Self { length: 14 + length + 4, compressor: compressor(parameters)? })
    }
}

fn compressor(parameters: &[u8]) -> Result<Option<Compressor>, String> {
    let parameters: Value = serde_json::from_slice(parameters)
        .map_err(|error| format!("the header has no parameters: {error}"))?;
    if let Some(cipher) = parameters.get("encCipher") {
        return Err(format!("the segment is encrypted with {cipher}, which is not supported"));
    }
    let Some(class) = parameters.get("compressionClass").and_then(Value::as_str) else { return Ok(None) };
    // Options concern the writing of sections only.
    Compressor::from_class(class, [])
        .map(Some)
        .map_err(|error| format!("sections cannot be decompressed: {error}"))
}

#[cfg(test)]
pub(super) fn encode(version: u32, id: u64, parameters: &str) -> Vec<u8> {
    let mut bytes = version.to_be_bytes().to_vec();
    bytes.extend(id.to_be_bytes());
    bytes.extend(u16::try_from(parameters.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(parameters.as_bytes());
    let mut crc = Hasher::new();
    for field in [version, id as u32, (id >> 32) as u32, parameters.len() as u32] {
        crc.update(&field.to_be_bytes());
    }
    crc.update(parameters.as_bytes());
    bytes.extend(crc.finalize().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_their_compression_and_every_damage_is_found() {
        let id = 0x0000_0190_1234_5678;
        let plain = encode(7, id, "{}");
        assert_eq!(
            SegmentHeader::decode(&plain, id),
            Ok(SegmentHeader { length: plain.len(), compressor: None })
        );
        let lz4 = encode(8, id, r#"{"compressionClass":"LZ4Compressor","compressionParameters":{"x":"y"}}"#);
        let header = SegmentHeader::decode(&lz4, id).unwrap();
        assert_eq!(header.compressor.unwrap().class_name(), "LZ4Compressor");
        for at in 0..plain.len() {
            let mut damaged = plain.clone();
            damaged[at] ^= 4;
            assert!(SegmentHeader::decode(&damaged, id).is_err(), "{at}");
            assert!(SegmentHeader::decode(&plain[..at], id).is_err(), "{at}");
        }
        assert!(SegmentHeader::decode(&plain, id + 1).unwrap_err().contains("by its name"));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (version, parameters, expected) in [
            (5, "{}", "version 5"),
            (9, "{}", "version 9"),
            (7, r#"{"encCipher":"AES/CBC/PKCS5Padding","encKeyAlias":"k"}"#, "AES/CBC/PKCS5Padding"),
            (7, r#"{"compressionClass":"com.example.Own"}"#, "com.example.Own"),
            (7, "[", "no parameters"),
        ] {
            let error = SegmentHeader::decode(&encode(version, 1, parameters), 1).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
