//! `coordinator_read_size_warn_threshold` and `coordinator_read_size_fail_threshold`: limits of the
//! bytes of values in one response.

use std::sync::Arc;

use crate::basics::error::{AbortReason, DatabaseError, Result};
use crate::basics::response::{ResultMetadata, RowSink};
use crate::execution::Execution;
use crate::planning::restrictions::Partitions;
use crate::planning::select::SelectPlan;
use crate::schema::guardrails::Key;

/// A sink that counts the bytes pushed into another sink.
pub(crate) struct MeasuredSink<'s, 'e> {
    sink: &'s mut dyn RowSink,
    plan: &'s SelectPlan,
    execution: &'s Execution<'e>,
    bytes: u64,
    fail: Option<u64>,
}

impl<'s, 'e> MeasuredSink<'s, 'e> {
    pub fn new(sink: &'s mut dyn RowSink, plan: &'s SelectPlan, execution: &'s Execution<'e>) -> Self {
        let fail = threshold(execution, Key::CoordinatorReadSizeFail);
        Self { sink, plan, execution, bytes: 0, fail }
    }

    /// Warns if the response exceeds the threshold.
    pub fn finish(self) {
        let Some(limit) = threshold(self.execution, Key::CoordinatorReadSizeWarn) else { return };
        if self.bytes > limit {
            let message = self.message("warning", limit);
            self.execution.guard().warn("coordinator_read_size_warn_threshold", message);
        }
    }

    fn message(&self, level: &str, limit: u64) -> String {
        format!(
            "Read on table {} has exceeded the size {level} threshold of {} bytes with {}",
            self.plan.table.qualified_name(),
            with_separators(limit),
            self.tokens()
        )
    }

    /// Returns the tokens that the statement reads, in Cassandra's format.
    fn tokens(&self) -> String {
        match self.plan.restrictions.partition.partitions(self.execution) {
            Ok(Partitions::Keys(keys)) => {
                let tokens: Vec<String> = keys.iter().map(|key| key.token().0.to_string()).collect();
                match &tokens[..] {
                    [token] => format!("token: {token}"),
                    tokens => format!("tokens: [{}]", tokens.join(", ")),
                }
            }
            _ => format!("token range: ({}, {})", i64::MIN, i64::MIN),
        }
    }

    #[cold]
    fn too_large(&self, limit: u64) -> DatabaseError {
        let message = self.message("failure", limit);
        self.execution.guard().log("coordinator_read_size_fail_threshold", &message);
        DatabaseError::ReadAborted {
            consistency: self.execution.options.consistency,
            reason: AbortReason::ReadSize,
            message,
            data_present: true,
            address: self.execution.store.node().address,
        }
    }
}

impl RowSink for MeasuredSink<'_, '_> {
    fn begin(&mut self, metadata: &Arc<ResultMetadata>) {
        self.sink.begin(metadata);
    }

    fn value(&mut self, value: Option<&[u8]>) {
        self.bytes += value.map_or(0, <[u8]>::len) as u64;
        self.sink.value(value);
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let bytes = &mut self.bytes;
        self.sink.value_with(&mut |buffer| {
            let before = buffer.len();
            write(buffer);
            *bytes += buffer.len().saturating_sub(before) as u64;
        });
    }

    fn end_row(&mut self) -> Result<()> {
        if let Some(limit) = self.fail
            && self.bytes > limit
        {
            return Err(self.too_large(limit));
        }
        self.sink.end_row()
    }

    fn is_full(&self) -> bool {
        self.sink.is_full()
    }
}

fn threshold(execution: &Execution<'_>, key: Key) -> Option<u64> {
    execution.guard().limit(key).and_then(|limit| u64::try_from(limit).ok())
}

/// Formats a number with a comma before each group of three digits.
fn with_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
