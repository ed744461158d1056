//! LIKE, which indexes answer.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_cql::values::text::to_literal;
use cassette_rows::{ColumnMetadata, DataType, TableMetadata};

use super::receiver;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::terms::Bound;
use crate::schema::conditions::{LikeTerms, Term};
use crate::schema::indexes::{Index, LikeKind, Sasi};

/// A pattern in one execution.
pub(crate) struct BoundLike<'t> {
    /// The index that answers.
    pub index: &'t Arc<Index>,
    pub kind: LikeKind,
    /// A value must have a term that fits one of these.
    pub terms: Vec<Vec<u8>>,
    sasi: Sasi,
}

impl LikeTerms {
    /// Plans `column LIKE value`.
    pub fn new(
        column: &ColumnMetadata,
        value: &ast::Term,
        table: &TableMetadata,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        let pattern = Term::prepare(value, &receiver(table, column), cx)?;
        let of_column =
            cx.catalog.indexes_of(table.id).iter().filter(|index| index.column.name == column.name);
        let supports = |index: &&Arc<Index>| index.sasi.is_some_and(|sasi| sasi.is_literal());
        let indexes: Vec<Arc<Index>> = of_column.filter(supports).cloned().collect();
        if indexes.is_empty() {
            return Err(Self::refusal(column, value));
        }
        Ok(Self { pattern, indexes })
    }

    /// Returns the error of a LIKE that no index answers.
    pub fn refusal(column: &ColumnMetadata, value: &ast::Term) -> DatabaseError {
        DatabaseError::Invalid(format!(
            "LIKE restriction is only supported on properly indexed columns. {} LIKE {value} is not valid.",
            column.name
        ))
    }

    /// Returns the pattern of this execution.
    ///
    /// # Errors
    /// Invalid, for null, a pattern without text, and one that no index on the column supports.
    pub fn bind<'t>(&'t self, column: &ColumnMetadata, cx: &BindContext<'_>) -> Result<BoundLike<'t>> {
        let name = &column.name;
        let pattern = match self.pattern.bind(cx)? {
            Bound::Value(pattern) => pattern,
            Bound::Null => bail_invalid!("Unsupported null value for column {name}"),
            Bound::Unset => bail_invalid!("Unsupported unset value for column {name}"),
        };
        let Some((kind, text)) = LikeKind::of_pattern(&pattern) else {
            bail_invalid!("LIKE value can't be empty.");
        };
        let mut of_indexes = self.indexes.iter().filter_map(|index| Some((index, index.sasi?)));
        let Some((index, sasi)) = of_indexes.find(|(_, sasi)| sasi.supports_like(kind)) else {
            let text = match &column.data_type {
                DataType::Text | DataType::Ascii => String::from_utf8_lossy(text).into_owned(),
                other => to_literal(other, Some(text)),
            };
            bail_invalid!("{name} {} {text} is only supported on properly indexed columns", kind.name());
        };
        let terms = sasi.terms(text.into()).into_iter().map(|term| term.into_owned()).collect();
        Ok(BoundLike { index, kind, terms, sasi })
    }
}

impl BoundLike<'_> {
    /// Whether a value matches the pattern.
    pub fn matches(&self, value: &[u8]) -> bool {
        let has = |term: &[u8]| self.terms.iter().any(|wanted| self.kind.fits(term, wanted));
        self.sasi.terms(value.into()).iter().any(|term| has(term))
    }
}
