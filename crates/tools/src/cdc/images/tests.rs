//! Random histories of statements, read with images through crashes: every line has the rows that a
//! SELECT returned before and after its statement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cassette_database::{Database, Options, Session, SnapshotOptions};
use cassette_engine::commitlog::SyncMode;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableParams};
use cassette_vfs::{FakeFileSystem, ManualClock};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::super::tail_images::ImagesTail;
use super::opening::open_engine;
use super::*;

const CAPTURED: &str = "/data/cdc_raw";
const START: i64 = 1_700_000_000_000_000;

fn database(fs: &FakeFileSystem, clock: &Arc<ManualClock>) -> Database {
    let mut options = Options::new("/data");
    options.file_system = Arc::new(fs.clone());
    options.clock = clock.clone();
    options.engine.background_threads = false;
    options.engine.commitlog_sync = SyncMode::Batch;
    options.engine.commitlog_segment_size = 64 << 10;
    options.engine.cdc.enabled = true;
    options.engine.cdc.total_space = Some(100 << 20);
    Database::open(options).unwrap()
}

fn execute(session: &Session, statement: &str) {
    session.execute(statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
}

const SCHEMA: [&str; 4] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE ks.u (a int, b text)",
    "CREATE TABLE ks.t (p int, c int, d int, v text, w int, s int STATIC, se set<int> STATIC, m map<text, int>, \
     e set<int>, l list<int>, u ks.u, fu frozen<ks.u>, PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c DESC, d \
     ASC) AND cdc = true",
    "CREATE TABLE ks.n (p int, c int, n counter, sn counter STATIC, PRIMARY KEY (p, c)) WITH cdc = true",
];

/// The rows of a partition by key, and the static row.
type Partition = (Vec<(Vec<i64>, Value)>, Value);
/// The partitions of a table.
type Rows = BTreeMap<i64, Partition>;

/// Returns what a SELECT shows: the model of what images have.
fn rows(database: &Database, session: &Session, name: &str) -> Rows {
    let catalog = database.catalog();
    let table = catalog.table("ks", name).unwrap();
    let names = |columns: Vec<&str>| columns.join(", ");
    let keys: Vec<&str> = table.clustering.iter().map(|column| column.name.as_str()).collect();
    let regular = names(table.regular_columns().map(|column| column.name.as_str()).collect());
    let statics = names(table.static_columns().map(|column| column.name.as_str()).collect());
    let mut found = Rows::new();
    for p in 0..3 {
        let select = |columns: &str, distinct: &str| -> Vec<Value> {
            let query = format!("SELECT {distinct} JSON {columns} FROM ks.{name} WHERE p = {p}");
            let rows = session.execute(query.as_str(), ()).unwrap_or_else(|error| panic!("{query}: {error}"));
            rows.iter()
                .map(|row| serde_json::from_str(&row.get::<String>("[json]").unwrap()).unwrap())
                .collect()
        };
        let keys_of = |row: &Value| keys.iter().map(|key| row[*key].as_i64()).collect::<Option<Vec<_>>>();
        let all_keys = select(&names(keys.clone()), "");
        let all_rows = select(&regular, "");
        let partition = all_keys.iter().zip(all_rows);
        // A partition with a static row alone has one row without a clustering.
        let partition: Vec<_> = partition.filter_map(|(key, row)| Some((keys_of(key)?, row))).collect();
        let statics = select(&statics, "").into_iter().next().unwrap_or(Value::Null);
        let is_empty = statics.as_object().is_none_or(|columns| columns.values().all(Value::is_null));
        found.insert(p, (partition, if is_empty { Value::Null } else { statics }));
    }
    found
}

