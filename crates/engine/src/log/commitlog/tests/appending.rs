use super::*;

#[test]
fn records_replay_in_order_with_their_tables_across_segments() {
    let fs = FakeFileSystem::new();
    let Opened { log, records, .. } = open(&fs, SyncMode::Batch);
    assert_eq!(records, []);
    let mut expected = Vec::new();
    for number in 0..100_u128 {
        let record = record(&[number % 3, 100 + number % 2], &[number as u8; 90]);
        let position = log.append(&record).unwrap();
        expected.push(Replayed { position, tables: record.tables, content: record.content });
    }
    drop(log);
    let reopened = open(&fs.kill(), SyncMode::Batch);
    assert!(reopened.summary.segments > 5);
    assert_eq!(reopened.summary.torn, None);
    assert_eq!(reopened.records, expected);
}

#[test]
fn a_schema_version_is_defined_again_in_every_segment_that_uses_it() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    for schema in [1, 2, 1, 2] {
        for _ in 0..10 {
            let tables = vec![TableVersion { table: 5, schema }];
            log.append(&TestRecord { tables, content: vec![schema as u8; 200] }).unwrap();
        }
    }
    let records = open(&fs.kill(), SyncMode::Batch).records;
    assert!(records.iter().all(|record| record.tables[0].schema == u32::from(record.content[0])));
    assert_eq!(records.len(), 40);
}

#[test]
fn a_log_goes_on_behind_what_was_replayed() {
    let mut fs = FakeFileSystem::new();
    for number in 0..5 {
        let opened = open(&fs, PERIODIC);
        assert_eq!(opened.contents(), (0..number).map(|n| vec![n]).collect::<Vec<_>>());
        opened.log.append(&record(&[1], &[number])).unwrap();
        fs = fs.kill();
    }
}

/// The overhead of a record of one table: 12 bytes of framing, 1 of kind, 2 of count, 2 of index.
const OVERHEAD: usize = 17;

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_size() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    let lengths = [100, 1024, 1900, 2000, 2100, 5000, 1, 8192 - OVERHEAD, 8192 - OVERHEAD, 30];
    for (number, length) in lengths.into_iter().enumerate() {
        let position = log.append(&record(&[1], &vec![number as u8; length])).unwrap();
        let size = fs.metadata(Path::new(&files(&fs).pop().unwrap())).unwrap().len;
        // Exact, except for a sync mark that may not be needed.
        assert!(size == 2048 || size - u64::from(position.offset) < 40, "{length} bytes in {size}");
    }
    let total: u64 = files(&fs).iter().map(|file| fs.metadata(Path::new(file)).unwrap().len).sum();
    assert_eq!(log.stats().total_size, total);
    drop(log);
    let killed = fs.kill();
    let opened = open(&killed, SyncMode::Batch);
    assert_eq!(opened.records.iter().map(|record| record.content.len()).collect::<Vec<_>>(), lengths);
    opened.log.mark_clean(1, Position::ZERO, opened.log.position());
    assert_eq!((opened.log.stats().total_size, files(&killed).len()), (0, 0));
}

#[test]
fn a_record_larger_than_the_maximum_is_refused_with_the_sizes() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    log.append(&record(&[1], b"before")).unwrap();
    let error = log.append(&record(&[1], &vec![7; 8193 - OVERHEAD])).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { size: 8193, maximum: 8192 }), "{error}");
    log.append(&record(&[1], b"after")).unwrap();
    assert_eq!(files(&fs).len(), 1);
    assert_eq!(open(&fs.kill(), SyncMode::Batch).contents(), [b"before".as_slice(), b"after"]);
}

#[test]
fn dictionaries_that_fit_no_segment_get_one_of_their_size() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    log.append(&record(&[1], b"before")).unwrap();
    let many: Vec<u128> = (0..100).collect();
    log.append(&record(&many, b"many")).unwrap();
    log.append(&record(&[1], b"after")).unwrap();
    assert_eq!(open(&fs.kill(), SyncMode::Batch).contents(), [b"before".as_slice(), b"many", b"after"]);
}

#[test]
fn a_crash_at_any_operation_leaves_all_of_a_large_record_or_nothing() {
    let contents: Vec<Vec<u8>> =
        [300, 6000, 300, 1900, 4000, 300].iter().map(|length| vec![*length as u8; *length]).collect();
    for sync in [PERIODIC, SyncMode::Batch] {
        for operations in 1.. {
            let fs = FakeFileSystem::new();
            let log = open(&fs, sync).log;
            fs.fail_from(fs.operations() + operations);
            let appended = contents.iter().take_while(|content| log.append(&record(&[1], content)).is_ok());
            let acknowledged = appended.count();
            drop(log);
            let mut crashes: Vec<FakeFileSystem> = (0..8).map(|seed| fs.crash(seed)).collect();
            let killed = crashes.len();
            crashes.push(fs.kill());
            for (number, crashed) in crashes.into_iter().enumerate() {
                crashed.heal();
                let opened = open(&crashed, sync);
                assert!(contents.iter().map(Vec::as_slice).zip(opened.contents()).all(|(a, b)| a == b));
                if number == killed || sync == SyncMode::Batch {
                    assert!(opened.records.len() >= acknowledged, "{sync:?}, crash at {operations}");
                }
                opened.log.append(&record(&[1], &[1; 5000])).unwrap();
            }
            if acknowledged == contents.len() {
                break;
            }
        }
    }
}

