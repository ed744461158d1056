//! Encodes messages into the bytes of a connection.

use crate::{
    Compression, Envelope, Flags, FrameFormat, Header, Opcode, ProtocolError, Version,
    decoder::Rejected,
    frame::PAYLOAD_LENGTH_MAX,
    request::Request,
    response::{self, Prelude, Response},
};

/// Shorter bodies are not compressed: LZ4 saves less than it costs on a few hundred bytes.
const COMPRESSED_BODY_LENGTH_MIN: usize = 512;

/// Writes envelopes consecutively into one buffer, to be sent in one piece.
///
/// Bodies are written in place: [`Encoder::begin`], write to [`Encoder::body`],
/// [`Encoder::finish`]. On v5 connections consecutive short envelopes share a frame.
/// [`Encoder::seal`] must precede sending.
#[derive(Debug)]
pub struct Encoder {
    version: Version,
    compression: Option<Compression>,
    frames: Option<FrameFormat>,
    buffer: Vec<u8>,
    /// The offset of the incomplete frame in the buffer.
    open_frame: Option<usize>,
    scratch: Vec<u8>,
    /// The start of the next frame of a long message.
    part: Vec<u8>,
}

/// An incomplete envelope: the offset of its header.
#[derive(Debug)]
#[must_use = "an envelope that is begun must be finished or abandoned"]
pub struct Begun(usize);

