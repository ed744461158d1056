//! Transfers in parallel: a few sessions with each node.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::progress::Progress;
use super::transfers::{SourceTable, TargetTable, Transfer, damaged};
use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::settings::FileOptions;
use crate::streaming::outgoing::{Outgoing, SendError};
use crate::streaming::replicas::Node;
use crate::streaming::session::{Failure, SessionSettings, send};
use crate::throttle::Throttle;

const SESSIONS_PER_NODE: usize = 2;
/// Attempts that a node may fail: an orderly stop fails sessions, too.
const FAILED_MAX: u32 = 6;
/// Pause before the first repeat; it doubles up to the maximum.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often a pausing thread checks whether another one has failed.
const TICK: Duration = Duration::from_millis(100);
/// Interval between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// What the threads share.
pub struct Pool<'p> {
    pub tables: &'p [SourceTable<'p>],
    pub targets: &'p [TargetTable],
    pub nodes: &'p [Node],
    pub transfers: &'p [Transfer],
    pub progress: &'p Progress,
    pub options: &'p FileOptions,
    pub patience: Duration,
    pub observer: &'p dyn Observer,
}

struct State<'p> {
    /// For each node.
    queues: Vec<Mutex<VecDeque<&'p Transfer>>>,
    throttle: Throttle,
    /// Bytes sent by this run, without those of failed sessions.
    bytes: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<MoveError>>,
    running: Mutex<usize>,
    ended: Condvar,
}

