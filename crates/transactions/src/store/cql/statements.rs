//! Prepared statements of a table.

use std::sync::OnceLock;

use super::{Cql, StatementKind};
use crate::store::StoreResult;
use crate::store::layout::Texts;

/// Prepared statements of a table.
pub(super) struct Statements<P> {
    pub get: P,
    pub get_many: P,
    pub get_rows: P,
    pub get_serial: P,
    pub columns: P,
    pub columns_until: P,
    pub rows: P,
    pub rows_from: P,
    pub put: P,
    pub put_unless_exists: P,
    pub check_and_set: P,
    pub delete: P,
    pub delete_older: P,
    pub delete_row: P,
    reversed: OnceLock<Reversed<P>>,
}

/// Statements `names_reversed` and `names_until_reversed`.
pub(super) struct Reversed<P> {
    pub names: P,
    pub names_until: P,
}

impl<P> Statements<P> {
    /// Prepares all statements of a table.
    pub fn prepare<C: Cql<Statement = P>>(cql: &C, table: &str) -> StoreResult<Self> {
        let texts = Texts::new(cql.keyspace(), table);
        let read = |text: &str| cql.prepare(text, StatementKind::Read);
        Ok(Self {
            get: read(&texts.get)?,
            get_many: read(&texts.get_many)?,
            get_rows: read(&texts.get_rows)?,
            get_serial: cql.prepare(&texts.get_many, StatementKind::SerialRead)?,
            columns: read(&texts.columns)?,
            columns_until: read(&texts.columns_until)?,
            rows: read(&texts.rows)?,
            rows_from: read(&texts.rows_from)?,
            put: cql.prepare(&texts.put, StatementKind::Write)?,
            put_unless_exists: cql.prepare(&texts.put_unless_exists, StatementKind::Conditional)?,
            check_and_set: cql.prepare(&texts.check_and_set, StatementKind::Conditional)?,
            delete: cql.prepare(&texts.delete, StatementKind::Delete)?,
            delete_older: cql.prepare(&texts.delete_older, StatementKind::Delete)?,
            delete_row: cql.prepare(&texts.delete_row, StatementKind::Delete)?,
            reversed: OnceLock::new(),
        })
    }

    /// Returns the statements of reversed reads, which most tables never need, and prepares them
    /// first if they are not.
    pub fn reversed<C: Cql<Statement = P>>(&self, cql: &C, table: &str) -> StoreResult<&Reversed<P>> {
        if let Some(reversed) = self.reversed.get() {
            return Ok(reversed);
        }
        let texts = Texts::new(cql.keyspace(), table);
        let names = cql.prepare(&texts.names_reversed, StatementKind::Read)?;
        let names_until = cql.prepare(&texts.names_until_reversed, StatementKind::Read)?;
        Ok(self.reversed.get_or_init(|| Reversed { names, names_until }))
    }
}
