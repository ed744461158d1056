//! The queue in front of the files, and the thread that writes them.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use cassette_vfs::{Clock, FileSystem};
use parking_lot::{Condvar, Mutex};

use crate::file::Kind;
use crate::options::Options;
use crate::writer::Writer;

/// The assumed size of a queued record apart from its bytes.
const RECORD_OVERHEAD: u64 = 64;

/// How often lost records are reported in the server's log.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// What happens to a record while the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The caller waits for room, if the log blocks; otherwise the record is dropped.
    Wait,
    /// The record is queued beyond the maximum, if the log blocks, because the caller must not
    /// wait; otherwise it is dropped. Such callers check [`Log::has_room`] before they execute a
    /// request, so that few records are beyond it.
    Exceed,
}

/// What happened to records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records written to files.
    pub written: u64,
    /// Records dropped because the queue was full.
    pub dropped: u64,
    /// Records that could not be written, such as to a full disk.
    pub failed: u64,
    /// Bytes of records in the queue.
    pub queued_bytes: u64,
}

/// Writes records on the thread of a log.
pub trait Output: Send {
    /// Writes records in order. Returns how many could not be written, with the first error.
    fn write(&mut self, records: &[Vec<u8>]) -> (u64, Option<io::Error>);

    /// Called after the last record.
    ///
    /// # Errors
    /// If the end could not be written.
    fn close(&mut self) -> io::Result<()>;
}

impl Output for Writer {
    fn write(&mut self, records: &[Vec<u8>]) -> (u64, Option<io::Error>) {
        Writer::write(self, records)
    }

    fn close(&mut self) -> io::Result<()> {
        Writer::close(self)
    }
}

/// A log that is being written. Dropping it writes what is queued.
pub struct Log {
    shared: Arc<Shared>,
    options: Options,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when records are queued, and at the end.
    filled: Condvar,
    /// Signalled when the queue has been emptied.
    emptied: Condvar,
    /// The weight of the queue, for checks without its lock.
    weight: AtomicU64,
    max_weight: u64,
    block: bool,
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Ends the queue with its thread, also if that panics: callers must not wait for a thread that is
/// gone.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.is_stopped = true;
        let unwritten = mem::take(&mut queue.records);
        self.0.dropped.fetch_add(unwritten.len() as u64, Ordering::Relaxed);
        queue.weight = 0;
        self.0.weight.store(0, Ordering::Relaxed);
        drop(queue);
        self.0.emptied.notify_all();
    }
}

#[derive(Default)]
struct Queue {
    records: Vec<Vec<u8>>,
    weight: u64,
    is_stopped: bool,
}

impl Log {
    /// Opens a log and starts its thread.
    ///
    /// # Errors
    /// If the directory cannot be written, or another log writes to it (`WouldBlock`).
    pub fn open(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        kind: Kind,
        options: Options,
    ) -> io::Result<Self> {
        let writer = Writer::open(fs, Arc::clone(&clock), kind, options.clone())?;
        Self::with_output(Box::new(writer), clock, kind, options)
    }

