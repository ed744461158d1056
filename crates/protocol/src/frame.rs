//! The outer frames of v5: checksummed, optionally compressed, each holding whole envelopes or a
//! part of one.
//!
//! All numbers of a frame are little-endian, unlike the envelopes inside. Without compression:
//!
//! ```text
//!   bits  0..17   payload length                       bytes 0..3  these 24 bits
//!   bit   17      self-contained                       bytes 3..6  CRC24 of bytes 0..3
//!   bits 18..24   padding                              payload
//!                                                      CRC32 of the payload, 4 bytes
//! ```
//!
//! With LZ4:
//!
//! ```text
//!   bits  0..17   compressed payload length            bytes 0..5  these 40 bits
//!   bits 17..34   uncompressed length, or 0 when the   bytes 5..8  CRC24 of bytes 0..5
//!                 payload is not compressed            payload
//!   bit   34      self-contained                       CRC32 of the payload as sent, 4 bytes
//!   bits 35..40   padding
//! ```
//!
//! A self-contained frame holds one or more whole envelopes. An envelope too long for one frame is
//! spread over several that are not self-contained and hold nothing else.

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    ProtocolError,
    compression::{lz4_compress, lz4_decompress},
    crc::{crc24, crc32},
};

/// The longest payload that 17 bits can announce.
pub const PAYLOAD_LENGTH_MAX: usize = (1 << 17) - 1;

/// Length of the CRC32 after the payload.
const TRAILER_LENGTH: usize = 4;

/// Which of the two frame formats a connection uses; STARTUP decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFormat {
    /// Payloads are not compressed.
    Uncompressed,
    /// Payloads are LZ4 blocks if that makes them shorter.
    Lz4,
}

/// A frame with valid checksums and its decompressed payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Whether the payload consists of complete envelopes.
    pub self_contained: bool,
    /// The payload.
    pub payload: Bytes,
}

/// The content of a frame header, after verification of its checksum.
struct FrameHeader {
    /// Length of the payload as transmitted.
    payload_length: usize,
    /// Length after decompression; `None` if the payload is not compressed.
    uncompressed_length: Option<usize>,
    self_contained: bool,
}

impl FrameFormat {
    /// The longest frame, bytes.
    pub const LENGTH_MAX: usize = Self::Lz4.header_length() + PAYLOAD_LENGTH_MAX + TRAILER_LENGTH;

    /// Length of a frame header in bytes.
    pub const fn header_length(self) -> usize {
        match self {
            Self::Uncompressed => 6,
            Self::Lz4 => 8,
        }
    }

    /// Removes one frame from the start of `input`; `Ok(None)` if it is incomplete.
    ///
    /// After an error the position of the next frame is unknown, so the connection must be closed.
    pub fn decode(self, input: &mut BytesMut) -> Result<Option<Frame>, ProtocolError> {
        let Some(header) = self.decode_header(input)? else { return Ok(None) };
        if input.len() < self.header_length() + header.payload_length + TRAILER_LENGTH {
            return Ok(None);
        }
        input.advance(self.header_length());
        let payload = input.split_to(header.payload_length).freeze();
        let read = input.get_u32_le();
        let computed = crc32(&payload);
        if read != computed {
            return Err(ProtocolError::CorruptFramePayload { read, computed });
        }
        let payload = match header.uncompressed_length {
            Some(length) => lz4_decompress(&payload, length)?.into(),
            None => payload,
        };
        Ok(Some(Frame { self_contained: header.self_contained, payload }))
    }

    /// Returns the total length of the frame at the start of `input`, if its header has arrived and
    /// is valid.
    pub fn announced_length(self, input: &[u8]) -> Option<usize> {
        let header = self.decode_header(input).ok()??;
        Some(self.header_length() + header.payload_length + TRAILER_LENGTH)
    }

    fn decode_header(self, input: &[u8]) -> Result<Option<FrameHeader>, ProtocolError> {
        let Some(header) = input.get(..self.header_length()) else { return Ok(None) };
        let (covered, crc) = header.split_at(header.len() - 3);
        let read = little_endian(crc) as u32;
        let computed = crc24(covered);
        if read != computed {
            return Err(ProtocolError::CorruptFrameHeader { read, computed });
        }
        let bits = little_endian(covered);
        let length_at = |shift: u32| (bits >> shift) as usize & PAYLOAD_LENGTH_MAX;
        Ok(Some(match self {
            Self::Uncompressed => FrameHeader {
                payload_length: length_at(0),
                uncompressed_length: None,
                self_contained: bits & (1 << 17) != 0,
            },
            Self::Lz4 => FrameHeader {
                payload_length: length_at(0),
                uncompressed_length: Some(length_at(17)).filter(|length| *length != 0),
                self_contained: bits & (1 << 34) != 0,
            },
        }))
    }

    /// Appends a complete frame with this payload to `buffer`.
    ///
    /// # Panics
    /// If the payload is longer than [`PAYLOAD_LENGTH_MAX`].
    pub fn encode(self, self_contained: bool, payload: &[u8], buffer: &mut Vec<u8>) {
        let start = buffer.len();
        buffer.resize(start + self.header_length(), 0);
        buffer.extend_from_slice(payload);
        self.seal(self_contained, start, buffer);
    }

    /// Turns the content of `buffer` from `start`, space for a header and then the payload, into a
    /// frame: compresses, fills in the header, appends the checksum.
    ///
    /// # Panics
    /// If the payload is longer than [`PAYLOAD_LENGTH_MAX`].
    pub(crate) fn seal(self, self_contained: bool, start: usize, buffer: &mut Vec<u8>) {
        let payload_start = start + self.header_length();
        let length = buffer.len() - payload_start;
        assert!(
            length <= PAYLOAD_LENGTH_MAX,
            "a frame's payload has at most 17 bits of length, not {length}"
        );
        let bits = match self {
            Self::Uncompressed => length as u64 | u64::from(self_contained) << 17,
            Self::Lz4 => {
                let payload = buffer.split_off(payload_start);
                lz4_compress(&payload, buffer);
                let block_length = buffer.len() - payload_start;
                let (sent_length, uncompressed_length) = if block_length < length {
                    (block_length, length)
                } else {
                    buffer.truncate(payload_start);
                    buffer.extend_from_slice(&payload);
                    (length, 0)
                };
                sent_length as u64 | (uncompressed_length as u64) << 17 | u64::from(self_contained) << 34
            }
        };
        let (covered, crc) = buffer[start..payload_start].split_at_mut(self.header_length() - 3);
        covered.copy_from_slice(&bits.to_le_bytes()[..covered.len()]);
        crc.copy_from_slice(&crc24(covered).to_le_bytes()[..3]);
        let checksum = crc32(&buffer[payload_start..]);
        buffer.extend_from_slice(&checksum.to_le_bytes());
    }
}

/// A little-endian number of up to eight bytes.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
