//! Keeps many requests in flight on one connection.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{Envelope, Response, ResultMessage};

use super::connection::{Connection, error_class};
use super::requests::Requests;
use crate::engine::threads::check_rows;
use crate::recording::recorder::Timing;
use crate::run::Worker;
use crate::run::worker::Task;
use crate::workload::{Failure, Operation, OperationKind, RowSink};
use crate::ycsb::FieldValues;

/// A connection with a fixed number of slots; the stream number of a request is the index of its
/// slot.
#[derive(Debug)]
pub(super) struct Pipeline {
    connection: Connection,
    requests: Requests,
    slots: Vec<Slot>,
    /// Indexes of free slots.
    free: Vec<usize>,
}

/// A request in flight.
#[derive(Debug, Default)]
struct Slot {
    task: Option<Task>,
    key: String,
    start: Option<Instant>,
    /// Time of the read's response in a read-modify-write whose update is in flight.
    read_end: Option<Instant>,
    /// Whether its statement is being prepared again because the server evicted it.
    preparing: bool,
    /// Current step of an operation of several statements, and when it was sent.
    step: usize,
    step_start: Option<Instant>,
}

impl Pipeline {
    /// Creates a pipeline of up to `slots` requests in flight.
    pub fn new(connection: Connection, requests: Requests, slots: usize) -> Self {
        let slots = slots.clamp(1, i16::MAX as usize);
        Self {
            connection,
            requests,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            free: (0..slots).rev().collect(),
        }
    }

    /// Runs all operations of a worker. A broken connection fails what is in flight and ends the
    /// phase.
    ///
    /// Each turn fills the free slots, sends their requests together and then handles all responses
    /// that have arrived, so that the client needs few system calls.
    pub fn work(&mut self, worker: &mut Worker) {
        if let Err(error) = self.turn_until_done(worker) {
            let error = format!("{}: {error}", self.connection.contact());
            let message = format!("connection lost: {error}");
            for slot in &mut self.slots {
                if let Some(task) = slot.task.take() {
                    if let Some(key) = task.operation.new_key() {
                        worker.stream.acknowledge(key);
                    }
                    worker.fail(Failure::new("connection lost", &error));
                }
            }
            worker.stop(message);
        }
    }

