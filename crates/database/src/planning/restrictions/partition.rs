//! Restrictions of the partition key: keys, or a range of tokens.

use std::ops::{Bound as RangeBound, RangeBounds};
use std::sync::Arc;

use cassette_cql::ast::{self, Operator};
use cassette_engine::KeyRange;
use cassette_rows::{ColumnMetadata, DataType, DecoratedKey, TableMetadata, Token, interrupt, key};

use super::column::names;
use super::product::{self, Product};
use super::{ALLOW_FILTERING_MESSAGE, Rules, StatementKind, named_receiver};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, Filter, SliceTerms, Term};
use crate::schema::indexes::Analyzers;

/// The restrictions of the partition key in a WHERE.
#[derive(Debug)]
pub(crate) struct PartitionRestrictions {
    /// By position.
    columns: Vec<Option<ColumnRestriction>>,
    /// Boxed, as few statements have it and plans are many.
    token: Option<Box<TokenRestriction>>,
    /// The components, for messages and comparison.
    key: Vec<Arc<ColumnMetadata>>,
}

#[derive(Debug)]
enum TokenRestriction {
    Eq(Term),
    Slice(SliceTerms),
}

/// The partitions of one execution.
#[derive(Debug)]
pub(crate) enum Partitions {
    /// Distinct partitions in the order of the key's values.
    Keys(Vec<DecoratedKey>),
    /// The partitions in a range of tokens.
    Range(KeyRange),
}

impl PartitionRestrictions {
    pub(crate) fn new(table: &TableMetadata) -> Self {
        Self {
            columns: table.partition_key.iter().map(|_| None).collect(),
            token: None,
            key: table.partition_key.clone(),
        }
    }

    pub(crate) fn add(&mut self, column: &ColumnMetadata, restriction: ColumnRestriction) -> Result<()> {
        match &mut self.columns[column.position] {
            Some(old) => old.merge(restriction, &column.name),
            slot => {
                *slot = Some(restriction);
                Ok(())
            }
        }
    }

    pub(crate) fn add_token(
        &mut self,
        columns: &[Arc<ColumnMetadata>],
        operator: Operator,
        value: &ast::Term,
        table: &TableMetadata,
        cx: &mut PlanContext<'_>,
    ) -> Result<()> {
        if columns.len() != self.key.len() || columns.iter().zip(&self.key).any(|(a, b)| a.name != b.name) {
            if self.key.iter().any(|k| !columns.iter().any(|c| c.name == k.name)) {
                bail_invalid!(
                    "The token() function must be applied to all partition key components or none of them"
                );
            }
            if columns.len() > self.key.len() {
                let is_twice = |i: usize| columns[..i].iter().any(|c| c.name == columns[i].name);
                if (0..columns.len()).any(is_twice) {
                    bail_invalid!("The token() function contains duplicate partition key components");
                }
                bail_invalid!("The token() function must contains only partition key components");
            }
            bail_invalid!(
                "The token function arguments must be in the partition key order: {}",
                names(&self.key)
            );
        }
        let to = named_receiver(table, "partition key token", DataType::BigInt);
        let term = Term::prepare(value, &to, cx)?;
        let all = names(&self.key);
        match (operator, self.token.as_deref_mut()) {
            (Operator::Eq, None) => self.token = Some(Box::new(TokenRestriction::Eq(term))),
            (_, Some(TokenRestriction::Eq(_))) => {
                bail_invalid!("{all} cannot be restricted by more than one relation if it includes an Equal")
            }
            (Operator::Eq, Some(TokenRestriction::Slice(_))) => {
                bail_invalid!(
                    "Columns \"{all}\" cannot be restricted by both an equality and an inequality relation"
                )
            }
            (_, old) => {
                let Some(slice) = SliceTerms::new(operator, term) else {
                    bail_invalid!("{operator} cannot be used with the token function");
                };
                match old {
                    Some(TokenRestriction::Slice(old)) => old.merge(slice, &all)?,
                    _ => self.token = Some(Box::new(TokenRestriction::Slice(slice))),
                }
            }
        }
        Ok(())
    }

    /// Returns the restrictions of single columns.
    pub(crate) fn single_columns(&self) -> impl Iterator<Item = (&Arc<ColumnMetadata>, &ColumnRestriction)> {
        let both = self.key.iter().zip(&self.columns);
        both.filter_map(|(column, restriction)| Some((column, restriction.as_ref()?)))
    }

    /// Whether a range of tokens is specified.
    pub(crate) fn is_on_token(&self) -> bool {
        self.token.is_some()
    }

