//! Cassette's server as an engine under test: starts `cassette serve` for each part.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::LabError;
use crate::cql::{CqlSettings, CqlTarget, MetricsEndpoint};
use crate::files::write_atomically;
use crate::results::EngineInfo;
use crate::run::{Action, Driven, Sampler, Target, Worker};
use crate::workload::TableShape;

/// Maximum time of an orderly stop, after which the server is killed.
const STOP_MAX: Duration = Duration::from_secs(60);

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The program; `None` for the current one.
    pub program: Option<PathBuf>,
    /// Directory of its files.
    pub data: PathBuf,
    /// Settings of its configuration file, by cassandra.yaml's names.
    pub options: BTreeMap<String, String>,
}

/// A server and its client. Dropping it stops the server.
#[derive(Debug)]
pub struct ServedTarget {
    settings: ServerSettings,
    server: Option<Server>,
    client: CqlTarget,
    access: Access,
}

/// What the admin endpoint requires.
struct Access {
    token_file: Option<PathBuf>,
    credentials: Option<(String, String)>,
}

impl std::fmt::Debug for Access {
    /// Leaves out the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("token_file", &self.token_file).finish_non_exhaustive()
    }
}

/// A running server.
#[derive(Debug)]
struct Server {
    child: Child,
    /// Address for CQL.
    contact: String,
    /// Address of its metrics.
    admin: String,
}

impl ServedTarget {
    /// Starts a server and connects to it.
    ///
    /// The admin endpoint gets the token in `token_file`, or else the user and password of
    /// `client`.
    pub fn start(
        settings: ServerSettings,
        client: CqlSettings,
        token_file: Option<PathBuf>,
    ) -> Result<Self, LabError> {
        let access = Access { token_file, credentials: client.credentials.clone() };
        // Uses any free ports, and the same ones after a restart.
        let server = Server::start(&settings, "127.0.0.1:0", "127.0.0.1:0")?;
        let client = CqlTarget::new(CqlSettings { contacts: vec![server.contact.clone()], ..client })?;
        let client = client.on_processes(vec![server.child.id()]);
        Ok(Self { settings, server: Some(server), client, access })
    }

    fn server(&self) -> Result<&Server, LabError> {
        self.server
            .as_ref()
            .ok_or_else(|| LabError::engine("cassette serve", "use", "it could not be restarted"))
    }

    fn restart(&mut self, between: impl FnOnce() -> Result<(), LabError>) -> Result<(), LabError> {
        if let Some(mut server) = self.server.take() {
            server.stop();
            between()?;
            let server = Server::start(&self.settings, &server.contact, &server.admin)?;
            self.client.set_processes(vec![server.child.id()]);
            self.server = Some(server);
        }
        Ok(())
    }
}

/// Returns the program to run: the requested one, or the current one if it can serve.
fn program(settings: &ServerSettings) -> Result<PathBuf, LabError> {
    if let Some(program) = &settings.program {
        return Ok(program.clone());
    }
    let this = std::env::current_exe().map_err(|error| LabError::io("finding the current program", error))?;
    let name = this.file_name().unwrap_or_default().to_string_lossy();
    if name == "cassette" || name.starts_with("cassette-") {
        Ok(this)
    } else {
        Err(LabError::Usage(format!(
            "{} cannot serve: specify a cassette binary with the engine's `program = \
             \"target/release/cassette\"`",
            this.display()
        )))
    }
}

