//! Layer 5: execution of plans on the store, and the state of one execution.

pub(crate) mod describe;
pub(crate) mod modification;
pub(crate) mod replicas;
pub(crate) mod select;
pub(crate) mod virtual_tables;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use cassette_rows::TableMetadata;

use crate::basics::error::Result;
use crate::basics::request::{BoundValue, StatementOptions};
use crate::planning::context::{BindContext, Masks};
use crate::schema::catalog::Catalog;
use crate::schema::guardrails::Guardrails;
use crate::store::Store;

/// One execution of a planned statement: its [`BindContext`] and the store.
pub(crate) struct Execution<'a> {
    /// The store.
    pub store: &'a Arc<Store>,
    /// The catalog of the plan.
    pub catalog: &'a Catalog,
    /// Values and options.
    pub bound: BindContext<'a>,
    /// The start, by the monotonic clock.
    pub started: Duration,
    /// The end of the last read, by the monotonic clock.
    pub read_until: Cell<Duration>,
    /// How long it may still wait for other schema changes; `None` for no limit. After the wait it
    /// is not interrupted.
    pub schema_patience: Cell<Option<Duration>>,
    /// Whether the virtual node that coordinates it has a replica of a partition that it reads or
    /// writes; `None` without virtual nodes.
    pub is_own_of_coordinator: Cell<Option<bool>>,
}

impl<'a> Execution<'a> {
    /// Returns an execution that begins now.
    pub fn new(
        store: &'a Arc<Store>,
        catalog: &'a Catalog,
        values: &'a [BoundValue<'a>],
        options: &'a StatementOptions,
        keyspace: Option<&'a str>,
    ) -> Self {
        let now_micros = store.clock().now_micros();
        let seconds = u32::try_from(now_micros.div_euclid(1_000_000)).unwrap_or(0);
        let now_seconds = options.now_in_seconds.unwrap_or(seconds);
        let started = store.clock().monotonic();
        let guardrails = if options.is_internal { Guardrails::internal() } else { store.guardrails() };
        Self {
            store,
            catalog,
            bound: BindContext {
                values,
                options,
                keyspace,
                now_micros,
                now_seconds,
                guardrails,
                uuids: &**store,
                functions: store.functions(),
                warnings: RefCell::default(),
                masks: Masks::Applied,
            },
            started,
            read_until: Cell::new(started),
            schema_patience: Cell::new(None),
            is_own_of_coordinator: Cell::new(None),
        }
    }

    /// Returns the execution with what [authorization](crate::statements) decided about masks;
    /// without it, they apply.
    pub fn with_masks(mut self, masks: Masks) -> Self {
        self.bound.masks = masks;
        self
    }

    /// Returns the write timestamp of statements on `tables` without USING TIMESTAMP: the
    /// request's, or a new one.
    ///
    /// # Errors
    /// See [`WriteClock::issue`](crate::store::write_clock::WriteClock::issue).
    pub fn default_timestamp<'t>(
        &self,
        tables: impl Iterator<Item = &'t TableMetadata> + Clone,
    ) -> Result<i64> {
        match self.options.timestamp {
            Some(timestamp) => Ok(timestamp),
            None => self.store.write_timestamp(tables, self.now_micros),
        }
    }

    /// Ends a read, and returns the time since the end of the previous one.
    pub fn lap(&self) -> Duration {
        let now = self.store.clock().monotonic();
        now.saturating_sub(self.read_until.replace(now))
    }
}

impl<'a> Deref for Execution<'a> {
    type Target = BindContext<'a>;

    fn deref(&self) -> &BindContext<'a> {
        &self.bound
    }
}