    /// Checks that the statement supports the restrictions, and returns the filters. `has_index`:
    /// an index supports some restriction of the statement.
    pub(crate) fn validate(
        &mut self,
        table: &TableMetadata,
        rules: Rules,
        has_index: bool,
    ) -> Result<Vec<Filter>> {
        let missing: Vec<&str> = self
            .columns
            .iter()
            .zip(&self.key)
            .filter(|(restriction, _)| restriction.is_none())
            .map(|(_, column)| column.name.as_str())
            .collect();
        let lists = |r: &Option<ColumnRestriction>| r.as_ref().is_none_or(ColumnRestriction::lists_values);
        let all_listable = self.columns.iter().all(lists);
        if rules.kind != StatementKind::Select {
            if self.token.is_some() {
                bail_invalid!(
                    "The token function cannot be used in WHERE clauses for {} statements",
                    rules.kind
                );
            }
            if !missing.is_empty() {
                bail_invalid!("Some partition key parts are missing: {}", missing.join(", "));
            }
            if !all_listable {
                bail_invalid!(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() \
                     function) for {} statements",
                    rules.kind
                );
            }
            return Ok(Vec::new());
        }
        let restricted = self.columns.iter().any(Option::is_some);
        if !restricted || (missing.is_empty() && all_listable) {
            return Ok(Vec::new());
        }
        if !rules.allow_filtering && !has_index {
            bail_invalid!("{ALLOW_FILTERING_MESSAGE}");
        }
        let filters =
            self.columns.iter_mut().zip(&table.partition_key).filter_map(|(restriction, column)| {
                restriction.take().map(|restriction| Filter {
                    column: column.clone(),
                    restriction,
                    analyzers: Analyzers::default(),
                })
            });
        Ok(filters.collect())
    }

    /// Whether keys are named, so that no range is read.
    pub fn names_keys(&self) -> bool {
        self.columns.iter().all(Option::is_some)
    }

    /// Whether the component at `position` is restricted to one value.
    pub fn is_equal(&self, position: usize) -> bool {
        matches!(self.columns.get(position), Some(Some(ColumnRestriction::Eq(_))))
    }

    /// Whether several keys may be named: some component has an IN.
    pub fn has_in(&self) -> bool {
        self.columns.iter().flatten().any(|r| matches!(r, ColumnRestriction::In(_)))
    }

    /// Whether no component is restricted.
    pub fn is_empty(&self) -> bool {
        self.token.is_none() && self.columns.iter().all(Option::is_none)
    }

    /// Returns the partitions of one execution.
    ///
    /// # Errors
    /// Invalid, for null components and keys that are too long.
    pub fn partitions(&self, cx: &BindContext<'_>) -> Result<Partitions> {
        if !self.names_keys() {
            let (start, end) = match &self.token {
                Some(token) => token.range(cx)?,
                None => (RangeBound::Unbounded, RangeBound::Unbounded),
            };
            // No key has the minimum token. As in Cassandra, the range from it to itself is the
            // whole ring.
            let least = RangeBound::Included(Token(i64::MIN));
            let (start, end) = if (start, end) == (least, least) {
                (RangeBound::Unbounded, RangeBound::Unbounded)
            } else {
                (start, end)
            };
            return Ok(Partitions::Range(KeyRange::tokens(start, end)));
        }
        let mut keys = self.unchecked_keys(cx)?;
        if let Some(token) = &self.token {
            let bounds = token.bounds(cx)?;
            keys.retain(|key| admits(bounds, key.token()));
        }
        Ok(Partitions::Keys(keys))
    }

    /// Returns the keys of one execution, if keys are named.
    ///
    /// # Errors
    /// Invalid, for null components, and keys that are empty or too long.
    pub fn keys(&self, cx: &BindContext<'_>) -> Result<Vec<DecoratedKey>> {
        let keys = self.unchecked_keys(cx)?;
        refuse_empty(&keys)?;
        Ok(keys)
    }

    /// [`keys`](Self::keys), of which one can be empty.
    fn unchecked_keys(&self, cx: &BindContext<'_>) -> Result<Vec<DecoratedKey>> {
        // The common case, without a product.
        if let ([Some(ColumnRestriction::Eq(term))], [column]) = (&self.columns[..], &self.key[..]) {
            let value = crate::planning::restrictions::column::not_null(term.bind(cx)?, &column.name)?;
            return Ok(vec![compose(&[&value])?]);
        }
        let mut lists = Vec::with_capacity(self.columns.len());
        // As in Cassandra, repeated values count, too. The product is checked before combinations
        // are built.
        let mut product = 1_usize;
        for (restriction, column) in self.columns.iter().zip(&self.key) {
            let Some(restriction) = restriction else { return Ok(Vec::new()) };
            let mut values = restriction.values(&column.name, cx)?;
            if values.is_empty() {
                // As in Cassandra, the others are not bound.
                return Ok(Vec::new());
            }
            product = product.saturating_mul(values.len());
            if self.has_in() {
                cx.guard().product("partition key", product)?;
            }
            values.sort_by(|a, b| column.data_type.compare(a, b));
            values.dedup_by(|a, b| column.data_type.compare(a, b).is_eq());
            lists.push(values);
        }
        let mut count = 1;
        for values in &lists {
            count = product::count(count, values.len(), Product::PartitionKeys)?;
        }
        // The values of the last column change fastest; one buffer of components is used for all
        // keys.
        let mut keys = Vec::with_capacity(count);
        let mut components: Vec<&[u8]> = Vec::with_capacity(lists.len());
        for combination in 0..count {
            interrupt::check()?;
            components.clear();
            let mut stride = count;
            for values in &lists {
                stride /= values.len();
                components.push(&values[combination / stride % values.len()]);
            }
            keys.push(compose(&components)?);
        }
        Ok(keys)
    }
}

