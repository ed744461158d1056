//! `cassette serve`: a database behind a listener, until it is stopped.
//!
//! Shutdown takes limited time: requests have `--stop-timeout` to finish, then they are
//! interrupted, and the process ends [`CLOSE_MAX`] later at the latest, whatever a request does.
//! Memtables are flushed meanwhile as far as time permits; the commit log has the rest.

use std::fs::Permissions;
use std::io::Write;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cassette_adopt::{ReadOnly, open_read_only, refuse_foreign};
use cassette_backup::BackupService;
use cassette_database::{Database, ServerMetrics};
use cassette_engine::commitlog::ReplayPolicy;
use cassette_server::admin::{Admin, History, LogLevels};
use cassette_server::authentication::{Authenticator, CertificateAuthenticator, PasswordAuthenticator};
use cassette_server::query_logs::{LoggedDatabase, QueryLogs};
use cassette_server::tls::Tls;
use cassette_server::{Forwarding, Proxy, Server, ServerConfig, descriptors};
use cassette_vfs::{FileSystem, RealFileSystem, SystemClock};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::address::listen_address;
use crate::admin::{AdminArguments, Prepared, reload};
use crate::config::{self, BackupSettings, Config, commitlog_archiving, duration};
use crate::forwarding::ForwardingArguments;
use crate::in_memory::InMemoryArguments;
use crate::listening::{warn_of_exposure, warn_of_plain_text};
use crate::logging::{self, LogArguments};
use crate::node::NodeArguments;
use crate::testing::{TestingArguments, bind};
use crate::{memory, parent, service_manager, superuser};

const EXAMPLES: &str = "\
Examples:
  A database in ./cassette-data, on 127.0.0.1:9042, with Cassandra's defaults:
    cassette serve

  Another directory, any free port (the first line printed says which), and a cassandra.yaml:
    cassette serve --data /var/lib/cassette --listen 127.0.0.1:0 \\
        --config cassandra.yaml

  Queries on a snapshot, or on the directories of a stopped Cassandra, which stay unchanged:
    cassette serve --read-only /var/lib/cassandra/data

  Pass all connections on to another server, or to nodes of a cluster:
    cassette serve --forward 10.0.0.1:9042,10.0.0.2:9042

Then connect with `cassette cql`, or with any Cassandra driver (data center: datacenter1).

SIGTERM and Ctrl-C let requests finish, flush and stop; a second one does not wait for requests. \
CASSETTE_LOG=debug logs more.";

/// The maximum duration of shutdown after `--stop-timeout`.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The file with the history of metrics, in the data directory.
const HISTORY: &str = "metrics_history";

/// The time for interrupted requests to end before the database is closed.
const INTERRUPTED_MAX: Duration = Duration::from_millis(800);

