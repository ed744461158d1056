//! Errors that a peer can cause.

use crate::{Direction, Opcode, Version};

/// Bytes from the peer that violate the native protocol.
///
/// The text is for the peer: a [`response::Error`](crate::response::Error) is made from it.
/// Wordings that drivers search for are Cassandra's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named in each variant's message")]
pub enum ProtocolError {
    /// An unsupported version; drivers downgrade when they receive this text.
    #[error(
        "Invalid or unsupported protocol version ({version}); supported versions are ({})",
        Version::supported_list()
    )]
    UnsupportedVersion { version: u8 },

    /// A version other than the connection's.
    #[error(
        "Invalid message version. Got {got} but previous messages on this connection had version {expected}"
    )]
    VersionChanged { got: Version, expected: Version },

    /// An opcode that no supported version has.
    #[error("Unknown opcode {0}")]
    UnknownOpcode(u8),

    /// A request where a response is expected, or the reverse.
    #[error(
        "Wrong protocol direction (expected {}, got {got}) for opcode {} ({opcode})",
        opcode.direction(),
        opcode.number()
    )]
    WrongDirection { opcode: Opcode, got: Direction },

    /// A body length beyond the limit of the format.
    #[error("Invalid value for envelope header body length field: {0}")]
    InvalidLength(i32),

    /// A message longer than the receiver accepts. Cassandra answers Invalid, not a protocol error.
    #[error("Request is too big: length {length} exceeds maximum allowed length {maximum}.")]
    TooLong { length: u64, maximum: u64 },

    /// A truncated message.
    #[error("Not enough bytes to read {what}: {needed} needed, {left} left")]
    Truncated { what: &'static str, needed: usize, left: usize },

    /// A string that is not UTF-8.
    #[error("Cannot decode string as UTF8: 0x{}", hex_start(bytes))]
    InvalidUtf8 { bytes: Vec<u8> },

    /// A field with a value that is not in the specification; the text names both.
    #[error("{0}")]
    Invalid(String),

    /// A response longer than its header can announce.
    #[error("cannot encode a response of {length} bytes: expected at most {maximum}; use paging")]
    ResponseTooLong { length: u64, maximum: u64 },

    /// The message exceeds the memory for requests.
    #[error("{0}")]
    Overloaded(String),

    /// A compressed body that does not decompress to its announced length.
    #[error("Cannot decompress {algorithm} body of {length} bytes: {reason}")]
    Compression { algorithm: &'static str, length: usize, reason: String },

    /// The header of a v5 frame does not match its CRC24. The position of the next frame is
    /// unknown: close.
    #[error("Corrupt frame: header CRC24 is {read:#08x}, computed {computed:#08x}")]
    CorruptFrameHeader { read: u32, computed: u32 },

    /// The payload of a v5 frame does not match its CRC32.
    #[error("Corrupt frame: payload CRC32 is {read:#010x}, computed {computed:#010x}")]
    CorruptFramePayload { read: u32, computed: u32 },
}

/// The number of bytes of an invalid text in an error.
pub(crate) const HEX_SHOWN_MAX: usize = 32;

/// Returns the first bytes of `bytes` in hexadecimal, enough to identify them.
fn hex_start(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().take(HEX_SHOWN_MAX).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > HEX_SHOWN_MAX {
        text.push('…');
    }
    text
}
