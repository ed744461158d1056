//! The `cassette` command.

mod address;
mod admin;
mod adopt;
mod backup;
mod certificates;
mod config;
mod container;
mod cql;
mod credentials;
mod demo;
mod documentation;
mod forwarding;
mod in_memory;
mod listening;
mod live;
mod logging;
mod memory;
mod moving;
mod node;
mod parent;
mod serve;
mod service_manager;
mod superuser;
mod testing;
mod timelock;
mod transactions;
mod unix_socket;
mod version;

use std::ffi::OsString;
use std::path::Path;

use cassette_tools::{cdc, nodetool, query_log, sstable};
use clap::{CommandFactory, Parser, Subcommand};

/// A CQL database in one binary: Cassandra's language, drivers and files, without the JVM.
#[derive(Debug, Parser)]
#[command(name = "cassette", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve CQL to any Cassandra driver
    Serve(serve::ServeArguments),
    /// Execute CQL: a shell with cqlsh's commands, on a server or on a directory
    Cql(Box<cassette_shell::CqlArguments>),
    /// Make a data directory from directories of Apache Cassandra, without changing them
    Adopt(adopt::AdoptArguments),
    /// Start a database in a temporary directory, run a small benchmark on it, and print the next
    /// steps
    Demo(demo::DemoArguments),
    /// Inspect and control a running database, as Cassandra's nodetool does: `cassette nodetool
    /// help`
    #[command(disable_help_flag = true)]
    Nodetool {
        /// The arguments of Cassandra's nodetool
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Create, verify and restore backups
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Inspect, export and import SSTables without a server
    #[command(subcommand, name = "sstable")]
    SSTable(sstable::SSTableCommand),
    /// Read and verify the files of the audit log and the full query log
    #[command(subcommand, name = "querylog")]
    QueryLog(query_log::QueryLogCommand),
    /// Read the changes of tables with `cdc = true`, as JSON
    #[command(subcommand)]
    Cdc(cdc::CdcCommand),
    /// Inspect, back up and restore a store of transactions
    #[command(subcommand)]
    Transactions(transactions::TransactionsCommand),
    /// Provide timestamps and locks for transactions on a cluster
    #[command(subcommand, name = "timelock")]
    TimeLock(timelock::TimeLockCommand),
    /// Move keyspaces to another server or cluster, and back: copy, verify, repair
    Move(Box<moving::MoveArguments>),
    /// Create a certificate authority for development, and certificates of a server and a client
    Certificates(certificates::CertificatesArguments),
    /// Benchmark databases: workloads, engines, results with their uncertainty
    #[command(subcommand, after_help = cassette_lab::cli::LAB_EXAMPLES)]
    Lab(cassette_lab::cli::LabCommand),
    /// Print the version, the commit and the build
    Version,
    /// Print the completions of a shell
    Completions(documentation::CompletionsArguments),
    /// Write the manual pages of all commands
    Man(documentation::ManArguments),
    /// Start the server as the entry point of a container image: settings from the environment,
    /// scripts at the first start
    Container(container::ContainerArguments),
}

/// Returns the arguments of this process. Called `cqlsh` or `nodetool`, by a link with this name,
/// it is that command, so that scripts for Cassandra find it.
fn arguments_of(mut words: Vec<OsString>) -> Vec<OsString> {
    let called = words.first().and_then(|word| Path::new(word).file_name()?.to_str());
    let command = match called {
        Some("cqlsh") => "cql",
        Some("nodetool") => "nodetool",
        _ => return words,
    };
    words.insert(1, command.into());
    words
}

fn main() -> std::process::ExitCode {
    let done = match Arguments::parse_from(arguments_of(std::env::args_os().collect())).command {
        Command::Serve(arguments) => serve::run(arguments).map(|()| true),
        Command::Cql(arguments) => return cql::run(&arguments),
        Command::Adopt(arguments) => adopt::run(&arguments).map(|()| true),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Nodetool { words } => return nodetool::run(&words),
        Command::Backup(command) => command.run(),
        Command::SSTable(command) => command.run(),
        Command::QueryLog(command) => command.run(),
        Command::Cdc(command) => command.run(|path| config::Config::read(path)?.commitlog_encryption()),
        Command::Transactions(command) => command.run(),
        Command::TimeLock(command) => command.run(),
        Command::Move(arguments) => moving::run(&arguments),
        Command::Certificates(arguments) => certificates::run(&arguments).map(|()| true),
        Command::Lab(command) => command.run().map_err(anyhow::Error::from),
        Command::Version => {
            print!("{}", version::describe());
            Ok(true)
        }
        Command::Completions(arguments) => {
            documentation::completions(&arguments, &mut Arguments::command());
            Ok(true)
        }
        Command::Man(arguments) => documentation::man(&arguments, Arguments::command()).map(|()| true),
        Command::Container(arguments) => {
            container::run(&arguments, |words| match Arguments::parse_from(words).command {
                Command::Serve(arguments) => serve::run(arguments),
                _ => anyhow::bail!("expected arguments of cassette serve"),
            })
            .map(|()| true)
        }
    };
    match done {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cassette: {error:#}");
            if let Some(advice) = transactions::advice(&error) {
                eprintln!("cassette: {advice}");
            }
            exit_code(&error)
        }
    }
}

/// Returns 3 if it is unknown whether a cut-over has taken effect, and 1 otherwise.
fn exit_code(error: &anyhow::Error) -> std::process::ExitCode {
    match error.downcast_ref() {
        Some(cassette_migration::MoveError::Undecided(_)) => std::process::ExitCode::from(3),
        _ => std::process::ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lines of `text` that are one paragraph. The terminal's width would wrap them again.
    fn wrapped(text: &str) -> Option<(&str, &str)> {
        let indentation = |line: &str| line.len() - line.trim_start().len();
        let is_command = |line: &str| line.trim_start().starts_with("cassette ") || line.ends_with('\\');
        // A term and its description.
        let is_item = |line: &str| line.trim_start().contains("  ");
        let mut pairs = text.lines().zip(text.lines().skip(1));
        pairs.find(|(line, next)| {
            let is_text = !next.trim().is_empty() && !is_command(line) && !is_command(next) && !is_item(next);
            is_text && line.len() > 78 && !line.ends_with(':') && indentation(line) == indentation(next)
        })
    }

    fn check(command: &clap::Command, path: &str) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert_eq!(wrapped(&help), None, "{path} --help");
        for command in command.get_subcommands() {
            check(command, &format!("{path} {}", command.get_name()));
        }
    }

    #[test]
    fn paragraphs_of_help_are_wrapped_by_the_terminal_alone() {
        check(&Arguments::command(), "cassette");
        let long = "word ".repeat(20);
        assert!(wrapped(&format!("{long}\nand its end")).is_some());
        assert!(wrapped(&format!("{long}:\n  cassette serve")).is_none());
    }
    #[test]
    fn links_with_the_names_of_cassandras_tools_are_their_commands() {
        let arguments = |words: &[&str]| arguments_of(words.iter().map(OsString::from).collect());
        assert_eq!(arguments(&["/usr/bin/cqlsh", "-e", "x"]), ["/usr/bin/cqlsh", "cql", "-e", "x"]);
        assert_eq!(arguments(&["nodetool", "status"]), ["nodetool", "nodetool", "status"]);
        assert_eq!(arguments(&["./cassette", "serve"]), ["./cassette", "serve"]);
        assert!(arguments(&[]).is_empty());
    }
}