/// Arguments of `cassette serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// The data directory; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "cassette-data")]
    data: PathBuf,

    /// Answer queries on directories without writing to them, instead of --data: a data directory
    /// of Cassette, a snapshot, or data directories of Cassandra
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["data", "skip_damaged_log"])]
    read_only: Vec<PathBuf>,

    /// Use a new data directory in the directory for temporary files, and remove it at the end; for
    /// tests. `auto_snapshot` is false by default then
    #[arg(long, conflicts_with_all = ["data", "read_only"])]
    temporary: bool,

    #[command(flatten)]
    in_memory: InMemoryArguments,

    /// Address to listen on: HOST:PORT, or a port of 127.0.0.1; port 0 selects a free port. With
    /// --nodes, the addresses of all nodes, separated by commas, or that of the first [default:
    /// 127.0.0.1:9042]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address, value_delimiter = ',')]
    listen: Vec<SocketAddr>,

    /// Start with a damaged commit log and skip its unreadable parts: acknowledged writes and
    /// schema changes may be lost; files are kept, and `nodetool unknowntables` lists tables that
    /// the schema lost
    #[arg(long)]
    skip_damaged_log: bool,

    #[command(flatten)]
    node: NodeArguments,

    #[command(flatten)]
    admin: AdminArguments,

    /// How clients are authenticated: AllowAllAuthenticator, PasswordAuthenticator, or, with its
    /// parameters in the configuration file, MutualTlsAuthenticator or
    /// MutualTlsWithPasswordFallbackAuthenticator; overrides `authenticator` of that file [default:
    /// AllowAllAuthenticator]
    #[arg(long, value_name = "CLASS")]
    authenticator: Option<String>,

    /// Whether permissions of roles are checked: AllowAllAuthorizer or CassandraAuthorizer;
    /// overrides `authorizer` of the configuration file [default: AllowAllAuthorizer]
    #[arg(long, value_name = "CLASS")]
    authorizer: Option<String>,

    /// A file with the password that the superuser `cassandra` gets at the first start, or as long
    /// as it has the default password
    #[arg(long, value_name = "FILE")]
    superuser_password_file: Option<PathBuf>,

    /// Listen beyond loopback although the superuser `cassandra` has the default password
    #[arg(long)]
    allow_default_password: bool,

    /// Create backups in this directory, or in s3://BUCKET/PREFIX, while serving, with
    /// --backup-every, and archive the commit log there, with --archive-commitlog; overrides
    /// `backup_options` of the configuration file
    #[arg(long, value_name = "LOCATION", conflicts_with = "read_only")]
    backup_to: Option<String>,

    /// How often a backup is created, such as 1h
    #[arg(long, value_name = "DURATION", conflicts_with = "read_only")]
    backup_every: Option<String>,

    /// The number of scheduled backups to keep [default: all]
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,

    /// Encrypt the backups and the archived commit log with the first key of this file, which only
    /// its owner may read: lines of an alias and a key, such as of `openssl rand -hex 32`
    #[arg(long, value_name = "FILE", conflicts_with = "read_only")]
    backup_key_file: Option<PathBuf>,

    /// Archive the commit log beside the backups, for restores to a point in time
    #[arg(long, conflicts_with = "read_only")]
    archive_commitlog: bool,

    /// How long requests may continue after SIGTERM before they are interrupted, such as 10s or
    /// 500ms
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    stop_timeout: Duration,

    /// A configuration file with cassandra.yaml's keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration file, report all mistakes, and exit
    #[arg(long)]
    check_config: bool,

    /// Print the settings that would be in effect, as a configuration file, and exit
    #[arg(long, conflicts_with = "check_config")]
    print_config: bool,

    #[command(flatten)]
    log: LogArguments,

    #[command(flatten)]
    forwarding: ForwardingArguments,

    #[command(flatten)]
    testing: TestingArguments,

    /// Stop when the parent process, which must be PID, ends for any reason (Linux); for test runs
    /// and scripts
    #[arg(long, value_name = "PID")]
    stop_with_parent: Option<u32>,

    /// Stop when standard input ends: if it is a pipe, when the process that started the server
    /// closes it or ends for any reason; for test kits
    #[arg(long)]
    stop_with_stdin: bool,
}

impl ServeArguments {
    /// Returns the data directory, unless the files are in memory or are only read.
    fn writable_directory(&self) -> Option<&Path> {
        (self.read_only.is_empty() && !self.in_memory.is_in_memory()).then_some(&*self.data)
    }

    /// Returns the directory of logs that have no configured one, if there is one.
    fn logs(&self) -> Option<&Path> {
        (!self.in_memory.is_in_memory()).then_some(&*self.data)
    }
}

/// A database that is no longer served, and the deadline for closing it.
struct Served {
    database: Database,
    deadline: Instant,
}

/// Serves until SIGTERM or SIGINT.
pub fn run(mut arguments: ServeArguments) -> anyhow::Result<()> {
    if !arguments.temporary || arguments.check_config || arguments.print_config {
        return run_in(&arguments);
    }
    let only_owner = Permissions::from_mode(0o700);
    let directory = tempfile::Builder::new().prefix("cassette-").permissions(only_owner).tempdir();
    let directory = directory.context("cannot create a temporary directory")?;
    directory.path().clone_into(&mut arguments.data);
    run_in(&arguments)?;
    let path = directory.path().display().to_string();
    directory.close().with_context(|| format!("cannot remove {path}"))
}

/// Serves the data directory of `arguments`.
fn run_in(arguments: &ServeArguments) -> anyhow::Result<()> {
    if let Some(parent) = arguments.stop_with_parent {
        parent::stop_with(parent)?;
    }
    let logging = logging::init(&arguments.log)?;
    let config = configuration(arguments)?;
    if arguments.check_config {
        let path = arguments.config.as_ref().map(|path| format!("{}: ", path.display()));
        println!("{}the configuration is valid", path.unwrap_or_default());
        return Ok(());
    }
    if arguments.print_config {
        print!("{}", printed(arguments, &config)?);
        return Ok(());
    }
    serve_with(arguments, &config, logging)
}

