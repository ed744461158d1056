//! SASI indexes: searches compared with those of a program that knows all rows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cassette_database::{Database, DatabaseError, Options, Row, Rows, Session, StatementOptions};
use cassette_vfs::{FakeFileSystem, ManualClock};

const CLASS: &str = "org.apache.cassandra.index.sasi.SASIIndex";
const ANALYZERS: &str = "org.apache.cassandra.index.sasi.analyzer";

/// A database whose files survive it.
struct Files {
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
}

impl Files {
    fn new() -> Self {
        Self { fs: FakeFileSystem::new(), clock: Arc::new(ManualClock::at_micros(1_700_000_000_000_000)) }
    }
}

fn open(files: &Files) -> (Database, Session) {
    open_with(files, true)
}

fn open_with(files: &Files, sasi_indexes_enabled: bool) -> (Database, Session) {
    let mut options = Options::new("/data");
    options.file_system = Arc::new(files.fs.clone());
    options.clock = files.clock.clone();
    options.engine.background_threads = false;
    options.sasi_indexes_enabled = sasi_indexes_enabled;
    let database = Database::open(options).unwrap();
    let session = database.session();
    run(
        &session,
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    run(&session, "USE ks");
    (database, session)
}

#[track_caller]
fn run(session: &Session, cql: &str) -> Rows {
    session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"))
}

fn ints(session: &Session, cql: &str) -> Vec<i32> {
    run(session, cql).iter().map(|row| row.get::<i32>(0).unwrap()).collect()
}

/// The values of each row, read in pages of `size` rows.
fn pages(session: &Session, cql: &str, size: i32) -> Result<Vec<Vec<Option<Bytes>>>, DatabaseError> {
    let mut all = Vec::new();
    let mut state = None;
    loop {
        let options =
            StatementOptions { page_size: Some(size), paging_state: state, ..StatementOptions::default() };
        let rows = session.execute_with(cql, (), &options)?;
        let columns = rows.columns().len();
        let values =
            |row: Row<'_>| (0..columns).map(|i| row.bytes(i).map(Bytes::copy_from_slice)).collect::<Vec<_>>();
        all.extend(rows.iter().map(values));
        state = rows.paging_state().cloned();
        if state.is_none() {
            return Ok(all);
        }
    }
}

fn create(session: &Session, target: &str, options: &str) {
    run(session, &format!("CREATE CUSTOM INDEX ON t ({target}) USING '{CLASS}' WITH OPTIONS = {options}"));
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn text(&mut self) -> String {
        (0..=self.below(5)).map(|_| ['a', 'b', 'A', ',', 'ä'][self.below(5) as usize]).collect()
    }
}

type Stored = (i32, i32, Option<String>, Option<String>, Option<String>);

/// Returns the rows that match, as a program that knows all rows would.
fn expected(session: &Session, matches: impl Fn(&Stored) -> bool) -> Vec<(i32, i32)> {
    let rows = run(session, "SELECT p, c, v, d, s FROM t");
    let row = |row: Row<'_>| -> Stored {
        let get = |i| row.get::<Option<String>>(i).unwrap();
        (row.get(0).unwrap(), row.get::<Option<i32>>(1).unwrap().unwrap_or(-1), get(2), get(3), get(4))
    };
    // A static row alone is not found.
    rows.iter().map(row).filter(|row| row.1 >= 0 && matches(row)).map(|row| (row.0, row.1)).collect()
}

fn found(session: &Session, condition: &str, size: i32) -> Vec<(i32, i32)> {
    let cql = format!("SELECT p, c FROM t WHERE {condition}");
    let int = |value: &Option<Bytes>| {
        value.as_ref().map_or(-1, |bytes| i32::from_be_bytes(bytes[..].try_into().unwrap()))
    };
    let rows = pages(session, &cql, size).unwrap_or_else(|error| panic!("{cql}: {error}"));
    rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect()
}

fn fits(pattern: &str, term: &str) -> bool {
    match (pattern.strip_prefix('%'), pattern.strip_suffix('%')) {
        (Some(_), Some(_)) => term.contains(pattern.trim_matches('%')),
        (Some(end), None) => term.ends_with(end),
        (None, Some(start)) => term.starts_with(start),
        (None, None) => term == pattern,
    }
}

