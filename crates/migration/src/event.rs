//! What a move reports while it runs.

use serde::Serialize;

/// Receives events, from several threads.
pub trait Observer: Sync {
    /// Called for each event.
    fn event(&self, event: &Event);
}

/// An event of a move.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A move starts, or resumes.
    Started {
        /// The source.
        from: String,
        /// The target.
        to: String,
        /// Number of tables.
        tables: usize,
        /// Token ranges of all tables; 0 of moves by files and in bulk.
        ranges: u64,
        /// Those of them that an earlier run has completed.
        ranges_done: u64,
    },
    /// A statement is executed on the target; in a dry run, it would be.
    Schema {
        /// The statement.
        statement: String,
    },
    /// Something that the caller should know.
    Warning {
        /// The text.
        text: String,
    },
    /// Progress, once a second.
    Progress {
        /// Rows since the start of this run.
        rows: u64,
        /// Rows per second of this run.
        rows_per_second: f64,
        /// Completed token ranges of all tables.
        ranges_done: u64,
        /// Token ranges of all tables.
        ranges: u64,
        /// Estimated remaining time. `None` until a range is complete.
        seconds_left: Option<f64>,
    },
    /// The copy is followed by captured changes; once a second.
    Following {
        /// Changes of partitions that this run has applied.
        changes: u64,
        /// Captured bytes that have not been applied.
        bytes_behind: u64,
        /// Time since the target had all captured changes.
        seconds_behind: f64,
    },
    /// The source's server forwards its clients to the target.
    CutOver {
        /// How long requests were stalled, as measured here.
        pause_seconds: f64,
    },
    /// All token ranges of a table are complete.
    Table {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        table: String,
        /// Rows in this run.
        rows: u64,
    },
    /// A move by files starts to send, or resumes.
    Sending {
        /// SSTables of all tables.
        sstables: usize,
        /// Nodes that replicate their partitions.
        nodes: usize,
        /// SSTables for each of these nodes.
        transfers: u64,
        /// Those of them that an earlier run has completed.
        transfers_done: u64,
        /// Bytes of all transfers.
        bytes: u64,
        /// Bytes of the completed ones.
        bytes_done: u64,
    },
    /// An SSTable has been added to its table by a node.
    Sent {
        /// Its keyspace.
        keyspace: String,
        /// Its table.
        table: String,
        /// Its name in the data directory; `part` and a number in bulk.
        sstable: String,
        /// The storage port of the node.
        node: String,
        /// Bytes sent.
        bytes: u64,
        /// Partitions sent.
        partitions: u64,
        /// Whether the node got all components; otherwise sections of Data.
        whole: bool,
    },
    /// The SSTables of a table are in the directory that a node imports.
    Placed {
        /// Its keyspace.
        keyspace: String,
        /// Its table.
        table: String,
        /// The address of the node.
        node: String,
        /// The directory.
        directory: String,
        /// SSTables in it.
        sstables: usize,
        /// Their bytes.
        bytes: u64,
        /// Bytes of Data that were linked, so that they take no space.
        linked: u64,
    },
    /// A command of nodetool is executed, or the user has to execute it.
    Nodetool {
        /// The command.
        command: String,
    },
    /// A node has imported the SSTables of a table.
    Imported {
        /// Its keyspace.
        keyspace: String,
        /// Its table.
        table: String,
        /// The address of the node.
        node: String,
        /// SSTables.
        sstables: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// Progress of a move by files, once a second.
    SendingProgress {
        /// Bytes of all transfers that have been sent.
        bytes_done: u64,
        /// Bytes of all transfers.
        bytes: u64,
        /// Bytes per second of this run.
        bytes_per_second: f64,
        /// Completed transfers.
        transfers_done: u64,
        /// All transfers.
        transfers: u64,
        /// Estimated remaining time. `None` until something is sent.
        seconds_left: Option<f64>,
    },
    /// A row differs.
    Different(Difference),
    /// The move is complete.
    Finished {
        /// Rows in this run; 0 of a move by files.
        rows: u64,
        /// Bytes sent in this run; 0 of a move by rows.
        bytes: u64,
        /// Duration of this run.
        seconds: f64,
    },
}

/// A row that differs between source and target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its keyspace.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Its primary key: each value as hexadecimal digits of its serialization, or as text.
    pub key: Vec<String>,
    /// `source`: only the source has it; `target`: only the target has it; `both`: cells differ.
    pub found: String,
    /// Whether the target was rewritten.
    pub repaired: bool,
}