/// Reads the configuration file, which the command line's arguments override.
fn configuration(arguments: &ServeArguments) -> anyhow::Result<Config> {
    let adjust = |config: &mut Config| {
        config.choose_auth(arguments.authenticator.as_deref(), arguments.authorizer.as_deref());
        config.choose_backups(BackupSettings {
            repository: arguments.backup_to.clone(),
            backup_period: arguments.backup_every.clone(),
            keep: arguments.keep,
            key_file: arguments.backup_key_file.clone(),
            archive_commitlog: arguments.archive_commitlog.then_some(true),
            ..BackupSettings::default()
        });
        if arguments.temporary || arguments.in_memory.is_in_memory() {
            config.choose_temporary();
        }
        // Before the checks of all settings, which open the repository of backups.
        arguments.in_memory.check(config)
    };
    if let Some(path) = &arguments.config {
        commitlog_archiving::refuse(path)?;
        return Config::read_checked(path, &arguments.data, adjust);
    }
    let mut config = Config::default();
    adjust(&mut config)?;
    Ok(config)
}

/// Returns the settings of the listener.
fn server_config(arguments: &ServeArguments, config: &Config) -> anyhow::Result<ServerConfig> {
    let mut server = config.server()?;
    arguments.testing.check_listed(&arguments.listen)?;
    arguments.testing.check_seed(!arguments.temporary && !arguments.in_memory.is_in_memory())?;
    if let Some(address) = arguments.listen.first() {
        server.listen_address = *address;
    }
    Ok(server)
}

/// Returns the settings in effect as a configuration file.
fn printed(arguments: &ServeArguments, config: &Config) -> anyhow::Result<String> {
    let mut options = config.database(&arguments.data)?;
    arguments.node.apply(&mut options.node);
    arguments.in_memory.apply(&mut options)?;
    config::printed(config, &options, &server_config(arguments, config)?, &arguments.admin.address(config)?)
}

/// Serves until the server is stopped, and closes the database.
fn serve_with(
    arguments: &ServeArguments,
    config: &Config,
    logging: Arc<dyn LogLevels>,
) -> anyhow::Result<()> {
    memory::return_periodically()?;
    let mut server = server_config(arguments, config)?;
    server.stop_timeout = arguments.stop_timeout;
    server.tls = config.tls()?;
    if let Some(files) = descriptors::raise_limit() {
        let max = descriptors::connections_max(files);
        server.max_concurrent_connections =
            Some(server.max_concurrent_connections.map_or(max, |n| n.min(max)));
        server.max_sockets = Some(max);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(server.blocking_threads())
        .build()?;
    if let Some(forwarding) = arguments.forwarding.target(arguments.writable_directory())? {
        return runtime.block_on(forward(server, forwarding, arguments.stop_with_stdin));
    }
    let Served { database, deadline } = runtime.block_on(serve(arguments, config, server, logging))?;
    service_manager::notify("STOPPING=1");
    // A request that ignores its interruption must not keep the process running: its thread ends
    // with the process.
    runtime.shutdown_timeout(INTERRUPTED_MAX.min(deadline.saturating_duration_since(Instant::now())));
    if arguments.in_memory.is_in_memory() {
        // Nothing is kept: there is no need to flush, or to wait for compactions.
        mem::forget(database);
        tracing::info!("stopped");
        return Ok(());
    }
    close(database, deadline)
}

/// Closes the database, but waits no longer than `deadline`: the commit log has all acknowledged
/// writes.
fn close(database: Database, deadline: Instant) -> anyhow::Result<()> {
    let (closed, is_closed) = mpsc::channel();
    let close = move || {
        // An error only means that the receiver stopped waiting.
        let _ = closed.send(database.close());
    };
    Builder::new().name("close".to_owned()).spawn(close).context("cannot start a thread")?;
    match is_closed.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(closed) => {
            closed.context("cannot close the database")?;
            tracing::info!("stopped");
            Ok(())
        }
        Err(RecvTimeoutError::Timeout) => {
            tracing::warn!(
                "the database was not closed in time: what is not flushed is replayed from the commit log \
                 at the next start"
            );
            Ok(())
        }
        Err(RecvTimeoutError::Disconnected) => bail!(
            "closing the database panicked: what is not flushed is replayed from the commit log at the next start"
        ),
    }
}