#[track_caller]
fn check(session: &Session) {
    let is = |value: &Option<String>, test: &dyn Fn(&str) -> bool| {
        value.as_deref().is_some_and(|value| !value.is_empty() && test(value))
    };
    for pattern in ["a%", "%b", "%ab%", "A", "%ä%", "ab%", "%A%"] {
        let lower = pattern.to_lowercase();
        let of_v = expected(session, |row| is(&row.2, &|v| fits(&lower, &v.to_lowercase())));
        let of_s = expected(session, |row| is(&row.4, &|s| fits(pattern, s)));
        for size in [1, 3, 5000] {
            assert_eq!(found(session, &format!("v LIKE '{pattern}'"), size), of_v, "v LIKE {pattern}");
            assert_eq!(found(session, &format!("s LIKE '{pattern}'"), size), of_s, "s LIKE {pattern}");
        }
    }
    for pattern in ["%b", "%a%", "a", "a,b", "%b,ä"] {
        let terms: Vec<String> = {
            let text = pattern.trim_matches('%');
            let (start, end) = (pattern.starts_with('%'), pattern.ends_with('%'));
            let around =
                |term: &str| format!("{}{term}{}", if start { "%" } else { "" }, if end { "%" } else { "" });
            text.split(',').map(around).collect()
        };
        let any = |d: &str| d.split(',').any(|term| terms.iter().any(|pattern| fits(pattern, term)));
        let of_d = expected(session, |row| is(&row.3, &any));
        assert_eq!(found(session, &format!("d LIKE '{pattern}'"), 2), of_d, "d LIKE {pattern}");
        let both =
            expected(session, |row| is(&row.3, &any) && is(&row.2, &|v| fits("%b%", &v.to_lowercase())));
        let condition = format!("d LIKE '{pattern}' AND v LIKE '%B%' ALLOW FILTERING");
        assert_eq!(found(session, &condition, 2), both, "{condition}");
    }
    let of_p = expected(session, |row| row.0 == 1 && is(&row.2, &|v| v.to_lowercase().contains('b')));
    assert_eq!(found(session, "p = 1 AND v LIKE '%b%'", 2), of_p);
    let equal = expected(session, |row| is(&row.2, &|v| v.to_lowercase() == "ab"));
    assert_eq!(found(session, "v = 'AB'", 2), equal);
}

fn write(session: &Session, numbers: &mut Numbers) {
    let (p, c) = (numbers.below(4), numbers.below(6));
    let texts: Vec<String> = (0..3).map(|_| numbers.text()).collect();
    let ttl = if numbers.below(4) == 0 { " USING TTL 100" } else { "" };
    let cql = match numbers.below(9) {
        0 => format!("DELETE FROM t WHERE p = {p}"),
        1 => format!("DELETE FROM t WHERE p = {p} AND c > {c}"),
        2 => format!("DELETE v, s FROM t WHERE p = {p} AND c = {c}"),
        3 => format!("UPDATE t{ttl} SET d = '{}' WHERE p = {p} AND c = {c}", texts[0]),
        _ => format!(
            "INSERT INTO t (p, c, v, d, s) VALUES ({p}, {c}, '{}', '{}', '{}'){ttl}",
            texts[0], texts[1], texts[2]
        ),
    };
    run(session, &cql);
}

#[test]
fn like_finds_the_rows_whose_terms_fit_the_pattern() {
    for seed in 1..=3 {
        let (files, mut numbers) = (Files::new(), Numbers(seed));
        {
            let (database, session) = open(&files);
            run(&session, "CREATE TABLE t (p int, c int, v text, d text, s text STATIC, PRIMARY KEY (p, c))");
            for _ in 0..10 {
                write(&session, &mut numbers);
            }
            let class = format!("{ANALYZERS}.NonTokenizingAnalyzer");
            create(
                &session,
                "v",
                &format!("{{'mode': 'CONTAINS', 'analyzer_class': '{class}', 'case_sensitive': 'false'}}"),
            );
            let class = format!("{ANALYZERS}.DelimiterAnalyzer");
            create(&session, "d", &format!("{{'mode': 'CONTAINS', 'analyzer_class': '{class}'}}"));
            create(&session, "s", "{'mode': 'CONTAINS'}");
            for round in 0..4 {
                for _ in 0..12 {
                    write(&session, &mut numbers);
                }
                check(&session);
                if round == 2 {
                    database.engine().flush(None).unwrap();
                }
            }
        }
        // The settings of the first start do not matter for existing indexes.
        let (_database, session) = open_with(&files, false);
        check(&session);
        files.clock.advance(Duration::from_secs(200));
        check(&session);
    }
}

