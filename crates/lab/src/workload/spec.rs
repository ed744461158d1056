//! Workloads of statements as texts, from which each process builds its own.

use std::collections::BTreeMap;

use cassette_protocol::Consistency;
use serde::{Deserialize, Serialize};

use super::statements::Builder;
use super::{Expect, StatementWorkload, ValueSpec};

/// A workload of statements: complete, without variables or names of files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementSpec {
    /// Statements that create keyspace, types, tables and indexes.
    pub create: Vec<String>,
    /// Statements that drop what `create` created.
    pub drop: Vec<String>,
    /// Generators of values by name.
    pub values: BTreeMap<String, ValueSpec>,
    /// The operations; the last one is that of the load.
    pub operations: Vec<OperationText>,
}

/// An operation of a [`StatementSpec`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationText {
    /// Name of its latencies.
    pub name: String,
    /// Frequency relative to the others.
    pub weight: f64,
    /// Whether it creates a new record.
    pub inserts: bool,
    /// Its statements, in order.
    pub steps: Vec<StepText>,
}

/// A statement of an [`OperationText`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepText {
    /// Its CQL, with `:name` for values.
    pub cql: String,
    /// Name of its consistency level; `None` for the engine's.
    pub consistency: Option<String>,
    /// Expected result.
    pub expect: Expect,
}

impl StatementSpec {
    /// Builds the workload.
    ///
    /// # Errors
    /// If a value, a weight, a consistency level or an operation is invalid.
    pub fn build(&self) -> Result<StatementWorkload, String> {
        let mut builder = Builder::new(&self.values)?;
        for operation in &self.operations {
            let OperationText { name, weight, inserts, steps } = operation;
            if !(weight.is_finite() && *weight >= 0.0) {
                return Err(format!("invalid weight {weight}: expected at least 0"));
            }
            let step = |step: &StepText| {
                let level = step.consistency.as_deref().map(consistency).transpose()?;
                Ok::<_, String>((step.cql.clone(), level, step.expect))
            };
            let steps = steps.iter().map(step).collect::<Result<Vec<_>, String>>()?;
            builder.operation(name, *weight, *inserts, steps)?;
        }
        builder.finish(self.create.clone(), self.drop.clone()).map_err(|error| error.to_string())
    }
}

/// Parses a consistency level of reads and writes.
pub fn consistency(text: &str) -> Result<Consistency, String> {
    let levels = Consistency::ALL.into_iter().filter(|level| !level.is_serial());
    let found = levels.clone().find(|level| level.to_string().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let names: Vec<String> = levels.map(|level| level.to_string()).collect();
        format!("expected one of {}", names.join(", "))
    })
}
