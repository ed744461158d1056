//! The commands that a node executes.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{MoveError, Result, unsuitable};

/// Stands for the address of a node in `--nodetool`.
const NODE: &str = "{node}";
/// What is printed where the user's command is not known.
const DEFAULT: &str = "nodetool";
/// Maximum number of characters of a message that is repeated.
const MESSAGE_MAX: usize = 400;

/// A command of `nodetool` for a node, word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodetoolCommand(Vec<String>);

impl NodetoolCommand {
    fn new(nodetool: Option<&str>, node: IpAddr, arguments: &[&str]) -> Self {
        let words = nodetool.unwrap_or(DEFAULT).split_whitespace();
        let words = words.map(|word| word.replace(NODE, &node.to_string()));
        Self(words.chain(arguments.iter().map(|&argument| argument.to_owned())).collect())
    }

    /// Returns the command that adds all SSTables of a directory to a table.
    pub fn import(
        nodetool: Option<&str>,
        node: IpAddr,
        (keyspace, table): (&str, &str),
        directory: &Path,
        (extended_verify, has_foreign_tokens): (bool, bool),
    ) -> Self {
        let mut arguments = vec!["import"];
        if extended_verify {
            arguments.push("--extended-verify");
        }
        if has_foreign_tokens {
            arguments.push("--no-tokens");
        }
        let directory = directory.display().to_string();
        arguments.extend([keyspace, table, &directory]);
        Self::new(nodetool, node, &arguments)
    }

    /// Returns the command that removes partitions that the node does not replicate.
    pub fn cleanup(nodetool: Option<&str>, node: IpAddr, (keyspace, table): (&str, &str)) -> Self {
        Self::new(nodetool, node, &["cleanup", keyspace, table])
    }

    /// Returns the command as a line.
    pub fn text(&self) -> String {
        self.0.join(" ")
    }

    /// Runs the command until its end.
    ///
    /// # Errors
    /// If it cannot be started or fails, with the last line that it printed.
    pub fn run(&self) -> Result<()> {
        let Some((program, arguments)) = self.0.split_first() else {
            return unsuitable("invalid --nodetool: expected a command, found nothing");
        };
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| {
            MoveError::Unsuitable(format!(
                "cannot run {program:?}: {error}; specify the command that runs nodetool for the node with --nodetool"
            ))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        let last =
            printed.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it printed nothing");
        let last: String = last.chars().take(MESSAGE_MAX).collect();
        unsuitable(format!(
            "{} failed ({}): {last}; the log of the node has the reason; resolve it, then start the same command again",
            self.text(),
            output.status
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn commands_name_the_node_and_what_is_compared() {
        let import = |nodetool, flags| {
            NodetoolCommand::import(nodetool, NODE, ("ks", "T"), Path::new("/d"), flags).text()
        };
        assert_eq!(import(None, (false, false)), "nodetool import ks T /d");
        assert_eq!(
            import(Some("ssh {node}  sudo nodetool"), (true, true)),
            "ssh 10.0.0.1 sudo nodetool import --extended-verify --no-tokens ks T /d"
        );
        assert_eq!(NodetoolCommand::cleanup(None, NODE, ("ks", "T")).text(), "nodetool cleanup ks T");
    }

    #[test]
    fn failures_show_what_nodetool_printed_last() {
        let run = |words: &[&str]| NodetoolCommand(words.iter().map(|&word| word.to_owned()).collect()).run();
        assert!(run(&["true"]).is_ok());
        let error = run(&["sh", "-c", "echo a; echo 'Some directories failed' >&2; exit 3"]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("Some directories failed;") && error.contains("exit status: 3"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        let error = run(&["/missing/nodetool"]).unwrap_err().to_string();
        assert!(error.contains("--nodetool"), "{error}");
        assert!(run(&[]).is_err());
    }
}