impl<'p> Pool<'p> {
    /// Completes all transfers that no earlier run has, and returns the bytes sent.
    ///
    /// # Errors
    /// The first error; the other threads then stop.
    pub fn run(&self) -> Result<u64> {
        let is_left = |transfer: &&Transfer| !self.progress.is_done(&transfer.key);
        let left: Vec<&Transfer> = self.transfers.iter().filter(is_left).collect();
        let total: u64 = self.transfers.iter().map(|transfer| transfer.bytes).sum();
        let bytes_left: u64 = left.iter().map(|transfer| transfer.bytes).sum();
        let (bytes_before, done_before) = (total - bytes_left, (self.transfers.len() - left.len()) as u64);
        self.observer.event(&Event::Sending {
            sstables: self.tables.iter().map(|of| of.readers.len()).sum(),
            nodes: self.nodes.len(),
            transfers: self.transfers.len() as u64,
            transfers_done: done_before,
            bytes: total,
            bytes_done: bytes_before,
        });
        let of_node = |node| left.iter().copied().filter(|transfer| transfer.node == node).collect();
        let sessions = match self.options.sessions_per_node {
            0 => SESSIONS_PER_NODE,
            specified => specified,
        };
        let state = State {
            queues: (0..self.nodes.len()).map(|node| Mutex::new(of_node(node))).collect(),
            throttle: Throttle::new(self.options.bytes_per_second),
            bytes: AtomicU64::new(0),
            done: AtomicU64::new(done_before),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            running: Mutex::new(self.nodes.len() * sessions),
            ended: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for node in (0..self.nodes.len()).flat_map(|node| std::iter::repeat_n(node, sessions)) {
                let state = &state;
                scope.spawn(move || {
                    let _end = End(state);
                    self.work(state, node);
                });
            }
            self.report(&state, total, bytes_before);
        });
        match state.failure.into_inner() {
            Some(error) => Err(error),
            None if state.stop.into_inner() => unsuitable("a thread of the move panicked"),
            None => Ok(state.bytes.into_inner()),
        }
    }

    fn work(&self, state: &State<'p>, node: usize) {
        while !state.stop.load(Ordering::Relaxed) {
            // The guard must not live as long as the transfer.
            let next = state.queues[node].lock().pop_front();
            let Some(transfer) = next else { return };
            if let Err(error) = self.deliver(state, transfer) {
                state.failure.lock().get_or_insert(error);
                state.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Repeats a transfer until it succeeds or the node's time is over.
    fn deliver(&self, state: &State<'_>, transfer: &Transfer) -> Result<()> {
        let node = &self.nodes[transfer.node];
        let (mut since, mut failed, mut pause) = (None, 0, PAUSE);
        loop {
            let counted = AtomicU64::new(0);
            let failure = match self.attempt(state, transfer, &counted)? {
                Ok(()) => return self.complete(state, transfer),
                Err(failure) => failure,
            };
            state.bytes.fetch_sub(counted.into_inner(), Ordering::Relaxed);
            let reason = match failure {
                Failure::Cancelled => return Ok(()),
                Failure::Rejected(reason) => return unsuitable(reason),
                Failure::Source(error) => return Err(damaged(&error, self.reader(transfer))),
                Failure::Lost(reason) => reason,
                Failure::Failed => {
                    failed += 1;
                    if failed == FAILED_MAX {
                        return self.refused(transfer);
                    }
                    "it failed the session".to_owned()
                }
            };
            let first = *since.get_or_insert_with(|| {
                let text = format!("{}: {reason}; trying again", node.address);
                self.observer.event(&Event::Warning { text });
                Instant::now()
            });
            if first.elapsed() > self.patience {
                return Err(MoveError::Unreachable { address: node.address.to_string(), reason });
            }
            let end = Instant::now() + pause;
            while Instant::now() < end && !state.stop.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
            }
            if state.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn reader(&self, transfer: &Transfer) -> &cassette_sstable::SSTableReader {
        &self.tables[transfer.table].readers[transfer.sstable]
    }

    /// Runs one session.
    fn attempt(
        &self,
        state: &State<'_>,
        transfer: &Transfer,
        counted: &AtomicU64,
    ) -> Result<std::result::Result<(), Failure>> {
        let outgoing = match Outgoing::new(self.reader(transfer), &transfer.sections, transfer.is_whole) {
            Ok(outgoing) => outgoing,
            Err(SendError::Source(error)) => return Err(damaged(&error, self.reader(transfer))),
            Err(SendError::Network(error)) => return Err(damaged(&error, self.reader(transfer))),
        };
        let before_piece = |length: usize| {
            state.throttle.wait(length);
            counted.fetch_add(length as u64, Ordering::Relaxed);
            state.bytes.fetch_add(length as u64, Ordering::Relaxed);
            !state.stop.load(Ordering::Relaxed)
        };
        let settings = SessionSettings {
            node: self.nodes[transfer.node].address,
            tls: self.options.tls.as_ref(),
            table: self.targets[transfer.table].id,
            before_piece: &before_piece,
        };
        Ok(send(&outgoing, &settings))
    }

    fn complete(&self, state: &State<'_>, transfer: &Transfer) -> Result<()> {
        self.progress.finish(&transfer.key)?;
        state.done.fetch_add(1, Ordering::Relaxed);
        let table = self.tables[transfer.table].table;
        self.observer.event(&Event::Sent {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            sstable: self.reader(transfer).descriptor().file_prefix().trim_end_matches('-').to_owned(),
            node: self.nodes[transfer.node].address.to_string(),
            bytes: transfer.bytes,
            partitions: transfer.sections.keys,
            whole: transfer.is_whole,
        });
        Ok(())
    }

    fn refused(&self, transfer: &Transfer) -> Result<()> {
        unsuitable(format!(
            "{} does not accept SSTable {} of {}: its log (system.log) has the reason, at the last stream \
             session; start the same command again when it is resolved, or use --by rows",
            self.nodes[transfer.node].address,
            self.reader(transfer).descriptor(),
            self.tables[transfer.table].table.quoted()
        ))
    }

    /// Reports progress until all threads have ended.
    fn report(&self, state: &State<'_>, total: u64, before: u64) {
        let start = Instant::now();
        let mut running = state.running.lock();
        while *running > 0 {
            if !state.ended.wait_for(&mut running, REPORT_PAUSE).timed_out() {
                continue;
            }
            let sent = state.bytes.load(Ordering::Relaxed);
            let rate = sent as f64 / start.elapsed().as_secs_f64();
            let left = total.saturating_sub(before + sent);
            self.observer.event(&Event::SendingProgress {
                bytes_done: before + sent,
                bytes: total,
                bytes_per_second: rate,
                transfers_done: state.done.load(Ordering::Relaxed),
                transfers: self.transfers.len() as u64,
                seconds_left: (sent > 0).then(|| left as f64 / rate),
            });
        }
    }
}

/// Counts a thread as ended, also if it panics.
struct End<'s, 'p>(&'s State<'p>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
    }
}
