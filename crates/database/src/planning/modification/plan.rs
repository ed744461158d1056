//! Planned INSERTs, UPDATEs, DELETEs and batches of them.

use std::sync::Arc;

use cassette_cql::ast::{self, BatchKind};
use cassette_rows::TableMetadata;

use super::attributes::Attributes;
use super::json::JsonInsert;
use super::rows_plan::{self, RowsPlan};
use crate::basics::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::schema::catalog::KeyspaceKind;
use crate::schema::testing::WritableTable;

/// A planned INSERT, UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct ModificationPlan {
    pub table: Arc<TableMetadata>,
    pub what: What,
    /// Whether the table is one of a virtual keyspace.
    is_virtual: bool,
}

#[derive(Debug)]
pub(crate) enum What {
    Rows(Box<RowsPlan>),
    Json(Box<JsonInsert>),
}

impl ModificationPlan {
    /// Resolves `modification` against the catalog.
    pub fn new(modification: &ast::Modification, cx: &mut PlanContext<'_>) -> Result<Self> {
        let plan = Self::of_batch(modification, cx)?;
        plan.refuse_local(cx)?;
        plan.validate(cx)?;
        Ok(plan)
    }

    /// Resolves a statement of a batch, whose attributes are validated later.
    fn of_batch(modification: &ast::Modification, cx: &mut PlanContext<'_>) -> Result<Self> {
        let table = cx.table(modification.table())?;
        let what = match modification {
            ast::Modification::Insert(insert) => match &insert.source {
                ast::InsertSource::Values { columns, values } => {
                    What::Rows(Box::new(rows_plan::insert(insert, columns, values, &table, cx)?))
                }
                ast::InsertSource::Json { value, default_unset } => {
                    What::Json(Box::new(JsonInsert::new(insert, value, *default_unset, &table, cx)?))
                }
            },
            ast::Modification::Update(update) => What::Rows(Box::new(rows_plan::update(update, &table, cx)?)),
            ast::Modification::Delete(delete) => What::Rows(Box::new(rows_plan::delete(delete, &table, cx)?)),
        };
        let kind = cx.catalog.require_keyspace(&table.keyspace)?.kind;
        let is_virtual = kind == KeyspaceKind::Virtual || WritableTable::of(&table).is_some();
        Ok(Self { table, what, is_virtual })
    }

    /// Rejects local system tables, which no client can write to. Mistakes in the statement are
    /// reported before, as Cassandra reports them before missing permissions.
    fn refuse_local(&self, cx: &PlanContext<'_>) -> Result<()> {
        match cx.catalog.require_keyspace(&self.table.keyspace)?.kind {
            KeyspaceKind::Local => Err(DatabaseError::Unauthorized(format!(
                "{} keyspace is not user-modifiable.",
                self.table.keyspace
            ))),
            KeyspaceKind::Replicated | KeyspaceKind::Virtual | KeyspaceKind::User => Ok(()),
        }
    }

    /// Rejects views and virtual tables, and attributes that the statement cannot have. In a batch,
    /// as in Cassandra, this comes after the checks of the batch.
    fn validate(&self, cx: &PlanContext<'_>) -> Result<()> {
        if self.is_virtual {
            if self.has_timestamp() {
                bail_invalid!("Custom timestamp is not supported by virtual tables");
            }
            if self.has_ttl() {
                bail_invalid!("Expiring columns are not supported by virtual tables");
            }
            if self.has_conditions() {
                bail_invalid!("Conditional updates are not supported by virtual tables");
            }
        }
        if self.table.is_counter && self.has_timestamp() {
            bail_invalid!("Cannot provide custom timestamp for counter updates");
        }
        if self.table.is_counter && self.has_ttl() {
            bail_invalid!("Cannot provide custom TTL for counter updates");
        }
        if cx.catalog.is_view(&self.table) {
            bail_invalid!("Cannot directly modify a materialized view");
        }
        if WritableTable::of(&self.table).is_none() && cx.catalog.is_virtual(&self.table) {
            bail_invalid!("Modification is not supported by table {}", self.table.qualified_name());
        }
        Ok(())
    }

    /// Returns the modified table.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Whether the statement has an IF.
    pub fn has_conditions(&self) -> bool {
        match &self.what {
            What::Rows(rows) => !rows.conditions.is_empty(),
            What::Json(json) => json.if_not_exists,
        }
    }

    /// Returns the kind of write.
    pub fn write_type(&self) -> WriteType {
        match (self.has_conditions(), self.table.is_counter) {
            (true, _) => WriteType::Cas,
            (false, true) => WriteType::Counter,
            (false, false) => WriteType::Simple,
        }
    }

    /// Whether the statement specifies its write timestamp.
    pub fn has_timestamp(&self) -> bool {
        match &self.what {
            What::Rows(rows) => rows.attributes.has_timestamp(),
            What::Json(json) => json.attributes.has_timestamp(),
        }
    }

