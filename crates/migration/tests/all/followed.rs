//! Moves that follow the changes of their source.

use std::path::{Path, PathBuf};

use cassette_database::Options;
use cassette_migration::{CutOver, Event, Move, Until, VerifyOptions};
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;

use super::random::{self, RandomTable};
use super::support::{Events, Served, WRITES, follow, follow_after, job, stopped};

const SIMPLE: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Executes random writes and deletions.
pub fn change(source: &Served, tables: &[RandomTable], seed: u64, count: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..count {
        let table = &tables[rng.random_range(0..tables.len())];
        if rng.random_range(0..3) == 0 {
            table.delete(&source.database, &mut rng);
        } else {
            table.write(&source.database, &mut rng);
        }
    }
}

fn assert_same(source: &Served, target: &Served, tables: &[RandomTable], context: &str) {
    for table in tables {
        let expected = table.content(&source.database);
        assert_eq!(table.content(&target.database), expected, "{context}, {}", table.name());
    }
}

/// Changes the source of a move that has started: a restarted one has another address.
fn continue_from(job: &mut Move, source: &Served, data: &Path) {
    job.from = source.place();
    let text = std::fs::read_to_string(&job.progress).unwrap();
    let old = serde_json::from_str::<serde_json::Value>(text.lines().next().unwrap()).unwrap();
    let text = text.replacen(old["from"].as_str().unwrap(), &job.from.name(), 1);
    std::fs::write(&job.progress, text).unwrap();
    job.follow = follow(source, data, Until::CaughtUp);
}

fn error(job: &Move) -> String {
    job.run(&Events::default()).unwrap_err().to_string()
}

