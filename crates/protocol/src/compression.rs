//! Compression of bodies (v3, v4) and of frame payloads (v5, LZ4 only).

use std::fmt;

use crate::{ProtocolError, notation};

/// A compression algorithm of STARTUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// LZ4 blocks. Bodies of v3 and v4 start with the uncompressed length as four bytes,
    /// big-endian.
    Lz4,
    /// Snappy's raw format, for v3 and v4 only.
    Snappy,
}

impl Compression {
    /// All algorithms, in the order of SUPPORTED.
    pub const ALL: [Self; 2] = [Self::Snappy, Self::Lz4];

    /// The algorithm by its name in STARTUP, in any case.
    pub fn from_name(name: &str) -> Result<Self, ProtocolError> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            ProtocolError::Invalid(format!("Unknown compression algorithm: {}", name.to_lowercase()))
        })
    }

    /// The name in STARTUP and SUPPORTED.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }

    /// Appends a compressed body of v3 or v4 to `buffer`.
    pub fn compress_body(self, body: &[u8], buffer: &mut Vec<u8>) {
        match self {
            Self::Lz4 => {
                notation::write_int(i32::try_from(body.len()).expect("a body is shorter than 2 GiB"), buffer);
                lz4_compress(body, buffer);
            }
            Self::Snappy => {
                let start = buffer.len();
                buffer.resize(start + snap::raw::max_compress_len(body.len()), 0);
                let written = snap::raw::Encoder::new()
                    .compress(body, &mut buffer[start..])
                    .expect("a body is shorter than 4 GiB and the buffer has room for the worst case");
                buffer.truncate(start + written);
            }
        }
    }

    /// Returns the length that the start of a compressed body of v3 or v4 announces; `None` if it
    /// is too short.
    pub fn announced_length(self, body: &[u8]) -> Option<usize> {
        match self {
            Self::Lz4 => body.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize),
            Self::Snappy => snap::raw::decompress_len(body).ok(),
        }
    }

    /// Decompresses a body of v3 or v4 to at most `length_max` bytes.
    pub fn decompress_body(self, body: &[u8], length_max: usize) -> Result<Vec<u8>, ProtocolError> {
        let (length, compressed) = match self {
            Self::Lz4 => {
                let (length, compressed) = body
                    .split_first_chunk::<4>()
                    .ok_or_else(|| self.refuse(body, "no uncompressed length"))?;
                (u32::from_be_bytes(*length) as usize, compressed)
            }
            Self::Snappy => {
                (snap::raw::decompress_len(body).map_err(|error| self.refuse(body, error))?, body)
            }
        };
        if length > length_max {
            return Err(ProtocolError::TooLong { length: length as u64, maximum: length_max as u64 });
        }
        self.check_ratio(body, length)?;
        match self {
            Self::Lz4 => lz4_decompress(compressed, length),
            Self::Snappy => {
                let mut decompressed = vec![0; length];
                snap::raw::Decoder::new()
                    .decompress(compressed, &mut decompressed)
                    .map_err(|error| self.refuse(body, error))?;
                Ok(decompressed)
            }
        }
    }

    /// Rejects an announced length that the bytes cannot expand to, before it is allocated.
    fn check_ratio(self, body: &[u8], length: usize) -> Result<(), ProtocolError> {
        // One byte of an LZ4 match length represents at most 255 bytes; Snappy's copies yield at
        // most 64 for three.
        const RATIO_MAX: usize = 255;
        if length > body.len().saturating_mul(RATIO_MAX) {
            return Err(self.refuse(body, format_args!("it announces {length} bytes")));
        }
        Ok(())
    }

    fn refuse(self, body: &[u8], reason: impl fmt::Display) -> ProtocolError {
        ProtocolError::Compression { algorithm: self.name(), length: body.len(), reason: reason.to_string() }
    }
}

/// Appends the LZ4 block of `input` to `buffer`.
pub(crate) fn lz4_compress(input: &[u8], buffer: &mut Vec<u8>) {
    let start = buffer.len();
    buffer.resize(start + lz4_flex::block::get_maximum_output_size(input.len()), 0);
    let written = lz4_flex::block::compress_into(input, &mut buffer[start..])
        .expect("the buffer has room for the worst case");
    buffer.truncate(start + written);
}

/// Decompresses an LZ4 block to exactly `length` bytes. The caller has bounded `length`.
pub(crate) fn lz4_decompress(block: &[u8], length: usize) -> Result<Vec<u8>, ProtocolError> {
    let refuse = |reason: String| Compression::Lz4.refuse(block, reason);
    let mut decompressed = vec![0; length];
    let written = lz4_flex::block::decompress_into(block, &mut decompressed)
        .map_err(|error| refuse(error.to_string()))?;
    if written != length {
        return Err(refuse(format!("{written} bytes came out where {length} were announced")));
    }
    Ok(decompressed)
}
