//! The `cassette` command.

mod config;
mod demo;
mod logging;
mod serve;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A CQL database in one binary: Cassandra's language, drivers and files, without the JVM.
#[derive(Debug, Parser)]
#[command(name = "cassette", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve CQL to any Cassandra driver, or to cqlsh
    Serve(serve::ServeArguments),
    /// Start a database in a directory that is thrown away, run a small benchmark on it, and say what to do next
    Demo(demo::DemoArguments),
    /// Measure databases: workloads, engines, honest figures
    #[command(subcommand)]
    Lab(cassette_lab::cli::LabCommand),
}

fn main() -> std::process::ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments).map(|()| true),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Lab(command) => command.run().map_err(anyhow::Error::from),
    };
    match done {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cassette: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