    /// Starts the thread of a log that writes elsewhere than to files.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn with_output(
        output: Box<dyn Output>,
        clock: Arc<dyn Clock>,
        kind: Kind,
        options: Options,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            weight: AtomicU64::new(0),
            max_weight: options.max_queue_weight,
            block: options.block,
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&shared);
        let name = format!("{}-log", kind.name());
        let thread = Builder::new().name(name).spawn(move || {
            let running = Running(of_thread);
            running.0.write_all(output, &*clock);
        })?;
        Ok(Self { shared, options, thread: Mutex::new(Some(thread)) })
    }

    /// Returns the options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns whether a record would neither wait nor be queued beyond the maximum. Does not lock.
    pub fn has_room(&self) -> bool {
        !self.shared.block || self.shared.weight.load(Ordering::Relaxed) < self.shared.max_weight
    }

    /// Queues a record. Returns whether it was queued; otherwise it is counted as dropped.
    pub fn push(&self, record: Vec<u8>, full: Full) -> bool {
        let shared = &self.shared;
        let weight = record.len() as u64 + RECORD_OVERHEAD;
        let mut queue = shared.queue.lock();
        // An empty queue accepts a record of any size.
        while queue.weight > 0 && queue.weight + weight > shared.max_weight && !queue.is_stopped {
            match (shared.block, full) {
                (true, Full::Wait) => shared.emptied.wait(&mut queue),
                (true, Full::Exceed) => break,
                (false, _) => {
                    shared.dropped.fetch_add(1, Ordering::Relaxed);
                    return false;
                }
            }
        }
        if queue.is_stopped {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queue.weight += weight;
        shared.weight.store(queue.weight, Ordering::Relaxed);
        queue.records.push(record);
        if queue.records.len() == 1 {
            shared.filled.notify_one();
        }
        true
    }

    /// Returns what happened to records so far.
    pub fn counts(&self) -> Counts {
        Counts {
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
            queued_bytes: self.shared.weight.load(Ordering::Relaxed),
        }
    }

    /// Writes what is queued, closes the file and ends the thread. Later records are dropped.
    pub fn stop(&self) {
        self.shared.queue.lock().is_stopped = true;
        self.shared.filled.notify_all();
        self.shared.emptied.notify_all();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of a log panicked");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Shared {
    /// The work of the thread: writes records until the log is stopped and its queue is empty.
    fn write_all(&self, mut output: Box<dyn Output>, clock: &dyn Clock) {
        let mut warned: Option<Duration> = None;
        while let Some(records) = self.next_records() {
            let (lost, error) = output.write(&records);
            self.failed.fetch_add(lost, Ordering::Relaxed);
            self.written.fetch_add(records.len() as u64 - lost, Ordering::Relaxed);
            let now = clock.monotonic();
            if let Some(error) = error
                && warned.is_none_or(|last| now.saturating_sub(last) >= WARNING_INTERVAL)
            {
                let failed = self.failed.load(Ordering::Relaxed);
                tracing::error!(%error, "cannot write to a log: {failed} of its records are lost so far");
                warned = Some(now);
            }
        }
        if let Err(error) = output.close() {
            tracing::error!(%error, "cannot close the file of a log");
        }
    }

    /// Waits for records, and removes all from the queue; `None` at the end.
    fn next_records(&self) -> Option<Vec<Vec<u8>>> {
        let mut queue = self.queue.lock();
        while queue.records.is_empty() {
            if queue.is_stopped {
                return None;
            }
            self.filled.wait(&mut queue);
        }
        let records = mem::take(&mut queue.records);
        queue.weight = 0;
        self.weight.store(0, Ordering::Relaxed);
        drop(queue);
        self.emptied.notify_all();
        Some(records)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cassette_vfs::{FakeFileSystem, ManualClock, OperationKind};

    use super::*;
    use crate::options::RollCycle;
    use crate::reader::{Damage, End, Records, clear, files};

    const DIRECTORY: &str = "/logs";

    fn options() -> Options {
        Options { max_log_size: 4 << 20, ..Options::new(DIRECTORY) }
    }

    fn open(fs: &FakeFileSystem, clock: &Arc<ManualClock>, options: Options) -> Log {
        let clock: Arc<dyn Clock> = clock.clone();
        Log::open(Arc::new(fs.clone()), clock, Kind::Audit, options).unwrap()
    }

    fn clock() -> Arc<ManualClock> {
        Arc::new(ManualClock::at_micros(1_795_443_842_076_000))
    }

    /// The records of a file, and how it ends.
    type Content = (Vec<Vec<u8>>, Result<End, Damage>);

    /// Reads all files.
    fn read(fs: &FakeFileSystem) -> Vec<Content> {
        let files = files(fs, Path::new(DIRECTORY)).unwrap();
        let read = |path: &Path| {
            let mut records = Records::open(fs, path).unwrap();
            let mut all = Vec::new();
            loop {
                match records.next_record() {
                    Ok(Some(record)) => all.push(record),
                    Ok(None) => return (all, Ok(records.end().unwrap())),
                    Err(damage) => return (all, Err(damage)),
                }
            }
        };
        files.iter().map(|file| read(&file.path)).collect()
    }

    fn wait_until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    fn numbered(number: u64) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    #[test]
    fn records_are_read_in_order_from_a_closed_file() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), options());
        for number in 0..1000 {
            assert!(log.push(numbered(number), Full::Wait));
        }
        log.stop();
        assert!(!log.push(numbered(1000), Full::Wait), "it is stopped");
        assert_eq!(log.counts(), Counts { written: 1000, dropped: 1, failed: 0, queued_bytes: 0 });
        let files = read(&fs);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].0, (0..1000).map(numbered).collect::<Vec<_>>());
        assert!(matches!(files[0].1, Ok(End::Closed)));
    }

    /// Panics at the first record.
    struct Panicking;

    impl Output for Panicking {
        fn write(&mut self, _: &[Vec<u8>]) -> (u64, Option<io::Error>) {
            panic!("the output of a test")
        }

        fn close(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn callers_do_not_wait_for_a_thread_that_panicked() {
        let options = Options { max_queue_weight: 100, block: true, ..options() };
        let log = Log::with_output(Box::new(Panicking), clock(), Kind::Audit, options).unwrap();
        let queued = (0..100).filter(|number| log.push(numbered(*number), Full::Wait)).count();
        assert!(queued < 100);
        assert!(log.has_room());
        assert!(!log.push(numbered(100), Full::Wait));
    }

    #[test]
    fn each_period_has_its_own_file() {
        let (fs, clock) = (FakeFileSystem::new(), clock());
        let log = open(&fs, &clock, Options { roll_cycle: RollCycle::Minutely, ..options() });
        for number in 0..3 {
            log.push(numbered(number), Full::Wait);
            wait_until(|| log.counts().written == number + 1);
            clock.advance(Duration::from_secs(60));
        }
        drop(log);
        let files = read(&fs);
        let records: Vec<_> = files.iter().map(|(records, _)| records.clone()).collect();
        assert_eq!(records, [[numbered(0)], [numbered(1)], [numbered(2)]]);
        assert!(files.iter().all(|(_, end)| matches!(end, Ok(End::Closed))));
    }

    #[test]
    fn the_oldest_files_are_removed_beyond_the_total_size() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), options());
        for number in 0..10_000_u64 {
            let record = [numbered(number), vec![0; 1000]].concat();
            log.push(record, Full::Wait);
        }
        drop(log);
        let listed = files(&fs, Path::new(DIRECTORY)).unwrap();
        let total: u64 = listed.iter().map(|file| file.length).sum();
        assert!(total <= 4 << 20 && total > 2 << 20, "{total}");
        assert!(listed.iter().all(|file| file.length <= 1 << 20), "{listed:?}");
        let numbers: Vec<u64> = read(&fs)
            .into_iter()
            .flat_map(|(records, _)| records)
            .map(|record| u64::from_be_bytes(record[..8].try_into().unwrap()))
            .collect();
        assert_eq!(numbers.last(), Some(&9999));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "the newest, without gaps");
    }

    #[test]
    fn a_log_continues_after_the_files_of_an_earlier_one() {
        let (fs, clock) = (FakeFileSystem::new(), clock());
        for number in 0..3 {
            open(&fs, &clock, options()).push(numbered(number), Full::Wait);
        }
        let numbers: Vec<u64> =
            files(&fs, Path::new(DIRECTORY)).unwrap().iter().map(|file| file.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        clear(&fs, Path::new(DIRECTORY), Kind::Queries).unwrap();
        assert_eq!(read(&fs).len(), 3, "those of another kind");
        clear(&fs, Path::new(DIRECTORY), Kind::Audit).unwrap();
        assert_eq!(read(&fs).len(), 0);
    }

    #[test]
    fn two_logs_do_not_write_to_one_directory() {
        let (fs, clock) = (FakeFileSystem::new(), clock());
        let _log = open(&fs, &clock, options());
        let other: Arc<dyn Clock> = clock;
        let error = Log::open(Arc::new(fs.clone()), other, Kind::Audit, options()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn every_damaged_byte_is_found() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), options());
        for number in 0..3 {
            log.push(numbered(number), Full::Wait);
        }
        drop(log);
        let file = files(&fs, Path::new(DIRECTORY)).unwrap().remove(0);
        for offset in 0..file.length {
            let damaged = fs.fork();
            damaged.corrupt(&file.path, offset, 0x10);
            let is_found = match Records::open(&damaged, &file.path) {
                Err(Damage::Header { .. }) => true,
                Err(error) => panic!("{error}"),
                Ok(_) => read(&damaged)[0].1.is_err(),
            };
            assert!(is_found, "offset {offset}");
        }
    }

    #[test]
    fn a_record_that_is_cut_off_or_taken_from_another_place_is_found() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), options());
        for number in [7, 7, 8] {
            log.push(numbered(number), Full::Wait);
        }
        drop(log);
        let file = files(&fs, Path::new(DIRECTORY)).unwrap().remove(0);
        let content = (&fs as &dyn FileSystem).read(&file.path).unwrap();
        let rewritten = |content: &[u8]| {
            let fs = fs.fork();
            (&fs as &dyn FileSystem).write_atomically(&file.path, content).unwrap();
            read(&fs).remove(0)
        };
        let (header, body) = content.split_at(crate::FILE_HEADER_LENGTH);
        let record = |number: usize| &body[number * 16..(number + 1) * 16];
        let swapped = [header, record(0), record(2), record(1)].concat();
        assert!(matches!(rewritten(&swapped).1, Err(Damage::Record { record: 1, .. })));
        let repeated = [header, record(0), record(0)].concat();
        assert!(matches!(rewritten(&repeated).1, Err(Damage::Record { record: 1, .. })));
        let cut = &content[..content.len() - 9];
        let (records, end) = rewritten(cut);
        assert_eq!(records, [numbered(7), numbered(7)]);
        assert!(matches!(end, Err(Damage::Record { record: 2, .. })));
        let open = &content[..content.len() - 8];
        assert!(matches!(rewritten(open).1, Ok(End::Open)));
    }

    #[test]
    fn records_are_dropped_and_counted_when_the_queue_of_a_log_that_does_not_block_is_full() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), Options { block: false, max_queue_weight: 1 << 20, ..options() });
        let (stopped, resume) = stop_writes(&fs);
        log.push(numbered(0), Full::Wait);
        stopped.recv().unwrap();
        let pushed = (0..20_000).filter(|number| log.push(numbered(*number), Full::Wait)).count() as u64;
        let counts = log.counts();
        assert!(counts.queued_bytes <= 1 << 20, "{counts:?}");
        assert_eq!(counts.dropped, 20_000 - pushed);
        assert!(pushed < 20_000);
        assert!(log.has_room(), "nothing waits for it");
        drop(resume);
        log.stop();
        assert_eq!(log.counts().written, pushed + 1);
    }

    #[test]
    fn a_log_that_blocks_waits_for_room_unless_the_caller_must_not_wait() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), Options { max_queue_weight: 1 << 10, ..options() });
        let (stopped, resume) = stop_writes(&fs);
        log.push(numbered(0), Full::Wait);
        stopped.recv().unwrap();
        log.push(vec![1; 960], Full::Wait);
        assert!(!log.has_room());
        assert!(log.push(numbered(2), Full::Exceed), "it does not wait");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| log.push(numbered(3), Full::Wait));
            for _ in 0..100 {
                std::thread::yield_now();
                assert!(!waiting.is_finished());
            }
            drop(resume);
            assert!(waiting.join().unwrap());
        });
        log.stop();
        assert_eq!(log.counts(), Counts { written: 4, dropped: 0, failed: 0, queued_bytes: 0 });
    }

    /// Makes the next write wait until the second value is dropped; the first receives a message
    /// when it waits.
    fn stop_writes(fs: &FakeFileSystem) -> (std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<()>) {
        let (stopped, is_stopped) = std::sync::mpsc::channel();
        let (resume, is_resumed) = std::sync::mpsc::channel::<()>();
        fs.fail_when(move |operation| {
            if operation.kind == OperationKind::Write {
                let _ = stopped.send(());
                let _ = is_resumed.recv();
            }
            None
        });
        (is_stopped, resume)
    }

    #[test]
    fn records_of_a_full_disk_are_counted_and_later_ones_are_written() {
        let fs = FakeFileSystem::new();
        let log = open(&fs, &clock(), options());
        log.push(numbered(0), Full::Wait);
        wait_until(|| log.counts().written == 1);
        fs.fail_when(|operation| {
            (operation.kind == OperationKind::Write).then_some(io::ErrorKind::StorageFull)
        });
        log.push(numbered(1), Full::Wait);
        wait_until(|| log.counts().failed == 1);
        fs.heal();
        log.push(numbered(2), Full::Wait);
        drop(log);
        let files = read(&fs);
        assert_eq!(files[0].0, [numbered(0), numbered(2)]);
        assert!(matches!(files[0].1, Ok(End::Closed)));
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error_at_the_start() {
        let fs = FakeFileSystem::new();
        fs.fail_when(|operation| {
            (operation.kind == OperationKind::Create).then_some(io::ErrorKind::StorageFull)
        });
        let error = Log::open(Arc::new(fs), clock(), Kind::Audit, options()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
