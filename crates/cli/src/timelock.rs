//! `cassette timelock …`: the server of timestamps and locks for transactions on a cluster.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cassette_server::descriptors;
use cassette_transactions::Timestamp;
use cassette_transactions::store::{ClusterOptions, ClusterStore, StoreError};
use cassette_transactions::timelock::messages::Status;
use cassette_transactions::timelock::{
    ClientCertificates, Keystore, Limits, Operator, RemoteOptions, ServerOptions, TimeLockError,
    TimeLockServer, Tls, TlsOptions, Tokens, clear_halt,
};
use clap::{Args, Subcommand};
use tokio::net::TcpSocket;
use tokio::signal::unix::{SignalKind, signal};

use crate::address::listen_address;
use crate::admin::reload;
use crate::credentials::{client_tls, password_in, password_of_environment, token};
use crate::listening::{cannot_listen, warn_of_exposure, warn_of_plain_text};

use crate::logging::{self, LogArguments};
use crate::memory;

/// The default address of servers.
const ADDRESS_DEFAULT: &str = "127.0.0.1:8421";
/// The maximum number of connections; fewer where the limit of open files is lower.
const CONNECTIONS_MAX: usize = 16384;
/// The maximum number of connections waiting to be accepted.
const BACKLOG: u32 = 1024;
/// The first pause, and below the longest one, between attempts to reach a store at the start.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long commands wait for a server.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The period of log lines about a store that does not respond.
const LOG_PERIOD: Duration = Duration::from_secs(10);

const START_EXAMPLES: &str = "\
Examples:
  A leader, and a standby server on another machine:
    cassette timelock start --store 10.0.0.1:9042,10.0.0.2:9042 \\
        --keyspace bank --listen 10.0.0.5:8421
    cassette timelock start --store 10.0.0.1:9042,10.0.0.2:9042 \\
        --keyspace bank --listen 10.0.0.6:8421

  With a token and TLS:
    openssl rand -hex 32 > token; chmod 600 token
    cassette certificates certificates --name lock.example.com
    cassette timelock start --store 10.0.0.1:9042 --keyspace bank \\
        --listen 10.0.0.5:8421 --advertise lock.example.com:8421 \\
        --token-file token --certificate certificates/server.pem

The nodes of the store must sync writes before they acknowledge them: `commitlog_sync: batch` or \
`group` in every cassandra.yaml. With `periodic`, Cassandra's default, nodes that crash lose \
transactions that were reported as committed, and timestamps go backwards. A store on such nodes is \
rejected; --accept-periodic-sync uses it nevertheless.

Without --token-file every client that can connect is served: listen where only your own programs \
can connect. With it, all servers and clients of a store need a token in common; a file with several \
lets you replace one. --certificate encrypts connections. SIGTERM releases the lease, \
and the other server leads at once.";

const CLEAR_EXAMPLES: &str = "\
A server that read an older bound of the timestamps than before has stopped the timestamps of the \
store: a copy of the store was restored, or nodes lost acknowledged writes (`commitlog_sync: \
periodic`). Committed transactions may be lost, too. No server issues timestamps until this command \
is run. Before that, find out what was lost and set `commitlog_sync` to batch or group. Timestamps \
continue above the greatest known bound, or above --to if that is greater.

Example:
  cassette timelock clear --store 10.0.0.1:9042 --keyspace bank";

const FAST_FORWARD_EXAMPLES: &str = "\
Examples:
  After a restore, with a server running:
    cassette timelock fast-forward --to 25000000 --at 10.0.0.5:8421

  After the bound was lost, with no server running: above the greatest version and commit in any table
    cassette timelock fast-forward --to 25000000 --store 10.0.0.1:9042 \\
        --keyspace bank --lost-bound";

/// Commands on timelock servers.
#[derive(Debug, Subcommand)]
pub enum TimeLockCommand {
    /// Provide timestamps and locks for a store, or stand by for another server that does
    Start(StartArguments),
    /// Print the leader, the bound of timestamps, and the number of locks
    Status(AtArguments),
    /// Make a server release its lease and exit
    Stop(AtArguments),
    /// Make all later timestamps greater than one; never goes back
    FastForward(FastForwardArguments),
    /// Let servers issue timestamps again after one has stopped because the store had lost writes
    Clear(ClearArguments),
}

