//! The store on any CQL cluster, through the `scylla` driver: prepared, token-aware, pipelined.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
#[cfg(feature = "cluster-tls")]
use cassette_tls::ClientTls;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::response::query_result::QueryResult;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::cell_loader::CellLoader;
use super::cql::{Attempted, Cql, CqlStore, NamedRows, Row, StatementKind, Values, WriteGroup};
use super::node_settings::NodeSettings;
use super::{StoreError, StoreResult, layout};

/// Maximum number of in-flight requests of one client.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum number of writes in one batch on a partition.
const WRITES_IN_BATCH_MAX: usize = 100;
/// Maximum bytes of values and names in one batch, far below Cassandra's limit of 16 MiB per
/// mutation.
const BYTES_IN_BATCH_MAX: usize = 4 << 20;

/// Options of a connection to a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Initial contact points, `host:port`.
    pub contact_points: Vec<String>,
    /// Keyspace of the tables.
    pub keyspace: String,
    /// Whether to create the keyspace if it does not exist.
    pub create_keyspace: bool,
    /// Replication of a created keyspace: the map after `WITH replication =`. The default is one
    /// replica; use three or more for data that matters.
    pub replication: String,
    /// Restricts requests to the data center of this name, with LOCAL_QUORUM and LOCAL_SERIAL. All
    /// clients of the keyspace, including timelock servers, must then name the same one:
    /// conditional writes at LOCAL_SERIAL of one data center are not serialized with SERIAL, nor
    /// with LOCAL_SERIAL of another. `None`: all data centers, QUORUM and SERIAL.
    pub local: Option<String>,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// Encrypts connections to nodes, whose certificates must name their IP addresses. `None`:
    /// without TLS.
    #[cfg(feature = "cluster-tls")]
    pub tls: Option<ClientTls>,
    /// Timeout of a request.
    pub request_timeout: Duration,
    /// How several cells are loaded.
    pub cell_loader: CellLoader,
    /// Accepts nodes that acknowledge writes before they sync them: `commitlog_sync: periodic`,
    /// Cassandra's default. Nodes that crash then lose transactions that were reported as
    /// committed, and timestamps go backwards. Otherwise such a store is rejected. Reachable nodes
    /// are checked when the store is opened.
    pub accept_periodic_sync: bool,
}

impl ClusterOptions {
    /// Returns the default options.
    pub fn new(contact_point: impl Into<String>, keyspace: impl Into<String>) -> Self {
        Self {
            contact_points: vec![contact_point.into()],
            keyspace: keyspace.into(),
            create_keyspace: true,
            replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}".to_owned(),
            local: None,
            credentials: None,
            #[cfg(feature = "cluster-tls")]
            tls: None,
            request_timeout: Duration::from_secs(30),
            cell_loader: CellLoader::default(),
            accept_periodic_sync: false,
        }
    }
}

/// A driver session that executes a store's statements.
pub struct Cluster {
    session: Arc<Session>,
    keyspace: Box<str>,
    serial_read: Consistency,
    serial: SerialConsistency,
    /// Maximum bytes of values that every node accepts in one write.
    write_max: Option<usize>,
    in_flight: Arc<Semaphore>,
    /// `None` only while being dropped.
    runtime: Option<Runtime>,
}

/// The store on a cluster.
pub type ClusterStore = CqlStore<Cluster>;

