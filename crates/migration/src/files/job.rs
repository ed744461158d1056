//! A move by files, from end to end.

use std::time::Instant;

use uuid::Uuid;

use cassette_client::ConnectError;

use super::pool::Pool;
use super::progress::Progress;
use super::transfers::{self, SourceTable, TargetTable};
use super::{columns, grace, topology};
use crate::client::Cluster;
use crate::endpoint::{Endpoint, Session};
use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::plan::{Plan, execute};
use crate::schema::{self, Keyspace};
use crate::settings::{FileOptions, Move, Summary};
use crate::streaming::replicas::{Node, Replication};
use crate::streaming::session::probe;

const NEEDS_DIRECTORY: &str = "a move by files reads SSTables of a data directory that no server has open: stop the \
     server and specify its directory with --data; or specify a directory that a backup of it was restored into \
     (`cassette backup restore`), or a snapshot of a table (`cassette nodetool snapshot`); or use --by rows";

/// Source and target, open.
struct Places<'p> {
    database: &'p cassette_database::Database,
    source: &'p Endpoint,
    cluster: &'p Cluster,
    target: &'p Endpoint,
}

impl<'p> Places<'p> {
    fn new(source: &'p Endpoint, target: &'p Endpoint) -> Result<Self> {
        match (source, target) {
            (Endpoint::Directory { database, .. }, Endpoint::Cluster(cluster)) => {
                Ok(Self { database, source, cluster, target })
            }
            _ => unsuitable(NEEDS_DIRECTORY),
        }
    }

    /// Reads the ring of the target, and connects to its nodes.
    fn nodes(&self, options: &FileOptions, observer: &dyn Observer) -> Result<Vec<Node>> {
        let nodes = topology::nodes(&mut self.target.session(), options.storage_port)?;
        let mut failed = Vec::new();
        for node in &nodes {
            match probe(node.address, options.tls.as_ref()) {
                Ok(()) => {}
                Err(ConnectError::Rejected(reason)) => return unsuitable(reason),
                Err(ConnectError::Failed(reason)) => failed.push(reason),
            }
        }
        if failed.len() == nodes.len() {
            return Err(MoveError::Unreachable {
                address: "the storage port of every node".to_owned(),
                reason: format!(
                    "{}; a move by files connects to the ports that nodes of Cassandra use among each other \
                     (--storage-port), see also --internode-tls-ca; use --by rows if they are not reachable",
                    failed[0]
                ),
            });
        }
        for reason in failed {
            observer.event(&Event::Warning { text: format!("{reason}; the move will wait for this node") });
        }
        Ok(nodes)
    }

    fn tables<'t>(&self, plan: &'t Plan) -> Result<Vec<SourceTable<'t>>> {
        plan.tables().map(|table| transfers::source_table(self.database, table)).collect()
    }
}

/// Reports what [`run`] would do.
pub fn dry_run(job: &Move, options: &FileOptions, observer: &dyn Observer) -> Result<()> {
    if !matches!(job.from, crate::endpoint::Place::Directory(_)) {
        return unsuitable(NEEDS_DIRECTORY);
    }
    let (source, target) = job.open()?;
    let places = Places::new(&source, &target)?;
    let plan = Plan::make(&mut source.session(), &mut target.session(), &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = places.nodes(options, observer)?;
    let tables = places.tables(&plan)?;
    transfers::check_versions(&tables, &nodes)?;
    observer.event(&job.started(tables.len(), 0));
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
    if !matches!(job.from, crate::endpoint::Place::Directory(_)) {
        return unsuitable(NEEDS_DIRECTORY);
    }
    let start = Instant::now();
    let (source, target) = job.open()?;
    let places = Places::new(&source, &target)?;
    let (mut from, mut to) = (source.session(), target.session());
    let plan = Plan::make(&mut from, &mut to, &job.schema())?;
    plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
    let nodes = places.nodes(options, observer)?;
    let tables = places.tables(&plan)?;
    transfers::check_versions(&tables, &nodes)?;
    let dropped = dropped_columns(&places, &plan, &tables)?;
    let progress = Progress::open(&job.progress, &job.from.name(), &job.to.address())?;
    observer.event(&job.started(tables.len(), 0));
    execute(&mut to, &plan.before, observer)?;
    execute(&mut to, &dropped, observer)?;
    let targets = target_tables(&mut to, &plan, &tables, &nodes)?;
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
    grace::restore(&mut to, &progress, observer)?;
    execute(&mut to, &plan.after, observer)?;
    let seconds = start.elapsed().as_secs_f64();
    observer.event(&Event::Finished { rows: 0, bytes, seconds });
    Ok(Summary { rows: 0, bytes, tables: tables.len(), seconds })
}

fn dropped_columns(places: &Places<'_>, plan: &Plan, tables: &[SourceTable<'_>]) -> Result<Vec<String>> {
    let (mut source, mut target) = (places.source.session(), places.target.session());
    let mut keyspaces: Vec<(&Keyspace, Option<Keyspace>)> = Vec::new();
    for keyspace in &plan.keyspaces {
        keyspaces.push((keyspace, schema::keyspace(&mut target, &keyspace.name)?));
    }
    columns::statements(&mut source, &mut target, &keyspaces, tables)
}

/// Reads what the target has of the tables, all of which exist there.
fn target_tables(
    target: &mut Session<'_>,
    plan: &Plan,
    tables: &[SourceTable<'_>],
    nodes: &[Node],
) -> Result<Vec<TargetTable>> {
    let mut found = Vec::with_capacity(tables.len());
    for keyspace in &plan.keyspaces {
        let Some(existing) = schema::keyspace(target, &keyspace.name)? else {
            return unsuitable(format!("keyspace {} was dropped at the target meanwhile", keyspace.name));
        };
        let replication = Replication::parse(&existing.replication_options).map_err(|reason| {
            MoveError::Unsuitable(format!("replication of keyspace {}: {reason}", keyspace.name))
        })?;
        let ranges = replication.ranges(nodes);
        if ranges.iter().all(Vec::is_empty) {
            return unsuitable(format!(
                "keyspace {} has no replica at the target: alter its replication {}",
                keyspace.name, existing.replication
            ));
        }
        for of in tables.iter().filter(|of| of.table.keyspace == keyspace.name) {
            let table = existing.tables.iter().find(|table| table.name == of.table.name);
            let table = table.ok_or_else(|| {
                MoveError::Unsuitable(format!(
                    "table {} was dropped at the target meanwhile",
                    of.table.quoted()
                ))
            })?;
            let dropped = columns::dropped_of(target, table)?;
            of.readers.iter().try_for_each(|reader| columns::check(table, reader, &dropped))?;
            let id = Uuid::parse_str(&table.id).map_err(|error| {
                MoveError::Unsuitable(format!("table {} has no id at the target: {error}", table.quoted()))
            })?;
            let has_attached_indexes = has_custom_indexes(target, &keyspace.name, &table.name)?;
            found.push(TargetTable { id, ranges: ranges.clone(), has_attached_indexes });
        }
    }
    Ok(found)
}

fn has_custom_indexes(target: &mut Session<'_>, keyspace: &str, table: &str) -> Result<bool> {
    let quoted = |name: &str| name.replace('\'', "''");
    let page = target.query(&format!(
        "SELECT kind FROM system_schema.indexes WHERE keyspace_name = '{}' AND table_name = '{}'",
        quoted(keyspace),
        quoted(table)
    ))?;
    Ok((0..page.rows.len()).any(|row| page.text(row, 0).as_deref() == Some("CUSTOM")))
}