/// The store of the timestamps' bound.
#[derive(Debug, Clone, Args)]
struct StoreArguments {
    /// Initial contact nodes of the cluster
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    store: Vec<String>,

    /// The keyspace of the transactions' tables; created if it does not exist
    #[arg(long, value_name = "NAME", default_value = "transactions")]
    keyspace: String,

    /// Its replication, if it is created; use three replicas for important data
    #[arg(long, value_name = "CQL", default_value = "{'class': 'SimpleStrategy', 'replication_factor': 1}")]
    replication: String,

    /// Use only the nodes of this data center. All other servers and all clients must name the same
    /// one
    #[arg(long, value_name = "DATA CENTER")]
    local: Option<String>,

    /// The user, if the cluster requires authentication
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// A file with the user's password; without it, CASSETTE_PASSWORD in the environment has it
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// Connect with TLS to nodes of the store whose certificates one in this file has signed, and
    /// which name their IP addresses
    #[arg(long, value_name = "FILE", requires = "store")]
    store_tls_ca: Option<PathBuf>,

    /// The certificate of this client for the store, and its private key unless --store-tls-key
    /// names another file
    #[arg(long, value_name = "FILE", requires = "store_tls_ca")]
    store_tls_certificate: Option<PathBuf>,

    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "store_tls_certificate")]
    store_tls_key: Option<PathBuf>,

    /// Use the store although nodes acknowledge writes before they are synced (`commitlog_sync:
    /// periodic`): nodes that crash lose committed transactions
    #[arg(long)]
    accept_periodic_sync: bool,

    /// How long a server leads without a response of the store; another takes over after at most
    /// one and a half times as long
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    lease: u64,
}

/// Arguments of `cassette timelock start`.
#[derive(Debug, Args)]
#[command(after_help = START_EXAMPLES)]
pub struct StartArguments {
    #[command(flatten)]
    store: StoreArguments,

    /// Address to listen on for clients: HOST:PORT, or a port of 127.0.0.1; port 0 selects a free
    /// port
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS_DEFAULT, value_parser = listen_address)]
    listen: SocketAddr,

    /// The address for clients, if it is not the listening address
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,

    /// Additional names that clients may use. Addresses, localhost and the name in --advertise
    /// always work
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    host: Vec<String>,

    #[command(flatten)]
    protection: ProtectionArguments,

    /// How long to wait at the start for a store that does not respond; by default without limit.
    /// 0: do not wait
    #[arg(long, value_name = "SECONDS")]
    wait_for_store: Option<u64>,

    /// How long a client keeps its locks without a heartbeat. Clients send one every second. A
    /// client whose connections are all closed keeps them for 1.5 s at most
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=3600))]
    session_timeout: u64,
}

/// What protects a server.
#[derive(Debug, Args)]
struct ProtectionArguments {
    /// A file with tokens, one a line, of which clients must present one; only its owner may have
    /// access to the file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Encrypt connections: a file in PEM with the server's certificate and those that sign it,
    /// and with its private key unless --key names another file
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,

    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// Clients must present a certificate that one in this file has signed
    #[arg(long, value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,
}

impl ProtectionArguments {
    fn tokens(&self) -> anyhow::Result<Option<Arc<Tokens>>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        Ok(Some(Arc::new(Tokens::read(path, &[]).context("--token-file")?)))
    }

    fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        let options = TlsOptions {
            keystore: Keystore { private_key: self.key.clone(), ..Keystore::new(certificate) },
            truststore: self.client_ca.as_ref().map(Keystore::new),
            client_certificates: match self.client_ca {
                Some(_) => ClientCertificates::Required,
                None => ClientCertificates::Ignored,
            },
            ..TlsOptions::default()
        };
        Ok(Some(Tls::new(options).context("--certificate")?))
    }
}

/// How clients prove their identity, and verify servers.
#[derive(Debug, Args)]
struct ClientArguments {
    /// A file with the servers' token; the first one in it is used
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Connect with TLS to servers whose certificates one in this file has signed
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate of this client, and its private key unless --tls-key names another file
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_certificate: Option<PathBuf>,

    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

impl ClientArguments {
    fn options(&self) -> anyhow::Result<RemoteOptions> {
        Ok(RemoteOptions {
            timeout: ANSWER_MAX,
            token: token(self.token_file.as_deref())?,
            tls: client_tls(self.tls_ca.as_ref(), self.tls_certificate.as_ref(), self.tls_key.as_ref())?,
            ..RemoteOptions::new([""; 0])
        })
    }
}

/// Arguments of commands on servers.
#[derive(Debug, Args)]
pub struct AtArguments {
    /// The servers
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', default_value = ADDRESS_DEFAULT)]
    at: Vec<String>,

