//! `cassette backup …`: backups of data directories that no server has open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use cassette_backup::{Backup, BackupOptions, Location, Repository, RestoreOptions, Transfer, parse_until};
use cassette_database::{Database, Options, RestoreNames};
use cassette_server::admin::backup_keys;
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FileSystem, RealFileSystem};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use crate::config::Config;

/// Commands on a directory of backups.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
A directory of backups contains one subdirectory for each backup, with the SSTables and the schema of \
its tables. Each backup is complete. A later backup links the files that the previous one has, and \
takes space only for the rest. The server of a running database creates and restores backups itself:

    cassette nodetool backup /backups
    cassette nodetool restorebackup /backups --truncate shop.orders

Examples:
  Back up a data directory that no server has open:
    cassette backup create --data data /backups

  List backups, and check every file of the latest:
    cassette backup list /backups
    cassette backup verify /backups

  Restore the latest backup into a new data directory, and serve it:
    cassette backup restore /backups --data restored
    cassette serve --data restored

  Use an object store, with AWS_ACCESS_KEY_ID and the others of the environment:
    cassette backup create --data data s3://bucket/prefix

  Encrypt backups, with the first key of a file:
    (umask 077; echo \"2026 $(openssl rand -hex 32)\" >keys)
    cassette backup create --data data --key-file keys /backups

  Restore to a point in time, if the server archives its commit log (--archive-commitlog):
    cassette backup restore /backups --data restored --until '2026-11-24 10:15:30'")]
pub enum BackupCommand {
    /// Back up a data directory that no server has open
    Create(CreateArguments),
    /// List the backups of a directory
    List(ListArguments),
    /// Read every file of a backup, and the commit log that was archived since, and compare them
    /// with the recorded checksums
    Verify(VerifyArguments),
    /// Restore a backup into a data directory: a new one, or one that no server has open
    Restore(RestoreArguments),
    /// Archive the commit log of a data directory that no server has open, such as one whose server
    /// stopped before its last changes were archived
    Archive(ArchiveArguments),
    /// Remove a backup, and the archived commit log that no other needs
    Remove(RemoveArguments),
}

/// The keys of encrypted backups.
#[derive(Debug, Args)]
pub struct KeyArguments {
    /// The keys of encrypted backups: a file that only its owner may read, with lines of an alias
    /// and a key, such as of `openssl rand -hex 32`; the first one encrypts
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyArguments {
    fn location(&self, address: &str) -> anyhow::Result<Location> {
        let keys = self.key_file.as_deref().map(backup_keys).transpose()?;
        Ok(Location { address: address.to_owned(), keys })
    }
}

/// The source and the target.
#[derive(Debug, Args)]
pub struct CreateArguments {
    /// The directory of backups, which is created if it is missing, or s3://BUCKET/PREFIX
    backups: String,
    #[command(flatten)]
    keys: KeyArguments,
    /// Keyspaces; all, with roles and permissions, if none is specified
    keyspaces: Vec<String>,
    /// The data directory
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// The name of the backup [default: the time]
    #[arg(long)]
    name: Option<String>,
    /// Link files of the data directory instead of copying them: without a second copy, a damaged
    /// disk damages both
    #[arg(long)]
    link: bool,
}

/// What is listed.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// The directory of backups, or s3://BUCKET/PREFIX
    backups: String,
    #[command(flatten)]
    keys: KeyArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is verified.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// The directory of backups, or s3://BUCKET/PREFIX
    backups: String,
    #[command(flatten)]
    keys: KeyArguments,
    /// The backup [default: the latest]
    #[arg(long)]
    name: Option<String>,
}

/// The source and the target.
#[derive(Debug, Args)]
#[command(after_help = "\
A new data directory appears when everything in it is complete, with roles and permissions if no names \
are specified. In an existing directory, missing keyspaces and tables are created, and the rows of the \
backup are added to those of the tables: newer rows and deletions remain effective. --truncate replaces \
the present rows, of each table as a whole or not at all. Roles are restored there if system_auth is \
specified. Indexes and views are built again.")]
pub struct RestoreArguments {
    /// The directory of backups, or s3://BUCKET/PREFIX
    backups: String,
    #[command(flatten)]
    keys: KeyArguments,
    /// Keyspaces, or tables as KEYSPACE.TABLE; everything if none is specified
    names: Vec<String>,
    /// The data directory: a missing or empty one, or one that no server has open
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// The backup [default: the latest]
    #[arg(long)]
    name: Option<String>,
    /// Replace the rows of tables that exist
    #[arg(long)]
    truncate: bool,
    /// Replay the archived commit log up to this time, into a new data directory: 'latest', or such
    /// as '2026-11-24 10:15:30.5' in UTC, or with an offset
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// A configuration file whose transparent_data_encryption_options have the keys of an encrypted
    /// commit log
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Restore into this keyspace instead
    #[arg(long, value_name = "KEYSPACE")]
    keyspace_as: Option<String>,
    /// Restore a single table under this name, without its views
    #[arg(long, value_name = "TABLE")]
    table_as: Option<String>,
    /// Do not read the files to verify their checksums before
    #[arg(long)]
    skip_verification: bool,
    /// Print what would be restored, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// What is archived.
#[derive(Debug, Args)]
pub struct ArchiveArguments {
    /// The directory of backups, which is created if it is missing, or s3://BUCKET/PREFIX
    backups: String,
    #[command(flatten)]
    keys: KeyArguments,
    /// The data directory
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// The configuration file of its server, for the keys of an encrypted commit log
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What is removed.
#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// The directory of backups, or s3://BUCKET/PREFIX
    backups: String,
    #[command(flatten)]
    keys: KeyArguments,
    /// The backup
    name: String,
}

impl BackupCommand {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            Self::Create(arguments) => create(arguments)?,
            Self::List(arguments) => list(arguments)?,
            Self::Verify(arguments) => verify(arguments)?,
            Self::Restore(arguments) => restore(arguments)?,
            Self::Archive(arguments) => archive(arguments)?,
            Self::Remove(arguments) => {
                let location = arguments.keys.location(&arguments.backups)?;
                Repository::open_at(file_system(), &location)?.remove(&arguments.name)?;
                println!("removed backup {}", arguments.name);
            }
        }
        Ok(true)
    }
}

