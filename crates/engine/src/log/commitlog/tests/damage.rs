use std::path::PathBuf;

use super::*;

/// A log of a few segments after a crash, synced or not, and its records' contents.
fn killed(sync: SyncMode) -> (FakeFileSystem, Vec<Vec<u8>>) {
    let fs = FakeFileSystem::new();
    let log = open(&fs, sync).log;
    // One of them has a segment of exactly its size.
    let length = |number| if number == 12 { 5000 } else { 150 };
    let contents: Vec<Vec<u8>> = (0..20).map(|number| vec![number; length(number)]).collect();
    for content in &contents {
        log.append(&record(&[1], content)).unwrap();
    }
    (fs.kill(), contents)
}

fn len(fs: &FakeFileSystem, file: &str) -> u64 {
    fs.metadata(Path::new(file)).unwrap().len
}

#[test]
fn a_flipped_bit_before_other_records_is_an_error_that_names_file_and_offset() {
    for sync in [PERIODIC, SyncMode::Batch] {
        let (fs, _) = killed(sync);
        let first = files(&fs)[0].clone();
        fs.corrupt(Path::new(&first), 200, 1);
        let error = try_open(&fs, options(sync)).err().unwrap();
        let OpenError::Corrupt { file, offset, .. } = &error else { panic!("{error}") };
        assert_eq!(*file, PathBuf::from(&first));
        assert!(*offset > 0 && *offset <= 200);
        assert!(error.to_string().contains("Restore the file"), "{error}");
    }
}

#[test]
fn a_flipped_bit_in_synced_bytes_is_an_error_even_after_the_machine_died() {
    let (fs, _) = killed(SyncMode::Batch);
    let first = files(&fs)[0].clone();
    fs.corrupt(Path::new(&first), 200, 1);
    let error = try_open(&fs.crash(0), options(SyncMode::Batch)).err().unwrap();
    assert!(error.to_string().contains("though it had been synced"), "{error}");
}

#[test]
fn every_flipped_bit_is_noticed_or_was_in_bytes_never_used() {
    let (fs, contents) = killed(PERIODIC);
    let used: Vec<(String, u64)> = files(&fs)
        .into_iter()
        .map(|file| {
            let length = len(&fs, &file);
            (file, length)
        })
        .collect();
    for (file, length) in used {
        for offset in (0..length).step_by(7) {
            let fs = fs.fork();
            fs.corrupt(Path::new(&file), offset, 1 << (offset % 8));
            match try_open(&fs, options(PERIODIC)) {
                Err(OpenError::Corrupt { .. } | OpenError::UnknownVersion { .. }) => {}
                Err(error) => panic!("{error}"),
                // After the last record, or in it: it cannot be distinguished from a torn write.
                Ok(opened) => {
                    let found = opened.contents();
                    assert!(contents.starts_with(&found.iter().map(|c| c.to_vec()).collect::<Vec<_>>()));
                    assert!(found.len() >= contents.len() - 1);
                }
            }
        }
    }
}

#[test]
fn damage_is_skipped_when_the_policy_says_so_and_the_rest_is_replayed() {
    let (fs, contents) = killed(PERIODIC);
    let first = files(&fs)[0].clone();
    fs.corrupt(Path::new(&first), 400, 1);
    let options = CommitLogOptions { replay: ReplayPolicy::SkipDamaged, ..options(PERIODIC) };
    let opened = try_open(&fs, options).unwrap();
    assert_eq!(opened.summary.skipped, 1);
    assert_eq!(opened.records.len(), contents.len() - 1);
}

#[test]
fn a_torn_tail_is_where_replay_stops_and_the_log_goes_on_behind_it() {
    let (fs, contents) = killed(PERIODIC);
    let last = files(&fs).pop().unwrap();
    let whole = open(&fs.fork(), PERIODIC).records.pop().unwrap().position;
    // In the last record: nothing follows it.
    fs.corrupt(Path::new(&last), u64::from(whole.offset) - 20, 1);
    let opened = open(&fs, PERIODIC);
    assert_eq!(opened.contents(), contents[..19]);
    let torn = opened.summary.torn.unwrap();
    assert!(torn.position < whole && torn.segments_discarded == 0);
    opened.log.append(&record(&[1], b"after")).unwrap();
    let reopened = open(&fs.kill(), PERIODIC);
    assert_eq!(reopened.records.len(), 20);
    assert_eq!((reopened.contents()[19], reopened.summary.torn), (b"after".as_slice(), None));
}

#[test]
fn a_log_of_another_version_is_refused_by_name() {
    let (fs, _) = killed(PERIODIC);
    fs.create(Path::new("commitlog/CommitLog-8-1700000000000.log")).unwrap();
    let error = try_open(&fs, options(PERIODIC)).err().unwrap();
    assert!(matches!(error, OpenError::UnknownVersion { version: 8, .. }), "{error}");
    assert!(error.to_string().contains("CommitLog-8-1700000000000.log"));
}

#[test]
fn files_that_are_no_segments_are_left_alone() {
    let (fs, contents) = killed(PERIODIC);
    fs.create(Path::new("commitlog/README")).unwrap();
    assert_eq!(open(&fs, PERIODIC).records.len(), contents.len());
    assert!(files(&fs).contains(&"commitlog/README".to_owned()));
}

#[test]
fn a_segment_under_another_ones_name_is_refused() {
    let (fs, _) = killed(PERIODIC);
    let first = files(&fs)[0].clone();
    fs.rename(Path::new(&first), Path::new("commitlog/CommitLog-101-999.log")).unwrap();
    let error = try_open(&fs, options(PERIODIC)).err().unwrap();
    assert!(error.to_string().contains("the header is that of segment 1"), "{error}");
}

#[test]
fn an_error_of_the_one_who_replays_names_the_record_and_changes_nothing() {
    let (fs, contents) = killed(PERIODIC);
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let mut handler = |entry: Entry<'_>| match entry {
        Entry::Record { .. } => Err(HandlerError::from("no such table")),
        Entry::Dictionary { .. } => Ok(()),
    };
    let clock = Arc::new(ManualClock::default());
    let opened = CommitLog::open(shared, clock, Path::new(DIRECTORY), options(PERIODIC), &mut handler);
    let error = opened.err().unwrap();
    assert!(matches!(error, OpenError::Handler { position: Position { segment: 1, .. }, .. }), "{error}");
    assert_eq!(open(&fs, PERIODIC).records.len(), contents.len());
}
