//! The server's part in a cut-over, at the request of a move.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cassette_admin_api::{CutOverAnswer, CutOverRequest, Refused};
use cassette_database::LogPoint;
use cassette_tls::ClientTls;

use super::Admin;
use crate::forwarding::{Forwarding, Marker};
use crate::gate::Gate;

/// The longest stall.
const STALL_MAX: Duration = Duration::from_secs(30);
/// How long requests in execution may take without a stall.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// What a cut-over changes.
pub struct Switch {
    /// Stalls and forwards requests.
    pub gate: Arc<Gate>,
    /// Records that durably.
    pub marker: Marker,
    /// Encrypts connections to the target. `None`: without TLS.
    pub tls: Option<ClientTls>,
}

/// Executes a step on this thread.
pub(super) fn perform(admin: &Admin, request: &CutOverRequest) -> Result<CutOverAnswer, Refused> {
    let Some(switch) = admin.switch.get() else {
        return Err(Refused::invalid("this server cannot forward its clients: it is open for reading only"));
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
        CutOverRequest::Stall { milliseconds } => {
            let at_most = Duration::from_millis(*milliseconds).min(STALL_MAX);
            gate.stall(at_most).map_err(Refused::invalid)?;
            let point = admin.log_point().inspect_err(|_| gate.release())?;
            Ok(answer(point))
        }
        CutOverRequest::Release => {
            gate.release();
            Ok(CutOverAnswer::default())
        }
        CutOverRequest::Forward { target } => {
            let to = Forwarding::new(target, switch.tls.clone()).map_err(Refused::wrong_use)?;
            gate.forward(to, || switch.marker.write(target)).map_err(Refused::invalid)?;
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
    }
}
