//! `ORDER BY v ANN OF vector LIMIT n`: the rows whose vectors are the most similar to one.
//!
//! The graph of the index returns similar vectors, whose entries lead to their rows. Where there is
//! no graph, or where it would be a detour, all rows that satisfy the restrictions are compared.
//! Either way, the most similar rows are kept.

use std::collections::HashSet;

use cassette_engine::{KeyRange, may_wait};
use cassette_rows::{DataType, TableMetadata, interrupt};
use cassette_vectors::{Similarity, floats};

use super::execute::Run;
use super::reader::{Flow, Reader};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::Consistency;
use crate::basics::response::RowSink;
use crate::execution::Execution;
use crate::planning::restrictions::{Ann, Partitions};
use crate::planning::select::expression::Input;
use crate::planning::select::limits::Limits;
use crate::planning::select::row::KeptRow;
use crate::planning::select::{CurrentRow, SelectPlan};
use crate::planning::terms::Bound;
use crate::store::indexes::vectors::VectorGraph;

/// Cassandra's maximum LIMIT, `cassandra.sai.vector_search.max_top_k`.
const LIMIT_MAX: u32 = 1000;

/// The number of vectors that are searched in a graph at first, and its growth until enough rows
/// satisfy the restrictions.
const BREADTH: usize = 128;
const BREADTH_GROWTH: usize = 4;

/// The number of vectors of a graph that are checked. Where so few rows satisfy the restrictions
/// that more would be necessary, all rows are compared instead.
const VECTORS_MAX: usize = 20_000;

/// The number of rows that other indexes find which are compared without the graph: about as many
/// as it takes to search a graph for rows that satisfy the restrictions.
const FEW_ROWS: usize = if cfg!(test) { 4 } else { 1000 };

impl SelectPlan {
    /// Applies Cassandra's rules for similarity searches, some of which are warnings.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts.
    pub(super) fn check_similarity_search(
        &self,
        execution: &Execution<'_>,
        limits: &Limits,
        page_size: Option<u32>,
    ) -> Result<()> {
        if self.group_by.is_some() || self.outputs.has_aggregates() {
            bail_invalid!("Top-K queries can not be run with aggregation");
        }
        let consistency = execution.options.consistency;
        if consistency.is_serial() {
            bail_invalid!(
                "Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level \
                 {consistency} was used."
            );
        }
        let used = match consistency {
            Consistency::One | Consistency::LocalOne => consistency,
            Consistency::LocalQuorum => Consistency::LocalOne,
            _ => Consistency::One,
        };
        if used != consistency {
            execution.warn(format!(
                "Top-K queries can only be run with consistency level ONE / LOCAL_ONE / NODE_LOCAL. \
                 Consistency level {consistency} was requested. Downgrading the consistency level to {used}."
            ));
        }
        if limits.in_partition().is_some() {
            bail_invalid!("Top-K queries do not support per-partition limits");
        }
        let Some(limit) = limits.total() else {
            bail_invalid!(
                "Top-K queries must have a limit specified and the limit must be less than the query page size"
            );
        };
        if let Some(size) = page_size.filter(|size| *size < limit) {
            execution.warn(format!(
                "Top-K queries do not support paging and the page size is set to {size}, which is less than \
                 LIMIT {limit}. The page size has been set to {limit} to match the LIMIT."
            ));
        }
        Ok(())
    }

