//! Envelopes: a nine-byte header and a body, one message each.
//!
//! ```text
//!   0         8        16        24        32         40
//!   +---------+---------+---------+---------+---------+
//!   | version |  flags  |      stream       | opcode  |
//!   +---------+---------+---------+---------+---------+
//!   |                length                 |
//!   +---------+---------+---------+---------+
//! ```
//!
//! The highest bit of the version byte distinguishes responses from requests. In v3 and v4
//! envelopes are sent directly and their bodies may be compressed; in v5 envelopes travel in
//! [frames](crate::frame), which compress instead.

use std::fmt;

use bytes::Bytes;

use crate::{Direction, Opcode, ProtocolError, Version};

/// The flags byte of a header. Unknown bits are kept and ignored, as the specification requires.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The body is compressed (v3 and v4 only; v5 compresses frames).
    pub const COMPRESSED: Self = Self(0x01);
    /// A request is to be traced; a response starts with a tracing id.
    pub const TRACING: Self = Self(0x02);
    /// The body has a custom payload before its message.
    pub const CUSTOM_PAYLOAD: Self = Self(0x04);
    /// A response has warnings before its message.
    pub const WARNING: Self = Self(0x08);
    /// The client accepts a beta version.
    pub const USE_BETA: Self = Self(0x10);

    /// Returns whether all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union with `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the difference to `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#04x})", self.0)
    }
}

/// The header of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The protocol version of the message.
    pub version: Version,
    /// The parts of the body before the message, and its compression.
    pub flags: Flags,
    /// The request's number, repeated by its response; -1 for events.
    pub stream: i16,
    /// The kind of the message.
    pub opcode: Opcode,
    /// Length of the body in bytes, as transmitted.
    pub length: u32,
}

/// The reason for rejecting a header, and the stream for the answer (0 if it is unknown).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedHeader {
    /// The reason.
    pub error: ProtocolError,
    /// The stream id in the header.
    pub stream: i16,
    /// Length of the body that follows, if the header is valid up to there.
    pub length: Option<u32>,
}

impl Header {
    /// Length of a header in bytes.
    pub const LENGTH: usize = 9;

    /// The version byte's bit that marks a response.
    const RESPONSE_BIT: u8 = 0x80;

    /// Decodes the header of a message in `direction` at the start of `bytes`.
    ///
    /// `Ok(None)` means that more bytes are needed. An unsupported version is rejected as soon as
    /// its byte has arrived: the headers of v1 and v2 are shorter, and a client of those would wait
    /// indefinitely for an answer.
    pub fn decode(bytes: &[u8], direction: Direction) -> Result<Option<Self>, RejectedHeader> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let version = first & !Self::RESPONSE_BIT;
        let version = Version::from_number(version).ok_or(RejectedHeader {
            error: ProtocolError::UnsupportedVersion { version },
            stream: 0,
            length: None,
        })?;
        let Some(&[_, flags, stream_high, stream_low, opcode, l0, l1, l2, l3]) =
            bytes.first_chunk::<{ Self::LENGTH }>()
        else {
            return Ok(None);
        };
        let stream = i16::from_be_bytes([stream_high, stream_low]);
        let length = i32::from_be_bytes([l0, l1, l2, l3]);
        let length = u32::try_from(length).map_err(|_| RejectedHeader {
            error: ProtocolError::InvalidLength(length),
            stream,
            length: None,
        })?;
        let reject = |error| RejectedHeader { error, stream, length: Some(length) };
        let opcode =
            Opcode::from_number(opcode).ok_or_else(|| reject(ProtocolError::UnknownOpcode(opcode)))?;
        let sent_as = if first & Self::RESPONSE_BIT == 0 { Direction::Request } else { Direction::Response };
        if opcode.direction() != direction || sent_as != direction {
            return Err(reject(ProtocolError::WrongDirection { opcode, got: sent_as }));
        }
        Ok(Some(Self { version, flags: Flags(flags), stream, opcode, length }))
    }

    /// The header's bytes; the direction bit follows from the opcode.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let direction_bit = match self.opcode.direction() {
            Direction::Request => 0,
            Direction::Response => Self::RESPONSE_BIT,
        };
        let [stream_high, stream_low] = self.stream.to_be_bytes();
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        [
            self.version.number() | direction_bit,
            self.flags.0,
            stream_high,
            stream_low,
            self.opcode.number(),
            l0,
            l1,
            l2,
            l3,
        ]
    }
}

/// A header with its complete, decompressed body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The transmitted header: `length` is that of the compressed body.
    pub header: Header,
    /// The body. Decoded messages share its memory.
    pub body: Bytes,
}
