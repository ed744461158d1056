//! `cassette move`: copies keyspaces between clusters, verifies and repairs the copy.

pub mod console;
mod import;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cassette_adopt::{AdoptError, ReadOnly, open_read_only};
use cassette_database::Options;
use cassette_migration::{
    BulkOptions, By, ClusterSettings, FileOptions, Move, Place, TargetFiles, VerifyOptions,
};
use cassette_rows::Consistency;
use cassette_server::tls::secret;
use clap::Args;

use self::console::{Console, duration, size};
use self::import::ImportArguments;
use crate::address::with_cql_port;
use crate::credentials::client_tls;
use crate::live::LiveArguments;

const EXAMPLES: &str = "\
Examples:
  Show what moving a keyspace to a cluster would do:
    cassette move --from 127.0.0.1:9042 --to 10.0.0.1:9042 --keyspace shop --dry-run \\
        --replication \"{'class': 'NetworkTopologyStrategy', 'dc1': 3}\"

  Move it, at most 20,000 rows per second; the same command resumes after an interruption:
    cassette move --from 127.0.0.1:9042 --to 10.0.0.1:9042 --keyspace shop --rate 20000 \\
        --replication \"{'class': 'NetworkTopologyStrategy', 'dc1': 3}\"

  Compare every row, and write those again that differ:
    cassette move --from 127.0.0.1:9042 --to 10.0.0.1:9042 --keyspace shop --verify --repair

  Compare with the files of the cluster's nodes, after `nodetool flush`:
    cassette move --from 127.0.0.1:9042 --to 10.0.0.1:9042 --keyspace shop --verify \\
        --target-files /mnt/node1/data,/mnt/node2/data,/mnt/node3/data

  Move all keyspaces of a stopped server's data directory:
    cassette move --data /var/lib/cassette --to 10.0.0.1:9042

  Stream its SSTables to the nodes of a Cassandra cluster, with all deletions and write times:
    cassette move --data /var/lib/cassette --to 10.0.0.1:9042 --by files --rate-mb 50 \\
        --replication \"{'class': 'NetworkTopologyStrategy', 'dc1': 3}\"

  Link its SSTables into a directory that the node of Cassandra imports, on the same machine:
    cassette move --data /var/lib/cassette --to 127.0.0.1:9042 --by import \\
        --import-directory /var/lib/cassandra/import --nodetool nodetool

  Merge its rows into new SSTables and stream these: several times as fast as by rows over CQL:
    cassette move --data /var/lib/cassette --to 10.0.0.1:9042 --by bulk

  Move back from the cluster:
    cassette move --from 10.0.0.1:9042 --to 127.0.0.1:9042 --keyspace shop

Cells keep their write timestamps and expirations. docs/moving.md describes what is not copied.";

/// How often the files of running nodes are opened.
const OPEN_ATTEMPTS: u32 = 5;

