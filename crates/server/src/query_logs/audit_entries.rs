//! The audit entries of requests and logins, as Cassandra 5.0.8 makes them.

use std::borrow::Cow;

use cassette_cql::{StatementKind, Subject, obscure_password_literals, values::text::encode_hex};
use cassette_database::Database;
use cassette_protocol::{
    Request,
    request::{Batch, StatementSource},
    response::{Error, ErrorDetail},
};
use cassette_query_log::{AuditEntry, AuditEntryType};
use uuid::Uuid;

use crate::ClientSession;

/// The user of connections that have not logged in because they need not.
const ANONYMOUS: &str = "anonymous";

/// The message for a syntax error of a text that may contain a password.
const OBSCURED: &str = "Syntax Exception. Obscured for security reasons.";

/// What the entries of a request have in common.
pub(super) struct Entries<'a> {
    pub database: &'a Database,
    pub session: &'a ClientSession,
    /// When the request arrived, milliseconds since 1970.
    pub timestamp: i64,
    /// The keyspace of the session before the request.
    pub keyspace: Option<&'a str>,
}

/// A statement of a request.
struct Audited {
    entry_type: AuditEntryType,
    keyspace: Option<Box<str>>,
    scope: Option<Box<str>>,
    /// Without passwords.
    operation: String,
}

impl Entries<'_> {
    /// Returns the entries of a request that succeeded.
    pub fn succeeded(&self, request: &Request) -> Vec<AuditEntry> {
        match request {
            Request::Query(query) => {
                let keyspace = query.parameters.keyspace.as_deref().or(self.keyspace);
                vec![self.entry_of(of_text(&query.query, keyspace), self.keyspace, None)]
            }
            Request::Execute(execute) => match self.of_id(&execute.id) {
                Some(audited) => vec![self.entry_of(audited, self.keyspace, None)],
                None => Vec::new(),
            },
            Request::Prepare(prepare) => {
                let keyspace = prepare.keyspace.as_deref().or(self.keyspace);
                let audited = of_text(&prepare.query, keyspace);
                let audited = Audited { entry_type: AuditEntryType::PrepareStatement, ..audited };
                vec![self.entry_of(audited, None, None)]
            }
            Request::Batch(batch) => self.of_batch(batch),
            _ => Vec::new(),
        }
    }

    /// Returns the entry of a request that failed.
    pub fn failed(&self, request: &Request, error: &Error) -> AuditEntry {
        let is_syntax_error = matches!(error.detail, ErrorDetail::SyntaxError);
        let operation: Cow<'_, str> = match request {
            Request::Query(query) => obscure_password_literals(&query.query, !is_syntax_error),
            Request::Prepare(prepare) => obscure_password_literals(&prepare.query, !is_syntax_error),
            Request::Execute(execute) => match self.of_id(&execute.id) {
                Some(audited) => audited.operation.into(),
                None => format!("EXECUTE {}", encode_hex(&execute.id)).into(),
            },
            Request::Batch(batch) => {
                let (count, consistency) = (batch.statements.len(), batch.parameters.consistency);
                format!("BATCH of {count} statements at consistency {consistency}").into()
            }
            other => other.opcode().to_string().into(),
        };
        // The message of a syntax error quotes the text. Texts in a batch are not shown, so theirs
        // are checked here.
        let has_password = match request {
            Request::Batch(_) => mentions_password(&error.message),
            _ => matches!(operation, Cow::Owned(_)) || mentions_password(&operation),
        };
        let message = if is_syntax_error && has_password { OBSCURED } else { error.message.as_str() };
        let entry_type = match error.detail {
            ErrorDetail::Unauthorized => AuditEntryType::UnauthorizedAttempt,
            _ => AuditEntryType::RequestFailure,
        };
        AuditEntry {
            keyspace: self.keyspace.map(str::to_owned),
            operation: format!("{operation}; {message}"),
            ..self.entry(entry_type)
        }
    }

    /// Returns the entry of a login.
    pub fn logged_in(&self, role: &str) -> AuditEntry {
        AuditEntry {
            user: Some(role.to_owned()),
            operation: "LOGIN SUCCESSFUL".to_owned(),
            ..self.entry(AuditEntryType::LoginSuccess)
        }
    }

    /// Returns the entry of a failed login.
    pub fn login_failed(&self, reason: &str) -> AuditEntry {
        let reason = obscure_password_literals(reason, false);
        AuditEntry {
            user: None,
            operation: format!("LOGIN FAILURE; {reason}"),
            ..self.entry(AuditEntryType::LoginError)
        }
    }

    /// Returns the entry of a batch, and that of each of its statements.
    fn of_batch(&self, batch: &Batch) -> Vec<AuditEntry> {
        let id = Uuid::new_v4();
        let count = batch.statements.len();
        let whole = AuditEntry {
            batch: Some(id),
            keyspace: self.keyspace.map(str::to_owned),
            operation: format!("BatchId:[{id}] - BATCH of [{count}] statements"),
            ..self.entry(AuditEntryType::Batch)
        };
        let keyspace = batch.parameters.keyspace.as_deref().or(self.keyspace);
        let statements = batch.statements.iter().filter_map(|statement| {
            let audited = match &statement.source {
                StatementSource::Query(query) => of_text(query, keyspace),
                StatementSource::Prepared(prepared) => self.of_id(prepared)?,
            };
            Some(self.entry_of(audited, self.keyspace, Some(id)))
        });
        std::iter::once(whole).chain(statements).collect()
    }

    fn of_id(&self, id: &[u8]) -> Option<Audited> {
        let prepared = self.database.prepared(id).ok()?;
        let subject = prepared.subject();
        Some(Audited {
            entry_type: entry_type(subject.kind),
            keyspace: subject.keyspace.clone(),
            scope: subject.name.clone(),
            operation: obscure_password_literals(prepared.cql(), true).into_owned(),
        })
    }

    /// Returns the entry of a statement; `keyspace` applies to those on no keyspace.
    fn entry_of(&self, audited: Audited, keyspace: Option<&str>, batch: Option<Uuid>) -> AuditEntry {
        AuditEntry {
            batch,
            keyspace: audited.keyspace.as_deref().or(keyspace).map(str::to_owned),
            scope: audited.scope.map(Into::into),
            operation: audited.operation,
            ..self.entry(audited.entry_type)
        }
    }

    /// Returns an entry of this client without a statement.
    fn entry(&self, entry_type: AuditEntryType) -> AuditEntry {
        let node = self.database.node();
        let peer = self.session.peer();
        AuditEntry {
            user: Some(self.session.role().unwrap_or(ANONYMOUS).to_owned()),
            host: format!("/{}:{}", node.address, node.port),
            source: peer.map_or_else(String::new, |peer| peer.ip().to_string()),
            port: peer.map_or(0, |peer| peer.port()),
            timestamp: self.timestamp,
            entry_type,
            batch: None,
            keyspace: None,
            scope: None,
            operation: String::new(),
        }
    }
}