impl ClusterStore {
    /// Connects, and creates the keyspace if needed.
    ///
    /// # Errors
    /// If no node can be reached; if the name is invalid; if nodes acknowledge writes before they
    /// sync them, unless that is [accepted](ClusterOptions::accept_periodic_sync).
    pub fn connect(options: &ClusterOptions) -> StoreResult<Self> {
        layout::check_name(&options.keyspace)?;
        let attempted = format!("connect to {}", options.contact_points.join(", "));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("transactions-cql")
            .enable_all()
            .build()
            .map_err(|error| StoreError::refused(&*attempted, error))?;
        let (consistency, serial, serial_read) = match &options.local {
            None => (Consistency::Quorum, SerialConsistency::Serial, Consistency::Serial),
            Some(_) => (Consistency::LocalQuorum, SerialConsistency::LocalSerial, Consistency::LocalSerial),
        };
        let mut policy = DefaultPolicy::builder();
        if let Some(data_center) = &options.local {
            // A coordinator treats its own data center as the local one, so nodes of other ones
            // must never coordinate.
            policy = policy.prefer_datacenter(data_center.clone()).permit_dc_failover(false);
        }
        let profile = ExecutionProfile::builder()
            .consistency(consistency)
            .serial_consistency(Some(serial))
            .request_timeout(Some(options.request_timeout))
            .load_balancing_policy(policy.build())
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(&options.contact_points)
            .default_execution_profile_handle(profile.into_handle());
        if let Some((user, password)) = &options.credentials {
            builder = builder.user(user, password);
        }
        #[cfg(feature = "cluster-tls")]
        if let Some(tls) = &options.tls {
            builder = builder.tls_context(Some(tls.config().clone()));
        }
        let session = wait(&runtime, async move { builder.build().await })
            .ok_or_else(|| StoreError::refused(&*attempted, "the driver stopped"))?
            .map_err(|error| match error {
                NewSessionError::EmptyKnownNodesList | NewSessionError::IllegalConfig(_) => {
                    StoreError::refused(&*attempted, error)
                }
                // Names that do not resolve yet, nodes that do not respond yet.
                _ => StoreError::unavailable(&*attempted, error),
            })?;
        if let Some(data_center) = &options.local {
            check_data_center(data_center, &session)
                .map_err(|cause| StoreError::refused(&*attempted, cause))?;
        }
        let session = Arc::new(session);
        let settings = {
            let (session, data_center) = (session.clone(), options.local.clone());
            wait(&runtime, async move { NodeSettings::read(&session, data_center.as_deref()).await })
                .ok_or_else(|| StoreError::refused(&*attempted, "the driver stopped"))?
        };
        check_sync(&settings, options.accept_periodic_sync)
            .map_err(|cause| StoreError::refused(&*attempted, cause))?;
        let cluster = Cluster {
            write_max: settings.write_max,
            session,
            keyspace: options.keyspace.as_str().into(),
            serial_read,
            serial,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
            runtime: Some(runtime),
        };
        if options.create_keyspace {
            cluster.define(&format!(
                "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {}",
                options.keyspace, options.replication
            ))?;
        }
        Ok(Self::new(cluster).with_loader(options.cell_loader))
    }
}

/// Rejects nodes that acknowledge writes before they sync them, unless that is accepted.
fn check_sync(settings: &NodeSettings, is_accepted: bool) -> Result<(), String> {
    let NodeSettings { periodic, silent, unreachable, .. } = settings;
    if !silent.is_empty() || !unreachable.is_empty() {
        tracing::warn!(
            ?silent,
            ?unreachable,
            "could not determine whether these nodes sync writes before they acknowledge them \
             (commitlog_sync: batch or group); if not, a crash loses committed transactions"
        );
    }
    if periodic.is_empty() {
        return Ok(());
    }
    let nodes = periodic.join(", ");
    if is_accepted {
        tracing::warn!(
            nodes,
            "nodes acknowledge writes before they are synced (commitlog_sync: periodic): a crash \
             loses committed transactions"
        );
        return Ok(());
    }
    Err(format!(
        "commitlog_sync is periodic on {nodes}, expected batch or group: a node that crashes loses \
         transactions that were reported as committed, and timestamps go backwards. Set \
         `commitlog_sync: batch` in cassandra.yaml on every node and restart them; or accept the loss \
         (ClusterOptions::accept_periodic_sync, --accept-periodic-sync)"
    ))
}

