//! What targets work on: databases in memory, made the same way every time.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cassette_database::{Database, Node, Options, Session};
use cassette_encryption::{AesGcm, Key, KeyError, Keys};
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};

/// The keyspace of all tables.
pub const KEYSPACE: &str = "ks";

/// The types of the columns `c0`, `c1`, … of the table `v`, whose key is `k int`.
pub const TYPES: [&str; 31] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
    "frozen<list<int>>",
    "frozen<set<text>>",
    "frozen<map<text, varint>>",
    "frozen<tuple<int, text, decimal>>",
    "frozen<u>",
    "vector<float, 3>",
    "vector<text, 2>",
    "list<text>",
    "set<timestamp>",
    "map<int, frozen<list<double>>>",
    "u",
    "frozen<list<frozen<map<uuid, frozen<u>>>>>",
];

/// The directory of its database.
pub const DATA: &str = "/db";

/// A database in memory.
pub struct World {
    /// No two have the same number, and none has 0.
    pub number: u64,
    pub files: Arc<FakeFileSystem>,
    pub clock: Arc<ManualClock>,
    pub database: Database,
    pub session: Session,
    used: u32,
}

/// Options of a database in memory that does nothing by itself.
pub fn options(files: &Arc<FakeFileSystem>, clock: &Arc<ManualClock>) -> Options {
    let mut options = Options::new(DATA);
    options.engine = engine_options();
    options.file_system = files.clone();
    options.clock = clock.clone();
    options.node = Node::default();
    options
}

/// The engine's part of [`options`].
pub fn engine_options() -> cassette_engine::Options {
    let mut engine = cassette_engine::Options::new(DATA);
    engine.background_threads = false;
    engine.commitlog_segment_size = 1 << 20;
    engine.memtable_heap_space = 8 << 20;
    engine.commitlog_encryption = Some(encryption(false));
    // Small, so that partitions of a few rows have an index of rows.
    engine.column_index_size = 512;
    engine.file_cache_size = 4 << 20;
    engine.key_cache_size = 1 << 20;
    engine.counter_cache_size = 1 << 20;
    engine
}

#[derive(Debug)]
struct TheKey;

impl Keys for TheKey {
    fn key(&self, alias: &str) -> Result<Key, KeyError> {
        if alias == "key" { Key::new(vec![7; 32]) } else { Err(KeyError("no such key".to_owned())) }
    }
}

/// Decrypts segments of the commit log, and encrypts new ones if `encrypts`.
pub fn encryption(encrypts: bool) -> Arc<dyn Encryption> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let salt = || [LAST.fetch_add(1, Ordering::Relaxed) as u8; 32];
    Arc::new(AesGcm::new(TheKey, encrypts.then(|| "key".to_owned())).unwrap().with_salts(salt))
}

/// A clock at a date of this century that stands still.
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at_micros(1_700_000_000_000_000))
}

impl World {
    /// Opens the database and creates what targets use.
    pub fn new() -> Self {
        let (files, clock) = (Arc::new(FakeFileSystem::new()), clock());
        let database = Database::open(options(&files, &clock)).unwrap();
        let session = database.session();
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let mut world = Self { number, files, clock, database, session, used: 0 };
        world.run(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ));
        world.run(&format!("USE {KEYSPACE}"));
        world.run("CREATE TYPE u (a int, b text, c frozen<list<bigint>>)");
        let columns: Vec<String> = TYPES.iter().enumerate().map(|(n, of)| format!("c{n} {of}")).collect();
        world.run(&format!("CREATE TABLE v (k int PRIMARY KEY, {})", columns.join(", ")));
        world.run(
            "CREATE TABLE t (p int, c int, v text, s int STATIC, l list<int>, m map<text, int>, \
             PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)",
        );
        world.run("CREATE TABLE n (p text, c timeuuid, n counter, PRIMARY KEY (p, c))");
        world.run("CREATE INDEX t_v ON t (v)");
        for (p, c) in (0..3).flat_map(|p| (0..7).map(move |c| (p, c))) {
            world.run(&format!(
                "INSERT INTO t (p, c, v, s, l, m) VALUES ({p}, {c}, 'v{c}', {p}, [1, {c}], {{'a': {p}}})"
            ));
        }
        world.used = 0;
        world
    }

    /// Executes a statement that must succeed.
    pub fn run(&mut self, cql: &str) {
        self.clock.advance(Duration::from_micros(1));
        self.session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
        self.used += 1;
    }
}

/// Runs `body` on this thread's database, which is made again after many uses, so that what inputs
/// leave in it stays small.
pub fn with_world<T>(body: impl FnOnce(&World) -> T) -> T {
    const USES: u32 = 3000;
    thread_local! {
        static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    }
    WORLD.with_borrow_mut(|world| {
        let world = match world {
            Some(world) if world.used < USES => world,
            stale => stale.insert(World::new()),
        };
        world.used += 1;
        world.clock.advance(Duration::from_micros(1));
        body(world)
    })
}

/// Writes a file, with the directories above it.
pub fn put(files: &FakeFileSystem, path: &Path, content: &[u8]) {
    if let Some(parent) = path.parent() {
        files.create_dir_all(parent).unwrap();
    }
    let mut file = files.create(path).unwrap();
    file.write_all(content).unwrap();
}
