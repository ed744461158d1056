//! `cassette timelock …`: the server of timestamps and locks for transactions on a cluster.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cassette_transactions::Timestamp;
use cassette_transactions::store::{ClusterOptions, ClusterStore};
use cassette_transactions::timelock::messages::Status;
use cassette_transactions::timelock::{Operator, ServerOptions, TimeLockServer};
use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::logging;
use crate::transactions::password_in;

/// Where servers listen unless they are told otherwise.
const ADDRESS_DEFAULT: &str = "127.0.0.1:8421";

const START_EXAMPLES: &str = "\
Examples:
  One that leads, and on another machine one that stands by:
    cassette timelock start --store 10.0.0.1:9042,10.0.0.2:9042 --keyspace bank --listen 10.0.0.5:8421
    cassette timelock start --store 10.0.0.1:9042,10.0.0.2:9042 --keyspace bank --listen 10.0.0.6:8421

There are no passwords: listen where only your own programs connect. SIGTERM gives the lease back, and the other one leads at once.";

const FAST_FORWARD_EXAMPLES: &str = "\
Examples:
  After a restore, with a server running:
    cassette timelock fast-forward --to 25000000 --at 10.0.0.5:8421

  After the bound was lost, with no server running: above the greatest version and commit that any table holds
    cassette timelock fast-forward --to 25000000 --store 10.0.0.1:9042 --keyspace bank --lost-bound";

/// Commands on timelock servers.
#[derive(Debug, Subcommand)]
pub enum TimeLockCommand {
    /// Give out timestamps and locks for a store, or stand by for another server that does
    Start(StartArguments),
    /// Say who leads, up to where timestamps are given out, and how many locks there are
    Status(AtArguments),
    /// Have a server give its lease back and end
    Stop(AtArguments),
    /// Make all later timestamps greater than one; never goes back
    FastForward(FastForwardArguments),
}

/// The store of timestamps' bound.
#[derive(Debug, Clone, Args)]
struct StoreArguments {
    /// Nodes of the cluster to begin with
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    store: Vec<String>,

    /// The keyspace of the transactions' tables; made if it is not there
    #[arg(long, value_name = "NAME", default_value = "transactions")]
    keyspace: String,

    /// Its replication, if it is made; three copies are wanted where data matters
    #[arg(long, value_name = "CQL", default_value = "{'class': 'SimpleStrategy', 'replication_factor': 1}")]
    replication: String,

    /// Ask only the nodes of this data center. All other servers and all clients must name the same one
    #[arg(long, value_name = "DATA CENTER")]
    local: Option<String>,

    /// The user, if the cluster asks for one
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,

    /// A file that holds the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// For how long a server leads without an answer of the store; another takes over after at most one and a half of it
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    lease: u64,
}

/// Arguments of `cassette timelock start`.
#[derive(Debug, Args)]
#[command(after_help = START_EXAMPLES)]
pub struct StartArguments {
    #[command(flatten)]
    store: StoreArguments,

    /// Where to listen for clients; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS_DEFAULT)]
    listen: SocketAddr,

    /// Where clients reach it, if it is not where it listens
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
}

/// Arguments of commands on servers.
#[derive(Debug, Args)]
pub struct AtArguments {
    /// The servers
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', default_value = ADDRESS_DEFAULT)]
    at: Vec<String>,
}

/// Arguments of `cassette timelock fast-forward`.
#[derive(Debug, Args)]
#[command(after_help = FAST_FORWARD_EXAMPLES)]
pub struct FastForwardArguments {
    /// The timestamp
    #[arg(long, value_name = "TIMESTAMP", value_parser = clap::value_parser!(i64).range(1..))]
    to: i64,

    /// The server that leads
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "store", default_value = ADDRESS_DEFAULT)]
    at: String,

    #[command(flatten)]
    store: StoreArguments,

    /// The bound of the timestamps was lost: make one. Needs --store
    #[arg(long, requires = "store")]
    lost_bound: bool,
}

impl StoreArguments {
    fn connect(&self) -> anyhow::Result<ClusterStore> {
        if self.store.is_empty() {
            bail!("--store is missing: which cluster holds the timestamps' bound?");
        }
        let credentials = match (&self.user, &self.password_file) {
            (Some(user), Some(path)) => Some((user.clone(), password_in(path)?)),
            _ => None,
        };
        let options = ClusterOptions {
            contact_points: self.store.clone(),
            replication: self.replication.clone(),
            local: self.local.clone(),
            credentials,
            // An answer that comes later than a lease is none.
            request_timeout: self.lease(),
            ..ClusterOptions::new("", &*self.keyspace)
        };
        Ok(ClusterStore::connect(&options)?)
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.lease)
    }
}