/// Arguments of `cassette move`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MoveArguments {
    /// Nodes of the source: Cassette's server or a Cassandra cluster
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required_unless_present = "data")]
    from: Vec<String>,

    /// Data directory of a stopped Cassette as the source; it is only read
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    data: Option<PathBuf>,

    /// Nodes of the target: Cassette's server or a Cassandra cluster
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', required = true)]
    to: Vec<String>,

    /// What is transferred: rows over CQL; or, to the nodes of a Cassandra cluster, the SSTables of
    /// --data as they are, streamed or imported from a directory that the nodes can reach, or in
    /// bulk its rows, merged into new SSTables
    #[arg(long, value_enum, default_value_t = Transfer::Rows)]
    by: Transfer,

    /// Keyspaces to move [default: all except the server's]
    #[arg(short, long = "keyspace", value_name = "NAME", value_delimiter = ',')]
    keyspaces: Vec<String>,

    /// Replication of created keyspaces, the map after WITH replication = [default: the source's]
    #[arg(long, value_name = "CQL")]
    replication: Option<String>,

    /// Move keyspaces without their functions and aggregates
    #[arg(long)]
    without_functions: bool,

    /// Print what would be done, and write nothing
    #[arg(long, conflicts_with = "verify")]
    dry_run: bool,

    /// Compare all rows of source and target, with write timestamps and expirations, instead of
    /// copying
    #[arg(long)]
    verify: bool,

    /// Write rows that differ, or are absent at the target, again
    #[arg(long, requires = "verify")]
    repair: bool,

    /// Read the target's rows from the data directories of all its nodes instead of querying them:
    /// several times as fast. Execute `nodetool flush` on the nodes first
    #[arg(long, value_name = "DIR", value_delimiter = ',', requires = "verify")]
    target_files: Vec<PathBuf>,

    /// File with the progress, which the same command resumes from
    #[arg(long, value_name = "FILE", default_value = "cassette-move.progress")]
    progress: PathBuf,

    /// Maximum number of rows per second
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// Token ranges that are copied at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,

    /// Token ranges of each table, the units of resuming; files are compared in at most 32
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    ranges: u32,

    /// Consistency level of reads and writes
    #[arg(long, value_name = "LEVEL", default_value = "LOCAL_QUORUM", value_parser = consistency)]
    consistency: Consistency,

    /// How long source or target may fail to respond before the move stops
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,

    /// Also write events as JSON lines to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    log_json: Option<PathBuf>,

    #[command(flatten)]
    files: FileArguments,

    #[command(flatten)]
    import: ImportArguments,

    #[command(flatten)]
    live: LiveArguments,

    #[command(flatten)]
    source: SourceSecurity,

    #[command(flatten)]
    target: TargetSecurity,
}

/// What a move transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Transfer {
    Rows,
    Files,
    Import,
    Bulk,
}

/// How SSTables are streamed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Moves by files and in bulk")]
struct FileArguments {
    /// Maximum number of megabytes per second, to all nodes together
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..))]
    rate_mb: Option<u32>,

    /// SSTables that are sent to a node at the same time [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    sessions_per_node: Option<u16>,

    /// Port on which nodes listen for each other [default: what each node reports, mostly 7000]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    storage_port: Option<u16>,

    /// Connect to that port with TLS, to nodes whose certificates one in this file has signed
    #[arg(long, value_name = "FILE")]
    internode_tls_ca: Option<PathBuf>,

    /// Certificate that nodes require, and its private key unless --internode-tls-key names another
    /// file
    #[arg(long, value_name = "FILE", requires = "internode_tls_ca")]
    internode_tls_certificate: Option<PathBuf>,

    /// File with the private key
    #[arg(long, value_name = "FILE", requires = "internode_tls_certificate")]
    internode_tls_key: Option<PathBuf>,

    /// In bulk: megabytes of an SSTable that is written, sent and removed [default: 128]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    part_mb: Option<u32>,

    /// In bulk: directory for these SSTables, which is created and removed [default: that of
    /// --progress with .parts appended]
    #[arg(long, value_name = "DIR")]
    parts: Option<PathBuf>,
}

impl FileArguments {
    /// Returns the first argument that was specified for moves in bulk only.
    fn specified_for_bulk(&self) -> Option<&'static str> {
        let arguments = [("--part-mb", self.part_mb.is_some()), ("--parts", self.parts.is_some())];
        arguments.into_iter().find_map(|(name, is_specified)| is_specified.then_some(name))
    }

    fn bulk_options(&self) -> anyhow::Result<BulkOptions> {
        let defaults = BulkOptions::default();
        Ok(BulkOptions {
            files: self.options()?,
            part_bytes: self.part_mb.map_or(defaults.part_bytes, |megabytes| u64::from(megabytes) << 20),
            directory: self.parts.clone(),
        })
    }

    /// Returns the first argument that was specified.
    fn specified(&self) -> Option<&'static str> {
        [
            ("--rate-mb", self.rate_mb.is_some()),
            ("--sessions-per-node", self.sessions_per_node.is_some()),
            ("--storage-port", self.storage_port.is_some()),
            ("--internode-tls-ca", self.internode_tls_ca.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_specified)| is_specified.then_some(name))
    }

    fn options(&self) -> anyhow::Result<FileOptions> {
        Ok(FileOptions {
            storage_port: self.storage_port,
            tls: client_tls(
                self.internode_tls_ca.as_ref(),
                self.internode_tls_certificate.as_ref(),
                self.internode_tls_key.as_ref(),
            )?,
            bytes_per_second: self.rate_mb.map(|megabytes| f64::from(megabytes) * 1e6),
            sessions_per_node: self.sessions_per_node.map_or(0, usize::from),
        })
    }
}

