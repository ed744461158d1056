//! `cassette serve --in-memory`: a server without a data directory.

use std::sync::Arc;

use anyhow::{Context, bail};
use cassette_database::Options;
use cassette_tools::units::bytes;
use cassette_vfs::{MemoryFileSystem, memory_limit};
use clap::Args;

use crate::config::Config;

/// The lowest limit: as much for SSTables as for two segments of the commit log.
const LIMIT_MIN: u64 = 128 << 20;

/// Arguments of `cassette serve` about files in memory.
#[derive(Debug, Args)]
pub struct InMemoryArguments {
    /// Keep all files in memory instead of a data directory: they are lost at the end; for tests.
    /// `auto_snapshot` is false by default then
    #[arg(
        long,
        conflicts_with_all = [
            "data", "read_only", "temporary", "skip_damaged_log", "undo_cut_over", "backup_to", "backup_every",
            "backup_key_file", "archive_commitlog",
        ]
    )]
    in_memory: bool,

    /// The maximum size of all files with --in-memory, such as 512MiB; memtables and caches are not
    /// included [default: a quarter of the memory]
    #[arg(long, value_name = "SIZE", requires = "in_memory", value_parser = limit)]
    memory_limit: Option<u64>,
}

/// Parses `--memory-limit`.
fn limit(text: &str) -> anyhow::Result<u64> {
    limit_within(text, memory_limit())
}

/// Parses `--memory-limit` of a process that may use `memory` bytes.
fn limit_within(text: &str, memory: Option<u64>) -> anyhow::Result<u64> {
    let limit = bytes(text)?;
    if limit < LIMIT_MIN {
        bail!("expected at least {}MiB, found {text}", LIMIT_MIN >> 20);
    }
    if let Some(memory) = memory
        && limit > memory
    {
        bail!("expected at most the memory of {}MiB, found {text}", memory >> 20);
    }
    Ok(limit)
}

impl InMemoryArguments {
    /// Returns whether the files are in memory.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Refuses settings whose files other programs read, or that keep files beyond the end. Changes
    /// no file.
    ///
    /// # Errors
    /// The setting, and what to do.
    pub fn check(&self, config: &Config) -> anyhow::Result<()> {
        if !self.in_memory {
            return Ok(());
        }
        if config.has_backups() {
            bail!(
                "--in-memory: backup_options (backups and the archived commit log) need a data directory; use --data \
                 instead"
            );
        }
        if config.captures_changes() {
            bail!(
                "--in-memory: cdc_enabled needs a data directory, where consumers read changes; use --data instead"
            );
        }
        let (audit, is_enabled) = config.audit_log(None)?;
        if is_enabled && !audit.has_directory() {
            bail!(
                "--in-memory: the files of the audit log need a directory: set audit_logs_dir of \
                 audit_logging_options, or another logger"
            );
        }
        Ok(())
    }

    /// Applies the arguments to the options of the database.
    ///
    /// # Errors
    /// If the limit is too small for the segments of the commit log.
    pub fn apply(&self, options: &mut Options) -> anyhow::Result<()> {
        if !self.in_memory {
            return Ok(());
        }
        let limit = self.memory_limit.unwrap_or_else(|| default_limit(memory_limit()));
        options.engine.data_dir = Options::in_memory().engine.data_dir;
        options.file_system = Arc::new(MemoryFileSystem::with_limit(limit));
        let total = &mut options.engine.commitlog_total_space;
        *total = commit_log_space(limit, u64::from(options.engine.commitlog_segment_size), *total)
            .context("--memory-limit")?;
        Ok(())
    }
}

/// Returns a quarter of the memory that the process may use.
fn default_limit(memory: Option<u64>) -> u64 {
    const UNKNOWN: u64 = 1 << 30;
    memory.map_or(UNKNOWN, |memory| memory / 4).max(LIMIT_MIN)
}

/// Returns `commitlog_total_space`, at most `wanted`: a quarter of the limit, or two segments if
/// they are larger. The rest is for SSTables, and for those that replace them in compactions.
fn commit_log_space(limit: u64, segment: u64, wanted: u64) -> anyhow::Result<u64> {
    let segments = segment.saturating_mul(2);
    if limit / 2 < segments {
        bail!(
            "expected at least {}MiB, four times commitlog_segment_size, found {}MiB; raise it, or use smaller \
             segments",
            segments.saturating_mul(2).div_ceil(1 << 20),
            limit >> 20
        );
    }
    Ok(wanted.min((limit / 4).max(segments)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_limit_has_bounds_and_a_default() {
        let parse = |text| limit_within(text, Some(2048 * MIB)).map_err(|error| error.to_string());
        assert_eq!(parse("1GiB"), Ok(1024 * MIB));
        assert_eq!(parse("2GiB"), Ok(2048 * MIB));
        assert_eq!(parse("100MiB"), Err("expected at least 128MiB, found 100MiB".to_owned()));
        assert_eq!(parse("3GiB"), Err("expected at most the memory of 2048MiB, found 3GiB".to_owned()));
        assert_eq!(limit_within("3GiB", None).unwrap(), 3072 * MIB);
        assert_eq!(default_limit(Some(8 << 30)), 2 << 30);
        assert_eq!(default_limit(Some(1 << 20)), LIMIT_MIN);
        assert_eq!(default_limit(None), 1 << 30);
    }

    #[test]
    fn the_commit_log_has_at_most_half_of_the_limit() {
        let space = |limit, segment| commit_log_space(limit, segment, 8192 * MIB);
        assert_eq!(space(LIMIT_MIN, 32 * MIB).unwrap(), 64 * MIB);
        assert_eq!(space(1024 * MIB, 32 * MIB).unwrap(), 256 * MIB);
        assert_eq!(commit_log_space(1024 * MIB, 4 * MIB, 8 * MIB).unwrap(), 8 * MIB);
        let refused = space(LIMIT_MIN, 64 * MIB).unwrap_err().to_string();
        assert!(
            refused.starts_with("expected at least 256MiB, four times commitlog_segment_size"),
            "{refused}"
        );
    }

    #[test]
    fn settings_that_need_a_directory_are_refused() {
        let check = |in_memory, text| {
            let config = Config::parse(text).unwrap();
            InMemoryArguments { in_memory, memory_limit: None }
                .check(&config)
                .map_err(|error| error.to_string())
        };
        for (text, name) in [
            ("cdc_enabled: true\n", "cdc_enabled"),
            ("backup_options:\n  repository: /nowhere\n  backup_period: 1h\n", "backup_options"),
            ("backup_options:\n  archive_commitlog: true\n", "backup_options"),
            ("audit_logging_options:\n  enabled: true\n", "audit_logs_dir"),
        ] {
            let refused = check(true, text).unwrap_err();
            assert!(refused.contains(name), "{refused}");
            check(false, text).unwrap();
        }
        for text in [
            "",
            "audit_logging_options:\n  enabled: true\n  audit_logs_dir: /audit\n",
            "audit_logging_options:\n  enabled: true\n  logger: JsonAuditLogger\n",
        ] {
            check(true, text).unwrap();
        }
    }
}
