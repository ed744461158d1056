//! A move by import, from end to end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use parking_lot::Mutex;
use twox_hash::XxHash3_128;

use super::directories::{self, NodeDirectory, remaining};
use super::nodetool::NodetoolCommand;
use super::placing::Placing;
use crate::endpoint::Session;
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::files::progress::Progress;
use crate::files::transfers::{self, SourceTable, Transfer, damaged};
use crate::files::{Places, columns, dropped_columns, grace, needs_directory, target, topology};
use crate::plan::{Plan, execute};
use crate::schema::Table;
use crate::settings::{ImportOptions, Move, Summary};
use crate::streaming::replicas::Node;

/// The SSTables of a table for a node.
struct Import<'i> {
    source: &'i SourceTable<'i>,
    node: &'i Node,
    at: &'i NodeDirectory,
    transfers: Vec<&'i Transfer>,
    /// Identifies it in the progress file.
    key: String,
    /// The directory with the SSTables, and its path at the node.
    directory: PathBuf,
    at_node: PathBuf,
}

impl Import<'_> {
    fn bytes(&self) -> u64 {
        self.readers().map(cassette_sstable::SSTableReader::bytes_on_disk).sum()
    }

    fn readers(&self) -> impl Iterator<Item = &cassette_sstable::SSTableReader> {
        self.transfers.iter().map(|transfer| &self.source.readers[transfer.sstable])
    }

    /// Returns whether SSTables have partitions that the node does not replicate.
    fn has_foreign_tokens(&self) -> bool {
        let is_whole = |transfer: &&&Transfer| {
            let length = self.source.readers[transfer.sstable].uncompressed_bytes();
            transfer.share.sections.are_all_of(length)
        };
        !self.transfers.iter().all(|transfer| is_whole(&transfer))
    }

    /// Identifies the directory as complete in the progress file.
    fn placed_key(&self) -> String {
        format!("placed {}", self.key)
    }

    /// Returns the commands for the node, in order.
    fn commands(&self, options: &ImportOptions) -> Vec<NodetoolCommand> {
        let (nodetool, node) = (options.nodetool.as_deref(), self.node.address.ip());
        let table = (self.source.table.keyspace.as_str(), self.source.table.name.as_str());
        let foreign = self.has_foreign_tokens();
        let flags = (options.extended_verify, foreign);
        let mut commands = vec![NodetoolCommand::import(nodetool, node, table, &self.at_node, flags)];
        commands.extend(foreign.then(|| NodetoolCommand::cleanup(nodetool, node, table)));
        commands
    }
}

