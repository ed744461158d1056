//! Requests that injected faults affect.
//!
//! Such a request is delayed beside the connection's task, so that others of the connection
//! continue. It needs a thread only when it is executed.

use std::{io, sync::Arc};

use cassette_database::{FaultFailure, Injected};
use cassette_protocol::{Opcode, Prelude, Request, Version};
use tokio::io::AsyncWriteExt;

use super::{
    Connection,
    execution::{Done, Finished, Outcome, Trace},
};
use crate::{Backend, body::PIECE_LENGTH, faults, gate::OwnedPass, limits::Charge, shared::Shared};

impl<B: Backend> Shared<B> {
    /// Returns the outcome of a request that fails by a fault, and would have this answer.
    pub(super) fn failed(&self, failure: &FaultFailure, answer: Option<(Prelude, Finished)>) -> Outcome {
        match faults::error(failure, self.config.listen_address.ip()) {
            Some(error) => Outcome::Error(error),
            None if *failure == FaultFailure::CutResponse => Outcome::Closed(answer),
            None => Outcome::Closed(None),
        }
    }
}

impl<B: Backend> Connection<B> {
    /// Executes a request that a fault affects.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    pub(super) fn execute_faulted(
        &mut self,
        stream: i16,
        mut request: Request,
        version: Version,
        (length, charge): (usize, Option<Charge>),
        trace: Option<Trace>,
        pass: OwnedPass,
        injected: Injected,
    ) {
        faults::limit_page(&mut request, &injected);
        let mut work = self.work(self.job(stream, request, version, trace, pass));
        self.jobs.enter();
        let (threads, client) = (Arc::clone(&self.shared.limits.threads), self.permit.thread_client());
        let (accounts, shared) = (self.permit.requests().clone(), Arc::clone(&self.shared));
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(injected.delay) => {}
                // No client waits for it.
                () = work.done.closed() => return,
            }
            if let Some(failure) = &injected.failure
                && !injected.is_applied
            {
                let outcome = shared.failed(failure, None);
                // An error means that no client waits for it.
                let _ = work.done.send(Done { stream: work.job.stream, trace: None, outcome });
                return;
            }
            work.failure = injected.failure;
            let charge = match charge {
                Some(charge) => charge,
                None => accounts.charge(length).await,
            };
            let thread = threads.acquire(client).await;
            tokio::task::spawn_blocking(move || work.perform(charge, thread));
        });
    }

    /// Ends the connection: within this answer, or without one.
    ///
    /// # Errors
    /// Always, so that nothing more is sent.
    pub(super) async fn close_by_fault(
        &mut self,
        stream: i16,
        answer: Option<(Prelude, Finished)>,
    ) -> io::Result<()> {
        if let Some((prelude, finished)) = answer {
            self.send().await?;
            self.send_half(stream, &prelude, finished).await?;
        }
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, "an injected fault closes it"))
    }

    /// Sends the first half of an answer.
    async fn send_half(&mut self, stream: i16, prelude: &Prelude, finished: Finished) -> io::Result<()> {
        let begun = self.encoder.begin();
        // Of a long answer, a part is enough.
        let mut left = 2 * PIECE_LENGTH;
        for piece in &finished.pieces {
            let part = &piece[..piece.len().min(left)];
            left -= part.len();
            self.encoder.body().extend_from_slice(part);
        }
        self.encoder.finish_response(begun, stream, Opcode::Result, prelude);
        self.encoder.seal();
        let bytes = self.encoder.bytes();
        let half = bytes[..bytes.len() / 2].to_vec();
        self.stream.write_all(&half).await?;
        self.stream.flush().await
    }
}
