//! The initial rows of a copy: those of snapshots.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use cassette_database::{Database, KeyspaceKind};
use cassette_engine::commitlog::Position;
use cassette_engine::{Durability, KeyRange, Mutation, SnapshotPosition};
use cassette_rows::{
    Bound, DeletionTime, PartitionUpdate, RangeTombstone, Row, Selection, TableMetadata, Unfiltered,
};
use cassette_vfs::FileSystem;

use super::Images;
use super::tables::CopiedTable;
use super::translate::ColumnMap;

/// The size of the rows that are written together, bytes.
const WRITTEN_TOGETHER: usize = 1 << 20;

/// The snapshot of a captured table.
pub(super) struct InitialRows {
    path: PathBuf,
    database: Database,
    pub table: Arc<TableMetadata>,
    /// It has the table's changes up to here, and no later ones.
    pub contained: Position,
}

/// Opens the snapshots at `paths` of tables whose changes are in `chain`.
///
/// # Errors
/// If one of them has no position in that chain, or is not that of a captured table.
pub(super) fn open(
    fs: &Arc<dyn FileSystem>,
    paths: &[PathBuf],
    chain: Option<u128>,
) -> anyhow::Result<Vec<InitialRows>> {
    let mut opened: Vec<InitialRows> = Vec::new();
    for path in paths {
        let initial =
            open_one(fs, path, chain).with_context(|| format!("--images-from {}", path.display()))?;
        if opened.iter().any(|other| other.table.id == initial.table.id) {
            bail!("--images-from {}: another snapshot of the same table", path.display());
        }
        opened.push(initial);
    }
    Ok(opened)
}

fn open_one(fs: &Arc<dyn FileSystem>, path: &Path, chain: Option<u128>) -> anyhow::Result<InitialRows> {
    let SnapshotPosition { position: contained, chain: taken_in } =
        cassette_engine::snapshot_position(fs.as_ref(), path)?.ok_or_else(|| {
            anyhow!(
                "the manifest has no position in the commit log; take a snapshot with `cassette nodetool snapshot` \
                 while cdc_enabled is true"
            )
        })?;
    if chain != Some(taken_in) {
        bail!(
            "the snapshot was taken before the captured changes began, or of another database; take a new one"
        );
    }
    let database = Database::open_read_only_on(fs.clone(), path)?;
    let catalog = database.catalog();
    // The directory's schema also creates the views of the table.
    let keyspaces = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let mut tables = keyspaces.flat_map(|keyspace| {
        keyspace.tables.values().filter(|table| !keyspace.views.contains_key(&table.name))
    });
    let (Some(table), None) = (tables.next().cloned(), tables.next()) else {
        bail!("expected the snapshot of one table");
    };
    if !table.params.cdc {
        bail!(
            "{} is not captured; its snapshot must be taken while it has cdc = true",
            table.qualified_name()
        );
    }
    Ok(InitialRows { path: path.to_owned(), database, table, contained })
}

impl Images {
    /// Writes the rows and tombstones of a snapshot to the copy.
    pub(super) fn load_rows(&mut self, initial: &InitialRows) -> anyhow::Result<()> {
        let copied = CopiedTable::new(&initial.table, true, initial.contained);
        let stored = self.tables.get(&copied.stored.id).context("a table of the copy")?.stored.clone();
        let columns = ColumnMap::new(&initial.table, &stored);
        let read = || format!("--images-from {}", initial.path.display());
        let engine = initial.database.engine();
        let mut stream =
            engine.scan(initial.table.id, &KeyRange::ALL, &Selection::all()).with_context(read)?;
        while let Some(header) = stream.next_partition().with_context(read)? {
            let mut pending = Pending::new(PartitionUpdate {
                deletion: header.deletion,
                static_row: header.static_row.as_ref().map(|row| columns.row(row)),
                ..PartitionUpdate::new(header.key)
            });
            let mut open: Option<(Bound, DeletionTime)> = None;
            while let Some(next) = stream.next_unfiltered().with_context(read)? {
                match next {
                    Unfiltered::Row(row) => pending.add(columns.row(&row)),
                    Unfiltered::Marker(marker) => {
                        if let Some((start, deletion)) = open.take() {
                            let tombstone = RangeTombstone { start, end: marker.bound.clone(), deletion };
                            pending.update.range_tombstones.add(tombstone, &stored.comparator);
                        }
                        open = marker.open.map(|deletion| (marker.bound, deletion));
                    }
                }
                if pending.bytes > WRITTEN_TOGETHER {
                    self.write(&stored, pending.take())?;
                }
            }
            self.write(&stored, pending.take())?;
        }
        Ok(())
    }

    fn write(&self, table: &Arc<TableMetadata>, update: PartitionUpdate) -> anyhow::Result<()> {
        let mutation = Mutation { table: table.clone(), update };
        Ok(self.engine.apply_with(&[mutation], Durability::WithLater)?)
    }
}

/// A part of a partition that is written next.
struct Pending {
    update: PartitionUpdate,
    bytes: usize,
}

impl Pending {
    fn new(update: PartitionUpdate) -> Self {
        Self { update, bytes: 0 }
    }

    fn add(&mut self, row: Row) {
        self.bytes += row.heap_size();
        self.update.rows.push(row);
    }

    fn take(&mut self) -> PartitionUpdate {
        self.bytes = 0;
        let next = PartitionUpdate::new(self.update.key.clone());
        std::mem::replace(&mut self.update, next)
    }
}
