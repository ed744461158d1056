//! Executing requests: at once on the connection's task, or on a thread of their own.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use cassette_protocol::{
    DecodedRequest, Opcode, Prelude, Request, Response, Version,
    response::{Error, ErrorDetail},
};
use tokio::sync::mpsc;
use tracing::error;
use uuid::Uuid;

use super::Connection;
use crate::{
    Backend,
    backend::{Answer, Effort},
};

/// The requests of a connection that run on threads of their own.
pub(super) struct Jobs {
    /// Unbounded in itself; what is in flight is bounded where jobs are started.
    sender: mpsc::UnboundedSender<Done>,
    receiver: mpsc::UnboundedReceiver<Done>,
    in_flight: usize,
}

/// A finished job.
pub(super) struct Done {
    stream: i16,
    trace: Option<Uuid>,
    outcome: Result<(Prelude, Vec<u8>), Error>,
}

impl Jobs {
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver, in_flight: 0 }
    }

    /// How many have been started and not been answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A job that has finished already.
    pub fn next_ready(&mut self) -> Option<Done> {
        let done = self.receiver.try_recv().ok()?;
        self.in_flight -= 1;
        Some(done)
    }

    /// Waits for a job to finish; `None` at once when there is none in flight.
    pub async fn next(&mut self) -> Option<Done> {
        if self.in_flight == 0 {
            return None;
        }
        let done = self.receiver.recv().await?;
        self.in_flight -= 1;
        Some(done)
    }
}

/// A trace of a request.
#[derive(Clone, Copy)]
struct Trace {
    id: Uuid,
    /// Whether the client asked for it, and is told its id.
    is_told: bool,
}

impl<B: Backend> Connection<B> {
    /// Executes a request, at once if memory has all that it needs and it is not traced.
    pub(super) async fn execute(
        &mut self,
        stream: i16,
        decoded: DecodedRequest,
        length: usize,
    ) -> io::Result<()> {
        let DecodedRequest { request, tracing, .. } = decoded;
        self.registered.count_request();
        let version = self.encoder.version();
        if self.throw_on_overload && self.permit.is_overloaded() {
            self.shared.figures.overloaded.fetch_add(1, Ordering::Relaxed);
            let error = Error::new(ErrorDetail::Overloaded, self.permit.overload_message());
            self.respond(stream, &Response::Error(error));
            return Ok(());
        }
        if tracing || self.shared.backend.traces_by_chance() {
            let trace = Trace { id: self.shared.backend.new_trace(), is_told: tracing };
            return self.start_job(stream, request, version, length, Some(trace)).await;
        }
        let begun = self.encoder.begin();
        let body = self.encoder.body();
        match execute(&*self.shared.backend, &self.session, &request, version, Effort::MemoryOnly, None, body)
        {
            Ok(Answer::Result(prelude)) => {
                self.encoder.finish_response(begun, stream, Opcode::Result, &prelude);
                Ok(())
            }
            Ok(Answer::WouldBlock) => {
                self.encoder.abandon(begun);
                self.start_job(stream, request, version, length, None).await
            }
            Err(error) => {
                self.encoder.abandon(begun);
                self.respond(stream, &Response::Error(error));
                Ok(())
            }
        }
    }

    /// Executes a request on a thread of its own.
    async fn start_job(
        &mut self,
        stream: i16,
        request: Request,
        version: Version,
        length: usize,
        trace: Option<Trace>,
    ) -> io::Result<()> {
        let request = Arc::new(request);
        let entered = self.shared.figures.running.enter({
            let (backend, request) = (Arc::clone(&self.shared.backend), Arc::clone(&request));
            move || backend.describe(&request)
        });
        let threads = &self.shared.limits.threads;
        let permit = match Arc::clone(threads).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                // The wait may be long; what is ready should not share it. Jobs give their permits back whatever this
                // connection does, so the wait ends.
                let threads = Arc::clone(threads);
                self.send().await?;
                let _waiting = self.shared.figures.wait_for_thread();
                threads.acquire_owned().await.map_err(io::Error::other)?
            }
        };
        let (backend, session) = (Arc::clone(&self.shared.backend), Arc::clone(&self.session));
        let (done, charge) = (self.jobs.sender.clone(), self.permit.charge(length));
        self.jobs.in_flight += 1;
        tokio::task::spawn_blocking(move || {
            entered.start();
            let mut body = Vec::new();
            let id = trace.map(|trace| trace.id);
            let answer = execute(&*backend, &session, &request, version, Effort::MayBlock, id, &mut body);
            let outcome = answer.and_then(|answer| match answer {
                Answer::Result(prelude) => Ok((prelude, body)),
                Answer::WouldBlock => {
                    error!("a request that may block was refused because it would: {:?}", request.opcode());
                    Err(Error::new(ErrorDetail::ServerError, "The request could not be scheduled"))
                }
            });
            drop((entered, request, charge, permit));
            // An error says that the connection is gone and nobody waits for the answer.
            let trace = trace.filter(|trace| trace.is_told).map(|trace| trace.id);
            let _ = done.send(Done { stream, trace, outcome });
        });
        Ok(())
    }

    /// Encodes the answer of a job.
    pub(super) fn answer(&mut self, done: Done) {
        match done.outcome {
            Ok((prelude, body)) => {
                let prelude = Prelude { tracing_id: done.trace, ..prelude };
                let begun = self.encoder.begin();
                self.encoder.body().extend_from_slice(&body);
                self.encoder.finish_response(begun, done.stream, Opcode::Result, &prelude);
            }
            Err(error) => {
                let prelude = Prelude { tracing_id: done.trace, ..Prelude::default() };
                self.encoder.response(done.stream, &Response::Error(error), &prelude);
            }
        }
    }
}

/// Executes a request and turns a panic into a server error: a bug met by one request must not end others.
fn execute<B: Backend>(
    backend: &B,
    session: &B::Session,
    request: &Request,
    version: Version,
    effort: Effort,
    trace: Option<Uuid>,
    body: &mut Vec<u8>,
) -> Result<Answer, Error> {
    // What the panic may have left half done is `body`, which is thrown away; the backend answers for its own state.
    catch_unwind(AssertUnwindSafe(|| backend.execute(session, request, version, effort, trace, body)))
        .unwrap_or_else(|panic| {
            let reason = panic_message(&*panic);
            error!("{} panicked: {reason}", request.opcode());
            Err(Error::new(ErrorDetail::ServerError, format!("Unexpected error: {reason}")))
        })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}
