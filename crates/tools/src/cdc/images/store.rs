//! The copy's own tables: its state, the definitions of its tables, and the outbox.
//!
//! ```text
//! state    (name text PRIMARY KEY, value blob)
//! tables   (all blob, id uuid, definition blob, PRIMARY KEY (all, id))
//! outbox   (all blob, segment bigint, offset bigint, part int, line blob,
//!           PRIMARY KEY (all, segment, offset, part))
//! ```
//! The outbox has the lines of changes that were applied and not acknowledged, by position. They
//! are valid up to the position in `state`, which is written together with the changes.

use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use cassette_engine::commitlog::Position;
use cassette_engine::{Engine, Mutation};
use cassette_rows::{
    Bound, Clustering, ColumnKind, ColumnMetadata, DataType, DecoratedKey, DeletionTime, LivenessInfo,
    PartitionUpdate, RangeTombstone, Row, RowBuilder, Selection, Slice, Slices, TableId, TableMetadata,
    TableParams, Unfiltered,
};
use uuid::Uuid;

use super::super::position;
use super::tables::{self, CopiedTable};

const KEYSPACE: &str = "cassette_images";
/// Chosen once, at random.
const STATE: Uuid = Uuid::from_u128(0x5b1d_7a3e_0f44_4c67_9e52_6a81_c1d0_3f01);
const TABLES: Uuid = Uuid::from_u128(0x5b1d_7a3e_0f44_4c67_9e52_6a81_c1d0_3f02);
const OUTBOX: Uuid = Uuid::from_u128(0x5b1d_7a3e_0f44_4c67_9e52_6a81_c1d0_3f03);
/// The partition of `tables` and of `outbox`.
const ALL: &[u8] = b"all";

/// The copy's own tables in an engine.
pub(super) struct OwnTables {
    state: Arc<TableMetadata>,
    tables: Arc<TableMetadata>,
    outbox: Arc<TableMetadata>,
    /// The timestamp of the last write.
    last_timestamp: i64,
}

/// The lines of one position.
pub(super) struct OutboxEntry {
    pub position: Position,
    pub lines: Vec<String>,
}

fn table(id: Uuid, name: &str, keys: &[(&str, ColumnKind, DataType)], value: &str) -> Arc<TableMetadata> {
    let mut columns = vec![ColumnMetadata::new(value, ColumnKind::Regular, 0, DataType::Blob)];
    let mut places = [0; 2];
    for (name, kind, data_type) in keys {
        let place = &mut places[usize::from(*kind == ColumnKind::Clustering)];
        columns.push(ColumnMetadata::new(*name, *kind, *place, data_type.clone()));
        *place += 1;
    }
    // Removed lines are never written again, so their tombstones are not needed for long.
    let params = TableParams { gc_grace_seconds: 0, ..TableParams::default() };
    Arc::new(TableMetadata::new(TableId(id), KEYSPACE, name, columns, params))
}

impl OwnTables {
    /// Returns the tables, which must be created in the engine.
    pub fn new() -> Self {
        use ColumnKind::{Clustering, PartitionKey};
        let all = || ("all", PartitionKey, DataType::Blob);
        Self {
            state: table(STATE, "state", &[("name", PartitionKey, DataType::Text)], "value"),
            tables: table(TABLES, "tables", &[all(), ("id", Clustering, DataType::Uuid)], "definition"),
            outbox: table(
                OUTBOX,
                "outbox",
                &[
                    all(),
                    ("segment", Clustering, DataType::BigInt),
                    ("offset", Clustering, DataType::BigInt),
                    ("part", Clustering, DataType::Int),
                ],
                "line",
            ),
            last_timestamp: 0,
        }
    }

    pub fn all(&self) -> [Arc<TableMetadata>; 3] {
        [self.state.clone(), self.tables.clone(), self.outbox.clone()]
    }

    /// Begins the writes of this process: their timestamps are greater than those of earlier ones.
    pub fn begin_generation(&mut self, engine: &Engine) -> anyhow::Result<()> {
        let stored = self.state(engine, "generation")?;
        let last = stored.as_deref().and_then(|bytes| bytes.first_chunk()).copied();
        let generation = last.map_or(0, u32::from_be_bytes) + 1;
        if generation >= 1 << 23 {
            bail!("the copy has been opened too often; begin a new one");
        }
        self.last_timestamp = i64::from(generation) << 40;
        let written = self.write_state("generation", &generation.to_be_bytes());
        engine.apply(&[written])?;
        Ok(())
    }

    fn next_timestamp(&mut self) -> i64 {
        self.last_timestamp += 1;
        self.last_timestamp
    }

    fn put(
        &mut self,
        table: &Arc<TableMetadata>,
        key: &[u8],
        clustering: Clustering,
        value: &[u8],
    ) -> Mutation {
        let timestamp = self.next_timestamp();
        let mut row = RowBuilder::with_capacity(clustering, 1, value.len());
        row.liveness(LivenessInfo::new(timestamp));
        if let Some(column) = table.regular_columns().next() {
            row.live_cell(column.id, value, timestamp);
        }
        let mut update = PartitionUpdate::new(key_of(key));
        update.rows.push(row.finish());
        Mutation { table: table.clone(), update }
    }

    /// Returns the change of a value of the state.
    pub fn write_state(&mut self, name: &str, value: &[u8]) -> Mutation {
        let table = self.state.clone();
        self.put(&table, name.as_bytes(), Clustering::empty(), value)
    }

