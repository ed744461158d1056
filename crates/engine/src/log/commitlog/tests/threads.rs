use std::thread;

use super::*;

const WRITERS: u64 = 4;

/// Appends from many threads; returns the acknowledged records, with (writer, number) as contents.
fn write(log: &CommitLog, records: u64) -> Vec<(Position, Vec<u8>)> {
    let acknowledged = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    for number in 0..records {
                        let mut content = writer.to_be_bytes().to_vec();
                        content.extend(number.to_be_bytes());
                        content.resize(16 + (number % 200) as usize, writer as u8);
                        match log.append(&record(&[u128::from(writer)], &content)) {
                            Ok(position) => acknowledged.push((position, content)),
                            Err(_) => break,
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    let mut acknowledged = acknowledged;
    acknowledged.sort();
    acknowledged
}

fn with_threads(sync: SyncMode) -> CommitLogOptions {
    CommitLogOptions { threads: true, segment_size: 16 << 10, ..options(sync) }
}

fn found(opened: &Opened) -> Vec<(Position, Vec<u8>)> {
    opened.records.iter().map(|record| (record.position, record.content.clone())).collect()
}

#[test]
fn what_many_threads_append_replays_once_each_where_it_was_acknowledged() {
    let window = Duration::from_millis(1);
    for sync in [PERIODIC, SyncMode::Batch, SyncMode::Group { window }, SyncMode::Periodic { period: window }]
    {
        let fs = FakeFileSystem::new();
        let log = try_open(&fs, with_threads(sync)).unwrap().log;
        let acknowledged = write(&log, 300);
        assert_eq!(acknowledged.len(), 300 * WRITERS as usize);
        let killed = fs.kill();
        drop(log);
        assert_eq!(found(&try_open(&killed, with_threads(sync)).unwrap()), acknowledged);
    }
}

#[test]
fn a_sync_wakes_only_those_whose_records_are_durable_and_the_one_that_syncs_next() {
    for sync in [SyncMode::Batch, SyncMode::Group { window: Duration::from_millis(1) }] {
        let fs = FakeFileSystem::new();
        let log = try_open(&fs, with_threads(sync)).unwrap().log;
        let records = write(&log, 300).len() as u64;
        let syncs = log.sync_latency().count();
        let woken = log.woken();
        assert!(woken <= records + syncs, "{sync:?}: {woken} for {records} records and {syncs} syncs");
    }
}

#[test]
fn a_crash_under_concurrent_appends_loses_nothing_that_a_sync_acknowledged() {
    for sync in [SyncMode::Batch, SyncMode::Group { window: Duration::from_millis(1) }] {
        for seed in 0..20 {
            let fs = FakeFileSystem::new();
            let log = try_open(&fs, with_threads(sync)).unwrap().log;
            fs.fail_from(fs.operations() + 20 + seed * 17);
            let acknowledged = write(&log, 400);
            let survivor = fs.crash(seed);
            drop(log);
            let found = found(&try_open(&survivor, with_threads(sync)).unwrap());
            for record in &acknowledged {
                assert!(found.binary_search(record).is_ok(), "seed {seed}: {:?} is missing", record.0);
            }
        }
    }
}

#[test]
fn threads_that_meet_a_full_disk_get_clear_answers_and_go_on_when_there_is_space() {
    let fs = FakeFileSystem::new();
    let log = try_open(&fs, with_threads(PERIODIC)).unwrap().log;
    fs.set_capacity(4 * (16 << 10));
    let mut acknowledged = write(&log, 1000);
    assert!(acknowledged.len() < 1000 * WRITERS as usize);
    fs.set_capacity(u64::MAX);
    acknowledged.extend(write(&log, 50));
    let killed = fs.kill();
    drop(log);
    assert_eq!(found(&try_open(&killed, with_threads(PERIODIC)).unwrap()), acknowledged);
}

#[test]
fn a_sync_that_was_asked_for_comes_before_it_is_due() {
    let fs = FakeFileSystem::new();
    let sync = SyncMode::Periodic { period: Duration::from_secs(3600) };
    let log = try_open(&fs, with_threads(sync)).unwrap().log;
    let acknowledged = write(&log, 200);
    let end = log.position();
    log.begin_sync();
    let began = std::time::Instant::now();
    while log.stats().synced < end {
        assert!(began.elapsed() < Duration::from_secs(120), "not synced");
        thread::sleep(Duration::from_millis(1));
    }
    let survivor = fs.crash(1);
    drop(log);
    assert_eq!(found(&try_open(&survivor, with_threads(sync)).unwrap()), acknowledged);
}

#[test]
fn segments_are_let_go_while_threads_append() {
    let fs = FakeFileSystem::new();
    let log = try_open(&fs, with_threads(PERIODIC)).unwrap().log;
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&log, 1000).len());
        while !writing.is_finished() {
            let upto = log.position();
            (0..u128::from(WRITERS)).for_each(|table| log.mark_clean(table, Position::ZERO, upto));
        }
        assert_eq!(writing.join().unwrap(), 1000 * WRITERS as usize);
    });
    let upto = log.position();
    (0..u128::from(WRITERS)).for_each(|table| log.mark_clean(table, Position::ZERO, upto));
    let began = std::time::Instant::now();
    while log.stats().segments > 1 {
        assert!(began.elapsed() < Duration::from_secs(120), "segments stay");
        thread::sleep(Duration::from_millis(1));
    }
    log.close().unwrap();
    assert_eq!(files(&fs), Vec::<String>::new());
}

