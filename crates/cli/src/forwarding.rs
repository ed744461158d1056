//! Forwarding of `cassette serve`: to a specified target, or after a cut-over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use cassette_server::admin::Switch;
use cassette_server::tls::ClientTls;
use cassette_server::{Forwarding, Gate, Marker};
use cassette_vfs::{FileSystem, RealFileSystem};
use clap::Args;

use crate::address::with_cql_port;
use crate::credentials::client_tls;

/// Why a server that has undone a cut-over refuses another one: with the same arguments, its next
/// start would undo it, too, and hide what the target has received.
const UNDONE: &str = "the server was started with --undo-cut-over, which is for one start only: \
    restart it without";

/// Arguments of `cassette serve` about forwarding.
#[derive(Debug, Args)]
pub struct ForwardingArguments {
    /// Pass all connections on to this server, or to one of these nodes of a cluster, instead of
    /// serving a data directory
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        conflicts_with_all = ["data", "read_only", "in_memory", "undo_cut_over"]
    )]
    forward: Vec<String>,

    /// Connect with TLS to the target of --forward, or of a cut-over, whose certificate one in this
    /// file has signed
    #[arg(long, value_name = "FILE")]
    forward_tls_ca: Option<PathBuf>,

    /// Serve the data directory again after a cut-over: it lacks what the target has received
    /// since. For one start only: this server cannot be cut over again until its next start
    #[arg(long)]
    undo_cut_over: bool,
}

impl ForwardingArguments {
    /// Returns where to forward: as specified, or recorded by a cut-over in the data directory, if
    /// the server writes to one.
    pub fn target(&self, data: Option<&Path>) -> anyhow::Result<Option<Arc<Forwarding>>> {
        let target = if !self.forward.is_empty() {
            let contacts: Vec<_> = self.forward.iter().map(|contact| with_cql_port(contact)).collect();
            Some(contacts.join(","))
        } else {
            data.map(|data| self.recorded(data)).transpose()?.flatten()
        };
        let forwarding = |target: String| Forwarding::new(&target, self.tls()?).map_err(anyhow::Error::msg);
        target.map(forwarding).transpose()
    }

    /// Returns the target of a cut-over that was not undone.
    fn recorded(&self, data: &Path) -> anyhow::Result<Option<String>> {
        if self.undo_cut_over {
            return Ok(None);
        }
        let marker = marker(data);
        let recorded = marker.read().with_context(|| marker.path().display().to_string())?;
        if let Some(target) = &recorded {
            tracing::warn!(
                "{} was cut over to {target}, which has all later writes; --undo-cut-over serves the directory \
                 again, without these",
                data.display()
            );
        }
        Ok(recorded)
    }

    /// Removes the record of a cut-over if that was requested. The listener must be bound already:
    /// a server that still forwards at this address keeps its record, without which its next start
    /// would serve the directory.
    pub fn undo(&self, data: &Path) -> anyhow::Result<()> {
        let marker = marker(data);
        let path = marker.path();
        if !self.undo_cut_over || !path.try_exists().with_context(|| path.display().to_string())? {
            return Ok(());
        }
        let lock = data.join("cassette.lock");
        let _lock = RealFileSystem.lock(&lock).with_context(|| format!("cannot lock {}", lock.display()))?;
        marker.remove().with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Returns what a cut-over of the server of `data` changes.
    pub fn switch(&self, gate: Arc<Gate>, data: &Path) -> anyhow::Result<Switch> {
        let refusal = self.undo_cut_over.then(|| UNDONE.to_owned());
        Ok(Switch { gate, marker: marker(data), tls: self.tls()?, refusal })
    }

    /// Returns how connections to the target are encrypted.
    fn tls(&self) -> anyhow::Result<Option<ClientTls>> {
        client_tls(self.forward_tls_ca.as_ref(), None, None).context("--forward-tls-ca")
    }
}

/// Returns the record of a cut-over in a data directory.
fn marker(data: &Path) -> Marker {
    Marker::new(Arc::new(RealFileSystem), data)
}