impl Encoder {
    /// Creates an encoder at the start of a connection: plain envelopes of this version.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            compression: None,
            frames: None,
            buffer: Vec::new(),
            open_frame: None,
            scratch: Vec::new(),
            part: Vec::new(),
        }
    }

    /// Sets the version and compression of STARTUP. The answer to STARTUP is still a plain
    /// envelope: encode it before.
    pub fn fix_version(&mut self, version: Version, compression: Option<Compression>) {
        self.version = version;
        self.compression = compression;
        self.frames = (version >= Version::V5).then(|| FrameFormat::for_compression(compression));
    }

    /// Sets the version of messages before STARTUP: every answer has the version of its request.
    pub fn use_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Returns the version of encoded messages.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Starts an envelope: reserves space for its header.
    pub fn begin(&mut self) -> Begun {
        if let Some(format) = self.frames
            && self.open_frame.is_none()
        {
            self.open_frame = Some(self.buffer.len());
            self.buffer.resize(self.buffer.len() + format.header_length(), 0);
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; Header::LENGTH]);
        Begun(start)
    }

    /// Returns the buffer to which the body of the last started envelope is appended. Its present
    /// content must stay.
    pub fn body(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Drops an incomplete envelope with its body.
    pub fn abandon(&mut self, begun: Begun) {
        self.buffer.truncate(begun.0);
    }

    /// Completes an envelope whose body is in the buffer. `flags` describe the prelude of the body;
    /// compression is added here.
    pub fn finish(&mut self, begun: Begun, stream: i16, opcode: Opcode, mut flags: Flags) {
        let Begun(start) = begun;
        let body_start = start + Header::LENGTH;
        let worth = self.buffer.len() - body_start >= COMPRESSED_BODY_LENGTH_MIN;
        // STARTUP is never compressed: it precedes the agreement, so `compression` is none.
        if let Some(compression) = self.compression
            && self.frames.is_none()
            && worth
        {
            self.scratch.clear();
            compression.compress_body(&self.buffer[body_start..], &mut self.scratch);
            if self.scratch.len() < self.buffer.len() - body_start {
                self.buffer.truncate(body_start);
                self.buffer.extend_from_slice(&self.scratch);
                flags = flags.with(Flags::COMPRESSED);
            }
        }
        let length = (self.buffer.len() - body_start) as u32;
        let header = Header { version: self.version, flags, stream, opcode, length };
        self.buffer[start..body_start].copy_from_slice(&header.encode());
        if let (Some(format), Some(frame_start)) = (self.frames, self.open_frame) {
            self.split_frame(format, frame_start, start);
        }
    }

    /// Moves the last envelope out of the incomplete frame if that is too long, and into several
    /// frames if the envelope exceeds one.
    fn split_frame(&mut self, format: FrameFormat, frame_start: usize, envelope_start: usize) {
        let payload_start = frame_start + format.header_length();
        if self.buffer.len() - payload_start <= PAYLOAD_LENGTH_MAX {
            return;
        }
        let envelope = self.buffer.split_off(envelope_start);
        if envelope_start == payload_start {
            self.buffer.truncate(frame_start);
        } else {
            format.seal(true, frame_start, &mut self.buffer);
        }
        self.open_frame = None;
        if envelope.len() <= PAYLOAD_LENGTH_MAX {
            self.open_frame = Some(self.buffer.len());
            self.buffer.resize(self.buffer.len() + format.header_length(), 0);
            self.buffer.extend_from_slice(&envelope);
        } else {
            for part in envelope.chunks(PAYLOAD_LENGTH_MAX) {
                format.encode(false, part, &mut self.buffer);
            }
        }
    }

    /// Completes an envelope with a response, inserting `prelude` before the body.
    pub fn finish_response(&mut self, begun: Begun, stream: i16, opcode: Opcode, prelude: &Prelude) {
        let flags = prelude.flags(self.version);
        if flags != Flags::default() {
            // Warnings are known only after the result has been written; they are rare, so the move
            // is too.
            let body_start = begun.0 + Header::LENGTH;
            let message = self.buffer.split_off(body_start);
            prelude.encode(self.version, &mut self.buffer);
            self.buffer.extend_from_slice(&message);
        }
        self.finish(begun, stream, opcode, flags);
    }

    /// Returns whether bodies are compressed as a whole, as before v5 if STARTUP selected a
    /// compression.
    pub fn compresses_bodies(&self) -> bool {
        self.compression.is_some() && self.frames.is_none()
    }

    /// Starts a response whose body follows in pieces, with `body_length` bytes in total, which
    /// exceed one frame. All of it is passed to [`push_long`](Self::push_long), and
    /// [`finish_long`](Self::finish_long) completes it; pending bytes can be sent in between. The
    /// body is not compressed before v5.
    ///
    /// # Errors
    /// If the message exceeds the 2 GiB that its header can announce; nothing is appended then.
    pub fn begin_long(
        &mut self,
        stream: i16,
        opcode: Opcode,
        prelude: &Prelude,
        body_length: usize,
    ) -> Result<(), ProtocolError> {
        let mut start = Vec::new();
        prelude.encode(self.version, &mut start);
        let length = start.len().saturating_add(body_length);
        let Some(length) = i32::try_from(length).ok().and_then(|length| u32::try_from(length).ok()) else {
            let maximum = i32::MAX as u64;
            return Err(ProtocolError::ResponseTooLong { length: length as u64, maximum });
        };
        self.seal();
        let flags = prelude.flags(self.version);
        let header = Header { version: self.version, flags, stream, opcode, length };
        self.push_long(&header.encode());
        self.push_long(&start);
        Ok(())
    }

    /// Appends the next bytes of the body of a long response.
    pub fn push_long(&mut self, mut bytes: &[u8]) {
        let Some(format) = self.frames else {
            self.buffer.extend_from_slice(bytes);
            return;
        };
        while !bytes.is_empty() {
            let (next, rest) = bytes.split_at(bytes.len().min(PAYLOAD_LENGTH_MAX - self.part.len()));
            self.part.extend_from_slice(next);
            bytes = rest;
            if self.part.len() == PAYLOAD_LENGTH_MAX {
                format.encode(false, &self.part, &mut self.buffer);
                self.part.clear();
            }
        }
    }

    /// Completes a long response.
    pub fn finish_long(&mut self) {
        let part = std::mem::take(&mut self.part);
        if let Some(format) = self.frames
            && !part.is_empty()
        {
            format.encode(false, &part, &mut self.buffer);
        }
    }

    /// Appends a complete response.
    pub fn response(&mut self, stream: i16, response: &Response, prelude: &Prelude) {
        let begun = self.begin();
        response.encode(self.version, &mut self.buffer);
        self.finish_response(begun, stream, response.opcode(), prelude);
    }

    /// Appends a complete request; `tracing` requests a trace.
    pub fn request(&mut self, stream: i16, request: &Request, tracing: bool) {
        let begun = self.begin();
        request.encode(self.version, &mut self.buffer);
        let flags = if tracing { Flags::TRACING } else { Flags::default() };
        self.finish(begun, stream, request.opcode(), flags);
    }

    /// Appends an envelope unchanged, with an uncompressed body.
    pub fn envelope(&mut self, envelope: &Envelope) {
        let begun = self.begin();
        self.buffer.extend_from_slice(&envelope.body);
        let Header { flags, stream, opcode, .. } = envelope.header;
        self.finish(begun, stream, opcode, flags.without(Flags::COMPRESSED));
    }

    /// Appends the ERROR that answers a rejected message.
    ///
    /// A message in an unsupported version is answered in the connection's version, from which
    /// drivers select another one; v1 and v2, whose clients could not parse that, are answered with
    /// their shorter header.
    pub fn reject(&mut self, rejected: &Rejected) {
        let error = response::Error::from(rejected.error.clone());
        match rejected.error {
            crate::ProtocolError::UnsupportedVersion { version: version @ (1 | 2) }
                if self.frames.is_none() =>
            {
                let mut body = Vec::new();
                error.encode(self.version, &mut body);
                // v1 and v2 have a one-byte stream: version, flags, stream, opcode, length.
                self.buffer.extend_from_slice(&[0x80 | version, 0, 0, Opcode::Error.number()]);
                crate::notation::write_bytes(Some(&body), &mut self.buffer);
            }
            _ => self.response(rejected.stream, &Response::Error(error), &Prelude::default()),
        }
    }

    /// Completes the current frame, so that everything encoded so far can be sent.
    pub fn seal(&mut self) {
        if let (Some(format), Some(start)) = (self.frames, self.open_frame.take()) {
            if self.buffer.len() == start + format.header_length() {
                self.buffer.truncate(start);
            } else {
                format.seal(true, start, &mut self.buffer);
            }
        }
    }

    /// Returns the number of pending bytes, including an unsealed frame.
    pub fn pending_length(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the sealed bytes, to be sent and then [cleared](Self::clear).
    ///
    /// # Panics
    /// If a frame is incomplete.
    pub fn bytes(&self) -> &[u8] {
        assert!(self.open_frame.is_none(), "seal before sending");
        &self.buffer
    }

    /// Removes the sent bytes. Keeps memory up to `capacity_max`, so that a long response does not
    /// occupy it for the rest of the connection.
    pub fn clear(&mut self, capacity_max: usize) {
        self.buffer.clear();
        self.buffer.shrink_to(capacity_max);
        self.scratch.clear();
        self.scratch.shrink_to(capacity_max);
    }

    /// Returns the bytes of memory for messages, which are kept for further ones.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() + self.scratch.capacity() + self.part.capacity()
    }

    /// Releases memory that holds nothing.
    pub fn release_memory(&mut self) {
        for buffer in [&mut self.buffer, &mut self.scratch, &mut self.part] {
            buffer.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_released_once_nothing_is_to_be_sent() {
        let mut encoder = Encoder::new(Version::V4);
        encoder.fix_version(Version::V4, Some(Compression::Lz4));
        let begun = encoder.begin();
        encoder.body().resize(100_000, 7);
        encoder.finish(begun, 1, Opcode::Result, Flags::default());
        encoder.seal();
        let sent = encoder.bytes().to_vec();
        encoder.release_memory();
        assert_eq!(encoder.bytes(), sent, "it is kept until it is cleared");
        encoder.clear(usize::MAX);
        assert!(encoder.capacity() > 0);
        encoder.release_memory();
        assert_eq!(encoder.capacity(), 0);
    }

    #[test]
    fn a_response_longer_than_its_header_can_announce_is_refused() {
        for version in [Version::V4, Version::V5] {
            let mut encoder = Encoder::new(version);
            encoder.fix_version(version, None);
            let mut begin = |length| encoder.begin_long(1, Opcode::Result, &Prelude::default(), length);
            let error = begin(i32::MAX as usize + 1).unwrap_err();
            assert!(error.to_string().contains("2147483648 bytes"), "{error}");
            begin(usize::MAX).unwrap_err();
            assert_eq!(encoder.pending_length(), 0);
            encoder.begin_long(1, Opcode::Result, &Prelude::default(), i32::MAX as usize).unwrap();
        }
    }
}
