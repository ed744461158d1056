//! `backup`, `restorebackup` and `backupstatus`.

use cassette_admin_api::{BackupReport, Operation};
use jiff::Timestamp;

use super::arguments::Invocation;
use super::{Failure, Result};

/// Returns the operation of `backup` or `restorebackup`.
pub(super) fn operation(invocation: &Invocation) -> Result<Operation> {
    let Some((directory, names)) = invocation.arguments.split_first() else {
        return Err(Failure::usage(format!("{} requires a directory of backups", invocation.command)));
    };
    let absolute = |path: &str| -> Result<String> {
        let absolute = std::path::absolute(path);
        Ok(absolute.map_err(|error| Failure::usage(format!("{path}: {error}")))?.display().to_string())
    };
    let repository = if directory.contains("://") { directory.clone() } else { absolute(directory)? };
    let key_file = invocation.option("--key-file").map(absolute).transpose()?;
    let name = invocation.option("--name").map(str::to_owned);
    Ok(if invocation.command == "backup" {
        let link = invocation.has("--link");
        Operation::Backup { repository, name, keyspaces: names.to_vec(), link, key_file }
    } else {
        Operation::RestoreBackup {
            repository,
            backup: name,
            names: names.to_vec(),
            truncate: invocation.has("--truncate"),
            keyspace_as: invocation.option("--keyspace-as").map(str::to_owned),
            table_as: invocation.option("--table-as").map(str::to_owned),
            key_file,
        }
    })
}

/// Formats the state of scheduled backups.
pub(super) fn status(report: Option<&BackupReport>) -> String {
    let Some(report) = report else {
        return "no backups are configured: see backup_options\n".to_owned();
    };
    let time = |millis: Option<i64>| {
        let time = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
        time.map_or_else(|| "never since the start".to_owned(), |time| time.to_string())
    };
    let mut text = String::new();
    let mut line = |label: &str, value: &str| text += &format!("{label:<24}: {value}\n");
    line("Repository", &report.repository);
    for (name, task) in [("Backups", &report.schedule), ("Archived commit log", &report.archive)] {
        let Some(period) = task.period_seconds else {
            line(name, "disabled");
            continue;
        };
        line(name, &format!("every {period} s, {} completed, {} failed", task.completed, task.failed));
        line("  last completed", &time(task.completed_at_millis));
        if let Some(error) = &task.error {
            line("  last error", error);
        }
    }
    if let Some(name) = &report.last_backup {
        line("Last backup", name);
    }
    if report.archived_until_millis.is_some() {
        line("Archived until", &time(report.archived_until_millis));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodetool::arguments::{Parsed, parse};

    fn of(words: &[&str]) -> Result<Operation> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match parse(&words)? {
            Parsed::Run(invocation) => operation(&invocation),
            Parsed::Help(_) => panic!("no command"),
        }
    }

    #[test]
    fn names_and_options_of_backups_are_those_of_the_command_line() {
        let words = ["backup", "/b", "--name", "n", "--link", "--key-file", "/k", "ks"];
        let backup = of(&words).unwrap();
        let (repository, name) = ("/b".to_owned(), Some("n".to_owned()));
        let keyspaces = vec!["ks".to_owned()];
        let key_file = Some("/k".to_owned());
        assert_eq!(backup, Operation::Backup { repository, name, keyspaces, link: true, key_file });
        let restore = of(&["restorebackup", "--truncate", "--table-as", "u", "/b", "ks.t"]).unwrap();
        let names = vec!["ks.t".to_owned()];
        let repository = "/b".to_owned();
        let expected = Operation::RestoreBackup {
            repository,
            backup: None,
            names,
            truncate: true,
            keyspace_as: None,
            table_as: Some("u".to_owned()),
            key_file: None,
        };
        assert_eq!(restore, expected);
        match of(&["backup", "s3://bucket/prefix"]).unwrap() {
            Operation::Backup { repository, .. } => assert_eq!(repository, "s3://bucket/prefix"),
            other => panic!("{other:?}"),
        }
        assert!(of(&["backup"]).is_err());
    }
}
