//! The commands of `cassette lab`.

mod ab;
mod agent;
mod cassandra;
mod console;
mod experiments;
mod replay;
mod security;
mod tune;
mod ycsb;

use std::path::PathBuf;
use std::time::Duration;

use cassette_protocol::Consistency;
use clap::{Args, Subcommand, ValueEnum};

use crate::LabError;
use crate::benchmark::Benchmark;
use crate::cql::{CqlSettings, parse_consistency, protocol_version, with_port};
use crate::engine::EngineKind;
use crate::ycsb::CoreWorkload;
use cassandra::CassandraCommand;
use experiments::{CompareArgs, OneRunArgs, ResultsArgs, RunArgs, ShowArgs};
use security::SecurityArgs;
use tune::TuneArgs;

/// `cassette lab …`
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run YCSB's core workloads on an engine and show throughput and latencies
    Ycsb(Box<YcsbArgs>),
    /// Run an experiment file: engines, configurations, phases and repeats
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run the remaining parts of an interrupted run
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(OneRunArgs),
    /// List built-in experiments and stored runs
    List(ResultsArgs),
    /// Show the results of a run, or the plan of an experiment
    Show(ShowArgs),
    /// Compare the configurations that two runs share
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Compare two builds of cassette, measured in turns
    #[command(after_help = AB_EXAMPLES)]
    Ab(ab::AbArgs),
    /// Regenerate the reports of a run: HTML, Markdown, CSV and JSON
    Report(OneRunArgs),
    /// Search the settings of an engine that suit a workload
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(TuneArgs),
    /// Replay a full query log on a server or a database, and compare the results of two
    Replay(Box<replay::ReplayArgs>),
    /// Execute operations for a `lab run` on another machine
    #[command(after_help = AGENT_EXAMPLES)]
    Agent(agent::AgentArgs),
    /// Start, stop and inspect a private Apache Cassandra cluster
    #[command(subcommand)]
    Cassandra(CassandraCommand),
}

/// Examples at the end of `cassette lab --help`.
pub const LAB_EXAMPLES: &str = "\
Examples:
  Benchmark one engine, configured by flags:
    cassette lab ycsb --workload a

  List built-in experiments and stored runs:
    cassette lab list

  Print what an experiment measures, in which order, and how long it takes:
    cassette lab show leveldb-tuning

  Run an experiment at a tenth of its size:
    cassette lab run leveldb-tuning --scale 0.1 --engine embedded

  Search the settings of an engine that suit a workload:
    cassette lab tune --engine embedded --workload b --budget 5m

docs/laboratory.md describes how to write an experiment file.";

const RESUME_EXAMPLES: &str = "\
Finished parts are not repeated. Resume the last run, or a run by its name:
    cassette lab resume
    cassette lab resume leveldb-tuning-20260102T030405Z";

const COMPARE_EXAMPLES: &str = "\
Compare runs of one file before and after a change of the program, the older run first:
    cassette lab compare leveldb-tuning-20260102T030405Z leveldb-tuning-20260103T030405Z

Within one run, the order of configurations is random and repeats interleave, so that changes of the \
machine affect all of them alike. That does not hold for two runs: to compare settings, put them \
into one file; to compare two builds, use `cassette lab ab`.";

const AB_EXAMPLES: &str = "\
Examples:
  Has a change made reads slower?
    cassette lab ab ./cassette-before target/release/cassette --workload b,c

  In a script, fail if it costs over 3 % more, served:
    cassette lab ab ./cassette-before target/release/cassette --engine served --rounds 10 \\
        --fail-if-slower 3

Both programs are measured in each round, one right after the other, and differences are those of \
the rounds: what changes on the machine from one round to the next affects both.";

const TUNE_EXAMPLES: &str = "\
Examples:
  Tune LevelDB for the workloads A, B and D, run in turn on the same records:
    cassette lab tune --engine leveldb --workload a,b,d --budget 20m

  Search two settings of the embedded engine; their first values are the defaults:
    cassette lab tune --engine embedded --workload b --budget 5m \\
        --search file_cache_size=256MiB,64MiB,1GiB --search disk_access_mode=standard,mmap

Sixteen sets are measured briefly, the better half of them for twice as long, and so on. The last \
one is compared with the defaults in five repeats of each. A set is ranked by the throughput of all \
phases, including the load.";

