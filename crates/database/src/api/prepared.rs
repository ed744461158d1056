//! Prepared statements: planned once, found by id, and planned again after schema changes.
//!
//! As in Cassandra, a client that executes a statement by its id after a change of the table has to
//! prepare it again, and so learns the new columns. A program that holds a [`Prepared`] does not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use cassette_cql::{StatementKind, Subject};
use md5::{Digest, Md5};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::{ColumnSpec, ResultMetadata};
use crate::basics::server_metrics::PreparedMetrics;
use crate::schema::catalog::Catalog;
use crate::statements::plan::Planned;

/// The id of a prepared statement: the MD5 digest of keyspace and text. As in Cassandra, preparing
/// a statement on another node or after a restart results in the same id.
pub type StatementId = [u8; 16];

/// The assumed size of a statement apart from what grows with its text, bytes: the allocations of a
/// small plan.
const PLAN_SIZE: usize = 2048;
/// The approximate size of a plan for each byte of its text: terms, names and receivers of markers.
const PLAN_SIZE_PER_BYTE: usize = 8;
/// Bytes for each bind marker and each column of the result.
const COLUMN_SIZE: usize = 160;

/// A prepared statement.
#[derive(Debug)]
pub struct Prepared {
    id: StatementId,
    cql: Box<str>,
    /// The keyspace in which it was prepared, if its meaning depends on it.
    keyspace: Option<Box<str>>,
    planned: ArcSwap<Planned>,
    /// The approximate memory in bytes when it was prepared. The cache subtracts what it added, so
    /// this must not change when the statement is planned again.
    size: u64,
    /// Set permanently when planning again results in other columns.
    result_has_changed: AtomicBool,
    /// Whether clients have to prepare it again. It stays in the cache, so that
    /// `result_has_changed` is not lost.
    is_outdated: AtomicBool,
    /// Whether `system.prepared_statements` may contain it.
    can_be_kept: bool,
    /// Whether `system.prepared_statements` contains it.
    is_kept: AtomicBool,
    /// Determined when a log needs it.
    subject: OnceLock<Subject>,
}

impl Prepared {
    /// Returns the id.
    pub fn id(&self) -> StatementId {
        self.id
    }

    /// Returns the text.
    pub fn cql(&self) -> &str {
        &self.cql
    }

    /// Returns the keyspace in which it was prepared, if its meaning depends on it.
    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// Whether the caller has to store it for the next start: once, and only statements on data.
    pub(crate) fn begin_keeping(&self) -> bool {
        self.can_be_kept && !self.is_kept.swap(true, Ordering::AcqRel)
    }

    /// Returns what it does, and to which object.
    pub fn subject(&self) -> &Subject {
        self.subject.get_or_init(|| match cassette_cql::parse(&self.cql) {
            Ok(parsed) => Subject::of(&parsed.statement, self.keyspace.as_deref()),
            // Never: it has been parsed to be prepared.
            Err(_) => Subject { kind: StatementKind::Batch, keyspace: None, name: None },
        })
    }

    /// Returns the contents of PREPARE's response, as of the last planning.
    pub fn description(&self) -> PreparedDescription {
        PreparedDescription(self.planned.load_full())
    }

    /// Whether the result columns have changed since it was first prepared. Clients of protocol v4
    /// and earlier do not send the metadata id, so they may still use the previous columns.
    pub fn result_has_changed(&self) -> bool {
        self.result_has_changed.load(Ordering::Acquire)
    }

    /// Returns the plan for `catalog`, planning again if it was made for another one.
    pub(crate) fn planned(&self, catalog: &Arc<Catalog>) -> Result<Arc<Planned>> {
        let planned = self.planned.load();
        if Arc::ptr_eq(&planned.catalog, catalog) {
            return Ok(planned.clone());
        }
        self.plan_again(&planned, catalog)
    }

    /// Returns the plan for `catalog`; `None` if clients have to prepare the statement again.
    fn planned_for_client(&self, catalog: &Arc<Catalog>) -> Option<Arc<Planned>> {
        if self.is_outdated.load(Ordering::Acquire) {
            return None;
        }
        let planned = self.planned.load();
        if Arc::ptr_eq(&planned.catalog, catalog) {
            return Some(planned.clone());
        }
        match self.plan_again(&planned, catalog) {
            Ok(later) if !planned.is_outdated_by(&later) => Some(later),
            _ => {
                self.is_outdated.store(true, Ordering::Release);
                None
            }
        }
    }

    /// Plans it for clients that prepare it again. Returns whether that is possible.
    fn prepare_again(&self, catalog: &Arc<Catalog>) -> bool {
        let is_possible = self.planned(catalog).is_ok();
        if is_possible {
            self.is_outdated.store(false, Ordering::Release);
        }
        is_possible
    }