impl TimeLockCommand {
    /// Runs the command; false if some server that was asked did not answer.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            Self::Start(arguments) => start(arguments).map(|()| true),
            Self::Status(AtArguments { at }) => Ok(each(at, |operator| operator.status().map(|s| shown(&s)))),
            Self::Stop(AtArguments { at }) => {
                let stop = |operator: &Operator| {
                    operator
                        .stop()
                        .map(|status| format!("{} stops; it was {}\n", status.address, status.state))
                };
                Ok(each(at, stop))
            }
            Self::FastForward(arguments) => fast_forward(arguments).map(|()| true),
        }
    }
}

/// Does something with each server, and prints what comes of it.
fn each<E: std::fmt::Display>(at: &[String], act: impl Fn(&Operator) -> Result<String, E>) -> bool {
    let mut all = true;
    for address in at {
        match act(&Operator::new(address)) {
            Ok(text) => print!("{text}"),
            Err(error) => {
                all = false;
                eprintln!("cassette: {address}: {error}");
            }
        }
    }
    all
}

fn shown(status: &Status) -> String {
    let Status { state, address, leader, version, uptime_seconds, leading, requests } = status;
    let mut text = format!("{address}: {state}\n");
    let mut line = |name: &str, value: String| text += &format!("  {name:<15}{value}\n");
    line("leader", leader.clone().unwrap_or_else(|| "unknown".to_owned()));
    if let Some(leading) = leading {
        line("term", leading.term.to_string());
        line("last timestamp", leading.last.to_string());
        line("bound", leading.bound.to_string());
        line(
            "smallest held",
            leading.smallest_held.map_or_else(|| "none".to_owned(), |held| held.to_string()),
        );
        line("holds", leading.holds.to_string());
        line("locks", leading.locks.to_string());
        line("queued", leading.queued.to_string());
        line("clients", leading.sessions.to_string());
    }
    line("requests", requests.to_string());
    line("uptime", format!("{uptime_seconds} s"));
    line("version", version.clone());
    text
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn start(arguments: &StartArguments) -> anyhow::Result<()> {
    logging::init();
    let runtime = runtime()?;
    let wanted = arguments.listen;
    let listener =
        runtime.block_on(TcpListener::bind(wanted)).with_context(|| format!("cannot listen on {wanted}"))?;
    let address = listener.local_addr()?;
    let advertised = arguments.advertise.clone().unwrap_or_else(|| address.to_string());
    let store = Arc::new(arguments.store.connect()?);
    let options = ServerOptions { lease: arguments.store.lease(), ..ServerOptions::new(advertised) };
    let server = TimeLockServer::start(store, options)?;
    runtime.block_on(async {
        let (mut terminated, mut interrupted) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        // To nobody, if nobody listens.
        let ready = format!("cassette {} gives out timestamps on {address}\n", env!("CARGO_PKG_VERSION"));
        let _ = std::io::stdout().lock().write_all(ready.as_bytes());
        let stop = async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        };
        server.serve(listener, stop).await.context("timestamps are not given out any more")
    })
}

fn fast_forward(arguments: &FastForwardArguments) -> anyhow::Result<()> {
    let to = Timestamp(arguments.to);
    if arguments.store.store.is_empty() {
        let status = Operator::new(&arguments.at).fast_forward(to)?;
        print!("{}", shown(&status));
        return Ok(());
    }
    let lease = arguments.store.lease();
    let store = Arc::new(arguments.store.connect()?);
    let options = ServerOptions {
        lease,
        recovered: arguments.lost_bound.then_some(to),
        ..ServerOptions::new("cassette timelock fast-forward")
    };
    let mut server = TimeLockServer::start(store, options)?;
    let bound = runtime()?.block_on(async {
        // A server that died holds its lease for as long as that; one that lives, longer.
        let led = server.led(lease * 2 + Duration::from_secs(10)).await;
        led.context("does not lead; is a server running? Then use --at")?;
        server.fast_forward(to).await?;
        anyhow::Ok(server.status().leading.map_or(0, |leading| leading.bound))
    })?;
    server.stop();
    println!("timestamps are greater than {to} from now on; the next server goes on above {bound}");
    Ok(())
}
