//! Backups and restores that operators request.

use std::path::Path;
use std::sync::Arc;

use cassette_admin_api::{BackupReport, BackupTaskReport, Done, Refused};
use cassette_backup::{
    BackupKeys, BackupOptions, BackupService, Error, Location, Repository, RestoreOptions, ServiceStatus,
    TaskStatus, Transfer, is_remote,
};
use cassette_database::Database;
use cassette_tls::secret;
use cassette_vfs::RealFileSystem;

/// Reads the keys of encrypted backups from a file that only its owner may read.
///
/// # Errors
/// Invalid, if it is unreadable, others may read it, or it has no valid keys. The text contains no
/// key.
pub fn backup_keys(path: &Path) -> Result<BackupKeys, Error> {
    let text = secret::read(path).map_err(|error| Error::Invalid(error.to_string()))?;
    BackupKeys::parse(&text).map_err(|error| Error::Invalid(format!("{}: {error}", path.display())))
}

/// A repository of backups that an operation names.
pub(super) struct Requested<'a> {
    /// An absolute path or an address.
    pub repository: &'a str,
    /// The absolute path of the file with its keys; those of the scheduled backups, if these are in
    /// the same repository, without one.
    pub key_file: Option<&'a str>,
    pub service: Option<&'a Arc<BackupService>>,
}

impl Requested<'_> {
    fn location(&self) -> Result<Location, Refused> {
        let address = absolute(self.repository)?.to_owned();
        let keys = match (self.key_file, self.service) {
            (Some(file), _) => Some(backup_keys(Path::new(absolute(file)?)).map_err(refused)?),
            (None, Some(service)) => service.keys_of(&address).map_err(refused)?,
            (None, None) => None,
        };
        Ok(Location { address, keys })
    }
}

/// Creates a backup.
pub(super) fn back_up(
    database: &Database,
    requested: &Requested<'_>,
    name: Option<&str>,
    keyspaces: &[String],
    link: bool,
) -> Result<Done, Refused> {
    let options = BackupOptions {
        name: name.map(str::to_owned),
        keyspaces: keyspaces.to_vec(),
        transfer: if link { Transfer::Link } else { Transfer::Copy },
    };
    require_directory(database)?;
    let repository =
        Repository::open_at(Arc::new(RealFileSystem), &requested.location()?).map_err(refused)?;
    let created = repository.back_up(database, &options).map_err(refused)?;
    tracing::info!(backup = created.backup.name, bytes = created.backup.manifest.bytes(), "created a backup");
    Ok(Done { messages: vec![created.to_string()] })
}

/// Restores tables.
pub(super) fn restore(
    database: &Database,
    requested: &Requested<'_>,
    backup: Option<&str>,
    options: &RestoreOptions,
) -> Result<Done, Refused> {
    require_directory(database)?;
    let location = requested.location()?;
    let repository = Repository::open_at_for_reading(Arc::new(RealFileSystem), &location).map_err(refused)?;
    let backup = repository.find(backup).map_err(refused)?;
    let restored = repository.restore(&backup, database, options).map_err(refused)?;
    tracing::info!(backup = backup.name, tables = restored.tables, "restored a backup");
    Ok(Done { messages: vec![format!("backup {}: {restored}", backup.name)] })
}

/// Archives the commit log into the configured repository.
pub(super) fn archive(database: &Database, service: Option<&Arc<BackupService>>) -> Result<Done, Refused> {
    require_directory(database)?;
    let Some(service) = service else {
        return Err(Refused::invalid(
            "the commit log of this server is not archived: start it with backup_options.archive_commitlog: true",
        ));
    };
    let archived = service.archive_now().map_err(refused)?;
    Ok(Done { messages: vec![archived.to_string()] })
}

/// Returns the state of scheduled backups.
pub(super) fn report(status: &ServiceStatus) -> BackupReport {
    let task = |task: &TaskStatus| BackupTaskReport {
        period_seconds: task.period.map(|period| period.as_secs()),
        completed: task.completed,
        failed: task.failed,
        completed_at_millis: task.completed_at_millis,
        error: task.error.clone(),
    };
    BackupReport {
        repository: status.repository.clone(),
        last_backup: status.last_backup.clone(),
        schedule: task(&status.backups),
        archive: task(&status.archive),
        archived_until_millis: status.archived_until_micros.map(|micros| micros.div_euclid(1000)),
        archived_segments: status.archived_segments,
    }
}

/// Refuses to exchange files with the disk if the database has its own in memory.
pub(super) fn require_directory(database: &Database) -> Result<(), Refused> {
    if !database.engine().is_in_memory() {
        return Ok(());
    }
    Err(Refused::invalid(
        "the files of this server are in memory: backups, restores, imports and refresh need a server with a \
         data directory (cassette serve --data DIR); COPY and `cassette move` copy rows",
    ))
}

fn absolute(location: &str) -> Result<&str, Refused> {
    if is_remote(location) || Path::new(location).is_absolute() {
        return Ok(location);
    }
    Err(Refused::wrong_use(format!("expected an absolute path of the node's machine, found {location}")))
}

fn refused(error: Error) -> Refused {
    match error {
        Error::Invalid(message) => Refused::invalid(message),
        other => Refused::failed(other.to_string()),
    }
}
