//! Runs Apache Cassandra's code in tests.
//!
//! Cassandra 5.0.8 comes from Maven, once, into the target directory (or from `CASSANDRA_LIB`, a
//! folder of its jars), and runs on JDK 17. Without Maven or a JDK a test prints a warning and
//! checks nothing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

const VERSION: &str = "5.0.8";

/// The modules of the JDK that Cassandra opens in its own `jvm17-server.options`.
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

/// Cassandra's jars, a folder for compiled programs, and one for its configuration and data.
pub struct Cassandra {
    lib: PathBuf,
    classes: Arc<tempfile::TempDir>,
    home: tempfile::TempDir,
}

fn skipped(why: &str) -> Option<Cassandra> {
    // Not by a macro, whose output the test harness captures if a test passes.
    let _ =
        writeln!(std::io::stderr(), "\n######## SKIPPED: Cassandra judges nothing here: {why} ########\n");
    // Where it must not be skipped (continuous integration), that is a failure.
    assert!(std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none(), "{why}");
    None
}

fn works(command: &str, argument: &str) -> bool {
    Command::new(command).arg(argument).output().is_ok_and(|output| output.status.success())
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Cassandra {
    /// Finds Cassandra, or downloads it. Returns `None`, after a warning, if there is none.
    pub fn find() -> Option<Self> {
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
        Some(Self::with(lib, Arc::new(tempfile::tempdir().unwrap())))
    }

    /// Returns one without data that has the same compiled programs.
    #[allow(dead_code, reason = "only tests of adoption run several nodes")]
    pub fn without_data(&self) -> Self {
        Self::with(self.lib.clone(), Arc::clone(&self.classes))
    }

    fn with(lib: PathBuf, classes: Arc<tempfile::TempDir>) -> Self {
        let cassandra = Self { lib, classes, home: tempfile::tempdir().unwrap() };
        let home = cassandra.home.path();
        let yaml = format!(
            "cluster_name: oracle\nnum_tokens: 1\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
             commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\ncommitlog_directory: {0}/commitlog\n\
             data_file_directories: [{0}/data]\nsaved_caches_directory: {0}/saved_caches\nhints_directory: {0}/hints\n\
             cdc_raw_directory: {0}/cdc\nlisten_address: 127.0.0.1\nendpoint_snitch: SimpleSnitch\nseed_provider:\n  \
             - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters: [{{seeds: \
             \"127.0.0.1:7000\"}}]\n",
            home.display()
        );
        std::fs::write(home.join("cassandra.yaml"), yaml).unwrap();
        std::fs::write(home.join("logback.xml"), "<configuration><root level=\"OFF\"/></configuration>")
            .unwrap();
        cassandra
    }

    fn class_path(&self) -> String {
        let [home, classes] = [&self.home, &*self.classes].map(|directory| directory.path().display());
        format!("{home}:{classes}:{}/*", self.lib.display())
    }

    /// Runs a class of Cassandra's, or of ours, to its end.
    pub fn run(&self, class: &str, arguments: &[&Path]) -> Output {
        let home = self.home.path();
        let mut java = Command::new("java");
        for module in MODULES {
            java.args([
                format!("--add-exports={module}=ALL-UNNAMED"),
                format!("--add-opens={module}=ALL-UNNAMED"),
            ]);
        }
        // Most of such a short run is starting: cheap compilation and no threads of a collector.
        java.args(["-Xmx1G", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
            .arg("-Djdk.attach.allowAttachSelf=true")
            .arg("-Dlogback.configurationFile=logback.xml")
            .arg(format!("-Dcassandra.config=file://{}/cassandra.yaml", home.display()))
            .arg(format!("-Dcassandra.storagedir={}", home.display()))
            .args(["-cp", &self.class_path(), class])
            .args(arguments);
        java.output().unwrap()
    }

    /// Compiles `SSTableCheck`.
    pub fn compile(&self) {
        self.compile_source(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../sstable/tests/oracle/SSTableCheck.java"),
        );
    }

    /// Compiles a program.
    pub fn compile_source(&self, source: &Path) {
        let output = Command::new("javac")
            .args(["-nowarn", "-cp", &self.class_path(), "-d"])
            .arg(self.classes.path())
            .arg(source)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Validates all SSTables below `root` with Cassandra. `original` is compared with the dumps;
    /// or `compacted` selects what `SSTableCheck` omits.
    pub fn judge(&self, schema: &str, root: &Path, original: Option<&Path>) -> String {
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

/// Downloads the jars, once for all tests.
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