    /// Returns a value of the state.
    pub fn state(&self, engine: &Engine, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let mut stream = engine.read(self.state.id, &key_of(name.as_bytes()), &Selection::all())?;
        while stream.next_partition()?.is_some() {
            while let Some(next) = stream.next_unfiltered()? {
                if let Unfiltered::Row(row) = next {
                    return Ok(value_of(&row));
                }
            }
        }
        Ok(None)
    }

    /// Returns a position of the state; zero if it was never written.
    pub fn position(&self, engine: &Engine, name: &str) -> anyhow::Result<Position> {
        let Some(value) = self.state(engine, name)? else { return Ok(Position::ZERO) };
        let text = String::from_utf8(value).context("a position of the copy")?;
        position(&text).map_err(|error| anyhow!("{text}: {error}"))
    }

    /// Returns the change of the definition of a table.
    pub fn write_definition(
        &mut self,
        copied: &CopiedTable,
        stored: &TableMetadata,
    ) -> anyhow::Result<Mutation> {
        let definition = tables::encode(copied, stored)?;
        let table = self.tables.clone();
        Ok(self.put(&table, ALL, Clustering::of(&[stored.id.0.as_bytes()]), &definition))
    }

    /// Returns the removal of the definition of a table.
    pub fn remove_definition(&mut self, id: TableId) -> Mutation {
        let mut row = RowBuilder::new(Clustering::of(&[id.0.as_bytes()]));
        row.deletion(DeletionTime::new(self.next_timestamp(), 0));
        let mut update = PartitionUpdate::new(key_of(ALL));
        update.rows.push(row.finish());
        Mutation { table: self.tables.clone(), update }
    }

    /// Returns all tables of the copy.
    pub fn definitions(&self, engine: &Engine) -> anyhow::Result<Vec<CopiedTable>> {
        let mut found = Vec::new();
        let mut stream = engine.read(self.tables.id, &key_of(ALL), &Selection::all())?;
        while stream.next_partition()?.is_some() {
            while let Some(next) = stream.next_unfiltered()? {
                if let Unfiltered::Row(row) = next
                    && let Some(definition) = value_of(&row)
                {
                    found.push(tables::decode(&definition)?);
                }
            }
        }
        Ok(found)
    }

    /// Returns the change that adds a line to the outbox.
    pub fn write_line(&mut self, at: Position, part: usize, line: &str) -> Mutation {
        let part = i32::try_from(part).unwrap_or(i32::MAX);
        let [segment, offset] = clustering_of(at);
        let clustering = Clustering::of(&[&segment, &offset, &part.to_be_bytes()]);
        let table = self.outbox.clone();
        self.put(&table, ALL, clustering, line.as_bytes())
    }

    /// Returns the removal of the lines up to a position, or of those after it.
    pub fn remove_lines(&mut self, at: Position, after: bool) -> Mutation {
        let [segment, offset] = clustering_of(at);
        let bound = Bound::after(Clustering::of(&[&segment, &offset]));
        let (start, end) = if after { (bound, Bound::top()) } else { (Bound::bottom(), bound) };
        let deletion = DeletionTime::new(self.next_timestamp(), 0);
        let mut update = PartitionUpdate::new(key_of(ALL));
        update.range_tombstones.add(RangeTombstone { start, end, deletion }, &self.outbox.comparator);
        Mutation { table: self.outbox.clone(), update }
    }

    /// Calls `visit` with the lines of each position after `from`, in order.
    ///
    /// # Errors
    /// Those of `visit`; if the outbox cannot be read.
    pub fn read_lines(
        &self,
        engine: &Engine,
        from: Position,
        mut visit: impl FnMut(OutboxEntry) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let [segment, offset] = clustering_of(from);
        let start = Bound::after(Clustering::of(&[&segment, &offset]));
        let slices = Slices::new(vec![Slice { start, end: Bound::top() }], &self.outbox.comparator);
        let mut stream = engine.read(self.outbox.id, &key_of(ALL), &Selection { slices, reversed: false })?;
        let mut entry: Option<OutboxEntry> = None;
        while stream.next_partition()?.is_some() {
            while let Some(next) = stream.next_unfiltered()? {
                let Unfiltered::Row(row) = next else { continue };
                let Some(line) = value_of(&row) else { continue };
                let position = position_of(row.clustering()).context("the outbox of the copy")?;
                let line = String::from_utf8(line).context("the outbox of the copy")?;
                match &mut entry {
                    Some(entry) if entry.position == position => entry.lines.push(line),
                    _ => {
                        let lines = vec![line];
                        if let Some(done) = entry.replace(OutboxEntry { position, lines }) {
                            visit(done)?;
                        }
                    }
                }
            }
        }
        entry.map_or(Ok(()), visit)
    }
}

fn key_of(key: &[u8]) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(key))
}

fn value_of(row: &Row) -> Option<Vec<u8>> {
    row.cells().find(|cell| !cell.is_tombstone()).map(|cell| cell.value.to_vec())
}

/// Returns a position as two values of type bigint.
fn clustering_of(at: Position) -> [[u8; 8]; 2] {
    let segment = i64::try_from(at.segment).unwrap_or(i64::MAX);
    [segment.to_be_bytes(), i64::from(at.offset).to_be_bytes()]
}

fn position_of(clustering: &Clustering) -> Option<Position> {
    let number = |place| clustering.value(place).and_then(|bytes| bytes.try_into().ok());
    let segment = u64::try_from(i64::from_be_bytes(number(0)?)).ok()?;
    let offset = u32::try_from(i64::from_be_bytes(number(1)?)).ok()?;
    Some(Position { segment, offset })
}
