//! The check of a target before requests are forwarded to it permanently.
//!
//! Each contact point must answer OPTIONS and STARTUP as a server of CQL does, with the TLS that is
//! used later. It must not be this server, which would forward to itself: without a login, its host
//! id shows that. With one, the STARTUP of this check does, which appears among the clients of this
//! server, however it got there.

use std::io;

use cassette_protocol::request::{Options, Query, Startup};
use cassette_protocol::response::Response;
use cassette_protocol::{QueryParameters, Request, ResultMessage, Version};
use tracing::warn;
use uuid::Uuid;

use super::target::{TargetConnection, accepted, invalid};
use super::{Forwarding, Upstream};

/// The option of STARTUP with the number of a check.
const OPTION: &str = "CASSETTE_CUT_OVER";
/// The longest response.
const RESPONSE_LENGTH_MAX: usize = 1 << 20;

/// This server, to which no target may lead.
pub(crate) struct Own<'o> {
    pub host_id: Uuid,
    /// Returns whether a client of this server has an option of STARTUP.
    pub has_client: &'o (dyn Fn(&str, &str) -> bool + Sync),
}

impl Forwarding {
    /// Checks the target.
    ///
    /// # Errors
    /// If no contact point can be connected to, or one of the others is unsuitable.
    pub(crate) async fn check(&self, own: &Own<'_>) -> Result<(), String> {
        let mut unreachable = Vec::new();
        for contact in &self.contacts {
            let stream = match self.connect_to(contact).await {
                Ok(stream) => stream,
                Err(error) => {
                    unreachable.push(format!("cannot connect to {contact}: {}", self.describe(&error)));
                    continue;
                }
            };
            let checked = check(stream, own).await;
            checked.map_err(|error| format!("cannot forward to {contact}: {}", self.describe(&error)))?;
        }
        if unreachable.len() == self.contacts.len() {
            return Err(unreachable.join("; "));
        }
        unreachable.iter().for_each(|reason| warn!("{reason}"));
        Ok(())
    }

    /// Describes a failure, with what to do if it may be about TLS.
    fn describe(&self, error: &io::Error) -> String {
        let handshake = error.get_ref().and_then(|error| error.downcast_ref::<cassette_tls::rustls::Error>());
        match (handshake, &self.tls) {
            (Some(handshake), _) => format!("{} (--forward-tls-ca)", cassette_tls::explain(handshake)),
            (None, None) if is_no_response(error) => {
                format!("{error}; does it use TLS? Then start this server with --forward-tls-ca")
            }
            (None, _) => error.to_string(),
        }
    }
}

/// Returns whether the connection ended, or did not speak the protocol.
fn is_no_response(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::InvalidData
    )
}

async fn check(stream: Box<dyn Upstream>, own: &Own<'_>) -> io::Result<()> {
    // All versions of Cassandra and of this server speak it.
    let mut target = TargetConnection::new(stream, Version::V4, RESPONSE_LENGTH_MAX);
    match target.call(Request::Options(Options)).await? {
        Response::Supported(_) => {}
        other => return Err(unexpected("SUPPORTED", &other)),
    }
    let number = Uuid::new_v4().to_string();
    let options = [(Startup::CQL_VERSION, "3.0.0"), (OPTION, &*number)];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let response = target.start_up(Startup { options: options.into() }, None).await?;
    if (own.has_client)(OPTION, &number) {
        return Err(itself());
    }
    match accepted(response)? {
        Response::Authenticate(_) => return Ok(()),
        Response::Ready => {}
        other => return Err(unexpected("READY", &other)),
    }
    let query = "SELECT host_id FROM system.local WHERE key = 'local'".into();
    let query = Request::Query(Query { query, parameters: QueryParameters::default() });
    let response = target.call(query).await?;
    let Response::Result(ResultMessage::Rows(rows)) = &response else {
        return Err(unexpected("rows", &response));
    };
    let rows = rows.decode(None).map_err(|error| invalid(&error))?;
    let host_id = rows.iter().next().and_then(|mut row| row.next()).flatten();
    match host_id.map(Uuid::from_slice) {
        Some(Ok(host_id)) if host_id == own.host_id => Err(itself()),
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(invalid(&error)),
        None => Err(invalid(&"its table system.local has no host id")),
    }
}

fn itself() -> io::Error {
    io::Error::other("it is this server: expected the target of the move")
}

fn unexpected(expected: &str, found: &Response) -> io::Error {
    invalid(&format!("expected {expected}, found {}", found.opcode()))
}
