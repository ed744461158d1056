//! Executes requests: directly on the connection's task, or on a dedicated thread.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use cassette_database::FaultFailure;
use cassette_protocol::{
    DecodedRequest, Envelope, Opcode, Prelude, Request, Response, Version,
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
    gate::OwnedPass,
    limits::Charge,
    running::Entered,
    shared::Shared,
    threads::ThreadPermit,
};

/// The requests of a connection that run on dedicated threads.
pub(super) struct Jobs {
    /// Unbounded; the start of jobs limits the number in flight.
    sender: mpsc::UnboundedSender<Done>,
    receiver: mpsc::UnboundedReceiver<Done>,
    in_flight: usize,
    /// Interrupts those in flight once no client waits for their answers.
    cancellation: Cancellation,
}

/// A finished job.
pub(super) struct Done {
    pub stream: i16,
    pub trace: Option<Uuid>,
    pub outcome: Outcome,
}

/// The outcome of a job.
pub(super) enum Outcome {
    Result(Prelude, Finished),
    Error(Error),
    /// A fault closes the connection, within this answer if there is one.
    Closed(Option<(Prelude, Finished)>),
}

/// The body of a response, in pieces, waiting to be sent.
pub(super) struct Finished {
    pub pieces: Vec<Vec<u8>>,
    pub charge: Option<Charge>,
}

/// A request that needs a thread.
pub(super) struct Job {
    pub stream: i16,
    request: Arc<Request>,
    version: Version,
    trace: Option<Trace>,
    entered: Entered,
    pass: OwnedPass,
}

/// A job with what its thread needs.
pub(super) struct Work<B: Backend> {
    pub job: Job,
    shared: Arc<Shared<B>>,
    session: Arc<B::Session>,
    meter: Meter,
    owner: owner::Owner,
    pub done: mpsc::UnboundedSender<Done>,
    /// How the request fails after its execution.
    pub failure: Option<FaultFailure>,
}

impl Jobs {
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver, in_flight: 0, cancellation: Cancellation::new() }
    }

    /// Returns the number of jobs started and not yet answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Counts a job that is started.
    pub fn enter(&mut self) {
        self.in_flight += 1;
    }

    /// Returns a job that has already finished.
    pub fn next_ready(&mut self) -> Option<Done> {
        let done = self.receiver.try_recv().ok()?;
        self.in_flight -= 1;
        Some(done)
    }

    /// Interrupts and drops those in flight, because no client waits for their answers.
    pub fn abandon(&mut self) {
        *self = Self::new();
    }

    /// Waits for a job to finish; returns `None` at once if none is in flight.
    pub async fn next(&mut self) -> Option<Done> {
        if self.in_flight == 0 {
            return None;
        }
        let done = self.receiver.recv().await?;
        self.in_flight -= 1;
        Some(done)
    }
}

/// Also runs if the connection's task is aborted.
impl Drop for Jobs {
    fn drop(&mut self) {
        self.cancellation.cancel(Interrupted::ClientGone);
    }
}

/// A trace of a request.
#[derive(Clone, Copy)]
pub(super) struct Trace {
    id: Uuid,
    /// Whether the client requested it, and receives its id.
    is_told: bool,
}

impl<B: Backend> Connection<B> {
    /// Executes a request directly if memory contains everything it needs and it is not traced.
    pub(super) fn execute(&mut self, envelope: Envelope, decoded: DecodedRequest, charge: Option<Charge>) {
        let Some(pass) = self.shared.gate.enter() else { return self.hold(envelope, charge) };
        let (stream, length) = (envelope.header.stream, envelope.body.len());
        // The request shares the part of the body that it needs; a second reference would keep the
        // rest.
        drop(envelope);
        let DecodedRequest { request, tracing, .. } = decoded;
        self.registered.count_request();
        let version = self.encoder.version();
        if self.throw_on_overload && self.permit.requests().is_exceeded() && charge.is_none() {
            drop(pass);
            return self.refuse_for_overload(stream);
        }
        if let Some(injected) = self.shared.backend.injected_fault(&self.session, &request) {
            let trace = tracing.then(|| Trace { id: self.shared.backend.new_trace(), is_told: true });
            let pass = pass.into_owned();
            return self.execute_faulted(stream, request, version, (length, charge), trace, pass, injected);
        }
        if tracing || self.shared.backend.traces_by_chance() {
            let trace = Trace { id: self.shared.backend.new_trace(), is_told: tracing };
            let pass = pass.into_owned();
            return self.start_job(stream, request, version, length, Some(trace), charge, pass);
        }
        let begun = self.encoder.begin();
        let body = Body::direct(self.encoder.body());
        let answer = owner::on_behalf_of(self.permit.owner(), || {
            execute(&self.shared, &self.session, &request, version, Effort::MemoryOnly, None, body)
        });
        match answer {
            Ok(Answer::Result(prelude)) => {
                self.encoder.finish_response(begun, stream, Opcode::Result, &prelude);
            }
            Ok(Answer::WouldBlock) => {
                self.encoder.abandon(begun);
                let pass = pass.into_owned();
                self.start_job(stream, request, version, length, None, charge, pass);
            }
            Err(error) => {
                drop(pass);
                self.encoder.abandon(begun);
                self.respond(stream, &Response::Error(error));
            }
        }
    }

    fn refuse_for_overload(&mut self, stream: i16) {
        self.shared.metrics.overloaded.fetch_add(1, Ordering::Relaxed);
        let error = Error::new(ErrorDetail::Overloaded, self.permit.overload_message());
        self.respond(stream, &Response::Error(error));
    }