#[test]
fn changes_of_all_types_and_deletions_of_all_kinds_are_followed_cell_by_cell() {
    for seed in 0..6 {
        let (target, directory) = (Served::start(), TempDir::new().unwrap());
        let data = directory.path().join("data");
        let source = Served::capturing(&data);
        let tables = random::captured(&source.database, seed, 12);
        let job = Move {
            follow: follow(&source, &data, Until::CaughtUp),
            ..job(source.place(), target.settings(), &directory)
        };
        job.run(&Events::default()).unwrap();
        // The repeated command continues with the changes since.
        for round in 0..3 {
            change(&source, &tables, seed * 10 + round, 400);
            job.run(&Events::default()).unwrap();
            assert_same(&source, &target, &tables, &format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn changes_during_the_copy_arrive_with_deletions_and_can_be_applied_again() {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let source = Served::capturing(&data);
    // CQL does not show the timestamps of rows without cells, so only those with cells are copied
    // with theirs; the timestamps here are older than the move.
    let tables = random::captured(&source.database, 77, 7).split_off(1);
    let mut rng = StdRng::seed_from_u64(1);
    (0..600).for_each(|at| tables[at % 6].write(&source.database, &mut rng));
    let stopping = Move {
        follow: follow(&source, &data, stopped()),
        ..job(source.place(), target.settings(), &directory)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = StdRng::seed_from_u64(2);
            for at in 0..600 {
                // Each later than all before: deletions from before the move are not copied, and an
                // earlier write after one of them would differ.
                let base = 1_001_000 + 1000 * i64::try_from(at).unwrap();
                let _in_execution = WRITES.read();
                tables[at % 6].write_at(base, &source.database, &mut rng);
            }
        });
        stopping.run(&Events::default()).unwrap();
    });
    let caught_up = Move { follow: follow(&source, &data, Until::CaughtUp), ..stopping };
    caught_up.run(&Events::default()).unwrap();
    assert_same(&source, &target, &tables, "after the copy");
    // A crash of the mover before it has recorded its position.
    let text = std::fs::read_to_string(&caught_up.progress).unwrap();
    let lines: String =
        text.lines().filter(|line| !line.contains("followed")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&caught_up.progress, lines).unwrap();
    caught_up.run(&Events::default()).unwrap();
    assert_same(&source, &target, &tables, "again");
    let events = Events::default();
    let verified = caught_up.verify(VerifyOptions::default(), &events).unwrap();
    assert_eq!((verified.differences, events.differences()), (0, Vec::new()));
}

#[test]
fn applied_segments_are_removed_only_on_request_and_only_when_recorded() {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let source = Served::capturing(&data);
    let tables = random::captured(&source.database, 5, 2);
    let mut caught_up = Move {
        follow: follow(&source, &data, Until::CaughtUp),
        ..job(source.place(), target.settings(), &directory)
    };
    caught_up.run(&Events::default()).unwrap();
    change(&source, &tables, 5, 200);
    // A start completes the segments of the last one.
    let source = source.restart(&data, |options| options.engine.cdc.enabled = true);
    let segments = || {
        let names = std::fs::read_dir(data.join("cdc_raw")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with("_cdc.idx")).count()
    };
    continue_from(&mut caught_up, &source, &data);
    let before = segments();
    caught_up.run(&Events::default()).unwrap();
    assert_eq!(segments(), before, "without a request, nothing is removed");
    assert!(before > 0);
    caught_up.follow.as_mut().unwrap().captured.removes = true;
    caught_up.run(&Events::default()).unwrap();
    assert!(segments() < before);
    assert_same(&source, &target, &tables, "after the restart of the source");
}

#[test]
fn tables_that_cannot_be_followed_are_refused_before_anything_is_written() {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let source = Served::capturing(&data);
    let following = Move {
        follow: follow(&source, &data, Until::CaughtUp),
        ..job(source.place(), target.settings(), &directory)
    };
    source.execute(&format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"));
    for (create, expected) in [
        ("(k int PRIMARY KEY, v int)", "ALTER TABLE ks.t WITH cdc = true"),
        ("(k int PRIMARY KEY, v counter) WITH cdc = true", "has counters"),
        ("(k int PRIMARY KEY, v list<int>) WITH cdc = true", "has a list that is not frozen, v"),
        ("(k int PRIMARY KEY, v int) WITH cdc = true AND gc_grace_seconds = 60", "gc_grace_seconds = 60"),
    ] {
        source.execute(&format!("CREATE TABLE ks.t {create}"));
        let found = error(&following);
        assert!(found.contains(expected), "{found}");
        source.execute("DROP TABLE ks.t");
    }
    source.execute("CREATE TABLE ks.t (k int PRIMARY KEY) WITH cdc = true");
    source.execute(&format!("ALTER KEYSPACE ks WITH replication = {SIMPLE} AND durable_writes = false"));
    assert!(error(&following).contains("durable_writes"));
    assert!(target.database.catalog().keyspace("ks").is_none());
}

#[test]
fn truncations_and_schema_changes_end_a_move_instead_of_being_missed() {
    for statement in [
        "TRUNCATE ks.t",
        "ALTER TABLE ks.t ADD w int",
        "DROP TABLE ks.t",
        "CREATE TABLE ks.u (k int PRIMARY KEY) WITH cdc = true",
    ] {
        let pair = Pair::new();
        pair.run();
        pair.source.execute(statement);
        let found = error(&pair.job);
        let expected = ["start again", "the tables have changed", "exists at the target with no column w"];
        assert!(expected.iter().any(|part| found.contains(part)), "{found}");
    }
}

#[test]
fn a_cut_over_that_the_source_refuses_leaves_it_serving() {
    let (target, directory) = (Served::start(), TempDir::new().unwrap());
    let data = directory.path().join("data");
    let source = Served::capturing(&data);
    source.execute(&format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"));
    source.execute(&format!("CREATE KEYSPACE other WITH replication = {SIMPLE}"));
    source.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH cdc = true");
    let pause_max = std::time::Duration::from_secs(60);
    let options = CutOver { target: target.address.clone(), pause_max, accepts_open_target: false };
    let mut cutting = Move {
        follow: follow(&source, &data, Until::CutOver(options)),
        keyspaces: vec!["ks".to_owned()],
        ..job(source.place(), target.settings(), &directory)
    };
    let found = error(&cutting);
    assert!(found.contains("keyspace other is not moved"), "{found}");
    source.execute("DROP KEYSPACE other");
    cutting.keyspaces.clear();
    let events = Events::default();
    let found = cutting.run(&events).unwrap_err().to_string();
    assert!(found.contains("the source does not forward: it is a database in this process"), "{found}");
    assert!(!events.0.lock().iter().any(|event| matches!(event, Event::CutOver { .. })));
}

/// A source with a table of one row, a target, and a move that follows the changes between them.
struct Pair {
    source: Served,
    target: Served,
    data: PathBuf,
    job: Move,
    directory: TempDir,
}

fn captures(options: &mut Options) {
    options.engine.cdc.enabled = true;
}

impl Pair {
    fn new() -> Self {
        let (target, directory) = (Served::start(), TempDir::new().unwrap());
        let data = directory.path().join("data");
        let source = Served::capturing(&data);
        source.execute(&format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"));
        source.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH cdc = true");
        source.execute("INSERT INTO ks.t (k, v) VALUES (1, 1)");
        let follow = follow(&source, &data, Until::CaughtUp);
        let job = Move { follow, ..job(source.place(), target.settings(), &directory) };
        Self { source, target, data, job, directory }
    }

    fn insert(&self, key: i32) {
        self.source.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 1)"));
    }

    /// Executes the move, which must work.
    fn run(&self) {
        self.job.run(&Events::default()).unwrap();
    }

    fn restart(mut self, set: impl FnOnce(&mut Options)) -> Self {
        self.source = self.source.restart(&self.data, set);
        self
    }

    /// Continues the move after restarts of the source, and returns its error.
    fn error(mut self) -> String {
        continue_from(&mut self.job, &self.source, &self.data);
        error(&self.job)
    }

    /// Removes the captured segments and their indexes.
    fn remove_captured(&self) {
        for entry in std::fs::read_dir(self.data.join("cdc_raw")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("CommitLog-") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
fn a_directory_with_other_captured_changes_is_refused_before_anything_is_written() {
    let (mut pair, other) = (Pair::new(), Pair::new());
    let empty = pair.directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for directory in [empty, other.data.join("cdc_raw")] {
        pair.job.follow.as_mut().unwrap().captured.directory = directory;
        let found = error(&pair.job);
        assert!(found.contains("expected its cdc_raw_directory"), "{found}");
    }
    assert!(pair.target.database.catalog().keyspace("ks").is_none());
}

#[test]
fn a_source_that_removes_captured_changes_when_space_is_short_is_refused() {
    let refused = |mut pair: Pair, is_new: bool| {
        let restarted = pair.restart(|options| {
            captures(options);
            options.engine.cdc.block_writes = false;
        });
        pair = restarted;
        if is_new {
            pair.job.from = pair.source.place();
            pair.job.follow = follow(&pair.source, &pair.data, Until::CaughtUp);
            let found = error(&pair.job);
            assert!(pair.target.database.catalog().keyspace("ks").is_none());
            found
        } else {
            pair.error()
        }
    };
    let started = Pair::new();
    started.run();
    for (pair, is_new) in [(Pair::new(), true), (started, false)] {
        let found = refused(pair, is_new);
        assert!(found.contains("cdc_block_writes: true"), "{found}");
    }
}

#[test]
fn a_copy_of_the_directory_that_lacks_the_last_changes_ends_a_move() {
    let mut pair = Pair::new();
    pair.run();
    let copy = pair.directory.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(pair.data.join("cdc_raw")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    pair.insert(2);
    pair.job.follow.as_mut().unwrap().captured.directory = copy;
    let found = error(&pair.job);
    assert!(found.contains("lacks captured changes"), "{found}");
    pair.job.follow = follow(&pair.source, &pair.data, Until::CaughtUp);
    pair.run();
    let rows = super::support::rows(&pair.target.database, "SELECT k FROM ks.t");
    assert_eq!(rows.len(), 2, "the directory itself has them");
}

#[test]
fn changes_that_were_removed_before_the_move_has_read_them_end_it() {
    for writes_later in [false, true] {
        let pair = Pair::new();
        pair.run();
        pair.insert(2);
        // A start completes the segments of the last one.
        let pair = pair.restart(captures);
        pair.remove_captured();
        if writes_later {
            pair.insert(3);
        }
        let found = pair.error();
        assert!(found.contains("were removed before") && found.contains("start again"), "{found}");
    }
}

#[test]
fn a_start_of_the_source_without_capture_ends_a_move_whatever_was_written_meanwhile() {
    let pair = Pair::new();
    pair.run();
    let pair = pair.restart(|_| {});
    pair.insert(2);
    let pair = pair.restart(captures);
    pair.insert(3);
    let found = pair.error();
    assert!(found.contains("has not captured all changes since"), "{found}");
}

#[test]
fn a_schema_change_before_the_first_point_of_the_log_is_part_of_the_move() {
    let mut pair = Pair::new();
    let create = "CREATE TABLE ks.u (k int PRIMARY KEY, v int) WITH cdc = true";
    pair.job.follow = follow_after(&pair.source, &pair.data, create);
    pair.run();
    assert!(pair.target.database.catalog().table("ks", "u").is_some());
}

#[test]
fn a_truncation_ends_a_move_that_is_only_stopped_too() {
    let mut pair = Pair::new();
    pair.run();
    pair.source.execute("TRUNCATE ks.t");
    pair.job.follow = follow(&pair.source, &pair.data, stopped());
    let found = error(&pair.job);
    assert!(found.contains("or a table truncated"), "{found}");
}