/// The tables before and after the changes of a position.
type History = BTreeMap<Position, [BTreeMap<&'static str, Rows>; 2]>;

/// Returns a random statement on `ks.t` for row (p, c, d).
fn statement(random: &mut SmallRng, has_x: bool, kind: Kind) -> String {
    let n = |random: &mut SmallRng, most: i32| random.random_range(0..most);
    let (p, c, d) = (n(random, 3), n(random, 3), n(random, 3));
    let using = match kind {
        Kind::Ttl if random.random() => format!("USING TTL {}", random.random_range(1..60)),
        Kind::Timestamps => format!("USING TIMESTAMP {}", START + i64::from(n(random, 60))),
        _ => String::new(),
    };
    let of_delete = if kind == Kind::Timestamps { using.as_str() } else { "" };
    let row = format!("p = {p} AND c = {c} AND d = {d}");
    let value = n(random, 100);
    match random.random_range(0..22) {
        0..3 => format!("INSERT INTO ks.t (p, c, d, v) VALUES ({p}, {c}, {d}, 'v{value}') {using}"),
        3 => format!("INSERT INTO ks.t (p, c, d) VALUES ({p}, {c}, {d}) {using}"),
        4 if has_x => format!("INSERT INTO ks.t (p, c, d, x) VALUES ({p}, {c}, {d}, {value}) {using}"),
        4 | 5 => format!("UPDATE ks.t {using} SET w = {value}, v = null WHERE {row}"),
        6 => {
            format!("UPDATE ks.t {using} SET m['k{}'] = {value}, e = e + {{{value}}} WHERE {row}", value % 3)
        }
        7 => format!("UPDATE ks.t {using} SET m = {{'a': {value}}}, l = [{value}, 1] WHERE {row}"),
        8 if kind != Kind::Timestamps => format!("UPDATE ks.t {using} SET l = l + [{value}] WHERE {row}"),
        8 | 9 => format!("UPDATE ks.t {using} SET u.b = 'b{value}', fu = {{a: {value}}} WHERE {row}"),
        10 => format!("UPDATE ks.t {using} SET u = {{a: {value}, b: null}}, e = {{}} WHERE {row}"),
        11 => format!("UPDATE ks.t {using} SET s = {value} WHERE p = {p}"),
        12 => format!("UPDATE ks.t {using} SET se = se + {{{value}}}, s = null WHERE p = {p}"),
        13 => format!("INSERT INTO ks.t (p, c, d, w, s) VALUES ({p}, {c}, {d}, 1, {value}) {using}"),
        14 => format!("DELETE FROM ks.t {of_delete} WHERE {row}"),
        15 => format!("DELETE w, m, s FROM ks.t {of_delete} WHERE {row}"),
        16 => format!("DELETE FROM ks.t {of_delete} WHERE p = {p} AND c = {c}"),
        17 => format!("DELETE FROM ks.t {of_delete} WHERE p = {p} AND c >= {c} AND c < {}", c + 2),
        18 => format!("DELETE FROM ks.t {of_delete} WHERE p = {p} AND c = {c} AND d > {d}"),
        19 => format!("DELETE FROM ks.t {of_delete} WHERE p = {p}"),
        20 if kind != Kind::Timestamps => format!(
            "BEGIN BATCH INSERT INTO ks.t (p, c, d, w) VALUES ({p}, {c}, {d}, {value}); DELETE FROM ks.t WHERE p = {p} \
             AND c = {}; UPDATE ks.t SET s = 1 WHERE p = {}; APPLY BATCH",
            n(random, 3),
            n(random, 3)
        ),
        _ if random.random() => format!("UPDATE ks.n SET n = n + {value} WHERE p = {p} AND c = {c}"),
        _ => format!("UPDATE ks.n SET sn = sn - {value} WHERE p = {p}"),
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Ttl,
    Timestamps,
    Schema,
}

/// A source whose changes are to be read.
struct Source {
    fs: FakeFileSystem,
    history: History,
    /// The directories of a snapshot and the position before which no lines are printed.
    snapshot: Option<(Vec<PathBuf>, Position)>,
}

fn source(random: &mut SmallRng, kind: Kind) -> Source {
    let (fs, clock) = (FakeFileSystem::new(), Arc::new(ManualClock::at_micros(START)));
    let database = database(&fs, &clock);
    let session = database.session();
    SCHEMA.iter().for_each(|statement| execute(&session, statement));
    let mut stream = database.change_stream(Position::ZERO);
    let (mut history, mut snapshot, mut has_x, mut dropped) = (History::new(), None, false, false);
    let tables = || ["t", "n"].map(|name| (name, rows(&database, &session, name)));
    let mut before: BTreeMap<_, _> = tables().into();
    let steps = random.random_range(10..80);
    let snapshot_at = random.random_bool(0.5).then(|| random.random_range(0..steps));
    for step in 0..steps {
        let micros = match kind {
            Kind::Ttl => random.random_range(1..20_000_000),
            _ => 1000,
        };
        clock.advance(Duration::from_micros(micros));
        if kind == Kind::Ttl {
            before = tables().into();
        }
        if snapshot_at == Some(step) {
            let options = SnapshotOptions { name: "first", skip_flush: false, ttl_seconds: None };
            let taken = database.snapshot(&["ks".to_owned()], &options).unwrap();
            let directories: Vec<PathBuf> = taken.into_iter().map(|snapshot| snapshot.directory).collect();
            let position = |directory: &PathBuf| {
                cassette_engine::snapshot_position(&fs, directory).unwrap().expect("a position").position
            };
            let last = directories.iter().map(position).max().unwrap();
            snapshot = Some((directories, last));
        }
        if kind == Kind::Schema && random.random_bool(0.1) {
            let alter = match (has_x, dropped) {
                // Changes between the DROP and another ADD of the same column are what tells them
                // apart.
                (false, true) => continue,
                (false, false) => "ADD x int",
                (true, _) => "DROP x",
            };
            execute(&session, &format!("ALTER TABLE ks.t {alter}"));
            dropped = has_x;
            has_x = !has_x;
            before = tables().into();
            continue;
        }
        if kind == Kind::Schema && random.random_bool(0.03) {
            execute(&session, &format!("ALTER TYPE ks.u ADD f{step} int"));
            before = tables().into();
        }
        let statement = statement(random, has_x, kind);
        execute(&session, &statement);
        if random.random_bool(0.05) {
            database.engine().flush(None).unwrap();
        }
        let after: BTreeMap<_, _> = tables().into();
        let record = stream.next_record().unwrap().unwrap_or_else(|| panic!("{statement}: no change"));
        assert!(stream.next_record().unwrap().is_none());
        dropped &= !record.changes.iter().any(|change| change.table.name == "t");
        history.insert(record.position, [std::mem::replace(&mut before, after.clone()), after]);
    }
    database.close().unwrap();
    settle(&fs, Path::new("/data"));
    Source { fs, history, snapshot }
}

/// Makes all files durable: the indexes of segments are not, until the server's next start.
fn settle(fs: &FakeFileSystem, directory: &Path) {
    for entry in fs.read_dir(directory).unwrap() {
        let path = directory.join(&entry.name);
        if entry.is_dir {
            settle(fs, &path);
        } else {
            fs.open_writable(&path, entry.len).unwrap().sync().unwrap();
        }
    }
    fs.sync_dir(directory).unwrap();
}

/// Returns whether the clustering of a row is on the side of a bound of the line's range.
fn is_within(key: &[i64], bound: &Value, is_start: bool) -> bool {
    let Some(columns) = bound["columns"].as_object() else { return true };
    // c descends, and d ascends.
    for (place, name) in ["c", "d"].iter().enumerate() {
        let Some(value) = columns.get(*name).and_then(Value::as_i64) else { break };
        let ordering = if place == 0 { value.cmp(&key[place]) } else { key[place].cmp(&value) };
        if ordering.is_ne() {
            return ordering.is_gt() == is_start;
        }
    }
    bound["inclusive"] == json!(true)
}

/// Returns the image of a line that the model has.
fn expected(line: &Value, rows: &Rows) -> Value {
    let key = &line["key"];
    let (partition, statics) = &rows[&key["p"].as_i64().unwrap()];
    let names: Vec<&str> = ["c", "d"].into_iter().filter(|name| key.get(*name).is_some()).collect();
    let clustering: Vec<i64> = names.iter().map(|name| key[*name].as_i64().unwrap()).collect();
    let entry = |(of_row, row): &(Vec<i64>, Value)| {
        let key = json!({"p": key["p"], "c": of_row[0], "d": of_row[1]});
        json!({"key": key, "row": row})
    };
    match line["operation"].as_str().unwrap() {
        "delete_partition" => {
            let statics =
                (!statics.is_null()).then(|| json!({"key": {"p": key["p"]}, "static": true, "row": statics}));
            statics.into_iter().chain(partition.iter().map(entry)).collect()
        }
        "delete_range" => {
            let within = |(of_row, _): &&(Vec<i64>, Value)| {
                is_within(of_row, &line["start"], true) && is_within(of_row, &line["end"], false)
            };
            partition.iter().filter(within).map(entry).collect()
        }
        _ if line["static"] == json!(true) => statics.clone(),
        _ => {
            let found = partition.iter().find(|(of_row, _)| *of_row == clustering);
            found.map_or(Value::Null, |(_, row)| row.clone())
        }
    }
}

fn options(from: Vec<PathBuf>, outbox: u64) -> ImageOptions {
    let empty = from.is_empty();
    ImageOptions { from, empty, rows: 1000, outbox, tables: BTreeSet::new(), background_threads: false }
}

/// Reads lines with images once. Returns the complete lines, and how it ended.
fn read(
    fs: &FakeFileSystem,
    options: ImageOptions,
    from: Option<Position>,
) -> (Vec<String>, anyhow::Result<bool>) {
    let tail = ImagesTail {
        fs: Arc::new(fs.clone()),
        captured: Path::new(CAPTURED),
        images: Path::new("/images"),
        options,
        encryption: None,
        from,
        follow: false,
    };
    let mut out = Vec::new();
    let ended = tail.run(&mut out);
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), ended)
}

