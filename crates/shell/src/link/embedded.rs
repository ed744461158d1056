//! Links to a database in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use cassette_database::Database;
use cassette_protocol::notation::Reader;
use cassette_protocol::{Prelude, Request, Response, ResultMessage, Version};
use cassette_server::{Answer, Backend, Body, ClientSession, Effort};

use super::{Credentials, Endpoint, Link};
use crate::error::{Result, ShellError, command};

/// The version in whose encoding requests and results are passed.
const VERSION: Version = Version::V5;

/// A database that this process has opened.
pub struct Embedded {
    database: Database,
    place: String,
}

impl Embedded {
    /// Wraps an open database; `place` is its directory for users.
    pub fn new(database: Database, place: String) -> Self {
        Self { database, place }
    }
}

impl Endpoint for Embedded {
    fn open(&self, _: Option<Duration>) -> Result<Box<dyn Link>> {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let session = self.database.open_session(peer);
        Ok(Box::new(EmbeddedLink { database: self.database.clone(), session }))
    }

    fn with_login(&self, _: Credentials) -> Result<Box<dyn Endpoint>> {
        Err(command("a directory has no logins: the permissions of its files protect it"))
    }

    fn user(&self) -> Option<&str> {
        None
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

struct EmbeddedLink {
    database: Database,
    session: ClientSession,
}

impl Link for EmbeddedLink {
    fn call(&mut self, request: &Request, trace: bool) -> Result<(Response, Prelude)> {
        let mut body = Vec::new();
        let trace = trace.then(|| Backend::new_trace(&self.database));
        let target = Body::new(&mut body);
        match Backend::execute(
            &self.database,
            &self.session,
            request,
            VERSION,
            Effort::MayBlock,
            trace,
            target,
        ) {
            Ok(Answer::Result(prelude)) => {
                let body = Bytes::from(body);
                let result = ResultMessage::decode(&mut Reader::new(&body), VERSION)
                    .map_err(|error| ShellError::Lost(format!("invalid result: {error}")))?;
                Ok((Response::Result(result), Prelude { tracing_id: trace, ..prelude }))
            }
            Ok(Answer::WouldBlock) => Err(ShellError::Lost("the request was not executed".to_owned())),
            Err(error) => Ok((Response::Error(error), Prelude { tracing_id: trace, ..Prelude::default() })),
        }
    }

    fn call_all(&mut self, requests: &[Request]) -> Result<Vec<Response>> {
        requests.iter().map(|request| self.call(request, false).map(|(response, _)| response)).collect()
    }

    fn version(&self) -> Version {
        VERSION
    }
}