#[test]
fn a_sasi_index_of_numbers_answers_ranges() {
    let files = Files::new();
    let (database, session) = open(&files);
    run(&session, "CREATE TABLE t (p int PRIMARY KEY, n int, x blob)");
    create(&session, "n", "{'mode': 'SPARSE'}");
    create(&session, "x", "{}");
    for p in 0..20 {
        run(&session, &format!("INSERT INTO t (p, n, x) VALUES ({p}, {}, 0x{p:02x})", p % 7));
    }
    for _ in 0..2 {
        let mut found = ints(&session, "SELECT n FROM t WHERE n > 2 AND n <= 4");
        found.sort_unstable();
        assert_eq!(found, [3, 3, 3, 4, 4, 4]);
        let mut found = ints(&session, "SELECT p FROM t WHERE x >= 0x12");
        found.sort_unstable();
        assert_eq!(found, [18, 19]);
        database.engine().flush(None).unwrap();
    }
}

#[test]
fn sasi_indexes_are_created_only_if_they_are_enabled() {
    let (_database, session) = open_with(&Files::new(), false);
    run(&session, "CREATE TABLE t (p int PRIMARY KEY, v text)");
    let error = session.execute(&format!("CREATE CUSTOM INDEX ON t (v) USING '{CLASS}'"), ()).unwrap_err();
    assert!(error.to_string().contains("Set `sasi_indexes_enabled: true`"), "{error}");
}

#[test]
fn a_value_of_too_many_terms_is_refused() {
    let (_database, session) = open(&Files::new());
    run(&session, "CREATE TABLE t (p int PRIMARY KEY, v text)");
    run(
        &session,
        &format!("CREATE CUSTOM INDEX i ON t (v) USING '{CLASS}' WITH OPTIONS = {{'analyzed': 'true'}}"),
    );
    let text: String = (0..10_001).map(|n| format!("{n} ")).collect();
    let insert = |text: &str| session.execute("INSERT INTO t (p, v) VALUES (1, ?)", (text,));
    let error = insert(&text).unwrap_err().to_string();
    assert!(error.contains("more than 10000 terms for index i on"), "{error}");
    insert(&"a b ".repeat(10_001)).unwrap();
    assert_eq!(ints(&session, "SELECT p FROM t WHERE v LIKE 'b'"), [1]);
}

#[test]
fn a_pattern_can_be_bound_and_chooses_the_index() {
    let files = Files::new();
    let (_database, session) = open(&files);
    run(&session, "CREATE TABLE t (p int PRIMARY KEY, v text)");
    create(&session, "v", "{'mode': 'PREFIX'}");
    let class = format!("{ANALYZERS}.StandardAnalyzer");
    create(&session, "v", &format!("{{'mode': 'CONTAINS', 'analyzer_class': '{class}'}}"));
    run(&session, "INSERT INTO t (p, v) VALUES (1, 'blue whale')");
    for (pattern, expected) in [("blue w%", 1), ("whale%", 0), ("%lue", 1), ("%ue wh%", 1), ("%x%", 0)] {
        let rows = session.execute("SELECT p FROM t WHERE v LIKE ?", (pattern,)).unwrap();
        assert_eq!(rows.len(), expected, "{pattern}");
    }
    for (pattern, expected) in
        [(Some("%"), "LIKE value can't be empty."), (None, "Unsupported null value for column v")]
    {
        let error = session.execute("SELECT p FROM t WHERE v LIKE ?", (pattern,)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