fn position_of(line: &str) -> Position {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    position(line["position"].as_str().unwrap()).unwrap()
}

/// Reads a random history through crashes.
fn check(seed: u64, kind: Kind) {
    let random = &mut SmallRng::seed_from_u64(seed);
    let what = format!("seed {seed}, {kind:?}");
    let source = source(random, kind);
    let (snapshots, first) = source.snapshot.clone().unwrap_or_default();
    let outbox = if random.random() { 1 << 30 } else { random.random_range(1..3000) };
    let mut fs = source.fs.fork();
    let (mut seen, mut acknowledged): (BTreeMap<Position, Vec<String>>, Option<Position>) =
        Default::default();
    let mut from = snapshots.clone();
    for attempt in 0.. {
        assert!(attempt < 2000, "{what}: no end");
        if attempt < 20 {
            fs.fail_from(fs.operations() + random.random_range(1..400));
        }
        let is_begun = fs.exists_in(Path::new("/images"));
        if is_begun.is_complete {
            from.clear();
        } else if is_begun.exists {
            // Not completed: the user removes it.
            fs.heal();
            fs.remove_dir_all(Path::new("/images")).unwrap();
            fs.sync_dir(Path::new("/")).unwrap();
            from.clone_from(&snapshots);
        }
        let (lines, ended) = read(&fs, options(from.clone(), outbox), acknowledged);
        let mut by_position: BTreeMap<Position, Vec<String>> = BTreeMap::new();
        for line in lines {
            by_position.entry(position_of(&line)).or_default().push(line);
        }
        for (position, lines) in by_position {
            assert!(Some(position) > acknowledged, "{what}: {position} was acknowledged");
            let known = seen.entry(position).or_insert_with(|| lines.clone());
            assert_eq!(*known, lines, "{what}: other lines when read again");
        }
        match ended {
            Ok(_) => break,
            Err(error) => {
                let text = format!("{error:#}");
                if text.contains("the outbox is full") {
                    acknowledged = seen.keys().next_back().copied();
                } else {
                    fs = fs.crash(random.random());
                    if random.random() {
                        let after: Vec<_> = seen
                            .keys()
                            .filter(|position| Some(**position) >= acknowledged)
                            .copied()
                            .collect();
                        if !after.is_empty() {
                            acknowledged = Some(after[random.random_range(0..after.len())]);
                        }
                    }
                }
            }
        }
    }
    let positions: Vec<Position> =
        source.history.keys().copied().filter(|position| *position > first).collect();
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), positions, "{what}");
    for (position, lines) in &seen {
        let states = &source.history[position];
        for text in lines {
            let line: Value = serde_json::from_str(text).unwrap();
            assert!(line.get("before_known").is_none(), "{what}: {text}");
            for (name, state) in ["before", "after"].into_iter().zip(states) {
                let model = expected(&line, &state[line["table"].as_str().unwrap()]);
                assert_eq!(line[name], model, "{what}: {name} of {text}");
            }
        }
    }
}

