//! Workloads of any schema: operations are CQL statements with generated named values.
//!
//! Every value is derived from the number of a record (or from a random number of the operation)
//! and the name of the value, so that a loaded row can be requested by any of its columns: by key,
//! by an indexed column, by a range.

use std::collections::BTreeMap;

use cassette_protocol::Consistency;
use serde::{Deserialize, Serialize};

use super::{Failure, RowSink, Template, Value, ValueSpec};
use crate::LabError;
use crate::ycsb::FieldValues;

/// Expected result of a step; any other is a failure of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// Anything but an error.
    #[default]
    Any,
    /// At least one row.
    Rows,
    /// No row.
    None,
    /// `[applied]` of a conditional statement is true.
    Applied,
}

/// One statement of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its CQL, with `?` for values.
    pub cql: String,
    /// Bound values, by index into [`StatementWorkload::values`].
    pub binds: Vec<usize>,
    /// Consistency level; `None` for the engine's.
    pub consistency: Option<Consistency>,
    /// Expected result.
    pub expect: Expect,
}

/// An operation: statements that are executed in order with the same values.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementOperation {
    /// Name of its latencies.
    pub name: String,
    /// Frequency relative to the others.
    pub weight: f64,
    /// Whether it creates a new record instead of choosing an existing one.
    pub inserts: bool,
    /// Its statements, by index into [`StatementWorkload::steps`].
    pub steps: std::ops::Range<usize>,
}

/// A workload of CQL statements.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementWorkload {
    /// Statements that create keyspace, types, tables and indexes.
    pub create: Vec<String>,
    /// Statements that drop what [`create`](Self::create) created.
    pub drop: Vec<String>,
    /// All steps of all operations.
    pub steps: Vec<Step>,
    /// The operations; the last one is that of the load.
    pub operations: Vec<StatementOperation>,
    /// The values by index, with their names.
    pub values: Vec<(String, Value)>,
}

impl StatementWorkload {
    /// Returns the index of the operation that loads a record.
    pub fn load(&self) -> u8 {
        (self.operations.len() - 1) as u8
    }

    /// Returns the names of the kinds of latencies: the operations, then the steps of those that
    /// have several.
    pub fn kind_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.operations.iter().map(|operation| operation.name.clone()).collect();
        for operation in &self.operations {
            for step in 1..=operation.steps.len() {
                names.push(format!("{}, step {step}", operation.name));
            }
        }
        names
    }

    /// Returns the kind of step `step` (an index into [`steps`](Self::steps)); `None` if it is the
    /// only one of its operation.
    pub fn kind_of_step(&self, operation: u8, step: usize) -> Option<u8> {
        let several = self.operations.get(usize::from(operation))?.steps.len() > 1;
        several.then(|| (self.operations.len() + step) as u8)
    }

    /// Returns the steps of an operation.
    pub fn steps_of(&self, operation: u8) -> std::ops::Range<usize> {
        self.operations.get(usize::from(operation)).map_or(0..0, |operation| operation.steps.clone())
    }

    /// Fills `out` with the values that step `step` binds for record `number`; `random` is the
    /// operation's random number.
    pub fn bind(&self, step: usize, number: u64, random: u64, out: &mut FieldValues) {
        out.clear();
        for (position, index) in self.steps[step].binds.iter().enumerate() {
            let value = &self.values[*index].1;
            out.push_with(position, |bytes| value.write(number, random, bytes));
        }
    }

    /// Checks the result of step `step`.
    pub fn check(&self, step: usize, rows: &RowSink) -> Result<(), Failure> {
        let Step { cql, expect, .. } = &self.steps[step];
        match expect {
            Expect::Rows if rows.rows() == 0 => Err(Failure::new("not found", format_args!("no row: {cql}"))),
            Expect::None if rows.rows() > 0 => {
                Err(Failure::new("wrong data", format_args!("{} rows instead of none: {cql}", rows.rows())))
            }
            Expect::Applied if rows.first_byte() != Some(1) => {
                Err(Failure::new("not applied", format_args!("[applied] is not true: {cql}")))
            }
            _ => Ok(()),
        }
    }
}

/// Builds a workload from its texts.
#[derive(Debug, Default)]
pub struct Builder {
    values: Vec<(String, Value)>,
    steps: Vec<Step>,
    operations: Vec<StatementOperation>,
}

impl Builder {
    /// Creates a builder with these generators of values.
    pub fn new(specs: &BTreeMap<String, ValueSpec>) -> Result<Self, String> {
        let value = |(name, spec): (&String, &ValueSpec)| {
            let value = Value::new(name, spec).map_err(|error| format!("value {name}: {error}"))?;
            Ok((name.clone(), value))
        };
        let values = specs.iter().map(value).collect::<Result<_, String>>()?;
        Ok(Self { values, ..Self::default() })
    }

