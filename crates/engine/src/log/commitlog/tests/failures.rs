use std::io::ErrorKind;

use cassette_vfs::OperationKind;

use super::*;

#[test]
fn a_failed_write_ends_the_log_with_its_cause_and_loses_nothing_acknowledged() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    log.append(&record(&[1], b"acknowledged")).unwrap();
    fs.fail_at(fs.operations() + 1);
    let first = log.append(&record(&[1], b"failed")).unwrap_err();
    let later = log.append(&record(&[1], b"later")).unwrap_err();
    assert!(matches!(first, AppendError::Failed { .. }));
    assert_eq!(first.to_string(), later.to_string());
    assert!(first.to_string().contains("Write commitlog/CommitLog-101-1.log: failed on command"), "{first}");
    assert!(log.failure().is_some());
    assert!(log.close().is_err());
    assert_eq!(open(&fs.kill(), PERIODIC).contents(), [b"acknowledged"]);
}

#[test]
fn a_failed_sync_ends_the_log_though_the_next_one_would_succeed() {
    for sync in [SyncMode::Batch, PERIODIC] {
        let fs = FakeFileSystem::new();
        let log = open(&fs, sync).log;
        log.append(&record(&[1], b"acknowledged")).unwrap();
        log.sync().unwrap();
        log.enqueue(&record(&[1], b"unsynced")).unwrap();
        let mut failed = false;
        fs.fail_when(move |operation| {
            (operation.kind == OperationKind::Sync && !std::mem::replace(&mut failed, true))
                .then_some(ErrorKind::Other)
        });
        assert!(matches!(log.sync(), Err(AppendError::Failed { .. })));
        assert!(matches!(log.append(&record(&[1], b"later")), Err(AppendError::Failed { .. })));
        assert_eq!(open(&fs.crash(0), sync).contents(), [b"acknowledged"]);
    }
}

#[test]
fn a_full_disk_refuses_records_until_there_is_space_and_loses_none_it_took() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    fs.set_capacity(3 * 2048);
    let mut taken = Vec::new();
    let refused = loop {
        let content = vec![taken.len() as u8; 300];
        match log.append(&record(&[1], &content)) {
            Ok(_) => taken.push(content),
            Err(error) => break error,
        }
    };
    let AppendError::Refused { source } = &refused else { panic!("{refused}") };
    assert_eq!(source.kind(), ErrorKind::StorageFull);
    assert!(matches!(log.append(&record(&[1], &[9; 300])), Err(AppendError::Refused { .. })));
    assert_eq!(fs.used(), 3 * 2048, "a segment that could not be reserved leaves nothing behind");
    fs.set_capacity(4 * 2048);
    taken.push(vec![77; 300]);
    log.append(&record(&[1], &[77; 300])).unwrap();
    assert_eq!(open(&fs.crash(3), SyncMode::Batch).contents(), taken);
}

#[test]
fn without_space_for_a_large_record_smaller_ones_are_accepted() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    log.append(&record(&[1], b"before")).unwrap();
    fs.set_capacity(2 * 2048 + 1000);
    let Err(AppendError::Refused { source }) = log.append(&record(&[1], &[7; 5000])) else { panic!() };
    assert_eq!(source.kind(), ErrorKind::StorageFull);
    log.append(&record(&[1], &[1; 1800])).unwrap();
    assert!(fs.used() <= 2 * 2048, "what was reserved for the large record is given back");
    fs.set_capacity(u64::MAX);
    log.append(&record(&[1], &[2; 5000])).unwrap();
    let expected = [b"before".to_vec(), vec![1; 1800], vec![2; 5000]];
    assert_eq!(open(&fs.crash(0), SyncMode::Batch).contents(), expected);
}

