//! A move by files, from end to end.

use std::time::Instant;

use super::pool::Pool;
use super::progress::Progress;
use super::transfers::{self, SourceTable};
use super::{columns, grace, target, topology};
use crate::client::Cluster;
use crate::endpoint::{Endpoint, Place};
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::plan::{Plan, execute};
use crate::schema::{self, Keyspace};
use crate::settings::{FileOptions, Move, Summary};

const NEEDS_DIRECTORY: &str = "a move of SSTables needs a data directory that no server has open: stop the \
     server and specify its directory with --data; or specify a directory that a backup of it was restored into \
     (`cassette backup restore`), or a snapshot of a table (`cassette nodetool snapshot`); or use --by rows";

/// Checks that the source is a directory.
pub fn needs_directory(job: &Move) -> Result<()> {
    match job.from {
        Place::Directory(_) => Ok(()),
        Place::Cluster(_) => unsuitable(NEEDS_DIRECTORY),
    }
}

/// Source and target, open.
pub struct Places<'p> {
    database: &'p cassette_database::Database,
    source: &'p Endpoint,
    cluster: &'p Cluster,
    target: &'p Endpoint,
}

impl<'p> Places<'p> {
    pub fn new(source: &'p Endpoint, target: &'p Endpoint) -> Result<Self> {
        match (source, target) {
            (Endpoint::Directory { database, .. }, Endpoint::Cluster(cluster)) => {
                Ok(Self { database, source, cluster, target })
            }
            _ => unsuitable(NEEDS_DIRECTORY),
        }
    }

    pub fn tables<'t>(&self, plan: &'t Plan) -> Result<Vec<SourceTable<'t>>> {
        plan.tables().map(|table| transfers::source_table(self.database, table)).collect()
    }
}

/// Reports what [`run`] would do.
pub fn dry_run(job: &Move, options: &FileOptions, observer: &dyn Observer) -> Result<()> {
    needs_directory(job)?;
    let (source, target) = job.open()?;
    let places = Places::new(&source, &target)?;
    let plan = Plan::make(&mut source.session(), &mut target.session(), &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = target::nodes(&mut target.session(), options, observer)?;
    let tables = places.tables(&plan)?;
    transfers::check_versions(&tables, &nodes)?;
    observer.event(&job.started(tables.len(), job.ranges, 0));
    let dropped = dropped_columns(&places, &plan, &tables)?;
    for statement in plan.before.iter().chain(&dropped).chain(&plan.after) {
        observer.event(&Event::Schema { statement: statement.clone() });
    }
    let sstables: usize = tables.iter().map(|of| of.readers.len()).sum();
    let bytes = tables.iter().map(SourceTable::bytes).sum();
    observer.event(&Event::Sending {
        sstables,
        nodes: nodes.len(),
        transfers: 0,
        transfers_done: 0,
        bytes,
        bytes_done: 0,
    });
    Ok(())
}

/// See [`Move::run`].
pub fn run(job: &Move, options: &FileOptions, observer: &dyn Observer) -> Result<Summary> {
    needs_directory(job)?;
    let start = Instant::now();
    let (source, target) = job.open()?;
    let places = Places::new(&source, &target)?;
    let (mut from, mut to) = (source.session(), target.session());
    let plan = Plan::make(&mut from, &mut to, &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = target::nodes(&mut to, options, observer)?;
    let tables = places.tables(&plan)?;
    transfers::check_versions(&tables, &nodes)?;
    let dropped = dropped_columns(&places, &plan, &tables)?;
    let progress = Progress::open(&job.progress, &job.from.name(), &job.to.address())?;
    observer.event(&job.started(tables.len(), job.ranges, 0));
    execute(&mut to, &plan.before, observer)?;
    execute(&mut to, &dropped, observer)?;
    let targets = target::tables(&mut to, &plan, &nodes, &mut |to, index, table| {
        let dropped = columns::dropped_of(to, table)?;
        tables[index].readers.iter().try_for_each(|reader| columns::check(table, reader, &dropped))
    })?;
    let transfers = transfers::plan(&tables, &targets, &nodes)?;
    let is_left = |table: usize| {
        transfers.iter().any(|transfer| transfer.table == table && !progress.is_done(&transfer.key))
    };
    let unsent = tables.iter().enumerate().filter(|(index, _)| is_left(*index)).map(|(_, of)| of);
    grace::raise(&mut from, &mut to, unsent, &progress, observer)?;
    let pool = Pool {
        tables: &tables,
        targets: &targets,
        nodes: &nodes,
        transfers: &transfers,
        progress: &progress,
        options,
        patience: places.cluster.settings.patience,
        observer,
    };
    let bytes = pool.run()?;
    topology::check_unchanged(&mut to, &nodes)?;
    grace::restore(&mut to, &progress, observer)?;
    execute(&mut to, &plan.after, observer)?;
    let seconds = start.elapsed().as_secs_f64();
    observer.event(&Event::Finished { rows: 0, bytes, seconds });
    Ok(Summary { rows: 0, bytes, tables: tables.len(), seconds })
}

/// Returns the statements that make dropped columns of the source known at the target.
pub fn dropped_columns(places: &Places<'_>, plan: &Plan, tables: &[SourceTable<'_>]) -> Result<Vec<String>> {
    let (mut source, mut target) = (places.source.session(), places.target.session());
    let mut keyspaces: Vec<(&Keyspace, Option<Keyspace>)> = Vec::new();
    for keyspace in &plan.keyspaces {
        keyspaces.push((keyspace, schema::keyspace(&mut target, &keyspace.name)?));
    }
    columns::statements(&mut source, &mut target, &keyspaces, tables)
}