/// Reports what [`run`] would do.
pub fn dry_run(job: &Move, options: &ImportOptions, observer: &dyn Observer) -> Result<()> {
    needs_directory(job)?;
    let (source, target) = job.open()?;
    let places = Places::new(&source, &target)?;
    let mut to = target.session();
    let plan = Plan::make(&mut source.session(), &mut to, &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = topology::nodes(&mut to, None)?;
    let tables = places.tables(&plan)?;
    check(&tables, &nodes)?;
    if !job.progress.exists() {
        check_views(&mut to, plan.tables())?;
    }
    let (from, address) = (job.from.name(), job.to.address());
    directories::of_nodes(options, &nodes, (&from, &address), |_| nodes.len() == 1)?;
    observer.event(&job.started(tables.len(), job.ranges, 0));
    let dropped = dropped_columns(&places, &plan, &tables)?;
    for statement in plan.before.iter().chain(&dropped).chain(&plan.after) {
        observer.event(&Event::Schema { statement: statement.clone() });
    }
    observer.event(&Event::Sending {
        sstables: tables.iter().map(|of| of.readers.len()).sum(),
        nodes: nodes.len(),
        transfers: 0,
        transfers_done: 0,
        bytes: tables.iter().map(SourceTable::bytes).sum(),
        bytes_done: 0,
    });
    Ok(())
}

/// See [`Move::run`].
pub fn run(job: &Move, options: &ImportOptions, observer: &dyn Observer) -> Result<Summary> {
    needs_directory(job)?;
    let start = Instant::now();
    let (source, target) = job.open()?;
    let places = Places::new(&source, &target)?;
    let (mut from, mut to) = (source.session(), target.session());
    let plan = Plan::make(&mut from, &mut to, &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = topology::nodes(&mut to, None)?;
    let tables = places.tables(&plan)?;
    check(&tables, &nodes)?;
    let names = (&*job.from.name(), &*job.to.address());
    // Before anything is created. Whether the others need one depends on the replication.
    directories::of_nodes(options, &nodes, names, |_| nodes.len() == 1)?;
    let dropped = dropped_columns(&places, &plan, &tables)?;
    let progress = Progress::open(&job.progress, names.0, names.1)?;
    observer.event(&job.started(tables.len(), job.ranges, 0));
    execute(&mut to, &plan.before, observer)?;
    execute(&mut to, &dropped, observer)?;
    let targets = target::tables(&mut to, &plan, &nodes, &mut |to, index, table| {
        let dropped = columns::dropped_of(to, table)?;
        tables[index].readers.iter().try_for_each(|reader| columns::check(table, reader, &dropped))
    })?;
    let transfers = transfers::plan(&tables, &targets, &nodes)?;
    let needs = |node: usize| transfers.iter().any(|transfer| transfer.share.node == node);
    let directories = directories::of_nodes(options, &nodes, names, needs)?;
    let imports = imports(&tables, &nodes, &directories, &transfers);
    let is_left = |import: &&Import<'_>| !progress.is_done(&import.key);
    let left: Vec<&Import<'_>> = imports.iter().filter(is_left).collect();
    check_views(&mut to, left.iter().map(|import| import.source.table))?;
    report_start(&imports, &left, nodes.len(), observer);
    let unsent = tables.iter().filter(|of| left.iter().any(|import| std::ptr::eq(import.source, *of)));
    grace::raise(&mut from, &mut to, unsent, &progress, observer)?;
    for import in &left {
        place(import, options, &progress, observer)?;
    }
    let bytes = left.iter().map(|import| import.bytes()).sum();
    topology::check_unchanged(&mut to, &nodes)?;
    if options.nodetool.is_some() {
        run_commands(&left, options, &progress, observer)?;
    } else {
        await_user(&left, options, &progress, observer)?;
    }
    topology::check_unchanged(&mut to, &nodes)?;
    directories.iter().flatten().try_for_each(NodeDirectory::remove)?;
    grace::restore(&mut to, &progress, observer)?;
    execute(&mut to, &plan.after, observer)?;
    let seconds = start.elapsed().as_secs_f64();
    observer.event(&Event::Finished { rows: 0, bytes, seconds });
    Ok(Summary { rows: 0, bytes, tables: tables.len(), seconds })
}

fn report_start(imports: &[Import<'_>], left: &[&Import<'_>], nodes: usize, observer: &dyn Observer) {
    let bytes: u64 = imports.iter().map(Import::bytes).sum();
    observer.event(&Event::Sending {
        sstables: imports.iter().map(|import| import.transfers.len()).sum(),
        nodes,
        transfers: imports.len() as u64,
        transfers_done: (imports.len() - left.len()) as u64,
        bytes,
        bytes_done: bytes - left.iter().map(|import| import.bytes()).sum::<u64>(),
    });
}

/// Checks that the nodes can import the SSTables.
fn check(tables: &[SourceTable<'_>], nodes: &[Node]) -> Result<()> {
    transfers::check_versions(tables, nodes)?;
    let mut readers = tables.iter().flat_map(|of| &of.readers);
    let is_own = |reader: &&cassette_sstable::SSTableReader| {
        reader.stats().host_id.is_some_and(|id| nodes.iter().any(|node| node.host_id == id))
    };
    match readers.find(is_own) {
        None => Ok(()),
        Some(reader) => unsuitable(format!(
            "SSTable {} was written by a node of the target, which would apply its positions to its own commit log: \
             use --by files, or execute `cassette nodetool compact` at the source first",
            reader.descriptor()
        )),
    }
}

/// Checks that no table has a view, which an import does not update.
fn check_views<'t>(to: &mut Session<'_>, tables: impl Iterator<Item = &'t Table>) -> Result<()> {
    for table in tables {
        let page = to.query(&format!(
            "SELECT view_name, base_table_name FROM system_schema.views WHERE keyspace_name = '{}'",
            table.keyspace.replace('\'', "''")
        ))?;
        let is_of_table = |row: &usize| page.text(*row, 1).as_ref() == Some(&table.name);
        if let Some(row) = (0..page.rows.len()).find(is_of_table) {
            return unsuitable(format!(
                "table {} has the materialized view {} at the target, which an import does not update: drop it there, \
                 and this move creates it again; or use --by files",
                table.quoted(),
                page.text(row, 0).unwrap_or_default()
            ));
        }
    }
    Ok(())
}

/// Returns what each node imports, table by table.
fn imports<'i>(
    tables: &'i [SourceTable<'i>],
    nodes: &'i [Node],
    directories: &'i [Option<NodeDirectory>],
    transfers: &'i [Transfer],
) -> Vec<Import<'i>> {
    let mut grouped: BTreeMap<(usize, usize), Vec<&Transfer>> = BTreeMap::new();
    for transfer in transfers {
        grouped.entry((transfer.share.node, transfer.table)).or_default().push(transfer);
    }
    let import = |((node, table), transfers): ((usize, usize), Vec<&'i Transfer>)| {
        let (source, at) = (&tables[table], directories[node].as_ref()?);
        let keys: Vec<&str> = transfers.iter().map(|transfer| transfer.key.as_str()).collect();
        let key = format!("{:032x}", XxHash3_128::oneshot(keys.join(" ").as_bytes()));
        let (directory, at_node) = at.of_table(&key, &source.table.keyspace, &source.table.name);
        Some(Import { source, node: &nodes[node], at, transfers, key, directory, at_node })
    };
    grouped.into_iter().filter_map(import).collect()
}