    #[command(flatten)]
    client: ClientArguments,
}

/// Arguments of `cassette timelock fast-forward`.
#[derive(Debug, Args)]
#[command(after_help = FAST_FORWARD_EXAMPLES)]
pub struct FastForwardArguments {
    /// The timestamp
    #[arg(long, value_name = "TIMESTAMP", value_parser = clap::value_parser!(i64).range(1..))]
    to: i64,

    /// The leading server
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "store", default_value = ADDRESS_DEFAULT)]
    at: String,

    #[command(flatten)]
    client: ClientArguments,

    #[command(flatten)]
    store: StoreArguments,

    /// The bound of the timestamps was lost: create one. Needs --store
    #[arg(long, requires = "store")]
    lost_bound: bool,
}

/// Arguments of `cassette timelock clear`.
#[derive(Debug, Args)]
#[command(after_help = CLEAR_EXAMPLES)]
pub struct ClearArguments {
    #[command(flatten)]
    store: StoreArguments,

    /// A timestamp below all later ones, if it is above the greatest known bound
    #[arg(long, value_name = "TIMESTAMP", value_parser = clap::value_parser!(i64).range(1..))]
    to: Option<i64>,
}

impl StoreArguments {
    fn connect(&self) -> anyhow::Result<ClusterStore> {
        if self.store.is_empty() {
            bail!("--store is required: the cluster with the timestamps' bound");
        }
        let credentials = match (&self.user, &self.password_file) {
            (Some(user), Some(path)) => Some((user.clone(), password_in(path)?)),
            (Some(user), None) => Some((user.clone(), password_of_environment(user)?)),
            (None, _) => None,
        };
        let options = ClusterOptions {
            contact_points: self.store.clone(),
            replication: self.replication.clone(),
            local: self.local.clone(),
            credentials,
            tls: client_tls(
                self.store_tls_ca.as_ref(),
                self.store_tls_certificate.as_ref(),
                self.store_tls_key.as_ref(),
            )?,
            accept_periodic_sync: self.accept_periodic_sync,
            // A response later than a lease is useless.
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
    /// Runs the command; returns false if a server did not respond.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            Self::Start(arguments) => start(arguments).map(|()| true),
            Self::Status(arguments) => each(arguments, |operator| operator.status().map(|s| shown(&s))),
            Self::Stop(arguments) => {
                let stop = |operator: &Operator| {
                    operator
                        .stop()
                        .map(|status| format!("{} stops; it was {}\n", status.address, status.state))
                };
                each(arguments, stop)
            }
            Self::FastForward(arguments) => fast_forward(arguments).map(|()| true),
            Self::Clear(arguments) => clear(arguments).map(|()| true),
        }
    }
}

