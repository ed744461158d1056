//! What the node did in the last 24 hours, recorded every second in ring buffers of limited size.
//!
//! A rate is the number of events that ended in an interval, divided by the time that the interval
//! covers; a percentile is that of the requests that ended in it. All that shows history uses these
//! definitions.

mod file;
mod latencies;
mod recorder;
mod report;
mod series;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cassette_database::{Database, ServerMetrics};
use cassette_vfs::FileSystem;
use parking_lot::{Condvar, Mutex};

use self::recorder::Recorder;
use self::series::{Series, Shape};
pub(super) use report::Asked;

/// How often the node is sampled.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often the file is written, and tables and files are sampled, in samples.
const SAVE_EVERY: u64 = 60;
const TABLES_EVERY: u64 = 10;

/// The maximum number of tables with a history.
const TABLES_MAX: usize = 16;

/// Of the node: 15 minutes of seconds, 3 hours of 10 seconds, 24 hours of minutes, and a little
/// more, so that clients whose clock differs get these.
const NODE: Shape = Shape {
    counts: &[
        "failures",
        "writes_stalled",
        "exceptions",
        "cpu_micros",
        "flushes",
        "bytes_flushed",
        "compactions",
        "bytes_compacted",
        "chunk_cache_hits",
        "chunk_cache_misses",
    ],
    levels: &[
        "clients",
        "memory_bytes",
        "memtable_bytes",
        "commit_log_bytes",
        "disk_bytes",
        "disk_available_bytes",
        "sstables",
        "pending_compactions",
        "active_compactions",
        "waiting_requests",
    ],
    latencies: &["Read", "RangeSlice", "Write", "CASRead", "CASWrite", "commit_log_sync"],
    resolutions: &[(1, 960), (10, 1140), (60, 1500)],
};

/// Of a table: 30 minutes of 10 seconds, 24 hours of minutes; only while it is used.
const TABLE: Shape = Shape {
    counts: &[],
    levels: &["disk_bytes", "sstables", "pending_compactions"],
    latencies: &["read", "scan", "write"],
    resolutions: &[(10, 190), (60, 1500)],
};

fn shape_of(name: &str) -> &'static Shape {
    if name.is_empty() { &NODE } else { &TABLE }
}

/// The recorded history. Shared by the thread that records and requests that read.
#[derive(Debug)]
struct Recorded {
    node: Series,
    /// By keyspace and table, separated by a dot.
    tables: Vec<(String, Series)>,
}

/// The history of a running server. Dropped, it stops recording.
pub struct History {
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    recorded: Mutex<Recorded>,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
    file: Option<(Arc<dyn FileSystem>, PathBuf)>,
}

impl History {
    /// Reads the history from a file, which is replaced every minute and at the end, and starts to
    /// record. Without a file, the history is lost at the end.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        database: Database,
        server: Arc<dyn ServerMetrics>,
        file: Option<(Arc<dyn FileSystem>, PathBuf)>,
    ) -> std::io::Result<Self> {
        let recorded = Mutex::new(read(file.as_ref()));
        let (is_stopped, stopped) = (Mutex::new(false), Condvar::new());
        let shared = Arc::new(Shared { recorded, is_stopped, stopped, file });
        let recorder = Recorder::new(database, server);
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || of_thread.record(recorder))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Records the last interval, writes the file, and stops.
    pub fn stop(&self) {
        *self.shared.is_stopped.lock() = true;
        self.shared.stopped.notify_all();
        let thread = self.thread.lock().take();
        if let Some(Err(_)) = thread.map(std::thread::JoinHandle::join) {
            tracing::error!("recording the history of metrics panicked");
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Records until the history is dropped.
    fn record(&self, mut recorder: Recorder) {
        let mut next = Instant::now() + INTERVAL;
        for number in 1u64.. {
            let mut is_stopped = self.is_stopped.lock();
            let mut is_due = false;
            while !*is_stopped && !is_due {
                is_due = self.stopped.wait_until(&mut is_stopped, next).timed_out();
            }
            let ends = *is_stopped;
            drop(is_stopped);
            let now = seconds_since_1970();
            let point = recorder.node(now);
            // Tables are many: they are sampled less often, and before the lock is taken.
            let tables = (ends || number.is_multiple_of(TABLES_EVERY)).then(|| recorder.tables(now));
            let mut recorded = self.recorded.lock();
            recorded.node.push(&point);
            recorded.push_tables(tables.unwrap_or_default());
            drop(recorded);
            if ends || number.is_multiple_of(SAVE_EVERY) {
                self.save();
            }
            if ends {
                return;
            }
            // After a pause of the machine, samples are not made up for.
            next = (next + INTERVAL).max(Instant::now());
        }
    }

    fn save(&self) {
        let Some((fs, path)) = &self.file else { return };
        let recorded = self.recorded.lock();
        let node = (String::new(), recorded.node.clone());
        let all: Vec<_> = std::iter::once(node).chain(recorded.tables.iter().cloned()).collect();
        drop(recorded);
        if let Err(error) = file::write(&**fs, path, &all, shape_of) {
            tracing::warn!(%error, "cannot write the history of metrics to {}", path.display());
        }
    }
}

impl Recorded {
    /// Adds points of tables. A table without a history gets that of one that was not used for the
    /// longest time, if it was not used now.
    fn push_tables(&mut self, points: Vec<(String, series::Point)>) {
        for (name, point) in points {
            let known = self.tables.iter().position(|(known, _)| *known == name);
            let place = known.or_else(|| {
                if self.tables.len() < TABLES_MAX {
                    self.tables.push((name.clone(), Series::new(&TABLE)));
                    return Some(self.tables.len() - 1);
                }
                let newest = |place: &usize| self.tables[*place].1.newest();
                let oldest = (0..self.tables.len()).min_by_key(newest)?;
                (newest(&oldest) + BUSY_SECONDS < point.end).then(|| {
                    self.tables[oldest] = (name.clone(), Series::new(&TABLE));
                    oldest
                })
            });
            if let Some(place) = place {
                self.tables[place].1.push(&point);
            }
        }
    }
}

/// A table keeps its history for this long after its last use, also if others have none.
const BUSY_SECONDS: u64 = 600;

/// Reads the history from the file.
fn read(file: Option<&(Arc<dyn FileSystem>, PathBuf)>) -> Recorded {
    let mut recorded = Recorded { node: Series::new(&NODE), tables: Vec::new() };
    let Some((fs, path)) = file else { return recorded };
    let now = seconds_since_1970();
    match file::read(&**fs, path, shape_of) {
        Ok(all) => {
            for (name, mut series) in all {
                series.remove_after(now);
                if name.is_empty() {
                    recorded.node = series;
                } else if recorded.tables.len() < TABLES_MAX {
                    recorded.tables.push((name, series));
                }
            }
        }
        Err(reason) => {
            tracing::warn!("the history of metrics in {} is not used: {reason}", path.display());
        }
    }
    recorded
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