/// Forwards all connections until SIGTERM or SIGINT.
async fn forward(
    server: ServerConfig,
    forwarding: Arc<Forwarding>,
    stop_with_stdin: bool,
) -> anyhow::Result<()> {
    let listener = bind(server.listen_address).await?;
    let encrypted = encryption(server.tls.as_ref());
    if let Some(tls) = server.tls.clone() {
        tokio::spawn(reload(tls, "certificates", Tls::reload_if_changed));
    }
    let mut signalled = count_signals(stop_with_stdin)?;
    let target = forwarding.target().to_owned();
    let proxy = Proxy::new(listener, server, forwarding);
    let (version, address) = (env!("CARGO_PKG_VERSION"), proxy.local_address()?);
    report_ready(&format!(
        "cassette {version} listens for CQL on {address}{encrypted}\nforwards all requests to {target}\n"
    ));
    proxy.serve(async { drop(signalled.wait_for(|count| *count > 0).await) }).await;
    Ok(())
}

/// Lets virtual nodes, if there are any, open and close the listeners of the server.
fn connect_nodes(database: &Database, server: &Server<LoggedDatabase>) -> anyhow::Result<()> {
    if let Some(nodes) = database.virtual_nodes() {
        nodes.connect(Arc::new(server.nodes()?));
    }
    Ok(())
}

/// Shows the server's metrics in the database, and prepares the statements that clients had
/// prepared before the last stop.
fn attach(database: &Database, metrics: &Arc<dyn ServerMetrics>) {
    database.set_server(metrics);
    match database.prepare_kept_statements() {
        Ok(0) => {}
        Ok(count) => tracing::info!("prepared {count} statements of clients again"),
        // Clients prepare them again.
        Err(error) => tracing::warn!(%error, "cannot prepare the statements of clients again"),
    }
}

async fn serve(
    arguments: &ServeArguments,
    config: &Config,
    mut server: ServerConfig,
    logging: Arc<dyn LogLevels>,
) -> anyhow::Result<Served> {
    let (wanted, stop_timeout) = (server.listen_address, server.stop_timeout);
    if let Some(max) = server.max_concurrent_connections {
        tracing::info!("at most {max} connections: the other file descriptors are for storage");
    }
    let listeners = arguments.testing.bind(wanted, &arguments.listen).await?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
    let prepared_admin = arguments.admin.prepare(config).await?;
    let database = open_database(arguments, config, &addresses)?;
    let backups = start_backups(arguments, config, &database)?;
    let server_tls = server.tls.clone();
    if let Some(tls) = server_tls.clone() {
        tokio::spawn(reload(tls, "certificates", Tls::reload_if_changed));
    }
    let admin_address = prepared_admin.as_ref().and_then(Prepared::address);
    set_up_authentication(arguments, &database, &mut server, &addresses, admin_address)?;
    let logs = query_logs(config, arguments.logs())?;
    let backend = LoggedDatabase::new(database.clone(), Arc::clone(&logs));
    let server = Server::with_listeners(listeners, server, Arc::new(backend))?;
    connect_nodes(&database, &server)?;
    let gate = server.gate();
    let mut signalled = count_signals(arguments.stop_with_stdin)?;
    let mut cut = signalled.clone();
    let metrics = server.metrics();
    attach(&database, &metrics);
    let mut ready = ready_text(arguments, &addresses, encryption(server_tls.as_ref()));
    let (drain, mut drained) = watch::channel(false);
    let (stop_admin, mut admin_stopped) = watch::channel(false);
    let mut history = None;
    if let Some(prepared) = prepared_admin {
        ready += &prepared.ready();
        let drain = move || {
            // An error only means that the server was dropped already.
            let _ = drain.send(true);
        };
        let access = prepared.access(server.logins());
        let recorded = start_history(arguments, &database, &metrics)?;
        let admin = Admin::new(database.clone(), metrics, logging, access, drain);
        admin.set_history(Arc::clone(&recorded));
        history = Some(recorded);
        set_up_admin(&admin, &logs, backups.as_ref(), server_tls);
        if let Some(data) = arguments.writable_directory() {
            admin.set_switch(arguments.forwarding.switch(gate, data)?);
        }
        prepared
            .serve(admin, async move { admin_stopped.wait_for(|stopped| *stopped).await.map_or((), drop) });
    }
    report_ready(&ready);
    let mut is_drained = false;
    let mut deadline = None;
    let stop = async {
        tokio::select! {
            _ = signalled.wait_for(|count| *count > 0) => {
                deadline = Some(Instant::now() + stop_timeout + CLOSE_MAX);
            }
            Ok(_) = drained.wait_for(|drained| *drained) => is_drained = true,
        }
    };
    server.serve_until(stop, async { drop(cut.wait_for(|count| *count > 1).await) }).await;
    logs.stop();
    if is_drained {
        tracing::info!("drained: no requests are served until the next start");
        drop(signalled.wait_for(|count| *count > 0).await);
    }
    let _ = stop_admin.send(true);
    if let Some(history) = history {
        history.stop();
    }
    Ok(Served { database, deadline: deadline.unwrap_or_else(|| Instant::now() + stop_timeout + CLOSE_MAX) })
}

