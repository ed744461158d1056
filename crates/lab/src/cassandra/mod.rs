//! A private Apache Cassandra cluster: jars from Maven Central, the machine's JDK, nodes on
//! loopback addresses.

mod configuration;
mod diagnosis;
mod jmx;
mod ring;
mod target;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::LabError;
use crate::files::write_atomically;
pub use target::CassandraTarget;

/// Maximum time from the start of a node until it listens.
const START_MAX: Duration = Duration::from_secs(180);
/// Maximum time of an orderly stop, after which the node is killed.
const STOP_MAX: Duration = Duration::from_secs(60);

/// Settings of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// Version of Cassandra, as on Maven Central.
    pub version: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Heap of each node in Java's syntax: `1G`.
    pub heap: String,
    /// Directory with the files of each node, in `node<N>`.
    pub directory: PathBuf,
    /// Directory of the jars, in `lib-<version>`, which clusters share.
    pub cache: PathBuf,
    /// First three numbers of the nodes' addresses; the fourth is the number of the node.
    pub network: [u8; 3],
    /// Port on which nodes listen for CQL.
    pub port: u16,
    /// Arguments of Java after the required ones.
    pub java: Vec<String>,
    /// Settings of cassandra.yaml besides the required ones.
    pub yaml: std::collections::BTreeMap<String, String>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            version: "5.0.8".into(),
            nodes: 1,
            heap: "1G".into(),
            directory: PathBuf::from(".cache/cassandra/cluster"),
            cache: std::env::var_os("CASSETTE_LAB_CACHE")
                .map_or_else(|| ".cache/cassandra".into(), PathBuf::from),
            network: [127, 0, 77],
            port: 9042,
            java: Vec::new(),
            yaml: std::collections::BTreeMap::new(),
        }
    }
}

/// A running cluster. Dropping it does not stop it: see [`stop`](Self::stop).
#[derive(Debug, Clone)]
pub struct Cluster {
    settings: ClusterSettings,
    pids: Vec<u32>,
}

impl ClusterSettings {
    /// Returns the address of node `number`, from 1.
    pub fn address(&self, number: usize) -> Ipv4Addr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, number as u8)
    }

    /// Returns the addresses for clients.
    pub fn contacts(&self) -> Vec<String> {
        (1..=self.nodes).map(|number| format!("{}:{}", self.address(number), self.port)).collect()
    }

    fn node_directory(&self, number: usize) -> PathBuf {
        self.directory.join(format!("node{number}"))
    }

    fn check(&self) -> Result<(), LabError> {
        let wrong = |what: String| Err(LabError::Usage(what));
        if !(1..=20).contains(&self.nodes) {
            return wrong(format!("invalid number of nodes: expected 1 to 20, found {}", self.nodes));
        }
        let digits = self.heap.trim_end_matches(['G', 'M', 'g', 'm']);
        if digits.is_empty() || digits.len() + 1 != self.heap.len() || digits.parse::<u32>().is_err() {
            return wrong(format!("invalid heap {:?}: expected a size such as 1G or 512M", self.heap));
        }
        if self.version.is_empty()
            || !self.version.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
        {
            return wrong(format!("invalid version of Cassandra: {:?}", self.version));
        }
        Ok(())
    }

    /// Downloads the jars if needed.
    fn jars(&self) -> Result<PathBuf, LabError> {
        let library = self.cache.join(format!("lib-{}", self.version));
        let library = std::path::absolute(&library)
            .map_err(|error| LabError::io(format!("resolving {}", library.display()), error))?;
        let wanted = format!("cassandra-all-{}.jar", self.version);
        if library.join(&wanted).is_file() {
            return Ok(library);
        }
        let project =
            tempfile::tempdir().map_err(|error| LabError::io("making a temporary directory", error))?;
        let pom = project.path().join("pom.xml");
        write_atomically(&pom, configuration::pom(&self.version).as_bytes())?;
        fs::create_dir_all(&library)
            .map_err(|error| LabError::io(format!("making {}", library.display()), error))?;
        let output = Command::new("mvn")
            .args(["-q", "-B", "dependency:copy-dependencies"])
            .arg(format!("-DoutputDirectory={}", library.display()))
            .current_dir(project.path())
            .output()
            .map_err(|error| missing("mvn", "Maven to download Cassandra's jars", error))?;
        if !output.status.success() || !library.join(&wanted).is_file() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let first =
                text.lines().find(|line| line.contains("ERROR")).unwrap_or("it printed nothing").to_owned();
            return Err(LabError::engine("mvn", format!("download Cassandra {}", self.version), first));
        }
        Ok(library)
    }
}

