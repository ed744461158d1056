//! The experiment file, as written.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use cassette_protocol::Consistency;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::cql::ClientSecurity;
use crate::engine::EngineKind;
use crate::workload::{Expect, ValueSpec};

/// Value of a setting in a file: a number, a boolean or a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// Settings by name.
pub type Settings = BTreeMap<String, Scalar>;

/// An experiment file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExperimentFile {
    /// Name under which runs are stored.
    pub name: Spanned<String>,
    /// Title, one line.
    #[serde(default)]
    pub title: String,
    /// Description, in Markdown.
    #[serde(default)]
    pub description: String,
    /// Number of repeats of each configuration.
    #[serde(default = "three")]
    pub repeats: Spanned<usize>,
    /// Seed of random choices: order, keys, values.
    #[serde(default = "one")]
    pub seed: u64,
    /// Configuration that others are compared with; the first one by default.
    #[serde(default)]
    pub baseline: Option<Spanned<String>>,
    /// Engines to measure.
    pub engine: Vec<Spanned<EngineSpec>>,
    /// Configurations. Without any, there is one called `default`.
    #[serde(default)]
    pub configuration: Vec<Spanned<ConfigurationSpec>>,
    /// Every combination of these values is added to each configuration.
    #[serde(default)]
    pub matrix: BTreeMap<String, Spanned<Vec<Scalar>>>,
    /// Workloads.
    pub workload: Vec<Spanned<WorkloadSpec>>,
    /// Phases, in order.
    pub phase: Vec<Spanned<PhaseSpec>>,
    /// Published results, shown next to the measured ones.
    #[serde(default)]
    pub published: Vec<Published>,
}

fn three() -> Spanned<usize> {
    Spanned::new(0..0, 3)
}

fn one() -> u64 {
    1
}

/// An engine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EngineSpec {
    /// Name in results; the kind by default.
    #[serde(default)]
    pub name: Option<String>,
    /// Kind of the engine.
    pub kind: Spanned<String>,
    /// Options in every configuration, by the engine's names.
    #[serde(default)]
    pub options: Settings,
    /// Kind `cql`: addresses of the server.
    #[serde(default)]
    pub contact: Vec<String>,
    /// Kind `cql`: metrics endpoint of a Cassette server, such as `127.0.0.1:7199`.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Kinds `cql` and `served`: file with a token for the metrics; without it, `user` logs in.
    #[serde(default)]
    pub metrics_token_file: Option<PathBuf>,
    /// Kinds `cells`, `cql`, `served` and `cassandra`: user to log in as.
    #[serde(default)]
    pub user: Option<String>,
    /// File with the user's password; without it, CASSETTE_PASSWORD in the environment has it.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Kinds `cells`, `cql`, `served` and `cassandra`: connects with TLS to servers whose
    /// certificates one in this file has signed.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// Certificate of the client.
    #[serde(default)]
    pub tls_certificate: Option<PathBuf>,
    /// Its private key, if the file of the certificate does not have it.
    #[serde(default)]
    pub tls_key: Option<PathBuf>,
    /// Kind `served`: the program; the current one by default.
    #[serde(default)]
    pub program: Option<String>,
    /// Kinds `cql`, `served` and `cassandra`: number of connections. 2.
    #[serde(default)]
    pub connections: Option<usize>,
    /// Kinds `cql`, `served` and `cassandra`: version of the native protocol. 5.
    #[serde(default)]
    pub protocol: Option<u8>,
    /// Kinds `cql`, `served` and `cassandra`: consistency level of statements without one. QUORUM.
    #[serde(default)]
    pub consistency: Option<Spanned<String>>,
    /// Kinds `cql`, `served` and `cassandra`: replication factor of the keyspace with the records.
    /// 1.
    #[serde(default)]
    pub replication_factor: Option<usize>,
    /// Kind `cql`: pid of the server, if it is on this machine.
    #[serde(default)]
    pub server_pid: Option<u32>,
    /// Kind `cassandra`: number of nodes. 1.
    #[serde(default)]
    pub nodes: Option<usize>,
    /// Kind `cassandra`: heap of each node. 1G.
    #[serde(default)]
    pub heap: Option<String>,
    /// Kind `cassandra`: version. 5.0.8.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether it is measured only if requested with `--engine`.
    #[serde(default)]
    pub optional: bool,
}

/// A configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfigurationSpec {
    /// Name in results.
    pub name: String,
    /// Engines it applies to; all by default.
    #[serde(default)]
    pub engines: Vec<Spanned<String>>,
    /// Options, added to those that the engine has in every configuration.
    #[serde(default)]
    pub options: Settings,
    /// Table options (WITH …) of record tables; also the value of `{table}` in schemas.
    #[serde(default)]
    pub table: String,
    /// Values of other `{name}` variables in schemas and CQL phases.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}