#[test]
fn an_encoder_that_panics_leaves_no_trace() {
    struct Panicking;
    impl Record for Panicking {
        fn tables(&self) -> &[TableVersion] {
            &[TableVersion { table: 9, schema: 1 }]
        }
        fn encode_dictionary(&self, _: TableVersion, out: &mut Vec<u8>) {
            out.push(1);
        }
        fn encode(&self, out: &mut Vec<u8>) {
            out.push(2);
            panic!("on purpose");
        }
        fn size_hint(&self) -> usize {
            1
        }
    }
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    log.append(&record(&[1], b"before")).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| log.append(&Panicking)));
    assert!(panicked.is_err());
    log.append(&record(&[1], b"after")).unwrap();
    assert_eq!(open(&fs.kill(), SyncMode::Batch).contents(), [b"before".as_slice(), b"after"]);
}

#[test]
fn large_records_leave_room_for_small_ones_until_the_next_segment_is_reserved() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    assert!(!log.has_room(900), "there is no segment yet");
    log.append(&record(&[1], &[1; 900])).unwrap();
    assert!(log.has_room(800));
    assert!(!log.has_room(950), "it fits, but too little is left behind it");
    log.append(&record(&[1], &[2; 800])).unwrap();
    log.append(&record(&[1], &[3; 60])).unwrap();
    assert_eq!(log.stats().segments, 1, "a small one still fits");
}

#[test]
fn a_record_larger_than_a_segment_does_not_wait_for_one_that_is_too_small_for_it() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    assert!(log.has_room(5000), "no segment is reserved");
    log.append(&record(&[1], &[1; 5000])).unwrap();
    assert!(log.has_room(5000), "the segment is full");
    assert!(!log.has_room(900), "none of the segment is left");
    log.append(&record(&[1], &[2; 300])).unwrap();
    assert!(log.has_room(900));
    drop(log);
    assert_eq!(open(&fs.kill(), PERIODIC).contents(), [vec![1; 5000], vec![2; 300]]);
}

#[test]
fn records_of_all_sizes_from_many_threads_are_logged_while_segments_are_reserved() {
    let fs = FakeFileSystem::new();
    let log = try_open(&fs, CommitLogOptions { threads: true, ..options(PERIODIC) }).unwrap().log;
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..50 {
                    let length = [100, 1000, 1900, 3000, 7000][(usize::from(thread) + number) % 5];
                    log.await_room(length).unwrap();
                    log.append(&record(&[u128::from(thread)], &vec![number as u8; length])).unwrap();
                }
            });
        }
    });
    let opened = open(&fs.kill(), PERIODIC);
    for thread in 0..4 {
        let of_thread = opened.records.iter().filter(|record| record.tables[0].table == thread);
        assert!(
            of_thread.map(|record| record.content[0]).eq(0..50),
            "all of thread {thread}, in their order"
        );
    }
}

#[test]
fn a_large_record_does_not_wait_for_a_segment_that_cannot_be_reserved() {
    let fs = FakeFileSystem::new();
    let log = try_open(&fs, CommitLogOptions { threads: true, ..options(PERIODIC) }).unwrap().log;
    log.append(&record(&[1], &[1; 900])).unwrap();
    log.await_room(1000).unwrap();
    log.append(&record(&[1], &[2; 1000])).unwrap();
    fs.set_capacity(fs.used());
    for _ in 0..3 {
        log.await_room(1000).unwrap();
        if let Err(error) = log.append(&record(&[1], &[3; 1000])) {
            assert!(matches!(error, AppendError::Refused { .. }), "{error}");
        }
    }
    fs.set_capacity(u64::MAX);
    log.await_room(1000).unwrap();
    log.append(&record(&[1], &[4; 1000])).unwrap();
    assert!(open(&fs.kill(), PERIODIC).contents().contains(&[4; 1000].as_slice()));
}

#[test]
fn large_and_small_records_of_one_write_replay_in_their_order() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    let mut contents = Vec::new();
    for number in 0..40_usize {
        let content = vec![number as u8; [10, 500, 20, 128, 127][number % 5]];
        log.enqueue(&record(&[number as u128 % 3], &content)).unwrap();
        contents.push(content);
    }
    log.sync().unwrap();
    assert_eq!(open(&fs.crash(1), SyncMode::Batch).contents(), contents);
}

#[test]
fn positions_are_never_used_again_though_all_segments_are_gone() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    let position = log.append(&record(&[1], b"x")).unwrap();
    log.mark_clean(1, Position::ZERO, position);
    log.close().unwrap();
    assert_eq!(files(&fs), Vec::<String>::new());
    let options = CommitLogOptions { first_segment_id: position.segment + 1, ..options(SyncMode::Batch) };
    let log = try_open(&fs, options).unwrap().log;
    assert!(log.append(&record(&[1], b"y")).unwrap() > position);
}

