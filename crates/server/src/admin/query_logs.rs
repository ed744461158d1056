//! Reports and operations of the audit log and the full query log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cassette_admin_api::{
    AuditLogChanges, AuditLogReport, FullQueryLogReport, LogFileChanges, Refused, SlowQueryReport,
};
use cassette_database::SlowQuery;
use cassette_query_log::RollCycle;

use super::Admin;
use crate::query_logs::{AuditLogger, EnableError, Names, QueryLogs};

/// Returns the logs of the server.
pub(super) fn of(admin: &Admin) -> Result<&Arc<QueryLogs>, Refused> {
    admin.query_logs.get().ok_or_else(|| Refused::invalid("this server has no logs of queries"))
}

/// Reports the audit log.
pub(super) fn audit(admin: &Admin) -> Result<AuditLogReport, Refused> {
    let (settings, enabled) = of(admin)?.audit();
    let names = |names: &std::collections::BTreeSet<String>| {
        names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    };
    let loggers: Vec<_> = settings.loggers.iter().map(|logger| logger.class_name()).collect();
    let (filter, files) = (&settings.filter, &settings.files);
    Ok(AuditLogReport {
        enabled,
        logger: loggers.join(","),
        audit_logs_dir: files.directory.display().to_string(),
        roll_cycle: files.roll_cycle.name().to_owned(),
        block: files.block,
        max_log_size: files.max_log_size,
        max_queue_weight: files.max_queue_weight,
        included_keyspaces: names(&filter.keyspaces.included),
        excluded_keyspaces: names(&filter.keyspaces.excluded),
        included_categories: names(&filter.categories.included),
        excluded_categories: names(&filter.categories.excluded),
        included_users: names(&filter.users.included),
        excluded_users: names(&filter.users.excluded),
    })
}

/// Reports the full query log.
pub(super) fn full_query(admin: &Admin) -> Result<FullQueryLogReport, Refused> {
    let (settings, enabled) = of(admin)?.full_query();
    Ok(FullQueryLogReport {
        enabled,
        log_dir: settings.directory.map(|directory| directory.display().to_string()).unwrap_or_default(),
        roll_cycle: settings.roll_cycle.name().to_owned(),
        block: settings.block,
        max_log_size: settings.max_log_size,
        max_queue_weight: settings.max_queue_weight,
    })
}

/// Reports the latest slow statements, the newest first.
pub(super) fn slow(admin: &Admin) -> Vec<SlowQueryReport> {
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let report = |query: SlowQuery| SlowQueryReport {
        text: query.text,
        count: query.count,
        mean_millis: millis(query.total) / query.count.max(1) as f64,
        min_millis: millis(query.min),
        max_millis: millis(query.max),
        last_millis: query.last_millis,
    };
    admin.database.slow_queries().into_iter().map(report).collect()
}

/// Enables the audit log with the configured settings and changes to them.
pub(super) fn enable_audit(admin: &Admin, changes: &AuditLogChanges) -> Result<(), Refused> {
    let logs = of(admin)?;
    let mut settings = logs.configured_audit();
    if let Some(logger) = &changes.logger {
        let loggers = logger.split(',').map(|class| AuditLogger::named(class.trim()));
        settings.loggers = loggers.collect::<Result<_, _>>().map_err(Refused::invalid)?;
    }
    let filter = &mut settings.filter;
    for (names, included, excluded) in [
        (&mut filter.keyspaces, &changes.included_keyspaces, &changes.excluded_keyspaces),
        (&mut filter.categories, &changes.included_categories, &changes.excluded_categories),
        (&mut filter.users, &changes.included_users, &changes.excluded_users),
    ] {
        let changed =
            Names::parse(included.as_deref().unwrap_or_default(), excluded.as_deref().unwrap_or_default());
        if included.is_some() {
            names.included = changed.included;
        }
        if excluded.is_some() {
            names.excluded = changed.excluded;
        }
    }
    filter.check().map_err(Refused::wrong_use)?;
    let files = &mut settings.files;
    change_files(
        &changes.files,
        &mut files.roll_cycle,
        &mut files.block,
        &mut files.max_log_size,
        &mut files.max_queue_weight,
    )?;
    logs.enable_audit(settings).map_err(refused)
}

/// Enables the full query log with the configured settings and changes to them.
pub(super) fn enable_full_query(
    admin: &Admin,
    path: Option<&str>,
    changes: &LogFileChanges,
) -> Result<(), Refused> {
    let logs = of(admin)?;
    let mut settings = logs.configured_full_query();
    if let Some(path) = path {
        settings.directory = Some(PathBuf::from(path));
    }
    change_files(
        changes,
        &mut settings.roll_cycle,
        &mut settings.block,
        &mut settings.max_log_size,
        &mut settings.max_queue_weight,
    )?;
    logs.enable_full_query(settings).map_err(refused)
}

fn change_files(
    changes: &LogFileChanges,
    roll_cycle: &mut RollCycle,
    block: &mut bool,
    max_log_size: &mut u64,
    max_queue_weight: &mut u64,
) -> Result<(), Refused> {
    if let Some(name) = &changes.roll_cycle {
        *roll_cycle = RollCycle::named(name).map_err(Refused::wrong_use)?;
    }
    if let Some(changed) = changes.block {
        *block = changed;
    }
    for (changed, size, name) in [
        (changes.max_queue_weight, max_queue_weight, "maxQueueWeight"),
        (changes.max_log_size, max_log_size, "maxLogSize"),
    ] {
        if let Some(changed) = changed {
            *size = u64::try_from(changed)
                .ok()
                .filter(|changed| *changed > 0)
                .ok_or_else(|| Refused::wrong_use(format!("{name} must be > 0")))?;
        }
    }
    Ok(())
}

fn refused(error: EnableError) -> Refused {
    match error {
        EnableError::Invalid(message) => Refused::wrong_use(message),
        EnableError::Io { .. } => Refused::failed(error.to_string()),
    }
}