/// Returns what is printed when the server listens for CQL.
fn ready_text(arguments: &ServeArguments, addresses: &[SocketAddr], encrypted: &str) -> String {
    let mut text = String::new();
    if let Some(first) = addresses.first() {
        text += &format!("cassette {} listens for CQL on {first}{encrypted}\n", env!("CARGO_PKG_VERSION"));
    }
    if arguments.testing.has_nodes() {
        let nodes: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        text += &format!("virtual nodes listen on {}\n", nodes.join(", "));
    }
    if !arguments.read_only.is_empty() {
        text += "open for reading only: statements that write fail\n";
    }
    text
}

/// Opens the data directory for a server that listens on `addresses`. Files get their access, and a
/// cut-over that was not completed is undone before.
fn open_database(
    arguments: &ServeArguments,
    config: &Config,
    addresses: &[SocketAddr],
) -> anyhow::Result<Database> {
    config.file_access()?.set();
    if let Some(data) = arguments.writable_directory() {
        arguments.forwarding.undo(data)?;
    }
    let mut options = config.database(&arguments.data)?;
    arguments.node.apply(&mut options.node);
    if let Some(first) = addresses.first() {
        options.node.address = first.ip();
        options.node.port = first.port();
    }
    let hosts: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    arguments.testing.apply(&mut options, &hosts);
    if !arguments.read_only.is_empty() {
        let ReadOnly { database, warnings } = open_read_only(options, &arguments.read_only)?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        return Ok(database);
    }
    if arguments.in_memory.is_in_memory() {
        arguments.in_memory.apply(&mut options)?;
        return Database::open(options).context("cannot open a database in memory");
    }
    refuse_foreign(&options.file_system, &arguments.data)?;
    if arguments.skip_damaged_log {
        options.engine.commitlog_replay = ReplayPolicy::SkipDamaged;
    }
    Database::open(options)
        .with_context(|| format!("cannot open the data directory {}", arguments.data.display()))
}

/// Connects the admin endpoint with what it controls.
fn set_up_admin(
    admin: &Admin,
    logs: &Arc<QueryLogs>,
    backups: Option<&Arc<BackupService>>,
    tls: Option<Tls>,
) {
    admin.set_query_logs(Arc::clone(logs));
    if let Some(backups) = backups {
        admin.set_backups(Arc::clone(backups));
    }
    if let Some(tls) = tls {
        admin.set_tls(tls);
    }
}

/// Starts to record the history of metrics, in a file if there is a directory to write to.
fn start_history(
    arguments: &ServeArguments,
    database: &Database,
    server: &Arc<dyn ServerMetrics>,
) -> anyhow::Result<Arc<History>> {
    let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
    let file = arguments.writable_directory().map(|data| (fs, data.join(HISTORY)));
    let history = History::start(database.clone(), Arc::clone(server), file);
    Ok(Arc::new(history.context("cannot start a thread")?))
}

/// Starts the threads of scheduled backups and of archiving, if they are configured.
fn start_backups(
    arguments: &ServeArguments,
    config: &Config,
    database: &Database,
) -> anyhow::Result<Option<Arc<BackupService>>> {
    if !arguments.read_only.is_empty() {
        return Ok(None);
    }
    let Some(options) = config.backups()? else { return Ok(None) };
    let service = BackupService::start(database.clone(), options);
    Ok(Some(Arc::new(service.context("cannot start the threads of backups")?)))
}

