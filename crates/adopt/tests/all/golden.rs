//! Nodes of Cassandra 5.0.8 answer after adoption, and opened for reading only, as Cassandra did:
//! every cell, with its write time and its TTL.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_adopt::{AdoptOptions, Plan, PlanRequest, adopt, open_read_only, plan_text};
use cassette_database::{Database, Options};
use cassette_vfs::{Clock, FakeFileSystem, FileSystem, ManualClock};
use serde_json::Value;

use crate::support::{directories, files};

/// A node in `/node`, and what it answered.
pub struct Golden {
    pub fs: FakeFileSystem,
    pub expected: Value,
}

/// Bytes of a tar header, and the unit of its contents.
const BLOCK: usize = 512;

impl Golden {
    fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.tar.gz"));
        let mut archive = Vec::new();
        let file = std::fs::File::open(path).unwrap();
        flate2::read::GzDecoder::new(file).read_to_end(&mut archive).unwrap();
        let fs = FakeFileSystem::new();
        let (mut at, mut expected) = (0, Value::Null);
        while archive[at] != 0 {
            let header = &archive[at..at + BLOCK];
            let text = |from: usize, to: usize| {
                let field = header[from..to].split(|byte| *byte == 0).next().unwrap();
                std::str::from_utf8(field).unwrap().trim().to_owned()
            };
            let size = usize::from_str_radix(&text(124, 136), 8).unwrap();
            let path = Path::new("/").join(text(345, 500)).join(text(0, 100));
            let content = &archive[at + BLOCK..at + BLOCK + size];
            if header[156] == b'5' {
                fs.create_dir_all(&path).unwrap();
            } else if path == Path::new("/expected.json") {
                expected = serde_json::from_slice(content).unwrap();
            } else {
                let mut file = fs.create(&path).unwrap();
                file.write_all(content).unwrap();
                file.sync().unwrap();
            }
            at += BLOCK + size.next_multiple_of(BLOCK);
        }
        for directory in directories(&fs, Path::new("/")) {
            fs.sync_dir(&directory).unwrap();
        }
        Self { fs, expected }
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(ManualClock::at_micros(self.expected["taken_at"].as_i64().unwrap() * 1_000_000))
    }

    pub fn options(&self) -> Options {
        let mut options = Options::new("/target");
        options.file_system = Arc::new(self.fs.clone());
        options.clock = self.clock();
        options.engine.background_threads = false;
        options.dynamic_data_masking_enabled = true;
        options
    }

    /// Compares all answers, and returns the number of cells.
    pub fn compare(&self, database: &Database, has_indexes: bool) -> usize {
        let session = database.session();
        let mut cells = 0;
        for result in self.expected["results"].as_array().unwrap() {
            let mut query = result["query"].as_str().unwrap().to_owned();
            let is_search = query.contains(" WHERE ");
            if is_search && !has_indexes {
                query += " ALLOW FILTERING";
            }
            let rows = session.execute(&query, ()).unwrap_or_else(|error| panic!("{query}: {error}"));
            let columns = rows.columns().len();
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let mut found: Vec<Vec<Option<String>>> =
                rows.iter().map(|row| (0..columns).map(|i| row.bytes(i).map(hex)).collect()).collect();
            let mut expected: Vec<Vec<Option<String>>> =
                serde_json::from_value(result["raw"].clone()).unwrap();
            if is_search {
                // Indexes return rows in the order of their own.
                found.sort();
                expected.sort();
            }
            assert_eq!(found.len(), expected.len(), "{query}");
            let ttls = query.matches("ttl(").count();
            for (found, expected) in found.iter().zip(&expected) {
                let (values, times) = found.split_at(columns - ttls);
                assert_eq!(values, &expected[..columns - ttls], "{query}");
                let same = times.iter().zip(&expected[columns - ttls..]).all(|(a, b)| same_ttl(a, b));
                assert!(same, "{query}: {found:?} {expected:?}");
            }
            cells += expected.len() * columns;
        }
        cells
    }
}

/// Whether two TTLs, or two collections of them, differ by less than the recording took.
fn same_ttl(a: &Option<String>, b: &Option<String>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return a == b };
    let numbers = |text: &str| -> Vec<i64> {
        let digits = (0..text.len() / 8).map(|i| &text[i * 8..i * 8 + 8]);
        digits.map(|digits| i64::from_str_radix(digits, 16).unwrap()).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 60)
}

