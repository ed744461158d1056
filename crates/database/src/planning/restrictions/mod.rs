//! WHERE: the partitions and rows of a statement, and the filters that are checked on each row.
//!
//! ```text
//! relations --Restrictions::new--> one ColumnRestriction for each column, one for the columns of
//!                                  each tuple, one token range; checked as in Cassandra
//! Restrictions + values ----------> keys or a key range, slices or clusterings, filters
//! ```

pub(crate) mod ann;
pub(crate) mod clustering;
pub(crate) mod column;
pub(crate) mod index;
pub(crate) mod like;
pub(crate) mod partition;
pub(crate) mod product;

use std::sync::Arc;

use cassette_cql::ast::{self, Operator, Relation, TupleInValues, TupleValue};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableMetadata};

use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::ColumnSpec;
use crate::planning::context::{BindContext, PlanContext};
use crate::schema::conditions::{ColumnRestriction, Filter, LikeTerms, SliceTerms, Term};
use crate::schema::indexes::{Analyzers, Index};
use index::IndexChoice;

pub(crate) use ann::{Ann, AnnOrderings};
pub(crate) use clustering::ClusteringRestrictions;
pub(crate) use index::Search;
pub(crate) use partition::{PartitionRestrictions, Partitions};

/// The kinds of statements with a WHERE; for INSERT, the key columns act as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Select,
    Insert,
    Update,
    Delete,
}

impl std::fmt::Display for StatementKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        })
    }
}

/// Cassandra's message for queries that read rows only to discard them.
pub(crate) const ALLOW_FILTERING_MESSAGE: &str = "Cannot execute this query as it might involve data \
    filtering and thus may have unpredictable performance. If you want to execute this query despite the \
    performance unpredictability, use ALLOW FILTERING";

/// A statement's WHERE, resolved against its table.
#[derive(Debug)]
pub(crate) struct Restrictions {
    /// The partitions.
    pub partition: PartitionRestrictions,
    /// The rows of the partitions.
    pub clustering: ClusteringRestrictions,
    /// The filters that are checked on each row; only for SELECT.
    pub filters: Vec<Filter>,
    /// Restrictions that slices check and an index supports, so that Cassandra requires values for
    /// them; only for SELECT.
    pub answered: Vec<Filter>,
    /// Searches of indexes, each of which finds all rows, the most selective ones first; only for
    /// SELECT.
    pub searches: Vec<Search>,
    /// The similarity search that orders the rows; only for SELECT.
    pub ann: Option<Ann>,
    /// The reason why the restrictions are not supported, reported if the statement is valid
    /// otherwise; only for SELECT.
    pub refusal: Option<&'static str>,
}

/// The properties of a statement that determine the rules for its WHERE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The kind of statement.
    pub kind: StatementKind,
    /// Whether only static columns are selected or modified.
    pub only_static_columns: bool,
    /// ALLOW FILTERING. Also true for virtual tables, which are always filtered.
    pub allow_filtering: bool,
    /// Whether clustering columns can be omitted or restricted to ranges: SELECT and DELETE.
    pub allow_clustering_slices: bool,
}

