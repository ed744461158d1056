//! `cassette lab agent`: executes operations for a driver on another machine.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use cassette_tls::secret::Token;
use cassette_vfs::SystemClock;
use clap::Args;

use super::security::SecurityArgs;
use crate::LabError;
use crate::agents::job::AgentLogin;
use crate::agents::{Agent, AgentSettings, with_port};
use crate::results::ProcessUse;

/// Arguments of `lab agent`.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Address to listen on for the driver
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7299")]
    listen: String,

    /// File with the token that drivers must have, which only its owner may read. Required on every
    /// address: a driver decides where the agent connects to
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,

    /// Process to observe instead of executing operations, that of a server on this machine: the
    /// driver (`lab run --observe`) samples its processor time, memory and disk use
    #[arg(long, value_name = "PID")]
    observe: Option<u32>,

    #[command(flatten)]
    security: SecurityArgs,
}

/// Runs the command, until it is ended by a signal.
pub fn run(args: &AgentArgs) -> Result<bool, LabError> {
    let token = Token::read(&args.token_file).map_err(|error| LabError::Usage(error.to_string()))?;
    if let Some(pid) = args.observe {
        ProcessUse::of(pid)?;
    }
    let client = args.security.client();
    let settings = AgentSettings {
        token,
        login: AgentLogin { credentials: client.credentials()?, tls: client.tls()? },
        observes: args.observe,
        clock: Arc::new(SystemClock::new()),
        log: Box::new(print),
    };
    let agent = Agent::bind(&with_port(&args.listen), settings)?;
    print(&format!("agent {} listens on {}", env!("CARGO_PKG_VERSION"), agent.address()));
    if !agent.address().ip().is_loopback() {
        print("connections of drivers are not encrypted: use a private network or a tunnel");
    }
    agent.serve()
}

/// Prints a line. A closed output does not end the agent.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