const RUN_EXAMPLES: &str = "\
Examples:
  Run a built-in experiment at a hundredth of its size, on its default engines:
    cassette lab run cassandra-caches-and-lcs --scale 0.01

  Run it on an Apache Cassandra that is started for each part:
    cassette lab run cassandra-caches-and-lcs --scale 0.01 --engine cassandra

  Run an experiment on a cluster with load from two machines, each with a `cassette lab agent`:
    cassette lab run cluster.toml --agent load1:7299,load2:7299 --agent-token-file token

docs/laboratory.md describes the format of experiment files.";

impl LabCommand {
    /// Runs the command. Returns `false`, for exit code 1, if operations failed.
    pub fn run(&self) -> Result<bool, LabError> {
        match self {
            Self::Ycsb(args) => ycsb::run(args),
            Self::Run(args) => experiments::run(args),
            Self::Resume(args) => experiments::resume(args),
            Self::List(args) => experiments::list(args),
            Self::Show(args) => experiments::show(args),
            Self::Compare(args) => experiments::compare(args),
            Self::Ab(args) => ab::run(args),
            Self::Report(args) => experiments::report(args),
            Self::Tune(args) => tune::run(args),
            Self::Replay(args) => replay::run(args),
            Self::Agent(args) => agent::run(args),
            Self::Cassandra(cassandra) => cassandra.run(),
        }
    }
}

const AGENT_EXAMPLES: &str = "\
Examples:
  Create a token, and copy it to every machine:
    openssl rand -hex 32 > token && chmod 600 token

  On each machine that makes load:
    cassette lab agent --listen 10.0.0.11:7299 --token-file token

  On the machine that has the experiment, and gets the results:
    cassette lab run cluster.toml --agent 10.0.0.11:7299,10.0.0.12:7299 --agent-token-file token

  On the machine of a server, to sample what its process uses, with `--observe` of `lab run`:
    cassette lab agent --listen 10.0.0.21:7299 --token-file token --observe $(pidof cassette)

An agent accepts one driver at a time, of the same version, whose clock differs by at most 100 ms. A \
driver decides which servers the agent connects to, and with which statements. Connections between \
driver and agents are authenticated by the token, but not encrypted: use a private network or a \
tunnel.";

const YCSB_EXAMPLES: &str = "\
Examples:
  The mixed workload A on the embedded engine, in a temporary directory:
    cassette lab ycsb --workload a --records 100000

  All six on a server, Cassette's or Apache Cassandra's, 16 requests in flight, with what its process \
costs, three times:
    cassette lab ycsb --workload a..f --records 1000000 --threads 16 --engine cql \\
        --contact 127.0.0.1:9042 --server-pid $(pgrep -f CassandraDaemon) --replace --repeat 3

  Latencies at a fixed rate of 20,000 requests per second:
    cassette lab ycsb --workload b --phase run --records 1000000 --engine cql --threads 64 \\
        --rate 20000

Workloads (zipfian keys unless noted):
  a  50 % reads, 50 % updates             d  95 % reads of the latest, 5 % inserts
  b  95 % reads, 5 % updates              e  95 % scans of 1 to 100 records, 5 % inserts
  c  reads only                           f  50 % reads, 50 % read-modify-writes
A record is a key such as user6284781860667377211 and 10 fields of 100 bytes; an update writes one \
field.";

/// Arguments of `cassette lab ycsb`.
#[derive(Debug, Clone, Args)]
#[command(after_help = YCSB_EXAMPLES)]
pub struct YcsbArgs {
    /// Core workloads to run, in this order on the same records: letters a to f, or a range such as
    /// a..f
    #[arg(short, long, value_name = "LETTERS", default_value = "a")]
    #[arg(value_delimiter = ',', value_parser = parse_workloads)]
    pub workload: Vec<Letters>,

    /// Records to load and to choose from [default: 100000]
    #[arg(short = 'n', long, value_name = "N")]
    pub records: Option<u64>,

    /// Operations of each run; 0 for as many as --seconds allow [default: number of records, or 0
    /// with --seconds]
    #[arg(short, long, value_name = "N")]
    pub operations: Option<u64>,

    /// End each run after this many seconds
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,

    /// Concurrent operations: threads that wait for the engine, or requests in flight to a server
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: usize,

    /// Operations per second to start regardless of the engine's speed, with latencies measured
    /// from the intended start (open loop); without it, each of the --threads starts an operation
    /// when its previous one completes (closed loop)
    #[arg(long, value_name = "OPS")]
    pub rate: Option<f64>,

    /// Busy-wait for the next start of an open loop: sleeping starts it about 30 microseconds late,
    /// which counts as latency; uses a whole processor per thread
    #[arg(long, requires = "rate")]
    pub spin: bool,

