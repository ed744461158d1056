//! Restores to points in time: a random history of statements, with backups, archiving, crashes and
//! restarts in between, is restored to random moments, and compared with the same statements
//! executed until then.

use std::path::Path;
use std::sync::Arc;

use cassette_backup::{BackupKeys, Error, Repository, RestoreOptions, Until};
use cassette_database::Session;
use cassette_vfs::FileSystem;
use cassette_vfs::encryption::Encryption;

use world::*;

mod crashes;
mod world;

/// Executes a random history, and compares restores of it. Returns the number of comparisons.
fn check_history(seed: u64) -> usize {
    let mut random = Random(seed);
    let mut world = World::new(seed.is_multiple_of(3).then(|| encryption(7)));
    world.back_up("first");
    let from = world.history.last().unwrap().0;
    for step in 0..120 {
        match random.below(30) {
            0 => world.back_up(&format!("b{step}")),
            1 | 2 => drop(world.archive().unwrap()),
            3 => drop(world.database().engine().flush(None)),
            4 => world.crash(random.below(1 << 20)),
            5 if random.below(3) == 0 => {
                world.database().close().unwrap();
                world.restart_on(world.fs.clone());
            }
            // Clean segments are removed from the log.
            6 => world.database().engine().flush(None).unwrap(),
            _ => drop(world.execute(&statement(&mut random))),
        }
    }
    world.archive().unwrap();
    let (mut compared, mut times) = (0, vec![Until::Latest]);
    for _ in 0..4 {
        let at = random.below(world.history.len() as u64) as usize;
        times.push(Until::Time(world.history[at].0 + random.below(2) as i64 * 1500));
    }
    for until in times {
        let time = match until {
            Until::Time(time) if time < from + 2 * STEP.as_micros() as i64 => continue,
            Until::Time(time) => time,
            Until::Latest => i64::MAX,
        };
        let (restored, _) = world.restore(until, RestoreOptions::default()).unwrap();
        assert_eq!(content(&restored), world.expected(time), "seed {seed}, until {until:?}");
        compared += 1;
    }
    compared
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let from = number("CASSETTE_BACKUP_SEED").unwrap_or(0);
    from..from + number("CASSETTE_BACKUP_SEEDS").unwrap_or(8)
}

#[test]
fn a_restore_has_exactly_what_was_acknowledged_until_the_chosen_moment() {
    let compared: usize = seeds().map(check_history).sum();
    assert!(compared > 0);
}

fn with_rows(encryption: Option<Arc<dyn Encryption>>) -> World {
    let mut world = World::new(encryption);
    world.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)").unwrap();
    world.back_up("first");
    for k in 0..200 {
        world.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k})")).unwrap();
    }
    world
}

fn count(session: &Session) -> usize {
    session.execute("SELECT k FROM ks.t", ()).unwrap().len()
}

fn failed(world: &World, until: Until) -> String {
    world.restore(until, RestoreOptions::default()).unwrap_err().to_string()
}

/// The segments in the repository, by name.
fn segments(world: &World) -> Vec<std::path::PathBuf> {
    let fs: &dyn FileSystem = &world.fs;
    let log = Path::new(ROOT).join("log");
    let chain = log.join(&fs.read_dir(&log).unwrap()[0].name);
    let entries = fs.read_dir(&chain).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".log")).map(|entry| chain.join(&entry.name)).collect()
}

fn id_of(segment: &Path) -> u64 {
    cassette_engine::commitlog::segment_id(segment.file_name().unwrap().to_str().unwrap()).unwrap()
}

#[test]
fn a_moment_that_is_not_archived_and_damaged_or_missing_segments_are_named() {
    let mut world = with_rows(None);
    assert!(failed(&world, Until::Latest).contains("nothing has been archived since the backup"));
    for k in 200..800 {
        world.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k})")).unwrap();
    }
    let archived = world.archive().unwrap();
    assert!(archived.segments > 1, "{archived}");
    let later = Until::Time(archived.until_micros + 1);
    assert!(failed(&world, later).contains("the commit log is archived until 2026-11-24T10:00:0"));
    assert!(failed(&world, Until::Time(BEGAN)).contains("expected a backup before 2026-11-24T10:00:00Z"));
    let position = world.repository().find(None).unwrap().manifest.log.unwrap();
    let mut found = segments(&world);
    found.retain(|segment| id_of(segment) >= position.segment);
    assert!(found.len() > 2, "{found:?}");
    for (at, segment) in found.iter().enumerate() {
        let original = world.fs.clone();
        world.fs = original.fork();
        world.fs.corrupt(segment, 200, 1);
        let error = world.restore(Until::Latest, RestoreOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Damaged { path, .. } if path == segment), "{error}");
        world.fs = original.fork();
        let fs: &dyn FileSystem = &world.fs;
        fs.remove_file(segment).unwrap();
        let error = world.restore(Until::Latest, RestoreOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Damaged { path, .. } if path == segment), "{error}");
        fs.remove_file(&segment.with_extension("json")).unwrap();
        let error = failed(&world, Until::Latest);
        let expected = match at {
            0 => "is missing after the backup",
            at if at + 1 == found.len() => "is missing at the end",
            _ => "is missing between",
        };
        assert!(error.contains(expected), "{error}");
        world.fs = original;
    }
}

