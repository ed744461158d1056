//! Plans: statements resolved against a catalog, which can be executed repeatedly.

use std::sync::Arc;

use cassette_cql::ast::{self, QualifiedName, Statement};
use cassette_engine::trace::trace;
use cassette_rows::{TableMetadata, interrupt};
use md5::{Digest, Md5};

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::metrics::RequestKind;
use crate::basics::request::StatementOptions;
use crate::basics::response::{ColumnSpec, Outcome, ResultMetadata, RowSink};
use crate::basics::timeouts::Limited;
use crate::execution::Execution;
use crate::execution::describe::DescribePlan;
use crate::execution::virtual_tables;
use crate::planning::context::PlanContext;
use crate::planning::functions::UsedFunction;
use crate::planning::modification::{BatchPlan, ModificationPlan};
use crate::planning::select::SelectPlan;
use crate::planning::terms::Markers;
use crate::schema::catalog::{Catalog, KeyspaceKind};
use crate::schema::system::comes_with_database;
use crate::schema::testing::{WritableTable, refuse_absent};
use crate::statements::roles::RoleStatement;
use crate::statements::schema::{self, SchemaStatement};

/// A statement resolved against a catalog.
#[derive(Debug)]
pub(crate) struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The text, for the log of slow queries.
    pub cql: Box<str>,
    /// The bind markers.
    pub markers: Vec<ColumnSpec>,
    /// The markers of the partition key; empty if they are not known.
    pub partition_key_indexes: Vec<u16>,
    /// The result columns; `None` for statements without rows, and if the columns are not known
    /// before execution.
    pub result: Option<Arc<ResultMetadata>>,
    /// The catalog of the plan: with another catalog, the statement must be planned again.
    pub catalog: Arc<Catalog>,
    /// Whether the meaning is independent of the session's keyspace. As in Cassandra, which derives
    /// statement ids from it, only statements on tables are.
    pub is_fully_qualified: bool,
    /// Warnings for the client that sends or prepares the statement.
    pub warnings: Vec<String>,
    /// The user-defined functions that it calls.
    pub functions: Vec<UsedFunction>,
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Plan {
    Select(Box<SelectPlan>),
    Modification(ModificationPlan),
    Batch(BatchPlan),
    Use(String),
    Truncate(Arc<TableMetadata>),
    Schema(Box<SchemaStatement>),
    Roles(Box<RoleStatement>),
    Describe(DescribePlan),
}

impl Planned {
    /// Whether it may read much, or many partitions, before it detects that it has to wait for a
    /// disk. False for statements on one partition that is known from the values, and for reads of
    /// one value in one index; those that find many rows return WouldBlock
    /// ([`without_waiting`](cassette_engine::without_waiting)).
    pub fn may_take_long(&self) -> bool {
        let asks_one_index = || match &self.plan {
            Plan::Select(select) => select.asks_one_index_for_a_value(),
            _ => false,
        };
        // A function may run for long.
        let calls_functions = !self.functions.is_empty();
        calls_functions || self.partition_key_indexes.is_empty() && !asks_one_index()
    }

    /// Parses and plans `cql` in the keyspace of the session or request.
    pub fn new(cql: &str, catalog: &Arc<Catalog>, session_keyspace: Option<&str>) -> Result<Self> {
        trace(|| format!("Parsing {}", cassette_cql::obscure_passwords(cql)));
        let parsed = cassette_cql::parse(cql)?;
        trace(|| "Preparing statement");
        let mut cx = PlanContext {
            catalog,
            session_keyspace,
            used_session_keyspace: false,
            digest: Md5::digest(cql).into(),
            markers: Markers::new(parsed.bind_markers),
            warnings: Vec::new(),
            functions: Vec::new(),
        };
        let (plan, key_table) = plan(&parsed.statement, &mut cx)?;
        let (is_request, is_truncation) = (plan.is_request(), matches!(plan, Plan::Truncate(_)));
        let result = match &plan {
            Plan::Select(select) => Some(select.result_metadata().clone()),
            _ => None,
        };
        Ok(Self {
            plan,
            cql: cql.into(),
            markers: cx.markers.specs()?,
            partition_key_indexes: key_table
                .map(|table| cx.markers.partition_key_indexes(&table))
                .unwrap_or_default(),
            result,
            catalog: catalog.clone(),
            is_fully_qualified: !cx.used_session_keyspace && (is_request || is_truncation),
            warnings: cx.warnings,
            functions: cx.functions,
        })
    }