impl Cluster {
    /// Starts a new cluster after removing the files of a previous one, and waits until every node
    /// listens and knows the others.
    pub fn start(settings: ClusterSettings) -> Result<Self, LabError> {
        settings.check()?;
        check_java()?;
        fs::create_dir_all(&settings.directory)
            .map_err(|error| LabError::io(format!("making {}", settings.directory.display()), error))?;
        // If the free space is unknown, writing will show it.
        if let Ok(free) = diagnosis::free_bytes(&settings.directory) {
            diagnosis::check_room(&settings.directory, settings.nodes, free)?;
        }
        let library = settings.jars()?;
        let mut cluster = Self { settings, pids: Vec::new() };
        for number in 1..=cluster.settings.nodes {
            let address = cluster.settings.address(number);
            let port = cluster.settings.port;
            if TcpStream::connect_timeout(&(address, port).into(), Duration::from_millis(200)).is_ok() {
                cluster.stop();
                return Err(LabError::Usage(format!(
                    "{address}:{port} is already in use; `lab cassandra status` shows a running cluster"
                )));
            }
            let directory = cluster.settings.node_directory(number);
            if directory.exists() {
                fs::remove_dir_all(&directory)
                    .map_err(|error| LabError::io(format!("removing {}", directory.display()), error))?;
            }
            if let Err(error) = cluster.start_node(number, &library) {
                cluster.stop();
                return Err(error);
            }
        }
        if let Err(error) = ring::await_peers(&cluster.settings) {
            cluster.stop();
            return Err(error);
        }
        Ok(cluster)
    }

    /// Starts a node on its existing files, and waits until it listens.
    fn start_node(&mut self, number: usize, library: &Path) -> Result<(), LabError> {
        let settings = &self.settings;
        let directory = settings.node_directory(number);
        let attempt = |error| LabError::io(format!("setting up {}", directory.display()), error);
        fs::create_dir_all(directory.join("conf")).map_err(attempt)?;
        let directory = fs::canonicalize(&directory).map_err(attempt)?;
        let yaml = configuration::yaml(settings, number, &directory);
        write_atomically(&directory.join("conf/cassandra.yaml"), yaml.as_bytes())?;
        write_atomically(&directory.join("conf/logback.xml"), configuration::LOGBACK.as_bytes())?;
        let log = directory.join("system.log");
        let _ = fs::remove_file(&log);
        let out = fs::File::create(directory.join("stdout.log")).map_err(attempt)?;
        let errors = out.try_clone().map_err(attempt)?;
        let child = Command::new("java")
            .args(configuration::java_arguments(settings, number, &directory, library))
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .spawn()
            .map_err(|error| missing("java", "a JDK 11 or 17 to run Cassandra", error))?;
        let pid = child.id();
        self.pids.push(pid);
        write_atomically(&directory.join("pid"), pid.to_string().as_bytes())?;
        self.wait_until_listening(number, child, &directory, &log)
    }