/// Rejects the name of an unknown data center.
fn check_data_center(name: &str, session: &Session) -> Result<(), String> {
    let state = session.get_cluster_state();
    let mut names: Vec<&str> =
        state.get_nodes_info().iter().filter_map(|n| n.datacenter.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    if names.contains(&name) {
        Ok(())
    } else {
        Err(format!("unknown data center {name}: the nodes are in {}", names.join(", ")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A task of another runtime may drop the store, and must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An encoded value.
#[derive(Clone)]
struct Encoded(Bytes);

impl SerializeValue for Encoded {
    fn serialize<'b>(
        &self,
        _: &scylla::cluster::metadata::ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        writer.set_value(&self.0).map_err(SerializationError::new)
    }
}

fn encoded(values: Values) -> Vec<Encoded> {
    values.into_iter().map(Encoded).collect()
}

/// Runs a future on the runtime and blocks the calling thread. `None` if it panicked.
fn wait<T: Send + 'static>(runtime: &Runtime, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Fails only if the caller no longer waits.
        let _ = sender.send(future.await);
    });
    receiver.recv().ok()
}

fn error(attempted: &str, error: ExecutionError) -> StoreError {
    match &error {
        ExecutionError::BadQuery(_) => StoreError::refused(attempted, error),
        ExecutionError::PrepareError(cause) => prepare_error(attempted, cause),
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => {
            StoreError::unavailable(attempted, error)
        }
        ExecutionError::LastAttemptError(cause) => match answered(cause) {
            Some(Answered::Refused) => StoreError::refused(attempted, error),
            Some(Answered::NotNow) => StoreError::unavailable(attempted, error),
            Some(Answered::Broken) => StoreError::broken(attempted, error),
            None => StoreError::unknown(attempted, error),
        },
        // Mostly timeouts of the client.
        _ => StoreError::unknown(attempted, error),
    }
}

fn prepare_error(attempted: &str, error: &PrepareError) -> StoreError {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt }
            if matches!(answered(first_attempt), Some(Answered::Refused)) =>
        {
            StoreError::refused(attempted, error)
        }
        _ => StoreError::unavailable(attempted, error),
    }
}

/// Classification of the error of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// Not executed, and never will be.
    Refused,
    /// Not executed, but may be later.
    NotNow,
    /// Executed or not; the same request would fail again in the same way.
    Broken,
}

/// Returns `None` if the request was executed or not and the cause may pass.
fn answered(error: &RequestAttemptError) -> Option<Answered> {
    let RequestAttemptError::DbError(error, _) = error else {
        return match error {
            RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
                Some(Answered::Refused)
            }
            RequestAttemptError::UnableToAllocStreamId => Some(Answered::NotNow),
            RequestAttemptError::BrokenConnectionError(_) => None,
            _ => Some(Answered::Broken),
        };
    };
    match error {
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::Unauthorized
        | DbError::ConfigError => Some(Answered::Refused),
        DbError::Unavailable { .. } | DbError::Overloaded | DbError::IsBootstrapping => {
            Some(Answered::NotNow)
        }
        DbError::ProtocolError | DbError::AuthenticationError => Some(Answered::Broken),
        _ => None,
    }
}

/// Returns the column names and the rows of a result; both empty for statements without rows.
fn rows(attempted: &str, result: QueryResult) -> StoreResult<NamedRows> {
    if !result.is_rows() {
        return Ok((Vec::new(), Vec::new()));
    }
    let fail = |error: &dyn std::fmt::Display| StoreError::unknown(attempted, error);
    let result = result.into_rows_result().map_err(|error| fail(&error))?;
    let names = result.column_specs().iter().map(|spec| spec.name().to_owned()).collect();
    let mut rows = Vec::with_capacity(result.rows_num());
    for row in result.rows::<ColumnIterator<'_, '_>>().map_err(|error| fail(&error))? {
        let columns = row.map_err(|error| fail(&error))?;
        let value = |column: Result<scylla::deserialize::row::RawColumn<'_, '_>, _>| match column {
            Ok(column) => Ok(column.slice.map(|slice| Bytes::copy_from_slice(slice.as_slice()))),
            Err(error) => Err(fail(&error)),
        };
        rows.push(columns.map(value).collect::<StoreResult<Row>>()?);
    }
    Ok((names, rows))
}

impl Cluster {
    /// Maximum bytes of the writes in one batch.
    fn batch_max(&self) -> usize {
        // Far below the limit: the overhead that a node adds to each write is not known exactly.
        self.write_max.map_or(BYTES_IN_BATCH_MAX, |max| (max / 2).min(BYTES_IN_BATCH_MAX))
    }