/// What a crash has left of a copy.
struct Begun {
    exists: bool,
    is_complete: bool,
}

trait ImagesIn {
    fn exists_in(&self, directory: &Path) -> Begun;
}

impl ImagesIn for FakeFileSystem {
    fn exists_in(&self, directory: &Path) -> Begun {
        let survivor = self.fork();
        let exists = survivor.read_dir(directory).is_ok();
        let opened = exists && {
            let fs: Arc<dyn FileSystem> = Arc::new(survivor);
            let (clock, own) = (Arc::new(StreamClock::at(0)), OwnTables::new());
            let opened = open_engine(&fs, directory, &clock, &own, false);
            opened.is_ok_and(|(engine, _)| own.state(&engine, "complete").unwrap().is_some())
        };
        Begun { exists, is_complete: opened }
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..std::env::var("CRASHES").ok().and_then(|count| count.parse().ok()).unwrap_or(count),
    }
}

#[test]
fn images_of_expiring_rows_are_those_of_queries_whatever_crashes() {
    seeds(8).for_each(|seed| check(seed, Kind::Ttl));
}

#[test]
fn images_of_writes_in_any_order_of_time_are_those_of_queries_whatever_crashes() {
    seeds(8).for_each(|seed| check(seed, Kind::Timestamps));
}

