//! `cassette nodetool`: Cassandra's nodetool for the admin endpoint, with its flags, its labels and
//! its layout.
//!
//! A command requests reports or an operation from the endpoint ([`client`]) and formats the
//! response as text, which is a function of the report alone. `--format json` prints data instead;
//! where Cassandra has `-F json`, with its keys.

mod arguments;
mod backups;
mod cidr;
mod client;
mod clients;
mod cluster;
mod commands;
mod compactions;
mod connection;
mod cut_over;
mod guardrails;
mod info;
mod missing;
mod operations;
mod permissions_cache;
mod pools;
mod query_logs;
mod snapshots;
mod table_stats;
mod tablehistograms;
#[cfg(test)]
mod tests;
mod text;
mod timeouts;
mod top_partitions;
mod unix_socket;
mod unknown_tables;

use std::io::Write;
use std::process::ExitCode;

pub use cut_over::{CutOverClient, StepFailure};

use arguments::{Invocation, Parsed};
use client::Client;
use connection::Connection;

/// The output of a command.
enum Output {
    /// Printed unchanged.
    Text(String),
    /// Printed as JSON or YAML.
    Data(serde_json::Value),
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Yaml,
}

/// The reason for the failure of a command.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Wrong usage, or an unknown object.
    Usage(String),
    /// A message for an unsupported use, printed unchanged.
    Said(String),
    /// The table does not exist.
    NotFound(String),
    /// The node cannot be reached.
    Unreachable(String),
    /// The operation failed on the node.
    Error(String),
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// Runs a command from the words after `nodetool`. Exit codes are Cassandra's: 1 for wrong usage
/// and for an unreachable node, 2 for a failure on the node.
pub fn run(words: &[String]) -> ExitCode {
    let done = arguments::parse(words).and_then(|parsed| match parsed {
        Parsed::Help(text) => Ok((Output::Text(text), Format::Text)),
        Parsed::Run(invocation) => execute(&invocation),
    });
    match done {
        Ok((output, format)) => print(output, format),
        Err(Failure::Usage(message)) => {
            println!("nodetool: {message}\nSee 'nodetool help' or 'nodetool help <command>'.");
            ExitCode::from(1)
        }
        Err(Failure::Said(message)) => {
            println!("{message}");
            ExitCode::from(1)
        }
        Err(Failure::NotFound(message)) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
        Err(Failure::Unreachable(message)) => {
            eprintln!("nodetool: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Error(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn execute(invocation: &Invocation) -> Result<(Output, Format)> {
    let format = format(invocation)?;
    let client = Client::new(&invocation.host, &invocation.port, Connection::of(invocation)?)?;
    Ok((commands::execute(invocation, format, &client)?, format))
}

fn format(invocation: &Invocation) -> Result<Format> {
    match invocation.option("--format") {
        None | Some("" | "text") => Ok(Format::Text),
        Some("json") => Ok(Format::Json),
        Some("yaml") => Ok(Format::Yaml),
        Some(_) => Err(Failure::usage("arguments for -F are json,yaml only.")),
    }
}

fn print(output: Output, format: Format) -> ExitCode {
    let text = match output {
        Output::Text(text) => text,
        Output::Data(data) if format == Format::Yaml => match serde_saphyr::to_string(&data) {
            Ok(yaml) => yaml + "\n",
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        },
        Output::Data(data) => text::pretty_json(&data) + "\n",
    };
    // A reader that has read enough closes the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
