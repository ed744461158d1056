//! `getauditlog`, `enableauditlog`, `getfullquerylog`, `enablefullquerylog` with the texts of
//! Cassandra's nodetool.

use cassette_admin_api::{AuditLogChanges, AuditLogReport, FullQueryLogReport, LogFileChanges, Operation};

use super::arguments::Invocation;
use super::text::Table;
use super::{Failure, Result};

/// What Cassandra shows of archiving, which is not supported.
const ARCHIVE_COMMAND: (&str, &str) = ("archive_command", "");
const MAX_ARCHIVE_RETRIES: (&str, &str) = ("max_archive_retries", "10");

/// Formats the output of `getauditlog`.
pub(super) fn audit(report: &AuditLogReport) -> String {
    let (enabled, block) = (report.enabled.to_string(), report.block.to_string());
    let (size, weight) = (report.max_log_size.to_string(), report.max_queue_weight.to_string());
    text(&[
        ("enabled", &enabled),
        ("logger", &report.logger),
        ("audit_logs_dir", &report.audit_logs_dir),
        ARCHIVE_COMMAND,
        ("roll_cycle", &report.roll_cycle),
        ("block", &block),
        ("max_log_size", &size),
        ("max_queue_weight", &weight),
        MAX_ARCHIVE_RETRIES,
        ("included_keyspaces", &report.included_keyspaces),
        ("excluded_keyspaces", &report.excluded_keyspaces),
        ("included_categories", &report.included_categories),
        ("excluded_categories", &report.excluded_categories),
        ("included_users", &report.included_users),
        ("excluded_users", &report.excluded_users),
    ])
}

/// Formats the output of `getfullquerylog`.
pub(super) fn full_query(report: &FullQueryLogReport) -> String {
    let (enabled, block) = (report.enabled.to_string(), report.block.to_string());
    let (size, weight) = (report.max_log_size.to_string(), report.max_queue_weight.to_string());
    text(&[
        ("enabled", &enabled),
        ("log_dir", &report.log_dir),
        ARCHIVE_COMMAND,
        ("roll_cycle", &report.roll_cycle),
        ("block", &block),
        ("max_log_size", &size),
        ("max_queue_weight", &weight),
        MAX_ARCHIVE_RETRIES,
    ])
}

fn text(rows: &[(&str, &str)]) -> String {
    let mut table = Table::default();
    for (name, value) in rows {
        table.row([*name, value]);
    }
    table.text(" ")
}

/// Returns the operation of `enableauditlog`.
pub(super) fn enable_audit(invocation: &Invocation) -> Result<Operation> {
    let text = |name: &str| invocation.option(name).map(str::to_owned);
    Ok(Operation::EnableAuditLog(AuditLogChanges {
        logger: text("--logger"),
        included_keyspaces: text("--included-keyspaces"),
        excluded_keyspaces: text("--excluded-keyspaces"),
        included_categories: text("--included-categories"),
        excluded_categories: text("--excluded-categories"),
        included_users: text("--included-users"),
        excluded_users: text("--excluded-users"),
        files: files(invocation, "audit log")?,
    }))
}

/// Returns the operation of `enablefullquerylog`.
pub(super) fn enable_full_query(invocation: &Invocation) -> Result<Operation> {
    let path = invocation.option("--path").map(str::to_owned);
    Ok(Operation::EnableFullQueryLog { path, files: files(invocation, "full query log")? })
}