impl Restrictions {
    /// Returns the searches of indexes for which `is_built` holds; all searches if it holds for
    /// none.
    pub fn searches_of_built_indexes<'s>(
        &'s self,
        is_built: impl Fn(&Index) -> bool + 's,
    ) -> impl Iterator<Item = &'s Search> {
        let some_are_built = self.searches.iter().any(|search| search.indexes().all(|index| is_built(index)));
        self.searches
            .iter()
            .filter(move |search| !some_are_built || search.indexes().all(|index| is_built(index)))
    }

    /// Whether one index is searched for one value, which usually finds few rows.
    pub fn ask_one_index_for_a_value(&self) -> bool {
        matches!(&self.searches[..], [search] if search.is_for_value())
    }

    /// Resolves `where_clause` for a statement on `table`.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for relations that the statement does not support.
    pub fn new(
        where_clause: &ast::WhereClause,
        table: &Arc<TableMetadata>,
        rules: Rules,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        Self::ordered(where_clause, AnnOrderings::default(), table, rules, cx)
    }

    /// [`Self::new`] for a SELECT with these similarity searches.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for relations and searches that are not supported.
    pub fn ordered(
        where_clause: &ast::WhereClause,
        orderings: AnnOrderings,
        table: &Arc<TableMetadata>,
        rules: Rules,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        if !where_clause.expressions.is_empty() {
            match rules.kind {
                StatementKind::Select => {
                    return Err(index::refuse_expressions(&where_clause.expressions, table, cx));
                }
                _ => bail_invalid!(
                    "Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE statements"
                ),
            }
        }
        let mut partition = PartitionRestrictions::new(table);
        let mut clustering = ClusteringRestrictions::new(table);
        let mut filters: Vec<Filter> = Vec::new();
        for relation in &where_clause.relations {
            add_relation(relation, table, rules, &mut partition, &mut clustering, &mut filters, cx)?;
        }
        let indexes = indexes_of(table, rules, cx);
        let mut restrictions = Self {
            partition,
            clustering,
            filters,
            answered: Vec::new(),
            searches: Vec::new(),
            ann: None,
            refusal: None,
        };
        let ann = orderings.only(&restrictions.filters, indexes)?;
        restrictions.validate(table, rules, indexes, ann)?;
        Ok(restrictions)
    }

    /// Resolves relations `column = term`: the key columns of an INSERT.
    pub fn of_insert(
        columns: Vec<(Arc<ColumnMetadata>, Term)>,
        table: &Arc<TableMetadata>,
        only_static_columns: bool,
    ) -> Result<Self> {
        let mut partition = PartitionRestrictions::new(table);
        let mut clustering = ClusteringRestrictions::new(table);
        for (column, term) in columns {
            let restriction = ColumnRestriction::Eq(term);
            match column.kind {
                ColumnKind::PartitionKey => partition.add(&column, restriction)?,
                _ => clustering.add(&column, restriction, false)?,
            }
        }
        let rules = Rules {
            kind: StatementKind::Insert,
            only_static_columns,
            allow_filtering: false,
            allow_clustering_slices: false,
        };
        let mut restrictions = Self {
            partition,
            clustering,
            filters: Vec::new(),
            answered: Vec::new(),
            searches: Vec::new(),
            ann: None,
            refusal: None,
        };
        restrictions.validate(table, rules, &[], None)?;
        Ok(restrictions)
    }

    /// Whether the partition key is restricted.
    pub fn restrict_partition_key(&self) -> bool {
        !self.partition.is_empty() || self.filters.iter().any(is_of_partition_key)
    }

    /// Whether the partition key has an IN.
    pub fn have_partition_in(&self) -> bool {
        let is_in = |filter: &Filter| {
            is_of_partition_key(filter) && matches!(filter.restriction, ColumnRestriction::In(_))
        };
        self.partition.has_in() || self.filters.iter().any(is_in)
    }

    /// Whether no partition is named, or no row, or only empty ranges.
    pub fn exclude_all(&self, cx: &BindContext<'_>) -> Result<bool> {
        if self.partition.names_keys() && self.partition.keys(cx)?.is_empty() {
            return Ok(true);
        }
        self.clustering.excludes_all(cx)
    }

    /// Whether the column is restricted to one value.
    pub fn is_equal(&self, column: &ColumnMetadata) -> bool {
        let by_key = match column.kind {
            ColumnKind::PartitionKey => self.partition.is_equal(column.position),
            ColumnKind::Clustering => self.clustering.is_equal(column.position),
            ColumnKind::Static | ColumnKind::Regular => false,
        };
        by_key
            || self.filters.iter().any(|filter| {
                filter.column.name == column.name && matches!(filter.restriction, ColumnRestriction::Eq(_))
            })
    }

    fn validate(
        &mut self,
        table: &TableMetadata,
        rules: Rules,
        indexes: &[Arc<Index>],
        ann: Option<ann::Candidate>,
    ) -> Result<()> {
        let is_ordered = ann.as_ref().is_some_and(ann::Candidate::has_index);
        let mut choice = IndexChoice::new(self, indexes, is_ordered);
        let has_index = choice.has_index();
        let restricted_clustering = self.clustering.restricted_columns();
        let has_partition_in = self.have_partition_in();
        let partition_filters = self.partition.validate(table, rules, has_index)?;
        choice.partition_checked(&self.partition, !partition_filters.is_empty());
        if rules.only_static_columns && !self.clustering.is_empty() {
            match rules.kind {
                StatementKind::Update | StatementKind::Delete => bail_invalid!(
                    "Invalid restrictions on clustering columns since the {} statement modifies only static columns",
                    rules.kind
                ),
                StatementKind::Select => {
                    bail_invalid!("Cannot restrict clustering columns when selecting only static columns")
                }
                StatementKind::Insert => {}
            }
        }
        let clustering_filters = self.clustering.validate(rules, has_index)?;
        choice.clustering_checked(!clustering_filters.is_empty());
        if !self.filters.is_empty() && rules.kind != StatementKind::Select {
            let names: Vec<&str> = self.filters.iter().map(|f| f.column.name.as_str()).collect();
            bail_invalid!("Non PRIMARY KEY columns found in where clause: {} ", names.join(", "));
        }
        let filtered = (!partition_filters.is_empty(), !clustering_filters.is_empty());
        let has_others = !self.filters.is_empty() || ann.is_some();
        match ann {
            Some(ann) => self.ann = Some(ann.validate(self, indexes, filtered, &restricted_clustering)?),
            None => ann::refuse_values_of_vectors(&self.filters, indexes)?,
        }
        if !self.filters.is_empty() && !rules.allow_filtering && !has_index {
            bail_invalid!("{ALLOW_FILTERING_MESSAGE}");
        }
        choice.others_checked(has_others);
        if choice.uses_index() && has_partition_in {
            bail_invalid!(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"
            );
        }
        self.searches = choice.searches();
        self.answered = choice.answered_clustering();
        self.refusal = if !rules.allow_filtering && choice.leaves_to_filter() {
            Some(ALLOW_FILTERING_MESSAGE)
        } else {
            self.clustering.refusal().or(choice.refusal())
        };
        let rest = std::mem::take(&mut self.filters);
        self.filters = partition_filters.into_iter().chain(clustering_filters).chain(rest).collect();
        for filter in &mut self.filters {
            filter.analyzers = choice.analyzers(&filter.column, &filter.restriction);
        }
        Ok(())
    }
}