/// Removes the last segment of the repository, with its record.
fn lose_last_segment(world: &World) {
    let last = segments(world).pop().unwrap();
    let fs: &dyn FileSystem = &world.fs;
    fs.remove_file(&last).unwrap();
    fs.remove_file(&last.with_extension("json")).unwrap();
}

#[test]
fn a_lost_segment_is_missed_also_when_archiving_continued_without_it() {
    for loses_all in [false, true] {
        let mut world = with_rows(None);
        world.archive().unwrap();
        // The database has the segments no more, and cannot archive them again.
        world.database().engine().flush(None).unwrap();
        let count = if loses_all { segments(&world).len() } else { 1 };
        (0..count).for_each(|_| lose_last_segment(&world));
        // The server starts again, and does not know what it has archived.
        world.restart_on(world.fs.fork());
        world.archive().unwrap();
        assert!(failed(&world, Until::Latest).contains("of the commit log is missing"));
        for k in 200..800 {
            world.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k})")).unwrap();
        }
        world.archive().unwrap();
        assert!(failed(&world, Until::Latest).contains("of the commit log is missing"));
        let backup = world.repository().find(None).unwrap();
        let error = world.repository().verify_log(&backup).unwrap_err();
        assert!(matches!(&error, Error::Damaged { .. }), "{error}");
        assert!(world.repository().check_until(&backup, Until::Latest).is_err());
        world.repository().verify(&backup).unwrap();
    }
}

#[test]
fn a_backup_after_all_others_were_removed_is_continued_by_the_log() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    world.repository().remove("first").unwrap();
    assert!(segments(&world).is_empty());
    world.back_up("second");
    world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
    world.archive().unwrap();
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 201);
    let backup = world.repository().find(None).unwrap();
    assert!(world.repository().verify_log(&backup).unwrap().files > 0);
}

#[test]
fn a_truncation_after_a_backup_without_a_write_in_between_is_not_undone() {
    let mut world = with_rows(None);
    world.database().engine().flush(None).unwrap();
    // The active segment is finished, so the backup names the next one.
    world.archive().unwrap();
    world.back_up("second");
    world.execute("TRUNCATE ks.t").unwrap();
    world.archive().unwrap();
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 0);
}

#[test]
fn damaged_segments_are_found_by_the_verification_of_the_log() {
    let mut world = with_rows(None);
    let backup = world.repository().find(None).unwrap();
    assert_eq!(world.repository().verify_log(&backup).unwrap().files, 0);
    world.archive().unwrap();
    let found = world.repository().verify_log(&backup).unwrap();
    assert!(found.files > 0 && found.bytes > 0);
    for segment in segments(&world).iter().filter(|segment| id_of(segment) >= position_of(&backup)) {
        let original = world.fs.clone();
        world.fs = original.fork();
        world.fs.corrupt(segment, 200, 1);
        let error = world.repository().verify_log(&backup).unwrap_err();
        assert!(matches!(&error, Error::Damaged { path, .. } if path == segment), "{error}");
        world.fs = original;
    }
}

fn position_of(backup: &cassette_backup::Backup) -> u64 {
    backup.manifest.log.as_ref().unwrap().segment
}

#[test]
fn segments_stay_while_the_directory_of_backups_has_disappeared() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
    // Its volume is not mounted any more.
    let fs: &dyn FileSystem = &world.fs.clone();
    fs.rename(Path::new(ROOT), Path::new("/elsewhere")).unwrap();
    let error = world.archive().unwrap_err().to_string();
    assert!(error.contains("found no cassette-backups.json in it; is its volume mounted?"), "{error}");
    assert!(!fs.exists(Path::new(ROOT)).unwrap());
    let location = cassette_backup::Location::plain(ROOT);
    let error = Repository::open_existing_at(Arc::new(world.fs.clone()), &location).unwrap_err().to_string();
    assert!(error.contains("is its volume mounted?"), "{error}");
    fs.rename(Path::new("/elsewhere"), Path::new(ROOT)).unwrap();
    world.archive().unwrap();
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 201);
}

#[test]
fn the_latest_backup_is_the_last_one_that_was_created_also_when_the_clock_was_set_back() {
    let mut world = with_rows(None);
    world.clock.set_micros(BEGAN - 3_600_000_000);
    world.back_up("second");
    assert_eq!(world.repository().find(None).unwrap().name, "second");
    let names: Vec<String> =
        world.repository().backups().unwrap().into_iter().map(|backup| backup.name).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn encrypted_segments_are_restored_with_their_key_only() {
    let mut world = with_rows(Some(encryption(7)));
    world.archive().unwrap();
    for (segment, text) in segments(&world).iter().zip(["without keys", "with keys"].iter().cycle()) {
        let bytes = (&world.fs as &dyn FileSystem).read(segment).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"ks.t\0"), "{text}");
    }
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 200);
    drop(restored);
    for keys in [None, Some(encryption(8))] {
        let fs = world.fs.fork();
        let options = RestoreOptions { commitlog_encryption: keys, ..RestoreOptions::default() };
        let error = restore_on(&fs, Until::Latest, &options).unwrap_err().to_string();
        assert!(error.contains("is encrypted and cannot be read"), "{error}");
        assert!(!(&fs as &dyn FileSystem).exists(Path::new("/restored")).unwrap());
    }
}

