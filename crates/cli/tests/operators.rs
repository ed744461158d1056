//! Operators' tools: `cassette nodetool` and the page of the admin endpoint, with a running server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const CASSETTE: &str = env!("CARGO_BIN_EXE_cassette");

struct Server {
    process: Child,
    admin: String,
    directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        Self::over(|_| ())
    }

    /// A server with one row in the table `ks.t`.
    fn with_row() -> Self {
        Self::over(|data| {
            run(
                data,
                &[
                    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                    "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
                    "INSERT INTO ks.t (k, v) VALUES (1, 'one')",
                ],
            );
        })
    }

    /// A server over a data directory that was prepared.
    fn over(prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        prepare(&directory.path().join("data"));
        let mut process = Command::new(CASSETTE)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data"])
            .arg(directory.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let admin = lines
            .map(Result::unwrap)
            .find_map(|line| Some(line.split_once("http://")?.1.trim_end_matches('/').to_owned()))
            .expect("the address of the admin endpoint");
        Self { process, admin, directory }
    }

    fn nodetool(&self, words: &str) -> Output {
        let (host, port) = self.admin.split_once(':').unwrap();
        let all = ["nodetool", "-h", host, "-p", port].into_iter().chain(words.split_whitespace());
        Command::new(CASSETTE).args(all).output().unwrap()
    }

    /// Returns the output of a successful command.
    fn shows(&self, words: &str) -> String {
        let output = self.nodetool(words);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{words}: {out}{err}");
        out.into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn every_command_that_reads_answers_as_text_and_as_json() {
    let server = Server::start();
    for command in [
        "info",
        "status",
        "ring",
        "describecluster",
        "version",
        "gcstats",
        "proxyhistograms",
        "tpstats",
        "clientstats --all",
        "statusbinary",
        "tablestats system",
        "cfstats -H system.local",
        "tablehistograms system local",
        "datapaths system",
        "compactionstats -H",
        "compactionhistory",
        "getcompactionthroughput",
        "getconcurrentcompactors",
        "getlogginglevels",
        "gettraceprobability",
        "listsnapshots",
        "unknowntables",
        "statusautocompaction --all",
        "toppartitions system local 50",
    ] {
        assert!(!server.shows(command).is_empty(), "{command}");
        let json = server.shows(&format!("{command} --format json"));
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{command}: {json}");
    }
    assert!(server.shows("tablestats -F yaml system.local").contains("total_number_of_tables: 1"));
}

#[test]
fn commands_that_change_something_change_it() {
    let server = Server::start();
    server.shows("flush system local");
    server.shows("compact system local");
    server.shows("compact -st -9223372036854775808 -et 9223372036854775807 system local");
    assert!(server.shows("compactionhistory").contains("{compaction_type:Major compaction}"));
    server.shows("setcompactionthroughput 32");
    assert_eq!(server.shows("getcompactionthroughput"), "Current compaction throughput: 32 MB/s\n");
    server.shows("setconcurrentcompactors 3");
    assert!(server.shows("getconcurrentcompactors").contains('3'));
    server.shows("setcachecapacity 11 22 33");
    let info = server.shows("info");
    let line = |label: &str| info.lines().find(|line| line.starts_with(label)).unwrap().to_owned();
    assert!(
        line("Key Cache").contains("capacity 11 MiB")
            && line("Key Cache").ends_with("14400 save period in seconds")
    );
    assert!(
        line("Row Cache").contains("capacity 22 MiB")
            && line("Row Cache").ends_with(" 0 save period in seconds")
    );
    assert!(line("Counter Cache").contains("capacity 33 MiB"));
    assert!(line("Counter Cache").ends_with("7200 save period in seconds"));
    server.shows("setcachekeystosave 1 0 0");
    server.shows("invalidatecountercache");
    server.shows("invalidaterowcache");
    server.shows("invalidatekeycache");
    for command in [
        "invalidatecredentialscache",
        "invalidatecredentialscache a b",
        "invalidaterolescache",
        "invalidatepermissionscache",
        "invalidatepermissionscache a --keyspace system",
        "invalidatenetworkpermissionscache a",
        "invalidatejmxpermissionscache",
        "reloadssl",
    ] {
        assert_eq!(server.shows(command), "", "{command}");
    }
    assert_eq!(server.shows("gettraceprobability"), "Current trace probability: 0.0\n");
    server.shows("settraceprobability 0.25");
    assert_eq!(server.shows("gettraceprobability"), "Current trace probability: 0.25\n");
    server.shows("disableautocompaction system local");
    assert_eq!(server.shows("statusautocompaction system"), "partially running\n");
    assert_eq!(server.shows("statusautocompaction system local"), "not running\n");
    server.shows("enableautocompaction system local");
    assert_eq!(server.shows("statusautocompaction system"), "running\n");
    server.shows("setlogginglevel compaction DEBUG");
    assert!(server.shows("getlogginglevels").contains("cassette_engine::compaction"));
    assert!(server.shows("snapshot -t now system").ends_with("Snapshot directory: now\n"));
    assert!(server.shows("listsnapshots").contains("now           system"));
    server.shows("clearsnapshot -t now");
    assert_eq!(server.shows("listsnapshots"), "Snapshot Details: \nThere are no snapshots\n");
    server.shows("verify -f system local");
    server.shows("upgradesstables -a system local");
    server.shows("scrub system local");
    assert!(server.shows("listsnapshots").contains("pre-scrub-"));
    server.shows("drain");
    assert_eq!(server.shows("statusbinary"), "not running\n");
}

#[test]
fn files_are_imported_refreshed_and_rewritten_while_their_table_is_in_use() {
    let server = Server::over(|data| {
        let database = cassette_database::Database::open(data).unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH compaction = \
             {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}",
            "INSERT INTO ks.t (k, v) VALUES (1, 'one')",
            "INSERT INTO ks.t (k, v) VALUES (2, 'two')",
        ] {
            session.execute(cql, ()).unwrap();
        }
        drop(session);
        database.close().unwrap();
    });
    let sstables = || {
        let stats = server.shows("tablestats -F json ks.t");
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats["ks"]["tables"]["t"]["sstable_count"].as_u64().unwrap()
    };
    server.shows("snapshot -t taken -cf t ks");
    assert_eq!(sstables(), 1);
    let tables = std::fs::read_dir(server.directory.path().join("data/data/ks")).unwrap();
    let table = tables.map(|entry| entry.unwrap().path()).next().unwrap();
    let taken = table.join("snapshots/taken");
    let said = server.shows(&format!("import --copy-data ks t {}", taken.display()));
    assert!(said.starts_with(&format!("{}: 1 SSTable (", taken.display())), "{said}");
    assert!(said.ends_with(" bytes) copied\n"), "{said}");
    assert_eq!(sstables(), 2);
    for entry in std::fs::read_dir(&taken).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some((number, component)) = name.strip_prefix("nb-").and_then(|name| name.split_once('-')) {
            assert!(number.parse::<u64>().is_ok(), "{name}");
            std::fs::copy(entry.path(), table.join(format!("nb-77-{component}"))).unwrap();
        }
    }
    assert!(server.shows("refresh ks t").contains("\nks.t: 1 SSTable ("));
    assert_eq!(sstables(), 3);
    let files = || {
        let entries = std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<_> = entries.collect();
        files.sort();
        files
    };
    let before = files();
    server.shows("upgradesstables ks t");
    assert_eq!(files(), before, "all are of the version of now");
    server.shows("garbagecollect -g CELL ks t");
    assert_ne!(files(), before);
    assert!(server.shows("compactionhistory").contains("{compaction_type:Remove deleted data}"));
    server.shows("stop COMPACTION");
    // The schema disables them.
    server.shows("enableautocompaction ks t");
    assert_eq!(server.shows("statusautocompaction ks t"), "running\n");
}

