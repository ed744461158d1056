//! A whole node on a fake file system and a fake clock, driven by a seed and checked against a
//! model.
//!
//! A run opens a database on [`FakeFileSystem`](cassette_vfs::FakeFileSystem) and
//! [`ManualClock`](cassette_vfs::ManualClock), connects clients to it and carries out a list of
//! operations: statements of all kinds, upkeep, faults, the end of the process or of the machine.
//! After each start everything is compared with a model of what was written.
//!
//! # Layering
//!
//! The crate lies above `server`, because it decodes and encodes what a connection does, and below
//! nothing: no other crate imports it. The model uses no code of the engine; only the token of a
//! partition key, which has test vectors, is `cassette_rows`'s.
//!
//! # Determinism
//!
//! The database runs without background threads. Flushes, compactions, builds of indexes and views,
//! syncs of the commit log and saving of caches happen where the statement that needs them runs
//! them, or as operations of the schedule. Each operation has its own seed, drawn from that of the
//! run, so that leaving operations out does not change the others: [`shrink`] depends on that. A
//! test runs seeds twice and compares the traces, which include the numbers of operations on files.
//!
//! # Clients
//!
//! Clients speak protocol versions 3, 4 and 5 with and without compression (`wire`). Bytes cross
//! from the client's encoder to the server's decoder and back, and requests are executed by the
//! [`Backend`](cassette_server::Backend) that the listener has, first without waiting, then with.
//! Clients take turns request by request; what a request does with others running beside it is
//! tested elsewhere (`crates/cli/tests/kill`, the tests of `engine` and `server`).
//!
//! # Faults
//!
//! The machine dies at a chosen operation on files or between two statements (unsynced bytes vanish
//! or are torn), the process is killed or stopped, operations on files fail, the disk fills up,
//! operations take time, and the clock is set forwards and back. An error is accepted in a life in
//! which something was made to fail, and only from statements that may fail for such a reason;
//! reads must succeed as soon as the disk is well again.
//!
//! # Comparison
//!
//! `model` describes what may be read when the fate of a write is unknown. Compared are the schema,
//! all rows of every table by a scan in pages, partitions, slices, reversed reads, limits, counts,
//! several partitions by IN, groups and aggregates, distinct partitions, what every index finds,
//! every view, and pages of scans that go on across other operations and restarts.
//!
//! # What is left out, and why
//!
//! - Tables whose clients choose timestamps have no views, TTLs, conditional writes or early
//!   purges: out of order, Cassandra's own rules make their outcome depend on when compactions run.
//! - Where values expire, the clock is not set back: what has expired may have been purged. Nor
//!   does time pass while a statement is executed: the second in which its values expire is known.
//! - The server's connection: it is written for a socket, whose readiness it asks for, and leaves
//!   requests that may block to a pool of threads. `wire` does what it does, in its order.
//! - Lists are only in runs whose clock is not set back, and their elements are not addressed by
//!   index: which one that is depends on what the list holds.
//! - Counters are not deleted.
//! - Once the commit log has failed, the machine does not crash before the next start: what
//!   survives is no prefix of the writes then.

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

/// How many operations a run has.
pub const OPERATIONS: usize = 120;

/// A run that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What is wrong.
    pub why: String,
    /// What was done, line by line.
    pub trace: Vec<String>,
    /// How many operations were carried out.
    pub steps: usize,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nafter\n{}", self.why, self.trace.join("\n"))
    }
}

/// Runs so many operations of a seed.
///
/// # Errors
/// With the shortest trace found that fails, and how to run the seed again.
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

/// Runs operations; the trace if all is well.
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