#[test]
fn a_log_that_was_not_archived_meanwhile_is_another_chain() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    (world.database, world.archiver) = (None, None);
    world.open_with(false);
    world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
    world.database().engine().flush(None).unwrap();
    world.restart_on(world.fs.clone());
    world.execute("INSERT INTO ks.t (k, v) VALUES (1001, 1)").unwrap();
    world.archive().unwrap();
    // The first chain ends before the row that was not archived.
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 200);
    let end = world.history.last().unwrap().0;
    assert!(failed(&world, Until::Time(end)).contains("the commit log is archived until"));
    drop(restored);
    world.back_up("second");
    world.execute("INSERT INTO ks.t (k, v) VALUES (1002, 1)").unwrap();
    world.archive().unwrap();
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 203);
}

#[test]
fn removing_a_backup_removes_the_segments_that_no_other_needs() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    world.back_up("second");
    world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
    world.archive().unwrap();
    let before = segments(&world).len();
    world.repository().remove("first").unwrap();
    let after = segments(&world).len();
    assert!(after < before, "{after} of {before} segments");
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 201);
    drop(restored);
    world.repository().remove("second").unwrap();
    assert!(segments(&world).is_empty());
}

#[test]
fn single_tables_are_restored_to_a_moment_and_imports_are_reported() {
    let mut world = with_rows(None);
    world.execute("CREATE TABLE ks.other (k int PRIMARY KEY)").unwrap();
    let backup = world.repository().find(Some("first")).unwrap();
    let options = RestoreOptions { names: vec!["ks.t".to_owned()], ..RestoreOptions::default() };
    world.repository().restore(&backup, world.database(), &options).unwrap();
    world.archive().unwrap();
    let (restored, report) = world.restore(Until::Latest, options.clone()).unwrap();
    assert_eq!(count(&restored.session()), 200);
    assert!(restored.catalog().table("ks", "other").is_none());
    // The backup of an empty table has no SSTables to import.
    assert!(report.warnings.is_empty(), "{report:?}");
    drop(restored);
    world.back_up("second");
    let backup = world.repository().find(Some("second")).unwrap();
    world.repository().restore(&backup, world.database(), &options).unwrap();
    world.archive().unwrap();
    let (restored, report) = world.restore(Until::Latest, options).unwrap();
    assert_eq!(count(&restored.session()), 200);
    assert!(
        report.warnings[0].starts_with("ks.t: SSTables that were imported after backup second"),
        "{report:?}"
    );
}

#[test]
fn after_a_crash_at_any_operation_of_archiving_nothing_acknowledged_is_lost() {
    let original = {
        let mut world = with_rows(None);
        world.database().engine().flush(None).unwrap();
        world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
        world
    };
    let mut failures = 0;
    for at in 1.. {
        let mut world = World {
            fs: original.fs.crash(0),
            clock: original.clock.clone(),
            encryption: None,
            database: None,
            archiver: None,
            keys: None,
            history: Vec::new(),
        };
        world.open();
        world.fs.fail_from(world.fs.operations() + at);
        let archived = world.archive();
        failures += usize::from(archived.is_err());
        // What is in the repository is the old state or the new one.
        let survivor = world.fs.crash(at);
        if archived.is_ok() {
            let (restored, _) =
                restore_on(&survivor.fork(), Until::Latest, &RestoreOptions::default()).unwrap();
            assert_eq!(count(&restored.session()), 201);
        }
        world.restart_on(survivor);
        world.archive().unwrap();
        let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
        assert_eq!(count(&restored.session()), 201, "failing from operation {at}");
        if archived.is_ok() {
            break;
        }
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn after_a_crash_at_any_operation_a_directory_restored_to_a_moment_is_complete_or_absent() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    let (mut completed, mut absent, mut at) = (0, 0, 1);
    loop {
        let fs = world.fs.fork();
        fs.fail_from(fs.operations() + at);
        let restored = restore_only(&fs, Until::Latest, &RestoreOptions::default());
        let survivor = fs.crash(at);
        let exists = survivor.metadata(Path::new("/restored")).is_ok();
        assert!(exists || restored.is_err(), "a reported restore must exist (failing from operation {at})");
        if exists {
            assert_eq!(count(&open_restored(&survivor).session()), 200);
            completed += 1;
        } else {
            let (restored, _) = restore_on(&survivor, Until::Latest, &RestoreOptions::default()).unwrap();
            assert_eq!(count(&restored.session()), 200);
            absent += 1;
        }
        if restored.is_ok() {
            break;
        }
        at += 41;
    }
    assert!(completed > 0 && absent > 20, "{completed} completed, {absent} absent");
}