#[test]
fn images_follow_alterations_of_tables_and_types_whatever_crashes() {
    seeds(8).for_each(|seed| check(seed, Kind::Schema));
}

/// A source with the changes of some statements, after those of the schema.
fn source_of(statements: &[&str]) -> (FakeFileSystem, Database, Session) {
    let (fs, clock) = (FakeFileSystem::new(), Arc::new(ManualClock::at_micros(START)));
    let database = database(&fs, &clock);
    let session = database.session();
    SCHEMA.iter().chain(statements).for_each(|statement| execute(&session, statement));
    (fs, database, session)
}

fn images_of(line: &str) -> (Value, Value, bool) {
    let line: Value = serde_json::from_str(line).unwrap();
    (line["before"]["w"].clone(), line["after"]["w"].clone(), line.get("before_known").is_none())
}

const INSERT: &str = "INSERT INTO ks.t (p, c, d, w) VALUES (1, 1, 1, 5)";
const UPDATE: &str = "UPDATE ks.t SET w = 6 WHERE p = 1 AND c = 1 AND d = 1";

#[test]
fn lines_of_tables_without_initial_rows_state_that_the_row_before_is_not_known() {
    let (fs, _database, _session) = source_of(&[INSERT, UPDATE]);
    let options = |empty| ImageOptions { empty, ..options(Vec::new(), 1 << 20) };
    let (lines, ended) = read(&fs.fork(), options(false), None);
    ended.unwrap();
    let images: Vec<_> = lines.iter().map(|line| images_of(line)).collect();
    assert_eq!(images, [(Value::Null, json!(5), false), (json!(5), json!(6), false)]);
    let (lines, ended) = read(&fs, options(true), None);
    ended.unwrap();
    assert!(lines.iter().all(|line| images_of(line).2));
}