    /// Whether the statement has USING TTL.
    fn has_ttl(&self) -> bool {
        match &self.what {
            What::Rows(rows) => rows.attributes.has_ttl(),
            What::Json(json) => json.attributes.has_ttl(),
        }
    }

    /// Returns the modified rows of this execution: those of the plan, or those of a JSON text.
    pub fn rows_of(&self, cx: &BindContext<'_>) -> Result<MaybeOwned<'_, RowsPlan>> {
        Ok(match &self.what {
            What::Rows(rows) => MaybeOwned::Borrowed(rows),
            What::Json(json) => MaybeOwned::Owned(Box::new(json.rows(&self.table, cx)?)),
        })
    }
}

impl AsRef<Self> for ModificationPlan {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A planned value, or one created for an execution.
pub(crate) enum MaybeOwned<'a, T> {
    Borrowed(&'a T),
    Owned(Box<T>),
}

impl<T> std::ops::Deref for MaybeOwned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

/// A planned `BEGIN BATCH … APPLY BATCH`.
#[derive(Debug)]
pub(crate) struct BatchPlan {
    pub kind: BatchKind,
    pub attributes: Attributes,
    pub statements: Vec<ModificationPlan>,
}

impl BatchPlan {
    /// Resolves `batch` against the catalog.
    pub fn new(batch: &ast::Batch, cx: &mut PlanContext<'_>) -> Result<Self> {
        let statements = batch
            .statements
            .iter()
            .map(|statement| ModificationPlan::of_batch(statement, cx))
            .collect::<Result<Vec<_>>>()?;
        if batch.using.ttl.is_some() {
            bail_invalid!("Global TTL on the BATCH statement is not supported.");
        }
        let attributes = match statements.first() {
            Some(first) => Attributes::new(batch.using.timestamp.as_ref(), None, first.table(), cx)?,
            None => Attributes::default(),
        };
        let plan = Self { kind: batch.kind, attributes, statements };
        validate(plan.kind, plan.attributes.has_timestamp(), &plan.statements.iter().collect::<Vec<_>>())?;
        plan.statements.iter().try_for_each(|statement| statement.refuse_local(cx))?;
        plan.statements.iter().try_for_each(|statement| statement.validate(cx))?;
        Ok(plan)
    }

    /// Returns the table of the first statement.
    pub fn first_table(&self) -> Option<&Arc<TableMetadata>> {
        self.statements.first().map(ModificationPlan::table)
    }

    /// The statements in their order.
    pub fn statements(&self) -> &[ModificationPlan] {
        &self.statements
    }

    /// Whether any statement has an IF.
    pub fn has_conditions(&self) -> bool {
        self.statements.iter().any(ModificationPlan::has_conditions)
    }

    /// Returns the kind of write.
    pub fn write_type(&self) -> WriteType {
        let has_counters = self.statements.iter().any(|statement| statement.table().is_counter);
        WriteType::of_batch(self.kind, self.has_conditions(), has_counters)
    }
}

/// Rejects combinations of statements that a batch cannot have.
pub(crate) fn validate(kind: BatchKind, has_timestamp: bool, statements: &[&ModificationPlan]) -> Result<()> {
    let counters = statements.iter().filter(|s| s.table().is_counter).count();
    let is_conditional = statements.iter().any(|s| s.has_conditions());
    if has_timestamp {
        if is_conditional {
            bail_invalid!("Cannot provide custom timestamp for conditional BATCH");
        }
        if kind == BatchKind::Counter {
            bail_invalid!("Cannot provide custom timestamp for counter BATCH");
        }
        if statements.iter().any(|s| s.has_timestamp()) {
            bail_invalid!("Timestamp must be set either on BATCH or individual statements");
        }
        if counters > 0 {
            bail_invalid!("Cannot provide custom timestamp for a BATCH containing counters");
        }
    }
    if kind == BatchKind::Counter && counters < statements.len() {
        bail_invalid!("Cannot include non-counter statement in a counter batch");
    }
    if counters > 0 && counters < statements.len() {
        bail_invalid!("Counter and non-counter mutations cannot exist in the same batch");
    }
    if kind == BatchKind::Logged && counters > 0 {
        bail_invalid!("Cannot include a counter statement in a logged batch");
    }
    if statements.iter().any(|s| s.is_virtual) {
        if kind == BatchKind::Logged {
            bail_invalid!("Cannot include a virtual table statement in a logged batch");
        }
        if statements.iter().any(|s| !s.is_virtual) {
            bail_invalid!("Mutations for virtual and regular tables cannot exist in the same batch");
        }
        if is_conditional {
            bail_invalid!("Conditional BATCH statements cannot include mutations for virtual tables");
        }
    }
    if statements.iter().any(|s| WritableTable::of(s.table()).is_some()) {
        bail_invalid!("Batches of mutations for virtual tables are not supported: execute them one by one");
    }
    if is_conditional
        && let [first, rest @ ..] = statements
        && rest.iter().any(|s| s.table().id != first.table().id)
    {
        bail_invalid!("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}