/// Returns the indexes that a statement may search.
fn indexes_of<'c>(table: &TableMetadata, rules: Rules, cx: &PlanContext<'c>) -> &'c [Arc<Index>] {
    match rules.kind {
        StatementKind::Select => cx.catalog.indexes_of(table.id),
        _ => &[],
    }
}

fn add_relation(
    relation: &Relation,
    table: &Arc<TableMetadata>,
    rules: Rules,
    partition: &mut PartitionRestrictions,
    clustering: &mut ClusteringRestrictions,
    filters: &mut Vec<Filter>,
    cx: &mut PlanContext<'_>,
) -> Result<()> {
    refuse_unequal(relation)?;
    let indexes = indexes_of(table, rules, cx);
    match relation {
        Relation::IsNotNull { column } => {
            bail_invalid!("Unsupported restriction: {column} IS NOT NULL")
        }
        Relation::Tuple { columns, operator, value } => {
            let columns = tuple_columns(columns, relation, table)?;
            let restriction = match operator {
                Operator::Eq => ColumnRestriction::Eq(Term::Null),
                _ => ColumnRestriction::Slice(SliceTerms::default()),
            };
            let answers = |index: &Arc<Index>| columns.iter().any(|c| index.supports(c, &restriction));
            let allow_gaps = rules.allow_filtering || indexes.iter().any(answers);
            clustering.add_tuple(&columns, *operator, value, allow_gaps, cx)
        }
        Relation::TupleIn { columns, values } => clustering.add_tuple_in(
            &tuple_columns(columns, relation, table)?,
            values,
            rules.allow_filtering,
            cx,
        ),
        Relation::Token { columns, operator, value } => {
            let columns = columns.iter().map(|name| existing(table, name)).collect::<Result<Vec<_>>>()?;
            partition.add_token(&columns, *operator, value, table, cx)
        }
        Relation::Column { column, operator, value } => {
            if matches!(operator, Operator::Contains | Operator::ContainsKey)
                && matches!(rules.kind, StatementKind::Update | StatementKind::Delete)
            {
                bail_invalid!("Cannot use {} with {operator}", rules.kind);
            }
            let column = existing(table, column)?;
            let restriction = ColumnRestriction::relation(&column, *operator, value, table, cx)?;
            if *operator == Operator::Like && rules.kind != StatementKind::Select {
                return Err(LikeTerms::refusal(&column, value));
            }
            add_column(column, restriction, rules, indexes, partition, clustering, filters)
        }
        Relation::In { column, values } => {
            let column = existing(table, column)?;
            let restriction = ColumnRestriction::in_relation(&column, values, table, cx)?;
            add_column(column, restriction, rules, indexes, partition, clustering, filters)
        }
        Relation::Element { column, key, operator, value } => {
            let column = existing(table, column)?;
            let restriction = ColumnRestriction::element(&column, key, *operator, value, table, cx)?;
            add_column(column, restriction, rules, indexes, partition, clustering, filters)
        }
    }
}

