//! Decodes the bytes of a connection into envelopes, with limits on every length.

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    Compression, Direction, Envelope, Flags, FrameFormat, Header, ProtocolError, Version,
    envelope::RejectedHeader, frame::Frame,
};

/// Cassandra's `native_transport_max_frame_size`: the longest accepted message, including its
/// header.
pub const MESSAGE_LENGTH_MAX_DEFAULT: usize = 16 * 1024 * 1024;

/// A rejected message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The reason.
    pub error: ProtocolError,
    /// The stream for the answer; 0 if it is unknown.
    pub stream: i16,
    /// Whether the following bytes cannot be decoded: answer and close. Otherwise the rejected
    /// message has been skipped and decoding continues after it.
    pub fatal: bool,
}

/// The outcome of [`Decoder::next_within`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// A whole message.
    Envelope(Envelope),
    /// More bytes are needed.
    Incomplete,
    /// The next message needs more memory than was granted. It was not consumed.
    NeedsMemory {
        /// Bytes that it occupies during reception and decompression.
        memory: usize,
        /// Bytes of input that it occupies once it has arrived; 0 in frames, which leave the input
        /// one by one.
        input: usize,
    },
}

/// Splits the bytes of one connection into envelopes.
///
/// A connection starts with plain envelopes. After STARTUP the owner calls
/// [`Decoder::fix_version`], after which v5 connections expect frames. The decoder holds at most
/// one message of the configured length plus one frame.
#[derive(Debug)]
pub struct Decoder {
    expects: Direction,
    message_length_max: usize,
    version: Option<Version>,
    compression: Option<Compression>,
    framing: Framing,
}

#[derive(Debug)]
enum Framing {
    Plain {
        /// A message that is too long, and the number of its bytes that are still to come.
        discarding: Option<(Rejected, u64)>,
    },
    Frames {
        format: FrameFormat,
        /// The rest of the current self-contained frame.
        payload: Bytes,
        /// The received part of an envelope that spans several frames.
        large: Option<Large>,
    },
}

/// The envelope in frames that are not self-contained.
#[derive(Debug, Default)]
struct Large {
    header: Option<Header>,
    bytes: BytesMut,
    /// Set if the message is rejected but must be skipped until its end: the error, and the bytes
    /// still to come.
    discarding: Option<(Rejected, u64)>,
}

impl Decoder {
    /// Creates a decoder at the start of a connection, for messages in direction `expects`.
    ///
    /// `message_length_max` limits an envelope with its header, before and after decompression.
    pub fn new(expects: Direction, message_length_max: usize) -> Self {
        Self {
            expects,
            message_length_max,
            version: None,
            compression: None,
            framing: Framing::Plain { discarding: None },
        }
    }

    /// Sets the version and compression of STARTUP: other versions are rejected from here, and the
    /// next bytes of a v5 connection are frames. The answer to STARTUP is never in a frame but,
    /// before v5, can be compressed: a client calls this after that answer in v5, and before it
    /// otherwise.
    pub fn fix_version(&mut self, version: Version, compression: Option<Compression>) {
        self.version = Some(version);
        self.compression = compression;
        if version >= Version::V5 {
            self.framing = Framing::Frames {
                format: FrameFormat::for_compression(compression),
                payload: Bytes::new(),
                large: None,
            };
        }
    }

    /// Changes the limit of an envelope with its header, from the next envelope on. A server keeps
    /// it low until the client is authenticated.
    pub fn set_message_length_max(&mut self, message_length_max: usize) {
        self.message_length_max = message_length_max;
    }

    /// Returns whether the connection uses frames.
    pub fn is_framed(&self) -> bool {
        matches!(self.framing, Framing::Frames { .. })
    }

