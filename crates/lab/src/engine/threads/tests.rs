use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::recording::{LiveCounts, Recorder};
use crate::run::Control;
use crate::run::worker::{OpenLoop, WorkerLimits};
use crate::workload::stream::share_of;
use crate::workload::{KeySpace, StreamFactory};
use crate::ycsb::CoreWorkload;

/// An in-memory store that can fail or be slow.
#[derive(Default)]
struct Model {
    records: Mutex<BTreeMap<String, BTreeMap<usize, Vec<u8>>>>,
    fail_updates: bool,
    spoil_reads: bool,
    stall: Mutex<Option<Duration>>,
}

struct ModelSession<'a>(&'a Model);

impl Engine for Model {
    fn describe(&self) -> EngineInfo {
        EngineInfo::default()
    }
    fn create_table(&mut self, _: &TableShape, _: bool) -> Result<(), LabError> {
        Ok(())
    }
    fn use_table(&mut self, _: &TableShape) -> Result<(), LabError> {
        Ok(())
    }
    fn session(&self) -> Result<Box<dyn Session + '_>, LabError> {
        Ok(Box::new(ModelSession(self)))
    }
}

impl Session for ModelSession<'_> {
    fn insert(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        let fields = values.iter().map(|(field, value)| (field, value.to_vec())).collect();
        self.0.records.lock().unwrap().insert(key.into(), fields);
        Ok(())
    }
    fn update(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        if self.0.fail_updates {
            return Err(Failure::new("requested", key));
        }
        let mut records = self.0.records.lock().unwrap();
        let record = records.get_mut(key).ok_or_else(|| Failure::not_found(key))?;
        record.extend(values.iter().map(|(field, value)| (field, value.to_vec())));
        Ok(())
    }
    fn read(&mut self, key: &str, _: Option<usize>, rows: &mut RowSink) -> Result<(), Failure> {
        if let Some(stall) = self.0.stall.lock().unwrap().take() {
            std::thread::sleep(stall);
        }
        self.scan(key, 1, None, rows)
    }
    fn scan(
        &mut self,
        key: &str,
        length: usize,
        _: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure> {
        for (key, fields) in self.0.records.lock().unwrap().range(key.to_string()..).take(length) {
            rows.row(key.as_bytes());
            for (field, value) in fields {
                rows.field(*field, if self.0.spoil_reads { b"spoilt" } else { value });
            }
        }
        Ok(())
    }
}

const OPERATIONS: u64 = 2000;
const RECORDS: u64 = 200;

fn workers(factory: &StreamFactory, count: usize, operations: u64, rate: Option<f64>) -> Vec<Worker> {
    let control = Arc::new(Control::default());
    let limits = |worker| WorkerLimits {
        operations: Some(share_of(operations, count, worker)),
        time: None,
        rate: rate.map(|rate| OpenLoop {
            rate: crate::run::Rate::steady(rate),
            workers: count,
            worker,
            spin: false,
        }),
    };
    let recorder = || Recorder::new(Arc::new(LiveCounts::default()));
    (0..count)
        .map(|worker| Worker::new(factory.stream(worker), recorder(), limits(worker), Arc::clone(&control)))
        .collect()
}

fn merged(driven: &Driven) -> Recorder {
    let mut all = Recorder::new(Arc::default());
    driven.workers.iter().for_each(|worker| all.merge(&worker.recorder));
    all
}

/// Loads a model and runs workload `letter` on it with three threads.
fn load_and_run(letter: char, change: impl FnOnce(&mut Model), rate: Option<f64>) -> Recorder {
    let mut workload = CoreWorkload::core(letter).unwrap();
    for pair in [format!("recordcount={RECORDS}"), "dataintegrity=true".into()] {
        workload.set_pair(&pair).unwrap();
    }
    let mut target = Threads(Model::default());
    let load = StreamFactory::load(&workload, KeySpace::starting_at(0), 1).unwrap();
    let loaded = merged(&target.drive(workers(&load, 3, RECORDS, None), 3).unwrap());
    assert_eq!((loaded.operations, loaded.failed), (RECORDS, 0));
    assert_eq!(target.0.records.lock().unwrap().len(), RECORDS as usize);

    change(&mut target.0);
    let run = StreamFactory::run(&workload, KeySpace::starting_at(RECORDS), 1).unwrap();
    merged(&target.drive(workers(&run, 3, OPERATIONS, rate), 3).unwrap())
}

#[test]
fn every_core_workload_runs_completely_and_verified() {
    for letter in ['a', 'b', 'c', 'd', 'e', 'f'] {
        let all = load_and_run(letter, |_| {}, None);
        assert_eq!((all.operations, all.failed), (OPERATIONS, 0), "workload {letter}: {:?}", all.failures());
        let counted: u64 = all
            .latencies()
            .iter()
            .filter(|(kind, _)| letter != 'f' || **kind == OperationKind::ReadModifyWrite)
            .map(|(_, latencies)| latencies.response.len())
            .sum();
        if letter == 'f' {
            let reads = all.latencies()[&OperationKind::Read].response.len();
            let updates = all.latencies()[&OperationKind::Update].response.len();
            assert_eq!((reads, updates), (OPERATIONS, counted), "the parts count as read and update too");
        } else {
            assert_eq!(counted, OPERATIONS);
        }
        assert!(all.rows > 0 && all.bytes > 1000);
    }
}

#[test]
fn failed_operations_are_counted_without_latency() {
    let all = load_and_run('a', |model| model.fail_updates = true, None);
    assert!(!all.latencies().contains_key(&OperationKind::Update));
    assert_eq!(all.operations + all.failed, OPERATIONS);
    assert_eq!(all.failures()["requested"].count, all.failed);
    let all = load_and_run('f', |model| model.fail_updates = true, None);
    assert!(!all.latencies().contains_key(&OperationKind::ReadModifyWrite));
    assert_eq!(all.latencies()[&OperationKind::Read].response.len(), all.operations);
}

#[test]
fn wrong_data_and_missing_records_are_failures() {
    let all = load_and_run('b', |model| model.spoil_reads = true, None);
    assert_eq!(all.failures()["wrong data"].count, all.failed);
    assert!(all.failed > OPERATIONS / 2);
    let all = load_and_run('c', |model| model.records.lock().unwrap().clear(), None);
    assert_eq!((all.operations, all.failures()["not found"].count), (0, OPERATIONS));
}

#[test]
fn a_dead_engine_ends_the_phase() {
    let workload = CoreWorkload::core('c').unwrap();
    let run = StreamFactory::run(&workload, KeySpace::starting_at(1000), 1).unwrap();
    let target = Threads(Model::default());
    let all = merged(&target.drive(workers(&run, 1, 1_000_000, None), 1).unwrap());
    assert_eq!(all.failed, 1000);
}

#[test]
fn an_open_loop_counts_a_stall_in_every_delayed_operation() {
    // One of three workers stalls for 200 ms at 2000 operations per second: it is then about 133
    // operations behind.
    let stall = Duration::from_millis(200);
    let all = load_and_run('c', |model| *model.stall.lock().unwrap() = Some(stall), Some(2000.0));
    let latencies = &all.latencies()[&OperationKind::Read];
    let over = |histogram: &crate::recording::Histogram, bound: Duration| {
        histogram.len() - histogram.count_between(0, bound.as_nanos() as u64)
    };
    assert!(
        over(&latencies.response, stall / 2) > 30,
        "many operations were late by more than half the stall"
    );
    let service = latencies.service.as_ref().unwrap();
    assert!(service.max() >= stall.as_nanos() as u64);
    assert!(over(service, stall / 2) < over(&latencies.response, stall / 2));
}