    /// Executes a request on a blocking thread, or makes the connection wait for one. Its memory is
    /// charged before.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn start_job(
        &mut self,
        stream: i16,
        request: Request,
        version: Version,
        length: usize,
        trace: Option<Trace>,
        charge: Option<Charge>,
        pass: OwnedPass,
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
        let job = Box::new(self.job(stream, request, version, trace, pass));
        let (threads, client) = (Arc::clone(&self.shared.limits.threads), self.permit.thread_client());
        let charge = match charge {
            Some(charge) => match threads.try_acquire(client) {
                Some(thread) => return self.run_job(charge, thread, *job),
                None => Some(charge),
            },
            None => None,
        };
        let (accounts, metrics) = (accounts.clone(), Arc::clone(&self.shared.metrics));
        let granted = async move {
            let charge = match charge {
                Some(charge) => charge,
                None => accounts.charge(length).await,
            };
            let _waiting = metrics.wait_for_thread();
            (charge, threads.acquire(client).await)
        };
        self.waiting = Some(Waiting::thread(granted, job));
    }

    /// Returns a job, which is shown as a running request from now on.
    pub(super) fn job(
        &self,
        stream: i16,
        request: Request,
        version: Version,
        trace: Option<Trace>,
        pass: OwnedPass,
    ) -> Job {
        let request = Arc::new(request);
        let entered = self.shared.metrics.running.enter(&self.jobs.cancellation, {
            let (backend, request) = (Arc::clone(&self.shared.backend), Arc::clone(&request));
            move || backend.describe(&request)
        });
        Job { stream, request, version, trace, entered, pass }
    }

    /// Continues with the resource for which the connection has waited.
    pub(super) fn go_on(&mut self, granted: Granted) {
        match granted {
            Granted::Memory(charge, input) => self.receive_message(charge, input),
            Granted::Thread(charge, thread, job) => self.run_job(charge, thread, *job),
            Granted::Authentication(judged) => self.authenticated(judged),
            Granted::Gate(phase, request, charge) => self.resume(phase, request, charge),
        }
    }

    fn run_job(&mut self, charge: Charge, thread: ThreadPermit, job: Job) {
        self.jobs.enter();
        let work = self.work(job);
        tokio::task::spawn_blocking(move || work.perform(charge, thread));
    }

    /// Returns a job with what its thread needs.
    pub(super) fn work(&self, job: Job) -> Work<B> {
        Work {
            job,
            shared: Arc::clone(&self.shared),
            session: Arc::clone(&self.session),
            meter: Meter::new(self.permit.responses().clone(), self.shared.config.max_response_size),
            owner: self.permit.owner(),
            done: self.jobs.sender.clone(),
            failure: None,
        }
    }

    /// Encodes the answer of a job.
    ///
    /// # Errors
    /// If a fault closes the connection.
    pub(super) async fn answer(&mut self, done: Done) -> io::Result<()> {
        let Done { stream, trace: tracing_id, outcome } = done;
        match outcome {
            Outcome::Result(prelude, finished) => {
                self.answer_with(stream, &Prelude { tracing_id, ..prelude }, finished).await
            }
            Outcome::Error(error) => {
                let prelude = Prelude { tracing_id, ..Prelude::default() };
                self.encoder.response(stream, &Response::Error(error), &prelude);
                Ok(())
            }
            // Boxed: few connections need the room.
            Outcome::Closed(answer) => Box::pin(self.close_by_fault(stream, answer)).await,
        }
    }
}

impl<B: Backend> Work<B> {
    /// Executes the request on this thread, which may block.
    pub fn perform(mut self, charge: Charge, thread: ThreadPermit) {
        let Job { stream, request, version, trace, entered, pass } = self.job;
        entered.start();
        let (mut last, mut pieces) = (Vec::new(), Vec::new());
        let id = trace.map(|trace| trace.id);
        let body = Body::in_pieces(&mut last, &mut pieces, &mut self.meter);
        let (shared, session) = (&self.shared, &self.session);
        let answer = interrupt::cancellable(entered.cancellation(), || {
            owner::on_behalf_of(self.owner, || {
                execute(shared, session, &request, version, Effort::MayBlock, id, body)
            })
        });
        let outcome = match answer {
            Ok(Answer::Result(prelude)) => {
                pieces.push(last);
                let charge = self.meter.complete(pieces.iter().map(Vec::len).sum());
                let finished = Finished { pieces, charge };
                match &self.failure {
                    None => Outcome::Result(prelude, finished),
                    Some(failure) => self.shared.failed(failure, Some((prelude, finished))),
                }
            }
            Ok(Answer::WouldBlock) => {
                error!(
                    "a request that may block was rejected because it would block: {:?}",
                    request.opcode()
                );
                Outcome::Error(Error::new(ErrorDetail::ServerError, "The request could not be scheduled"))
            }
            Err(error) => Outcome::Error(error),
        };
        drop((entered, request, charge, thread, pass));
        // An error means that the connection is closed and no client waits for the answer.
        let trace = trace.filter(|trace| trace.is_told).map(|trace| trace.id);
        let _ = self.done.send(Done { stream, trace, outcome });
    }
}

/// Executes a request and turns a panic into a server error: a bug in one request must not end
/// others.
fn execute<B: Backend>(
    shared: &Shared<B>,
    session: &B::Session,
    request: &Request,
    version: Version,
    effort: Effort,
    trace: Option<Uuid>,
    body: Body<'_>,
) -> Result<Answer, Error> {
    // The panic can only leave `body` incomplete, which is dropped; the backend guarantees its own
    // state.
    let executed = catch_unwind(AssertUnwindSafe(|| {
        shared.backend.execute(session, request, version, effort, trace, body)
    }));
    executed.unwrap_or_else(|panic| {
        let reason = shared.metrics.panicked(request.opcode(), &*panic);
        Err(Error::new(ErrorDetail::ServerError, format!("Unexpected error: {reason}")))
    })
}
