//! `audit_logging_options` and `full_query_logging_options`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cassette_query_log::RollCycle;
use cassette_server::query_logs::{AuditLogger, AuditSettings, FullQuerySettings, Names};
use serde::Deserialize;

use super::bytes;

/// The default number of retries of an archive command, which is not supported.
const MAX_ARCHIVE_RETRIES: i64 = 10;

/// What is recorded of requests, and where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditLogging {
    #[serde(default)]
    enabled: bool,
    logger: Option<Loggers>,
    audit_logs_dir: Option<PathBuf>,
    included_keyspaces: Option<String>,
    excluded_keyspaces: Option<String>,
    included_categories: Option<String>,
    excluded_categories: Option<String>,
    included_users: Option<String>,
    excluded_users: Option<String>,
    roll_cycle: Option<String>,
    block: Option<bool>,
    max_queue_weight: Option<Size>,
    max_log_size: Option<Size>,
    archive_command: Option<String>,
    max_archive_retries: Option<i64>,
    allow_nodetool_archive_command: Option<bool>,
}

/// Where queries are recorded, once `nodetool enablefullquerylog` has been called.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullQueryLogging {
    log_dir: Option<PathBuf>,
    roll_cycle: Option<String>,
    block: Option<bool>,
    max_queue_weight: Option<Size>,
    max_log_size: Option<Size>,
    archive_command: Option<String>,
    max_archive_retries: Option<i64>,
    allow_nodetool_archive_command: Option<bool>,
}

/// A list of classes, or one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Loggers {
    List(Vec<Logger>),
    One(Logger),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Logger {
    class_name: String,
    parameters: Option<serde_json::Value>,
}

/// Bytes as a number, as in Cassandra, or with a unit.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(i64),
    Text(String),
}

/// The keys of archiving, which is not supported.
struct Archiving<'a> {
    command: Option<&'a str>,
    retries: Option<i64>,
    by_nodetool: Option<bool>,
}

impl AuditLogging {
    /// Returns the settings, and whether the log is enabled at the start.
    fn settings(&self, data: Option<&Path>) -> anyhow::Result<(AuditSettings, bool)> {
        let archiving = Archiving {
            command: self.archive_command.as_deref(),
            retries: self.max_archive_retries,
            by_nodetool: self.allow_nodetool_archive_command,
        };
        archiving.check()?;
        let mut settings = audit_defaults(data);
        if let Some(directory) = &self.audit_logs_dir {
            settings.files.directory.clone_from(directory);
        }
        if let Some(loggers) = &self.logger {
            settings.loggers = loggers.audit_loggers()?;
        }
        let filter = &mut settings.filter;
        for (names, included, excluded) in [
            (&mut filter.keyspaces, &self.included_keyspaces, &self.excluded_keyspaces),
            (&mut filter.categories, &self.included_categories, &self.excluded_categories),
            (&mut filter.users, &self.included_users, &self.excluded_users),
        ] {
            let set = Names::parse(
                included.as_deref().unwrap_or_default(),
                excluded.as_deref().unwrap_or_default(),
            );
            names.included = set.included;
            if excluded.is_some() {
                names.excluded = set.excluded;
            }
        }
        filter.check().map_err(anyhow::Error::msg)?;
        let files = &mut settings.files;
        set_cycle(&mut files.roll_cycle, self.roll_cycle.as_deref())?;
        files.block = self.block.unwrap_or(files.block);
        set_size(&mut files.max_queue_weight, self.max_queue_weight.as_ref(), "max_queue_weight")?;
        set_size(&mut files.max_log_size, self.max_log_size.as_ref(), "max_log_size")?;
        Ok((settings, self.enabled))
    }
}

impl FullQueryLogging {
    fn settings(&self) -> anyhow::Result<FullQuerySettings> {
        let archiving = Archiving {
            command: self.archive_command.as_deref(),
            retries: self.max_archive_retries,
            by_nodetool: self.allow_nodetool_archive_command,
        };
        archiving.check()?;
        // As in Cassandra's file, empty means none.
        let directory = self.log_dir.clone().filter(|path| !path.as_os_str().is_empty());
        let mut settings = FullQuerySettings { directory, ..FullQuerySettings::default() };
        set_cycle(&mut settings.roll_cycle, self.roll_cycle.as_deref())?;
        settings.block = self.block.unwrap_or(settings.block);
        set_size(&mut settings.max_queue_weight, self.max_queue_weight.as_ref(), "max_queue_weight")?;
        set_size(&mut settings.max_log_size, self.max_log_size.as_ref(), "max_log_size")?;
        Ok(settings)
    }
}

impl Loggers {
    fn audit_loggers(&self) -> anyhow::Result<Vec<AuditLogger>> {
        let names: Vec<&str> = match self {
            Self::Name(name) => vec![name],
            Self::One(logger) => vec![logger.checked()?],
            Self::List(loggers) => loggers.iter().map(Logger::checked).collect::<Result<_, _>>()?,
        };
        if names.is_empty() {
            bail!("logger: expected at least one class_name");
        }
        names
            .iter()
            .map(|name| AuditLogger::named(name).map_err(|e| anyhow::anyhow!("logger: {e}")))
            .collect()
    }
}