    fn plan_again(&self, planned: &Planned, catalog: &Arc<Catalog>) -> Result<Arc<Planned>> {
        let replanned = Arc::new(Planned::new(&self.cql, catalog, self.keyspace.as_deref())?);
        let result_id = |planned: &Planned| planned.result.as_ref().map(|result| *result.id());
        if result_id(&replanned) != result_id(planned) {
            self.result_has_changed.store(true, Ordering::Release);
        }
        let planned = replanned;
        self.planned.store(planned.clone());
        Ok(planned)
    }
}

/// A prepared statement with its plan for the current catalog, for one execution.
#[derive(Debug)]
pub struct ResolvedStatement {
    prepared: Arc<Prepared>,
    description: PreparedDescription,
}

impl ResolvedStatement {
    /// Returns the statement.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Returns the markers and columns of the plan.
    pub fn description(&self) -> &PreparedDescription {
        &self.description
    }

    pub(crate) fn into_prepared(self) -> Arc<Prepared> {
        self.prepared
    }

    pub(crate) fn planned(&self) -> &Planned {
        &self.description.0
    }
}

/// The markers and result columns of a prepared statement.
#[derive(Debug, Clone)]
pub struct PreparedDescription(Arc<Planned>);

impl PreparedDescription {
    /// Returns the bind markers.
    pub fn markers(&self) -> &[ColumnSpec] {
        &self.0.markers
    }

    /// Returns the index of the marker of each component of the partition key; empty if a component
    /// has none.
    pub fn partition_key_indexes(&self) -> &[u16] {
        &self.0.partition_key_indexes
    }

    /// Whether it may take long before it has to wait: a statement that reads much, or many
    /// partitions.
    pub fn may_take_long(&self) -> bool {
        self.0.may_take_long()
    }

    /// Returns the result columns; `None` for statements without rows.
    pub fn result(&self) -> Option<&Arc<ResultMetadata>> {
        self.0.result.as_ref()
    }

    /// Returns the warnings for the client.
    pub fn warnings(&self) -> &[String] {
        &self.0.warnings
    }
}

/// The prepared statements by id, limited by `prepared_statements_cache_size`. Frequently used ones
/// are kept.
pub(crate) struct PreparedStatements {
    cache: Cache<StatementId, Arc<Prepared>, HeapSize, DefaultHashBuilder, Forgotten>,
    forgotten: Forgotten,
    /// Bytes.
    capacity: u64,
    /// Statements that were inserted.
    inserted: AtomicU64,
}

/// The statements that were evicted or are outdated and may still be in
/// `system.prepared_statements`; empty unless statements are kept.
#[derive(Debug, Clone, Default)]
struct Forgotten(Arc<ForgottenIds>);

#[derive(Debug, Default)]
struct ForgottenIds {
    are_kept: AtomicBool,
    ids: Mutex<Vec<StatementId>>,
}

impl Forgotten {
    fn add(&self, id: StatementId) {
        if self.0.are_kept.load(Ordering::Relaxed) {
            self.0.ids.lock().push(id);
        }
    }
}

impl Lifecycle<StatementId, Arc<Prepared>> for Forgotten {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), id: StatementId, _: Arc<Prepared>) {
        self.add(id);
    }
}

#[derive(Debug, Clone)]
struct HeapSize;

impl Weighter<StatementId, Arc<Prepared>> for HeapSize {
    fn weight(&self, _: &StatementId, prepared: &Arc<Prepared>) -> u64 {
        prepared.size
    }
}