/// A workload: YCSB's, or of statements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WorkloadSpec {
    /// Name used by phases.
    pub name: String,
    /// A core workload, `a` to `f`.
    #[serde(default)]
    pub ycsb: Option<Spanned<String>>,
    /// YCSB property files, used unchanged; paths are relative to the working directory.
    #[serde(default)]
    pub property_files: Vec<Spanned<String>>,
    /// YCSB properties, which override the files.
    #[serde(default)]
    pub properties: Settings,
    /// Statements that create keyspace and tables.
    #[serde(default)]
    pub schema: Vec<String>,
    /// Statements that drop them.
    #[serde(default)]
    pub drop: Vec<String>,
    /// Generators of values, by the names that statements bind: `:name`.
    #[serde(default)]
    pub values: BTreeMap<String, ValueSpec>,
    /// Operation that creates one record.
    #[serde(default)]
    pub insert: Option<OperationSpec>,
    /// Operations, by weight.
    #[serde(default)]
    pub operation: Vec<OperationSpec>,
}

/// An operation of a workload of statements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OperationSpec {
    /// Name of its latencies.
    #[serde(default)]
    pub name: Option<String>,
    /// Frequency relative to the others. 1.
    #[serde(default)]
    pub weight: Option<f64>,
    /// Whether it creates a new record.
    #[serde(default)]
    pub inserts: bool,
    /// Its only statement.
    #[serde(default)]
    pub cql: Option<String>,
    /// Consistency level of the only statement.
    #[serde(default)]
    pub consistency: Option<Spanned<String>>,
    /// Expected result of the only statement.
    #[serde(default)]
    pub expect: Expect,
    /// Its statements, in order.
    #[serde(default)]
    pub steps: Vec<StepSpec>,
}

/// One of several statements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StepSpec {
    /// The statement.
    pub cql: String,
    /// Consistency level.
    #[serde(default)]
    pub consistency: Option<Spanned<String>>,
    /// Expected result.
    #[serde(default)]
    pub expect: Expect,
}

/// A phase: exactly one of `load`, `run`, `search`, `cql`, `action` and `wait`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PhaseSpec {
    /// Name in results; derived from what it does by default.
    #[serde(default)]
    pub name: Option<String>,
    /// Engines it applies to; all by default.
    #[serde(default)]
    pub engines: Vec<Spanned<String>>,
    /// Recreates the workload's table and loads its records.
    #[serde(default)]
    pub load: Option<String>,
    /// Runs the workload's operations.
    #[serde(default)]
    pub run: Option<String>,
    /// Searches the highest rate of the workload's operations with a percentile below a limit.
    #[serde(default)]
    pub search: Option<String>,
    /// Executes a statement, such as ALTER TABLE.
    #[serde(default)]
    pub cql: Option<String>,
    /// `flush`, `compact`, `drop-caches` or `restart`.
    #[serde(default)]
    pub action: Option<ActionSpec>,
    /// Waits this many seconds.
    #[serde(default)]
    pub wait: Option<f64>,
    /// Number of concurrent operations. 1.
    #[serde(default)]
    pub threads: Option<usize>,
    /// Number of operations; `operationcount` of YCSB workloads by default.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Maximum duration in seconds.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Operations started per second, regardless of the engine's speed.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Rate at the end of the phase.
    #[serde(default)]
    pub rate_to: Option<f64>,
    /// Seconds excluded at the beginning; derived from the series by default.
    #[serde(default)]
    pub warm_up: Option<f64>,
    /// Of a search: limit of the 99th percentile, in microseconds.
    #[serde(default)]
    pub p99_us: Option<f64>,
}

/// Possible values of [`PhaseSpec::action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ActionSpec {
    Flush,
    Compact,
    DropCaches,
    Restart,
}

/// A published result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Published {
    /// Phase it belongs to.
    pub phase: String,
    /// Configuration it belongs to.
    pub configuration: String,
    /// Metric: `throughput`, or an operation and a statistic such as `READ p99`.
    pub metric: String,
    /// Value, in operations per second or microseconds.
    pub value: f64,
    /// Conditions of the measurement.
    #[serde(default)]
    pub note: String,
}

/// An error in a file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Description.
    pub message: String,
}

impl Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl FileError {
    /// Creates an error at byte `at` of `text`.
    pub fn at(text: &str, at: usize, message: impl Display) -> Self {
        let before = text.get(..at.min(text.len())).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.to_string(),
        }
    }
}

impl ExperimentFile {
    /// Parses and validates a file.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            FileError::at(text, at, error.message().trim_end())
        })?;
        file.check().map_err(|(at, message)| FileError::at(text, at, message))?;
        Ok(file)
    }
}

/// Parses a consistency level.
pub fn consistency(name: &Spanned<String>) -> Result<Consistency, (usize, String)> {
    crate::cql::parse_consistency(name.get_ref()).map_err(|message| (name.span().start, message))
}

impl EngineSpec {
    /// Returns its name in results.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.get_ref())
    }

    /// Returns what a client presents to its servers, and how it verifies them.
    pub fn security(&self) -> ClientSecurity<'_> {
        ClientSecurity {
            user: self.user.as_deref(),
            password: None,
            password_file: self.password_file.as_deref(),
            tls_ca: self.tls_ca.as_ref(),
            tls_certificate: self.tls_certificate.as_ref(),
            tls_key: self.tls_key.as_ref(),
        }
    }

    /// Returns its kind; `None` if unknown.
    pub fn kind(&self) -> Option<EngineKind> {
        EngineKind::from_str(self.kind.get_ref(), false).ok()
    }
}

