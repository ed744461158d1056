//! The admin endpoint of `cassette serve`.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cassette_admin_api::ADDRESS_DEFAULT;
use cassette_server::Logins;
use cassette_server::admin::{Access, Admin, Listener, TOKEN_LEVELS};
use cassette_server::tls::Tls;
use cassette_server::tls::secret::Tokens;
use clap::Args;
use tokio::net::TcpListener;

use crate::config::{AdminAddress, Config};
use crate::listening::{cannot_listen, warn_of_exposure, warn_of_plain_text};
use crate::unix_socket::{self, BoundSocket};

/// How often files of certificates and tokens are checked for new versions.
const FILES_INTERVAL: Duration = Duration::from_secs(60);

/// Arguments of the endpoint.
#[derive(Debug, Args)]
pub struct AdminArguments {
    /// Address of the admin endpoint, for `cassette nodetool`, Prometheus and a browser: HOST:PORT,
    /// a port, or unix:PATH, a socket that only this user can connect to, without a password;
    /// `off` disables it [default: 127.0.0.1:7199]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<AdminAddress>,

    /// A file with tokens for the admin endpoint, in lines of `read-only` or `operator` and a
    /// token; only its owner may have access to the file. Overrides `admin_tokens_file` of the
    /// configuration file
    #[arg(long, value_name = "FILE")]
    admin_tokens_file: Option<PathBuf>,
}

/// The endpoint with its listener, before the database is open.
pub struct Prepared {
    socket: Socket,
    tls: Option<Tls>,
    tokens: Option<Arc<Tokens>>,
}

enum Socket {
    Tcp(TcpListener, SocketAddr),
    Unix(BoundSocket),
}

impl AdminArguments {
    /// Returns the address of the command line or of the configuration file.
    fn asked(&self, config: &Config) -> anyhow::Result<Option<AdminAddress>> {
        match &self.admin {
            Some(address) => Ok(Some(address.clone())),
            None => config.admin(),
        }
    }

    /// Returns the address in effect.
    pub fn address(&self, config: &Config) -> anyhow::Result<AdminAddress> {
        Ok(self.asked(config)?.unwrap_or(AdminAddress::At(ADDRESS_DEFAULT)))
    }

    /// Listens, and reads the files. `None` if the endpoint is disabled. A port in use by another
    /// process is an error only if the address was specified.
    pub async fn prepare(&self, config: &Config) -> anyhow::Result<Option<Prepared>> {
        let tls = config.admin_tls()?;
        let tokens = match self.admin_tokens_file.as_deref().or(config.admin_tokens_file()) {
            Some(path) => Some(Arc::new(Tokens::read(path, TOKEN_LEVELS).context("admin_tokens_file")?)),
            None => None,
        };
        let asked = self.asked(config)?;
        let wanted = match &asked {
            Some(AdminAddress::Off) => return Ok(None),
            Some(AdminAddress::Unix(path)) => {
                let socket =
                    Socket::Unix(unix_socket::bind(path).context("cannot start the admin endpoint")?);
                return Ok(Some(Prepared { socket, tls: None, tokens }));
            }
            Some(AdminAddress::At(address)) => *address,
            None => ADDRESS_DEFAULT,
        };
        match TcpListener::bind(wanted).await {
            Ok(listener) => {
                let address = listener.local_addr()?;
                Ok(Some(Prepared { socket: Socket::Tcp(listener, address), tls, tokens }))
            }
            Err(error) if asked.is_none() => {
                tracing::warn!(%error, "cannot listen on {wanted}: the admin endpoint is disabled; choose \
                    another address with --admin");
                Ok(None)
            }
            Err(error) => {
                let context = cannot_listen(wanted, "--admin", &error);
                Err(anyhow::Error::from(error).context(context).context("cannot start the admin endpoint"))
            }
        }
    }
}

impl Prepared {
    /// Returns the address that other machines may reach.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(_, address) => Some(*address),
            Socket::Unix(_) => None,
        }
    }

    /// Returns how clients are authenticated. Warns if other machines have access without that, or
    /// can read passwords.
    pub fn access(&self, logins: Logins) -> Access {
        const WHAT: &str = "the admin endpoint";
        let access = Access::new(logins, self.tokens.clone());
        let Some(address) = self.address() else { return access };
        if access.is_open() && !self.tls.as_ref().is_some_and(Tls::requires_certificates) {
            warn_of_exposure(WHAT, address);
        } else if self.tls.as_ref().is_none_or(Tls::is_optional) {
            warn_of_plain_text(WHAT, address);
        }
        access
    }

    /// Returns the line that reports the address.
    pub fn ready(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match &self.socket {
            Socket::Tcp(_, address) => format!("the admin endpoint is at {scheme}://{address}/\n"),
            Socket::Unix(socket) => format!("the admin endpoint is at unix:{}\n", socket.path().display()),
        }
    }

    /// Serves in the background until `stopped` completes.
    pub fn serve(self, admin: Arc<Admin>, stopped: impl Future<Output = ()> + Send + 'static) {
        let (mut listener, file) = match self.socket {
            Socket::Tcp(listener, _) => (Listener::from(listener), None),
            Socket::Unix(socket) => {
                let (listener, file) = socket.into_parts();
                (Listener::unix(listener), Some(file))
            }
        };
        if let Some(tls) = self.tls {
            tokio::spawn(reload(tls.clone(), "certificates of the admin endpoint", Tls::reload_if_changed));
            listener = admin.encrypted(listener, tls);
        }
        if let Some(tokens) = self.tokens {
            let reload_tokens = |tokens: &Arc<Tokens>| tokens.reload_if_changed();
            tokio::spawn(reload(tokens, "tokens of the admin endpoint", reload_tokens));
        }
        tokio::spawn(async move {
            // Removed with the task, also when the runtime ends.
            let _file = file;
            if let Err(error) = admin.serve(listener, stopped).await {
                tracing::error!(%error, "the admin endpoint has failed");
            }
        });
    }
}

/// Uses files that replace those in use, until the process ends. `what` names them.
pub async fn reload<T: Clone + Send + 'static, E: std::fmt::Display + Send + 'static>(
    files: T,
    what: &'static str,
    reload_if_changed: impl Fn(&T) -> Result<bool, E> + Copy + Send + 'static,
) {
    let mut ticks = tokio::time::interval(FILES_INTERVAL);
    loop {
        ticks.tick().await;
        let checked = files.clone();
        match tokio::task::spawn_blocking(move || reload_if_changed(&checked)).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("{what} were replaced; new connections use them"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot read {what}; the previous ones stay in use"),
            Err(_) => return,
        }
    }
}
