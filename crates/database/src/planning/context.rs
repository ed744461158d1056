//! What planning looks up, and what binding values to a plan needs.

use std::cell::RefCell;
use std::sync::Arc;

use cassette_cql::ast::QualifiedName;
use cassette_rows::TableMetadata;
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::{BoundValue, StatementOptions};
use crate::planning::terms::Markers;
use crate::schema::catalog::{Catalog, KeyspaceKind};
use crate::schema::guardrails::{Guard, Guardrails};

/// What planning looks up, and what it notes on the way.
pub(crate) struct PlanContext<'a> {
    /// The catalog to plan against.
    pub catalog: &'a Catalog,
    /// The session's keyspace, or the request's.
    pub session_keyspace: Option<&'a str>,
    /// Whether some name stood without keyspace: then the statement means another thing in another session.
    pub used_session_keyspace: bool,
    /// The digest of the statement's text.
    pub digest: [u8; 16],
    /// The statement's bind markers.
    pub markers: Markers,
    /// What the client is to be warned of when it sends the statement.
    pub warnings: Vec<String>,
}

impl<'a> PlanContext<'a> {
    /// The keyspace that `name` is in.
    ///
    /// # Errors
    /// Invalid, if it does not say and the session has none.
    pub fn keyspace_of<'n>(&mut self, name: &'n QualifiedName) -> Result<&'n str>
    where
        'a: 'n,
    {
        if let Some(keyspace) = &name.keyspace {
            return Ok(keyspace.as_str());
        }
        self.used_session_keyspace = true;
        self.session_keyspace.ok_or_else(|| {
            DatabaseError::invalid(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
            )
        })
    }

    /// The table called `name`.
    ///
    /// # Errors
    /// Invalid, if it does not exist.
    pub fn table(&mut self, name: &QualifiedName) -> Result<Arc<TableMetadata>> {
        let keyspace = self.keyspace_of(name)?;
        self.catalog.require_table(keyspace, &name.name).cloned()
    }

    /// The table called `name`, which clients may write to.
    ///
    /// # Errors
    /// Invalid, if it does not exist; Unauthorized, if it is the database's own.
    pub fn writable_table(&mut self, name: &QualifiedName) -> Result<Arc<TableMetadata>> {
        let table = self.table(name)?;
        let keyspace = self.catalog.require_keyspace(&table.keyspace)?;
        match keyspace.kind {
            KeyspaceKind::Local => Err(DatabaseError::Unauthorized(format!(
                "{} keyspace is not user-modifiable.",
                table.keyspace
            ))),
            _ if keyspace.virtual_tables.contains(&table.name) => {
                bail_invalid!("Modification is not supported by table {}", table.qualified_name())
            }
            _ if self.catalog.is_view(&table) => {
                bail_invalid!("Cannot directly modify a materialized view")
            }
            _ => Ok(table),
        }
    }
}

/// The values and options of one execution: what terms are bound with.
pub(crate) struct BindContext<'a> {
    /// The bound values, as many as there are markers, in their order.
    pub values: &'a [BoundValue<'a>],
    /// Consistency, paging, times.
    pub options: &'a StatementOptions,
    /// The session's keyspace.
    pub keyspace: Option<&'a str>,
    /// When the execution began, microseconds since 1970: the default write time, and the value of `now()`.
    pub now_micros: i64,
    /// The same in seconds, or the request's `now_in_seconds`.
    pub now_seconds: u32,
    /// The guardrails that apply to this execution.
    pub guardrails: &'a Guardrails,
    /// Where `now()` takes its UUIDs from.
    pub time_uuids: &'a dyn TimeUuidSource,
    /// The warnings for the client.
    pub warnings: RefCell<Vec<String>>,
}

/// Issues version 1 UUIDs, each later than all before.
pub(crate) trait TimeUuidSource {
    fn next_time_uuid(&self) -> Uuid;
}

impl BindContext<'_> {
    /// The guardrails, with this execution's warnings.
    pub fn guard(&self) -> Guard<'_> {
        Guard::new(self.guardrails, &self.warnings)
    }

    /// Adds a warning.
    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings.borrow_mut().push(warning.into());
    }
}