#[test]
fn the_real_file_system_gives_back_what_was_appended() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("commitlog");
    let options = CommitLogOptions { segment_size: 1 << 20, ..CommitLogOptions::default() };
    let open = |replayed: &mut Vec<(Position, Vec<u8>)>| {
        let clock = Arc::new(cassette_vfs::SystemClock::new());
        let mut handler = |entry: Entry<'_>| {
            if let Entry::Record { position, content, .. } = entry {
                replayed.push((position, content.to_vec()));
            }
            Ok(())
        };
        let fs = Arc::new(cassette_vfs::RealFileSystem);
        CommitLog::open(fs, clock, &directory, options.clone(), &mut handler).unwrap().0
    };
    let log = open(&mut Vec::new());
    let mut acknowledged = write(&log, 3000);
    drop(log);
    let mut replayed = Vec::new();
    let log = open(&mut replayed);
    assert_eq!(replayed, acknowledged);
    acknowledged.extend(write(&log, 10));
    log.close().unwrap();
    let mut replayed = Vec::new();
    let log = open(&mut replayed);
    assert_eq!(replayed, acknowledged);
    (0..u128::from(WRITERS)).for_each(|table| log.mark_clean(table, Position::ZERO, log.position()));
    log.close().unwrap();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_segment_that_follows_large_records_is_populated_and_others_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("commitlog");
    let open = |sync: SyncMode, replayed: &mut Vec<Vec<u8>>| {
        let options = CommitLogOptions { segment_size: 64 << 10, sync, ..CommitLogOptions::default() };
        let clock = Arc::new(cassette_vfs::SystemClock::new());
        let mut handler = |entry: Entry<'_>| {
            if let Entry::Record { content, .. } = entry {
                replayed.push(content.to_vec());
            }
            Ok(())
        };
        let fs = Arc::new(cassette_vfs::RealFileSystem);
        CommitLog::open(fs, clock, &directory, options, &mut handler).unwrap().0
    };
    let append = |log: &CommitLog, byte: u8, length: usize| {
        log.await_room(length).unwrap();
        log.append(&record(&[1], &vec![byte; length])).unwrap();
    };
    let log = open(SyncMode::Batch, &mut Vec::new());
    (0..6).for_each(|byte| append(&log, byte, 30_000));
    assert_eq!(log.populated(), 0, "a sync would write it");
    drop(log);

    let log = open(PERIODIC, &mut Vec::new());
    log.await_room(30_000).unwrap();
    append(&log, 6, 3000);
    assert_eq!(log.populated(), 0, "nothing waits behind the first record, and its sync would write it");
    (7..100).for_each(|byte| append(&log, byte, 3000));
    assert_eq!(log.populated(), 0, "small records");
    (100..110).for_each(|byte| append(&log, byte, 30_000));
    assert!(log.populated() > 0);
    drop(log);
    let mut replayed = Vec::new();
    drop(open(PERIODIC, &mut replayed));
    let expected = (0..6).map(|byte| (byte, 30_000)).chain((6..100).map(|byte| (byte, 3000)));
    let expected = expected.chain((100..110).map(|byte| (byte, 30_000)));
    assert_eq!(replayed, expected.map(|(byte, length)| vec![byte; length]).collect::<Vec<_>>());
}
