//! The conditions of a conditional write, of one statement or a batch, and the columns that they
//! read.

use std::collections::BTreeSet;
use std::sync::Arc;

use cassette_rows::{Clustering, ColumnId, ColumnKind, ColumnMetadata, Row, TableMetadata};

use super::conditional::{Current, Part};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::modification::conditions::{BoundCondition, Conditions};
use crate::planning::modification::rows_plan::RowsPlan;

/// The conditions of all statements, grouped by row.
///
/// The columns that are read follow Cassandra's observable behavior: columns that are not read
/// count as null, and a row of which nothing is read as missing.
pub(crate) struct Question<'a> {
    table: Arc<TableMetadata>,
    static_row: Option<RowQuestion<'a>>,
    /// In clustering order and unique, once [finished](Self::finish).
    pub rows: Vec<(Clustering, RowQuestion<'a>)>,
    /// The static columns that are read; `None` for all.
    statics: Option<BTreeSet<ColumnId>>,
    /// Whether regular columns are read: all, or none.
    reads_regulars: bool,
}

/// The conditions on one row.
pub(crate) enum RowQuestion<'a> {
    Exists,
    NotExists,
    Columns(Vec<BoundCondition<'a>>),
}

impl<'a> Question<'a> {
    pub fn new(table: &Arc<TableMetadata>) -> Self {
        Self {
            table: table.clone(),
            static_row: None,
            rows: Vec::new(),
            statics: Some(BTreeSet::new()),
            reads_regulars: false,
        }
    }

    /// Adds the conditions of a statement; one without conditions only determines the columns that
    /// are read.
    ///
    /// # Errors
    /// Invalid, for incompatible conditions on the static row, values that cannot be compared, and
    /// invalid clusterings.
    pub fn add(&mut self, part: &Part<'a, '_>) -> Result<()> {
        let (plan, execution) = (part.plan, part.execution);
        let clustering = &plan.restrictions.clustering;
        self.reads_regulars |= self.table.clustering.is_empty() || !clustering.is_empty();
        let target = if plan.only_statics || !clustering.names_rows() {
            None
        } else {
            clustering.clusterings(execution)?.into_iter().next()
        };
        if plan.conditions.is_empty() {
            return Ok(());
        }
        self.read_statics_of(plan);
        match &plan.conditions {
            Conditions::None => Ok(()),
            Conditions::Exists => self.ask(target, RowQuestion::Exists),
            Conditions::NotExists => self.ask(target, RowQuestion::NotExists),
            Conditions::Columns(_) => {
                let of_row = plan.conditions.bind(ColumnKind::Regular, execution)?;
                if !of_row.is_empty() {
                    self.ask(target, RowQuestion::Columns(of_row))?;
                }
                let of_static_row = plan.conditions.bind(ColumnKind::Static, execution)?;
                if !of_static_row.is_empty() {
                    self.ask(None, RowQuestion::Columns(of_static_row))?;
                }
                Ok(())
            }
        }
    }

    /// Adds conditions on a row, or on the static row if there is no clustering.
    fn ask(&mut self, target: Option<Clustering>, asked: RowQuestion<'a>) -> Result<()> {
        let Some(clustering) = target else {
            return match &mut self.static_row {
                Some(earlier) => earlier.add(asked),
                none => {
                    *none = Some(asked);
                    Ok(())
                }
            };
        };
        self.rows.push((clustering, asked));
        Ok(())
    }

    /// Merges the conditions of all statements by row.
    ///
    /// # Errors
    /// Invalid, for incompatible conditions on one row.
    pub fn finish(&mut self) -> Result<()> {
        let comparator = &self.table.comparator;
        // A stable sort keeps the statements on one row in order.
        self.rows.sort_by(|(a, _), (b, _)| comparator.compare_rows(a, b));
        let mut rows: Vec<(Clustering, RowQuestion<'a>)> = Vec::with_capacity(self.rows.len());
        for (clustering, asked) in self.rows.drain(..) {
            match rows.last_mut() {
                Some((last, earlier)) if comparator.compare_rows(last, &clustering).is_eq() => {
                    earlier.add(asked)?;
                }
                _ => rows.push((clustering, asked)),
            }
        }
        self.rows = rows;
        Ok(())
    }

    fn read_statics_of(&mut self, plan: &RowsPlan) {
        let Some(statics) = &mut self.statics else { return };
        if plan.sets_all_columns || !plan.operations.statics.is_empty() {
            self.statics = None;
            return;
        }
        let columns = plan.conditions.columns();
        statics.extend(columns.iter().filter(|c| c.kind == ColumnKind::Static).map(|c| c.id));
    }

    /// Whether a column is read; those of the primary key always are.
    pub fn reads(&self, column: &ColumnMetadata) -> bool {
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => true,
            ColumnKind::Static => self.statics.as_ref().is_none_or(|statics| statics.contains(&column.id)),
            ColumnKind::Regular => self.reads_regulars,
        }
    }

    /// Whether a column of the static row is read and live at `now`.
    pub fn sees_static_row(&self, row: &Row, now: u32) -> bool {
        match &self.statics {
            None => row.has_live_cell(now),
            Some(columns) => columns.iter().any(|column| row.cells_of(*column).any(|cell| cell.is_live(now))),
        }
    }

    /// Whether a column of the row is read and live at `now`.
    pub fn sees_row(&self, row: &Row, now: u32) -> bool {
        if self.reads_regulars { row.is_live(now) } else { row.liveness().is_live(now) }
    }

    /// Returns whether all conditions hold at `now` (seconds since 1970).
    ///
    /// # Errors
    /// Invalid, for values that cannot be compared.
    pub fn holds_for(&self, current: &Current, now: u32) -> Result<bool> {
        if let Some(asked) = &self.static_row
            && !asked.holds_for(current.static_row.as_ref(), now)?
        {
            return Ok(false);
        }
        let mut rows = current.rows_in_order(&self.table);
        for (clustering, asked) in &self.rows {
            if !asked.holds_for(rows.at(clustering), now)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'a> RowQuestion<'a> {
    /// Adds the conditions of a later statement on the same row. Errors have Cassandra's words.
    fn add(&mut self, later: RowQuestion<'a>) -> Result<()> {
        match (self, later) {
            (Self::Exists, Self::Exists) | (Self::NotExists, Self::NotExists) => Ok(()),
            (Self::Columns(earlier), Self::Columns(later)) => {
                earlier.extend(later);
                Ok(())
            }
            (Self::Exists, Self::NotExists) | (Self::NotExists, Self::Exists) => {
                bail_invalid!("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
            }
            (Self::Columns(_), Self::Exists) => {
                bail_invalid!("Cannot mix IF conditions and IF EXISTS for the same row")
            }
            // Cassandra's message contains NOT also if the earlier statement has IF EXISTS.
            (Self::Columns(_), Self::NotExists) | (Self::Exists | Self::NotExists, Self::Columns(_)) => {
                bail_invalid!("Cannot mix IF conditions and IF NOT EXISTS for the same row")
            }
        }
    }

    fn holds_for(&self, row: Option<&Row>, now: u32) -> Result<bool> {
        match self {
            Self::Exists => Ok(row.is_some()),
            Self::NotExists => Ok(row.is_none()),
            Self::Columns(conditions) => {
                for condition in conditions {
                    if !condition.holds(row, now)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}