/// Login and TLS at the source.
#[derive(Debug, Args)]
#[command(next_help_heading = "Security of the source")]
struct SourceSecurity {
    /// User to log in to the source as
    #[arg(long, value_name = "NAME", requires = "from")]
    from_user: Option<String>,

    /// File with the password, which only its owner may read; without it,
    /// CASSETTE_FROM_PASSWORD in the environment has it
    #[arg(long, value_name = "FILE", requires = "from_user")]
    from_password_file: Option<PathBuf>,

    /// Connect with TLS to servers whose certificates one in this file has signed
    #[arg(long, value_name = "FILE", requires = "from")]
    from_tls_ca: Option<PathBuf>,

    /// Certificate of the client, and its private key unless --from-tls-key names another file
    #[arg(long, value_name = "FILE", requires = "from_tls_ca")]
    from_tls_certificate: Option<PathBuf>,

    /// File with the private key
    #[arg(long, value_name = "FILE", requires = "from_tls_certificate")]
    from_tls_key: Option<PathBuf>,
}

/// Login and TLS at the target.
#[derive(Debug, Args)]
#[command(next_help_heading = "Security of the target")]
struct TargetSecurity {
    /// User to log in to the target as
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// File with the password, which only its owner may read; without it, CASSETTE_PASSWORD in the
    /// environment has it
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// Connect with TLS to servers whose certificates one in this file has signed
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// Certificate of the client, and its private key unless --tls-key names another file
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_certificate: Option<PathBuf>,

    /// File with the private key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

fn consistency(text: &str) -> Result<Consistency, String> {
    let levels = Consistency::ALL.into_iter().filter(|level| !level.is_serial());
    let names = levels.clone().map(|level| level.to_string()).collect::<Vec<_>>().join(", ");
    let found = levels.into_iter().find(|level| level.to_string().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("expected one of {names}"))
}

fn credentials(
    user: Option<&String>,
    file: Option<&PathBuf>,
    variable: &str,
) -> anyhow::Result<Option<(String, String)>> {
    let Some(user) = user else { return Ok(None) };
    let password = secret::password(file.map(PathBuf::as_path), variable)?;
    let password = password.with_context(|| {
        format!("user {user} has a password: specify its file, or {variable} in the environment")
    })?;
    Ok(Some((user.clone(), password)))
}

impl MoveArguments {
    /// Returns the login at the source.
    fn source_credentials(&self) -> anyhow::Result<Option<(String, String)>> {
        let source = &self.source;
        credentials(source.from_user.as_ref(), source.from_password_file.as_ref(), "CASSETTE_FROM_PASSWORD")
    }

    /// Opens the files of the target's nodes for reading only.
    fn target_files(&self, console: &Console) -> anyhow::Result<Option<TargetFiles>> {
        let directories = &self.target_files;
        let Some(first) = directories.first() else { return Ok(None) };
        let names: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
        let name = names.join(", ");
        let mut opened = open_read_only(Options::new(first), directories);
        for _ in 1..OPEN_ATTEMPTS {
            // A compaction of the node may have removed an SSTable that had been listed.
            let Err(AdoptError::Table { .. }) = opened else { break };
            opened = open_read_only(Options::new(first), directories);
        }
        let ReadOnly { database, warnings } =
            opened.map_err(|error| anyhow!("cannot open the files of the target, {name}: {error}"))?;
        for warning in warnings {
            console.line(&format!("warning: {warning}"));
        }
        Ok(Some(TargetFiles { database, name }))
    }

