//! The unmodified Rust driver.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;

use super::PATIENCE;

/// One keyspace for one node.
pub const REPLICATION: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Connects with the driver's defaults, except for longer timeouts on a busy machine.
pub async fn connect(address: SocketAddr) -> Session {
    builder(address).build().await.unwrap()
}

/// Connects, creates keyspace `ks` and uses it.
pub async fn connect_to_keyspace(address: SocketAddr) -> Session {
    let session = connect(address).await;
    execute(&session, &format!("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {REPLICATION}")).await;
    session.use_keyspace("ks", false).await.unwrap();
    session
}

/// Returns the configuration of [`connect`].
pub fn builder(address: SocketAddr) -> SessionBuilder {
    // One node agrees with itself at once; for one that was killed during a statement the driver
    // waits a minute by default.
    SessionBuilder::new()
        .known_node_addr(address)
        .connection_timeout(PATIENCE)
        .schema_agreement_timeout(Duration::from_secs(5))
}

/// Executes a statement without values or rows.
pub async fn execute(session: &Session, cql: &str) {
    session.query_unpaged(cql, ()).await.unwrap_or_else(|error| panic!("{cql}: {error}"));
}

/// All rows of a statement, in one page.
pub async fn rows<R>(session: &Session, cql: &str, values: impl SerializeRow) -> Vec<R>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    let result = session.query_unpaged(cql, values).await.unwrap_or_else(|error| panic!("{cql}: {error}"));
    let result = result.into_rows_result().unwrap_or_else(|error| panic!("{cql}: {error}"));
    result.rows::<R>().unwrap_or_else(|error| panic!("{cql}: {error}")).map(|row| row.unwrap()).collect()
}

/// Executes a statement until it succeeds: for a driver that is reconnecting, or a disk that is
/// being freed.
pub async fn execute_eventually(session: &Session, cql: &str) {
    let deadline = Instant::now() + PATIENCE;
    let mut last: Option<ExecutionError> = None;
    while Instant::now() < deadline {
        match session.query_unpaged(cql, ()).await {
            Ok(_) => return,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{cql}: {last:?}");
}
