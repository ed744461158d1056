//! The server's part in a cut-over, at the request of a move.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cassette_admin_api::{CutOverAnswer, CutOverRequest, Refused, STALL_MAX};
use cassette_database::LogPoint;
use cassette_tls::ClientTls;

use super::Admin;
use crate::forwarding::{Forwarding, Marker, Own};
use crate::gate::Gate;

/// How long requests in execution may take without a stall.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// How long the check of a target may take, with all its contact points.
const CHECK_MAX: Duration = Duration::from_secs(60);

/// What a cut-over changes.
pub struct Switch {
    /// Stalls and forwards requests.
    pub gate: Arc<Gate>,
    /// Records that durably.
    pub marker: Marker,
    /// Encrypts connections to the target. `None`: without TLS.
    pub tls: Option<ClientTls>,
    /// Why this server must not be cut over, if so.
    pub refusal: Option<String>,
}

impl Switch {
    /// Returns where requests would be forwarded to, after a check of the target.
    fn target(&self, admin: &Admin, target: &str) -> Result<Arc<Forwarding>, Refused> {
        if let Some(reason) = &self.refusal {
            return Err(Refused::invalid(reason));
        }
        let to = Forwarding::new(target, self.tls.clone()).map_err(Refused::wrong_use)?;
        let has_client = |option: &str, value: &str| {
            let clients = admin.server.clients();
            clients.iter().any(|client| client.options.get(option).is_some_and(|found| found == value))
        };
        let own = Own { host_id: admin.database.node().host_id, has_client: &has_client };
        let checked = tokio::runtime::Handle::current()
            .block_on(async { tokio::time::timeout(CHECK_MAX, to.check(&own)).await });
        let checked = checked.map_err(|_| {
            Refused::failed(format!("the check of the target did not end within {CHECK_MAX:?}"))
        })?;
        checked.map(|()| to).map_err(Refused::invalid)
    }
}

/// Executes a step on this thread, which must belong to a runtime and may block.
pub(super) fn perform(admin: &Admin, request: &CutOverRequest) -> Result<CutOverAnswer, Refused> {
    let Some(switch) = admin.switch.get() else {
        let reason = if admin.database.engine().is_in_memory() {
            "its files are in memory; start it with --data to cut it over"
        } else {
            "it is open for reading only"
        };
        return Err(Refused::invalid(format!("this server cannot forward its clients: {reason}")));
    };
    let gate = &switch.gate;
    match request {
        CutOverRequest::Point => {
            // The position first: requests that it does not cover are captured, or end before this
            // returns.
            let point = admin.log_point()?;
            if !gate.drained(Instant::now() + DRAIN_MAX) {
                return Err(Refused::failed(format!(
                    "requests in execution did not end within {DRAIN_MAX:?}"
                )));
            }
            // Of the writes that ended meanwhile, too.
            let later = admin.log_point()?;
            Ok(answer(LogPoint { position: point.position, ..later }))
        }
        CutOverRequest::Check { target } => {
            switch.target(admin, target)?;
            Ok(CutOverAnswer::default())
        }
        CutOverRequest::Stall { milliseconds, target } => {
            let at_most = Duration::from_millis(*milliseconds);
            if at_most > STALL_MAX {
                return Err(Refused::wrong_use(format!(
                    "invalid time of a stall: expected at most {STALL_MAX:?}, found {at_most:?}"
                )));
            }
            let to = switch.target(admin, target)?;
            let stall = gate.stall(to, at_most)?;
            let point = admin.log_point().inspect_err(|_| gate.release(stall))?;
            Ok(CutOverAnswer { stall, ..answer(point) })
        }
        CutOverRequest::Release { stall } => {
            gate.release(*stall);
            Ok(CutOverAnswer::default())
        }
        CutOverRequest::Forward { stall } => {
            gate.forward(*stall, |to| switch.marker.write(to.target()))?;
            Ok(CutOverAnswer::default())
        }
    }
}

impl Admin {
    fn log_point(&self) -> Result<LogPoint, Refused> {
        self.database.log_point().map_err(|error| Refused::failed(error.to_string()))
    }
}

fn answer(point: LogPoint) -> CutOverAnswer {
    let LogPoint { position, captured, chain, blocks_writes, state, last_timestamp } = point;
    CutOverAnswer {
        segment: position.segment,
        offset: position.offset,
        captured_segment: captured.segment,
        captured_offset: captured.offset,
        chain: format!("{chain:032x}"),
        blocks_writes,
        state,
        last_timestamp,
        stall: 0,
    }
}
