//! A move in bulk, from end to end.

use std::path::PathBuf;
use std::time::Instant;

use twox_hash::XxHash3_128;

use super::parts::PartsDirectory;
use super::pool::Pool;
use super::progress::Progress;
use super::slices::{Division, Slice, left};
use super::source::{Source, SourceTable};
use crate::copy::micros;
use crate::endpoint::{Endpoint, Session};
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::files::transfers::TargetTable;
use crate::files::{target, topology};
use crate::plan::{Plan, execute, is_empty};
use crate::schema::Table;
use crate::settings::{BulkOptions, Move, Summary};
use crate::streaming::replicas::Node;
use crate::token_range::TokenRange;

/// Reports what [`run`] would do.
pub fn dry_run(
    job: &Move,
    (source, target): (&Endpoint, &Endpoint),
    options: &BulkOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let rows = Source::new(source, 0);
    let mut to = target.session();
    let plan = Plan::make(&mut source.session(), &mut to, &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = target::nodes(&mut to, &options.files, observer)?;
    let tables = rows.tables(&plan)?;
    observer.event(&job.started(tables.len(), job.ranges, 0));
    for statement in plan.before.iter().chain(&plan.after) {
        observer.event(&Event::Schema { statement: statement.clone() });
    }
    if matches!(rows, Source::Selected { .. }) {
        // Of which the size is unknown.
        return Ok(());
    }
    let parts = |of: &SourceTable<'_>| of.bytes.div_ceil(options.part_bytes.max(1));
    observer.event(&Event::Sending {
        sstables: usize::try_from(tables.iter().map(parts).sum::<u64>()).unwrap_or(usize::MAX),
        nodes: nodes.len(),
        transfers: 0,
        transfers_done: 0,
        bytes: tables.iter().map(|of| of.bytes).sum(),
        bytes_done: 0,
    });
    Ok(())
}

/// See [`Move::run`].
pub fn run(
    job: &Move,
    (source, target): (&Endpoint, &Endpoint),
    options: &BulkOptions,
    observer: &dyn Observer,
) -> Result<Summary> {
    let start = Instant::now();
    let Endpoint::Cluster(cluster) = target else { return unsuitable("the target is not a cluster") };
    let rows = Source::new(source, 0);
    let mut to = target.session();
    let plan = Plan::make(&mut source.session(), &mut to, &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = target::nodes(&mut to, &options.files, observer)?;
    let tables = rows.tables(&plan)?;
    let progress = Progress::open(&job.progress, &job.from.name(), &job.to.address(), micros())?;
    let rows = Source::new(source, progress.started_micros);
    let directory = PartsDirectory::claim(&parts_path(job, options), &progress)?;
    execute(&mut to, &plan.before, observer)?;
    let targets = target::tables(&mut to, &plan, &nodes, &mut |to, index, table| {
        check_lists(to, &tables[index], table, progress.was_sending)
    })?;
    let writers = match rows {
        Source::Stored(_) => job.workers.min(std::thread::available_parallelism().map_or(1, usize::from)),
        Source::Selected { .. } => job.workers,
    };
    let keys: Vec<String> =
        tables.iter().zip(&targets).map(|(table, target)| key(table, target, &nodes)).collect();
    let (slices, slices_done) =
        slices(&tables, &targets, writers as u64, options, |table| progress.done(&keys[table]));
    observer.event(&Event::Started {
        from: job.from.name(),
        to: job.to.address(),
        tables: tables.len(),
        ranges: slices_done + slices.len() as u64,
        ranges_done: slices_done,
    });
    let pool = Pool {
        source: rows,
        tables: &tables,
        targets: &targets,
        keys: &keys,
        nodes: &nodes,
        slices: &slices,
        slices_done,
        progress: &progress,
        directory: &directory,
        options,
        writers,
        rate: job.rate,
        patience: cluster.settings.patience,
        observer,
    };
    if !progress.was_sending {
        progress.start_sending()?;
    }
    let done = pool.run()?;
    topology::check_unchanged(&mut to, &nodes)?;
    drop(directory);
    execute(&mut to, &plan.after, observer)?;
    let seconds = start.elapsed().as_secs_f64();
    observer.event(&Event::Finished { rows: done.rows, bytes: done.bytes, seconds });
    Ok(Summary { rows: done.rows, bytes: done.bytes, tables: tables.len(), seconds })
}

/// Returns the slices that are left of all tables, and the number of those that are complete.
fn slices<'p>(
    tables: &[SourceTable<'_>],
    targets: &[TargetTable],
    threads: u64,
    options: &BulkOptions,
    done: impl Fn(usize) -> &'p [TokenRange],
) -> (Vec<Slice>, u64) {
    let (mut slices, mut complete) = (Vec::new(), 0);
    for (table, (of, target)) in tables.iter().zip(targets).enumerate() {
        let (bytes, part_bytes) = (of.bytes, options.part_bytes);
        let ranges = Division { bytes, part_bytes, threads, replicas: &target.ranges }.ranges();
        let left = left(&ranges, done(table));
        complete += ranges.len().saturating_sub(left.len()) as u64;
        slices.extend(left.into_iter().map(|range| Slice { table, range }));
    }
    (slices, complete)
}

/// Returns the path of the directory of parts.
fn parts_path(job: &Move, options: &BulkOptions) -> PathBuf {
    options.directory.clone().unwrap_or_else(|| {
        let mut path = job.progress.clone().into_os_string();
        path.push(".parts");
        path.into()
    })
}

/// Checks that elements of selected lists, whose ids are new, cannot be added to others.
fn check_lists(
    target: &mut Session<'_>,
    source: &SourceTable<'_>,
    found: &Table,
    was_sending: bool,
) -> Result<()> {
    if was_sending || !source.is_selected() || !found.has_lists() || is_empty(target, found)? {
        return Ok(());
    }
    unsuitable(format!(
        "table {} has lists, and the target already has rows of it: CQL does not show the ids of their elements, \
         so that they would be added to those that the target has; TRUNCATE it at the target, or use --by rows",
        found.quoted()
    ))
}

/// Identifies a table by its content at the source, its id at the target, and the nodes that
/// replicate it.
fn key(table: &SourceTable<'_>, target: &TargetTable, nodes: &[Node]) -> String {
    let mut bytes = Vec::new();
    bytes.extend(table.content.to_be_bytes());
    bytes.extend(target.id.as_bytes());
    for (node, ranges) in nodes.iter().zip(&target.ranges) {
        if !ranges.is_empty() {
            bytes.extend(node.host_id.as_bytes());
            bytes.extend(format!("{ranges:?}").into_bytes());
        }
    }
    format!("{:032x}", XxHash3_128::oneshot(&bytes))
}
