//! Backups and restores that operators request.

use std::path::Path;
use std::sync::Arc;

use cassette_admin_api::{BackupReport, BackupTaskReport, Done, Refused};
use cassette_backup::{
    BackupOptions, BackupService, Error, Repository, RestoreOptions, ServiceStatus, TaskStatus, Transfer,
    is_remote,
};
use cassette_database::Database;
use cassette_vfs::RealFileSystem;

/// Creates a backup in the repository at the absolute path or address `repository`.
pub(super) fn back_up(
    database: &Database,
    repository: &str,
    name: Option<&str>,
    keyspaces: &[String],
    link: bool,
) -> Result<Done, Refused> {
    let options = BackupOptions {
        name: name.map(str::to_owned),
        keyspaces: keyspaces.to_vec(),
        transfer: if link { Transfer::Link } else { Transfer::Copy },
    };
    let repository = Repository::open_at(Arc::new(RealFileSystem), absolute(repository)?).map_err(refused)?;
    let created = repository.back_up(database, &options).map_err(refused)?;
    tracing::info!(backup = created.backup.name, bytes = created.backup.manifest.bytes(), "created a backup");
    Ok(Done { messages: vec![created.to_string()] })
}

/// Restores tables from the repository at the absolute path or address `repository`.
pub(super) fn restore(
    database: &Database,
    repository: &str,
    backup: Option<&str>,
    options: &RestoreOptions,
) -> Result<Done, Refused> {
    let location = absolute(repository)?;
    let repository = Repository::open_at_for_reading(Arc::new(RealFileSystem), location).map_err(refused)?;
    let backup = repository.find(backup).map_err(refused)?;
    let restored = repository.restore(&backup, database, options).map_err(refused)?;
    tracing::info!(backup = backup.name, tables = restored.tables, "restored a backup");
    Ok(Done { messages: vec![format!("backup {}: {restored}", backup.name)] })
}

/// Archives the commit log into the configured repository.
pub(super) fn archive(service: Option<&Arc<BackupService>>) -> Result<Done, Refused> {
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