    fn turn_until_done(&mut self, worker: &mut Worker) -> io::Result<()> {
        let mut values = FieldValues::default();
        let mut rows = RowSink::new(worker.stream.value_rule());
        let mut started = Vec::with_capacity(self.slots.len());
        // The next operation of an open loop, until its time comes.
        let mut planned: Option<Task> = None;
        let mut now = Instant::now();
        loop {
            while let Some(&index) = self.free.last() {
                let Some(task) = planned.take().or_else(|| worker.next_task(now)) else { break };
                if task.intended.is_some_and(|due| due > now) {
                    planned = Some(task);
                    break;
                }
                self.free.pop();
                self.begin(index, task, worker, &mut values);
                started.push(index);
            }
            // Requests are sent together and start when they are sent; generating their values does
            // not count.
            let start = Instant::now();
            started.drain(..).for_each(|index| self.slots[index].start = Some(start));

            let due = planned.as_ref().filter(|_| !self.free.is_empty()).and_then(|task| task.intended);
            if self.free.len() == self.slots.len() {
                match due {
                    None => return Ok(()),
                    Some(due) => worker.wait_until(due),
                }
                now = Instant::now();
                continue;
            }
            self.connection.exchange(due)?;
            now = Instant::now();
            while let Some(envelope) = self.connection.next_envelope()? {
                // No events were registered, but -1 is their stream.
                let index =
                    usize::try_from(envelope.header.stream).ok().filter(|index| *index < self.slots.len());
                let Some(index) = index.filter(|index| self.slots[*index].task.is_some()) else {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("response on stream {}, which has no request", envelope.header.stream),
                    ));
                };
                self.complete(index, &envelope, now, worker, &mut rows, &mut values);
            }
        }
    }

    /// Encodes the request of `task`, or its first one.
    fn begin(&mut self, index: usize, task: Task, worker: &mut Worker, values: &mut FieldValues) {
        let slot = &mut self.slots[index];
        worker.stream.write_key(task.operation.key(), &mut slot.key);
        let (encoder, stream, key) = (self.connection.encoder(), index as i16, slot.key.as_str());
        match task.operation {
            Operation::Insert { .. } => {
                worker.stream.write_values(key, None, values);
                self.requests.insert(encoder, stream, key, values);
            }
            Operation::Update { field, .. } => {
                worker.stream.write_values(key, field, values);
                self.requests.update(encoder, stream, key, values);
            }
            Operation::Read { field, .. } | Operation::ReadModifyWrite { read: field, .. } => {
                self.requests.read(encoder, stream, key, field);
            }
            Operation::Scan { length, field, .. } => {
                self.requests.scan(encoder, stream, key, length, field);
            }
            Operation::Statements { operation, key, random, .. } => {
                if let Some(workload) = worker.stream.statement_workload() {
                    slot.step = workload.steps_of(operation).start;
                    workload.bind(slot.step, key, random, values);
                }
                slot.step_start = None;
                self.requests.statement(encoder, stream, slot.step, values);
            }
        }
        slot.task = Some(task);
        slot.read_end = None;
        slot.preparing = false;
    }

    /// Handles the response to the request in slot `index`, received at `end`.
    ///
    /// Every path either sends another request of the operation, or ends the operation.
    fn complete(
        &mut self,
        index: usize,
        envelope: &Envelope,
        end: Instant,
        worker: &mut Worker,
        rows: &mut RowSink,
        values: &mut FieldValues,
    ) {
        let slot = &mut self.slots[index];
        let Some(task) = slot.task else { return };
        let outcome = take_answer(envelope, &task.operation, rows);
        if let Err(Refused::Unprepared(id)) = &outcome
            && !slot.preparing
            && self.requests.prepare_again(self.connection.encoder(), index as i16, id)
        {
            slot.preparing = true;
            return;
        }
        if let Err(Refused::Prepared(id)) = &outcome
            && slot.preparing
            && self.requests.knows(id)
        {
            self.send_again(index, task, worker, values);
            return;
        }
        let outcome = outcome.map_err(Refused::into_failure);
        if let Operation::Statements { operation, .. } = task.operation
            && let Some(workload) = worker.stream.statement_workload().cloned()
        {
            let step = slot.step;
            let outcome = outcome.and_then(|()| workload.check(step, rows));
            if outcome.is_ok() {
                let start = slot.step_start.or(slot.start).unwrap_or(end);
                record_rows(worker, rows);
                if let Some(kind) = workload.kind_of_step(operation, step) {
                    worker.recorder.part(OperationKind::Named(kind), Timing { intended: None, start, end });
                }
                if step + 1 < workload.steps_of(operation).end {
                    slot.step += 1;
                    slot.step_start = Some(end);
                    self.send_step(index, task.operation, worker, values);
                    return;
                }
            }
            return self.end(index, task, outcome, end, worker);
        }
        let Some(read_end) = slot.read_end else {
            let outcome = outcome.and_then(|()| check_rows(&task.operation, &slot.key, rows));
            if outcome.is_ok() {
                record_rows(worker, rows);
                if let Operation::ReadModifyWrite { written, .. } = task.operation {
                    slot.read_end = Some(end);
                    self.send_update(index, written, worker, values);
                    return;
                }
            }
            return self.end(index, task, outcome, end, worker);
        };
        if outcome.is_ok() {
            let (intended, start) = (task.intended, slot.start.unwrap_or(end));
            worker.recorder.part(OperationKind::Read, Timing { intended, start, end: read_end });
            let update = Timing { intended: intended.map(|_| read_end), start: read_end, end };
            worker.recorder.part(OperationKind::Update, update);
        }
        self.end(index, task, outcome, end, worker);
    }

    /// Records an operation that ended, and frees its slot.
    fn end(
        &mut self,
        index: usize,
        task: Task,
        outcome: Result<(), Failure>,
        end: Instant,
        worker: &mut Worker,
    ) {
        let Task { operation, intended } = task;
        let slot = &mut self.slots[index];
        let start = slot.start.unwrap_or(end);
        slot.task = None;
        self.free.push(index);
        if let Some(key) = operation.new_key() {
            worker.stream.acknowledge(key);
        }
        match outcome {
            Err(failure) => worker.fail(failure),
            Ok(()) => worker.recorder.operation(operation.kind(), Timing { intended, start, end }),
        }
    }

    /// Sends the current request of an operation again, because its statement was prepared again.
    /// The operation's latency counts from its first start.
    fn send_again(&mut self, index: usize, task: Task, worker: &mut Worker, values: &mut FieldValues) {
        let slot = &self.slots[index];
        let start = slot.start;
        match (task.operation, slot.read_end) {
            (Operation::Statements { .. }, _) => self.send_step(index, task.operation, worker, values),
            (Operation::ReadModifyWrite { written, .. }, Some(_)) => {
                self.send_update(index, written, worker, values);
            }
            _ => {
                self.begin(index, task, worker, values);
                self.slots[index].start = start;
            }
        }
    }

    /// Encodes the update of the read-modify-write in slot `index`.
    fn send_update(
        &mut self,
        index: usize,
        written: Option<usize>,
        worker: &mut Worker,
        values: &mut FieldValues,
    ) {
        let slot = &mut self.slots[index];
        slot.preparing = false;
        worker.stream.write_values(&slot.key, written, values);
        self.requests.update(self.connection.encoder(), index as i16, &slot.key, values);
    }

    /// Encodes the request of the current step of the operation in slot `index`.
    fn send_step(&mut self, index: usize, operation: Operation, worker: &Worker, values: &mut FieldValues) {
        let slot = &mut self.slots[index];
        slot.preparing = false;
        if let Operation::Statements { key, random, .. } = operation
            && let Some(workload) = worker.stream.statement_workload()
        {
            workload.bind(slot.step, key, random, values);
            self.requests.statement(self.connection.encoder(), index as i16, slot.step, values);
        }
    }
}

