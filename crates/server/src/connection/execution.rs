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
use cassette_rows::interrupt::{self, Cancellation, Interrupted};
use cassette_rows::owner;
use tokio::sync::mpsc;
use tracing::error;
use uuid::Uuid;

use super::{
    Connection,
    waiting::{Granted, Waiting},
};
use crate::{
    Backend, Body,
    backend::{Answer, Effort},
    body::Meter,
    limits::Charge,
    running::Entered,
    threads::ThreadPermit,
};

/// The requests of a connection that run on threads of their own.
pub(super) struct Jobs {
    /// Unbounded in itself; what is in flight is bounded where jobs are started.
    sender: mpsc::UnboundedSender<Done>,
    receiver: mpsc::UnboundedReceiver<Done>,
    in_flight: usize,
    /// Interrupts those in flight once nobody waits for their answers.
    cancellation: Cancellation,
}

/// A finished job.
pub(super) struct Done {
    stream: i16,
    trace: Option<Uuid>,
    outcome: Result<(Prelude, Finished), Error>,
}

/// The body of a response, in pieces, as it waits to be sent.
pub(super) struct Finished {
    pub pieces: Vec<Vec<u8>>,
    pub charge: Option<Charge>,
}

/// A request that needs a thread.
pub(super) struct Job {
    stream: i16,
    request: Arc<Request>,
    version: Version,
    trace: Option<Trace>,
    entered: Entered,
}

impl Jobs {
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver, in_flight: 0, cancellation: Cancellation::new() }
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

    /// Interrupts and forgets those in flight: nobody waits for their answers.
    pub fn abandon(&mut self) {
        *self = Self::new();
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

/// Also when the connection's task is cut.
impl Drop for Jobs {
    fn drop(&mut self) {
        self.cancellation.cancel(Interrupted::ClientGone);
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
    pub(super) fn execute(
        &mut self,
        stream: i16,
        decoded: DecodedRequest,
        length: usize,
        charge: Option<Charge>,
    ) {
        let DecodedRequest { request, tracing, .. } = decoded;
        self.registered.count_request();
        let version = self.encoder.version();
        if self.throw_on_overload && self.permit.requests().is_exceeded() && charge.is_none() {
            return self.refuse_for_overload(stream);
        }
        if tracing || self.shared.backend.traces_by_chance() {
            let trace = Trace { id: self.shared.backend.new_trace(), is_told: tracing };
            return self.start_job(stream, request, version, length, Some(trace), charge);
        }
        let begun = self.encoder.begin();
        let body = Body::direct(self.encoder.body());
        let answer = owner::on_behalf_of(self.permit.owner(), || {
            execute(&*self.shared.backend, &self.session, &request, version, Effort::MemoryOnly, None, body)
        });
        match answer {
            Ok(Answer::Result(prelude)) => {
                self.encoder.finish_response(begun, stream, Opcode::Result, &prelude);
            }
            Ok(Answer::WouldBlock) => {
                self.encoder.abandon(begun);
                self.start_job(stream, request, version, length, None, charge);
            }
            Err(error) => {
                self.encoder.abandon(begun);
                self.respond(stream, &Response::Error(error));
            }
        }
    }

    fn refuse_for_overload(&mut self, stream: i16) {
        self.shared.figures.overloaded.fetch_add(1, Ordering::Relaxed);
        let error = Error::new(ErrorDetail::Overloaded, self.permit.overload_message());
        self.respond(stream, &Response::Error(error));
    }

    /// Executes a request on a blocking thread, or lets the connection wait for one. Its memory is charged before.
    fn start_job(
        &mut self,
        stream: i16,
        request: Request,
        version: Version,
        length: usize,
        trace: Option<Trace>,
        charge: Option<Charge>,
    ) {
        let accounts = self.permit.requests();
        let charge = match charge {
            Some(mut charge) => {
                charge.shrink_to(length);
                Some(charge)
            }
            None => accounts.try_charge(length),
        };
        if charge.is_none() && self.throw_on_overload {
            return self.refuse_for_overload(stream);
        }
        let request = Arc::new(request);
        let entered = self.shared.figures.running.enter({
            let (backend, request) = (Arc::clone(&self.shared.backend), Arc::clone(&request));
            move || backend.describe(&request)
        });
        let job = Box::new(Job { stream, request, version, trace, entered });
        let (threads, client) = (Arc::clone(&self.shared.limits.threads), self.permit.thread_client());
        let charge = match charge {
            Some(charge) => match threads.try_acquire(client) {
                Some(thread) => return self.run_job(charge, thread, *job),
                None => Some(charge),
            },
            None => None,
        };
        let (accounts, figures) = (accounts.clone(), Arc::clone(&self.shared.figures));
        let granted = async move {
            let charge = match charge {
                Some(charge) => charge,
                None => accounts.charge(length).await,
            };
            let _waiting = figures.wait_for_thread();
            (charge, threads.acquire(client).await)
        };
        self.waiting = Some(Waiting::thread(granted, job));
    }

    /// Goes on with what the connection has waited for.
    pub(super) fn go_on(&mut self, granted: Granted) {
        match granted {
            Granted::Memory(charge, input) => self.receive_message(charge, input),
            Granted::Thread(charge, thread, job) => self.run_job(charge, thread, *job),
        }
    }

    fn run_job(&mut self, charge: Charge, thread: ThreadPermit, job: Job) {
        let Job { stream, request, version, trace, entered } = job;
        let (backend, session) = (Arc::clone(&self.shared.backend), Arc::clone(&self.session));
        let (done, cancellation) = (self.jobs.sender.clone(), self.jobs.cancellation.clone());
        let mut meter = Meter::new(self.permit.responses().clone(), self.shared.config.max_response_size);
        let client = self.permit.owner();
        self.jobs.in_flight += 1;
        tokio::task::spawn_blocking(move || {
            entered.start();
            let (mut last, mut pieces) = (Vec::new(), Vec::new());
            let id = trace.map(|trace| trace.id);
            let body = Body::in_pieces(&mut last, &mut pieces, &mut meter);
            let answer = interrupt::cancellable(&cancellation, || {
                owner::on_behalf_of(client, || {
                    execute(&*backend, &session, &request, version, Effort::MayBlock, id, body)
                })
            });
            let outcome = answer.and_then(|answer| match answer {
                Answer::Result(prelude) => {
                    pieces.push(last);
                    let charge = meter.complete(pieces.iter().map(Vec::len).sum());
                    Ok((prelude, Finished { pieces, charge }))
                }
                Answer::WouldBlock => {
                    error!("a request that may block was refused because it would: {:?}", request.opcode());
                    Err(Error::new(ErrorDetail::ServerError, "The request could not be scheduled"))
                }
            });
            drop((entered, request, charge, thread));
            // An error says that the connection is gone and nobody waits for the answer.
            let trace = trace.filter(|trace| trace.is_told).map(|trace| trace.id);
            let _ = done.send(Done { stream, trace, outcome });
        });
    }

    /// Encodes the answer of a job.
    pub(super) async fn answer(&mut self, done: Done) -> io::Result<()> {
        let Done { stream, trace: tracing_id, outcome } = done;
        match outcome {
            Ok((prelude, finished)) => {
                self.answer_with(stream, &Prelude { tracing_id, ..prelude }, finished).await
            }
            Err(error) => {
                let prelude = Prelude { tracing_id, ..Prelude::default() };
                self.encoder.response(stream, &Response::Error(error), &prelude);
                Ok(())
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
    body: Body<'_>,
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
