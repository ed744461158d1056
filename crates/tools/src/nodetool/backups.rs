//! `backup` and `restorebackup`.

use cassette_admin_api::Operation;

use super::arguments::Invocation;
use super::{Failure, Result};

/// Returns the operation of `backup` or `restorebackup`.
pub(super) fn operation(invocation: &Invocation) -> Result<Operation> {
    let Some((directory, names)) = invocation.arguments.split_first() else {
        return Err(Failure::usage(format!("{} requires a directory of backups", invocation.command)));
    };
    let repository = std::path::absolute(directory)
        .map_err(|error| Failure::usage(format!("{directory}: {error}")))?
        .display()
        .to_string();
    let name = invocation.option("--name").map(str::to_owned);
    Ok(if invocation.command == "backup" {
        Operation::Backup { repository, name, keyspaces: names.to_vec(), link: invocation.has("--link") }
    } else {
        let truncate = invocation.has("--truncate");
        Operation::RestoreBackup { repository, backup: name, names: names.to_vec(), truncate }
    })
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
        let backup = of(&["backup", "/b", "--name", "n", "--link", "ks"]).unwrap();
        let (repository, name) = ("/b".to_owned(), Some("n".to_owned()));
        let keyspaces = vec!["ks".to_owned()];
        assert_eq!(backup, Operation::Backup { repository, name, keyspaces, link: true });
        let restore = of(&["restorebackup", "--truncate", "/b", "ks.t"]).unwrap();
        let names = vec!["ks.t".to_owned()];
        let repository = "/b".to_owned();
        assert_eq!(restore, Operation::RestoreBackup { repository, backup: None, names, truncate: true });
        assert!(of(&["backup"]).is_err());
    }
}