    /// Whether clients have to prepare the statement again, whose plan for a later catalog is
    /// `later`: as in Cassandra, after a change of a table or function that may change metadata or
    /// the meaning of the statement.
    pub fn is_outdated_by(&self, later: &Self) -> bool {
        let (before, after) = (self.plan.tables(), later.plan.tables());
        before.len() != after.len()
            || self.functions != later.functions
            || before.iter().zip(after).any(|(before, after)| {
                let indexes = |planned: &Self, table: &TableMetadata| -> Vec<(String, i64)> {
                    let indexes = planned.catalog.indexes_of(table.id).iter();
                    indexes.map(|index| (index.name.clone(), index.created_at)).collect()
                };
                before.id != after.id
                    || before.partition_key != after.partition_key
                    || before.clustering != after.clustering
                    || before.columns != after.columns
                    || before.params.default_time_to_live != after.params.default_time_to_live
                    || before.params.gc_grace_seconds != after.params.gc_grace_seconds
                    || indexes(self, before) != indexes(later, after)
            })
    }

    /// Executes the plan; rows go to `sink`.
    pub fn execute(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        match &self.plan {
            Plan::Select(select) => select.read_page(execution, sink),
            Plan::Modification(modification) => modification.apply(execution, sink),
            Plan::Batch(batch) => batch.apply(execution, sink),
            Plan::Use(keyspace) => Ok(Outcome::SetKeyspace(keyspace.clone())),
            // A change of the schema or of a whole table must not stop halfway.
            Plan::Truncate(table) => {
                execution.guard().drop_or_truncate()?;
                if let Some(virtual_table) = WritableTable::of(table) {
                    virtual_tables::truncate(virtual_table, execution.store)?;
                    return Ok(Outcome::Void);
                }
                interrupt::check_now()?;
                let patience = interrupt::remaining();
                interrupt::shielded(|| {
                    crate::statements::truncate::truncate(execution.store, table, patience)
                })
            }
            Plan::Schema(statement) => {
                interrupt::check_now()?;
                execution.schema_patience.set(interrupt::remaining());
                interrupt::shielded(|| schema::change(statement, execution))
            }
            Plan::Roles(statement) => statement.execute(execution, sink),
            Plan::Describe(describe) => describe.describe(execution, sink),
        }
    }
}

/// A planned INSERT, UPDATE or DELETE of a batch, which other statements of it may share.
pub(crate) struct PlannedModification(Arc<Planned>);

impl PlannedModification {
    /// Returns `planned` if it is an INSERT, UPDATE or DELETE.
    pub fn new(planned: Arc<Planned>) -> Option<Self> {
        matches!(planned.plan, Plan::Modification(_)).then_some(Self(planned))
    }

    /// Returns the statement.
    pub fn planned(&self) -> &Planned {
        &self.0
    }

    /// Whether both have the same plan.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl AsRef<ModificationPlan> for PlannedModification {
    fn as_ref(&self) -> &ModificationPlan {
        match &self.0.plan {
            Plan::Modification(modification) => modification,
            _ => unreachable!("`new` accepts modifications only"),
        }
    }
}