impl Logger {
    fn checked(&self) -> anyhow::Result<&str> {
        let is_empty = |parameters: &serde_json::Value| match parameters {
            serde_json::Value::Null => true,
            serde_json::Value::Array(list) => list.is_empty(),
            serde_json::Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if self.parameters.as_ref().is_some_and(|parameters| !is_empty(parameters)) {
            bail!("logger: {} has no parameters here", self.class_name);
        }
        Ok(&self.class_name)
    }
}

impl Archiving<'_> {
    /// Refuses to archive: a log that must not be lost would be.
    fn check(&self) -> anyhow::Result<()> {
        if self.command.is_some_and(|command| !command.is_empty()) || self.by_nodetool == Some(true) {
            bail!(
                "archive_command is not supported: copy closed files from the directory, before max_log_size \
                 removes them"
            );
        }
        if self.retries.is_some_and(|retries| retries != MAX_ARCHIVE_RETRIES) {
            bail!("max_archive_retries is not supported: there is no archive_command");
        }
        Ok(())
    }
}

/// Returns the defaults. The log has no directory without a data directory.
fn audit_defaults(data: Option<&Path>) -> AuditSettings {
    AuditSettings::new(data.map(|data| data.join("audit")).unwrap_or_default())
}

fn set_cycle(target: &mut RollCycle, name: Option<&str>) -> anyhow::Result<()> {
    if let Some(name) = name {
        *target = RollCycle::named(name).map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

fn set_size(target: &mut u64, size: Option<&Size>, key: &str) -> anyhow::Result<()> {
    let size = match size {
        None => return Ok(()),
        Some(Size::Bytes(size)) => u64::try_from(*size).unwrap_or(0),
        Some(Size::Text(text)) => bytes(text).with_context(|| key.to_owned())?,
    };
    if size == 0 {
        bail!("{key}: expected more than 0 bytes");
    }
    *target = size;
    Ok(())
}

/// Returns the settings of the audit log of a server, whose data directory is `data` if it has one,
/// and whether the log is enabled at the start.
pub(super) fn audit(
    options: Option<&AuditLogging>,
    data: Option<&Path>,
) -> anyhow::Result<(AuditSettings, bool)> {
    match options {
        Some(options) => options.settings(data).context("audit_logging_options"),
        None => Ok((audit_defaults(data), false)),
    }
}

/// Returns the settings of the full query log.
pub(super) fn full_query(options: Option<&FullQueryLogging>) -> anyhow::Result<FullQuerySettings> {
    match options {
        Some(options) => options.settings().context("full_query_logging_options"),
        None => Ok(FullQuerySettings::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn audit_of(options: &str) -> anyhow::Result<(AuditSettings, bool)> {
        let config = Config::parse(&format!("audit_logging_options:\n{options}"))?;
        config.audit_log(Some(Path::new("/data")))
    }

    #[test]
    fn the_defaults_are_those_of_cassandra() {
        let (settings, enabled) = Config::default().audit_log(Some(Path::new("/data"))).unwrap();
        assert!(!enabled);
        assert_eq!(settings, AuditSettings::new("/data/audit"));
        assert_eq!(settings.loggers, [AuditLogger::Files]);
        assert_eq!((settings.files.max_queue_weight, settings.files.max_log_size), (256 << 20, 16 << 30));
        assert!(settings.filter.keyspaces.excluded.contains("system_schema"));
    }

    /// In the notation of Cassandra's file.
    #[test]
    fn all_supported_options_have_an_effect() {
        let (settings, enabled) = audit_of(
            "  enabled: true\n  logger:\n    - class_name: FileAuditLogger\n    - class_name: JsonAuditLogger\n  \
             audit_logs_dir: /audit\n  included_keyspaces: a,b\n  excluded_keyspaces: c\n  \
             included_categories: QUERY\n  excluded_categories: DDL\n  included_users: u\n  excluded_users: v\n  \
             roll_cycle: MINUTELY\n  block: false\n  max_queue_weight: 1024\n  max_log_size: 1GiB\n",
        )
        .unwrap();
        assert!(enabled);
        assert_eq!(settings.loggers, [AuditLogger::ServerLog, AuditLogger::Json]);
        assert_eq!(settings.filter.keyspaces, Names::parse("a,b", "c"));
        assert_eq!(settings.filter.categories, Names::parse("QUERY", "DDL"));
        assert_eq!(settings.filter.users, Names::parse("u", "v"));
        let files = &settings.files;
        assert_eq!((files.directory.as_path(), files.roll_cycle), (Path::new("/audit"), RollCycle::Minutely));
        assert_eq!((files.block, files.max_queue_weight, files.max_log_size), (false, 1024, 1 << 30));
    }

    #[test]
    fn unsupported_options_are_refused_by_name() {
        for (options, reason) in [
            ("  logger:\n    - class_name: NoSuch\n", "found NoSuch"),
            ("  archive_command: /bin/x %path\n", "archive_command"),
            ("  max_archive_retries: 3\n", "max_archive_retries"),
            ("  roll_cycle: SOMETIMES\n", "roll_cycle"),
            ("  included_categories: READS\n", "found READS"),
            ("  max_log_size: 0\n", "max_log_size"),
            ("  nosuch: 1\n", "nosuch"),
        ] {
            let error = format!("{:#}", audit_of(options).unwrap_err());
            assert!(error.contains(reason), "{options}: {error}");
        }
        assert!(audit_of("  archive_command: ''\n  max_archive_retries: 10\n").is_ok());
    }

    #[test]
    fn the_full_query_log_has_no_directory_until_it_is_configured() {
        assert_eq!(Config::default().full_query_log().unwrap().directory, None);
        let config = Config::parse("full_query_logging_options:\n  log_dir: /q\n  block: false\n").unwrap();
        let settings = config.full_query_log().unwrap();
        assert_eq!((settings.directory.as_deref(), settings.block), (Some(Path::new("/q")), false));
        let config = Config::parse("full_query_logging_options:\n  log_dir: ''\n").unwrap();
        assert_eq!(config.full_query_log().unwrap().directory, None);
    }
}