    /// Adds an operation of `steps`: text, consistency level, expectation.
    pub fn operation(
        &mut self,
        name: &str,
        weight: f64,
        inserts: bool,
        steps: impl IntoIterator<Item = (String, Option<Consistency>, Expect)>,
    ) -> Result<(), String> {
        let first = self.steps.len();
        for (text, consistency, expect) in steps {
            let Template { cql, names } = Template::parse(&text);
            let index = |name: &String| {
                let found = self.values.iter().position(|(known, _)| known == name);
                found.ok_or_else(|| format!("unknown value {name} in {text:?}"))
            };
            let binds = names.iter().map(index).collect::<Result<_, _>>()?;
            self.steps.push(Step { cql, binds, consistency, expect });
        }
        if self.steps.len() == first {
            return Err(format!("operation {name} has no statement"));
        }
        if self.operations.iter().any(|operation| operation.name == name) {
            return Err(format!("two operations are called {name}"));
        }
        let steps = first..self.steps.len();
        self.operations.push(StatementOperation { name: name.to_owned(), weight, inserts, steps });
        // A kind of latency is one byte.
        if self.operations.len() + self.steps.len() > 250 {
            return Err("a workload has at most 250 operations and statements".into());
        }
        Ok(())
    }

    /// Completes the workload; its last operation must be that of the load.
    pub fn finish(self, create: Vec<String>, drop: Vec<String>) -> Result<StatementWorkload, LabError> {
        let Self { values, steps, operations } = self;
        if operations.is_empty() {
            return Err(LabError::Usage("a workload needs an operation".into()));
        }
        Ok(StatementWorkload { create, drop, steps, operations, values })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table with a collection and an index: write and read back, read by the indexed column,
    /// load.
    pub fn users() -> StatementWorkload {
        let specs: BTreeMap<String, ValueSpec> = toml::from_str(
            r#"
            id = { type = "text", from = "number", format = "user{}" }
            email = { type = "text", length = 12 }
            grade = { type = "list<text>", elements = [1, 3] }
            "#,
        )
        .unwrap();
        let mut builder = Builder::new(&specs).unwrap();
        let insert = || "INSERT INTO lab.users (id, email, grade) VALUES (:id, :email, :grade)".to_owned();
        let read = || "SELECT id, email FROM lab.users WHERE id = :id".to_owned();
        let by_email = "SELECT id FROM lab.users WHERE email = :email".to_owned();
        let quorum = Some(Consistency::Quorum);
        builder
            .operation(
                "read-back",
                1.0,
                true,
                [(insert(), quorum, Expect::Any), (read(), quorum, Expect::Rows)],
            )
            .unwrap();
        builder.operation("by-email", 1.0, false, [(by_email, None, Expect::Rows)]).unwrap();
        builder.operation("load", 0.0, true, [(insert(), None, Expect::Any)]).unwrap();
        let create = vec![
            "CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
                .to_owned(),
            "CREATE TABLE lab.users (id text PRIMARY KEY, email text, grade list<text>)".to_owned(),
        ];
        builder.finish(create, vec!["DROP TABLE IF EXISTS lab.users".into()]).unwrap()
    }

    #[test]
    fn steps_of_an_operation_bind_the_same_values() {
        let workload = users();
        let (mut written, mut read) = (FieldValues::default(), FieldValues::default());
        workload.bind(0, 7, 99, &mut written);
        workload.bind(1, 7, 5, &mut read);
        let id = |values: &FieldValues| values.iter().next().unwrap().1.to_vec();
        assert_eq!(id(&written), b"user7");
        assert_eq!(id(&read), b"user7");
        workload.bind(2, 7, 5, &mut read);
        assert_eq!(
            written.iter().nth(1).unwrap().1,
            read.iter().next().unwrap().1,
            "email is derived from the key"
        );
    }

    #[test]
    fn kinds_name_operations_and_the_steps_of_those_with_several() {
        let workload = users();
        let names = workload.kind_names();
        assert_eq!(names[..3], ["read-back", "by-email", "load"]);
        let step = workload.kind_of_step(0, 1).unwrap();
        assert_eq!(names[usize::from(step)], "read-back, step 2");
        assert_eq!(workload.kind_of_step(1, 2), None);
    }

    #[test]
    fn results_are_checked_against_expectations() {
        let mut workload = users();
        let mut rows = RowSink::new(None);
        assert_eq!(workload.check(1, &rows).unwrap_err().class, "not found");
        workload.steps[1].expect = Expect::Applied;
        rows.row(&[0]);
        assert_eq!(workload.check(1, &rows).unwrap_err().class, "not applied");
        rows.clear();
        rows.row(&[1]);
        assert_eq!(workload.check(1, &rows), Ok(()));
        workload.steps[1].expect = Expect::None;
        assert_eq!(workload.check(1, &rows).unwrap_err().class, "wrong data");
    }

    #[test]
    fn unknown_values_and_repeated_names_are_rejected() {
        let mut builder = Builder::new(&BTreeMap::new()).unwrap();
        let step = |text: &str| [(text.to_owned(), None, Expect::Any)];
        assert!(builder.operation("a", 1.0, false, step("SELECT :nosuch")).unwrap_err().contains("nosuch"));
        builder.operation("b", 1.0, false, step("SELECT 1")).unwrap();
        assert!(builder.operation("b", 1.0, false, step("SELECT 1")).is_err());
        assert!(builder.operation("c", 1.0, false, []).is_err());
    }
}
