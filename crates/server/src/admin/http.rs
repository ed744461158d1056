//! The routes of the endpoint.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Extension, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cassette_admin_api::{CutOverRequest, Operation, QueryRequest, Refused};
use cassette_http::{BodyError, buffered, host};

use super::access::{self, OfConnection, Requester};
use super::guard::{self, Head};
use super::top_partitions::{self, Asked};
use super::{Admin, cidr, cut_over, faults, history, operations, prometheus, query_logs, report, statements};

/// The maximum length of an operation, in bytes.
const OPERATION_LENGTH_MAX: usize = 1 << 20;

/// A question about an address.
#[derive(serde::Deserialize)]
struct OfAddress {
    address: IpAddr,
}

/// Builds the router. Bodies must arrive within `body_wait_max`.
pub(super) fn router(admin: Arc<Admin>, body_wait_max: Duration) -> Router {
    let router = readable().merge(operations());
    router
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "there is nothing of this name") })
        .layer(DefaultBodyLimit::max(OPERATION_LENGTH_MAX))
        // Each of these runs before those above it.
        .layer(middleware::from_fn_with_state(body_wait_max, arrived))
        .layer(middleware::from_fn_with_state(Arc::clone(&admin), access::authenticated))
        .layer(middleware::from_fn(guarded))
        .with_state(admin)
}

/// What every authenticated client may read.
fn readable() -> Router<Arc<Admin>> {
    Router::new()
        .route("/", get(|| async { page("text/html; charset=utf-8", include_str!("page/index.html")) }))
        .route("/page.css", get(|| async { page("text/css; charset=utf-8", include_str!("page/page.css")) }))
        .route(
            "/page.js",
            get(|| async { page("text/javascript; charset=utf-8", include_str!("page/page.js")) }),
        )
        .route(
            "/chart.js",
            get(|| async { page("text/javascript; charset=utf-8", include_str!("page/chart.js")) }),
        )
        .route("/metrics", get(metrics))
        .route("/v1/node", get(|admin| blocking(admin, |admin| Ok(report::node(admin)))))
        .route("/v1/tables", get(|admin| blocking(admin, |admin| Ok(report::tables(admin)))))
        .route("/v1/compactions", get(|admin| blocking(admin, |admin| Ok(report::compactions(admin)))))
        .route(
            "/v1/compactions/history",
            get(|admin| blocking(admin, |admin| report::compaction_history(admin))),
        )
        .route(
            "/v1/history",
            get(|admin, Query(asked): Query<history::Asked>| {
                blocking(admin, move |admin| match admin.history.get() {
                    Some(history) => history.report(&asked),
                    None => Err(Refused::invalid("this server records no history")),
                })
            }),
        )
        .route("/v1/snapshots", get(|admin| blocking(admin, |admin| report::snapshots(admin))))
        .route("/v1/unknown_tables", get(|admin| blocking(admin, |admin| report::unknown_tables(admin))))
        .route("/v1/guardrails", get(|admin| blocking(admin, |admin| Ok(report::guardrails(admin)))))
        .route("/v1/timeouts", get(|admin| blocking(admin, |admin| Ok(report::timeouts(admin)))))
        .route("/v1/audit_log", get(|admin| blocking(admin, |admin| query_logs::audit(admin))))
        .route("/v1/full_query_log", get(|admin| blocking(admin, |admin| query_logs::full_query(admin))))
        .route("/v1/cidr_filtering", get(|admin| blocking(admin, |admin| Ok(cidr::filtering(admin)))))
        .route("/v1/logging", get(|admin| blocking(admin, |admin| Ok(admin.logging.levels()))))
}

/// What only operators may do: changes, and reports that contain data or cost much.
fn operations() -> Router<Arc<Admin>> {
    Router::new()
        .route(
            "/v1/top_partitions",
            get(|State(admin): State<Arc<Admin>>, Query(asked): Query<Asked>| async move {
                answer(top_partitions::sample(&admin, &asked).await)
            }),
        )
        .route("/v1/cidr_groups", get(|admin| blocking(admin, |admin| cidr::groups(admin))))
        .route(
            "/v1/cidr_groups_of",
            get(|admin, Query(OfAddress { address }): Query<OfAddress>| {
                blocking(admin, move |admin| cidr::groups_of(admin, address))
            }),
        )
        .route("/v1/faults", get(|admin| blocking(admin, |admin| faults::list(admin))))
        .route("/v1/slow_queries", get(|admin| blocking(admin, |admin| Ok(query_logs::slow(admin)))))
        .route("/v1/running", get(|admin| blocking(admin, |admin| Ok(statements::running(admin)))))
        .route("/v1/log", get(|admin| blocking(admin, |admin| Ok(admin.logging.recent_lines()))))
        .route("/v1/query", post(query))
        .route("/v1/operations", post(operate))
        .route("/v1/cut_over", post(step_of_cut_over))
        .route_layer(middleware::from_fn(access::operators_only))
}

