//! Drives a blocking engine: one thread per worker, one operation at a time.

use std::time::{Duration, Instant};

use crate::LabError;
use crate::engine::{Engine, Session};
use crate::recording::Timing;
use crate::results::EngineInfo;
use crate::run::worker::Task;
use crate::run::{Action, Driven, Sampler, Target, Worker, drive_together};
use crate::workload::{Failure, Operation, OperationKind, RowSink, TableShape};
use crate::ycsb::FieldValues;

/// An engine driven by threads.
#[derive(Debug)]
pub struct Threads<E>(pub E);

impl<E: Engine> Target for Threads<E> {
    fn describe(&self) -> EngineInfo {
        self.0.describe()
    }

    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError> {
        self.0.create_table(shape, replace)
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        self.0.use_table(shape)
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        self.0.act(action)
    }

    fn sampler(&self) -> Option<Sampler<'_>> {
        self.0.sampler()
    }

    fn is_embedded(&self) -> bool {
        self.0.is_embedded()
    }

    fn worker_count(&self, in_flight: usize) -> usize {
        in_flight
    }

    fn drive(&self, workers: Vec<Worker>, _in_flight: usize) -> Result<Driven, LabError> {
        let with_sessions = workers
            .into_iter()
            .map(|worker| Ok((worker, self.0.session()?)))
            .collect::<Result<Vec<_>, LabError>>()?;
        Ok(drive_together(with_sessions, |session, worker| work(session.as_mut(), worker)))
    }
}

/// Runs all operations of a worker.
///
/// Nothing but the call lies between the two readings of the clock: keys and values are generated
/// before, and results are checked after.
fn work(session: &mut dyn Session, worker: &mut Worker) {
    let mut key = String::new();
    let mut values = FieldValues::default();
    let mut rows = RowSink::new(worker.stream.value_rule());
    let mut now = Instant::now();
    while let Some(Task { operation, intended }) = worker.next_task(now) {
        worker.stream.write_key(operation.key(), &mut key);
        match operation {
            Operation::Insert { .. } => worker.stream.write_values(&key, None, &mut values),
            Operation::Update { field, .. } | Operation::ReadModifyWrite { written: field, .. } => {
                worker.stream.write_values(&key, field, &mut values);
            }
            Operation::Read { .. } | Operation::Scan { .. } | Operation::Statements { .. } => {}
        }
        rows.clear();
        if let Some(due) = intended {
            worker.wait_until(due);
        }

        let start = Instant::now();
        let mut read_end = start;
        if let Operation::Statements { .. } = operation {
            now = statements(session, worker, operation, intended, &mut values, &mut rows);
            continue;
        }
        let outcome = match operation {
            Operation::Insert { .. } => session.insert(&key, &values),
            Operation::Update { .. } => session.update(&key, &values),
            Operation::Read { field, .. } => session.read(&key, field, &mut rows),
            Operation::Scan { length, field, .. } => session.scan(&key, length as usize, field, &mut rows),
            Operation::ReadModifyWrite { read, .. } => {
                let outcome = session.read(&key, read, &mut rows);
                read_end = Instant::now();
                outcome.and_then(|()| session.update(&key, &values))
            }
            Operation::Statements { .. } => unreachable!("done above"),
        };
        let end = Instant::now();
        now = end;

        if let Some(key) = operation.new_key() {
            worker.stream.acknowledge(key);
        }
        let timing = Timing { intended, start, end };
        match outcome.and_then(|()| check_rows(&operation, &key, &mut rows)) {
            Err(failure) => worker.fail(failure),
            Ok(()) => {
                if let Operation::ReadModifyWrite { .. } = operation {
                    worker.recorder.part(OperationKind::Read, Timing { end: read_end, ..timing });
                    let update = Timing { intended: intended.map(|_| read_end), start: read_end, end };
                    worker.recorder.part(OperationKind::Update, update);
                }
                worker.recorder.operation(operation.kind(), timing);
                worker.recorder.rows += rows.rows();
                worker.recorder.bytes += rows.bytes();
            }
        }
    }
}

/// Runs an operation of statements. Returns its end. Values are generated between the steps,
/// outside of the measured time.
fn statements(
    session: &mut dyn Session,
    worker: &mut Worker,
    operation: Operation,
    intended: Option<Instant>,
    values: &mut FieldValues,
    rows: &mut RowSink,
) -> Instant {
    let Operation::Statements { operation: index, key, random, .. } = operation else {
        return Instant::now();
    };
    let Some(workload) = worker.stream.statement_workload().cloned() else { return Instant::now() };
    let mut taken = Duration::ZERO;
    let (mut first, mut end, mut outcome) = (None, Instant::now(), Ok(()));
    for step in workload.steps_of(index) {
        workload.bind(step, key, random, values);
        rows.clear();
        let start = Instant::now();
        first.get_or_insert(start);
        outcome = session.statement(step, values, rows);
        end = Instant::now();
        taken += end - start;
        outcome = outcome.and_then(|()| workload.check(step, rows));
        if outcome.is_err() {
            break;
        }
        if let Some(kind) = workload.kind_of_step(index, step) {
            worker.recorder.part(OperationKind::Named(kind), Timing { intended: None, start, end });
        }
        worker.recorder.rows += rows.rows();
        worker.recorder.bytes += rows.bytes();
    }
    if let Some(key) = operation.new_key() {
        worker.stream.acknowledge(key);
    }
    match outcome {
        Err(failure) => worker.fail(failure),
        Ok(()) => {
            let start = first.unwrap_or(end);
            worker.recorder.operation(operation.kind(), Timing { intended, start, end: start + taken });
        }
    }
    end
}

/// Checks the rows that `operation` read. Its key was acknowledged, so at least its row must exist.
pub(crate) fn check_rows(operation: &Operation, key: &str, rows: &mut RowSink) -> Result<(), Failure> {
    let (field, length) = match operation {
        Operation::Insert { .. } | Operation::Update { .. } | Operation::Statements { .. } => return Ok(()),
        Operation::Read { field, .. } | Operation::ReadModifyWrite { read: field, .. } => (*field, 1),
        Operation::Scan { field, length, .. } => (*field, u64::from(*length)),
    };
    match rows.rows() {
        0 => Err(Failure::not_found(key)),
        more if more > length => {
            Err(Failure::new("wrong data", format_args!("{more} rows from {key} on instead of {length}")))
        }
        _ => rows.verify(field),
    }
}

#[cfg(test)]
mod tests;