#[test]
fn acknowledged_lines_are_removed_and_a_full_outbox_is_an_error_that_says_so() {
    let (fs, _database, _session) = source_of(&[INSERT, UPDATE, UPDATE]);
    let (lines, ended) = read(&fs, options(Vec::new(), 1), None);
    assert_eq!(lines.len(), 1);
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("/images: the outbox is full: "), "{error}");
    // The same line until it is acknowledged.
    let (again, _) = read(&fs, options(Vec::new(), 1), None);
    assert_eq!(again, lines);
    acknowledge(&fs, Path::new("/images"), position_of(&lines[0])).unwrap();
    let (next, ended) = read(&fs, options(Vec::new(), 1 << 20), None);
    ended.unwrap();
    assert_eq!(next.iter().map(|line| images_of(line).0).collect::<Vec<_>>(), [json!(5), json!(6)]);
    let error = read(&fs, options(Vec::new(), 1 << 20), Some(Position::ZERO)).1.unwrap_err().to_string();
    assert!(error.starts_with("--from 0:0: the lines up to "), "{error}");
    // Nothing new: those that were not acknowledged.
    assert_eq!(read(&fs, options(Vec::new(), 1 << 20), None).0, next);
    let last = position_of(next.last().unwrap());
    assert_eq!(read(&fs, options(Vec::new(), 1 << 20), Some(last)).0, [""; 0]);
    let error = acknowledge(&fs, Path::new("/data"), last).unwrap_err().to_string();
    assert!(error.starts_with("/data: expected a directory of images"), "{error}");
}

#[test]
fn a_snapshot_that_has_the_changes_to_be_read_is_refused_with_its_position() {
    let (fs, database, session) = source_of(&[INSERT]);
    let first = database.change_stream(Position::ZERO).next_record().unwrap().unwrap().position;
    execute(&session, UPDATE);
    let options_of = |name| SnapshotOptions { name, skip_flush: false, ttl_seconds: None };
    let taken = database.snapshot(&["ks.t".to_owned()], &options_of("a")).unwrap();
    execute(&session, "UPDATE ks.t SET w = 7 WHERE p = 1 AND c = 1 AND d = 1");
    let from = vec![taken[0].directory.clone()];
    let error = read(&fs.fork(), options(from.clone(), 1 << 20), Some(first)).1.unwrap_err().to_string();
    assert!(error.starts_with("--images-from: a snapshot has changes up to "), "{error}");
    let (lines, ended) = read(&fs, options(from.clone(), 1 << 20), None);
    ended.unwrap();
    assert_eq!(lines.iter().map(|line| images_of(line)).collect::<Vec<_>>(), [(json!(6), json!(7), true)]);
    let error = read(&fs, options(from, 1 << 20), None).1.unwrap_err().to_string();
    assert!(error.starts_with("--images-from: /images has a copy already"), "{error}");
    // The same snapshot again, of the flushed rows alone.
    let skip = SnapshotOptions { skip_flush: true, ..options_of("b") };
    let again = database.snapshot(&["ks.t".to_owned()], &skip).unwrap();
    let position = |directory: &Path| cassette_engine::snapshot_position(&fs, directory).unwrap();
    assert_eq!(position(&again[0].directory), position(&taken[0].directory));
}

#[test]
fn a_table_that_is_dropped_and_created_again_begins_empty() {
    let again = SCHEMA[2];
    let (fs, _database, _session) = source_of(&[INSERT, "DROP TABLE ks.t", again, UPDATE]);
    let (lines, ended) = read(&fs, options(Vec::new(), 1 << 20), None);
    ended.unwrap();
    let images: Vec<_> = lines.iter().map(|line| images_of(line)).collect();
    assert_eq!(images, [(Value::Null, json!(5), true), (Value::Null, json!(6), true)]);
}