impl Plan {
    /// Whether it reads or changes data.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Select(_) | Self::Modification(_) | Self::Batch(_))
    }

    /// Whether it changes data or the schema.
    pub fn writes(&self) -> bool {
        match self {
            Self::Select(_) | Self::Use(_) | Self::Describe(_) => false,
            Self::Roles(statement) => statement.writes(),
            Self::Modification(_) | Self::Batch(_) | Self::Truncate(_) | Self::Schema(_) => true,
        }
    }

    /// Whether it writes to tables that do not come with the database.
    pub fn writes_rows_of_users(&self) -> bool {
        let is_of_users = |table: &&Arc<TableMetadata>| !comes_with_database(&table.keyspace);
        matches!(self, Self::Modification(_) | Self::Batch(_)) && self.tables().iter().any(is_of_users)
    }

    /// Returns the tables that it reads or changes.
    pub fn tables(&self) -> Vec<&Arc<TableMetadata>> {
        match self {
            Self::Select(select) => vec![select.table()],
            Self::Modification(modification) => vec![modification.table()],
            Self::Batch(batch) => batch.statements().iter().map(ModificationPlan::table).collect(),
            Self::Use(_) | Self::Truncate(_) | Self::Schema(_) | Self::Roles(_) | Self::Describe(_) => {
                Vec::new()
            }
        }
    }

    /// Returns the kind of its time limit.
    pub fn limited(&self, options: &StatementOptions) -> Limited {
        match self {
            Self::Select(select) if select.names_keys() => Limited::Read(options.consistency),
            Self::Select(_) => Limited::Range(options.consistency),
            Self::Modification(modification) => Limited::write(modification.write_type(), options),
            Self::Batch(batch) => Limited::write(batch.write_type(), options),
            Self::Truncate(_) => Limited::Truncate,
            Self::Use(_) | Self::Schema(_) | Self::Roles(_) | Self::Describe(_) => Limited::Other,
        }
    }

    /// Returns its kind in metrics; `None` for statements that do not access stored data.
    pub fn request_kind(&self, options: &StatementOptions) -> Option<RequestKind> {
        match self {
            Self::Select(select) => select.request_kind(options),
            Self::Modification(modification) if modification.has_conditions() => Some(RequestKind::CasWrite),
            Self::Batch(batch) if batch.has_conditions() => Some(RequestKind::CasWrite),
            Self::Modification(_) | Self::Batch(_) => Some(RequestKind::Write),
            Self::Use(_) | Self::Truncate(_) | Self::Schema(_) | Self::Roles(_) | Self::Describe(_) => None,
        }
    }
}

/// Returns the plan, and the table of which markers may be the partition key.
fn plan(statement: &Statement, cx: &mut PlanContext<'_>) -> Result<(Plan, Option<Arc<TableMetadata>>)> {
    match statement {
        Statement::Select(select) => {
            let plan = SelectPlan::new(select, cx)?;
            let table = plan.table().clone();
            Ok((Plan::Select(Box::new(plan)), Some(table)))
        }
        Statement::Modification(modification) => {
            let plan = ModificationPlan::new(modification, cx)?;
            let table = plan.table().clone();
            Ok((Plan::Modification(plan), Some(table)))
        }
        Statement::Batch(batch) => {
            let plan = BatchPlan::new(batch, cx)?;
            let table = plan.first_table().cloned();
            Ok((Plan::Batch(plan), table))
        }
        Statement::Use(keyspace) => Ok((plan_use(keyspace, cx)?, None)),
        Statement::Truncate(name) => Ok((plan_truncate(name, cx)?, None)),
        Statement::Describe(describe) => Ok((Plan::Describe(DescribePlan::new(describe, cx)?), None)),
        // Each execution would create another view; the definition is stored with its values.
        Statement::CreateView(_) if !cx.markers.is_empty() => {
            bail_invalid!("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements")
        }
        other => Ok((
            match RoleStatement::new(other, cx)? {
                Some(statement) => Plan::Roles(Box::new(statement)),
                None => Plan::Schema(Box::new(SchemaStatement::new(other, cx)?)),
            },
            None,
        )),
    }
}

fn plan_use(keyspace: &ast::Identifier, cx: &PlanContext<'_>) -> Result<Plan> {
    match cx.catalog.keyspace(keyspace) {
        Some(keyspace) => Ok(Plan::Use(keyspace.name.clone())),
        None => {
            refuse_absent(keyspace)?;
            bail_invalid!("Keyspace '{}' does not exist", keyspace.as_str())
        }
    }
}

fn plan_truncate(name: &QualifiedName, cx: &mut PlanContext<'_>) -> Result<Plan> {
    let table = cx.table(name)?;
    if cx.catalog.is_view(&table) {
        bail_invalid!("Cannot TRUNCATE materialized view directly; must truncate base table instead");
    }
    let keyspace = cx.catalog.require_keyspace(&table.keyspace)?;
    match keyspace.kind {
        KeyspaceKind::Local => {
            Err(DatabaseError::Unauthorized(format!("{} keyspace is not user-modifiable.", table.keyspace)))
        }
        _ if WritableTable::of(&table).is_some() => Ok(Plan::Truncate(table)),
        _ if keyspace.virtual_tables.contains(&table.name) => {
            bail_invalid!("Truncation is not supported by table {}", table.qualified_name())
        }
        _ => Ok(Plan::Truncate(table)),
    }
}