/// Applies `act` to each server, and prints the result.
fn each<E: std::fmt::Display>(
    arguments: &AtArguments,
    act: impl Fn(&Operator) -> Result<String, E>,
) -> anyhow::Result<bool> {
    let mut all = true;
    let options = arguments.client.options()?;
    for address in &arguments.at {
        let options = RemoteOptions { servers: vec![address.clone()], ..options.clone() };
        match act(&Operator::with(&options)) {
            Ok(text) => print!("{text}"),
            Err(error) => {
                all = false;
                eprintln!("cassette: {address}: {error}");
            }
        }
    }
    Ok(all)
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
    logging::init(&LogArguments::default())?;
    memory::return_periodically()?;
    let runtime = runtime()?;
    let wanted = arguments.listen;
    let socket = bind(wanted).map_err(|error| {
        let context = cannot_listen(wanted, "--listen", &error);
        anyhow::Error::from(error).context(context)
    })?;
    let address = socket.local_addr()?;
    let (tokens, tls) = (arguments.protection.tokens()?, arguments.protection.tls()?);
    match (&tokens, &tls) {
        (None, tls) if !tls.as_ref().is_some_and(Tls::requires_certificates) => {
            warn_of_exposure("the timelock", address);
        }
        (_, None) => warn_of_plain_text("the timelock", address),
        (_, Some(_)) => {}
    }
    let advertised = arguments.advertise.clone().unwrap_or_else(|| address.to_string());
    let connections_max = descriptors::raise_limit().map_or(CONNECTIONS_MAX, descriptors::connections_max);
    let options = ServerOptions {
        hosts: arguments.host.clone(),
        limits: Limits::new(connections_max.min(CONNECTIONS_MAX)),
        lease: arguments.store.lease(),
        session_age_max: Duration::from_secs(arguments.session_timeout),
        tokens: tokens.clone(),
        tls: tls.clone(),
        ..ServerOptions::new(advertised)
    };
    let server = when_the_store_answers(arguments.wait_for_store.map(Duration::from_secs), || {
        let store = Arc::new(arguments.store.connect()?);
        Ok(TimeLockServer::start(store, options.clone())?)
    })?;
    runtime.block_on(async {
        if let Some(tls) = tls {
            tokio::spawn(reload(tls, "certificates", Tls::reload_if_changed));
        }
        if let Some(tokens) = tokens {
            tokio::spawn(reload(tokens, "tokens", |tokens: &Arc<Tokens>| tokens.reload_if_changed()));
        }
        // Only now: until the server can respond, clients must find the port closed and try the
        // next server.
        let listener = socket.listen(BACKLOG).with_context(|| format!("cannot listen on {wanted}"))?;
        let (mut terminated, mut interrupted) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        // Without a reader, the error is ignored.
        let ready = format!("cassette {} serves timestamps on {address}\n", env!("CARGO_PKG_VERSION"));
        let _ = std::io::stdout().lock().write_all(ready.as_bytes());
        let stop = async move {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
        };
        server.serve(listener, stop).await.context("timestamps are no longer issued")
    })
}

/// Reserves the address without accepting connections.
fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Repeats `connect` while it fails for a transient cause, for `wait` at most.
fn when_the_store_answers<T>(
    wait: Option<Duration>,
    mut connect: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let began = Instant::now();
    let mut pause = PAUSE_MIN;
    let mut log_at = began;
    loop {
        let error = match connect() {
            Err(error) if may_pass(&error) => error,
            result => return result,
        };
        let waited = began.elapsed();
        if wait.is_some_and(|wait| waited + pause > wait) {
            let waited = waited.as_secs();
            return Err(error.context(format!("the store did not answer within {waited} s")));
        }
        if Instant::now() >= log_at {
            log_at = Instant::now() + LOG_PERIOD;
            tracing::warn!(
                error = %format_args!("{error:#}"),
                waited_seconds = waited.as_secs(),
                "the store does not answer; waiting for it"
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Returns whether the cause is transient.
fn may_pass(error: &anyhow::Error) -> bool {
    let of_store = error.downcast_ref::<StoreError>().is_some_and(|error| error.is_transient);
    of_store || error.downcast_ref::<TimeLockError>().is_some_and(TimeLockError::is_transient)
}

fn clear(arguments: &ClearArguments) -> anyhow::Result<()> {
    let store = Arc::new(arguments.store.connect()?);
    let cleared = clear_halt(store, arguments.to.map(Timestamp))?;
    println!("cleared: {}", cleared.reason);
    println!("the next server issues timestamps above {}", cleared.bound);
    Ok(())
}

fn fast_forward(arguments: &FastForwardArguments) -> anyhow::Result<()> {
    let to = Timestamp(arguments.to);
    if arguments.store.store.is_empty() {
        let options = RemoteOptions { servers: vec![arguments.at.clone()], ..arguments.client.options()? };
        let status = Operator::with(&options).fast_forward(to)?;
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
        // The lease of a server that died ends by then; that of a running one does not.
        let led = server.wait_until_leading(lease * 2 + Duration::from_secs(10)).await;
        led.context("does not lead; is a server running? Then use --at")?;
        server.fast_forward(to).await?;
        anyhow::Ok(server.status().leading.map_or(0, |leading| leading.bound))
    })?;
    server.stop();
    println!("timestamps are greater than {to} from now on; the next server continues above {bound}");
    Ok(())
}
