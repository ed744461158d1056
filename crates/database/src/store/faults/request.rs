//! The properties of a request that rules can match.

use std::net::IpAddr;

use cassette_cql::ast::{Conditions, Modification, Statement};
use cassette_cql::{StatementKind, Subject};

use super::pattern::normal;
use crate::basics::error::WriteType;
use crate::basics::request::Consistency;
use crate::schema::catalog::Catalog;
use crate::schema::system::{TESTING, comes_with_database};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementClass {
    Select,
    Insert,
    Update,
    Delete,
    Batch,
    Truncate,
    Schema,
    Prepare,
    Other,
}

impl StatementClass {
    /// Whether it changes rows.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Delete | Self::Batch)
    }

    fn of_modification(modification: &Modification) -> Self {
        match modification {
            Modification::Insert(_) => Self::Insert,
            Modification::Update(_) => Self::Update,
            Modification::Delete(_) => Self::Delete,
        }
    }
}

/// A request, as rules match it.
#[derive(Debug)]
pub(crate) struct FaultedRequest {
    pub class: StatementClass,
    pub is_conditional: bool,
    pub is_counter: bool,
    /// The statement, or those of a batch, as [`normal`] returns them.
    pub texts: Vec<String>,
    /// Keyspaces and tables; a table may be empty.
    pub tables: Vec<(String, String)>,
    pub write_type: WriteType,
    pub consistency: Consistency,
    /// The level of the serial phase of a conditional write.
    pub serial_consistency: Consistency,
    pub page_size: Option<i32>,
    pub client: Option<IpAddr>,
    /// The address of the node that received it.
    pub node: IpAddr,
}

impl FaultedRequest {
    /// Adds a statement of the request. One that cannot be parsed has no table.
    pub fn add(&mut self, text: &str, keyspace: Option<&str>, catalog: &Catalog) {
        self.texts.push(normal(text));
        let Ok(parsed) = cassette_cql::parse(text) else { return };
        self.describe(&parsed.statement, keyspace, catalog);
    }

    fn describe(&mut self, statement: &Statement, keyspace: Option<&str>, catalog: &Catalog) {
        match statement {
            Statement::Modification(modification) => {
                if self.class == StatementClass::Other {
                    self.class = StatementClass::of_modification(modification);
                    self.write_type = WriteType::Simple;
                }
                self.add_modification(modification, keyspace, catalog);
            }
            Statement::Batch(batch) => {
                if self.class == StatementClass::Other {
                    self.class = StatementClass::Batch;
                    self.write_type = WriteType::of_batch(batch.kind, false, false);
                }
                for modification in &batch.statements {
                    self.add_modification(modification, keyspace, catalog);
                }
            }
            other => {
                let subject = Subject::of(other, keyspace);
                if self.class == StatementClass::Other {
                    self.class = class_of(subject.kind);
                }
                if let Some(keyspace) = subject.keyspace {
                    self.tables.push((keyspace.into(), subject.name.unwrap_or_default().into()));
                }
            }
        }
    }

    fn add_modification(&mut self, modification: &Modification, keyspace: Option<&str>, catalog: &Catalog) {
        let name = modification.table();
        self.is_conditional |= match modification {
            Modification::Insert(insert) => insert.if_not_exists,
            Modification::Update(update) => update.conditions != Conditions::None,
            Modification::Delete(delete) => delete.conditions != Conditions::None,
        };
        if let Some(keyspace) = name.keyspace.as_deref().or(keyspace) {
            let table = catalog.table(keyspace, name.name.as_str());
            self.is_counter |= table.is_some_and(|table| table.is_counter);
            self.tables.push((keyspace.to_owned(), name.name.as_str().to_owned()));
        }
        if self.is_conditional {
            self.write_type = WriteType::Cas;
        } else if self.is_counter {
            self.write_type = WriteType::Counter;
        }
    }

    /// Whether it concerns the rules themselves, which no rule affects.
    pub fn is_on_testing(&self) -> bool {
        self.tables.iter().any(|(keyspace, _)| keyspace == TESTING)
    }

    /// Whether it concerns a keyspace of the system: drivers depend on these.
    pub fn is_on_system(&self) -> bool {
        self.tables.iter().any(|(keyspace, _)| comes_with_database(keyspace))
    }
}

fn class_of(kind: StatementKind) -> StatementClass {
    use StatementKind as Kind;
    match kind {
        Kind::Select => StatementClass::Select,
        Kind::Update => StatementClass::Update,
        Kind::Delete => StatementClass::Delete,
        Kind::Batch => StatementClass::Batch,
        Kind::Truncate => StatementClass::Truncate,
        Kind::Use
        | Kind::ListPermissions
        | Kind::ListRoles
        | Kind::AddIdentity
        | Kind::DropIdentity
        | Kind::CreateRole
        | Kind::AlterRole
        | Kind::DropRole
        | Kind::Grant
        | Kind::Revoke
        | Kind::Describe => StatementClass::Other,
        _ => StatementClass::Schema,
    }
}
