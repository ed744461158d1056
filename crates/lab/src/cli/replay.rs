//! `cassette lab replay`: replays a full query log, and compares targets.

use std::path::PathBuf;

use clap::Args;

use super::console::Console;
use super::security::SecurityArgs;
use crate::LabError;
use crate::cql::{CqlSettings, protocol_version};
use crate::files::write_atomically;
use crate::replay::{Replay, ReplayTarget};

/// Examples at the end of the help.
pub const REPLAY_EXAMPLES: &str = "\
Examples:
  Replay a log at the recorded pace on a server, Cassette's or Apache Cassandra's:
    cassette lab replay /var/log/cassette/queries --target 127.0.0.1:9042

  Twice as fast:
    cassette lab replay /var/log/cassette/queries --target 127.0.0.1:9042 --speed 2

  As fast as possible, and compare the results with those of another server:
    cassette lab replay /var/log/cassette/queries --speed max \\
        --target 127.0.0.1:9042 --compare 127.0.0.2:9042

  With TLS and a password, of which every target that is a server must accept both:
    cassette lab replay /var/log/cassette/queries --target db.example.com:9042 \\
        --tls-ca authority.pem --user replayer --password-file password

The schema must exist, unless the log contains its statements. Queries of one connection are \
replayed in order, one at a time; the exit code is 1 if queries failed or results differ.";

/// Arguments of `cassette lab replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// Files of a full query log, or directories with them
    #[arg(required = true, value_name = "PATH")]
    log: Vec<PathBuf>,

    /// Where to replay: HOST:PORT of a server, or embedded:DIR for a database in this process
    #[arg(short, long, value_name = "TARGET", value_parser = ReplayTarget::parse)]
    target: ReplayTarget,

    /// A second target, which executes each query after the first; results are compared
    #[arg(short, long, value_name = "TARGET", value_parser = ReplayTarget::parse)]
    compare: Option<ReplayTarget>,

    /// How fast queries start relative to the log: a factor, or max for as fast as possible
    #[arg(short, long, value_name = "FACTOR", default_value = "1", value_parser = parse_speed)]
    speed: Speed,

    /// Connections to each target; those of the log are distributed over them
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,

    /// Replay statements on system tables, too, whose content differs between servers
    #[arg(long)]
    include_system: bool,

    /// Version of the native protocol
    #[arg(long, value_name = "VERSION", default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=5))]
    protocol: u8,

    #[command(flatten)]
    security: SecurityArgs,

    /// Output file of the JSON report
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The pace of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Speed {
    Factor(f64),
    Max,
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    match text.parse() {
        Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(Speed::Factor(factor)),
        _ => Err("expected a factor of 0.001 to 1000, or max".to_owned()),
    }
}

/// Runs the command. Returns `false` if queries failed or results differ.
pub fn run(args: &ReplayArgs) -> Result<bool, LabError> {
    let client = CqlSettings {
        connections: usize::from(args.connections),
        version: protocol_version(args.protocol)?,
        credentials: args.security.client().credentials()?,
        tls: args.security.client().tls()?,
        ..CqlSettings::new(Vec::new())
    };
    let replay = Replay {
        log: args.log.clone(),
        targets: std::iter::once(args.target.clone()).chain(args.compare.clone()).collect(),
        client,
        speed: match args.speed {
            Speed::Factor(factor) => Some(factor),
            Speed::Max => None,
        },
        connections: usize::from(args.connections),
        include_system: args.include_system,
    };
    let report = replay.run()?;
    Console::new()?.print(&report.text());
    if let Some(path) = &args.json {
        let attempt = |error| LabError::io(format!("writing the report to {}", path.display()), error);
        let mut text = serde_json::to_vec_pretty(&report).map_err(|error| attempt(error.into()))?;
        text.push(b'\n');
        write_atomically(path, &text)?;
    }
    Ok(report.is_clean())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_factor_or_max() {
        assert_eq!(parse_speed("max"), Ok(Speed::Max));
        assert_eq!(parse_speed("0.5"), Ok(Speed::Factor(0.5)));
        for text in ["0", "-1", "NaN", "inf", "fast"] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
    }
}
