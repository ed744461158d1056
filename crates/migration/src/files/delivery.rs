//! An SSTable is sent to a node, again if that fails.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cassette_sstable::SSTableReader;
use uuid::Uuid;

use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::settings::FileOptions;
use crate::streaming::outgoing::{Outgoing, SendError};
use crate::streaming::replicas::Node;
use crate::streaming::sections::Sections;
use crate::streaming::session::{Failure, SessionSettings, send};
use crate::throttle::Throttle;

const SESSIONS_PER_NODE: usize = 2;
/// Attempts that a node may fail: an orderly stop fails sessions, too.
const FAILED_MAX: u32 = 6;
/// Pause before the first repeat; it doubles up to the maximum.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often a pausing thread checks whether another one has failed.
pub const TICK: Duration = Duration::from_millis(100);

/// An SSTable, or sections of it, for a node.
pub struct Delivery<'d> {
    pub reader: &'d SSTableReader,
    pub sections: &'d Sections,
    pub is_whole: bool,
    pub node: &'d Node,
    /// The id of the table at the target, and its quoted name.
    pub table: Uuid,
    pub name: &'d str,
}

/// What all deliveries of a move share.
pub struct Deliveries<'c> {
    options: &'c FileOptions,
    /// How long a node may fail to respond.
    patience: Duration,
    observer: &'c dyn Observer,
    /// Creates the error of an SSTable that cannot be read.
    damaged: fn(&dyn Display, &SSTableReader) -> MoveError,
    throttle: Throttle,
    bytes: AtomicU64,
    stop: AtomicBool,
}

/// Returns the number of sessions with a node at the same time.
pub fn sessions_per_node(options: &FileOptions) -> usize {
    if options.sessions_per_node == 0 { SESSIONS_PER_NODE } else { options.sessions_per_node }
}

impl<'c> Deliveries<'c> {
    pub fn new(
        options: &'c FileOptions,
        patience: Duration,
        observer: &'c dyn Observer,
        damaged: fn(&dyn Display, &SSTableReader) -> MoveError,
    ) -> Self {
        let throttle = Throttle::new(options.bytes_per_second);
        let (bytes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { options, patience, observer, damaged, throttle, bytes, stop }
    }

    /// Returns the bytes sent by this run, without those of failed sessions.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends all deliveries soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether deliveries end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sends until it succeeds or the node's time is over. Returns whether the node has added the
    /// SSTable to its table, durably; `false` after [`stop`](Self::stop).
    ///
    /// # Errors
    /// If the node refuses it or does not respond for too long, or the SSTable cannot be read.
    pub fn deliver(&self, delivery: &Delivery<'_>) -> Result<bool> {
        let node = delivery.node;
        let (mut since, mut failed, mut pause) = (None, 0, PAUSE);
        loop {
            let counted = AtomicU64::new(0);
            let failure = match self.attempt(delivery, &counted)? {
                Ok(()) => return Ok(true),
                Err(failure) => failure,
            };
            self.bytes.fetch_sub(counted.into_inner(), Ordering::Relaxed);
            let reason = match failure {
                Failure::Cancelled => return Ok(false),
                Failure::Rejected(reason) => return unsuitable(reason),
                Failure::Source(error) => return Err((self.damaged)(&error, delivery.reader)),
                Failure::Lost(reason) => reason,
                Failure::Failed => {
                    failed += 1;
                    if failed == FAILED_MAX {
                        return refused(delivery);
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
            while Instant::now() < end && !self.is_stopped() {
                std::thread::sleep(TICK);
            }
            if self.is_stopped() {
                return Ok(false);
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Runs one session.
    fn attempt(
        &self,
        delivery: &Delivery<'_>,
        counted: &AtomicU64,
    ) -> Result<std::result::Result<(), Failure>> {
        let outgoing = match Outgoing::new(delivery.reader, delivery.sections, delivery.is_whole) {
            Ok(outgoing) => outgoing,
            Err(SendError::Source(error)) => return Err((self.damaged)(&error, delivery.reader)),
            Err(SendError::Network(error)) => return Err((self.damaged)(&error, delivery.reader)),
        };
        let before_piece = |length: usize| {
            self.throttle.wait(length);
            counted.fetch_add(length as u64, Ordering::Relaxed);
            self.bytes.fetch_add(length as u64, Ordering::Relaxed);
            !self.is_stopped()
        };
        let settings = SessionSettings {
            node: delivery.node.address,
            tls: self.options.tls.as_ref(),
            table: delivery.table,
            before_piece: &before_piece,
        };
        Ok(send(&outgoing, &settings))
    }
}

fn refused(delivery: &Delivery<'_>) -> Result<bool> {
    unsuitable(format!(
        "{} does not accept SSTable {} of {}: its log (system.log) has the reason, at the last stream \
         session; start the same command again when it is resolved, or use --by rows",
        delivery.node.address,
        delivery.reader.descriptor(),
        delivery.name
    ))
}