    /// Engine to measure
    #[arg(short, long, value_enum, default_value_t = EngineKind::Embedded)]
    pub engine: EngineKind,

    /// Directory of an embedded engine's files [default: a temporary directory, removed at the end]
    #[arg(short, long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Block cache of an embedded engine, in MiB [default: the engine's]
    #[arg(long, value_name = "MIB")]
    pub cache_mib: Option<u64>,

    /// Memtable of an embedded engine, in MiB [default: the engine's]
    #[arg(long, value_name = "MIB")]
    pub memtable_mib: Option<u64>,
    /// How the embedded engine reads SSTables (`disk_access_mode`): standard, mmap_index_only or
    /// mmap
    #[arg(long, value_name = "MODE")]
    pub disk_access: Option<String>,

    /// Table options (WITH …) on CQL engines, e.g. "compression = {'enabled': false}" [default: the
    /// engine's]
    #[arg(long, value_name = "CQL", default_value = "", hide_default_value = true)]
    pub table_options: String,

    /// Phases to run; a run alone uses the table of an earlier load
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Phase::Load, Phase::Run])]
    pub phase: Vec<Phase>,

    /// Empty the table before loading it: DROP TABLE on a server
    #[arg(long)]
    pub replace: bool,

    /// Number of repeats; shows medians and their spread. Loads then need --replace, unless the
    /// directory is temporary
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repeat: usize,

    /// Seconds to wait between load and run, for remaining flushes and compactions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub settle: u64,

    /// Seed of random choices: the same seed requests the same keys in the same order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write values that are derived from key and field, and check every value read (YCSB's
    /// dataintegrity)
    #[arg(long)]
    pub verify: bool,

    /// Set a property by YCSB's name, e.g. -p fieldcount=1 -p requestdistribution=uniform
    #[arg(short = 'p', long = "property", value_name = "NAME=VALUE")]
    pub properties: Vec<String>,

    /// Read properties from a file, such as one of YCSB's workload files; -p overrides it
    #[arg(short = 'P', long = "properties", value_name = "FILE")]
    pub property_files: Vec<PathBuf>,

    /// Output file of the JSON report, with machine, settings, command and complete histograms
    /// [default: lab-results/ycsb-ENGINE-WORKLOADS-TIME.json]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write no JSON
    #[arg(long, conflicts_with = "json")]
    pub no_json: bool,

    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would take it for the help of the arguments within")]
    pub server: ServerArgs,
}

/// Arguments of `--engine cql`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server (--engine cql)")]
pub struct ServerArgs {
    /// Addresses of the server; connections are distributed over several
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9042", value_delimiter = ',')]
    pub contact: Vec<String>,

    /// Connections that carry the --threads requests in flight, each with a client thread
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub connections: usize,

    /// Version of the native protocol
    #[arg(long, value_name = "VERSION", default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=5))]
    pub protocol: u8,

    /// Keyspace of the table; created if needed
    #[arg(long, value_name = "NAME", default_value = "ycsb")]
    pub keyspace: String,

    /// Replication factor of a created keyspace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub replication_factor: usize,

    /// Consistency level of reads and writes
    #[arg(long, value_name = "LEVEL", default_value = "QUORUM", value_parser = parse_consistency)]
    pub consistency: Consistency,

    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would take it for the help of the arguments within")]
    pub security: SecurityArgs,

    /// Pid of the server on this machine, to measure its processor time and memory
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
}

impl ServerArgs {
    /// Builds the client's settings.
    pub fn settings(&self, table_options: &str) -> Result<CqlSettings, LabError> {
        Ok(CqlSettings {
            contacts: self.contact.iter().map(|contact| with_port(contact)).collect(),
            connections: self.connections,
            version: protocol_version(self.protocol)?,
            credentials: self.security.client().credentials()?,
            tls: self.security.client().tls()?,
            keyspace: self.keyspace.clone(),
            replication_factor: self.replication_factor,
            table_options: table_options.to_string(),
            consistency: self.consistency,
        })
    }
}

/// A phase of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Insert the records
    Load,
    /// Run the operations of the workload
    Run,
}

/// Letters of workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letters(pub Vec<char>);

fn parse_workloads(text: &str) -> Result<Letters, String> {
    let letter = |text: &str| match text.trim().to_ascii_lowercase().as_bytes() {
        [letter @ b'a'..=b'f'] => Ok(char::from(*letter)),
        _ => Err(format!("unknown core workload {text:?}: expected a, b, c, d, e or f")),
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (letter(first)?, letter(last)?),
        None => (letter(text)?, letter(text)?),
    };
    if first > last {
        return Err(format!("empty range {text:?}"));
    }
    Ok(Letters((first..=last).collect()))
}