/// Runs statements on a data directory that no server uses.
fn run(data: &Path, statements: &[&str]) -> usize {
    let database = cassette_database::Database::open(data).unwrap();
    let session = database.session();
    let mut rows = 0;
    for cql in statements {
        rows = session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")).len();
    }
    drop(session);
    database.engine().flush(None).unwrap();
    database.close().unwrap();
    rows
}

#[test]
fn tables_that_the_schema_lost_are_listed_adopted_and_removed() {
    let mut server = Server::over(|data| {
        run(
            data,
            &[
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
                "INSERT INTO ks.t (k, v) VALUES (1, 'one')",
                "CREATE TABLE ks.gone (k int PRIMARY KEY)",
                "INSERT INTO ks.gone (k) VALUES (1)",
            ],
        );
        std::fs::remove_dir_all(data.join("data/system_schema")).unwrap();
    });
    let unknown = || {
        let found: serde_json::Value =
            serde_json::from_str(&server.shows("unknowntables --format json")).unwrap();
        let found = found.as_array().unwrap().iter();
        let named = found.map(|one| {
            let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            (text("table"), (text("id"), text("directory")))
        });
        named.collect::<std::collections::BTreeMap<_, _>>()
    };
    let found = unknown();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["gone", "t"]);
    let listed = server.shows("unknowntables");
    let (id, _) = &found["t"];
    assert!(listed.contains(id), "{listed}");
    let said = server.shows(&format!("adopttable {id}"));
    assert!(said.starts_with("ks.t: adopted with "), "{said}");
    assert_eq!(unknown().keys().collect::<Vec<_>>(), ["gone"]);
    let again = server.nodetool(&format!("adopttable {id}"));
    assert_eq!(again.status.code(), Some(2), "{again:?}");

    let (id, directory) = &found["gone"];
    assert_eq!(server.nodetool(&format!("removeunknowntable {id}")).status.code(), Some(1));
    let files = || std::fs::read_dir(directory).map_or(0, Iterator::count);
    assert!(files() > 0);
    server.shows(&format!("removeunknowntable --yes {id}"));
    assert_eq!(files(), 0);
    assert_eq!(server.shows("unknowntables"), "There are no unknown tables\n");

    server.process.kill().unwrap();
    server.process.wait().unwrap();
    // SSTables do not contain the names of key columns: the adopted table names its partition key
    // `key`.
    let data = server.directory.path().join("data");
    assert_eq!(run(&data, &["SELECT key FROM ks.t WHERE key = 1 AND v = 'one' ALLOW FILTERING"]), 1);
}

