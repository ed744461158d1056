//! Statements and the lines of their changes.

use cassette_database::{Database, Options, Session};
use cassette_vfs::{FakeFileSystem, ManualClock};

use super::*;

fn options(fs: &FakeFileSystem, clock: &Arc<ManualClock>) -> Options {
    let mut options = Options::new("/data");
    options.file_system = Arc::new(fs.clone());
    options.clock = clock.clone();
    options.engine.background_threads = false;
    options.engine.commitlog_sync = cassette_engine::commitlog::SyncMode::Batch;
    options.engine.commitlog_segment_size = 256 << 10;
    options.engine.cdc.enabled = true;
    options.engine.cdc.total_space = Some(10 << 20);
    options
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at_micros(1_700_000_000_000_000))
}

fn run(session: &Session, statements: &[&str]) {
    for statement in statements {
        session.execute(*statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

const SCHEMA: [&str; 4] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE ks.u (a int, b text)",
    "CREATE TABLE ks.t (p int, q text, c int, d int, v text, s int STATIC, m map<text, int>, e set<int>, f ks.u, \
     l list<int>, PRIMARY KEY ((p, q), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND cdc = true",
    "CREATE TABLE ks.n (k text PRIMARY KEY, n counter) WITH cdc = true",
];

fn texts(position: Position, change: &cassette_engine::cdc::Change) -> Vec<String> {
    json::lines(position, change).into_iter().map(json::Line::finish).collect()
}

/// The lines of the changes after `position`, without what all have in common, and their end.
fn lines_after(database: &Database, position: Position) -> (Vec<String>, Position) {
    let mut stream = database.change_stream(position);
    let mut lines = Vec::new();
    while let Some(record) = stream.next_record().unwrap() {
        for line in record.changes.iter().flat_map(|change| texts(record.position, change)) {
            serde_json::from_str::<serde_json::Value>(&line)
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            let begin = format!("{{\"position\":\"{}\",\"keyspace\":\"ks\",\"table\":", record.position);
            lines.push(line.strip_prefix(&begin).unwrap_or_else(|| panic!("{line}")).to_owned());
        }
    }
    (lines, stream.position())
}

/// Statements, and the lines of their changes after the table.
const CHANGES: [(&str, &str); 8] = [
    (
        "INSERT INTO ks.t (p, q, c, d, v) VALUES (1, 'x', 2, 3, 'a \"text\"') USING TIMESTAMP 10 AND TTL 60",
        "'operation':'insert','key':{'p':1,'q':'x','c':2,'d':3},'timestamp':10,'ttl':60,'expires':1700000060,\
         'cells':[{'column':'v','value':'a \\'text\\'','timestamp':10,'ttl':60,'expires':1700000060}]}",
    ),
    (
        "UPDATE ks.t USING TIMESTAMP 11 SET v = null, m['k'] = 5, e = e + {7} WHERE p = 1 AND q = 'x' AND c = 2 \
         AND d = 3",
        "'operation':'update','key':{'p':1,'q':'x','c':2,'d':3},'cells':[\
         {'column':'v','deleted':true,'timestamp':11},{'column':'e','element':7,'timestamp':11},\
         {'column':'m','key':'k','value':5,'timestamp':11}]}",
    ),
    (
        "UPDATE ks.t USING TIMESTAMP 12 SET m = {'z': 1}, f.b = 'y' WHERE p = 1 AND q = 'x' AND c = 2 AND d = 3",
        "'operation':'update','key':{'p':1,'q':'x','c':2,'d':3},'cells':[\
         {'column':'m','deleted':true,'timestamp':11},{'column':'f','field':'b','value':'y','timestamp':12},\
         {'column':'m','key':'z','value':1,'timestamp':12}]}",
    ),
    (
        "UPDATE ks.t USING TIMESTAMP 13 SET s = 4 WHERE p = 1 AND q = 'x'",
        "'operation':'update','key':{'p':1,'q':'x'},'static':true,\
         'cells':[{'column':'s','value':4,'timestamp':13}]}",
    ),
    (
        "DELETE FROM ks.t USING TIMESTAMP 14 WHERE p = 1 AND q = 'x' AND c = 2 AND d = 3",
        "'operation':'delete_row','key':{'p':1,'q':'x','c':2,'d':3},'timestamp':14}",
    ),
    (
        "DELETE FROM ks.t USING TIMESTAMP 15 WHERE p = 1 AND q = 'x' AND c = 2 AND d > 3",
        "'operation':'delete_range','key':{'p':1,'q':'x'},'start':{'columns':{'c':2,'d':3},'inclusive':false},\
         'end':{'columns':{'c':2},'inclusive':true},'timestamp':15}",
    ),
    (
        "DELETE FROM ks.t USING TIMESTAMP 16 WHERE p = 1 AND q = 'x' AND c >= 2",
        "'operation':'delete_range','key':{'p':1,'q':'x'},'start':null,\
         'end':{'columns':{'c':2},'inclusive':true},'timestamp':16}",
    ),
    (
        "DELETE FROM ks.t USING TIMESTAMP 17 WHERE p = 1 AND q = 'x'",
        "'operation':'delete_partition','key':{'p':1,'q':'x'},'timestamp':17}",
    ),
];

#[test]
fn every_kind_of_change_is_a_line_with_its_key_cells_timestamps_and_ttls() {
    let (fs, clock) = (FakeFileSystem::new(), clock());
    let database = Database::open(options(&fs, &clock)).unwrap();
    let session = database.session();
    run(&session, &SCHEMA);
    let mut position = Position::ZERO;
    for (statement, expected) in CHANGES {
        run(&session, &[statement]);
        let (lines, end) = lines_after(&database, position);
        assert_eq!(lines, [format!("\"t\",{}", expected.replace('\'', "\""))], "{statement}");
        position = end;
    }
    run(&session, &["UPDATE ks.n SET n = n + 5 WHERE k = 'a'", "UPDATE ks.n SET n = n - 2 WHERE k = 'a'"]);
    let (lines, end) = lines_after(&database, position);
    for (line, value) in lines.iter().zip([5, 3]) {
        let cell =
            format!(r#""n","operation":"update","key":{{"k":"a"}},"cells":[{{"column":"n","value":{value},"#);
        assert!(line.starts_with(&cell), "{line}");
    }
    run(&session, &["UPDATE ks.t SET l = [8] WHERE p = 1 AND q = 'x' AND c = 2 AND d = 3"]);
    let (lines, _) = lines_after(&database, end);
    assert!(
        lines[0].contains(r#"{"column":"l","cell":""#) && lines[0].contains(r#","value":8,"#),
        "{lines:?}"
    );
}

#[test]
fn a_batch_has_one_position_and_alterations_apply_to_later_changes() {
    let (fs, clock) = (FakeFileSystem::new(), clock());
    let database = Database::open(options(&fs, &clock)).unwrap();
    let session = database.session();
    run(&session, &SCHEMA);
    run(
        &session,
        &[
            "BEGIN BATCH INSERT INTO ks.t (p, q, c, d) VALUES (1, 'x', 1, 1); INSERT INTO ks.t (p, q, c, d) VALUES \
             (2, 'x', 1, 1); APPLY BATCH",
            "ALTER TABLE ks.t ADD w int",
            "INSERT INTO ks.t (p, q, c, d, w) VALUES (3, 'x', 1, 1, 9)",
            "ALTER TABLE ks.t DROP w",
            "ALTER TABLE ks.t RENAME d TO e2",
            "INSERT INTO ks.t (p, q, c, e2) VALUES (4, 'x', 1, 1)",
            "ALTER TABLE ks.t WITH cdc = false",
            "INSERT INTO ks.t (p, q, c, e2) VALUES (5, 'x', 1, 1)",
            "ALTER TABLE ks.t WITH cdc = true",
            "INSERT INTO ks.t (p, q, c, e2) VALUES (6, 'x', 1, 1)",
            "DROP TABLE ks.t",
        ],
    );
    database.close().unwrap();
    drop((session, database));
    let database = Database::open(options(&fs, &clock)).unwrap();
    let mut stream = database.change_stream(Position::ZERO);
    let mut seen = Vec::new();
    while let Some(record) = stream.next_record().unwrap() {
        let lines = record.changes.iter().flat_map(|change| texts(record.position, change));
        seen.push(lines.map(|line| line[line.find("\"key\"").unwrap()..].to_owned()).collect::<Vec<_>>());
    }
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1, 1]);
    assert!(seen[1][0].contains(r#"{"column":"w","value":9,"#));
    assert!(seen[2][0].starts_with(r#""key":{"p":4,"q":"x","c":1,"e2":1}"#), "{}", seen[2][0]);
    assert!(seen[3][0].starts_with(r#""key":{"p":6,"#));
}

#[test]
fn without_space_writes_fail_as_in_cassandra_while_reads_and_other_tables_work() {
    let (fs, clock) = (FakeFileSystem::new(), clock());
    let mut options = options(&fs, &clock);
    options.engine.cdc.total_space = Some(600 << 10);
    let database = Database::open(options).unwrap();
    let session = database.session();
    run(&session, &SCHEMA);
    run(&session, &["CREATE TABLE ks.other (k int PRIMARY KEY, v text)"]);
    let text = "v".repeat(20_000);
    let write = |k: i32| {
        session.execute("INSERT INTO ks.t (p, q, c, d, v) VALUES (?, 'x', 1, 1, ?)", (k, text.as_str()))
    };
    let (failed, error) = (0..100).find_map(|k| Some((k, write(k).err()?))).unwrap();
    assert_eq!(error.code(), 0x1500);
    assert!(
        error.to_string().starts_with("Rejecting mutation to keyspace ks. Free up space in /data/cdc_raw by"),
        "{error}"
    );
    for statement in [
        "BEGIN BATCH INSERT INTO ks.other (k) VALUES (1); INSERT INTO ks.t (p, q, c, d) VALUES (200, 'x', 1, 1); \
         APPLY BATCH",
        "INSERT INTO ks.t (p, q, c, d) VALUES (200, 'x', 1, 1) IF NOT EXISTS",
        "DELETE FROM ks.t WHERE p = 1 AND q = 'x'",
        "UPDATE ks.n SET n = n + 1 WHERE k = 'a'",
    ] {
        assert_eq!(session.execute(statement, ()).unwrap_err().code(), 0x1500, "{statement}");
    }
    run(&session, &["INSERT INTO ks.other (k) VALUES (2)"]);
    let rows = session.execute("SELECT p FROM ks.t", ()).unwrap();
    assert_eq!(rows.iter().count(), usize::try_from(failed).unwrap());
    assert_eq!(session.execute("SELECT k FROM ks.other", ()).unwrap().iter().count(), 1);
    let end = lines_after(&database, Position::ZERO).1;
    assert!(remove_captured(&fs, Path::new("/data/cdc_raw"), end).unwrap() > 0);
    clock.advance(Duration::from_secs(1));
    write(failed).unwrap();
}

fn tail_arguments(directory: &Path) -> TailArguments {
    TailArguments {
        directory: directory.to_owned(),
        from: None,
        follow: false,
        tables: Vec::new(),
        config: None,
        images: None,
        images_from: Vec::new(),
        images_empty: false,
        images_rows: 1000,
        images_outbox: 1 << 30,
    }
}

#[test]
fn tail_selects_tables_and_list_and_remove_work_on_files() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let mut options = Options::new(&data);
    options.engine.cdc.enabled = true;
    let database = Database::open(options).unwrap();
    let session = database.session();
    run(&session, &SCHEMA);
    run(
        &session,
        &["INSERT INTO ks.t (p, q, c, d) VALUES (1, 'x', 1, 1)", "UPDATE ks.n SET n = n + 1 WHERE k = 'a'"],
    );
    database.close().unwrap();
    let raw = data.join("cdc_raw");
    let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
    let lines = |from: Option<Position>, tables: &[&str]| {
        let tables = tables.iter().map(|name| (*name).to_owned()).collect();
        let arguments = TailArguments { from, tables, ..tail_arguments(&raw) };
        let stream = ChangeStream::open(fs.clone(), &raw, None, from.unwrap_or(Position::ZERO));
        let mut out = Vec::new();
        tail(stream, &arguments, &mut out).map(|_| String::from_utf8(out).unwrap().lines().count())
    };
    assert_eq!(lines(None, &[]).unwrap(), 2);
    assert_eq!(lines(None, &["ks.t"]).unwrap(), 1);
    assert_eq!(lines(None, &["ks.none"]).unwrap(), 0);
    assert_eq!(lines(None, &["t"]).unwrap_err().to_string(), "--table: expected KEYSPACE.TABLE, found t");
    let mut stream = database.change_stream(Position::ZERO);
    let first = stream.next_record().unwrap().unwrap().position;
    assert_eq!(lines(Some(first), &[]).unwrap(), 1);
    let mut out = Vec::new();
    list(fs.as_ref(), &raw, &mut out).unwrap();
    let listed = String::from_utf8(out).unwrap();
    assert!(listed.lines().count() == 2 && listed.ends_with("completed\n"), "{listed}");
    let end = Position { segment: first.segment + 1, offset: 0 };
    assert_eq!(remove_captured(fs.as_ref(), &raw, end).unwrap(), 1);
    let left: Vec<_> = std::fs::read_dir(&raw).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["chain"]);
    assert_eq!(lines(Some(first), &[]).unwrap(), 0, "a warning names what is missing");
}

#[test]
fn positions_are_read_as_they_are_printed() {
    let at = Position { segment: 1_795_457_677_158, offset: 4_076_672 };
    assert_eq!(position(&at.to_string()), Ok(at));
    for text in ["", "5", "5:", ":5", "5:-1", "5:4294967296", "a:b"] {
        assert!(position(text).unwrap_err().starts_with("expected SEGMENT:OFFSET"), "{text}");
    }
}
