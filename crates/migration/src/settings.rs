//! Settings and results of moves.

use std::net::IpAddr;
use std::path::PathBuf;

use cassette_tls::ClientTls;

use crate::client::ClusterSettings;
use crate::endpoint::{Endpoint, Place, TargetFiles};
use crate::error::{Result, unsuitable};
use crate::event::Event;
use crate::following::Follow;
use crate::plan::SchemaOptions;

/// A move of keyspaces.
#[derive(Clone)]
pub struct Move {
    /// The source.
    pub from: Place,
    /// The target.
    pub to: ClusterSettings,
    /// Keyspaces to move; all of users if empty.
    pub keyspaces: Vec<String>,
    /// Replication of created keyspaces: the map after `WITH replication =`. `None`: the source's.
    pub replication: Option<String>,
    /// Moves keyspaces without their functions and aggregates.
    pub without_functions: bool,
    /// The progress file, which a repeated run resumes from.
    pub progress: PathBuf,
    /// Number of token ranges of each table, by rows.
    pub ranges: u32,
    /// Number of token ranges that are read at the same time; in bulk from a directory, at most as
    /// many as there are processors.
    pub workers: usize,
    /// Maximum number of rows per second, by rows and in bulk.
    pub rate: Option<f64>,
    /// What is transferred.
    pub by: By,
    /// Also applies the changes that the source captures meanwhile; by rows.
    pub follow: Option<Follow>,
}

/// What a move transfers.
#[derive(Clone)]
pub enum By {
    /// Rows, over CQL.
    Rows,
    /// SSTables, to the storage ports of Cassandra's nodes. The source is a directory.
    Files(FileOptions),
    /// SSTables, placed in directories that nodes of Cassandra import. The source is a directory.
    Import(ImportOptions),
    /// Rows, merged and written into new SSTables, which are sent to the storage ports of
    /// Cassandra's nodes.
    Bulk(BulkOptions),
}

/// The result of a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Rows copied by this run; 0 of a move by files.
    pub rows: u64,
    /// Bytes sent by this run, to all nodes; 0 of a move by rows.
    pub bytes: u64,
    /// Number of tables.
    pub tables: usize,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Options of a verification.
#[derive(Clone, Default)]
pub struct VerifyOptions {
    /// Writes rows that differ again, with the cells of the source.
    pub repair: bool,
    /// The files of the target's nodes, opened for reading only. `None`: the nodes are queried.
    pub target_files: Option<TargetFiles>,
}

/// The result of a verification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerifySummary {
    /// Rows of the source.
    pub rows: u64,
    /// Number of rows that differ.
    pub differences: u64,
    /// Those of them that were repaired.
    pub repaired: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Options of a move by files.
#[derive(Clone, Default)]
pub struct FileOptions {
    /// The port for connections between nodes. `None`: that which each node reports.
    pub storage_port: Option<u16>,
    /// Encrypts connections to the storage port. `None`: without TLS.
    pub tls: Option<ClientTls>,
    /// Maximum number of bytes per second, to all nodes together.
    pub bytes_per_second: Option<f64>,
    /// SSTables that are sent to a node at the same time; 0 for the default of 2.
    pub sessions_per_node: usize,
}

/// A directory that this machine and a node can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportDirectory {
    /// The address of the node. `None`: that of the only node.
    pub node: Option<IpAddr>,
    /// The directory.
    pub path: PathBuf,
}

/// Options of a move by import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Where SSTables are placed for the nodes.
    pub directories: Vec<ImportDirectory>,
    /// The path of this directory at the nodes. `None`: the same path.
    pub node_directory: Option<PathBuf>,
    /// The command that runs `nodetool`, in which `{node}` stands for the address of a node.
    /// `None`: commands are reported, and the user executes them.
    pub nodetool: Option<String>,
    /// The nodes read all rows before they add SSTables, instead of comparing Data with its
    /// checksum.
    pub extended_verify: bool,
    /// Copies files that could be linked.
    pub copies: bool,
}

/// Options of a move in bulk.
#[derive(Clone)]
pub struct BulkOptions {
    /// How SSTables are sent.
    pub files: FileOptions,
    /// Bytes of a part: an SSTable that is written, sent and removed. A partition is never divided.
    pub part_bytes: u64,
    /// The directory for parts, which is created and removed. `None`: the path of the progress file
    /// with `.parts` appended.
    pub directory: Option<PathBuf>,
}

impl Default for BulkOptions {
    fn default() -> Self {
        Self { files: FileOptions::default(), part_bytes: 128 << 20, directory: None }
    }
}

impl Move {
    /// Returns a move with default options.
    pub fn new(from: Place, to: ClusterSettings) -> Self {
        Self {
            from,
            to,
            keyspaces: Vec::new(),
            replication: None,
            without_functions: false,
            progress: "cassette-move.progress".into(),
            ranges: 256,
            workers: 8,
            rate: None,
            by: By::Rows,
            follow: None,
        }
    }

    /// Opens source and target.
    pub(crate) fn open(&self) -> Result<(Endpoint, Endpoint)> {
        if self.ranges == 0 || self.ranges > 1 << 20 {
            return unsuitable(format!("expected 1 to {} token ranges, found {}", 1 << 20, self.ranges));
        }
        let source = Endpoint::open(&self.from)?;
        let target = Endpoint::open(&Place::Cluster(self.to.clone()))?;
        if let Place::Cluster(from) = &self.from
            && host_id(&source)? == host_id(&target)?
        {
            return unsuitable(format!("source and target are the same server, {}", from.address()));
        }
        Ok((source, target))
    }

    /// Returns what is moved of the schema.
    pub(crate) fn schema(&self) -> SchemaOptions {
        SchemaOptions {
            keyspaces: self.keyspaces.clone(),
            replication: self.replication.clone(),
            without_functions: self.without_functions,
        }
    }

    /// Returns the first event.
    pub(crate) fn started(&self, tables: usize, ranges: u32, ranges_done: u64) -> Event {
        Event::Started {
            from: self.from.name(),
            to: self.to.address(),
            tables,
            ranges: match self.by {
                By::Rows => tables as u64 * u64::from(ranges),
                By::Files(_) | By::Import(_) | By::Bulk(_) => 0,
            },
            ranges_done,
        }
    }
}

/// Returns the id of the node that an endpoint is connected to.
fn host_id(endpoint: &Endpoint) -> Result<Option<bytes::Bytes>> {
    let page = endpoint.session().query("SELECT host_id FROM system.local")?;
    Ok(page.get(0, "host_id").cloned())
}
