//! Links to servers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cassette_client::{Connection, ConnectionOptions, OpenError};
use cassette_protocol::{Prelude, Request, Response, Version};
use cassette_tls::ClientTls;

use super::{Endpoint, Link};
use crate::error::{Result, ShellError, server_text};

/// A user and a password.
pub type Credentials = (String, String);

/// The name of this client in lists of clients.
const CLIENT_NAME: &str = "cassette cql";

/// A server.
#[derive(Clone)]
pub struct Remote {
    /// `host:port`
    pub address: String,
    /// User and password.
    pub credentials: Option<Credentials>,
    /// Encrypts connections. `None`: without TLS.
    pub tls: Option<ClientTls>,
    /// The versions of the protocol to try, in order.
    pub versions: Vec<Version>,
    /// Maximum time for a response.
    pub request_timeout: Duration,
    /// Ends waits for responses when it is true.
    pub interrupt: Arc<AtomicBool>,
}

impl Endpoint for Remote {
    fn open(&self, timeout: Option<Duration>) -> Result<Box<dyn Link>> {
        let options = ConnectionOptions {
            client_name: CLIENT_NAME,
            versions: &self.versions,
            credentials: self.credentials.as_ref(),
            tls: self.tls.as_ref(),
            silence_max: timeout.unwrap_or(self.request_timeout),
            interrupt: Some(&self.interrupt),
        };
        match Connection::open(&self.address, &options) {
            Ok(connection) => Ok(Box::new(connection)),
            Err(OpenError::Server(error)) => Err(ShellError::Lost(server_text(&error))),
            Err(OpenError::LoginRequired(authenticator)) => Err(ShellError::Lost(format!(
                "{} requires a login ({authenticator}): --username, or a credentials file",
                self.address
            ))),
            Err(error) => Err(ShellError::Lost(error.to_string())),
        }
    }

    fn with_login(&self, credentials: Credentials) -> Result<Box<dyn Endpoint>> {
        Ok(Box::new(Self { credentials: Some(credentials), ..self.clone() }))
    }

    fn user(&self) -> Option<&str> {
        self.credentials.as_ref().map(|(user, _)| user.as_str())
    }

    fn place(&self) -> String {
        self.address.clone()
    }
}

impl Link for Connection {
    fn call(&mut self, request: &Request, trace: bool) -> Result<(Response, Prelude)> {
        Connection::call(self, request, trace).map_err(lost)
    }

    fn call_all(&mut self, requests: &[Request]) -> Result<Vec<Response>> {
        Connection::call_all(self, requests).map_err(lost)
    }

    fn version(&self) -> Version {
        Connection::version(self)
    }
}

fn lost(error: std::io::Error) -> ShellError {
    ShellError::Lost(error.to_string())
}
