//! A whole node on a fake file system and a fake clock, driven by a seed and checked against a
//! model.
//!
//! A run opens a database on [`FakeFileSystem`](cassette_vfs::FakeFileSystem) and
//! [`ManualClock`](cassette_vfs::ManualClock), connects clients to it and carries out a list of
//! operations: statements of all kinds, maintenance, faults, the end of the process or of the
//! machine. After each start everything is compared with a model of what was written.
//!
//! # Layering
//!
//! The crate imports `server`, because it decodes and encodes what a connection does. No other
//! crate imports it. The model uses no code of the engine; only the token of a partition key, which
//! has test vectors, is `cassette_rows`'s.
//!
//! # Determinism
//!
//! The database runs without background threads. Flushes, compactions, builds of indexes and views,
//! syncs of the commit log and saving of caches are executed by the statement that needs them, or
//! as operations of the schedule. Each operation has its own seed, drawn from that of the run, so
//! that omitting operations does not change the others: [`shrink`] depends on that. A test runs
//! seeds twice and compares the traces, which include the numbers of operations on files.
//!
//! # Clients
//!
//! Clients speak protocol versions 3, 4 and 5 with and without compression (`wire`). Bytes cross
//! from the client's encoder to the server's decoder and back, and requests are executed by the
//! listener's [`Backend`](cassette_server::Backend), first without waiting, then with waiting.
//! Clients take turns request by request. Concurrent requests are tested elsewhere
//! (`crates/cli/tests/kill`, the tests of `engine` and `server`).
//!
//! # Faults
//!
//! The machine crashes at a chosen operation on files or between two statements (unsynced bytes
//! vanish or are torn), the process is killed or stopped, operations on files fail, the disk fills
//! up, operations take time, and the clock is set forwards and back. An error is accepted only in a
//! process lifetime with an injected fault, and only from statements that may fail for that reason.
//! Reads must succeed as soon as the disk works again.
//!
//! # Comparison
//!
//! `model` describes what may be read when the outcome of a write is unknown. The comparison covers
//! the schema, all rows of every table by a scan in pages, partitions, slices, reversed reads,
//! limits, counts, several partitions by IN, groups and aggregates, distinct partitions, the
//! results of every index, every view, and pages of scans that continue across other operations and
//! restarts.
//!
//! # Exclusions
//!
//! - Tables whose clients choose timestamps have no views, TTLs, conditional writes or early
//!   purges: out of order, Cassandra's own rules make their outcome depend on when compactions run.
//! - Where values expire, the clock is not set back, because expired values may have been purged.
//!   Time does not pass while a statement is executed, so the second in which its values expire is
//!   known.
//! - The server's connection is not used: it requires a socket, and passes requests that may block
//!   to a pool of threads. `wire` executes the same steps in the same order.
//! - Lists occur only in runs whose clock is not set back, and their elements are not addressed by
//!   index, because the element at an index depends on the contents of the list.
//! - Counters are not deleted.
//! - After the commit log has failed, the machine does not crash before the next start, because the
//!   surviving writes would not be a prefix.

mod damage;
mod definitions;
mod groups;
mod model;
mod node;
mod operation;
mod profile;
mod reads;
mod schema;
mod settle;
mod shrink;
mod simulation;
mod statements;
mod upkeep;
mod value;
mod wire;
mod writes;

pub use model::Mistake;
pub use operation::{Operation, operations};
pub use profile::Profile;
pub use shrink::shrink;

use simulation::Simulation;
use std::fmt;

/// Number of operations in a run.
pub const OPERATIONS: usize = 120;

/// A run that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The difference or the error.
    pub why: String,
    /// Executed operations and statements, one per line.
    pub trace: Vec<String>,
    /// Number of executed operations.
    pub steps: usize,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nafter\n{}", self.why, self.trace.join("\n"))
    }
}

/// Runs `count` operations of a seed.
///
/// # Errors
/// Returns the shortest failing trace found, and the command that runs the seed again.
pub fn run_seed(seed: u64, count: usize) -> Result<(), String> {
    let profile = Profile::of(seed);
    let operations = operations(seed, &profile, count);
    let Err(failure) = run(&profile, &operations) else { return Ok(()) };
    let why = failure.why.clone();
    let (shortest, failure) = shrink(&profile, &operations, failure);
    Err(format!(
        "seed {seed}: {why}\n\nthe shortest run found has {} operations: {failure}\n\nto run it again: make \
         simulate FROM={seed} SEEDS=1 OPERATIONS={count}\n{profile:?}",
        shortest.len(),
    ))
}

/// Runs operations. Returns the trace if the node agrees with the model.
pub fn run(profile: &Profile, operations: &[Operation]) -> Result<Vec<String>, Box<Failure>> {
    let mut simulation = match Simulation::new(profile.clone()) {
        Ok(simulation) => simulation,
        Err(why) => return Err(Box::new(Failure { why, trace: Vec::new(), steps: 0 })),
    };
    let mut steps = 0;
    let mut all = || -> Result<(), String> {
        for operation in operations {
            steps += 1;
            simulation.step(*operation)?;
        }
        simulation.finish()
    };
    match all() {
        Ok(()) => Ok(simulation.trace().to_vec()),
        Err(why) => Err(Box::new(Failure { why, trace: simulation.trace().to_vec(), steps })),
    }
}