fn plan(golden: &Golden) -> Plan {
    let fs: Arc<dyn FileSystem> = Arc::new(golden.fs.clone());
    let request = PlanRequest { directories: vec!["/node".into()], roles: true, ..PlanRequest::default() };
    let plan = Plan::of(&fs, &request).unwrap();
    plan.check(|_| false).unwrap();
    assert_eq!(plan.nodes[0].system.release_version.as_deref(), Some("5.0.8"));
    plan
}

#[test]
fn adopted_nodes_answer_as_cassandra_did() {
    for name in ["nb", "da"] {
        let golden = Golden::open(name);
        let before = files(&golden.fs, "/node");
        let plan = plan(&golden);
        let is_warned_of = |word: &str| plan.warnings.iter().any(|warning| warning.contains(word));
        assert!(is_warned_of("function shop.plus") && !is_warned_of("items_"), "{:?}", plan.warnings);
        let fs: Arc<dyn FileSystem> = Arc::new(golden.fs.clone());
        let options = AdoptOptions { target: "/target".into(), copy: false, verify: true };
        adopt(&fs, golden.clock(), &plan, &options, &mut |_| {}).unwrap();
        let database = Database::open(golden.options()).unwrap();
        let cells = golden.compare(&database, true);
        assert!(cells > 5000, "{name}: {cells}");
        let of_compact = database.session().query_one::<(i32, i32)>("SELECT * FROM shop.old", ()).unwrap();
        assert_eq!(of_compact, (1, 2));
        check_definitions(&database, &plan);
        for (id, table) in database.engine().tables() {
            if matches!(table.keyspace.as_str(), "shop" | "Mixed") {
                database.engine().compact(id).unwrap();
            }
        }
        golden.compare(&database, true);
        check_sasi(&database);
        database.close().unwrap();
        assert_eq!(files(&golden.fs, "/node"), before);
    }
}

/// The versions before `nb`, of Cassandra 3.0.6, 3.7, 3.11.3, 3.11.10, 3.11.19 and 4.0-beta4.
const OLDER: [&str; 6] = ["ma", "mb", "mc", "md", "me", "na"];

#[test]
fn nodes_with_older_sstables_answer_as_cassandra_did() {
    for name in OLDER {
        let golden = Golden::open(name);
        let before = files(&golden.fs, "/node");
        let fs: Arc<dyn FileSystem> = Arc::new(golden.fs.clone());
        let request = PlanRequest { directories: vec!["/node".into()], ..PlanRequest::default() };
        let plan = Plan::of(&fs, &request).unwrap();
        plan.check(|_| false).unwrap();
        let options = AdoptOptions { target: "/target".into(), copy: false, verify: true };
        let adopted = adopt(&fs, golden.clock(), &plan, &options, &mut |_| {}).unwrap();
        assert_eq!((adopted.linked, adopted.mutations), (adopted.sstables, 0), "{name}");
        let is_data = |path: &&PathBuf| path.to_string_lossy().ends_with("-Data.db");
        let count = |version: &str| {
            let of_version = |path: &&PathBuf| {
                let file = path.file_name().unwrap().to_string_lossy();
                path.to_string_lossy().contains("/random/") && file.starts_with(version)
            };
            files(&golden.fs, "/target").keys().filter(is_data).filter(of_version).count()
        };
        assert!(count(name) > 10, "{name}");
        let database = Database::open(golden.options()).unwrap();
        let cells = golden.compare(&database, true);
        assert!(cells > 3000, "{name}: {cells}");
        for (id, _) in database.engine().tables() {
            database.engine().upgrade_other_versions(id).unwrap();
        }
        assert_eq!(count(name), 0);
        golden.compare(&database, true);
        database.close().unwrap();
        let opened = open_read_only(golden.options(), &[PathBuf::from("/node")]).unwrap();
        golden.compare(&opened.database, false);
        assert_eq!(files(&golden.fs, "/node"), before);
    }
}

