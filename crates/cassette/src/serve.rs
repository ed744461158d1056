//! `cassette serve`: a database behind a listener, until it is told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Context;
use cassette_database::Database;
use cassette_engine::commitlog::ReplayPolicy;
use cassette_server::admin::{ADDRESS_DEFAULT, Admin, LogLevels};
use cassette_server::{Server, ServerConfig};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::{AdminAddress, Config};
use crate::logging;

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

    /// Start with a damaged commit log, skipping what cannot be read of it: acknowledged writes and schema changes may be
    /// lost; files are kept, and tables that the schema lost are listed by `nodetool unknowntables`
    #[arg(long)]
    skip_damaged_log: bool,

    /// Where figures and operations are, for `cassette nodetool`, Prometheus and a browser; `off` for nowhere [default:
    /// 127.0.0.1:7199]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<AdminAddress>,

    /// A configuration file with cassandra.yaml's keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Serves until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments) -> anyhow::Result<()> {
    cassette_lab::served::end_with_laboratory()?;
    let logging = logging::init();
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
    runtime.block_on(serve(arguments, &config, server, logging))
}

async fn serve(
    arguments: &ServeArguments,
    config: &Config,
    server: ServerConfig,
    logging: Arc<dyn LogLevels>,
) -> anyhow::Result<()> {
    let wanted = server.listen_address;
    let listener = TcpListener::bind(wanted).await.with_context(|| format!("cannot listen on {wanted}"))?;
    let address = listener.local_addr()?;
    let admin_listener = listen_for_admin(arguments.admin.or(config.admin()?)).await?;

    config.file_access()?.set();
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
    let figures = server.figures();
    database.set_server(&figures);
    let mut ready = format!("cassette {} listens for CQL on {address}\n", env!("CARGO_PKG_VERSION"));
    let (drain, mut drained) = watch::channel(false);
    let (stop_admin, mut admin_stopped) = watch::channel(false);
    if let Some(listener) = admin_listener {
        ready += &format!("figures and operations are at http://{}/\n", listener.local_addr()?);
        let drain = move || {
            // An error only says that the server is gone already.
            let _ = drain.send(true);
        };
        let admin = Admin::new(database.clone(), figures, logging, drain);
        let stopped = async move { admin_stopped.wait_for(|stopped| *stopped).await.map_or((), drop) };
        tokio::spawn(async move {
            if let Err(error) = admin.serve(listener, stopped).await {
                tracing::error!(%error, "the admin endpoint has failed");
            }
        });
    }
    // In one piece, and to nobody if nobody listens: who reads the first line only may close the pipe, and wants a server.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(ready.as_bytes()).and_then(|()| out.flush());
    drop(out);
    let mut signalled = pin!(async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    });
    let mut is_drained = false;
    server
        .serve(async {
            tokio::select! {
                () = &mut signalled => {}
                Ok(_) = drained.wait_for(|drained| *drained) => is_drained = true,
            }
        })
        .await;
    if is_drained {
        tracing::info!("drained: no requests are served until the next start");
        signalled.await;
    }
    let _ = stop_admin.send(true);
    database.close().context("cannot close the database")
}

/// Listens where figures and operations are to be had. That another process has the port is only a reason to fail when
/// somebody asked for it.
async fn listen_for_admin(asked: Option<AdminAddress>) -> anyhow::Result<Option<TcpListener>> {
    let address = match asked {
        Some(AdminAddress::Off) => return Ok(None),
        Some(AdminAddress::At(address)) => address,
        None => ADDRESS_DEFAULT,
    };
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if asked.is_none() => {
            tracing::warn!(%error, "cannot listen on {address}: no figures and operations over HTTP (--admin)");
            Ok(None)
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot listen on {address} for figures and operations"))
        }
    }
}