impl PreparedStatements {
    /// Returns a cache of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let expected =
            usize::try_from(capacity / (2 * PLAN_SIZE as u64)).unwrap_or(usize::MAX).clamp(16, 1 << 20);
        let forgotten = Forgotten::default();
        let cache =
            Cache::with(expected, capacity, HeapSize, DefaultHashBuilder::default(), forgotten.clone());
        Self { cache, forgotten, capacity, inserted: AtomicU64::new(0) }
    }

    /// Starts to note which statements are evicted or outdated.
    pub fn keep(&self) {
        self.forgotten.0.are_kept.store(true, Ordering::Relaxed);
    }

    /// Returns the statements that were evicted or outdated since the last call, except those that
    /// were prepared again.
    pub fn take_forgotten(&self) -> Vec<StatementId> {
        let mut ids = std::mem::take(&mut *self.forgotten.0.ids.lock());
        let is_kept = |prepared: Arc<Prepared>| prepared.is_kept.load(Ordering::Acquire);
        ids.retain(|id| !self.cache.peek(id).is_some_and(is_kept));
        ids
    }

    /// Returns the numbers of cached and evicted statements.
    pub fn metrics(&self) -> PreparedMetrics {
        let count = self.cache.len() as u64;
        PreparedMetrics { count, evicted: self.inserted.load(Ordering::Relaxed).saturating_sub(count) }
    }

    /// Prepares `cql`, or returns the prepared statement.
    pub fn prepare(
        &self,
        cql: &str,
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
    ) -> Result<Arc<Prepared>> {
        for keyspace in [None, keyspace] {
            if let Some(prepared) = self.cache.get(&statement_id(cql, keyspace))
                && prepared.prepare_again(catalog)
            {
                return Ok(prepared);
            }
        }
        let planned = Planned::new(cql, catalog, keyspace)?;
        let keyspace = keyspace.filter(|_| !planned.is_fully_qualified);
        let id = statement_id(cql, keyspace);
        let (can_be_kept, size) = (planned.plan.is_request(), heap_size(&planned));
        let prepared = Arc::new(Prepared {
            id,
            cql: cql.into(),
            keyspace: keyspace.map(Into::into),
            planned: ArcSwap::from_pointee(planned),
            size,
            // Clients may know another result: that of a table which was dropped.
            result_has_changed: AtomicBool::new(self.cache.peek(&id).is_some()),
            is_outdated: AtomicBool::new(false),
            can_be_kept,
            is_kept: AtomicBool::new(false),
            subject: OnceLock::new(),
        });
        if size > self.capacity {
            bail_invalid!(
                "Prepared statement of size {size} bytes is larger than allowed maximum of {} MB: {}...",
                self.capacity >> 20,
                cql.chars().take(200).collect::<String>()
            );
        }
        if self.cache.peek(&id).is_none() {
            self.inserted.fetch_add(1, Ordering::Relaxed);
        }
        self.cache.insert(id, prepared.clone());
        Ok(prepared)
    }

    /// Returns the statement with this id and its plan for `catalog`.
    ///
    /// # Errors
    /// Unprepared, if it does not exist, was prepared before a change of its table, or can no
    /// longer be planned: preparing it again returns the error.
    pub fn get(&self, id: &[u8], catalog: &Arc<Catalog>) -> Result<ResolvedStatement> {
        let unprepared = || DatabaseError::Unprepared { id: id.to_vec() };
        let key: StatementId = id.try_into().map_err(|_| unprepared())?;
        let prepared = self.cache.get(&key).ok_or_else(unprepared)?;
        match prepared.planned_for_client(catalog) {
            Some(planned) => Ok(ResolvedStatement { prepared, description: PreparedDescription(planned) }),
            None => {
                if prepared.is_kept.swap(false, Ordering::AcqRel) {
                    self.forgotten.add(key);
                }
                Err(unprepared())
            }
        }
    }
}

/// Returns the approximate memory of a prepared statement in bytes.
fn heap_size(planned: &Planned) -> u64 {
    let columns = planned.markers.len() + planned.result.as_ref().map_or(0, |result| result.columns.len());
    let size = size_of::<Prepared>() + PLAN_SIZE;
    (size + planned.cql.len() * (1 + PLAN_SIZE_PER_BYTE) + columns * COLUMN_SIZE) as u64
}

fn statement_id(cql: &str, keyspace: Option<&str>) -> StatementId {
    let mut digest = Md5::new();
    digest.update(keyspace.unwrap_or_default().as_bytes());
    digest.update(cql.as_bytes());
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_kept_within_their_memory_and_those_in_use_stay() {
        let catalog = Arc::new(Catalog::default());
        let statements = PreparedStatements::new(64 << 10);
        let text =
            |n: usize| format!("CREATE KEYSPACE k{n} WITH replication = {{'class': 'SimpleStrategy'}}");
        let hot = statements.prepare(&text(0), &catalog, None).unwrap();
        for n in 1..500 {
            statements.prepare(&text(n), &catalog, None).unwrap();
            statements.get(&hot.id(), &catalog).unwrap();
        }
        assert!(statements.cache.weight() <= 64 << 10);
        assert!(statements.cache.len() > 5, "{}", statements.cache.len());
    }

    #[test]
    fn a_statement_larger_than_the_cache_is_refused() {
        let statements = PreparedStatements::new(1 << 20);
        let long = format!("CREATE KEYSPACE k WITH replication = {{'class': '{}'}}", "x".repeat(200_000));
        let error = statements.prepare(&long, &Arc::default(), None).unwrap_err().to_string();
        assert!(error.contains("larger than allowed maximum of 1 MB: CREATE KEYSPACE k"), "{error}");
    }
}