#[test]
fn a_write_refused_for_space_leaves_no_record_and_no_gap() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    log.append(&record(&[1], b"before")).unwrap();
    let full = |operation: &cassette_vfs::Operation| {
        (operation.kind == OperationKind::Write).then_some(ErrorKind::StorageFull)
    };
    fs.fail_when(full);
    // A group: the first record is complete in the half that a failing write leaves, and is refused
    // nevertheless.
    let small = log.enqueue(&record(&[1], b"refused")).unwrap();
    let large = log.enqueue(&record(&[1], &[7; 500])).unwrap();
    assert!(matches!(log.wait(large), Err(AppendError::Refused { .. })));
    assert!(matches!(log.wait(small), Err(AppendError::Refused { .. })));
    assert!(matches!(log.append(&record(&[1], b"refused")), Err(AppendError::Refused { .. })));
    fs.heal();
    log.append(&record(&[1], b"after")).unwrap();
    assert!(matches!(log.wait(small), Err(AppendError::Refused { .. })));
    let opened = open(&fs.kill(), PERIODIC);
    assert_eq!(opened.contents(), [b"before".as_slice(), b"after"]);
    assert_eq!(opened.summary.torn, None);
    log.append(&record(&[1], b"on the old one")).unwrap_err();
}

#[test]
fn without_space_for_a_record_appended_ahead_nothing_comes_behind_it() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    log.append_ahead(&record(&[1], b"first")).unwrap();
    log.append(&record(&[1], b"second")).unwrap();
    log.append_ahead(&record(&[1], b"third")).unwrap();
    fs.fail_when(|operation| (operation.kind == OperationKind::Write).then_some(ErrorKind::StorageFull));
    assert!(matches!(log.append(&record(&[1], b"fourth")), Err(AppendError::Refused { .. })));
    fs.heal();
    let Err(AppendError::Failed { source }) = log.append(&record(&[1], b"fifth")) else { panic!() };
    assert!(source.to_string().contains("another one was to follow"), "{source}");
    assert_eq!(open(&fs.kill(), PERIODIC).contents(), [b"first".as_slice(), b"second"]);
}

#[test]
fn records_refused_over_the_end_of_a_segment_leave_both_segments_whole() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    log.append(&record(&[1], &[1; 900])).unwrap();
    fs.fail_when(|operation| {
        let second = operation.path.to_str() != Some("commitlog/CommitLog-101-1.log");
        (operation.kind == OperationKind::Write && second).then_some(ErrorKind::StorageFull)
    });
    // The second segment cannot be created yet: its header is a write, too.
    log.enqueue(&record(&[1], &[2; 500])).unwrap();
    assert!(matches!(log.enqueue(&record(&[1], &[3; 900])), Err(AppendError::Refused { .. })));
    fs.heal();
    let third = log.enqueue(&record(&[1], &[3; 900])).unwrap();
    fs.fail_when(|operation| (operation.kind == OperationKind::Write).then_some(ErrorKind::StorageFull));
    assert!(matches!(log.wait(third), Err(AppendError::Refused { .. })));
    fs.heal();
    log.append(&record(&[1], &[4; 900])).unwrap();
    let opened = open(&fs.kill(), PERIODIC);
    assert_eq!(opened.contents(), [vec![1; 900], vec![4; 900]]);
}

#[test]
fn a_segment_that_can_neither_be_reserved_nor_cleared_away_ends_the_log() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    fs.fail_when(|operation| {
        matches!(operation.kind, OperationKind::Allocate | OperationKind::RemoveFile)
            .then_some(ErrorKind::Other)
    });
    assert!(log.append(&record(&[1], b"x")).is_err());
    fs.heal();
    assert!(matches!(log.append(&record(&[1], b"x")), Err(AppendError::Failed { .. })));
    let opened = open(&fs.kill(), SyncMode::Batch);
    assert_eq!(opened.records, []);
    opened.log.append(&record(&[1], b"y")).unwrap();
}

#[test]
fn a_clean_segment_that_cannot_be_removed_goes_the_next_time() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    for _ in 0..10 {
        log.append(&record(&[1], &[1; 300])).unwrap();
    }
    fs.fail_when(|operation| (operation.kind == OperationKind::RemoveFile).then_some(ErrorKind::Other));
    log.mark_clean(1, Position::ZERO, log.position());
    assert!(log.stats().segments > 1);
    fs.heal();
    log.mark_clean(1, Position::ZERO, log.position());
    assert_eq!(log.stats().segments, 1);
}