impl Server {
    fn start(settings: &ServerSettings, contact: &str, admin: &str) -> Result<Self, LabError> {
        let program = program(settings)?;
        let attempt = |error| LabError::io(format!("setting up {}", settings.data.display()), error);
        std::fs::create_dir_all(&settings.data).map_err(attempt)?;
        let config = settings.data.join("cassandra.yaml");
        let lines = settings.options.iter().map(|(name, value)| format!("{name}: {value}\n"));
        write_atomically(&config, lines.collect::<String>().as_bytes())?;
        let log = settings.data.join("serve.log");
        let mut child = Command::new(&program)
            .arg("serve")
            .args(["--listen", contact, "--admin", admin, "--config"])
            .arg(&config)
            .arg("--data")
            .arg(settings.data.join("data"))
            // The server must not outlive this process, however it ends.
            .args(["--stop-with-parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).map_err(attempt)?)
            .spawn()
            .map_err(|error| LabError::io(format!("running {}", program.display()), error))?;
        // The server prints its addresses once it listens.
        let mut told = child.stdout.take().map(BufReader::new);
        let mut line = |after: &str| {
            let mut text = String::new();
            told.as_mut()?.read_line(&mut text).ok()?;
            Some(text.trim_end().split_once(after)?.1.to_owned())
        };
        let (contact, admin) = (line(" listens for CQL on "), line(" is at http://"));
        if let Some(mut rest) = told {
            // Keeps reading, so that the server never blocks on its output.
            std::thread::spawn(move || std::io::copy(&mut rest, &mut std::io::sink()));
        }
        match (contact, admin) {
            (Some(contact), Some(admin)) => {
                // The encryption may follow the address.
                let contact = contact.split(',').next().unwrap_or_default().to_owned();
                Ok(Self { child, contact, admin: admin.trim_end_matches('/').to_owned() })
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                Err(LabError::engine("cassette serve", "start", last_message(&log)))
            }
        }
    }

    /// Stops it in order, and kills it if it does not stop.
    fn stop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // The child has not been reaped yet, so the pid is still its own.
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_MAX;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs `cassette nodetool`.
    fn nodetool(&self, settings: &ServerSettings, access: &Access, command: &str) -> Result<(), LabError> {
        let port = self.admin.rsplit(':').next().unwrap_or_default();
        let mut nodetool = Command::new(program(settings)?);
        nodetool.args(["nodetool", "--host", "127.0.0.1", "--port", port]);
        match (&access.token_file, &access.credentials) {
            (Some(path), _) => _ = nodetool.arg("--token-file").arg(path),
            (None, Some((user, password))) => {
                _ = nodetool.args(["--username", user]).env("CASSETTE_PASSWORD", password);
            }
            (None, None) => {}
        }
        let output = nodetool
            .arg(command)
            .output()
            .map_err(|error| LabError::io("running cassette nodetool", error))?;
        if output.status.success() {
            Ok(())
        } else {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(LabError::engine("cassette nodetool", command, text.trim()))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the last message in a log.
fn last_message(log: &Path) -> String {
    let mut text = String::new();
    let read = File::open(log).and_then(|file| file.take(1 << 20).read_to_string(&mut text));
    let last = text.lines().rfind(|line| !line.trim().is_empty()).filter(|_| read.is_ok());
    last.unwrap_or("it printed nothing").to_owned()
}

impl Target for ServedTarget {
    fn describe(&self) -> EngineInfo {
        let mut info = self.client.describe();
        info.name = "cassette serve".into();
        info.version = env!("CARGO_PKG_VERSION").into();
        // The port differs each time and is meaningless.
        info.settings.remove("contact");
        info
    }

    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError> {
        self.client.create_table(shape, replace)
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        self.client.use_table(shape)
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        match action {
            Action::Cql(_) => self.client.act(action),
            Action::Flush => self.server()?.nodetool(&self.settings, &self.access, "flush"),
            Action::Compact => self.server()?.nodetool(&self.settings, &self.access, "compact"),
            Action::DropCaches => self.restart(crate::engine::drop_page_cache),
            Action::Restart => self.restart(|| Ok(())),
        }
    }

    fn sampler(&self) -> Option<Sampler<'_>> {
        let Access { token_file, credentials } = &self.access;
        let endpoint = MetricsEndpoint::new(&self.server.as_ref()?.admin);
        let endpoint = endpoint.with_access(token_file.as_deref(), credentials.clone()).ok()?;
        Some(Box::new(move || endpoint.sample()))
    }

    fn server_pids(&self) -> Vec<u32> {
        self.client.server_pids()
    }

    fn worker_count(&self, in_flight: usize) -> usize {
        self.client.worker_count(in_flight)
    }

    fn drive(&self, workers: Vec<Worker>, in_flight: usize) -> Result<Driven, LabError> {
        self.client.drive(workers, in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsuitable_and_missing_server_programs_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = ServerSettings {
            program: None,
            data: directory.path().join("data"),
            options: BTreeMap::from([("file_cache_size".into(), "1MiB".into())]),
        };
        let start = |settings: &ServerSettings| {
            Server::start(settings, "127.0.0.1:0", "127.0.0.1:0").unwrap_err().to_string()
        };
        assert!(start(&settings).contains("program = "), "{}", start(&settings));
        settings.program = Some("/nowhere/cassette".into());
        assert!(start(&settings).contains("/nowhere/cassette"), "{}", start(&settings));
        // It ends at once without output.
        settings.program = Some("/bin/true".into());
        assert!(start(&settings).contains("it printed nothing"), "{}", start(&settings));
    }
}
