//! Accepts connections and answers their requests, within limits.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::listener::{Accepted, Listener, Peer};
use crate::stream::BoundedWrites;

/// Pause after a failed accept, whose usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Resources that clients can occupy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections. Further ones wait in the listener's backlog until one is closed.
    pub connections_max: usize,
    /// Time for the handshake of TLS, and for the head of a request, from the connection's begin
    /// or the response before. A connection that is idle for longer is closed.
    pub head_wait_max: Duration,
    /// Time for the body of a request, for handlers that pass it to [`buffered`].
    pub body_wait_max: Duration,
    /// Time in which the client must read some of a response.
    pub write_wait_max: Duration,
}

impl Limits {
    /// Limits for `connections_max` connections: 30 s for a head and for a read, 10 s for a body.
    pub fn new(connections_max: usize) -> Self {
        let wait_max = Duration::from_secs(30);
        let body_wait_max = Duration::from_secs(10);
        Self { connections_max, head_wait_max: wait_max, body_wait_max, write_wait_max: wait_max }
    }
}

/// Answers requests until `stop` completes, then waits for requests in progress. All requests of a
/// connection share one result of `of_connection` as an [`Extension`]; its last copy is dropped
/// when the connection is closed and its last request has ended.
///
/// # Errors
/// None at present; a failure of a connection ends that connection, and accepting is retried.
pub async fn serve<T: Clone + Send + Sync + 'static>(
    listener: impl Into<Listener>,
    router: Router,
    limits: Limits,
    of_connection: impl Fn(&Peer) -> T + Clone + Send + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let listener = listener.into();
    let room = Arc::new(Semaphore::new(limits.connections_max));
    // Connections hold the receivers: the sender is closed when the last one has ended.
    let (stopping, is_stopping) = watch::channel(false);
    let mut stop = pin!(stop);
    let mut is_full_logged = false;
    loop {
        if room.available_permits() == 0 && !is_full_logged {
            is_full_logged = true;
            let max = limits.connections_max;
            tracing::warn!("all {max} connections for HTTP are in use: further clients wait");
        }
        let (accepted, permit) = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = &mut stop => break,
        };
        let (router, of_connection) = (router.clone(), of_connection.clone());
        let service = move |peer: &Peer| router.layer(Extension(of_connection(peer)));
        let connection = tokio::spawn(connection(accepted, service, limits, is_stopping.clone(), permit));
        tokio::spawn(report_panic(connection));
    }
    drop((listener, is_stopping));
    let _ = stopping.send(true);
    stopping.closed().await;
    Ok(())
}

/// Accepts a connection once the limit allows another one.
async fn accept(listener: &Listener, room: &Arc<Semaphore>) -> (Accepted, OwnedSemaphorePermit) {
    loop {
        // Before accepting: a connection in the backlog takes no file descriptor.
        let Ok(permit) = room.clone().acquire_owned().await else { return std::future::pending().await };
        match listener.accept().await {
            Ok(accepted) => return (accepted, permit),
            Err(error) => {
                tracing::debug!(%error, "accepting a connection for HTTP failed; it is repeated");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    accepted: Accepted,
    service: impl FnOnce(&Peer) -> Router,
    limits: Limits,
    mut is_stopping: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    let established = tokio::select! {
        established = accepted.established(limits.head_wait_max) => established,
        () = until_true(&mut is_stopping) => return,
    };
    let Some((stream, peer)) = established else { return };
    let service = service(&peer);
    let io = TokioIo::new(BoundedWrites::new(stream, limits.write_wait_max));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head_wait_max);
    let mut connection = pin!(http.serve_connection(io, TowerToHyperService::new(service)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = until_true(&mut is_stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection for HTTP has failed");
    }
}

/// Logs the panic of a connection. It ends that connection only, whose resources are released by
/// then.
async fn report_panic(connection: JoinHandle<()>) {
    if let Err(error) = connection.await
        && error.is_panic()
    {
        tracing::error!(%error, "a connection for HTTP panicked");
    }
}

async fn until_true(value: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped, but it outlives the receivers.
    drop(value.wait_for(|value| *value).await);
}

/// Reason why the body of a request was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The deadline passed.
    Late,
    /// It is longer than allowed, or the connection failed.
    Unreadable,
}

/// Reads the body of a request into memory, so that no handler waits for it.
///
/// # Errors
/// If it is longer than `length_max` bytes, or not complete after `wait_max`.
pub async fn buffered(request: Request, length_max: usize, wait_max: Duration) -> Result<Request, BodyError> {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(wait_max, to_bytes(body, length_max)).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, Body::from(body))),
        Ok(Err(_)) => Err(BodyError::Unreadable),
        Err(_) => Err(BodyError::Late),
    }
}
