//! `cassette nodetool`: Cassandra's nodetool against the admin endpoint, with its flags, its labels and its layout.
//!
//! A command asks the endpoint for reports or an operation ([`client`]) and lays out what comes as text, which is a
//! function of the report alone. `--format json` gives the figures instead; where Cassandra has a `-F json` of its own, in
//! its keys.

mod arguments;
mod client;
mod clients;
mod cluster;
mod commands;
mod compactions;
mod guardrails;
mod info;
mod missing;
mod pools;
mod snapshots;
mod table_stats;
mod tablehistograms;
#[cfg(test)]
mod tests;
mod text;
mod timeouts;
mod top_partitions;
mod unknown_tables;

use std::io::Write;
use std::process::ExitCode;

use arguments::{Invocation, Parsed};
use client::Client;

/// What a command shows.
enum Output {
    /// As it stands.
    Text(String),
    /// To be written as JSON or YAML.
    Data(serde_json::Value),
}

/// How the output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Yaml,
}

/// Why a command has failed.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// It was called wrongly, or asked for what there is not.
    Usage(String),
    /// It was asked for what it does not do so; said as it stands.
    Said(String),
    /// The table that it works on is not there.
    NotFound(String),
    /// The node cannot be reached.
    Unreachable(String),
    /// The node could not do it.
    Error(String),
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// Runs a command, given the words after `nodetool`. Exit codes are Cassandra's: 1 for wrong use and for a node that cannot be
/// reached, 2 for what went wrong there.
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
    let client = Client::new(&invocation.host, &invocation.port)?;
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
    // Whoever does not want to read on closes the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
