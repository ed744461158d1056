//! `cassette serve`: a database behind a listener, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use cassette_database::Database;
use cassette_engine::commitlog::ReplayPolicy;
use cassette_server::{Server, ServerConfig};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;

const EXAMPLES: &str = "\
Examples:
  A database in ./cassette-data, on 127.0.0.1:9042, with Cassandra's defaults:
    cassette serve

  Another directory, any free port (the first line printed says which), and a cassandra.yaml:
    cassette serve --data /var/lib/cassette --listen 127.0.0.1:0 --config cassandra.yaml

Then connect with cqlsh or any Cassandra driver (data center: datacenter1).
SIGTERM and Ctrl-C stop it with everything written down. CASSETTE_LOG=debug logs more.";

/// Arguments of `cassette serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// The data directory; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "cassette-data")]
    data: PathBuf,

    /// Where to listen; port 0 takes any free one [default: 127.0.0.1:9042]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Start with a damaged commit log, passing over what cannot be read of it: acknowledged writes may be lost
    #[arg(long)]
    skip_damaged_log: bool,

    /// A configuration file with cassandra.yaml's keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CASSETTE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();

    let config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let mut server = config.server()?;
    if let Some(address) = arguments.listen {
        server.listen_address = address;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(server.max_threads)
        .build()?;
    runtime.block_on(serve(arguments, &config, server))
}

async fn serve(arguments: &ServeArguments, config: &Config, server: ServerConfig) -> anyhow::Result<()> {
    let wanted = server.listen_address;
    let listener = TcpListener::bind(wanted).await.with_context(|| format!("cannot listen on {wanted}"))?;
    let address = listener.local_addr()?;

    let mut options = config.database(&arguments.data)?;
    if arguments.skip_damaged_log {
        options.engine.commitlog_replay = ReplayPolicy::SkipDamaged;
    }
    options.node.address = address.ip();
    options.node.port = address.port();
    let database = Database::open(options)
        .with_context(|| format!("cannot open the data directory {}", arguments.data.display()))?;
    let server = Server::with_listener(listener, server, Arc::new(database.clone()));
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    println!("cassette {} listens for CQL on {address}", env!("CARGO_PKG_VERSION"));
    std::io::stdout().flush()?;
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    server.serve(stop).await;
    database.close().context("cannot close the database")
}