/// Places the SSTables of an import in its directory. If an earlier run has done so, completes
/// those that the node has not added: a node that was killed may have renamed some components.
fn place(
    import: &Import<'_>,
    options: &ImportOptions,
    progress: &Progress,
    observer: &dyn Observer,
) -> Result<()> {
    let number = |index: usize| index + 1;
    if progress.is_done(&import.placed_key()) {
        let left = remaining(&import.directory)?;
        let placing = Placing::create(&import.at.root, &import.directory, options.copies)?;
        for (index, reader) in import.readers().enumerate() {
            let suffix = format!("-{}-{}", number(index), reader.descriptor().version.format());
            if left.iter().any(|prefix| prefix.ends_with(&suffix)) {
                placing.place(reader, number(index))?;
            }
        }
        return placing.finish();
    }
    // What an interrupted run has left.
    let of_key = import.at.root.join(&import.key);
    if of_key.exists() {
        std::fs::remove_dir_all(&of_key).map_err(|error| directories::failed(&of_key, &error))?;
    }
    let placing = Placing::create(&import.at.root, &import.directory, options.copies)?;
    let mut linked = 0;
    for (index, reader) in import.readers().enumerate() {
        let placed = placing.place(reader, number(index));
        if placed.is_err() {
            // The space may be needed.
            let _ = std::fs::remove_dir_all(&of_key);
        }
        linked += placed?;
    }
    placing.finish()?;
    progress.finish(&import.placed_key())?;
    observer.event(&Event::Placed {
        keyspace: import.source.table.keyspace.clone(),
        table: import.source.table.name.clone(),
        node: import.node.address.ip().to_string(),
        directory: import.directory.display().to_string(),
        sstables: import.transfers.len(),
        bytes: import.bytes(),
        linked,
    });
    Ok(())
}

/// Runs the commands of all nodes, those of different nodes at the same time.
fn run_commands(
    left: &[&Import<'_>],
    options: &ImportOptions,
    progress: &Progress,
    observer: &dyn Observer,
) -> Result<()> {
    let mut of_nodes: BTreeMap<_, Vec<&Import<'_>>> = BTreeMap::new();
    for import in left {
        of_nodes.entry(import.node.host_id).or_default().push(import);
    }
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for imports in of_nodes.into_values() {
            let failure = &failure;
            scope.spawn(move || {
                for import in imports {
                    if failure.lock().is_some() {
                        return;
                    }
                    if let Err(error) = run_import(import, options, progress, observer) {
                        failure.lock().get_or_insert(error);
                    }
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

fn run_import(
    import: &Import<'_>,
    options: &ImportOptions,
    progress: &Progress,
    observer: &dyn Observer,
) -> Result<()> {
    for command in import.commands(options) {
        observer.event(&Event::Nodetool { command: command.text() });
        command.run().map_err(|error| explained(error, import))?;
        let left = remaining(&import.directory)?;
        if !left.is_empty() {
            return unsuitable(format!(
                "{} left {} SSTables in {}: check that the node has this directory at {}, otherwise specify \
                 --node-directory, then start the same command again",
                command.text(),
                left.len(),
                import.directory.display(),
                import.at_node.display()
            ));
        }
    }
    complete(import, progress, observer)
}

/// Returns the damage of the source if that is why the node refused its SSTables.
fn explained(error: crate::MoveError, import: &Import<'_>) -> crate::MoveError {
    for reader in import.readers() {
        for component in [cassette_sstable::Component::Data, cassette_sstable::Component::Index] {
            if !reader.components().contains(&component) {
                continue;
            }
            let checked = reader.stored(component).and_then(|mut stored| {
                while stored.next_piece()?.is_some() {}
                Ok(())
            });
            if let Err(damage) = checked {
                return damaged(&damage, reader);
            }
        }
    }
    error
}

fn complete(import: &Import<'_>, progress: &Progress, observer: &dyn Observer) -> Result<()> {
    progress.finish(&import.key)?;
    observer.event(&Event::Imported {
        keyspace: import.source.table.keyspace.clone(),
        table: import.source.table.name.clone(),
        node: import.node.address.ip().to_string(),
        sstables: import.transfers.len(),
        bytes: import.bytes(),
    });
    Ok(())
}

/// Reports the commands that the user has to execute.
///
/// # Errors
/// If there are some: the same command again completes the move.
fn await_user(
    left: &[&Import<'_>],
    options: &ImportOptions,
    progress: &Progress,
    observer: &dyn Observer,
) -> Result<()> {
    let mut waiting = 0;
    for import in left {
        if remaining(&import.directory)?.is_empty() {
            complete(import, progress, observer)?;
            continue;
        }
        waiting += 1;
        for command in import.commands(options) {
            let text = format!("at node {}: {}", import.node.address.ip(), command.text());
            observer.event(&Event::Nodetool { command: text });
        }
    }
    if waiting == 0 {
        return Ok(());
    }
    unsuitable(format!(
        "the SSTables of {waiting} tables are in place: execute the commands above, then start the same command again, \
         which completes the move"
    ))
}
