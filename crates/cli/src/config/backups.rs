//! `backup_options`: scheduled backups and the archived commit log. Not in Cassandra.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cassette_backup::{Location, Repository, ServiceOptions, Transfer, is_remote};
use cassette_server::admin::backup_keys;
use cassette_vfs::RealFileSystem;
use serde::Deserialize;

use super::{Config, duration};

const OPTION: &str = "backup_options";

/// How often the commit log is archived, unless it is specified: what a lost machine loses.
const ARCHIVE_PERIOD: Duration = Duration::from_secs(60);
/// The minimum of both periods.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// Backups of a server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupSettings {
    /// The directory of backups, or `s3://bucket/prefix`.
    pub repository: Option<String>,
    /// Whether the commit log is archived there.
    pub archive_commitlog: Option<bool>,
    /// How often, at least; everything acknowledged until then survives a loss of the machine.
    pub archive_period: Option<String>,
    /// How often a backup is created; never if it is missing.
    pub backup_period: Option<String>,
    /// The number of scheduled backups to keep; all if it is missing.
    pub keep: Option<usize>,
    /// Whether files are linked instead of copied.
    pub link: Option<bool>,
    /// A file with the keys of encrypted backups.
    pub key_file: Option<PathBuf>,
}

impl Config {
    /// Overrides `backup_options` by arguments.
    pub fn choose_backups(&mut self, arguments: BackupSettings) {
        let settings = self.backup_options.get_or_insert_default();
        let BackupSettings {
            repository,
            archive_commitlog,
            archive_period,
            backup_period,
            keep,
            link,
            key_file,
        } = arguments;
        settings.repository = repository.or(settings.repository.take());
        settings.archive_commitlog = archive_commitlog.or(settings.archive_commitlog);
        settings.archive_period = archive_period.or(settings.archive_period.take());
        settings.backup_period = backup_period.or(settings.backup_period.take());
        settings.keep = keep.or(settings.keep);
        settings.link = link.or(settings.link);
        settings.key_file = key_file.or(settings.key_file.take());
    }

    /// Whether finished segments of the commit log are kept until they are archived.
    pub(super) fn archives_commitlog(&self) -> bool {
        self.backup_options.as_ref().is_some_and(|settings| settings.archive_commitlog == Some(true))
    }

    /// Returns whether backups are created, or the commit log is archived. Opens no repository.
    pub fn has_backups(&self) -> bool {
        let has = |settings: &BackupSettings| {
            settings.repository.is_some()
                || settings.backup_period.is_some()
                || settings.archive_commitlog == Some(true)
        };
        self.backup_options.as_ref().is_some_and(has)
    }

    /// Returns what is done in the background; `None` if nothing is.
    ///
    /// # Errors
    /// If an option is invalid, or the repository cannot be used.
    pub fn backups(&self) -> anyhow::Result<Option<ServiceOptions>> {
        let Some(settings) = &self.backup_options else { return Ok(None) };
        settings.service().context(OPTION)
    }
}