    fn wait_until_listening(
        &self,
        number: usize,
        mut child: std::process::Child,
        directory: &Path,
        log: &Path,
    ) -> Result<(), LabError> {
        let deadline = Instant::now() + START_MAX;
        let address = (self.settings.address(number), self.settings.port).into();
        // The log says so before the node listens. Earlier, another process could respond on its
        // port.
        let listens = || {
            fs::read_to_string(log).is_ok_and(|text| text.contains("Starting listening for CQL clients"))
                && TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
        };
        loop {
            if listens() {
                // Reaps the node whenever it ends, so that it leaves no zombie.
                std::thread::spawn(move || child.wait());
                return Ok(());
            }
            let name = format!("cassandra {}", self.settings.version);
            if let Ok(Some(status)) = child.try_wait() {
                return Err(LabError::engine(&name, "start", format!("{status}: {}", reason(directory))));
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let why =
                    format!("it did not listen within {} s; see {}", START_MAX.as_secs(), log.display());
                return Err(LabError::engine(&name, "start", why));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the pids of the nodes.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Returns the settings of the cluster.
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    /// Returns why nodes do not respond, as far as can be observed; `None` if all seem healthy.
    pub fn diagnosis(&self) -> Option<String> {
        diagnosis::of(self)
    }

    /// Stops all nodes in order, and kills those that do not stop.
    pub fn stop(&mut self) {
        stop_processes(&std::mem::take(&mut self.pids));
    }

    /// Kills the process of node `number` with SIGKILL. Its files remain.
    pub fn kill_node(&mut self, number: usize) {
        let of_node = running(&self.settings.directory).into_iter().filter(|(node, _)| *node == number);
        for (_, pid) in of_node {
            signal_cassandra(pid, rustix::process::Signal::KILL);
            self.pids.retain(|known| *known != pid);
        }
    }

    /// Starts the stopped node `number` on its files, and waits until it listens.
    pub fn start_again(&mut self, number: usize) -> Result<(), LabError> {
        let library = self.settings.jars()?;
        self.start_node(number, &library)
    }

    /// Stops all nodes and starts them again on their files.
    pub fn restart(&mut self) -> Result<(), LabError> {
        self.stop();
        let library = self.settings.jars()?;
        (1..=self.settings.nodes).try_for_each(|number| self.start_node(number, &library))
    }

    /// Returns the command that runs `nodetool` on node `number`, without what it shall do. It
    /// writes a log to its working directory.
    pub fn nodetool_command(&self, number: usize) -> Result<Vec<String>, LabError> {
        let library = self.settings.jars()?;
        let conf = self.settings.node_directory(number).join("conf");
        let conf = fs::canonicalize(&conf)
            .map_err(|error| LabError::io(format!("resolving {}", conf.display()), error))?;
        let port = configuration::jmx_port(&self.settings, number).to_string();
        let mut command = vec!["java".to_owned()];
        command.extend(configuration::JAVA_OPENS.iter().flat_map(|package| configuration::open(package)));
        let fixed = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        command.extend(fixed.map(str::to_owned));
        command.extend(["-Dlogback.configurationFile=logback.xml".to_owned(), "-cp".to_owned()]);
        command.push(format!("{}:{}/*", conf.display(), library.display()));
        let tool = ["org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1", "-p", &port];
        command.extend(tool.map(str::to_owned));
        Ok(command)
    }

    /// Runs `nodetool` on every node. Returns its output for the last one.
    pub fn nodetool(&self, arguments: &[&str]) -> Result<String, LabError> {
        let mut printed = String::new();
        for number in 1..=self.settings.nodes {
            let directory = self.settings.node_directory(number);
            let attempt = |error| LabError::io(format!("running nodetool in {}", directory.display()), error);
            let own = directory.join("nodetool");
            fs::create_dir_all(&own).map_err(attempt)?;
            let command = self.nodetool_command(number)?;
            let output = Command::new(&command[0])
                .args(&command[1..])
                .args(arguments)
                .current_dir(&own)
                .output()
                .map_err(|error| missing("java", "a JDK 11 or 17", error))?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(LabError::engine("nodetool", arguments.join(" "), text.trim()));
            }
            printed = String::from_utf8_lossy(&output.stdout).into_owned();
        }
        Ok(printed)
    }
}

/// Returns the numbers and pids of the running nodes in `directory`.
pub fn running(directory: &Path) -> Vec<(usize, u32)> {
    let mut found: Vec<(usize, u32)> = (1..=20)
        .filter_map(|number| {
            let text = fs::read_to_string(directory.join(format!("node{number}/pid"))).ok()?;
            let pid = text.trim().parse().ok()?;
            is_cassandra(pid).then_some((number, pid))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Stops processes of Cassandra with SIGTERM, and after a minute with SIGKILL.
pub fn stop_processes(pids: &[u32]) {
    use rustix::process::Signal;
    pids.iter().for_each(|pid| signal_cassandra(*pid, Signal::TERM));
    let deadline = Instant::now() + STOP_MAX;
    while pids.iter().any(|pid| is_cassandra(*pid)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    pids.iter().for_each(|pid| signal_cassandra(*pid, Signal::KILL));
}

fn signal_cassandra(pid: u32, signal: rustix::process::Signal) {
    use rustix::process::{Pid, kill_process};
    // The process may end between the check and the signal, but its pid is not reused that soon.
    if is_cassandra(pid)
        && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
    {
        let _ = kill_process(pid, signal);
    }
}

/// Returns whether process `pid` runs Cassandra: the pid in an old file may have been reused.
fn is_cassandra(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted = b"org.apache.cassandra.service.CassandraDaemon";
    command.windows(wanted.len()).any(|window| window == wanted)
}

fn check_java() -> Result<(), LabError> {
    let output = Command::new("java")
        .arg("-version")
        .output()
        .map_err(|error| missing("java", "a JDK 11 or 17 to run Cassandra", error))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    match configuration::java_version(&text) {
        Some(11 | 17) => Ok(()),
        Some(other) => Err(LabError::Usage(format!(
            "Cassandra requires Java 11 or 17, found {other}: put the right one first in PATH"
        ))),
        None => Err(LabError::Usage(format!("unexpected output of `java -version`: {}", text.trim()))),
    }
}

fn missing(program: &str, what: &str, error: io::Error) -> LabError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            LabError::Usage(format!("`{program}` not found: install {what}, or put it in PATH"))
        }
        _ => LabError::io(format!("running {program}"), error),
    }
}

/// Returns the last message of a node that explains why it ended.
fn reason(directory: &Path) -> String {
    let texts =
        ["stdout.log", "system.log"].map(|name| fs::read_to_string(directory.join(name)).unwrap_or_default());
    let lines: Vec<&str> =
        texts.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty()).collect();
    let telling =
        |line: &&&str| line.contains("ERROR") || line.contains("Exception") || line.contains("Invalid");
    match lines.iter().find(telling).or(lines.last()) {
        Some(line) => (*line).to_owned(),
        None => format!("it printed nothing; see {}", directory.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_clusters_are_rejected_before_anything_starts() {
        for (settings, word) in [
            (ClusterSettings { nodes: 0, ..Default::default() }, "nodes"),
            (ClusterSettings { heap: "much".into(), ..Default::default() }, "heap"),
            (ClusterSettings { version: "../x".into(), ..Default::default() }, "version"),
        ] {
            assert!(Cluster::start(settings).unwrap_err().to_string().contains(word));
        }
        let settings = ClusterSettings { nodes: 2, ..Default::default() };
        assert_eq!(settings.contacts(), ["127.0.77.1:9042", "127.0.77.2:9042"]);
    }

    #[test]
    fn other_processes_are_not_nodes() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("node1")).unwrap();
        fs::write(directory.path().join("node1/pid"), std::process::id().to_string()).unwrap();
        assert_eq!(running(directory.path()), []);
        stop_processes(&[std::process::id()]);
    }
}
