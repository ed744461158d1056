//! The commands of `cassette lab` without the rest of Cassette: `cargo run -p cassette-lab
//! --example lab -- ycsb --help`.

use std::process::ExitCode;

use cassette_lab::cli::LabCommand;
use clap::Parser;

#[derive(Parser)]
#[command(name = "lab")]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