impl YcsbArgs {
    /// Returns the letters in order.
    pub fn letters(&self) -> Vec<char> {
        self.workload.iter().flat_map(|letters| letters.0.iter().copied()).collect()
    }

    /// Returns whether the engine's files are in a directory that is removed at the end.
    pub fn is_temporary(&self) -> bool {
        self.data.is_none() && !matches!(self.engine, EngineKind::Cql)
    }

    /// Builds the benchmark. Reads property files.
    pub fn benchmark(&self) -> Result<Benchmark, LabError> {
        let workloads = self
            .letters()
            .into_iter()
            .map(|letter| Ok((letter.to_string(), self.core_workload(letter)?)))
            .collect::<Result<Vec<_>, LabError>>()?;
        Ok(Benchmark {
            workloads,
            load: self.phase.contains(&Phase::Load),
            run: self.phase.contains(&Phase::Run),
            replace: self.replace || self.is_temporary(),
            in_flight: self.threads,
            rate: self.rate,
            spin: self.spin,
            seed: self.seed,
            repeats: self.repeat,
            settle: Duration::from_secs(self.settle),
            server_pid: self.server.server_pid,
        })
    }

    /// Builds the workload of `letter`, modified by files, then properties, then flags.
    fn core_workload(&self, letter: char) -> Result<CoreWorkload, LabError> {
        let mut workload = CoreWorkload::core(letter)
            .ok_or_else(|| LabError::Usage(format!("unknown core workload {letter:?}")))?;
        workload.record_count = 100_000;
        // Distinguishes a missing value from every possible count.
        let unset = u64::MAX;
        workload.operation_count = unset;
        for path in &self.property_files {
            let text = std::fs::read_to_string(path).map_err(|error| {
                LabError::io(format!("reading properties from {}", path.display()), error)
            })?;
            workload.set_file(&text)?;
        }
        self.properties.iter().try_for_each(|pair| workload.set_pair(pair))?;
        workload.record_count = self.records.unwrap_or(workload.record_count);
        workload.max_execution_seconds = self.seconds.unwrap_or(workload.max_execution_seconds);
        workload.data_integrity |= self.verify;
        if let Some(operations) = self.operations {
            workload.operation_count = operations;
        } else if workload.operation_count == unset {
            workload.operation_count =
                if workload.max_execution_seconds > 0 { 0 } else { workload.record_count };
        }
        workload.check()?;
        Ok(workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        command: LabCommand,
    }

    fn parse(arguments: &str) -> Result<YcsbArgs, clap::Error> {
        let matches = Cli::command()
            .try_get_matches_from(["lab", "ycsb"].into_iter().chain(arguments.split_whitespace()))?;
        match Cli::from_arg_matches(&matches)?.command {
            LabCommand::Ycsb(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn workloads_are_letters_lists_and_ranges() {
        for (text, letters) in [("a", "a"), ("a..f", "abcdef"), ("F,a", "fa"), ("b..d,a", "bcda")] {
            let args = parse(&format!("--engine noop --workload {text}")).unwrap();
            assert_eq!(args.letters().into_iter().collect::<String>(), letters);
        }
        for wrong in ["g", "f..a", "", "ab"] {
            assert!(parse(&format!("--engine noop --workload={wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_override_properties_and_properties_override_defaults() {
        let benchmark =
            |arguments: &str| parse(&format!("--engine noop {arguments}")).unwrap().benchmark().unwrap();
        let first = |arguments: &str| benchmark(arguments).workloads[0].1.clone();
        assert_eq!((first("").record_count, first("").operation_count), (100_000, 100_000));
        assert_eq!(first("-n 50").operation_count, 50);
        let until =
            |arguments: &str| (first(arguments).operation_count, first(arguments).max_execution_seconds);
        assert_eq!((until("-n 50 --seconds 8"), until("-o 9 --seconds 8")), ((0, 8), (9, 8)));
        let given = first("-p recordcount=7 -p operationcount=9 -p requestdistribution=uniform");
        assert_eq!((given.record_count, given.operation_count), (7, 9));
        assert_eq!(first("-p recordcount=7 -n 8").record_count, 8);
        assert!(first("--verify").data_integrity);
        assert!(parse("--engine noop -p nosuch=1").unwrap().benchmark().is_err());
        assert!(!benchmark("--phase run").load);
    }
}
