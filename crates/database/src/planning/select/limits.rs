//! LIMIT and PER PARTITION LIMIT.

use cassette_cql::ast;
use cassette_rows::{DataType, TableMetadata};

use super::paging::PagingState;
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::restrictions::named_receiver;
use crate::planning::terms::Bound;
use crate::schema::conditions::Term;

/// The planned limits.
#[derive(Debug)]
pub(crate) struct LimitTerms {
    total: Option<Term>,
    per_partition: Option<Term>,
}

/// The remaining limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    total: Option<u32>,
    per_partition: Option<u32>,
    in_partition: Option<u32>,
}

impl LimitTerms {
    pub fn new(select: &ast::Select, table: &TableMetadata, cx: &mut PlanContext<'_>) -> Result<Self> {
        let mut prepare = |term: &Option<ast::Term>, name| {
            term.as_ref()
                .map(|term| Term::prepare(term, &named_receiver(table, name, DataType::Int), cx))
                .transpose()
        };
        let per_partition = prepare(&select.per_partition_limit, "[per_partition_limit]")?;
        Ok(Self { total: prepare(&select.limit, "[limit]")?, per_partition })
    }

    /// Returns the limits of an execution: those of the statement, or the remainder after an
    /// earlier page.
    pub fn bind(&self, cx: &BindContext<'_>, resume: Option<&PagingState>) -> Result<Limits> {
        let total = bind(&self.total, cx)?;
        let per_partition = bind(&self.per_partition, cx)?;
        let limits = Limits { total, per_partition, in_partition: per_partition };
        Ok(match resume {
            None => limits,
            Some(state) => Limits {
                total: total.map(|total| total.min(state.remaining.unwrap_or(total))),
                in_partition: per_partition.map(|n| n.min(state.remaining_in_partition.unwrap_or(n))),
                ..limits
            },
        })
    }
}

fn bind(term: &Option<Term>, cx: &BindContext<'_>) -> Result<Option<u32>> {
    let Some(term) = term else { return Ok(None) };
    let value = match term.bind(cx)? {
        Bound::Unset => return Ok(None),
        Bound::Null => bail_invalid!("Invalid null value of limit"),
        Bound::Value(value) => value,
    };
    let Ok(limit) = <[u8; 4]>::try_from(&*value).map(i32::from_be_bytes) else {
        bail_invalid!("Invalid limit value");
    };
    match u32::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => bail_invalid!("LIMIT must be strictly positive"),
    }
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { total: None, per_partition: None, in_partition: None };

    /// Whether no more rows may be returned.
    pub fn is_reached(&self) -> bool {
        self.total == Some(0)
    }

    /// Whether no more rows of this partition may be returned.
    pub fn is_reached_in_partition(&self) -> bool {
        self.in_partition == Some(0)
    }

    /// Starts another partition.
    pub fn next_partition(&mut self) {
        self.in_partition = self.per_partition;
    }

    /// Counts a returned row.
    pub fn take(&mut self) {
        for left in [&mut self.total, &mut self.in_partition].into_iter().flatten() {
            *left = left.saturating_sub(1);
        }
    }

    pub fn total(&self) -> Option<u32> {
        self.total
    }

    /// Returns the maximum number of remaining rows.
    pub fn rows_max(&self) -> usize {
        self.total.map_or(usize::MAX, |total| total as usize)
    }

    pub fn in_partition(&self) -> Option<u32> {
        self.in_partition
    }

    /// Returns the limits without LIMIT.
    pub fn without_total(self) -> Self {
        Self { total: None, ..self }
    }
}