fn record_rows(worker: &mut Worker, rows: &RowSink) {
    worker.recorder.rows += rows.rows();
    worker.recorder.bytes += rows.bytes();
}

/// Decodes the rows of a response into `rows`; an error is a failure of its class.
fn take_answer(envelope: &Envelope, operation: &Operation, rows: &mut RowSink) -> Result<(), Refused> {
    rows.clear();
    let malformed = |error| Refused::Failed(Failure::new("malformed answer", error));
    let (response, _) = Response::decode(envelope).map_err(malformed)?;
    match response {
        Response::Result(ResultMessage::Void) => Ok(()),
        Response::Result(ResultMessage::Rows(encoded)) => {
            let only = match operation {
                Operation::Read { field, .. }
                | Operation::Scan { field, .. }
                | Operation::ReadModifyWrite { read: field, .. } => *field,
                Operation::Insert { .. } | Operation::Update { .. } | Operation::Statements { .. } => None,
            };
            for mut row in &encoded.decode(None).map_err(malformed)? {
                rows.row(row.next().flatten().unwrap_or_default());
                for (index, cell) in row.enumerate() {
                    // A null is a missing field.
                    if let Some(cell) = cell {
                        rows.field(only.unwrap_or(index), cell);
                    }
                }
            }
            Ok(())
        }
        Response::Result(ResultMessage::Prepared(prepared)) => Err(Refused::Prepared(prepared.id)),
        Response::Error(Error { detail: ErrorDetail::Unprepared { id }, .. }) => Err(Refused::Unprepared(id)),
        Response::Error(error) => {
            Err(Refused::Failed(Failure::new(error_class(&error.detail), error.message)))
        }
        other => Err(Refused::Failed(Failure::new("unexpected answer", other.opcode()))),
    }
}

/// A response that does not complete its operation.
enum Refused {
    Failed(Failure),
    /// The server evicted the statement with this id.
    Unprepared(Bytes),
    /// The server prepared the statement with this id.
    Prepared(Bytes),
}

impl Refused {
    fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Unprepared(_) => {
                Failure::new("Unprepared", "the server evicts statements as soon as they are prepared")
            }
            Self::Prepared(_) => Failure::new("unexpected answer", "a statement was prepared"),
        }
    }
}