#[test]
fn the_rows_of_a_deleted_partition_are_limited_and_the_line_says_so() {
    let other = INSERT.replace("1, 1, 1", "1, 2, 1");
    let (fs, _database, _session) = source_of(&[INSERT, &other, "DELETE FROM ks.t WHERE p = 1"]);
    let options = ImageOptions { rows: 1, ..options(Vec::new(), 1 << 20) };
    let (lines, ended) = read(&fs, options, None);
    ended.unwrap();
    let line: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(line["before"].as_array().unwrap().len(), 1);
    assert_eq!((&line["before_complete"], &line["after"]), (&json!(false), &json!([])));
    assert!(line.get("after_complete").is_none());
}

#[test]
fn directories_of_something_else_are_refused() {
    let (fs, _database, _session) = source_of(&[INSERT]);
    let fs: Arc<dyn FileSystem> = Arc::new(fs);
    let open = |directory: &str| {
        Images::open(&fs, Path::new(directory), Path::new(CAPTURED), None, options(Vec::new(), 1)).map(drop)
    };
    let error = open("/data").unwrap_err().to_string();
    assert!(
        error.starts_with("--images /data: expected an empty directory or one of images, found "),
        "{error}"
    );
    assert!(open("/images").is_ok());
    let mut other = options(Vec::new(), 1);
    other.tables.insert("ks.t".to_owned());
    let error =
        Images::open(&fs, Path::new("/images"), Path::new(CAPTURED), None, other).map(drop).unwrap_err();
    assert!(error.to_string().starts_with("/images: the copy was begun without --table"), "{error}");
}

#[test]
fn changes_that_a_snapshot_has_do_not_undo_its_later_columns() {
    let (fs, database, session) = source_of(&["UPDATE ks.n SET n = n + 1 WHERE p = 1 AND c = 1"]);
    let snapshot = |table: &str| {
        let options = SnapshotOptions { name: "first", skip_flush: false, ttl_seconds: None };
        database.snapshot(&[table.to_owned()], &options).unwrap()[0].directory.clone()
    };
    let of_counters = snapshot("ks.n");
    execute(&session, INSERT);
    execute(&session, "ALTER TABLE ks.t ADD x int");
    execute(&session, "UPDATE ks.t SET x = 9 WHERE p = 1 AND c = 1 AND d = 1");
    let from = vec![of_counters, snapshot("ks.t")];
    execute(&session, UPDATE);
    let (lines, ended) = read(&fs, options(from, 1 << 20), None);
    ended.unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&line["before"]["x"], &line["after"]["x"]), (&json!(9), &json!(9)));
}

#[test]
fn a_write_of_an_earlier_version_of_its_table_does_not_drop_columns() {
    let column = |name: &str| {
        let kind = if name == "k" { ColumnKind::PartitionKey } else { ColumnKind::Regular };
        ColumnMetadata::new(name, kind, 0, DataType::Int)
    };
    let version = |names: &[&str], version| {
        let columns = names.iter().map(|name| column(name)).collect();
        let id = TableId(uuid::Uuid::from_u128(1));
        let mut table = TableMetadata::new(id, "ks", "t", columns, TableParams::default());
        table.version = version;
        Arc::new(table)
    };
    let (earlier, later) = (version(&["k", "v"], 3), version(&["k", "v", "x"], 4));
    let mut copied = CopiedTable::new(&later, true, Position::ZERO);
    assert!(copied.columns_of(&later, 7).is_some());
    assert!(copied.columns_of(&earlier, 7).is_some());
    // After a restart, versions begin again.
    assert!(copied.columns_of(&version(&["k", "v"], 0), 8).is_none());
    assert!(copied.columns_of(&version(&["k", "v"], 5), 7).is_none());
}
