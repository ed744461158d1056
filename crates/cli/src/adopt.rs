//! `cassette adopt`: a data directory from directories of Cassandra.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use cassette_adopt::{
    AdoptOptions, Plan, PlanRequest, Reason, RunningCassandra, Step, adopt, estimate_text, plan_text,
    running_cassandra, size_text,
};
use cassette_vfs::{FileSystem, RealFileSystem, SystemClock};
use clap::Args;

use crate::logging::{self, LogArguments};
use crate::moving::console::Console;

const EXAMPLES: &str = "\
Examples:
  What would be adopted, and what is not supported:
    cassette adopt /var/lib/cassandra --dry-run

  One node, after it was stopped; SSTables are linked, not copied:
    cassette adopt /var/lib/cassandra --data /var/lib/cassette

  All nodes of a cluster, each with one of its directories:
    cassette adopt node1/data node2/data node3/data --data ./cassette-data

Cassandra's directories are not changed. The data directory appears when it is complete; an \
interrupted adoption leaves none, and can be repeated.";

/// Arguments of `cassette adopt`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AdoptArguments {
    /// Data directories of Cassandra, or directories that contain one as `data`; of one node or of
    /// several nodes of a cluster
    #[arg(required = true, value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,

    /// The data directory to make; it must not exist, or be empty
    #[arg(long, value_name = "DIR", default_value = "cassette-data")]
    data: PathBuf,

    /// Show the nodes, keyspaces, tables and sizes, what is not supported, and about how long the
    /// adoption takes, and stop
    #[arg(long)]
    dry_run: bool,

    /// Copy the SSTables. Otherwise they are linked, where the file system permits
    #[arg(long)]
    copy: bool,

    /// Read all SSTables completely, and check every checksum and value
    #[arg(long)]
    verify: bool,

    /// Adopt the roles, passwords and permissions of system_auth, too
    #[arg(long)]
    roles: bool,

    /// A commit log directory of Cassandra that is not beside a data directory
    #[arg(long, value_name = "DIR")]
    commitlog: Vec<PathBuf>,

    /// Lose the writes that are only in Cassandra's commit log, such as those of a damaged one
    #[arg(long)]
    ignore_commitlog: bool,

    /// Adopt although partitions may only be on nodes, or in data directories beside the specified
    /// ones, that are not specified
    #[arg(long)]
    ignore_missing_nodes: bool,

    /// Leave out tables and types that are not supported
    #[arg(long)]
    skip_unsupported: bool,

    /// Adopt although a process of Cassandra is running whose open files cannot be examined
    #[arg(long)]
    assume_stopped: bool,
}

/// Plans, and adopts unless it is a dry run.
pub fn run(arguments: &AdoptArguments) -> anyhow::Result<()> {
    logging::init(&LogArguments::default())?;
    let began = Instant::now();
    let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
    let request = PlanRequest {
        directories: arguments.directories.clone(),
        commitlogs: arguments.commitlog.clone(),
        ignore_commitlog: arguments.ignore_commitlog,
        roles: arguments.roles,
    };
    let plan = Plan::of(&fs, &request)?;
    let mut out = std::io::stdout().lock();
    // A reader of the first lines may close the pipe.
    let _ = write!(out, "{}", plan_text(&plan));
    let running = running_cassandra(&plan.directories());
    let options =
        AdoptOptions { target: arguments.data.clone(), copy: arguments.copy, verify: arguments.verify };
    if arguments.dry_run {
        let _ = writeln!(out, "{}", estimate_text(fs.as_ref(), &plan, &options)?);
        for process in &running {
            let _ = writeln!(out, "Running: {}", running_text(process));
        }
        return Ok(());
    }
    refuse_running(&running, arguments.assume_stopped)?;
    plan.check(|reason| match reason {
        Reason::Commitlog => arguments.ignore_commitlog,
        Reason::MissingNodes => arguments.ignore_missing_nodes,
        Reason::Unsupported => arguments.skip_unsupported,
        Reason::Final => false,
    })?;
    let clock = Arc::new(SystemClock::new());
    let console = Console::new(None)?;
    let adopted = adopt(&fs, clock, &plan, &options, &mut |step| console.show_progress(&step_text(&step)));
    console.clear();
    let adopted =
        adopted.with_context(|| format!("nothing was adopted into {}", arguments.data.display()))?;
    for warning in &adopted.warnings {
        let _ = writeln!(out, "Warning: {warning}");
    }
    if adopted.mutations > 0 {
        let _ = writeln!(out, "Took in {} writes from the commit log.", adopted.mutations);
    }
    let _ = writeln!(
        out,
        "Adopted {} tables with {} SSTables ({}) in {:.1} s: {} linked, {} copied.\nNext:\n  cassette serve --data {}",
        adopted.tables,
        adopted.sstables,
        size_text(adopted.bytes),
        began.elapsed().as_secs_f64(),
        adopted.linked,
        adopted.sstables - adopted.linked,
        arguments.data.display()
    );
    Ok(())
}

fn step_text(step: &Step<'_>) -> String {
    match step {
        Step::SSTables { table, permille } => format!("{} % of the SSTables, {table}", permille / 10),
        Step::CommitLog { bytes } => format!("applying the commit log, {}", size_text(*bytes)),
        Step::Building { count } => format!("building {count} indexes and views"),
        Step::Flushing => "flushing".to_owned(),
    }
}

fn running_text(process: &RunningCassandra) -> String {
    match &process.file {
        Some(file) => format!("Cassandra, process {}, has {} open", process.pid, file.display()),
        None => format!("Cassandra, process {}, whose open files this user may not examine", process.pid),
    }
}

fn refuse_running(running: &[RunningCassandra], assume_stopped: bool) -> anyhow::Result<()> {
    let uses = |process: &&RunningCassandra| process.file.is_some() || !assume_stopped;
    if let Some(process) = running.iter().find(uses) {
        let override_text =
            if process.file.is_none() { ", or add --assume-stopped if it uses others" } else { "" };
        bail!(
            "the directories are in use: {}. Stop it, after `nodetool drain`{override_text}",
            running_text(process)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_cannot_be_examined_can_be_assumed_to_be_elsewhere() {
        let known = RunningCassandra { pid: 7, file: Some("/var/lib/cassandra/data/x".into()) };
        let unknown = RunningCassandra { pid: 8, file: None };
        assert!(refuse_running(&[], false).is_ok());
        assert!(refuse_running(std::slice::from_ref(&unknown), true).is_ok());
        let error = refuse_running(std::slice::from_ref(&unknown), false).unwrap_err().to_string();
        assert!(error.contains("process 8") && error.contains("--assume-stopped"), "{error}");
        let error = refuse_running(&[unknown, known], true).unwrap_err().to_string();
        assert!(error.contains("process 7") && error.contains("nodetool drain"), "{error}");
    }
}
