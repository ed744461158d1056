//! What one execution of a plan has at hand.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::catalog::Catalog;
use crate::database::Database;
use crate::error::Result;
use crate::guardrails::{Guard, Guardrails};
use crate::request::{BoundValue, StatementOptions};

/// One execution of a planned statement.
pub(crate) struct Execution<'a> {
    /// Storage, clock and catalog.
    pub database: &'a Database,
    /// The catalog that the plan was made against.
    pub catalog: &'a Catalog,
    /// The bound values, as many as there are markers, in their order.
    pub values: &'a [BoundValue<'a>],
    /// Consistency, paging, times.
    pub options: &'a StatementOptions,
    /// The session's keyspace.
    pub keyspace: Option<&'a str>,
    /// When it began, microseconds since 1970: the write time unless something else says it, and what `now()` is.
    pub now_micros: i64,
    /// The same in seconds, or what the request takes for now.
    pub now_seconds: u32,
    /// When it began, by the clock that never steps back.
    pub started: Duration,
    /// When its last read ended, by the same clock.
    pub read_until: Cell<Duration>,
    /// How long it may still wait for others that change the schema; `None` for any time. Once it has waited it has
    /// begun, and is not interrupted.
    pub schema_patience: Cell<Option<Duration>>,
    /// What the client is to be warned of.
    pub warnings: RefCell<Vec<String>>,
}

impl<'a> Execution<'a> {
    /// An execution that begins now.
    pub fn new(
        database: &'a Database,
        catalog: &'a Catalog,
        values: &'a [BoundValue<'a>],
        options: &'a StatementOptions,
        keyspace: Option<&'a str>,
    ) -> Self {
        let now_micros = database.clock().now_micros();
        let seconds = u32::try_from(now_micros.div_euclid(1_000_000)).unwrap_or(0);
        let now_seconds = options.now_in_seconds.unwrap_or(seconds);
        let started = database.clock().monotonic();
        Self {
            database,
            catalog,
            values,
            options,
            keyspace,
            now_micros,
            now_seconds,
            started,
            read_until: Cell::new(started),
            schema_patience: Cell::new(None),
            warnings: RefCell::default(),
        }
    }

    /// The write time of a statement without USING TIMESTAMP: the request's, or a new one of this database.
    ///
    /// # Errors
    /// See [`WriteClock::issue`](crate::write_clock::WriteClock::issue).
    pub fn default_timestamp(&self) -> Result<i64> {
        match self.options.timestamp {
            Some(timestamp) => Ok(timestamp),
            None => self.database.next_timestamp(self.now_micros),
        }
    }

    /// Ends a read: says how long it took, from where the last one ended.
    pub fn lap(&self) -> Duration {
        let now = self.database.clock().monotonic();
        now.saturating_sub(self.read_until.replace(now))
    }

    /// The guardrails, as they apply to this execution.
    pub fn guard(&self) -> Guard<'_> {
        let guardrails = match self.options.is_internal {
            true => Guardrails::internal(),
            false => self.database.guardrails(),
        };
        Guard::new(guardrails, &self.warnings)
    }

    /// Adds a warning.
    pub fn warn(&self, warning: impl Into<String>) {
        self.warnings.borrow_mut().push(warning.into());
    }
}