fn file_system() -> Arc<dyn FileSystem> {
    Arc::new(RealFileSystem)
}

fn create(arguments: &CreateArguments) -> anyhow::Result<()> {
    let repository = Repository::open_at(file_system(), &arguments.keys.location(&arguments.backups)?)?;
    let database = open(&arguments.data, |_| {})?;
    let options = BackupOptions {
        name: arguments.name.clone(),
        keyspaces: arguments.keyspaces.clone(),
        transfer: if arguments.link { Transfer::Link } else { Transfer::Copy },
    };
    let created = repository.back_up(&database, &options);
    let closed = database.close();
    println!("{}", created?);
    closed?;
    Ok(())
}

fn archive(arguments: &ArchiveArguments) -> anyhow::Result<()> {
    let repository = Repository::open_at(file_system(), &arguments.keys.location(&arguments.backups)?)?;
    let encryption = commitlog_encryption(arguments.config.as_deref())?;
    let database = open(&arguments.data, |options| {
        options.engine.commitlog_archiving = true;
        options.engine.commitlog_encryption = encryption;
    })?;
    let archived = repository.archiver().archive(&database);
    let closed = database.close();
    println!("{}", archived?);
    closed?;
    Ok(())
}

fn commitlog_encryption(config: Option<&Path>) -> anyhow::Result<Option<Arc<dyn Encryption>>> {
    config.map_or(Ok(None), |path| Config::read(path)?.commitlog_encryption())
}

/// Opens an existing data directory.
fn open(data: &Path, set: impl FnOnce(&mut Options)) -> anyhow::Result<Database> {
    // Opening would create one.
    if !data.join("cassette.version").exists() {
        anyhow::bail!("{}: expected a data directory, found no cassette.version in it", data.display());
    }
    let mut options = Options::new(data);
    options.materialized_views_enabled = true;
    options.sasi_indexes_enabled = true;
    options.dynamic_data_masking_enabled = true;
    // A chain of archived segments continues: a command must not end it.
    options.engine.commitlog_archiving = data.join("commitlog/archive/chain").exists();
    set(&mut options);
    Database::open(options).with_context(|| {
        format!("cannot open {}; if a server has it open, use `cassette nodetool`", data.display())
    })
}