/// Describes a statement that was executed, so that its text is valid.
fn of_text(text: &str, keyspace: Option<&str>) -> Audited {
    let parsed = cassette_cql::parse(text);
    let operation = obscure_password_literals(text, parsed.is_ok()).into_owned();
    match parsed {
        Ok(parsed) => {
            let Subject { kind, keyspace, name } = Subject::of(&parsed.statement, keyspace);
            Audited { entry_type: entry_type(kind), keyspace, scope: name, operation }
        }
        Err(_) => {
            Audited { entry_type: AuditEntryType::RequestFailure, keyspace: None, scope: None, operation }
        }
    }
}

fn mentions_password(text: &str) -> bool {
    text.to_ascii_lowercase().contains("password")
}

fn entry_type(kind: StatementKind) -> AuditEntryType {
    use {AuditEntryType as Type, StatementKind as Kind};
    match kind {
        Kind::Select => Type::Select,
        Kind::Update => Type::Update,
        Kind::Delete => Type::Delete,
        Kind::Batch => Type::Batch,
        Kind::Use => Type::UseKeyspace,
        Kind::Truncate => Type::Truncate,
        Kind::CreateKeyspace => Type::CreateKeyspace,
        Kind::AlterKeyspace => Type::AlterKeyspace,
        Kind::DropKeyspace => Type::DropKeyspace,
        Kind::CreateTable => Type::CreateTable,
        Kind::AlterTable => Type::AlterTable,
        Kind::DropTable => Type::DropTable,
        Kind::CreateType => Type::CreateType,
        Kind::AlterType => Type::AlterType,
        Kind::DropType => Type::DropType,
        Kind::CreateIndex => Type::CreateIndex,
        Kind::DropIndex => Type::DropIndex,
        Kind::CreateView => Type::CreateView,
        Kind::AlterView => Type::AlterView,
        Kind::DropView => Type::DropView,
        Kind::CreateFunction => Type::CreateFunction,
        Kind::DropFunction => Type::DropFunction,
        Kind::CreateAggregate => Type::CreateAggregate,
        Kind::DropAggregate => Type::DropAggregate,
        Kind::CreateTrigger => Type::CreateTrigger,
        Kind::DropTrigger => Type::DropTrigger,
        Kind::CreateRole => Type::CreateRole,
        Kind::AlterRole => Type::AlterRole,
        Kind::DropRole => Type::DropRole,
        Kind::Grant => Type::Grant,
        Kind::Revoke => Type::Revoke,
        Kind::ListPermissions => Type::ListPermissions,
        Kind::ListRoles => Type::ListRoles,
        Kind::AddIdentity => Type::CreateIdentity,
        Kind::DropIdentity => Type::DropIdentity,
        Kind::Describe => Type::Describe,
    }
}
