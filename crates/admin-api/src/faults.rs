//! Faults that tests inject into requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A column of a rule.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the variants are JSON's types")]
pub enum FaultParameter {
    Boolean(bool),
    Int(i32),
    Double(f64),
    Text(String),
}

/// A rule, by the columns of `system_testing.cassette_faults`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct FaultRule {
    /// The id: another rule with it is replaced.
    pub id: String,
    /// The other columns. Those that are null are not set.
    #[serde(flatten)]
    pub columns: BTreeMap<String, Option<FaultParameter>>,
}

/// A rule, and how often it matched.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct FaultReport {
    /// Requests that matched.
    pub matched: u64,
    /// Requests that were affected.
    pub injected: u64,
    /// The rule.
    #[serde(flatten)]
    pub rule: FaultRule,
}