fn is_of_partition_key(filter: &Filter) -> bool {
    filter.column.kind == ColumnKind::PartitionKey
}

/// Rejects `!=`, before the columns are resolved.
fn refuse_unequal(relation: &Relation) -> Result<()> {
    match relation {
        Relation::Tuple { operator: Operator::Neq, .. } => {
            bail_invalid!("Unsupported \"!=\" relation: {}", tuple_text(relation))
        }
        Relation::Token { columns, operator: Operator::Neq, value } => {
            let columns = columns.iter().map(ast::Identifier::as_str).collect::<Vec<_>>().join(", ");
            bail_invalid!("Unsupported \"!=\" relation: token({columns}) != {}", value.shown(None))
        }
        Relation::Column { column, operator: Operator::Neq, value } => {
            bail_invalid!("Unsupported \"!=\" relation: {column} != {}", value.shown(None))
        }
        Relation::Element { column, key, operator: Operator::Neq, value } => {
            let (key, value) = (key.shown(None), value.shown(None));
            bail_invalid!("Unsupported \"!=\" relation: {column}[{key}] != {value}")
        }
        _ => Ok(()),
    }
}

/// Returns the filters of a materialized view: its WHERE without IS NOT NULL.
///
/// # Errors
/// Invalid, with Cassandra's texts, for restrictions that views do not support.
pub(crate) fn view_filters(
    where_clause: &ast::WhereClause,
    table: &Arc<TableMetadata>,
    cx: &mut PlanContext<'_>,
) -> Result<Vec<Filter>> {
    let mut filters: Vec<Filter> = Vec::new();
    let mut add = |column: Arc<ColumnMetadata>, restriction: ColumnRestriction| match filters
        .iter_mut()
        .find(|filter| filter.column.name == column.name)
    {
        Some(filter) => filter.restriction.merge(restriction, &column.name),
        None => {
            filters.push(Filter { column, restriction, analyzers: Analyzers::default() });
            Ok(())
        }
    };
    for relation in &where_clause.relations {
        refuse_unequal(relation)?;
        match relation {
            Relation::IsNotNull { column } => {
                existing(table, column)?;
            }
            Relation::Token { .. } => {
                bail_invalid!("Cannot use token relation when defining a materialized view")
            }
            // A view cannot depend on an index, which can be dropped.
            Relation::Column { column, operator: Operator::Like, value } => {
                let column = existing(table, column)?;
                ColumnRestriction::validate_operator(&column, Operator::Like)?;
                Term::prepare(value, &receiver(table, &column), cx)?;
                if matches!(column.kind, ColumnKind::Regular | ColumnKind::Static) {
                    bail_invalid!(
                        "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted \
                         illegally)",
                        column.name
                    );
                }
                return Err(LikeTerms::refusal(&column, value));
            }
            Relation::Column { column, operator, value } => {
                let column = existing(table, column)?;
                let restriction = ColumnRestriction::relation(&column, *operator, value, table, cx)?;
                add(column, restriction)?;
            }
            Relation::In { column, values } => {
                let column = existing(table, column)?;
                let restriction = ColumnRestriction::in_relation(&column, values, table, cx)?;
                add(column, restriction)?;
            }
            Relation::Element { column, key, operator, value } => {
                let column = existing(table, column)?;
                let restriction = ColumnRestriction::element(&column, key, *operator, value, table, cx)?;
                add(column, restriction)?;
            }
            Relation::Tuple { columns, operator: Operator::Eq, value: TupleValue::Literal(terms) }
                if terms.len() == columns.len() =>
            {
                for (column, term) in tuple_columns(columns, relation, table)?.into_iter().zip(terms) {
                    let term = Term::prepare(term, &receiver(table, &column), cx)?;
                    add(column, ColumnRestriction::Eq(term))?;
                }
            }
            Relation::Tuple { .. } | Relation::TupleIn { .. } => {
                bail_invalid!(
                    "{} in the WHERE of a materialized view is not supported by Cassette yet",
                    tuple_text(relation)
                )
            }
        }
    }
    Ok(filters)
}