/// Rejects requests without permission; see [`guard`].
async fn guarded(Extension(connection): Extension<OfConnection>, request: Request, next: Next) -> Response {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = request.headers();
    let host = match host::sole_host(&request) {
        Ok(host) => host,
        Err(reason) => return refuse(StatusCode::FORBIDDEN, reason),
    };
    let origin = text(headers, header::ORIGIN);
    let fetch_site = text(headers, header::HeaderName::from_static("sec-fetch-site"));
    let content_type = text(headers, header::CONTENT_TYPE);
    let head = Head {
        host,
        is_encrypted: connection.peer.is_encrypted,
        origin: origin.as_deref(),
        fetch_site: fetch_site.as_deref(),
        content_type: content_type.as_deref(),
        changes_something: !matches!(*request.method(), Method::GET | Method::HEAD),
    };
    if let Some(reason) = guard::refusal(&head) {
        return refuse(StatusCode::FORBIDDEN, reason);
    }
    let mut response = next.run(request).await;
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        response.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// Reads the request's body, so that a slow client occupies no handler.
async fn arrived(State(wait_max): State<Duration>, request: Request, next: Next) -> Response {
    match buffered(request, OPERATION_LENGTH_MAX, wait_max).await {
        Ok(request) => next.run(request).await,
        Err(BodyError::Late) => {
            refuse(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive in time")
        }
        Err(BodyError::Unreadable) => {
            let reason =
                format!("the request's body is longer than {OPERATION_LENGTH_MAX} bytes or incomplete");
            refuse(StatusCode::PAYLOAD_TOO_LARGE, reason)
        }
    }
}

/// A part of the page. It loads nothing from other origins, and runs only its own scripts.
fn page(content_type: &'static str, content: &'static str) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
        img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [(header::CONTENT_TYPE, content_type), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, content).into_response()
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    let text = on_blocking_thread(admin, |admin| {
        let (tables, compactions) = (report::tables(admin), report::compactions(admin));
        prometheus::text(&report::node(admin), &tables, &compactions, &cidr::filtering(admin))
    });
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], text).into_response(),
        Err(refused) => refused,
    }
}

/// Executes an operation. The log shows who requested it: the audit log, as Cassandra's, records
/// statements and logins of CQL alone.
async fn operate(
    state: State<Arc<Admin>>,
    Extension(connection): Extension<OfConnection>,
    Extension(requester): Extension<Requester>,
    Json(operation): Json<Operation>,
) -> Response {
    let address = connection.peer.address.map(|address| format!(" at {address}")).unwrap_or_default();
    tracing::info!("operation of {requester}{address}: {operation:?}");
    blocking(state, move |admin| operations::perform(admin, &operation)).await
}

/// Executes a query of the dashboard. The log shows who requested it, as for operations.
async fn query(
    state: State<Arc<Admin>>,
    Extension(connection): Extension<OfConnection>,
    Extension(requester): Extension<Requester>,
    Json(request): Json<QueryRequest>,
) -> Response {
    tracing::info!("query of {requester}: {:?}", request.statement);
    blocking(state, move |admin| statements::query(admin, &connection, &requester, &request)).await
}

/// Executes a step of a cut-over. Points are requested often, and change nothing.
async fn step_of_cut_over(
    state: State<Arc<Admin>>,
    Extension(requester): Extension<Requester>,
    Json(request): Json<CutOverRequest>,
) -> Response {
    if request != CutOverRequest::Point {
        tracing::info!("cut-over of {requester}: {request:?}");
    }
    blocking(state, move |admin| cut_over::perform(admin, &request)).await
}

/// Answers with the result of `work`, which accesses files or takes long.
async fn blocking<T: serde::Serialize + Send + 'static>(
    State(admin): State<Arc<Admin>>,
    work: impl FnOnce(&Arc<Admin>) -> Result<T, Refused> + Send + 'static,
) -> Response {
    match on_blocking_thread(admin, work).await {
        Ok(done) => answer(done),
        Err(refused) => refused,
    }
}

/// Returns the result of `work`, or the response to a request whose work panicked. The panic is
/// logged and counted.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    admin: Arc<Admin>,
    work: impl FnOnce(&Arc<Admin>) -> T + Send + 'static,
) -> Result<T, Response> {
    let of_work = Arc::clone(&admin);
    tokio::task::spawn_blocking(move || work(&of_work)).await.map_err(|error| {
        tracing::error!(%error, "a request to the admin endpoint panicked");
        admin.database.engine().metrics().exceptions.add(1);
        refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    })
}

fn answer<T: serde::Serialize>(done: Result<T, Refused>) -> Response {
    match done {
        Ok(done) => Json(done).into_response(),
        Err(refused) => {
            let status = StatusCode::from_u16(refused.kind.status());
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Json(refused)).into_response()
        }
    }
}

pub(super) fn refuse(status: StatusCode, reason: impl Into<String>) -> Response {
    let refused = if status.is_client_error() { Refused::invalid(reason) } else { Refused::failed(reason) };
    (status, Json(refused)).into_response()
}