fn files(invocation: &Invocation, log: &str) -> Result<LogFileChanges> {
    let block = match invocation.option("--blocking") {
        None => None,
        Some(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Some(text) if text.eq_ignore_ascii_case("false") => Some(false),
        Some(other) => {
            let message = format!("Invalid [{other}]. Blocking only accepts 'true' or 'false'.");
            return Err(Failure::usage(message));
        }
    };
    if invocation.option("--archive-command").is_some_and(|command| !command.is_empty()) {
        return Err(Failure::Error(format!(
            "Can't enable {log} archiving via nodetool: archive commands are not supported; closed files can be \
             copied at any time"
        )));
    }
    if let Some(retries) = invocation.option("--max-archive-retries") {
        return Err(Failure::usage(match retries.parse::<i32>() {
            Err(_) => format!("archive_retries: can not convert \"{retries}\" to a int"),
            Ok(_) => "--max-archive-retries: archive commands are not supported".to_owned(),
        }));
    }
    let size = |option: &str, name: &str, kind: &str| match invocation.option(option) {
        None => Ok(None),
        Some(text) => text
            .parse::<i64>()
            .map(Some)
            .map_err(|_| Failure::usage(format!("{name}: can not convert \"{text}\" to a {kind}"))),
    };
    Ok(LogFileChanges {
        roll_cycle: invocation.option("--roll-cycle").map(str::to_owned),
        block,
        max_log_size: size("--max-log-size", "max_log_size", "long")?,
        max_queue_weight: size("--max-queue-weight", "max_queue_weight", "int")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{self, Parsed};
    use super::*;

    fn invocation(line: &str) -> Invocation {
        match arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()) {
            Ok(Parsed::Run(invocation)) => invocation,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// As recorded from Cassandra 5.0.8.
    #[test]
    fn the_texts_are_those_of_cassandra() {
        let report = AuditLogReport {
            enabled: true,
            logger: "FileAuditLogger".into(),
            audit_logs_dir: "/var/lib/cass/log/audit".into(),
            roll_cycle: "HOURLY".into(),
            block: true,
            max_log_size: 17_179_869_184,
            max_queue_weight: 268_435_456,
            excluded_keyspaces: "system,system_schema,system_virtual_schema".into(),
            included_users: "a,b".into(),
            ..AuditLogReport::default()
        };
        assert_eq!(audit(&report), include_str!("recorded/getauditlog.txt"));
        let report = FullQueryLogReport {
            enabled: false,
            log_dir: "/var/lib/cass/log/fql".into(),
            roll_cycle: "HOURLY".into(),
            block: true,
            max_log_size: 17_179_869_184,
            max_queue_weight: 268_435_456,
        };
        assert_eq!(full_query(&report), include_str!("recorded/getfullquerylog.txt"));
    }

    #[test]
    fn options_become_changes_of_the_configuration() {
        let parsed = invocation(
            "enableauditlog --excluded-keyspaces foo,bar --included-categories QUERY --blocking FALSE \
             --max-log-size 5 --roll-cycle DAILY --logger BinAuditLogger",
        );
        let changes = AuditLogChanges {
            logger: Some("BinAuditLogger".into()),
            excluded_keyspaces: Some("foo,bar".into()),
            included_categories: Some("QUERY".into()),
            files: LogFileChanges {
                roll_cycle: Some("DAILY".into()),
                block: Some(false),
                max_log_size: Some(5),
                max_queue_weight: None,
            },
            ..AuditLogChanges::default()
        };
        assert_eq!(enable_audit(&parsed), Ok(Operation::EnableAuditLog(changes)));
        let parsed = invocation("enablefullquerylog --path /logs --max-queue-weight 7");
        let files = LogFileChanges { max_queue_weight: Some(7), ..LogFileChanges::default() };
        let operation = Operation::EnableFullQueryLog { path: Some("/logs".into()), files };
        assert_eq!(enable_full_query(&parsed), Ok(operation));
    }

    #[test]
    fn invalid_and_unsupported_options_are_refused() {
        for (line, expected) in [
            ("--blocking maybe", "Invalid [maybe]. Blocking only accepts 'true' or 'false'."),
            ("--max-archive-retries x", "archive_retries: can not convert \"x\" to a int"),
            ("--max-archive-retries 3", "--max-archive-retries: archive commands are not supported"),
            ("--max-log-size x", "max_log_size: can not convert \"x\" to a long"),
        ] {
            let parsed = invocation(&format!("enableauditlog {line}"));
            assert_eq!(enable_audit(&parsed), Err(Failure::usage(expected)), "{line}");
        }
        let archiving = enable_full_query(&invocation("enablefullquerylog --archive-command x"));
        let Err(Failure::Error(message)) = archiving else { panic!("{archiving:?}") };
        assert!(message.contains("archive commands are not supported"), "{message}");
    }
}
