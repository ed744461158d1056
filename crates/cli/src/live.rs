//! The part of `cassette move` that follows changes and cuts over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use cassette_admin_api::{CutOverAnswer, CutOverRequest, STALL_MAX};
use cassette_database::Position;
use cassette_migration::{
    Captured, CutOver, Follow, ForwardError, LogPoint, SourceControl, Stall, StallError, Until,
};
use cassette_tools::nodetool::{CutOverClient, StepFailure};
use clap::Args;

use crate::config::{Config, duration};
use crate::credentials::client_tls;

/// Arguments about changes during the copy.
#[derive(Debug, Args)]
#[command(next_help_heading = "Changes during the copy")]
pub struct LiveArguments {
    /// Also apply the changes that the source captures in this directory (cdc_raw), until the
    /// command is interrupted; the same command resumes
    #[arg(long, value_name = "DIR", requires = "from", conflicts_with_all = ["verify", "dry_run"])]
    follow: Option<PathBuf>,

    /// End when the target has everything that was acknowledged until the end of the copy
    #[arg(long, requires = "follow", conflicts_with = "cutover")]
    until_caught_up: bool,

    /// Then let the source forward its clients to the target, permanently
    #[arg(long, requires = "follow")]
    cutover: bool,

    /// The longest time for which the cut-over may stall requests, at most 30s; the source
    /// continues afterwards
    #[arg(long, value_name = "DURATION", default_value = "900ms", value_parser = pause)]
    pause_max: Duration,

    /// Cut over although the source requires its clients to log in and the target does not
    #[arg(long, requires = "cutover")]
    accept_target_without_logins: bool,

    /// Remove captured segments when the target has their changes; no other consumer may need them
    #[arg(long, requires = "follow")]
    remove_captured: bool,

    /// The source's admin endpoint: HOST:PORT, or unix:PATH [default: 127.0.0.1:7199]
    #[arg(long, value_name = "ADDRESS", requires = "follow", default_value = "127.0.0.1:7199")]
    from_admin: String,

    /// Connect with TLS to the source's admin endpoint, whose certificate one in this file has
    /// signed
    #[arg(long, value_name = "FILE", requires = "follow")]
    from_admin_tls_ca: Option<PathBuf>,

    /// The source's configuration file, whose keys decrypt captured segments
    #[arg(long, value_name = "FILE", requires = "follow")]
    from_config: Option<PathBuf>,
}

/// Parses the time of a stall.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = duration(text).map_err(|error| format!("{error:#}"))?;
    if pause > STALL_MAX {
        return Err(format!(
            "expected at most {STALL_MAX:?}, found {pause:?}: the source stalls its clients no longer; cut over when \
             there are fewer or shorter requests"
        ));
    }
    Ok(pause)
}

impl LiveArguments {
    /// Returns whether the source forwards its clients when the move has ended.
    pub fn cuts_over(&self) -> bool {
        self.cutover
    }

    /// Returns how a move to `target` follows changes, if it does. `credentials` are those at the
    /// source.
    pub fn follow(
        &self,
        target: String,
        credentials: Option<(String, String)>,
    ) -> anyhow::Result<Option<Follow>> {
        let Some(directory) = &self.follow else { return Ok(None) };
        if !directory.is_dir() {
            bail!(
                "{}: expected the server's cdc_raw_directory, which it creates with cdc_enabled: true",
                directory.display()
            );
        }
        let encryption = match &self.from_config {
            Some(path) => Config::read(path)?.commitlog_encryption()?,
            None => None,
        };
        let credentials = credentials.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
        let tls = client_tls(self.from_admin_tls_ca.as_ref(), None, None)?;
        let client = CutOverClient::new(&self.from_admin, credentials, tls).map_err(anyhow::Error::msg)?;
        let until = if self.cutover {
            let accepts_open_target = self.accept_target_without_logins;
            Until::CutOver(CutOver { target, pause_max: self.pause_max, accepts_open_target })
        } else if self.until_caught_up {
            Until::CaughtUp
        } else {
            Until::Stopped(Arc::default())
        };
        let captured = Captured { directory: directory.clone(), encryption, removes: self.remove_captured };
        Ok(Some(Follow { captured, control: Arc::new(Control(client)), until }))
    }
}

/// The source's server, by its admin endpoint.
struct Control(CutOverClient);

impl Control {
    fn perform(&self, request: &CutOverRequest) -> Result<CutOverAnswer, String> {
        self.0.perform(request).map_err(|failure| match failure {
            StepFailure::Refused(reason) | StepFailure::Failed(reason) | StepFailure::Unknown(reason) => {
                reason
            }
        })
    }
}

fn point(answer: CutOverAnswer) -> LogPoint {
    LogPoint {
        position: Position { segment: answer.segment, offset: answer.offset },
        captured: Position { segment: answer.captured_segment, offset: answer.captured_offset },
        chain: answer.chain,
        blocks_writes: answer.blocks_writes,
        state: answer.state,
        last_timestamp: answer.last_timestamp,
    }
}

impl SourceControl for Control {
    fn point(&self) -> Result<LogPoint, String> {
        self.perform(&CutOverRequest::Point).map(point)
    }

    fn check_target(&self, target: &str) -> Result<(), String> {
        self.perform(&CutOverRequest::Check { target: target.to_owned() }).map(drop)
    }

    fn stall(&self, target: &str, at_most: Duration) -> Result<Stall, StallError> {
        let milliseconds = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        match self.0.perform(&CutOverRequest::Stall { milliseconds, target: target.to_owned() }) {
            Ok(answer) => Ok(Stall { number: answer.stall, point: point(answer) }),
            Err(StepFailure::Refused(reason)) => Err(StallError::Refused(reason)),
            // A stall without an answer ends by itself.
            Err(StepFailure::Failed(reason) | StepFailure::Unknown(reason)) => {
                Err(StallError::Failed(reason))
            }
        }
    }

    fn release(&self, stall: u64) -> Result<(), String> {
        self.perform(&CutOverRequest::Release { stall }).map(drop)
    }

    fn forward(&self, stall: u64) -> Result<(), ForwardError> {
        match self.0.perform(&CutOverRequest::Forward { stall }) {
            Ok(_) => Ok(()),
            Err(StepFailure::Refused(reason)) => Err(ForwardError::Refused(reason)),
            Err(StepFailure::Failed(reason) | StepFailure::Unknown(reason)) => {
                Err(ForwardError::Undecided(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_the_source_would_cut_short_is_refused() {
        assert_eq!(pause("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(pause("900ms"), Ok(Duration::from_millis(900)));
        let error = pause("31s").unwrap_err();
        assert!(error.starts_with("expected at most 30s, found 31s"), "{error}");
    }
}