impl PhaseSpec {
    /// Returns the workload it loads, runs or searches with.
    pub fn workload(&self) -> Option<&str> {
        self.load.as_deref().or(self.run.as_deref()).or(self.search.as_deref())
    }

    /// Returns its name in results.
    pub fn label(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        match (&self.load, &self.run, &self.search, &self.cql, &self.action, self.wait) {
            (Some(load), ..) => format!("load {load}"),
            (_, Some(run), ..) => format!("run {run}"),
            (_, _, Some(search), ..) => format!("search {search}"),
            (_, _, _, Some(cql), ..) => cql.clone(),
            (_, _, _, _, Some(action), _) => format!("{action:?}").to_lowercase(),
            (.., Some(seconds)) => format!("wait {seconds} s"),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small experiment on the no-op engine.
    pub const NOOP: &str = r#"
name = "small"
repeats = 2

[[engine]]
kind = "noop"

[[configuration]]
name = "one"

[[configuration]]
name = "two"

[[workload]]
name = "a"
ycsb = "a"
properties = { recordcount = 100, operationcount = 200 }

[[phase]]
load = "a"

[[phase]]
run = "a"
threads = 2
"#;

    fn error(from: &str, to: &str) -> FileError {
        assert!(NOOP.contains(from), "{from}");
        ExperimentFile::parse(&NOOP.replacen(from, to, 1)).unwrap_err()
    }

    #[test]
    fn a_right_file_is_read() {
        let file = ExperimentFile::parse(NOOP).unwrap();
        assert_eq!((file.name.get_ref().as_str(), *file.repeats.get_ref()), ("small", 2));
        assert_eq!(file.phase[1].get_ref().label(), "run a");
        assert_eq!(file.engine[0].get_ref().label(), "noop");
    }

    #[test]
    fn errors_contain_line_and_column() {
        let found = error("threads = 2", "treads = 2");
        assert_eq!((found.line, found.column), (24, 1), "{found}");
        assert!(found.message.contains("treads"), "{found}");
        let found = error("kind = \"noop\"", "kind = \"nop\"");
        assert_eq!((found.line, found.column), (6, 8), "{found}");
        assert!(found.message.contains("leveldb"), "{found}");
        let found = error("repeats = 2", "repeats = = 2");
        assert_eq!(found.line, 3, "{found}");
        let found = error("ycsb = \"a\"", "ycsb = \"g\"");
        assert_eq!((found.line, found.column), (16, 8), "{found}");
    }

    #[test]
    fn contradictions_are_rejected_with_their_position() {
        for (from, to, line, words) in [
            ("name = \"two\"", "name = \"one\"", 11, "two configurations"),
            ("repeats = 2", "repeats = 0", 3, "at least 1"),
            ("run = \"a\"", "run = \"b\"", 22, "no workload"),
            ("run = \"a\"", "run = \"a\"\nwait = 1", 22, "exactly one"),
            ("run = \"a\"", "search = \"a\"\nseconds = 1", 22, "p99-us"),
            ("threads = 2", "rate-to = 5", 22, "rate-to needs"),
            ("threads = 2", "rate = -1", 22, "above 0"),
            ("name = \"two\"", "name = \"two\"\nengines = [\"rocks\"]", 13, "no engine"),
            ("ycsb = \"a\"", "schema = [\"CREATE\"]", 14, "needs an insert"),
            ("repeats = 2", "repeats = 2\nbaseline = \"three\"", 4, "no configuration"),
        ] {
            let found = error(from, to);
            assert!(found.line == line && found.message.contains(words), "{to}: {found}");
        }
        for (to, words) in [
            ("kind = \"noop\"\nuser = \"me\"", "user needs a kind that is a server"),
            ("kind = \"served\"\npassword-file = \"p\"", "password-file needs user"),
            ("kind = \"served\"\ntls-key = \"k\"", "tls-key needs tls-certificate"),
            ("kind = \"cassandra\"\nmetrics-token-file = \"t\"", "metrics-token-file needs metrics"),
            (
                "kind = \"cql\"\ncontact = [\"h\"]\nmetrics = \"https://h:7199\"",
                "metrics with https needs tls-ca",
            ),
        ] {
            let found = error("kind = \"noop\"", to);
            assert!(found.line == 5 && found.message.contains(words), "{to}: {found}");
        }
        let empty = format!("{NOOP}\n[matrix]\nblock_size = []\n");
        assert!(ExperimentFile::parse(&empty).unwrap_err().message.contains("would be empty"));
        let twice = format!("{NOOP}\n[matrix]\nblock_size = [1, 1]\n");
        assert!(ExperimentFile::parse(&twice).unwrap_err().message.contains("twice"));
    }
}