    /// Runs all requests concurrently, within [`IN_FLIGHT_MAX`]. Returns their results in order.
    fn run_all<T, F>(&self, attempted: &str, requests: Vec<F>) -> Vec<StoreResult<T>>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let count = requests.len();
        let stopped = || Err(StoreError::unknown(attempted, "the driver stopped"));
        let Some(runtime) = &self.runtime else { return (0..count).map(|_| stopped()).collect() };
        let in_flight = self.in_flight.clone();
        let all = async move {
            let mut tasks = JoinSet::new();
            for (index, request) in requests.into_iter().enumerate() {
                let in_flight = in_flight.clone();
                tasks.spawn(async move {
                    // Never closed.
                    let _permit = in_flight.acquire_owned().await;
                    (index, request.await)
                });
            }
            let mut results = Vec::with_capacity(count);
            while let Some(result) = tasks.join_next().await {
                results.extend(result);
            }
            results
        };
        let mut results: Vec<_> = (0..count).map(|_| None).collect();
        for (index, result) in wait(runtime, all).unwrap_or_default() {
            results[index] = Some(result);
        }
        results.into_iter().map(|result| result.unwrap_or_else(stopped)).collect()
    }
}

impl Cql for Cluster {
    type Statement = PreparedStatement;

    fn keyspace(&self) -> &str {
        &self.keyspace
    }

    fn define(&self, cql: &str) -> StoreResult<()> {
        let (session, text, attempted) = (self.session.clone(), cql.to_owned(), cql.to_owned());
        let request =
            async move { session.query_unpaged(text, ()).await.map(drop).map_err(|e| error(&attempted, e)) };
        self.run_all(cql, vec![request]).pop().unwrap_or(Ok(()))
    }

    fn prepare(&self, cql: &str, kind: StatementKind) -> StoreResult<PreparedStatement> {
        let (session, text) = (self.session.clone(), cql.to_owned());
        let request = async move {
            let prepared = session.prepare(text.as_str()).await;
            prepared.map_err(|error| prepare_error(&text, &error))
        };
        let stopped = || Err(StoreError::refused(cql, "the driver stopped"));
        let mut prepared = self.run_all(cql, vec![request]).pop().unwrap_or_else(stopped)?;
        match kind {
            StatementKind::SerialRead => {
                prepared.set_consistency(self.serial_read);
                prepared.set_is_idempotent(true);
            }
            StatementKind::Delete => {
                // A replica that missed the removal could resurrect the data once tombstones are
                // purged.
                prepared.set_consistency(Consistency::All);
                prepared.set_is_idempotent(true);
            }
            StatementKind::Read | StatementKind::Write => prepared.set_is_idempotent(true),
            // A retry could find the first attempt's effect, so the store's caller must know about
            // it.
            StatementKind::Conditional => prepared.set_is_idempotent(false),
        }
        Ok(prepared)
    }

    fn read(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(PreparedStatement, Values)>,
    ) -> StoreResult<Vec<Vec<Row>>> {
        let attempted = &*attempted.to_string();
        let request = |(statement, values): (PreparedStatement, Values)| {
            let (session, attempted) = (self.session.clone(), attempted.to_owned());
            async move {
                let result = session.execute_unpaged(&statement, encoded(values)).await;
                let result = result.map_err(|e| error(&attempted, e))?;
                rows(&attempted, result).map(|(_, rows)| rows)
            }
        };
        self.run_all(attempted, requests.into_iter().map(request).collect()).into_iter().collect()
    }

    fn write(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(WriteGroup, PreparedStatement, Values)>,
    ) -> StoreResult<()> {
        let attempted = &*attempted.to_string();
        let mut groups: Vec<Vec<(PreparedStatement, Values)>> = Vec::new();
        for (group, statement, values) in requests {
            if groups.len() <= group {
                groups.resize_with(group + 1, Vec::new);
            }
            groups[group].push((statement, values));
        }
        let mut batches = Vec::with_capacity(groups.len());
        for group in groups {
            let bytes = |(_, values): &(PreparedStatement, Values)| values.iter().map(Bytes::len).sum();
            cut(group, bytes, self.batch_max(), &mut batches);
        }
        let request = |statements: Vec<(PreparedStatement, Values)>| {
            let (session, attempted) = (self.session.clone(), attempted.to_owned());
            let serial = self.serial;
            async move { execute(&session, &attempted, serial, statements).await.map(drop) }
        };
        self.run_all(attempted, batches.into_iter().map(request).collect()).into_iter().collect()
    }

