//! Sending the output.

use std::{io, time::Duration};

use cassette_protocol::{Opcode, Prelude, Response, response::Error};
use tokio::io::AsyncWriteExt;
use tracing::warn;

use super::{Connection, OUTPUT_LENGTH, execution::Finished, handshake::Stage};
use crate::{Backend, body::PIECE_LENGTH};

/// How long a client may receive nothing while the memory for responses is exceeded.
const SEND_STALL_MAX: Duration = Duration::from_secs(30);

/// Longer bodies are not compressed before v5: that would take a second copy, and stall other
/// connections.
const COMPRESSED_LENGTH_MAX: usize = 8 * 1024 * 1024;

impl<B: Backend> Connection<B> {
    /// Sends the output and waits until the client's side has received it.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        self.encoder.seal();
        self.send_sealed().await
    }

    async fn send_sealed(&mut self) -> io::Result<()> {
        if self.encoder.bytes().is_empty() {
            return Ok(());
        }
        let mut rest = self.encoder.bytes();
        match self.stream.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        // Charges only bytes that a client does not receive at once.
        let _charge = (!rest.is_empty()).then(|| self.permit.responses().charge_anyway(rest.len()));
        while !rest.is_empty() {
            let write = self.stream.write(rest);
            match tokio::time::timeout(SEND_STALL_MAX, write).await {
                Ok(written) => rest = &rest[written?..],
                Err(_) => self.check_stalled()?,
            }
        }
        // Encryption keeps some of what was written. TCP does not, and a timeout takes time.
        while self.stream.is_encrypted() {
            match tokio::time::timeout(SEND_STALL_MAX, self.stream.flush()).await {
                Ok(flushed) => {
                    flushed?;
                    break;
                }
                Err(_) => self.check_stalled()?,
            }
        }
        self.encoder.clear(OUTPUT_LENGTH);
        Ok(())
    }

    /// Fails if memory is short, or the client not yet accepted, so that a client that receives
    /// nothing cannot stay.
    fn check_stalled(&self) -> io::Result<()> {
        if matches!(self.stage, Stage::Ready) && !self.permit.responses().is_exceeded() {
            return Ok(());
        }
        warn!("{} reads none of its answers while memory for them is short; closing", self.peer);
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Encodes the response of a job. A long one is sent at once, piece by piece.
    pub(super) async fn answer_with(
        &mut self,
        stream: i16,
        prelude: &Prelude,
        finished: Finished,
    ) -> io::Result<()> {
        let Finished { pieces, mut charge } = finished;
        let length: usize = pieces.iter().map(Vec::len).sum();
        let is_compressed = self.encoder.compresses_bodies() && length <= COMPRESSED_LENGTH_MAX;
        if length <= PIECE_LENGTH || is_compressed {
            let begun = self.encoder.begin();
            pieces.iter().for_each(|piece| self.encoder.body().extend_from_slice(piece));
            self.encoder.finish_response(begun, stream, Opcode::Result, prelude);
            return Ok(());
        }
        if let Err(error) = self.encoder.begin_long(stream, Opcode::Result, prelude, length) {
            let response = Response::Error(Error::from(error));
            self.encoder.response(stream, &response, &Prelude::default());
            return Ok(());
        }
        let mut left = length;
        for piece in pieces {
            for part in piece.chunks(OUTPUT_LENGTH) {
                self.encoder.push_long(part);
                self.send_sealed().await?;
            }
            left -= piece.len();
            drop(piece);
            if let Some(charge) = &mut charge {
                charge.shrink_to(left);
            }
        }
        self.encoder.finish_long();
        self.send_sealed().await
    }
}