    /// Pushes the most similar rows, the most similar one first.
    pub(super) fn push_similar(
        &self,
        ann: &Ann,
        run: Run<'_, '_>,
        limits: &Limits,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let execution = run.execution;
        // Checks the values of the other restrictions first, as Cassandra does.
        let reader = Reader::new(self, execution, None)?;
        let name = &ann.column.name;
        let query = match ann.term.bind(execution)? {
            Bound::Value(value) => value,
            Bound::Null => bail_invalid!("Unsupported null value for column {name}"),
            Bound::Unset => bail_invalid!("Unsupported unset value for column {name}"),
        };
        let limit = limits.total().unwrap_or(u32::MAX);
        if limit > LIMIT_MAX {
            bail_invalid!(
                "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {LIMIT_MAX}. \
                 LIMIT was {limit}"
            );
        }
        let query = Query::new(ann, &query).map_err(|message| DatabaseError::ReadFailure {
            consistency: execution.options.consistency,
            message,
            cause: None,
        })?;
        // Comparisons take longer than other clients of this thread should wait.
        if !may_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        let nearest = self.nearest(&query, limit as usize, reader)?;
        for row in nearest.into_rows() {
            let input = Input { row: Some(row.get()), terms: run.terms, aggregates: &[], cx: execution };
            self.outputs.push(input, sink)?;
        }
        Ok(())
    }

    /// Returns the nearest rows.
    fn nearest<'p>(&'p self, query: &Query<'_>, limit: usize, reader: Reader<'p, '_>) -> Result<Nearest<'p>> {
        let execution = reader.execution;
        execution.store.require_built(execution, &query.ann.index)?;
        // Vectors of one partition are not near each other in the graph.
        let Partitions::Range(range) = &reader.partitions else {
            return self.compare_all(query, limit, usize::MAX, reader).map(|(nearest, _)| nearest);
        };
        let graph = execution.store.build_states().graphs.loaded(query.ann.index.storage.id);
        let Some(graph) = graph.filter(|graph| graph.is_complete()) else {
            return self.compare_all(query, limit, usize::MAX, reader).map(|(nearest, _)| nearest);
        };
        let range = range.clone();
        let again = || Reader::new(self, execution, None);
        if !self.restrictions.searches.is_empty()
            && let (nearest, true) = self.compare_all(query, limit, FEW_ROWS, again()?)?
        {
            return Ok(nearest);
        }
        match self.search_graph(query, limit, &graph, &range, &reader)? {
            Some(nearest) => Ok(nearest),
            None => self.compare_all(query, limit, usize::MAX, again()?).map(|(nearest, _)| nearest),
        }
    }

    /// Compares all rows of `reader`. Returns the nearest ones, and whether they were at most `max`
    /// rows; it ends when they are more.
    fn compare_all<'p>(
        &'p self,
        query: &Query<'_>,
        limit: usize,
        max: usize,
        mut reader: Reader<'p, '_>,
    ) -> Result<(Nearest<'p>, bool)> {
        let mut nearest = Nearest::new(limit, &self.table);
        let now = reader.execution.now_seconds;
        let mut rows = 0;
        reader.for_each(&mut Limits::NONE.clone(), &mut |row, _| {
            rows += 1;
            if rows > max {
                return Ok(Flow::Stop);
            }
            if let Some(distance) = query.distance(row, now) {
                nearest.offer(distance, row);
            }
            Ok(Flow::Continue)
        })?;
        Ok((nearest, rows <= max))
    }

    /// Searches the graph of an index. Returns `None` if it does not lead to enough rows that
    /// satisfy the restrictions.
    fn search_graph<'p>(
        &'p self,
        query: &Query<'_>,
        limit: usize,
        graph: &VectorGraph,
        range: &KeyRange,
        reader: &Reader<'p, '_>,
    ) -> Result<Option<Nearest<'p>>> {
        let mut nearest = Nearest::new(limit, &self.table);
        let now = reader.execution.now_seconds;
        let (mut seen, mut removals, mut rows) = (HashSet::new(), Vec::new(), 0);
        let mut breadth = BREADTH.max(2 * limit);
        let is_all_partitions = *range == KeyRange::ALL;
        let found_all = loop {
            let Some((found, are_more)) = graph.search(&query.raw, breadth) else { break false };
            for vector in &found {
                // Each further vector is farther than the rows that were found.
                if rows >= limit {
                    break;
                }
                interrupt::check()?;
                let Some(bytes) = graph.bytes(vector) else { break };
                if seen.contains(&bytes) {
                    continue;
                }
                let has_entries = reader.for_each_with_vector(
                    &query.ann.index,
                    &bytes,
                    range,
                    &mut removals,
                    &mut |row, _| {
                        if let Some(distance) = query.distance(row, now) {
                            nearest.offer(distance, row);
                            rows += 1;
                        }
                        Ok(if rows >= limit { Flow::Stop } else { Flow::Continue })
                    },
                )?;
                if !has_entries && is_all_partitions {
                    graph.forget(vector);
                }
                seen.insert(bytes);
            }
            if rows >= limit {
                break true;
            }
            // A few vectors may have no link that leads to them.
            if !are_more || breadth >= VECTORS_MAX {
                break false;
            }
            breadth *= BREADTH_GROWTH;
        };
        reader.execution.store.remove_stale(&removals);
        Ok(found_all.then_some(nearest))
    }
}