fn add_column(
    column: Arc<ColumnMetadata>,
    restriction: ColumnRestriction,
    rules: Rules,
    indexes: &[Arc<Index>],
    partition: &mut PartitionRestrictions,
    clustering: &mut ClusteringRestrictions,
    filters: &mut Vec<Filter>,
) -> Result<()> {
    match column.kind {
        ColumnKind::PartitionKey => partition.add(&column, restriction),
        ColumnKind::Clustering => {
            let is_indexed = indexes.iter().any(|index| index.supports(&column, &restriction));
            clustering.add(&column, restriction, rules.allow_filtering || is_indexed)
        }
        ColumnKind::Static | ColumnKind::Regular => {
            match filters.iter_mut().find(|f| f.column.name == column.name) {
                Some(filter) => filter.restriction.merge(restriction, &column.name)?,
                None => filters.push(Filter { column, restriction, analyzers: Analyzers::default() }),
            }
            Ok(())
        }
    }
}

/// Returns the column called `name`.
///
/// # Errors
/// Invalid, with Cassandra's text, if the table has none, or a hidden one.
pub(crate) fn existing(table: &TableMetadata, name: &str) -> Result<Arc<ColumnMetadata>> {
    match table.visible_column(name) {
        Some(column) => Ok(column.clone()),
        None => bail_invalid!(
            "Undefined column name {} in table {}.{}",
            ast::quote_identifier(name),
            ast::quote_identifier(&table.keyspace),
            ast::quote_identifier(&table.name)
        ),
    }
}

/// Returns the receiver of a value that is compared with a column.
pub(crate) fn receiver(table: &TableMetadata, column: &ColumnMetadata) -> Arc<ColumnSpec> {
    named_receiver(table, &column.name, column.data_type.clone())
}

/// Returns a receiver in `table` with the specified name and type.
pub(crate) fn named_receiver(table: &TableMetadata, name: &str, data_type: DataType) -> Arc<ColumnSpec> {
    Arc::new(ColumnSpec {
        keyspace: table.keyspace.as_str().into(),
        table: table.name.as_str().into(),
        name: name.into(),
        data_type,
    })
}

/// Returns the columns of a multi-column relation: clustering columns, in order and without gaps.
fn tuple_columns(
    names: &[ast::Identifier],
    relation: &Relation,
    table: &TableMetadata,
) -> Result<Vec<Arc<ColumnMetadata>>> {
    let mut columns: Vec<Arc<ColumnMetadata>> = Vec::with_capacity(names.len());
    for name in names {
        let column = existing(table, name)?;
        if column.kind != ColumnKind::Clustering {
            bail_invalid!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                column.name
            );
        }
        if columns.iter().any(|c| c.name == column.name) {
            bail_invalid!(
                "Column \"{}\" appeared twice in a relation: {}",
                column.name,
                tuple_text(relation)
            );
        }
        if columns.last().is_some_and(|last| column.position != last.position + 1) {
            bail_invalid!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                tuple_text(relation)
            );
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Returns a relation of several columns as shown in messages: `(a, b) = (1, 2)`.
fn tuple_text(relation: &Relation) -> String {
    let joined = |parts: Vec<String>| format!("({})", parts.join(", "));
    let tuple = |terms: &[ast::Term]| joined(terms.iter().map(|term| term.shown(None).to_string()).collect());
    let left = |columns: &[ast::Identifier]| joined(columns.iter().map(|c| c.as_str().to_owned()).collect());
    match relation {
        Relation::Tuple { columns, operator, value } => {
            let value = match value {
                TupleValue::Literal(terms) => tuple(terms),
                TupleValue::BindMarker(marker) => marker.to_string(),
            };
            format!("{} {operator} {value}", left(columns))
        }
        Relation::TupleIn { columns, values } => {
            let values = match values {
                TupleInValues::Literals(tuples) => joined(tuples.iter().map(|terms| tuple(terms)).collect()),
                TupleInValues::BindMarkers(markers) => {
                    joined(markers.iter().map(ToString::to_string).collect())
                }
                TupleInValues::BindMarker(marker) => marker.to_string(),
            };
            format!("{} IN {values}", left(columns))
        }
        _ => String::new(),
    }
}
