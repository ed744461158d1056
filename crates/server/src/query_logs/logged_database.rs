//! The database as a backend whose requests and logins are recorded.

use std::{net::SocketAddr, sync::Arc};

use cassette_database::{self as db, Database, Injected};
use cassette_protocol::{
    Request, Version,
    response::{Error, SchemaChange},
};
use cassette_query_log::{AuditEntry, Full};
use uuid::Uuid;

use super::{QueryLogs, audit_entries::Entries, full_query};
use crate::{
    Body, ClientSession,
    backend::{Answer, Backend, Effort},
};

/// A database with its audit log and full query log.
#[derive(Debug)]
pub struct LoggedDatabase {
    database: Database,
    logs: Arc<QueryLogs>,
}

impl LoggedDatabase {
    /// Combines a database with logs.
    pub fn new(database: Database, logs: Arc<QueryLogs>) -> Self {
        Self { database, logs }
    }

    /// Executes a request and records it after its end.
    fn execute_logged(
        &self,
        session: &ClientSession,
        request: &Request,
        version: Version,
        effort: Effort,
        trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error> {
        // A thread that serves other connections must not wait for a queue. The request has had no
        // effect yet, so it is repeated on one that may.
        if effort == Effort::MemoryOnly && !self.logs.have_room() {
            return Ok(Answer::WouldBlock);
        }
        let keyspace = session.keyspace();
        let keyspace = keyspace.as_deref().map(String::as_str);
        let started = self.logs.clock.now_micros();
        let before = self.logs.clock.monotonic();
        let answer = Backend::execute(&self.database, session, request, version, effort, trace, body);
        if matches!(answer, Ok(Answer::WouldBlock)) {
            return answer;
        }
        let full = full(effort);
        let entries =
            Entries { database: &self.database, session, timestamp: started.div_euclid(1000), keyspace };
        match &answer {
            Ok(_) => {
                let duration = self.logs.clock.monotonic().saturating_sub(before);
                let execution = full_query::Execution {
                    started_micros: started,
                    duration_micros: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
                    connection: session.id(),
                    version,
                    keyspace,
                };
                self.logs.push_query(|| full_query::record(&self.database, request, &execution), full);
                self.write(|| entries.succeeded(request), full);
            }
            Err(error) => self.write(|| vec![entries.failed(request, error)], full),
        }
        answer
    }

    /// Writes entries to the audit log, if it is enabled.
    fn write(&self, entries: impl FnOnce() -> Vec<AuditEntry>, full: Full) {
        if let Some(audit) = &*self.logs.audit.load() {
            entries().iter().for_each(|entry| audit.write(entry, full));
        }
    }

    fn write_login(&self, session: &ClientSession, entry: impl FnOnce(&Entries<'_>) -> AuditEntry) {
        if self.logs.is_enabled() {
            let timestamp = self.logs.clock.now_micros().div_euclid(1000);
            let entries = Entries { database: &self.database, session, timestamp, keyspace: None };
            self.write(|| vec![entry(&entries)], Full::Exceed);
        }
    }
}

/// Returns whether a request may wait for a queue.
fn full(effort: Effort) -> Full {
    match effort {
        Effort::MemoryOnly => Full::Exceed,
        Effort::MayBlock => Full::Wait,
    }
}

impl Backend for LoggedDatabase {
    type Session = ClientSession;
    type Subscription = db::Subscription;

    fn open_session(&self, peer: SocketAddr) -> ClientSession {
        self.database.open_session(peer)
    }

    fn connected_to(&self, session: &ClientSession, node: usize) {
        Backend::connected_to(&self.database, session, node);
    }

    fn logged_in(&self, session: &ClientSession, role: &str) {
        self.database.logged_in(session, role);
        self.write_login(session, |entries| entries.logged_in(role));
    }

    fn login_failed(&self, session: &ClientSession, reason: &str) {
        self.write_login(session, |entries| entries.login_failed(reason));
    }

    fn new_trace(&self) -> Uuid {
        Backend::new_trace(&self.database)
    }

    fn traces_by_chance(&self) -> bool {
        Backend::traces_by_chance(&self.database)
    }

    fn keyspace(session: &ClientSession) -> Option<String> {
        <Database as Backend>::keyspace(session)
    }

    fn describe(&self, request: &Request) -> String {
        Backend::describe(&self.database, request)
    }

    fn executes_in_order(&self) -> bool {
        Backend::executes_in_order(&self.database)
    }

    fn tick(&self) {
        Backend::tick(&self.database);
    }

    fn execute(
        &self,
        session: &ClientSession,
        request: &Request,
        version: Version,
        effort: Effort,
        trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error> {
        if self.logs.is_enabled() {
            return self.execute_logged(session, request, version, effort, trace, body);
        }
        Backend::execute(&self.database, session, request, version, effort, trace, body)
    }

    #[inline]
    fn injected_fault(&self, session: &ClientSession, request: &Request) -> Option<Injected> {
        Backend::injected_fault(&self.database, session, request)
    }

    fn subscribe(&self, listener: Box<dyn Fn(&SchemaChange) + Send + Sync>) -> db::Subscription {
        Backend::subscribe(&self.database, listener)
    }
}
