//! HTTP routes of the server; see [`messages`](super::messages).
//!
//! With [`ServerOptions::tokens`](super::ServerOptions::tokens), clients need a token. Otherwise
//! any client that can connect is served, and by default only this machine can. Requests of web
//! pages are rejected by the headers that browsers add. Requests for a host that is neither an
//! address nor a configured name of this server are rejected as well, because a page may have made
//! that name resolve to this machine.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_http::credentials::Credentials;
use cassette_http::host::{is_own, sole_host};
use cassette_http::{Listener, buffered, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::TimeLockError;
use super::connections::OfConnection;
use super::messages::{Batch, FastForward, LockRequest, Refusal, RefusalKind};
use super::registry::Name;
use super::server::{LockService, TimeLockServer};

/// Maximum request length, bytes: the lock names of a transaction of about 100,000 writes.
const REQUEST_LENGTH_MAX: usize = 32 << 20;
/// Bodies up to this length, bytes, need no reservation: a connection costs as much.
const SHORT_LENGTH_MAX: usize = 64 << 10;
/// How long a request with a longer body waits for memory.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long such a body may take to arrive.
const BODY_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a stopping server keeps answering.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);

impl TimeLockServer {
    /// Serves clients until `stop` completes, a client stops the server, or it can never lead
    /// again. Then releases the lease.
    ///
    /// # Errors
    /// The listener's error, or why the server ended.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let service = self.service.clone();
        let (told, is_told) = oneshot::channel::<()>();
        let finished = async move {
            tokio::select! {
                () = stop => {}
                () = service.finished() => {}
            }
            service.request_stop();
            drop(told);
        };
        // Requests in progress are completed, but not those that wait for a lock.
        let cut = async {
            let _ = is_told.await;
            tokio::time::sleep(LAST_ANSWERS_MAX).await;
        };
        let (router, limits) = (router(self.service.clone()), self.service.limits);
        let mut listener = Listener::from(listener);
        if let Some(tls) = &self.service.tls {
            listener = listener.with_tls(tls.clone(), || ());
        }
        tokio::select! {
            served = serve(listener, router, limits, |_| OfConnection::default(), finished) => served?,
            () = cut => {}
        }
        // Blocks on the store.
        let stopped = tokio::task::spawn_blocking(move || {
            self.stop();
            self.service.stopped()
        });
        match stopped.await {
            Ok(None | Some(TimeLockError::Stopped)) => Ok(()),
            Ok(Some(error)) => Err(io::Error::other(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

fn router(service: Arc<LockService>) -> Router {
    Router::new()
        .route("/v1/batch", post(batch))
        .route("/v1/lock", post(lock))
        .route("/v1/fast-forward", post(fast_forward))
        .route("/v1/stop", post(stop))
        .route(
            "/v1/status",
            get(|State(service): State<Arc<LockService>>| async move { Json(service.status()) }),
        )
        .fallback(|| async { refuse(Refusal::new(RefusalKind::Usage, "unknown path")) })
        .layer(DefaultBodyLimit::max(REQUEST_LENGTH_MAX))
        .layer(middleware::from_fn_with_state(service.clone(), admitted))
        .layer(middleware::from_fn_with_state(service.clone(), authorized))
        .layer(middleware::from_fn_with_state(service.clone(), guarded))
        .with_state(service)
}

/// Rejects requests of web pages.
async fn guarded(State(service): State<Arc<LockService>>, request: Request, next: Next) -> Response {
    let host = match sole_host(&request) {
        Ok(host) => host,
        Err(reason) => return refuse(Refusal::new(RefusalKind::Usage, reason)),
    };
    if !is_own(host, service.hosts.iter().map(|name| &**name)) {
        let refusal = format!(
            "invalid Host: expected an address, localhost or a name of this server, found {host}; \
             name it when the server is started (--host)"
        );
        return refuse(Refusal::new(RefusalKind::Usage, refusal));
    }
    let is_of_page =
        [header::ORIGIN.as_str(), "sec-fetch-site"].iter().any(|name| request.headers().contains_key(*name));
    if is_of_page {
        return refuse(Refusal::new(RefusalKind::Usage, "requests of web pages are not allowed"));
    }
    next.run(request).await
}

/// Rejects requests without a valid token, before their bodies are read.
async fn authorized(State(service): State<Arc<LockService>>, request: Request, next: Next) -> Response {
    let Some(tokens) = &service.tokens else { return next.run(request).await };
    let message = match Credentials::of(request.headers()) {
        Ok(Some(Credentials::Bearer(token))) if tokens.level(&token).is_some() => {
            return next.run(request).await;
        }
        Ok(None) => "the request has no token: the client needs that of the server's --token-file",
        _ => "wrong token: the client needs that of the server's --token-file",
    };
    if let Some(failures) = service.unauthorized.lock().failed(Instant::now()) {
        tracing::warn!(failures, "requests without a valid token");
    }
    let refusal = Refusal::new(RefusalKind::Never, message);
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], Json(refusal)).into_response()
}

/// Reads a long body after reserving memory for it. The memory is released when the body is parsed.
async fn admitted(State(service): State<Arc<LockService>>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    let length: usize = match length {
        Some(length) => length,
        None if request.method() == Method::GET => 0,
        None => REQUEST_LENGTH_MAX,
    };
    if length > REQUEST_LENGTH_MAX {
        return refuse(Refusal::new(
            RefusalKind::Usage,
            format!("request too long: expected at most {REQUEST_LENGTH_MAX} bytes"),
        ));
    }
    let not_now = |what: &str| refuse(Refusal::new(RefusalKind::NotNow, what));
    const LATE: &str = "the request body did not arrive in time";
    if length <= SHORT_LENGTH_MAX {
        let request = buffered(request, SHORT_LENGTH_MAX, service.limits.body_wait_max).await;
        let Ok(request) = request else { return not_now(LATE) };
        return next.run(request).await;
    }
    let room = service.bodies.clone().acquire_many_owned((length >> 10) as u32 + 1);
    let Ok(Ok(room)) = tokio::time::timeout(ROOM_WAIT_MAX, room).await else {
        return not_now("no memory available for the request body");
    };
    let request = buffered(request, REQUEST_LENGTH_MAX, BODY_WAIT_MAX).await;
    let Ok(mut request) = request else { return not_now(LATE) };
    // Dropped with the request, when the handler has parsed it.
    request.extensions_mut().insert(Arc::new(room));
    next.run(request).await
}

fn refuse(refusal: Refusal) -> Response {
    let status = match refusal.kind {
        RefusalKind::Usage => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(refusal)).into_response()
}

fn answer<T: serde::Serialize>(result: Result<T, Refusal>) -> Response {
    match result {
        Ok(reply) => Json(reply).into_response(),
        Err(refusal) => refuse(refusal),
    }
}

async fn batch(
    State(service): State<Arc<LockService>>,
    Extension(OfConnection(connection)): Extension<OfConnection>,
    Json(batch): Json<Batch>,
) -> Response {
    connection.carries(&service, batch.session);
    answer(service.batch(&batch).await)
}

async fn lock(
    State(service): State<Arc<LockService>>,
    Extension(OfConnection(connection)): Extension<OfConnection>,
    Json(mut request): Json<LockRequest>,
) -> Response {
    connection.carries(&service, request.session);
    // Not kept in memory while the request waits.
    let names = std::mem::take(&mut request.names);
    let names: Result<Vec<Name>, _> =
        names.into_iter().map(|name| STANDARD.decode(name).map(|text| service.name(&text))).collect();
    match names {
        Ok(mut names) => {
            names.sort_unstable();
            names.dedup();
            answer(service.lock(&request, names).await)
        }
        Err(error) => refuse(Refusal::new(RefusalKind::Usage, format!("invalid lock name: {error}"))),
    }
}

async fn fast_forward(
    State(service): State<Arc<LockService>>,
    Json(FastForward { to }): Json<FastForward>,
) -> Response {
    answer(service.fast_forward(to).await.map(|()| service.status()))
}

async fn stop(State(service): State<Arc<LockService>>) -> Response {
    let status = service.status();
    service.request_stop();
    Json(status).into_response()
}