/// Sets the superuser's password and the server's authenticator, and warns of what other machines
/// can reach without them.
fn set_up_authentication(
    arguments: &ServeArguments,
    database: &Database,
    server: &mut ServerConfig,
    addresses: &[SocketAddr],
    admin_address: Option<SocketAddr>,
) -> anyhow::Result<()> {
    superuser::set_up(
        database,
        arguments.superuser_password_file.as_deref(),
        addresses.iter().copied().chain(admin_address),
        arguments.allow_default_password,
    )?;
    server.authenticator = authenticator(database)?;
    let is_plain = server.tls.as_ref().is_none_or(Tls::is_optional);
    for address in addresses {
        if server.authenticator.is_none() {
            warn_of_exposure("CQL", *address);
        } else if is_plain {
            warn_of_plain_text("CQL", *address);
        }
    }
    Ok(())
}

/// Returns what verifies the identity of clients, by the settings of the database.
fn authenticator(database: &Database) -> anyhow::Result<Option<Arc<dyn Authenticator>>> {
    let settings = database.auth_settings();
    if !settings.certificates {
        return Ok(settings.passwords.then(|| Arc::new(PasswordAuthenticator::new(database.clone())) as _));
    }
    let certificates = CertificateAuthenticator::new(database.clone());
    if settings.passwords {
        return Ok(Some(Arc::new(certificates.with_passwords())));
    }
    if !database.has_identities().context("cannot read the identities of certificates")? {
        tracing::warn!(
            "no certificate can log in: start with authenticator PasswordAuthenticator or \
             MutualTlsWithPasswordFallbackAuthenticator, and execute ADD IDENTITY"
        );
    }
    Ok(Some(Arc::new(certificates)))
}

/// Returns the number of signals to stop that were received, from now on. The end of standard input
/// counts as one if `with_stdin`.
fn count_signals(with_stdin: bool) -> anyhow::Result<watch::Receiver<u32>> {
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (signals, signalled) = watch::channel(0u32);
    if with_stdin {
        let (ended, signals) = (parent::end_of_stdin()?, signals.clone());
        tokio::spawn(async move {
            drop(ended.await);
            signals.send_modify(|count| *count += 1);
        });
    }
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = interrupted.recv() => {}
            }
            signals.send_modify(|count| *count += 1);
        }
    });
    Ok(signalled)
}

/// Notifies the service manager and prints the addresses. Written in one piece, ignoring errors: a
/// reader of only the first line may close the pipe, and still needs the server.
fn report_ready(ready: &str) {
    service_manager::notify("READY=1");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(ready.as_bytes()).and_then(|()| out.flush());
}

/// Describes the encryption of connections for the line with the address.
fn encryption(tls: Option<&Tls>) -> &'static str {
    match tls {
        None => "",
        Some(tls) if tls.is_optional() => ", with and without TLS",
        Some(_) => ", with TLS",
    }
}

/// Creates the audit log and the full query log, and enables the former if it is configured.
fn query_logs(config: &Config, data: Option<&Path>) -> anyhow::Result<Arc<QueryLogs>> {
    let (audit, is_enabled) = config.audit_log(data)?;
    let (fs, clock) = (Arc::new(RealFileSystem), Arc::new(SystemClock::new()));
    let logs = QueryLogs::new(fs, clock, audit, config.full_query_log()?);
    if is_enabled {
        // Without the log that was asked for, the server must not serve.
        logs.enable_audit(logs.configured_audit()).context("cannot enable the audit log")?;
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use cassette_database::Options;
    use cassette_vfs::FakeFileSystem;

    use super::*;

    #[test]
    fn a_panic_while_closing_is_an_error_at_once() {
        let fs = FakeFileSystem::new();
        let options = Options { file_system: Arc::new(fs.clone()), ..Options::new("/data") };
        let database = Database::open(options).unwrap();
        fs.fail_when(|_| {
            assert_ne!(std::thread::current().name(), Some("close"), "injected");
            None
        });
        let error = close(database, Instant::now() + Duration::from_secs(600)).unwrap_err().to_string();
        assert!(error.contains("closing the database panicked"), "{error}");
    }
}
