//! A panic in a thread of the log ends the log; no caller waits for that thread.

use cassette_vfs::{Operation, OperationKind};

use super::*;

fn panics_when(sync: SyncMode, meant: fn(&Operation) -> bool) {
    let fs = FakeFileSystem::new();
    let clock = Arc::new(ManualClock::at_micros(1));
    let options = CommitLogOptions { threads: true, ..options(sync) };
    let mut ignore = |_: Entry<'_>| Ok(());
    let (log, _) =
        CommitLog::open(Arc::new(fs.clone()), clock, Path::new(DIRECTORY), options, &mut ignore).unwrap();
    log.append(&record(&[1], b"before")).unwrap();
    fs.fail_when(move |operation| {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        assert!(!(name.starts_with("commitlog-") && meant(operation)), "injected");
        None
    });
    // More than a segment, so that the next one is needed, and the previous one is not.
    let failed = (0..100_000).find_map(|_| match log.append(&record(&[1], &[7; 200])) {
        Ok(position) => {
            log.mark_clean(1, Position::ZERO, position);
            None
        }
        Err(error) => Some(error),
    });
    let error = failed.expect("the log goes on without its thread").to_string();
    assert!(error.contains("thread commitlog-") && error.contains("panicked"), "{error}");
    assert!(log.append(&record(&[1], b"after")).is_err());
    assert!(log.failure().is_some());
}

#[test]
fn a_panic_in_the_syncing_thread_ends_the_log_by_name() {
    let group = SyncMode::Group { window: Duration::from_millis(1) };
    panics_when(group, |operation| operation.kind == OperationKind::Sync);
    let periodic = SyncMode::Periodic { period: Duration::from_millis(1) };
    panics_when(periodic, |operation| operation.kind == OperationKind::Sync);
}

#[test]
fn a_panic_in_the_allocating_thread_ends_the_log_by_name() {
    panics_when(SyncMode::Batch, |operation| operation.kind == OperationKind::Create);
}

#[test]
fn a_panic_while_segments_are_removed_ends_the_log_by_name() {
    let group = SyncMode::Group { window: Duration::from_millis(1) };
    for sync in [SyncMode::Batch, group] {
        panics_when(sync, |operation| operation.kind == OperationKind::RemoveFile);
    }
}

/// Appends on a thread whose operations of a kind panic, and then on another one.
fn appender_panics_when(kind: OperationKind) {
    let fs = FakeFileSystem::new();
    let log = Arc::new(open(&fs, SyncMode::Batch).log);
    log.append(&record(&[1], b"before")).unwrap();
    fs.fail_when(move |operation| {
        let is_panicking = std::thread::current().name() == Some("panicking");
        assert!(!(is_panicking && operation.kind == kind), "injected");
        None
    });
    let appending = log.clone();
    let thread = std::thread::Builder::new().name("panicking".into());
    // More than a segment, so that one is created, too.
    let append = move || (0..100).try_for_each(|_| appending.append(&record(&[1], &[7; 2000])).map(drop));
    thread.spawn(append).unwrap().join().unwrap_err();
    let error = log.append(&record(&[1], b"after")).unwrap_err().to_string();
    assert!(error.contains("thread panicking panicked while"), "{error}");
}

#[test]
fn a_panic_of_an_appender_ends_the_log_for_the_others() {
    appender_panics_when(OperationKind::Write);
    appender_panics_when(OperationKind::Sync);
    appender_panics_when(OperationKind::Create);
    appender_panics_when(OperationKind::Allocate);
}
