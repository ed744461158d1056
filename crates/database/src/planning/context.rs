//! The inputs of planning, and of binding values to a plan.

use std::cell::RefCell;
use std::sync::Arc;

use cassette_cql::ast::QualifiedName;
use cassette_functions::Functions;
use cassette_rows::TableMetadata;
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result};
use crate::basics::request::{BoundValue, StatementOptions};
use crate::planning::functions::UsedFunction;
use crate::planning::terms::Markers;
use crate::schema::catalog::Catalog;
use crate::schema::guardrails::{Guard, Guardrails};

/// The inputs of planning, and its by-products.
pub(crate) struct PlanContext<'a> {
    /// The catalog to plan against.
    pub catalog: &'a Catalog,
    /// The keyspace of the session, or of the request.
    pub session_keyspace: Option<&'a str>,
    /// Whether an unqualified name was resolved with the session's keyspace: the statement then has
    /// another meaning in other sessions.
    pub used_session_keyspace: bool,
    /// The digest of the statement's text.
    pub digest: [u8; 16],
    /// The statement's bind markers.
    pub markers: Markers,
    /// Warnings for the client that sends the statement.
    pub warnings: Vec<String>,
    /// The user-defined functions that the statement calls.
    pub functions: Vec<UsedFunction>,
}

impl<'a> PlanContext<'a> {
    /// Returns the context of terms that belong to the schema: they have no bind markers, and names
    /// in them have their keyspace.
    pub fn of_schema(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            session_keyspace: None,
            used_session_keyspace: false,
            digest: [0; 16],
            markers: Markers::new(Vec::new()),
            warnings: Vec::new(),
            functions: Vec::new(),
        }
    }

    /// Returns the keyspace of `name`.
    ///
    /// # Errors
    /// Invalid, if the name is unqualified and the session has no keyspace.
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

    /// Returns the table called `name`.
    ///
    /// # Errors
    /// Invalid, if it does not exist.
    pub fn table(&mut self, name: &QualifiedName) -> Result<Arc<TableMetadata>> {
        let keyspace = self.keyspace_of(name)?;
        self.catalog.require_table(keyspace, &name.name).cloned()
    }
}

/// The values and options of one execution, which terms are bound with.
pub(crate) struct BindContext<'a> {
    /// The bound values, one for each marker, in their order.
    pub values: &'a [BoundValue<'a>],
    /// Consistency levels, paging, times.
    pub options: &'a StatementOptions,
    /// The session's keyspace.
    pub keyspace: Option<&'a str>,
    /// The start of the execution, microseconds since 1970: the default write timestamp, and the
    /// value of `now()`.
    pub now_micros: i64,
    /// The same in seconds, or the request's `now_in_seconds`.
    pub now_seconds: u32,
    /// The guardrails that apply to this execution.
    pub guardrails: &'a Guardrails,
    /// The source of the UUIDs of `now()` and `uuid()`.
    pub uuids: &'a dyn UuidSource,
    /// The user-defined functions of the database, compiled.
    pub functions: &'a Functions,
    /// The warnings for the client.
    pub warnings: RefCell<Vec<String>>,
    /// Whether the masks of columns apply to its results.
    pub masks: Masks,
}

/// Whether the masks of columns apply to the results of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masks {
    /// Results contain masked values.
    Applied,
    /// Results contain clear values.
    Lifted,
}

/// Issues the UUIDs that statements generate.
pub(crate) trait UuidSource {
    /// Returns a UUID of version 1, later than all previous ones.
    fn next_time_uuid(&self) -> Uuid;
    /// Returns a UUID of version 4.
    fn random_uuid(&self) -> Uuid;
}

impl BindContext<'_> {
    /// Returns the guardrails, which collect warnings of this execution.
    pub fn guard(&self) -> Guard<'_> {
        Guard::new(self.guardrails, &self.warnings)
    }

    /// Adds a warning.
    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings.borrow_mut().push(warning.into());
    }
}