#[test]
fn a_running_server_is_backed_up_and_restored_and_its_backup_becomes_a_new_directory() {
    let server = Server::with_row();
    let path = |name: &str| server.directory.path().join(name);
    let (backups, data) = (path("backups").display().to_string(), path("data").display().to_string());
    let cassette = |words: &str| {
        let output = Command::new(CASSETTE).args(words.split_whitespace()).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), out, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (created, _, error) = cassette(&format!("backup create --data {data} {backups}"));
    assert!(!created && error.contains("if a server has it open, use `cassette nodetool`"), "{error}");
    server.shows(&format!("backup {backups} --name first"));
    let said = server.shows(&format!("backup {backups} --name second ks"));
    assert!(said.starts_with("backup second: 1 tables, 1 SSTables, "), "{said}");
    let again = server.nodetool(&format!("backup {backups} --name second"));
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    let restored = server.shows(&format!("restorebackup --truncate {backups} ks.t"));
    assert!(restored.starts_with("backup second: restored 1 tables, 1 SSTables"), "{restored}");

    let (_, listed, _) = cassette(&format!("backup list --json {backups}"));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|backup| backup["name"].as_str()).collect();
    assert_eq!(names, [Some("first"), Some("second")]);
    let (verified, out, _) = cassette(&format!("backup verify {backups}"));
    assert!(verified && out.ends_with(" bytes: no damage\n"), "{out}");
    let target = path("restored");
    let words = format!("backup restore {backups} --name first --data {}", target.display());
    let (planned, out, _) = cassette(&format!("{words} --dry-run"));
    assert!(planned && out.contains("ks.t  1 SSTables, ") && !target.exists(), "{out}");
    let (restored, out, error) = cassette(&words);
    assert!(restored, "{out}{error}");
    assert_eq!(run(&target, &["SELECT k FROM ks.t WHERE k = 1"]), 1);
    // Into a directory that exists and no server has open.
    let (restored, out, error) = cassette(&format!("{words} --truncate ks.t"));
    assert!(restored, "{out}{error}");
    assert_eq!(run(&target, &["SELECT k FROM ks.t"]), 1);
    assert!(cassette(&format!("backup remove {backups} first")).0);
    assert!(cassette(&format!("backup verify {backups}")).0);
}