    fn job(&self) -> anyhow::Result<Move> {
        let cluster = |contacts: &[String], credentials, tls| ClusterSettings {
            contacts: contacts.iter().map(|contact| with_cql_port(contact)).collect(),
            credentials,
            tls,
            consistency: self.consistency,
            patience: Duration::from_secs(self.patience),
        };
        let (source, target) = (&self.source, &self.target);
        let from = match &self.data {
            Some(data) => Place::Directory(data.clone()),
            None => Place::Cluster(cluster(
                &self.from,
                self.source_credentials()?,
                client_tls(
                    source.from_tls_ca.as_ref(),
                    source.from_tls_certificate.as_ref(),
                    source.from_tls_key.as_ref(),
                )?,
            )),
        };
        let to = cluster(
            &self.to,
            credentials(target.user.as_ref(), target.password_file.as_ref(), "CASSETTE_PASSWORD")?,
            client_tls(target.tls_ca.as_ref(), target.tls_certificate.as_ref(), target.tls_key.as_ref())?,
        );
        if self.by != Transfer::Bulk
            && let Some(name) = self.files.specified_for_bulk()
        {
            bail!("{name} belongs to --by bulk, which is not specified");
        }
        if self.by != Transfer::Import
            && let Some(name) = self.import.specified()
        {
            bail!("{name} belongs to --by import, which is not specified");
        }
        let by = match (self.by, self.files.specified()) {
            (Transfer::Import, Some(name)) => {
                bail!(
                    "{name} belongs to --by files and --by bulk: the nodes read what they import themselves"
                )
            }
            (Transfer::Import, None) => By::Import(self.import.options()?),
            (Transfer::Rows, None) => By::Rows,
            (Transfer::Rows, Some(name)) => {
                bail!("{name} belongs to --by files and --by bulk, which are not specified")
            }
            (Transfer::Bulk, _) => By::Bulk(self.files.bulk_options()?),
            (Transfer::Files, _) if self.rate.is_some() && !self.verify => {
                bail!("--rate limits rows: --by files has --rate-mb")
            }
            (Transfer::Files, _) => By::Files(self.files.options()?),
        };
        Ok(Move {
            by,
            keyspaces: self.keyspaces.clone(),
            replication: self.replication.clone(),
            without_functions: self.without_functions,
            progress: self.progress.clone(),
            ranges: self.ranges,
            workers: usize::from(self.workers),
            rate: self.rate.map(f64::from),
            follow: self.live.follow(to.contacts.join(","), self.source_credentials()?)?,
            ..Move::new(from, to)
        })
    }
}

/// Runs the command. Returns `false` if rows differ that were not repaired.
pub fn run(arguments: &MoveArguments) -> anyhow::Result<bool> {
    if arguments.from.iter().chain(&arguments.to).any(String::is_empty) {
        bail!("expected HOST:PORT, found an empty address");
    }
    let job = arguments.job()?;
    let console = Console::new(arguments.log_json.as_deref())?;
    if arguments.dry_run {
        job.dry_run(&console)?;
        console.line("nothing was written: this was a dry run");
        return Ok(true);
    }
    if arguments.verify {
        let target_files = arguments.target_files(&console)?;
        let done = job.verify(VerifyOptions { repair: arguments.repair, target_files }, &console)?;
        console.line(&format!(
            "compared {} rows in {}: {} differ, {} of them repaired",
            done.rows,
            duration(done.seconds),
            done.differences,
            done.repaired
        ));
        return Ok(done.differences == done.repaired);
    }
    let done = job.run(&console)?;
    if arguments.live.cuts_over() {
        console.line("the source forwards its clients to the target, also after a restart");
        return Ok(true);
    }
    let copied = match job.by {
        By::Rows => format!("copied {} rows", done.rows),
        By::Files(_) => format!("sent {}", size(done.bytes)),
        By::Import(_) => format!("imported {}", size(done.bytes)),
        By::Bulk(_) => format!("copied {} rows, sent {}", done.rows, size(done.bytes)),
    };
    console.line(&format!(
        "{copied} of {} tables in {}; compare them with --verify",
        done.tables,
        duration(done.seconds)
    ));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistency_levels_are_named_as_in_cql_shells() {
        assert_eq!(consistency("local_one"), Ok(Consistency::LocalOne));
        assert!(consistency("SERIAL").is_err());
    }
}