/// The vector that rows are compared with.
struct Query<'a> {
    ann: &'a Ann,
    similarity: Similarity,
    dimension: usize,
    /// In the form that distances are defined for.
    vector: Vec<f32>,
    raw: Vec<f32>,
}

impl<'a> Query<'a> {
    /// # Errors
    /// Cassandra's text, if the vector cannot be compared with others.
    fn new(ann: &'a Ann, bytes: &[u8]) -> Result<Self, String> {
        let similarity = ann.index.similarity.unwrap_or_default();
        let dimension = match ann.column.data_type {
            DataType::Vector { dimension, .. } => dimension as usize,
            _ => 0,
        };
        let vector = floats(bytes, dimension).ok_or("the vector has another dimension")?;
        similarity.validate(&vector).map_err(|invalid| invalid.to_string())?;
        let raw = vector.clone();
        Ok(Self { ann, similarity, dimension, vector: similarity.prepare(vector), raw })
    }

    /// Returns the distance of a row; `None` if it has no vector that can be compared.
    fn distance(&self, row: CurrentRow<'_>, now: u32) -> Option<f32> {
        let value = row.value(&self.ann.column, now)?;
        let vector = floats(&value, self.dimension)?;
        self.similarity.validate(&vector).ok()?;
        Some(self.similarity.distance(&self.vector, &self.similarity.prepare(vector)))
    }
}

/// The nearest rows so far.
struct Nearest<'t> {
    limit: usize,
    table: &'t TableMetadata,
    /// Unordered; sometimes cut to the limit.
    rows: Vec<(f32, KeptRow)>,
    /// The distance of the last row that is within the limit.
    bar: f32,
}

impl<'t> Nearest<'t> {
    fn new(limit: usize, table: &'t TableMetadata) -> Self {
        Self { limit, table, rows: Vec::new(), bar: f32::INFINITY }
    }

    fn offer(&mut self, distance: f32, row: CurrentRow<'_>) {
        if distance > self.bar {
            return;
        }
        self.rows.push((distance, row.keep()));
        if self.rows.len() >= 2 * self.limit + 64 {
            self.cut();
        }
    }

    /// Sorts the rows, equally similar ones in the order of the table, and removes those beyond the
    /// limit.
    fn cut(&mut self) {
        let comparator = &self.table.comparator;
        self.rows.sort_by(|(a_distance, a), (b_distance, b)| {
            let (a, b) = (a.get(), b.get());
            let by_row = || match (a.clustering(), b.clustering()) {
                (Some(a), Some(b)) => comparator.compare_rows(a, b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            let by_key = || a.partition.key.cmp(&b.partition.key);
            a_distance.total_cmp(b_distance).then_with(by_key).then_with(by_row)
        });
        self.rows.truncate(self.limit);
        if self.rows.len() == self.limit
            && let Some((distance, _)) = self.rows.last()
        {
            self.bar = *distance;
        }
    }

    fn into_rows(mut self) -> impl Iterator<Item = KeptRow> {
        self.cut();
        self.rows.into_iter().map(|(_, row)| row)
    }
}