fn list(arguments: &ListArguments) -> anyhow::Result<()> {
    let repository =
        Repository::open_at_for_reading(file_system(), &arguments.keys.location(&arguments.backups)?)?;
    let backups = repository.backups()?;
    if arguments.json {
        let backups: Vec<_> = backups.iter().map(as_json).collect();
        println!("{}", serde_json::to_string_pretty(&backups)?);
        return Ok(());
    }
    if backups.is_empty() {
        println!("{}: no backups", arguments.backups);
    }
    for backup in &backups {
        let (tables, sstables) = backup.manifest.counts();
        let key = backup.manifest.key.as_ref().map_or_else(String::new, |key| format!(", key {key}"));
        println!(
            "{:<24}  {}  {tables} tables, {sstables} SSTables, {} bytes{key}",
            backup.name,
            time(backup.manifest.started_at_millis),
            backup.manifest.bytes()
        );
    }
    Ok(())
}

fn as_json(backup: &Backup) -> serde_json::Value {
    let (tables, sstables) = backup.manifest.counts();
    json!({
        "name": backup.name,
        "started_at": time(backup.manifest.started_at_millis),
        "ended_at": time(backup.manifest.ended_at_millis),
        "cassette_version": backup.manifest.cassette_version,
        "tables": tables,
        "sstables": sstables,
        "bytes": backup.manifest.bytes(),
        "key": backup.manifest.key,
    })
}

fn time(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(|_| millis.to_string(), |time| time.to_string())
}

fn verify(arguments: &VerifyArguments) -> anyhow::Result<()> {
    let repository =
        Repository::open_at_for_reading(file_system(), &arguments.keys.location(&arguments.backups)?)?;
    let backup = repository.find(arguments.name.as_deref())?;
    let verified = repository.verify(&backup)?;
    println!("backup {}: {} files, {} bytes: no damage", backup.name, verified.files, verified.bytes);
    if backup.manifest.log.is_some() {
        let log = repository.verify_log(&backup)?;
        println!("archived commit log since: {} segments, {} bytes: no damage", log.files, log.bytes);
    }
    Ok(())
}

fn restore(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let repository =
        Repository::open_at_for_reading(file_system(), &arguments.keys.location(&arguments.backups)?)?;
    let until = arguments.until.as_deref().map(parse_until).transpose()?;
    let name = arguments.name.as_deref();
    let backup = match until {
        Some(until) => repository.find_before(name, until)?,
        None => repository.find(name)?,
    };
    let data = &arguments.data;
    let is_new = is_missing_or_empty(data)?;
    let options = RestoreOptions {
        names: arguments.names.clone(),
        truncate: arguments.truncate,
        skip_verification: arguments.skip_verification,
        until,
        commitlog_encryption: commitlog_encryption(arguments.config.as_deref())?,
        rename: RestoreNames { keyspace: arguments.keyspace_as.clone(), table: arguments.table_as.clone() },
    };
    if arguments.dry_run {
        for table in repository.selected(&backup, &options.names, is_new)? {
            println!("{}  {} SSTables, {} bytes", table.qualified_name(), table.sstables(), table.bytes());
        }
        if let Some(until) = until {
            repository.check_until(&backup, until)?;
        }
        let kind = if is_new { "new" } else { "existing" };
        println!("backup {} into the {kind} directory {}: nothing was changed", backup.name, data.display());
        return Ok(());
    }
    let restored = if is_new {
        repository.restore_into_new(&backup, data, &options)?
    } else {
        let database = open(data, |_| {})?;
        let restored = repository.restore(&backup, &database, &options);
        let closed = database.close();
        let restored = restored?;
        closed?;
        restored
    };
    println!("backup {}: {restored} into {}", backup.name, data.display());
    for warning in &restored.warnings {
        eprintln!("cassette: warning: {warning}");
    }
    Ok(())
}

fn is_missing_or_empty(directory: &Path) -> anyhow::Result<bool> {
    match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        entries => {
            let mut entries = entries.with_context(|| format!("cannot list {}", directory.display()))?;
            Ok(entries.next().is_none())
        }
    }
}