#[test]
fn encrypted_backups_are_created_verified_and_restored_with_their_key_only() {
    use std::os::unix::fs::PermissionsExt;

    let server = Server::with_row();
    let path = |name: &str| server.directory.path().join(name).display().to_string();
    let (backups, keys, target) = (path("backups"), path("keys"), path("restored"));
    std::fs::write(&keys, format!("first {}\n", "07".repeat(32))).unwrap();
    let chmod = |mode| std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(mode)).unwrap();
    chmod(0o644);
    let refused = server.nodetool(&format!("backup {backups} --key-file {keys}"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("chmod 600"), "{refused:?}");
    chmod(0o600);
    server.shows(&format!("backup {backups} --name one --key-file {keys}"));
    let restored = server.shows(&format!("restorebackup --truncate --key-file {keys} {backups} ks.t"));
    assert!(restored.starts_with("backup one: restored 1 tables, 1 SSTables"), "{restored}");
    let cassette = |words: &str| {
        let output = Command::new(CASSETTE).args(words.split_whitespace()).output().unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (listed, text) = cassette(&format!("backup list {backups} --key-file {keys}"));
    assert!(listed && text.ends_with(" bytes, key first\n"), "{text}");
    let (verified, text) = cassette(&format!("backup verify {backups} --key-file {keys}"));
    assert!(verified && text.ends_with(" bytes: no damage\n"), "{text}");
    let (verified, text) = cassette(&format!("backup verify {backups}"));
    assert!(!verified && text.contains("the backups here are encrypted"), "{text}");
    let words = format!("backup restore {backups} --key-file {keys} --data {target}");
    let (planned, text) = cassette(&format!("{words} --dry-run"));
    assert!(planned && text.contains("ks.t  1 SSTables, "), "{text}");
    let (restored, text) = cassette(&words);
    assert!(restored, "{text}");
    assert_eq!(run(Path::new(&target), &["SELECT k FROM ks.t WHERE k = 1"]), 1);
    assert!(cassette(&format!("backup remove {backups} one --key-file {keys}")).0);
}

/// Commands, their exit codes, and the start of what they print.
const COMMANDS: [(&str, i32, &str); 26] = [
    (
        "flush nosuch",
        1,
        "nodetool: Keyspace [nosuch] does not exist.\nSee 'nodetool help' or 'nodetool help <command>'.\n",
    ),
    (
        "tablestats -F xml",
        1,
        "nodetool: arguments for -F are json,yaml only.\nSee 'nodetool help' or 'nodetool help <command>'.\n",
    ),
    (
        "clearsnapshot",
        1,
        "nodetool: Specify snapshot name or --all\nSee 'nodetool help' or 'nodetool help <command>'.\n",
    ),
    (
        "setcachecapacity 1 2",
        1,
        "nodetool: setcachecapacity requires key-cache-capacity, row-cache-capacity, and \
         counter-cache-capacity args.\n",
    ),
    ("setcachecapacity 1 100000000 1", 1, "nodetool: row_cache_size of "),
    ("compact -st x -et 1 system", 2, ""),
    ("flush system_views", 1, "nodetool: Keyspace [system_views] does not exist.\n"),
    ("setcompactionthroughput -1", 1, "nodetool: Invalid data rate: value must be non-negative\n"),
    ("setcompactionthroughput x", 1, "nodetool: compaction_throughput: can not convert \"x\" to a Integer\n"),
    ("stop X", 1, "nodetool: compaction_type: can not convert \"X\" to a OperationType\n"),
    ("status nosuch", 1, "\nError: The keyspace nosuch, does not exist\n"),
    (
        "verify system",
        1,
        "verify is disabled unless a [-f|--force] override flag is provided. See CASSANDRA-9947 and \
         CASSANDRA-17017 for details.\n",
    ),
    (
        "snapshot -t s nosuch",
        1,
        "Requested creating snapshot(s) for [nosuch] with snapshot name [s] and options {skipFlush=false}\n\
         nodetool: Keyspace nosuch does not exist\n",
    ),
    (
        "snapshot -t s -kt system.nosuch",
        1,
        "Requested creating snapshot(s) for [system.nosuch] with snapshot name [s] and options \
         {skipFlush=false}\n\
         nodetool: Unknown keyspace/cf pair (system.nosuch)\n",
    ),
    ("stop -id x", 1, "nodetool: Invalid UUID string: x\n"),
    ("disableautocompaction system nosuch", 1, "nodetool: Unknown keyspace/cf pair (system.nosuch)\n"),
    ("statusautocompaction system nosuch", 1, "nodetool: Unknown keyspace/cf pair (system.nosuch)\n"),
    ("scrub system nosuch", 1, "nodetool: Unknown keyspace/cf pair (system.nosuch)\n"),
    ("import nosuch t /nowhere", 1, ""),
    (
        "refresh system nosuch",
        1,
        "nodetool refresh is deprecated, use nodetool import instead\n\
         nodetool: Unknown keyspace/cf pair (system.nosuch)\n",
    ),
    ("clientstats --clear-history", 0, "Clearing connection history\n"),
    ("clientstats --by-protocol", 0, "Clients by protocol version\n\n"),
    ("clientstats --verbose", 1, "nodetool: Found unexpected parameters: [--verbose]\n"),
    ("repair", 2, ""),
    ("import system local /nowhere", 2, ""),
    ("flush system nosuch", 2, ""),
];

#[test]
fn failures_have_cassandras_words_and_exit_codes() {
    let server = Server::start();
    for (words, code, said) in COMMANDS {
        let output = server.nodetool(words);
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(said), "{words}: {output:?}");
        let expected = match words {
            "import system local /nowhere" => "error: Directory /nowhere does not exist\n",
            "compact -st x -et 1 system" => {
                "error: Invalid token for Murmur3Partitioner. Got x but expected a long value (unsigned 8 \
                 bytes integer).\n"
            }
            "flush system nosuch" => "error: Unknown keyspace/cf pair (system.nosuch)\n",
            "import nosuch t /nowhere" => "ColumnFamilyStore for nosuch/t not found.\n",
            "repair" => {
                "error: Cassette does not support repair: it requires several nodes, and there is one\n"
            }
            _ => "",
        };
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{words}");
    }
    let unreachable = Command::new(CASSETTE).args(["nodetool", "-p", "1", "status"]).output().unwrap();
    assert_eq!(unreachable.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&unreachable.stderr),
        "nodetool: Failed to connect to '127.0.0.1:1' - ConnectException: 'Connection refused'.\n"
    );
}

/// A browser, if this machine has one.
fn browser() -> Option<&'static str> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| std::env::split_paths(&paths).any(|path| Path::new(&path).join(name).exists()))
}

#[test]
fn the_page_shows_live_metrics_in_a_browser() {
    let Some(browser) = browser() else {
        eprintln!(
            "SKIPPED, NOT TESTED: the page of the admin endpoint; there is no chromium on this machine"
        );
        return;
    };
    let server = Server::start();
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=7000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/", server.admin))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    for shown in [
        "<p id=\"state\" role=\"status\" class=\"\">live</p>",
        "<td>Native-Transport-Requests</td>",
        "<span>requests/s</span>",
        "<td>Conditional writes</td>",
        "No compaction is running.",
        "chunk cache",
    ] {
        assert!(page.contains(shown), "{shown} is not in\n{page}");
    }
}