#[test]
fn segment_ids_follow_the_clock_but_never_go_back() {
    let fs = FakeFileSystem::new();
    let clock = Arc::new(ManualClock::at_micros(5_000_000));
    let log = try_open_at(&fs, options(SyncMode::Batch), clock.clone()).unwrap().log;
    assert_eq!(log.append(&record(&[1], b"x")).unwrap().segment, 5_000);
    drop(log);
    clock.set_micros(1_000_000);
    let log = try_open_at(&fs, options(SyncMode::Batch), clock).unwrap().log;
    assert_eq!(log.append(&record(&[1], b"x")).unwrap().segment, 5_001);
}

#[test]
fn a_segment_goes_when_all_its_tables_are_clean_and_not_before() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    for _ in 0..20 {
        log.append(&record(&[1], &[1; 300])).unwrap();
    }
    let other = log.append(&record(&[2], b"holds the segment")).unwrap();
    for _ in 0..20 {
        log.append(&record(&[1], &[1; 300])).unwrap();
    }
    let upto = log.position();
    log.mark_clean(1, Position::ZERO, upto);
    assert_eq!(log.stats().segments, 2, "the one with the other table, and the active one");
    assert_eq!(log.oldest_dirty_tables(), [2]);
    assert_eq!(open(&fs.kill(), SyncMode::Batch).records[0].position.segment, other.segment);
}

#[test]
fn clean_segments_do_not_come_back_after_a_crash() {
    for seed in 0..100 {
        let fs = FakeFileSystem::new();
        let log = open(&fs, SyncMode::Batch).log;
        for _ in 0..20 {
            log.append(&record(&[1], &[1; 300])).unwrap();
        }
        let flushed = log.position();
        log.append(&record(&[1], b"later")).unwrap();
        log.mark_clean(1, Position::ZERO, flushed);
        let records = open(&fs.crash(seed), SyncMode::Batch).records;
        assert!(records.iter().all(|record| record.position.segment == flushed.segment));
    }
}

#[test]
fn replayed_segments_go_when_what_was_replayed_is_clean() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, SyncMode::Batch).log;
    for number in 0..10 {
        log.append(&record(&[number % 2], &[0; 400])).unwrap();
    }
    drop(log);
    let fs = fs.kill();
    let log = open(&fs, SyncMode::Batch).log;
    let replayed = log.position();
    assert!(log.stats().segments > 1);
    log.mark_clean(0, Position::ZERO, replayed);
    assert!(log.stats().segments > 1);
    log.forget_table(1);
    assert_eq!((log.stats().segments, files(&fs).len()), (0, 0));
}

#[test]
fn beyond_the_total_space_the_tables_in_the_oldest_segments_are_to_be_flushed() {
    let fs = FakeFileSystem::new();
    let called = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = called.clone();
    let options = CommitLogOptions {
        total_space: 4 * 2048,
        on_space_exceeded: Some(Arc::new(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        })),
        ..options(SyncMode::Batch)
    };
    let log = try_open(&fs, options).unwrap().log;
    // Four records of 400 bytes in a segment: each segment has one table.
    for number in 0..16 {
        log.append(&record(&[number / 4], &[0; 400])).unwrap();
    }
    assert_eq!(log.tables_to_flush(), Vec::<u128>::new());
    for number in 16..24 {
        log.append(&record(&[number / 4], &[0; 400])).unwrap();
    }
    assert_eq!(log.tables_to_flush(), [0, 1]);
    assert_eq!(called.load(std::sync::atomic::Ordering::SeqCst), 2);
    log.mark_clean(0, Position::ZERO, log.position());
    assert_eq!(log.tables_to_flush(), [1]);
}

#[test]
fn a_closed_log_keeps_what_is_dirty_and_takes_no_more() {
    let fs = FakeFileSystem::new();
    let log = open(&fs, PERIODIC).log;
    log.append(&record(&[1], b"dirty")).unwrap();
    log.close().unwrap();
    let opened = open(&fs.crash(1), PERIODIC);
    assert_eq!((opened.contents(), opened.summary.torn), (vec![b"dirty".as_slice()], None));
}

#[test]
fn periodic_appends_wait_for_a_sync_that_is_half_a_period_late() {
    let fs = FakeFileSystem::new();
    let clock = Arc::new(ManualClock::default());
    let log = try_open_at(&fs, options(PERIODIC), clock.clone()).unwrap().log;
    let first = log.append(&record(&[1], b"x")).unwrap();
    clock.advance(Duration::from_secs(15));
    log.append(&record(&[1], b"x")).unwrap();
    assert!(log.stats().synced < first);
    clock.advance(Duration::from_millis(1));
    let second = log.append(&record(&[1], b"x")).unwrap();
    assert_eq!(log.stats().synced, second);
}

#[test]
fn a_segment_size_out_of_bounds_is_refused() {
    let options = CommitLogOptions { segment_size: 1023, ..options(PERIODIC) };
    let error = try_open(&FakeFileSystem::new(), options).err().unwrap();
    assert!(matches!(error, OpenError::SegmentSize { segment_size: 1023 }));
}
