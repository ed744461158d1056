//! Links to a database in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use cassette_database::Database;
use cassette_protocol::notation::Reader;
use cassette_protocol::{Prelude, Request, Response, ResultMessage, Version};
use cassette_rows::interrupt::{self, Cancellation, Interrupted};
use cassette_server::{Answer, Backend, Body, ClientSession, Effort};

use super::{Credentials, Endpoint, Link};
use crate::error::{Result, ShellError, command};

/// The version in whose encoding requests and results are passed.
const VERSION: Version = Version::V5;

/// A database that this process has opened.
pub struct Embedded {
    database: Database,
    place: String,
    cancellation: Cancellation,
}

impl Embedded {
    /// Wraps an open database; `place` is its directory for users. Statements are cancelled while
    /// `interrupt` is true.
    pub fn new(database: Database, place: String, interrupt: Arc<AtomicBool>) -> Self {
        Self { database, place, cancellation: Cancellation::by_user(interrupt) }
    }
}

impl Endpoint for Embedded {
    fn open(&self, _: Option<Duration>) -> Result<Box<dyn Link>> {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let session = self.database.open_session(peer);
        let (database, cancellation) = (self.database.clone(), self.cancellation.clone());
        Ok(Box::new(EmbeddedLink { database, session, cancellation }))
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
    cancellation: Cancellation,
}

impl Link for EmbeddedLink {
    fn call(&mut self, request: &Request, trace: bool) -> Result<(Response, Prelude)> {
        let mut body = Vec::new();
        let trace = trace.then(|| Backend::new_trace(&self.database));
        let target = Body::new(&mut body);
        let (database, session) = (&self.database, &self.session);
        match interrupt::cancellable(&self.cancellation, || {
            Backend::execute(database, session, request, VERSION, Effort::MayBlock, trace, target)
        }) {
            Ok(Answer::Result(prelude)) => {
                let body = Bytes::from(body);
                let result = ResultMessage::decode(&mut Reader::new(&body), VERSION)
                    .map_err(|error| ShellError::Lost(format!("invalid result: {error}")))?;
                Ok((Response::Result(result), Prelude { tracing_id: trace, ..prelude }))
            }
            Ok(Answer::WouldBlock) => Err(ShellError::Lost("the request was not executed".to_owned())),
            // As the error of a connection: nothing after it is executed.
            Err(error) if error.message == Interrupted::Cancelled.to_string() => {
                Err(ShellError::Lost("interrupted".to_owned()))
            }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::session::Session;

    #[test]
    fn a_statement_is_cancelled_while_the_user_interrupts() {
        let database = Database::in_memory().unwrap();
        let writer = database.session();
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        writer.execute(&format!("CREATE KEYSPACE k WITH replication = {replication}"), ()).unwrap();
        writer.execute("CREATE TABLE k.t (k int, c int, PRIMARY KEY (k, c))", ()).unwrap();
        for c in 0..2000 {
            writer.execute("INSERT INTO k.t (k, c) VALUES (1, ?)", (c,)).unwrap();
        }
        let interrupt = Arc::<AtomicBool>::default();
        let endpoint = Embedded::new(database, "memory".to_owned(), interrupt.clone());
        let mut session = Session::open(Box::new(endpoint), Some("k")).unwrap();
        session.query("SELECT c FROM t").unwrap();
        interrupt.store(true, Ordering::Relaxed);
        let error = session.query("SELECT c FROM t").err().unwrap();
        assert_eq!(error.to_string(), "interrupted");
        interrupt.store(false, Ordering::Relaxed);
        session.query("SELECT c FROM t").unwrap();
    }
}