    fn conditional(
        &self,
        attempted: Attempted<'_>,
        groups: Vec<Vec<(PreparedStatement, Values)>>,
    ) -> Vec<StoreResult<NamedRows>> {
        let attempted = &*attempted.to_string();
        let request = |statements: Vec<(PreparedStatement, Values)>| {
            let (session, attempted) = (self.session.clone(), attempted.to_owned());
            let serial = self.serial;
            async move { rows(&attempted, execute(&session, &attempted, serial, statements).await?) }
        };
        self.run_all(attempted, groups.into_iter().map(request).collect())
    }

    fn write_max(&self) -> Option<usize> {
        self.write_max
    }

    fn writes_in_order(&self) -> bool {
        false
    }

    fn is_linearizable_after_failures(&self) -> bool {
        false
    }
}

/// Splits the writes of a partition into non-empty batches. A write that exceeds the limit alone is
/// a separate batch.
fn cut<T>(writes: Vec<T>, bytes: impl Fn(&T) -> usize, max: usize, batches: &mut Vec<Vec<T>>) {
    let mut batch = Vec::new();
    let mut bytes_in_batch = 0;
    for write in writes {
        let more = bytes(&write);
        let is_full = batch.len() >= WRITES_IN_BATCH_MAX || bytes_in_batch + more > max;
        if is_full && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            bytes_in_batch = 0;
        }
        bytes_in_batch += more;
        batch.push(write);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
}

/// Executes statements on one partition: a single one directly, several as an unlogged batch.
async fn execute(
    session: &Session,
    attempted: &str,
    serial: SerialConsistency,
    mut statements: Vec<(PreparedStatement, Values)>,
) -> StoreResult<QueryResult> {
    let result = match statements.len() {
        1 => {
            let (statement, values) = statements.remove(0);
            session.execute_unpaged(&statement, encoded(values)).await
        }
        _ => {
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_serial_consistency(Some(serial));
            // The statements of a batch are of the same kind.
            if let Some(consistency) = statements.first().and_then(|(first, _)| first.get_consistency()) {
                batch.set_consistency(consistency);
            }
            batch.set_is_idempotent(statements.iter().all(|(statement, _)| statement.get_is_idempotent()));
            let mut values = Vec::with_capacity(statements.len());
            for (statement, of_statement) in statements {
                batch.append_statement(statement);
                values.push(encoded(of_statement));
            }
            session.batch(&batch, values).await
        }
    };
    result.map_err(|e| error(attempted, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_respect_the_limits_on_writes_and_bytes() {
        let cut = |lengths: &[usize]| {
            let mut batches = Vec::new();
            super::cut(lengths.to_vec(), |length| *length, BYTES_IN_BATCH_MAX, &mut batches);
            assert_eq!(batches.concat(), lengths, "none is lost, and all are in order");
            batches.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert!(cut(&[]).is_empty());
        assert_eq!(cut(&[10; 250]), [100, 100, 50]);
        assert_eq!(cut(&[200 << 10; 100]), [20; 5], "20 MB of one partition");
        assert_eq!(cut(&[1, 20 << 20, 1, 1]), [1, 1, 2], "a write above the limit is a separate batch");
    }

    #[test]
    fn nodes_with_periodic_sync_are_rejected_unless_accepted() {
        let address = || vec!["10.0.0.1:9042".to_owned()];
        let periodic = NodeSettings { periodic: address(), ..NodeSettings::default() };
        let unknown = NodeSettings { silent: address(), unreachable: address(), ..NodeSettings::default() };
        for (settings, is_accepted, refused) in [
            (&periodic, false, true),
            (&periodic, true, false),
            (&unknown, false, false),
            (&NodeSettings::default(), false, false),
        ] {
            let checked = check_sync(settings, is_accepted);
            assert_eq!(checked.is_err(), refused, "{settings:?}");
            if let Err(why) = checked {
                assert!(why.contains("10.0.0.1:9042") && why.contains("commitlog_sync: batch"), "{why}");
            }
        }
    }
}