fn compose(components: &[&[u8]]) -> Result<DecoratedKey> {
    match key::compose(components.iter().copied()) {
        Some(key) => Ok(DecoratedKey::new(key)),
        None => Err(DatabaseError::Invalid(format!(
            "Key length of {} is longer than maximum of {}",
            components.iter().map(|c| c.len()).sum::<usize>(),
            key::MAX_KEY_LENGTH
        ))),
    }
}

/// Rejects an empty key.
pub(crate) fn refuse_empty(keys: &[DecoratedKey]) -> Result<()> {
    if keys.iter().any(|key| key.key().is_empty()) {
        bail_invalid!("Key may not be empty");
    }
    Ok(())
}

/// Whether a key with this token satisfies the restrictions of tokens. As in Cassandra, a range
/// whose start is after its end wraps around.
fn admits(bounds: (RangeBound<Token>, RangeBound<Token>), token: Token) -> bool {
    let (start, end) = bounds;
    let is_after_start = (start, RangeBound::Unbounded).contains(&token);
    let is_before_end = (RangeBound::Unbounded, end).contains(&token);
    match (start, end) {
        (
            RangeBound::Included(first) | RangeBound::Excluded(first),
            RangeBound::Included(last) | RangeBound::Excluded(last),
        ) if first > last => is_after_start || is_before_end,
        _ => is_after_start && is_before_end,
    }
}

impl TokenRestriction {
    /// Returns the bounds of the token range.
    fn range(&self, cx: &BindContext<'_>) -> Result<(RangeBound<Token>, RangeBound<Token>)> {
        let (start, end) = self.bounds(cx)?;
        // As in Cassandra, the minimum token as an upper bound is the end of the ring.
        let end = match (self, end) {
            (Self::Slice(_), RangeBound::Included(Token::MIN) | RangeBound::Excluded(Token::MIN)) => {
                RangeBound::Unbounded
            }
            _ => end,
        };
        // As a lower bound it is the start of the ring, before the empty key, which views can have.
        let start = match start {
            RangeBound::Excluded(Token::MIN) => RangeBound::Included(Token::MIN),
            start => start,
        };
        Ok((start, end))
    }

    /// Returns the bounds as specified.
    fn bounds(&self, cx: &BindContext<'_>) -> Result<(RangeBound<Token>, RangeBound<Token>)> {
        let bound = |of: &Option<(Term, bool)>| -> Result<RangeBound<Token>> {
            Ok(match of {
                None => RangeBound::Unbounded,
                Some((term, true)) => RangeBound::Included(token(term, cx)?),
                Some((term, false)) => RangeBound::Excluded(token(term, cx)?),
            })
        };
        match self {
            Self::Eq(term) => {
                let token = token(term, cx)?;
                Ok((RangeBound::Included(token), RangeBound::Included(token)))
            }
            Self::Slice(slice) => Ok((bound(&slice.lower)?, bound(&slice.upper)?)),
        }
    }
}

fn token(term: &Term, cx: &BindContext<'_>) -> Result<Token> {
    match term.bind(cx)? {
        Bound::Value(value) => match <[u8; 8]>::try_from(&*value) {
            Ok(bytes) => Ok(Token(i64::from_be_bytes(bytes))),
            Err(_) => bail_invalid!("Invalid token value"),
        },
        Bound::Null => bail_invalid!("Invalid null token value"),
        Bound::Unset => bail_invalid!("Invalid unset value for partition key token"),
    }
}
