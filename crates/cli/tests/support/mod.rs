//! A server as users start it: a process with a data directory, observed from outside.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod cql;
pub mod moves;
pub mod process;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A timeout for steps that can be slow only on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Launch {
    data: PathBuf,
    /// The option before the directory.
    option: &'static str,
    listen: SocketAddr,
    config: Option<PathBuf>,
    wrapper: Vec<String>,
    flags: Vec<&'static str>,
    /// The configuration file and the log have this path with another extension.
    beside: PathBuf,
}

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// The end of a server before or after it was ready.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Its output on stderr.
    pub log: String,
}

impl Launch {
    /// Configures a server on a free port of the loopback interface, with default settings. Logs to
    /// `<data>.log`.
    pub fn new(data: &Path) -> Self {
        let (data, beside) = (data.to_owned(), data.to_owned());
        Self {
            data,
            option: "--data",
            listen: ([127, 0, 0, 1], 0).into(),
            config: None,
            wrapper: Vec::new(),
            flags: Vec::new(),
            beside,
        }
    }

    /// Opens the directory for reading only; logs beside another path.
    pub fn read_only(self, beside: &Path) -> Self {
        Self { option: "--read-only", ..self.logs_beside(beside) }
    }

    /// Keeps the files in memory: the path is that of the log alone.
    pub fn in_memory(self) -> Self {
        Self { option: "--in-memory", ..self }
    }

    /// Sets the address: that of an earlier server.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Puts its log and configuration file beside another path than the data directory.
    pub fn logs_beside(mut self, path: &Path) -> Self {
        self.beside = path.to_owned();
        self
    }

    /// Sets the configuration file, written beside the data directory.
    pub fn config(mut self, yaml: &str) -> Self {
        let path = self.beside.with_extension("yaml");
        std::fs::write(&path, yaml).unwrap();
        self.config = Some(path);
        self
    }

    /// Adds a flag of `cassette serve`.
    pub fn flag(mut self, flag: &'static str) -> Self {
        self.flags.push(flag);
        self
    }

    /// Runs it as an argument of another command, which must end in `exec "$@"`.
    pub fn wrapped_in(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Starts it and waits until it reports that it is ready.
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(ended) => panic!("the server ended with {}:\n{}", ended.status, ended.log),
        }
    }

    /// Starts it, expecting a failure.
    pub fn refused(self) -> Ended {
        match self.try_start() {
            Ok(server) => panic!("the server started on {}", server.address),
            Err(ended) => ended,
        }
    }

    /// Starts it and waits until it reports that it is ready, or ends.
    pub fn try_start(self) -> Result<Server, Ended> {
        let (mut child, log) = self.spawn();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        // The line, or the end of the file when the process ends.
        output.read_line(&mut line).unwrap();
        match line.trim_end().rsplit_once(" listens for CQL on ") {
            Some((_, rest)) => {
                let address = rest.split(',').next().unwrap_or_default();
                Ok(Server { address: address.parse().unwrap(), child, log })
            }
            None => {
                let status = wait(&mut child);
                Err(Ended { status, log: std::fs::read_to_string(log).unwrap() })
            }
        }
    }

    /// Starts it and kills it as by `kill -9` after `delay`, ready or not.
    pub fn start_and_kill(self, delay: Duration) {
        let (mut child, _) = self.spawn();
        std::thread::sleep(delay);
        child.kill().unwrap();
        wait(&mut child);
    }

    fn spawn(&self) -> (Child, PathBuf) {
        let mut words = self.wrapper.clone();
        words.push(env!("CARGO_BIN_EXE_cassette").to_owned());
        let log = self.beside.with_extension("log");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve").arg(self.option);
        if self.option != "--in-memory" {
            command.arg(&self.data);
        }
        command.arg("--listen").arg(self.listen.to_string()).args(&self.flags);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
        (command.spawn().unwrap_or_else(|error| panic!("cannot start {words:?}: {error}")), log)
    }
}

impl Server {
    /// With default settings on a free port.
    pub fn start(data: &Path) -> Self {
        Launch::new(data).start()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Kills it as by `kill -9`, without a flush or shutdown.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        wait(&mut self.child);
    }

    /// Stops it as an operator does: SIGTERM, and a clean end.
    pub fn stop(mut self) {
        let sent = Command::new("kill").arg("-TERM").arg(self.id().to_string()).status().unwrap();
        assert!(sent.success());
        let status = wait(&mut self.child);
        assert!(status.success(), "ended with {status}:\n{}", self.log());
    }

    /// Fails the test if it is not running any more.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("the server ended with {status}:\n{}", self.log());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Ending with the test, or stopped by it: the outcome is irrelevant either way.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            None => panic!("the server did not end within {PATIENCE:?}"),
        }
    }
}
