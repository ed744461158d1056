//! Moves that follow the changes of their source.

use cassette_migration::{CutOver, Event, Move, Until, VerifyOptions};
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;

use super::random::{self, RandomTable};
use super::support::{Events, Served, WRITES, follow, job, stopped};

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
    source.database.close().unwrap();
    drop(source);
    // A start completes the segments of the last one.
    let source = Served::capturing(&data);
    let segments = || {
        let names = std::fs::read_dir(data.join("cdc_raw")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with("_cdc.idx")).count()
    };
    caught_up.from = source.place();
    let text = std::fs::read_to_string(&caught_up.progress).unwrap();
    let from = caught_up.from.name();
    let old = serde_json::from_str::<serde_json::Value>(text.lines().next().unwrap()).unwrap();
    std::fs::write(&caught_up.progress, text.replacen(old["from"].as_str().unwrap(), &from, 1)).unwrap();
    caught_up.follow = follow(&source, &data, Until::CaughtUp);
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
        let (target, directory) = (Served::start(), TempDir::new().unwrap());
        let data = directory.path().join("data");
        let source = Served::capturing(&data);
        source.execute(&format!("CREATE KEYSPACE ks WITH replication = {SIMPLE}"));
        source.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH cdc = true");
        source.execute("INSERT INTO ks.t (k, v) VALUES (1, 1)");
        let following = Move {
            follow: follow(&source, &data, Until::CaughtUp),
            ..job(source.place(), target.settings(), &directory)
        };
        following.run(&Events::default()).unwrap();
        source.execute(statement);
        let found = error(&following);
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
    let options = CutOver { target: target.address.clone(), pause_max: std::time::Duration::from_secs(60) };
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
