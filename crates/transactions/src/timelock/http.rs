//! The server's paths; see [`messages`](super::messages).
//!
//! There are no passwords: whoever can connect may ask, and by default only this machine can. Web pages may not: what a browser sends says where
//! its page is from, and is refused. So is a request for a host that is neither an address nor a configured name of this server: a page
//! may have made that name resolve to this machine.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_http::host::{is_own, sole_host};
use cassette_http::{buffered, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::TimeLockError;
use super::connections::OfConnection;
use super::messages::{Batch, FastForward, LockRequest, Refusal, RefusalKind};
use super::registry::Name;
use super::server::{Desk, TimeLockServer};

/// The longest request, bytes: the names of the locks of a transaction of some 100,000 writes.
const REQUEST_LENGTH_MAX: usize = 32 << 20;
/// Bodies up to this length, bytes, need no room: a connection costs as much.
const SHORT_LENGTH_MAX: usize = 64 << 10;
/// How long a request with a longer one waits for room in memory.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long such a body may take to arrive.
const BODY_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a server that ends goes on answering.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);

impl TimeLockServer {
    /// Answers clients until `stop` is done, a client tells it to stop, or its part has ended for good. Then gives the lease back.
    ///
    /// # Errors
    /// What the listener fails with, or why the server's part has ended.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let desk = self.desk.clone();
        let (told, is_told) = oneshot::channel::<()>();
        let over = async move {
            tokio::select! {
                () = stop => {}
                () = desk.over() => {}
            }
            desk.ask_to_stop();
            drop(told);
        };
        // What is being answered then is; who waits for a lock of others is not waited for.
        let cut = async {
            let _ = is_told.await;
            tokio::time::sleep(LAST_ANSWERS_MAX).await;
        };
        let (router, limits) = (router(self.desk.clone()), self.desk.limits);
        tokio::select! {
            served = serve(listener, router, limits, OfConnection::default, over) => served?,
            () = cut => {}
        }
        // It waits for the store.
        let stopped = tokio::task::spawn_blocking(move || {
            self.stop();
            self.desk.stopped()
        });
        match stopped.await {
            Ok(None | Some(TimeLockError::Stopped)) => Ok(()),
            Ok(Some(error)) => Err(io::Error::other(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/v1/batch", post(batch))
        .route("/v1/lock", post(lock))
        .route("/v1/fast-forward", post(fast_forward))
        .route("/v1/stop", post(stop))
        .route("/v1/status", get(|State(desk): State<Arc<Desk>>| async move { Json(desk.status()) }))
        .fallback(|| async { refuse(Refusal::new(RefusalKind::Usage, "there is nothing of this name")) })
        .layer(DefaultBodyLimit::max(REQUEST_LENGTH_MAX))
        .layer(middleware::from_fn_with_state(desk.clone(), admitted))
        .layer(middleware::from_fn_with_state(desk.clone(), guarded))
        .with_state(desk)
}

/// Turns away what a page in a browser sends.
async fn guarded(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let host = match sole_host(&request) {
        Ok(host) => host,
        Err(reason) => return refuse(Refusal::new(RefusalKind::Usage, reason)),
    };
    if !is_own(host, desk.hosts.iter().map(|name| &**name)) {
        let refusal = format!(
            "invalid Host: expected an address, localhost or a name of this server, found {host}; \
             name it when the server is started (--host)"
        );
        return refuse(Refusal::new(RefusalKind::Usage, refusal));
    }
    let is_of_page =
        [header::ORIGIN.as_str(), "sec-fetch-site"].iter().any(|name| request.headers().contains_key(*name));
    if is_of_page {
        return refuse(Refusal::new(RefusalKind::Usage, "web pages may not ask"));
    }
    next.run(request).await
}

/// Reads a long body when there is room for it in memory. The room is given back when the body is understood.
async fn admitted(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    let length: usize = match length {
        Some(length) => length,
        None if request.method() == Method::GET => 0,
        None => REQUEST_LENGTH_MAX,
    };
    if length > REQUEST_LENGTH_MAX {
        return refuse(Refusal::new(RefusalKind::Usage, "the request is too long"));
    }
    let not_now = |what: &str| refuse(Refusal::new(RefusalKind::NotNow, what));
    const LATE: &str = "the request's body did not come in time";
    if length <= SHORT_LENGTH_MAX {
        let request = buffered(request, SHORT_LENGTH_MAX, desk.limits.body_wait_max).await;
        let Ok(request) = request else { return not_now(LATE) };
        return next.run(request).await;
    }
    let room = desk.bodies.clone().acquire_many_owned((length >> 10) as u32 + 1);
    let Ok(Ok(room)) = tokio::time::timeout(ROOM_WAIT_MAX, room).await else {
        return not_now("no room for the request's body");
    };
    let request = buffered(request, REQUEST_LENGTH_MAX, BODY_WAIT_MAX).await;
    let Ok(mut request) = request else { return not_now(LATE) };
    // Dropped with the request, when the handler has its contents.
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
    State(desk): State<Arc<Desk>>,
    Extension(OfConnection(connection)): Extension<OfConnection>,
    Json(batch): Json<Batch>,
) -> Response {
    connection.carries(&desk, batch.session);
    answer(desk.batch(&batch).await)
}

async fn lock(
    State(desk): State<Arc<Desk>>,
    Extension(OfConnection(connection)): Extension<OfConnection>,
    Json(mut request): Json<LockRequest>,
) -> Response {
    connection.carries(&desk, request.session);
    // Not kept while the request waits.
    let names = std::mem::take(&mut request.names);
    let names: Result<Vec<Name>, _> =
        names.into_iter().map(|name| STANDARD.decode(name).map(|text| desk.name(&text))).collect();
    match names {
        Ok(mut names) => {
            names.sort_unstable();
            names.dedup();
            answer(desk.lock(&request, names).await)
        }
        Err(error) => refuse(Refusal::new(RefusalKind::Usage, format!("the name of a lock: {error}"))),
    }
}

async fn fast_forward(
    State(desk): State<Arc<Desk>>,
    Json(FastForward { to }): Json<FastForward>,
) -> Response {
    answer(desk.fast_forward(to).await.map(|()| desk.status()))
}

async fn stop(State(desk): State<Arc<Desk>>) -> Response {
    let status = desk.status();
    desk.ask_to_stop();
    Json(status).into_response()
}
