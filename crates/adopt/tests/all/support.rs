//! Directories as Cassandra leaves them, in a file system in memory.
//!
//! They are made by this program's own engine, whose files have Cassandra's format and layout; what
//! Cassandra itself wrote is in `golden.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_adopt::{AdoptOptions, Adopted, Plan, PlanRequest, Result, adopt};
use cassette_database::{Database, Options};
use cassette_vfs::{Clock, FakeFileSystem, FileSystem, ManualClock};

/// The time of all databases, microseconds.
const NOW: i64 = 1_800_000_000_000_000;

/// A keyspace with a table, an index, a view, a type, a dropped column, a counter, TTLs.
pub const SCHEMA: [&str; 8] = [
    "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE app.place (street text, number int)",
    "CREATE TABLE app.users (id int, at int, name text, gone int, home place, tags set<text>, s text static, \
     PRIMARY KEY (id, at))",
    "ALTER TABLE app.users DROP gone",
    "CREATE INDEX by_name ON app.users (name)",
    "CREATE CUSTOM INDEX by_tag ON app.users (tags) USING 'StorageAttachedIndex'",
    "CREATE MATERIALIZED VIEW app.names AS SELECT id, at, name FROM app.users WHERE id IS NOT NULL AND at IS NOT \
     NULL AND name IS NOT NULL PRIMARY KEY (name, id, at)",
    "CREATE TABLE app.visits (page text PRIMARY KEY, n counter)",
];

/// The queries whose answers are compared.
pub const QUERIES: [&str; 7] = [
    "SELECT id, at, name, home, tags, s, writetime(name), ttl(name), writetime(s) FROM app.users",
    "SELECT * FROM app.names",
    "SELECT id FROM app.names WHERE name = 'n3'",
    "SELECT id, at FROM app.users WHERE name = 'n3'",
    "SELECT id, at FROM app.users WHERE tags CONTAINS 't1'",
    "SELECT * FROM app.visits",
    "SELECT table_name, column_name, type FROM system_schema.dropped_columns WHERE keyspace_name = 'app'",
];

/// Returns the options of a database in `fs`.
pub fn options(fs: &FakeFileSystem, path: &str) -> Options {
    let mut options = Options::new(path);
    options.file_system = Arc::new(fs.clone());
    options.clock = clock();
    options.engine.background_threads = false;
    options.materialized_views_enabled = true;
    options
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at_micros(NOW))
}

/// Executes statements.
pub fn run(database: &Database, statements: &[&str]) {
    let session = database.session();
    for statement in statements {
        session.execute(statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Writes the rows of one flush.
pub fn write(database: &Database, round: i32) {
    let session = database.session();
    let execute = |cql: String| {
        session.execute(&cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    };
    for i in 0..20 {
        let at = 1_700_000_000_000_000 + i64::from(round) * 1000 + i64::from(i);
        let ttl = if i % 3 == 0 { " AND TTL 300000000" } else { "" };
        execute(format!(
            "INSERT INTO app.users (id, at, name, home, tags) VALUES ({}, {i}, 'n{}', {{street: 's', number: {i}}}, \
             {{'t{}', 'x'}}) USING TIMESTAMP {at}{ttl}",
            i % 7,
            (i + round) % 5,
            i % 4
        ));
        execute(format!("UPDATE app.visits SET n = n + {i} WHERE page = 'p{}'", i % 3));
    }
    execute(format!("UPDATE app.users SET s = 's{round}' WHERE id = {round}"));
    execute(format!("DELETE FROM app.users WHERE id = {round} AND at > 10"));
}

/// Closes a database with all rows in SSTables, and makes its tables a node of Cassandra in
/// `home`.
pub fn leave(database: Database, fs: &FakeFileSystem, from: &str, home: &str) {
    database.engine().flush(None).unwrap();
    database.close().unwrap();
    drop(database);
    copy(fs, &Path::new(from).join("data"), &Path::new(home).join("data"));
    fs.create_dir_all(&Path::new(home).join("commitlog")).unwrap();
    for directory in directories(fs, Path::new("/")) {
        fs.sync_dir(&directory).unwrap();
    }
}

/// Returns a file system with the node `/cassandra`, and its answers.
pub fn node() -> (FakeFileSystem, Answers) {
    let fs = FakeFileSystem::new();
    let database = Database::open(options(&fs, "/made")).unwrap();
    run(&database, &SCHEMA);
    for round in 0..3 {
        write(&database, round);
        database.engine().flush(None).unwrap();
    }
    let answers = answers(&database);
    leave(database, &fs, "/made", "/cassandra");
    fs.remove_dir_all(Path::new("/made")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    (fs, answers)
}

/// The rows of all queries, as bytes.
pub type Answers = Vec<Vec<Vec<Option<Vec<u8>>>>>;

pub fn answers(database: &Database) -> Answers {
    let session = database.session();
    let answer = |query: &&str| {
        let rows = session.execute(query, ()).unwrap_or_else(|error| panic!("{query}: {error}"));
        let columns = rows.columns().len();
        rows.iter().map(|row| (0..columns).map(|i| row.bytes(i).map(<[u8]>::to_vec)).collect()).collect()
    };
    QUERIES.iter().map(answer).collect()
}

/// Plans and adopts into `/target`.
pub fn take_in(fs: &FakeFileSystem, directories: &[&str]) -> Result<Adopted> {
    take_into(fs, directories, "/target")
}

/// Plans and adopts.
pub fn take_into(fs: &FakeFileSystem, directories: &[&str], target: &str) -> Result<Adopted> {
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let plan = Plan::of(&shared, &request(directories))?;
    plan.check(|_| false)?;
    let options = AdoptOptions { target: target.into(), copy: false, verify: false };
    adopt(&shared, clock(), &plan, &options, &mut |_| {})
}

pub fn request(directories: &[&str]) -> PlanRequest {
    PlanRequest { directories: directories.iter().map(PathBuf::from).collect(), ..PlanRequest::default() }
}

/// Returns the contents and modification times of all files below a directory.
pub fn files(fs: &FakeFileSystem, directory: &str) -> BTreeMap<PathBuf, (Vec<u8>, i64)> {
    let mut found = BTreeMap::new();
    for directory in directories(fs, Path::new(directory)) {
        for entry in fs.read_dir(&directory).unwrap().iter().filter(|entry| !entry.is_dir) {
            let path = directory.join(&entry.name);
            let modified = fs.metadata(&path).unwrap().modified_millis;
            found.insert(path.clone(), ((fs as &dyn FileSystem).read(&path).unwrap(), modified));
        }
    }
    found
}

/// Returns a directory and those below it, each after the one above it.
pub fn directories(fs: &FakeFileSystem, directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for entry in fs.read_dir(directory).unwrap().iter().filter(|entry| entry.is_dir) {
        found.extend(directories(fs, &directory.join(&entry.name)));
    }
    found
}

/// Writes a file, and creates the directories above it.
pub fn put(fs: &FakeFileSystem, path: &str, content: &[u8]) {
    let path = Path::new(path);
    fs.create_dir_all(path.parent().unwrap()).unwrap();
    fs.create(path).unwrap().write_all(content).unwrap();
}

pub fn copy(fs: &FakeFileSystem, from: &Path, to: &Path) {
    fs.create_dir_all(to).unwrap();
    for entry in fs.read_dir(from).unwrap() {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        if entry.is_dir {
            copy(fs, &from, &to);
        } else {
            let content = (fs as &dyn FileSystem).read(&from).unwrap();
            let mut file = fs.create(&to).unwrap();
            file.write_all(&content).unwrap();
            file.sync().unwrap();
        }
    }
}
