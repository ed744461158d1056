//! `cassette demo`: the first command for new users.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use cassette_database::Database;
use cassette_server::{Server, ServerConfig};
use clap::{Args, Parser};

/// Arguments of `cassette demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Records to load and operations to run
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    records: u64,
}

/// Arguments of `cassette lab`, parsed by its command line.
#[derive(Debug, Parser)]
struct Laboratory {
    #[command(subcommand)]
    command: cassette_lab::cli::LabCommand,
}

/// Starts a server on a free port, measures it and the embedded engine, and stops. Returns `false`
/// if an operation failed.
pub fn run(arguments: &DemoArguments) -> anyhow::Result<bool> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let began = Instant::now();
    let database = Database::open(directory.path().join("data"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(config, Arc::new(database.clone())))?;
    let address = server.local_address()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = runtime.spawn(server.serve(async {
        // The sender is dropped when the demonstration ends, in any way.
        let _ = stopped.await;
    }));
    println!("An empty database was ready on {address} after {} ms.\n", began.elapsed().as_millis());

    let records = arguments.records.to_string();
    let contact = address.to_string();
    let embedded = ["lab", "ycsb", "--workload", "a", "--records", &records, "--engine", "embedded"];
    let served = [
        "lab",
        "ycsb",
        "--workload",
        "a",
        "--records",
        &records,
        "--threads",
        "16",
        "--engine",
        "cql",
        "--contact",
        &contact,
    ];
    let mut all_succeeded = true;
    for command in [&embedded[..], &served[..]] {
        println!("$ cassette {}", command.join(" "));
        all_succeeded &= Laboratory::try_parse_from(command)?.command.run()?;
        println!();
    }
    drop(stop);
    runtime.block_on(serving)?;
    database.close()?;
    println!("Next:\n  cassette serve            a database in ./cassette-data on 127.0.0.1:9042");
    println!(
        "  cassette cql              a shell; cqlsh and all Cassandra drivers connect, too (datacenter1)"
    );
    println!("  cassette lab ycsb --help  more to measure");
    Ok(all_succeeded)
}
