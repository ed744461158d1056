//! The judgement of Cassandra itself on the files that we write.
//!
//! Cassandra 5.0.8 comes from Maven, once, into the target directory (or from `CASSANDRA_LIB`, a folder of its jars), and
//! runs on JDK 17. Where Maven or a JDK is missing the test says so loudly and judges nothing.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use cassette_sstable::compression::{ChunkFormat, Compressor};
use cassette_sstable::dump::{DumpFormat, DumpOptions};
use cassette_sstable::{ChunkCache, Component, Descriptor, SSTableId, WriterOptions};
use cassette_vfs::RealFileSystem;
use support::random_table::{Contents, RandomTable, tables};
use support::value_text::Simple;
use support::{GoldenTable, component, golden_tables, model, open, rewrite, rewrite_options, write};

const VERSION: &str = "5.0.8";

/// What Cassandra opens of the JDK's modules in its own `jvm17-server.options`.
const MODULES: &[&str] = &[
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/sun.net.www.protocol.jar",
    "java.management.rmi/sun.management.jmxremote",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.management/com.sun.management.internal",
    "jdk.management.jfr/jdk.management.jfr",
    "jdk.unsupported/sun.misc",
    "java.logging/java.util.logging",
];

/// Cassandra's jars, and a folder for its configuration and data.
struct Cassandra {
    lib: PathBuf,
    home: tempfile::TempDir,
}

fn skipped(why: &str) -> Option<Cassandra> {
    // Not by a macro, whose words the test harness keeps to itself when a test passes.
    let _ =
        writeln!(std::io::stderr(), "\n######## SKIPPED: Cassandra judges nothing here: {why} ########\n");
    // Where it must not be skipped (continuous integration), that is a failure.
    assert!(std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none(), "{why}");
    None
}

