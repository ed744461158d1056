//! The client of a move that controls the source's server.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_admin_api::{CutOverAnswer, CutOverRequest};
use cassette_tls::ClientTls;

use super::Failure;
use super::client::Client;
use super::connection::Connection;

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepFailure {
    /// The server refused it.
    Refused(String),
    /// No response: the server may or may not have executed it.
    Unknown(String),
}

/// The admin endpoint of a server that a move controls.
pub struct CutOverClient(Client);

impl CutOverClient {
    /// Creates a client of `host:port`, or of the Unix socket `unix:PATH`, without connecting.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn new(
        address: &str,
        credentials: Option<(&str, &str)>,
        tls: Option<ClientTls>,
    ) -> Result<Self, String> {
        let authorization = credentials
            .map(|(user, password)| format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))));
        let socket = address.strip_prefix("unix:").map(PathBuf::from);
        let (host, port) = match &socket {
            Some(_) => ("localhost", "0"),
            None => address.rsplit_once(':').ok_or_else(|| format!("expected HOST:PORT, found {address}"))?,
        };
        let connection = Connection { authorization, tls, socket };
        let client = Client::new(host.trim_matches(['[', ']']), port, connection);
        client.map(Self).map_err(text)
    }

    /// Executes a step, and waits until it is complete.
    ///
    /// # Errors
    /// If the server refuses it, or does not respond.
    pub fn perform(&self, request: &CutOverRequest) -> Result<CutOverAnswer, StepFailure> {
        self.0.cut_over(request).map_err(|failure| match failure {
            Failure::Unreachable(reason) => StepFailure::Unknown(reason),
            other => StepFailure::Refused(text(other)),
        })
    }
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Usage(text)
        | Failure::Said(text)
        | Failure::NotFound(text)
        | Failure::Unreachable(text)
        | Failure::Error(text) => text,
    }
}