impl BackupSettings {
    fn service(&self) -> anyhow::Result<Option<ServiceOptions>> {
        let period = |text: &Option<String>, name: &'static str| -> anyhow::Result<Option<Duration>> {
            let Some(text) = text else { return Ok(None) };
            let period = duration(text).context(name)?;
            if period < PERIOD_MIN {
                bail!("{name}: expected at least 1s, found {text}");
            }
            Ok(Some(period))
        };
        let backup_period = period(&self.backup_period, "backup_period")?;
        let archive_period = period(&self.archive_period, "archive_period")?;
        let archives = self.archive_commitlog == Some(true);
        if archive_period.is_some() && !archives {
            bail!("archive_period: expected archive_commitlog: true beside it");
        }
        if self.keep == Some(0) {
            bail!("keep: expected at least 1, found 0");
        }
        if self.keep.is_some() && backup_period.is_none() {
            bail!("keep: expected backup_period beside it: only scheduled backups are removed");
        }
        let Some(location) = &self.repository else {
            if archives || backup_period.is_some() {
                bail!("repository: expected a directory of backups or s3://BUCKET/PREFIX, found none");
            }
            return Ok(None);
        };
        if !archives && backup_period.is_none() {
            bail!("expected backup_period or archive_commitlog: true beside repository, found neither");
        }
        let location = if is_remote(location) {
            location.clone()
        } else {
            let path = std::path::absolute(location).with_context(|| location.clone())?;
            path.display().to_string()
        };
        if self.key_file.is_some() && self.link == Some(true) {
            bail!("link: expected false beside key_file: encrypted files cannot be linked");
        }
        let key_file = self.key_file.as_deref().map(std::path::absolute).transpose().context("key_file")?;
        let keys = move || key_file.as_deref().map(backup_keys).transpose();
        // Mistakes are reported at the start. What happens later is logged.
        let first = Location { address: location.clone(), keys: keys()? };
        drop(Repository::open_at(Arc::new(RealFileSystem), &first)?);
        Ok(Some(ServiceOptions {
            repository: location,
            archive_period: archives.then(|| archive_period.unwrap_or(ARCHIVE_PERIOD)),
            backup_period,
            keep: self.keep,
            transfer: if self.link == Some(true) { Transfer::Link } else { Transfer::Copy },
            keys: Box::new(keys),
            file_system: Arc::new(RealFileSystem),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parse(text: &str) -> anyhow::Result<Option<ServiceOptions>> {
        Config::parse(&format!("backup_options:\n{text}")).and_then(|config| config.backups())
    }

    #[test]
    fn a_repository_and_periods_configure_the_service() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backups");
        let text = format!(
            "  repository: {}\n  archive_commitlog: true\n  backup_period: 1h\n  keep: 3\n",
            path.display()
        );
        let options = parse(&text).unwrap().unwrap();
        assert_eq!(options.archive_period, Some(ARCHIVE_PERIOD));
        assert_eq!(options.backup_period, Some(Duration::from_secs(3600)));
        assert_eq!((options.keep, options.transfer), (Some(3), Transfer::Copy));
        assert!((options.keys)().unwrap().is_none());
        assert!(path.join("cassette-backups.json").exists());
        let config = Config::parse(&format!("backup_options:\n{text}")).unwrap();
        assert!(config.database(directory.path()).unwrap().engine.commitlog_archiving);
    }

    #[test]
    fn a_key_file_encrypts_backups_and_others_must_not_be_able_to_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, key_file) = (directory.path().join("backups"), directory.path().join("key"));
        std::fs::write(&key_file, format!("a {}\n", "07".repeat(32))).unwrap();
        let text = format!(
            "  repository: {}\n  backup_period: 1h\n  key_file: {}\n",
            path.display(),
            key_file.display()
        );
        let chmod = |mode| std::fs::set_permissions(&key_file, Permissions::from_mode(mode)).unwrap();
        chmod(0o644);
        let error = format!("{:#}", parse(&text).err().unwrap());
        assert!(error.contains("chmod 600") && !error.contains("0707"), "{error}");
        assert!(!path.exists());
        chmod(0o600);
        let options = parse(&text).unwrap().unwrap();
        assert_eq!((options.keys)().unwrap().unwrap().alias(), "a");
        let error = format!("{:#}", parse(&format!("{text}  link: true\n")).err().unwrap());
        assert!(error.contains("encrypted files cannot be linked"), "{error}");
        // The repository is encrypted from its creation.
        let plain = format!("  repository: {}\n  backup_period: 1h\n", path.display());
        let error = format!("{:#}", parse(&plain).err().unwrap());
        assert!(error.contains("the backups here are encrypted"), "{error}");
    }

    #[test]
    fn options_without_effect_are_rejected() {
        for (text, expected) in [
            (
                "  archive_commitlog: true\n",
                "repository: expected a directory of backups or s3://BUCKET/PREFIX, found none",
            ),
            ("  repository: /b\n", "expected backup_period or archive_commitlog: true"),
            ("  repository: /b\n  archive_period: 5s\n", "expected archive_commitlog: true"),
            ("  repository: /b\n  keep: 2\n", "expected backup_period"),
            ("  repository: /b\n  backup_period: 1h\n  keep: 0\n", "expected at least 1"),
            ("  repository: /b\n  backup_period: 10ms\n", "expected at least 1s"),
            ("  directory: /b\n", "directory"),
        ] {
            let error = format!("{:#}", parse(text).err().expect(text));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