fn works(command: &str, argument: &str) -> bool {
    Command::new(command).arg(argument).output().is_ok_and(|output| output.status.success())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Cassandra {
    fn find() -> Option<Self> {
        if !works("java", "-version") || !works("javac", "-version") {
            return skipped("no JDK 17 (java, javac)");
        }
        let lib = match std::env::var_os("CASSANDRA_LIB") {
            Some(lib) => PathBuf::from(lib),
            None => {
                let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cassandra-{VERSION}"));
                if let Err(why) = download(&target) {
                    return skipped(&why);
                }
                target.join("lib")
            }
        };
        let cassandra = Self { lib, home: tempfile::tempdir().unwrap() };
        let home = cassandra.home.path();
        let yaml = format!(
            "cluster_name: oracle\nnum_tokens: 1\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
             commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\ncommitlog_directory: {0}/commitlog\n\
             data_file_directories: [{0}/data]\nsaved_caches_directory: {0}/saved_caches\nhints_directory: {0}/hints\n\
             cdc_raw_directory: {0}/cdc\nlisten_address: 127.0.0.1\nendpoint_snitch: SimpleSnitch\nseed_provider:\n  \
             - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters: [{{seeds: \"127.0.0.1:7000\"}}]\n",
            home.display()
        );
        std::fs::write(home.join("cassandra.yaml"), yaml).unwrap();
        std::fs::write(home.join("logback.xml"), "<configuration><root level=\"OFF\"/></configuration>")
            .unwrap();
        Some(cassandra)
    }

    fn class_path(&self) -> String {
        format!("{}:{}/*", self.home.path().display(), self.lib.display())
    }

    fn run(&self, class: &str, arguments: &[&Path]) -> Output {
        let home = self.home.path();
        let mut java = Command::new("java");
        for module in MODULES {
            java.args([
                format!("--add-exports={module}=ALL-UNNAMED"),
                format!("--add-opens={module}=ALL-UNNAMED"),
            ]);
        }
        java.args(["-Xmx1G", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true"])
            .arg("-Dlogback.configurationFile=logback.xml")
            .arg(format!("-Dcassandra.config=file://{}/cassandra.yaml", home.display()))
            .arg(format!("-Dcassandra.storagedir={}", home.display()))
            .args(["-cp", &self.class_path(), class])
            .args(arguments);
        java.output().unwrap()
    }

    fn compile(&self) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/SSTableCheck.java");
        let output = Command::new("javac")
            .args(["-nowarn", "-cp", &self.class_path(), "-d"])
            .arg(self.home.path())
            .arg(source)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Lets Cassandra judge all SSTables below `root`.
    fn judge(&self, schema: &str, root: &Path, original: Option<&Path>) -> String {
        let schema_file = self.home.path().join("schema.cql");
        std::fs::write(&schema_file, schema).unwrap();
        let _ = std::fs::remove_dir_all(self.home.path().join("data"));
        let arguments: Vec<&Path> = [schema_file.as_path(), root].into_iter().chain(original).collect();
        let output = self.run("SSTableCheck", &arguments);
        let said = text(&output);
        let failures: Vec<_> = said.lines().filter(|line| line.starts_with("FAIL")).collect();
        assert!(output.status.success() && failures.is_empty(), "{failures:#?}\n{said}");
        said
    }
}

/// Fetches the jars, once for all tests.
fn download(target: &Path) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    if target.join("complete").exists() {
        return Ok(());
    }
    if !works("mvn", "-version") {
        return Err("no Maven (mvn) to fetch Cassandra with".into());
    }
    std::fs::create_dir_all(target).map_err(|e| e.to_string())?;
    let pom = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>y</artifactId><version>1</version>\
         <dependencies><dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId>\
         <version>{VERSION}</version></dependency></dependencies></project>"
    );
    std::fs::write(target.join("pom.xml"), pom).map_err(|e| e.to_string())?;
    let output = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"])
        .current_dir(target)
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("Maven could not fetch Cassandra: {}", text(&output)));
    }
    std::fs::write(target.join("complete"), "").map_err(|e| e.to_string())
}

/// The statements of a case's schema that make its table; types and keyspace too, once.
fn add_schema(golden: &GoldenTable, schema: &mut String) {
    let text = std::fs::read_to_string(golden.case.join("schema.cql")).unwrap();
    let name = format!("golden.{}", golden.table.name);
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        let of_table = [" ", "\n"].iter().any(|end| {
            [format!("CREATE TABLE {name}{end}"), format!("ALTER TABLE {name}{end}")]
                .iter()
                .any(|start| statement.starts_with(start.as_str()))
        });
        let shared = statement.starts_with("CREATE KEYSPACE") || statement.starts_with("CREATE TYPE");
        if of_table || shared && !schema.contains(statement) {
            writeln!(schema, "{statement};").unwrap();
        }
    }
}

/// Cassandra's own dump of what it wrote and of what we wrote from it are the same, and our files pass all its checks.
#[test]
fn golden_tables_written_by_us_are_cassandras_to_cassandra() {
    let Some(cassandra) = Cassandra::find() else { return };
    cassandra.compile();
    let root = tempfile::tempdir().unwrap();
    let (ours, theirs) = (root.path().join("ours"), root.path().join("theirs"));
    let mut tables = BTreeSet::new();
    let mut schema = String::new();
    let mut count = 0;
    for golden in golden_tables() {
        // Some cases hold the same table at different times, under other numbers.
        let table = golden.directory.file_name().unwrap();
        if tables.insert(table.to_owned()) {
            add_schema(&golden, &mut schema);
        }
        // What has been dropped is not written again.
        let dropped = !golden.table.dropped_columns.is_empty();
        for reader in golden.open() {
            let [ours, theirs] = [&ours, &theirs].map(|root| root.join("golden").join(table));
            std::fs::create_dir_all(&ours).unwrap();
            std::fs::create_dir_all(&theirs).unwrap();
            rewrite(&reader, rewrite_options(&reader), &ours);
            if !dropped {
                for part in Component::ALL {
                    if let Some(bytes) = component(reader.descriptor(), part) {
                        std::fs::write(theirs.join(reader.descriptor().file_name(part)), bytes).unwrap();
                    }
                }
            }
            count += 1;
        }
    }
    std::fs::remove_dir(theirs.join("golden").join("altered-35ac221c64155c029dc7231a6e9b8ca5")).unwrap();
    // An ALTER opens the keyspace, which then learns of no more tables.
    let (alter, create): (Vec<_>, Vec<_>) =
        schema.split_inclusive(";\n").partition(|statement| statement.starts_with("ALTER"));
    let schema = create.concat() + &alter.concat();
    cassandra.judge(&schema, &theirs, None);
    let said = cassandra.judge(&schema, &ours, Some(&theirs));
    let verified = said.lines().filter(|line| line.ends_with(": verified")).count();
    assert_eq!(verified, count, "{said}");
}

fn formats() -> Vec<Option<ChunkFormat>> {
    let compressors = [
        Compressor::Lz4 { high: None },
        Compressor::Snappy,
        Compressor::Zstd { level: 3 },
        Compressor::Deflate,
        Compressor::Noop,
    ];
    let format = |compressor: Compressor, max_compressed_length| {
        Some(ChunkFormat { compressor, options: Vec::new(), chunk_length: 4096, max_compressed_length })
    };
    let always = compressors.iter().map(|compressor| format(compressor.clone(), i32::MAX));
    let sometimes = compressors.iter().map(|compressor| format(compressor.clone(), 3000));
    std::iter::once(None).chain(always).chain(sometimes).collect()
}

/// Random rows of every kind, under every compressor, pass all of Cassandra's checks, and it would write the same bytes.
#[test]
fn random_tables_written_by_us_pass_cassandras_checks() {
    let Some(cassandra) = Cassandra::find() else { return };
    cassandra.compile();
    let root = tempfile::tempdir().unwrap();
    let mut schema = String::from(
        "CREATE KEYSPACE random WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n",
    );
    let mut written = Vec::new();
    for (turn, RandomTable { table, cql }) in tables().into_iter().enumerate() {
        let options = match cql.contains(") WITH") {
            true => ") AND",
            false => ") WITH",
        };
        let id = table.id.0;
        writeln!(schema, "CREATE TABLE random.{} ({cql}{options} ID = {id};", table.name).unwrap();
        let directory = root.path().join("random").join(table.directory_name());
        std::fs::create_dir_all(&directory).unwrap();
        // The tables take the formats in turn: all of each would take minutes.
        for (number, format) in (1..).zip(formats().into_iter().skip(turn).step_by(4)) {
            let mut random = model::random(number);
            let sizes: Vec<_> = (0..30).map(|i| [0, 1, 3, 10, 400][i % 5]).collect();
            let updates = Contents { random: &mut random, table: table.clone() }.partitions(&sizes);
            let descriptor = Descriptor::new(&directory, SSTableId::Sequence(number));
            let change = |options| WriterOptions { compression: format, ..options };
            write(Arc::new(RealFileSystem), &descriptor, &table, &updates, change).unwrap().unwrap();
            written.push((descriptor, table.clone()));
        }
    }
    let said = cassandra.judge(&schema, root.path(), None);
    let verified = said.lines().filter(|line| line.ends_with(": verified")).count();
    assert_eq!(verified, written.len(), "{said}");

    // Our dump says what Cassandra's says.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    for (descriptor, table) in written {
        let reader = open(&descriptor, &table, &Arc::new(ChunkCache::new(1 << 20))).unwrap();
        let mut dump = Vec::new();
        let options =
            DumpOptions { format: DumpFormat::Json, raw_timestamps: true, keys: None, excluded: &[], now };
        reader.dump(&Simple, &options, &mut dump).unwrap();
        let ours: Vec<serde_json::Value> = serde_json::from_slice(&dump).unwrap();
        let name = descriptor.file_name(Component::Data).replace("-Data.db", ".json");
        let theirs = std::fs::read(descriptor.directory.join(name)).unwrap();
        let theirs: Vec<serde_json::Value> = serde_json::from_slice(&theirs).unwrap();
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{descriptor}");
        }
    }
}

/// The tools themselves, as people start them.
#[test]
fn sstabledump_and_sstablemetadata_take_our_files() {
    let Some(cassandra) = Cassandra::find() else { return };
    let root = tempfile::tempdir().unwrap();
    let RandomTable { table, .. } = tables().swap_remove(1);
    let directory = root.path().join("random").join(table.directory_name());
    std::fs::create_dir_all(&directory).unwrap();
    let mut random = model::random(3);
    let updates = Contents { random: &mut random, table: table.clone() }.partitions(&[3, 0, 20, 1]);
    let descriptor = Descriptor::new(&directory, SSTableId::Sequence(1));
    write(Arc::new(RealFileSystem), &descriptor, &table, &updates, |options| options).unwrap().unwrap();
    let data = descriptor.path(Component::Data);

    let output = cassandra.run("org.apache.cassandra.tools.SSTableExport", &[&data, Path::new("-t")]);
    assert!(output.status.success(), "{}", text(&output));
    let dump: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(dump.len(), updates.len());

    let output = cassandra.run("org.apache.cassandra.tools.SSTableMetadataViewer", &[&data]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for expected in
        ["Compressor: org.apache.cassandra.io.compress.LZ4Compressor", "SSTable Level: 0", "Repaired at: 0"]
    {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}