    /// Removes the next envelope from `input`; `Ok(None)` if it is incomplete.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, Rejected> {
        Ok(match self.next_within(input, usize::MAX)? {
            Decoded::Envelope(envelope) => Some(envelope),
            Decoded::Incomplete | Decoded::NeedsMemory { .. } => None,
        })
    }

    /// Does the same as [`next`](Self::next), unless the next message needs more than `memory`
    /// bytes. A message of which only the length has arrived counts once `memory` bytes of it have
    /// arrived, because an announcement costs a client nothing.
    ///
    /// In v5, the decoder holds one frame in addition.
    pub fn next_within(&mut self, input: &mut BytesMut, memory: usize) -> Result<Decoded, Rejected> {
        match &mut self.framing {
            Framing::Plain { .. } => self.next_plain(input, memory),
            Framing::Frames { .. } => self.next_framed(input, memory),
        }
    }

    /// Rejects the message for which [`next_within`](Self::next_within) needed memory: it is
    /// skipped, and then returned as rejected with `error`.
    pub fn refuse(&mut self, input: &[u8], error: ProtocolError) {
        match &mut self.framing {
            Framing::Plain { discarding } => {
                if let Ok(Some(header)) = Header::decode(input, self.expects) {
                    let length = Header::LENGTH as u64 + u64::from(header.length);
                    *discarding = Some((Rejected { error, stream: header.stream, fatal: false }, length));
                }
            }
            Framing::Frames { large: Some(large), .. } => {
                if let Some(header) = large.header {
                    let length = Header::LENGTH as u64 + u64::from(header.length);
                    let rejected = Rejected { error, stream: header.stream, fatal: false };
                    let left = length.saturating_sub(large.bytes.len() as u64);
                    *large = Large { discarding: Some((rejected, left)), ..Large::default() };
                }
            }
            Framing::Frames { large: None, .. } => {}
        }
    }

    fn next_plain(&mut self, input: &mut BytesMut, memory: usize) -> Result<Decoded, Rejected> {
        let Framing::Plain { discarding } = &mut self.framing else { return Ok(Decoded::Incomplete) };
        if let Some((_, left)) = discarding {
            let skipped = (*left).min(input.len() as u64);
            input.advance(skipped as usize);
            *left -= skipped;
            return match discarding.take_if(|(_, left)| *left == 0) {
                Some((rejected, _)) => Err(rejected),
                None => Ok(Decoded::Incomplete),
            };
        }
        let header = match Header::decode(input, self.expects)
            .and_then(|header| check_version(header, self.version))
        {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(Decoded::Incomplete),
            Err(RejectedHeader { error, stream, length: Some(length) }) => {
                *discarding = Some((
                    Rejected { error, stream, fatal: false },
                    Header::LENGTH as u64 + u64::from(length),
                ));
                return self.next_plain(input, memory);
            }
            Err(RejectedHeader { error, stream, length: None }) => {
                input.clear();
                return Err(Rejected { error, stream, fatal: true });
            }
        };
        let length = Header::LENGTH as u64 + u64::from(header.length);
        if length > self.message_length_max as u64 {
            let error = ProtocolError::TooLong { length, maximum: self.message_length_max as u64 };
            *discarding = Some((Rejected { error, stream: header.stream, fatal: false }, length));
            return self.next_plain(input, memory);
        }
        let length = length as usize;
        let needed = length + self.decompressed_length(header, input);
        let is_whole = input.len() >= length;
        if needed > memory && (is_whole || input.len() >= memory) {
            return Ok(Decoded::NeedsMemory { memory: needed, input: length });
        }
        if !is_whole {
            reserve_towards(input, length.min(memory));
            return Ok(Decoded::Incomplete);
        }
        input.advance(Header::LENGTH);
        let body = input.split_to(header.length as usize).freeze();
        self.open(header, body).map(Decoded::Envelope)
    }

    /// Returns the memory for decompressing the plain envelope at the start of `input`; none for a
    /// body that will be rejected for its announced length.
    fn decompressed_length(&self, header: Header, input: &[u8]) -> usize {
        if !header.flags.contains(Flags::COMPRESSED) || header.version >= Version::V5 {
            return 0;
        }
        let body = input.get(Header::LENGTH..).unwrap_or_default();
        let announced = self.compression.and_then(|compression| compression.announced_length(body));
        announced.filter(|length| *length <= self.message_length_max).unwrap_or(0)
    }

    fn next_framed(&mut self, input: &mut BytesMut, memory: usize) -> Result<Decoded, Rejected> {
        loop {
            let Framing::Frames { format, payload, large } = &mut self.framing else {
                return Ok(Decoded::Incomplete);
            };
            if !payload.is_empty() {
                return self.next_in_frame().map(Decoded::Envelope);
            }
            if let Some(Large { header: Some(header), bytes, discarding: None }) = large {
                let length = Header::LENGTH + header.length as usize;
                if length > memory {
                    return Ok(Decoded::NeedsMemory { memory: length, input: 0 });
                }
                bytes.reserve(length.saturating_sub(bytes.len()));
            }
            let format = *format;
            let frame = format.decode(input).map_err(|error| Rejected { error, stream: 0, fatal: true })?;
            let Some(Frame { self_contained, payload: bytes }) = frame else {
                if let Some(length) = format.announced_length(input) {
                    reserve_towards(input, length);
                }
                return Ok(Decoded::Incomplete);
            };
            match (self_contained, large) {
                (true, None) => *payload = bytes,
                (true, Some(_)) => {
                    let error = ProtocolError::Invalid(
                        "Received a self-contained frame before the last part of a message over several frames".into(),
                    );
                    return Err(Rejected { error, stream: 0, fatal: true });
                }
                (false, _) => {
                    if let Some(envelope) = self.gather(&bytes)? {
                        return Ok(Decoded::Envelope(envelope));
                    }
                }
            }
        }
    }

    /// Returns the next envelope of the current self-contained frame, which is not exhausted yet.
    fn next_in_frame(&mut self) -> Result<Envelope, Rejected> {
        let Framing::Frames { payload, .. } = &mut self.framing else {
            unreachable!("only called for frames");
        };
        let left = payload.len();
        let decoded =
            Header::decode(payload, self.expects).and_then(|header| check_version(header, self.version));
        let (length, outcome) = match decoded {
            Ok(Some(header)) => (Some(header.length), Ok(header)),
            Ok(None) => {
                let error =
                    ProtocolError::Truncated { what: "an envelope header", needed: Header::LENGTH, left };
                (None, Err((error, 0)))
            }
            Err(RejectedHeader { error, stream, length }) => (length, Err((error, stream))),
        };
        let Some(length) =
            length.map(|length| length as usize).filter(|length| *length <= left - Header::LENGTH)
        else {
            payload.clear();
            let (error, stream) = match outcome {
                Ok(header) => {
                    let needed = header.length as usize;
                    let left = left - Header::LENGTH;
                    (
                        ProtocolError::Truncated { what: "the body of an envelope", needed, left },
                        header.stream,
                    )
                }
                Err(rejected) => rejected,
            };
            return Err(Rejected { error, stream, fatal: true });
        };
        payload.advance(Header::LENGTH);
        let body = payload.split_to(length);
        match outcome {
            Ok(header) => self.open(header, body),
            Err((error, stream)) => Err(Rejected { error, stream, fatal: false }),
        }
    }

    /// Adds a frame to the envelope that spans several; returns the envelope once it is complete.
    fn gather(&mut self, part: &[u8]) -> Result<Option<Envelope>, Rejected> {
        let (expects, version) = (self.expects, self.version);
        let Framing::Frames { large: slot, .. } = &mut self.framing else { return Ok(None) };
        let large = slot.get_or_insert_default();
        if let Some((rejected, left)) = &mut large.discarding {
            *left = left.saturating_sub(part.len() as u64);
            if *left > 0 {
                return Ok(None);
            }
            let rejected = rejected.clone();
            *slot = None;
            return Err(rejected);
        }
        large.bytes.extend_from_slice(part);
        let header = match large.header {
            Some(header) => header,
            None => {
                let decoded =
                    Header::decode(&large.bytes, expects).and_then(|header| check_version(header, version));
                match decoded {
                    Ok(Some(header)) => *large.header.insert(header),
                    Ok(None) => return Ok(None),
                    // The following parts depend on this header, so they cannot be decoded.
                    Err(RejectedHeader { error, stream, .. }) => {
                        return Err(Rejected { error, stream, fatal: true });
                    }
                }
            }
        };
        let length = Header::LENGTH as u64 + u64::from(header.length);
        let come = large.bytes.len() as u64;
        if come > length {
            let error = ProtocolError::Invalid(format!(
                "A message over several frames announces {length} bytes but its frames have {come}"
            ));
            return Err(Rejected { error, stream: header.stream, fatal: true });
        }
        if length > self.message_length_max as u64 {
            let error = ProtocolError::TooLong { length, maximum: self.message_length_max as u64 };
            let rejected = Rejected { error, stream: header.stream, fatal: false };
            if come == length {
                *slot = None;
                return Err(rejected);
            }
            *large = Large { discarding: Some((rejected, length - come)), ..Large::default() };
            return Ok(None);
        }
        if come < length {
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut large.bytes).freeze();
        *slot = None;
        bytes.advance(Header::LENGTH);
        self.open(header, bytes).map(Some)
    }

    /// Decompresses the body if its flag is set.
    fn open(&self, header: Header, body: Bytes) -> Result<Envelope, Rejected> {
        if !header.flags.contains(Flags::COMPRESSED) || header.version >= Version::V5 {
            return Ok(Envelope { header, body });
        }
        let reject = |error| Rejected { error, stream: header.stream, fatal: false };
        let compression = self.compression.ok_or_else(|| {
            reject(ProtocolError::Invalid(
                "Received a compressed message but no compression was agreed on in STARTUP".into(),
            ))
        })?;
        let body = compression.decompress_body(&body, self.message_length_max).map_err(reject)?;
        Ok(Envelope { header, body: body.into() })
    }
}

/// Reserves space for a message of `length` bytes that starts with `input`, but at most doubles the
/// received bytes: an announced length alone must not allocate.
fn reserve_towards(input: &mut BytesMut, length: usize) {
    const STEP_MIN: usize = 64 * 1024;
    input.reserve(length.saturating_sub(input.len()).min(input.len().max(STEP_MIN)));
}

/// Rejects a header in a version other than the connection's.
fn check_version(header: Option<Header>, fixed: Option<Version>) -> Result<Option<Header>, RejectedHeader> {
    match (header, fixed) {
        (Some(header), Some(expected)) if header.version != expected => Err(RejectedHeader {
            error: ProtocolError::VersionChanged { got: header.version, expected },
            stream: header.stream,
            length: Some(header.length),
        }),
        _ => Ok(header),
    }
}

impl FrameFormat {
    /// Returns the frame format of a v5 connection with this compression.
    pub fn for_compression(compression: Option<Compression>) -> Self {
        match compression {
            Some(Compression::Lz4) => Self::Lz4,
            // STARTUP rejects Snappy for v5, so no frames follow.
            Some(Compression::Snappy) | None => Self::Uncompressed,
        }
    }
}