#[test]
fn nodes_that_were_killed_answer_with_the_writes_of_their_commit_logs() {
    for name in ["killed", "killed_lz4", "killed_311", "killed_40", "killed_41"] {
        let golden = Golden::open(name);
        let before = files(&golden.fs, "/node");
        let fs: Arc<dyn FileSystem> = Arc::new(golden.fs.clone());
        let request = PlanRequest { directories: vec!["/node".into()], ..PlanRequest::default() };
        let planned = Plan::of(&fs, &request).unwrap();
        planned.check(|_| false).unwrap();
        assert!(plan_text(&planned).contains("with writes"), "{}", plan_text(&planned));
        let options = |target: &str| AdoptOptions { target: target.into(), copy: false, verify: false };
        let adopted = adopt(&fs, golden.clock(), &planned, &options("/target"), &mut |_| {}).unwrap();
        assert!(adopted.mutations > 100 && adopted.warnings.is_empty(), "{name}: {adopted:?}");
        let database = Database::open(golden.options()).unwrap();
        let cells = golden.compare(&database, true);
        assert!(cells > 3000, "{name}: {cells}");
        database.close().unwrap();
        let opened = open_read_only(golden.options(), &[PathBuf::from("/node")]).unwrap();
        golden.compare(&opened.database, false);
        assert_eq!(files(&golden.fs, "/node"), before);

        let without = Plan::of(&fs, &PlanRequest { ignore_commitlog: true, ..request.clone() }).unwrap();
        let lossy = adopt(&fs, golden.clock(), &without, &options("/lossy"), &mut |_| {}).unwrap();
        assert_eq!(lossy.mutations, 0);

        let is_segment = |path: &&PathBuf| path.starts_with("/node/commitlog");
        let segment = before.keys().find(is_segment).unwrap();
        golden.fs.corrupt(segment, 400, 0x40);
        let plan = Plan::of(&fs, &request).unwrap();
        let error = plan.check(|_| false).unwrap_err().to_string();
        let name = segment.file_name().unwrap().to_string_lossy();
        assert!(error.contains(&*name) && error.contains("nodetool drain"), "{error}");
        let opened = open_read_only(golden.options(), &[PathBuf::from("/node")]).unwrap();
        assert!(opened.warnings.iter().any(|warning| warning.contains(&*name)), "{:?}", opened.warnings);
    }
}

/// Checks what queries of tables do not show.
fn check_definitions(database: &Database, plan: &Plan) {
    let session = database.session();
    let rows = |query: &str| session.execute(query, ()).unwrap().len();
    assert_eq!(rows("SELECT * FROM system_auth.role_members WHERE role = 'readers' AND member = 'alice'"), 1);
    assert_eq!(rows("SELECT * FROM system_auth.role_permissions WHERE role = 'readers'"), 1);
    assert_eq!(rows("SELECT * FROM system_schema.column_masks WHERE keyspace_name = 'shop'"), 1);
    assert_eq!(rows("SELECT * FROM system_schema.dropped_columns WHERE keyspace_name = 'shop'"), 2);
    let catalog = database.catalog();
    for planned in &plan.tables {
        let table = catalog.table(&planned.table.keyspace, &planned.table.name).unwrap();
        assert_eq!(table.id, planned.table.id);
        assert_eq!(table.params, planned.table.params, "{}", table.name);
    }
}

/// The query needs an index: it does not allow filtering.
fn check_sasi(database: &Database) {
    let session = database.session();
    session.execute("INSERT INTO shop.items (id, again) VALUES (5000, 7)", ()).unwrap();
    let found = session.query_one::<(i32,)>("SELECT id FROM shop.items WHERE again > 6", ()).unwrap();
    assert_eq!(found, (5000,));
}

#[test]
fn nodes_opened_for_reading_only_answer_as_cassandra_did() {
    for name in ["nb", "da"] {
        let golden = Golden::open(name);
        let before = files(&golden.fs, "/node");
        let opened = open_read_only(golden.options(), &[PathBuf::from("/node")]).unwrap();
        assert!(golden.compare(&opened.database, false) > 5000);
        opened.database.close().unwrap();
        assert_eq!(files(&golden.fs, "/node"), before);
    }
}

/// Without checksums, a damaged index hides rows: its filter does not match it then.
#[test]
fn a_damaged_index_is_found_without_reading_all_rows_of_the_others() {
    let golden = Golden::open("nb");
    let of_items = |path: &&PathBuf| {
        let path = path.to_string_lossy();
        path.contains("/items-") && path.ends_with("-big-Index.db") && !path.contains("/.")
    };
    let indexes: Vec<PathBuf> = files(&golden.fs, "/node").keys().filter(of_items).cloned().collect();
    assert_eq!(indexes.len(), 2);
    golden.fs.corrupt(&indexes[1], 3, 0x40);
    let fs: Arc<dyn FileSystem> = Arc::new(golden.fs.clone());
    let options = AdoptOptions { target: "/target".into(), copy: false, verify: false };
    let error = adopt(&fs, golden.clock(), &plan(&golden), &options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("shop.items") && error.contains("Index.db"), "{error}");
    assert!(!fs.exists(Path::new("/target")).unwrap());
}
