//! Tables and random contents for them: every kind of row, cell and deletion, from a seed.

use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::merge::merge_rows;
use cassette_rows::{
    Bound, Cell, Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, DecoratedKey, DeletionTime,
    LivenessInfo, NO_DELETION_TIME, NO_TTL, PartitionUpdate, RangeTombstone, Row, RowBuilder, Side, TableId,
    TableMetadata, TableParams, key,
};

/// Write timestamps lie around this, local deletion times around its seconds.
const NOW: i64 = 1_700_000_000_000_000;

/// A table with what it takes to make it in Cassandra.
pub struct RandomTable {
    /// The table.
    pub table: Arc<TableMetadata>,
    /// The columns and key in a CREATE TABLE statement.
    pub cql: &'static str,
}

/// A column, whose id the table gives.
pub fn column(
    name: &str,
    kind: ColumnKind,
    position: usize,
    data_type: DataType,
    reversed: bool,
) -> ColumnMetadata {
    ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind, position, data_type) }
}

/// Tables of all shapes.
pub fn tables() -> Vec<RandomTable> {
    use ColumnKind::{Clustering as C, PartitionKey as K, Regular as R, Static as S};
    use DataType::*;
    let list = || DataType::list(Int);
    let set = || DataType::set(Text);
    let map = || DataType::map(Text, BigInt);
    let mut many: Vec<_> = (0..70).map(|i| column(&format!("v{i:02}"), R, 0, Int, false)).collect();
    many.extend([column("k", K, 0, Blob, false), column("c", C, 0, BigInt, false)]);
    let make = |name: &str, number: u128, columns, cql| RandomTable {
        table: Arc::new(TableMetadata::new(
            TableId(uuid::Uuid::from_u128(0x1000_8000_0000_0000_0000 | number)),
            "random",
            name,
            columns,
            TableParams { bloom_filter_fp_chance: Some(0.01), ..TableParams::default() },
        )),
        cql,
    };
    vec![
        make(
            "plain",
            1,
            vec![
                column("k", K, 0, Int, false),
                column("v", R, 0, Text, false),
                column("n", R, 0, BigInt, false),
            ],
            "k int PRIMARY KEY, v text, n bigint",
        ),
        make(
            "wide",
            2,
            vec![
                column("k", K, 0, Text, false),
                column("c1", C, 0, Int, false),
                column("c2", C, 1, Text, true),
                column("s", S, 0, Text, false),
                column("sl", S, 0, list(), false),
                column("v", R, 0, Blob, false),
                column("t", R, 0, TinyInt, false),
                column("n", R, 0, Int, false),
                column("m", R, 0, map(), false),
                column("st", R, 0, set(), false),
            ],
            "k text, c1 int, c2 text, s text static, sl list<int> static, v blob, t tinyint, n int, m map<text, \
             bigint>, st set<text>, PRIMARY KEY (k, c1, c2)) WITH CLUSTERING ORDER BY (c1 ASC, c2 DESC",
        ),
        make("many", 3, many, MANY),
        make(
            "keyonly",
            4,
            vec![
                column("a", K, 0, Int, false),
                column("b", K, 1, Text, false),
                column("c", C, 0, Text, false),
                column("d", C, 1, Int, true),
            ],
            "a int, b text, c text, d int, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC",
        ),
    ]
}

const MANY: &str = "k blob, c bigint, v00 int, v01 int, v02 int, v03 int, v04 int, v05 int, v06 int, v07 int, v08 int, \
v09 int, v10 int, v11 int, v12 int, v13 int, v14 int, v15 int, v16 int, v17 int, v18 int, v19 int, v20 int, v21 int, \
v22 int, v23 int, v24 int, v25 int, v26 int, v27 int, v28 int, v29 int, v30 int, v31 int, v32 int, v33 int, v34 int, \
v35 int, v36 int, v37 int, v38 int, v39 int, v40 int, v41 int, v42 int, v43 int, v44 int, v45 int, v46 int, v47 int, \
v48 int, v49 int, v50 int, v51 int, v52 int, v53 int, v54 int, v55 int, v56 int, v57 int, v58 int, v59 int, v60 int, \
v61 int, v62 int, v63 int, v64 int, v65 int, v66 int, v67 int, v68 int, v69 int, PRIMARY KEY (k, c)";

/// Contents for a table.
pub struct Contents<'a, R> {
    /// Numbers.
    pub random: &'a mut R,
    /// The table.
    pub table: Arc<TableMetadata>,
}

impl<R: FnMut() -> usize> Contents<'_, R> {
    fn below(&mut self, end: usize) -> usize {
        (self.random)() % end
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn value(&mut self, data_type: &DataType) -> Vec<u8> {
        match data_type {
            DataType::Int => (self.below(50) as i32 - 20).to_be_bytes().to_vec(),
            DataType::BigInt => (self.below(1 << 40) as i64 - 100).to_be_bytes().to_vec(),
            DataType::TinyInt => vec![self.below(256) as u8],
            DataType::TimeUuid => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&(self.below(1 << 50) as u64).to_be_bytes());
                bytes[6] = 0x10 | bytes[6] & 0x0f;
                bytes[15] = self.below(100) as u8;
                bytes.to_vec()
            }
            DataType::Text => {
                let length = [0, 1, 3, 10, 300][self.below(5)];
                (0..length).map(|_| b'a' + self.below(4) as u8).collect()
            }
            _ => {
                let length = [0, 1, 20, 700, 5000][self.below(5)];
                let fill = self.below(256) as u8;
                (0..length).map(|i| if i % 7 == 0 { i as u8 } else { fill }).collect()
            }
        }
    }

    fn timestamp(&mut self) -> i64 {
        NOW + self.below(1000) as i64
    }

    fn seconds(&mut self) -> u32 {
        (NOW / 1_000_000) as u32 + self.below(100_000) as u32
    }

    fn deletion(&mut self) -> DeletionTime {
        DeletionTime::new(self.timestamp(), self.seconds())
    }

    /// A cell of these bytes, live, expiring or dead.
    fn cell<'a>(
        &mut self,
        column: ColumnId,
        path: Option<&'a [u8]>,
        value: &'a [u8],
        row: LivenessInfo,
    ) -> Cell<'a> {
        let timestamp = if row.is_empty() || self.chance(30) { self.timestamp() } else { row.timestamp };
        let mut cell =
            Cell { column, path, value, timestamp, ttl: NO_TTL, local_deletion_time: NO_DELETION_TIME };
        match self.below(10) {
            0 => {
                cell.value = &[];
                cell.local_deletion_time = self.seconds();
            }
            1 => {
                cell.ttl = 1 + self.below(1000) as u32;
                cell.local_deletion_time = self.seconds();
            }
            2 if row.is_expiring() => {
                cell.ttl = row.ttl;
                cell.local_deletion_time = row.local_expiration;
            }
            _ => {}
        }
        cell
    }

    fn row(&mut self, clustering: Clustering, kind: ColumnKind) -> Row {
        let mut row = RowBuilder::new(clustering);
        let mut liveness = LivenessInfo::EMPTY;
        if kind == ColumnKind::Regular {
            liveness = match self.below(5) {
                0 => LivenessInfo::EMPTY,
                1 => LivenessInfo::expiring(self.timestamp(), 1 + self.below(5000) as u32, self.seconds()),
                _ => LivenessInfo::new(self.timestamp()),
            };
            row.liveness(liveness);
            if self.chance(10) {
                row.deletion(self.deletion());
            }
        }
        let table = self.table.clone();
        let density = [5, 50, 95, 100][self.below(4)];
        for column in table.columns.iter().flatten().filter(|column| column.kind == kind) {
            if !self.chance(density) {
                continue;
            }
            let Some(path_type) = column.data_type.path_type() else {
                let value = self.value(&column.data_type);
                let cell = self.cell(column.id, None, &value, liveness);
                row.cell(cell);
                continue;
            };
            if self.chance(30) {
                row.complex_deletion(column.id, self.deletion());
            }
            let mut paths: Vec<_> = (0..self.below(5)).map(|_| self.value(path_type)).collect();
            paths.sort_by(|a, b| path_type.compare(a, b));
            paths.dedup();
            for path in paths {
                let value = match column.data_type.cell_type(&path) {
                    Some(DataType::Empty) | None => Vec::new(),
                    Some(element) => self.value(element),
                };
                let cell = self.cell(column.id, Some(&path), &value, liveness);
                row.cell(cell);
            }
        }
        if row.is_empty() && kind == ColumnKind::Regular {
            row.liveness(LivenessInfo::new(self.timestamp()));
        }
        // What the row's own deletions cover is never stored.
        let row = row.finish();
        merge_rows(&[row], DeletionTime::LIVE, &table)
            .unwrap_or_else(|| RowBuilder::new(Clustering::empty()).finish())
    }

    fn clustering(&mut self) -> Clustering {
        let table = self.table.clone();
        let values: Vec<_> = table.clustering.iter().map(|column| self.value(&column.data_type)).collect();
        Clustering::new(values.iter().map(|value| Some(value.as_slice())))
    }

    fn bound(&mut self) -> Bound {
        let whole = self.clustering();
        let prefix = whole.prefix(self.below(whole.len() + 1));
        Bound { prefix, side: if self.chance(50) { Side::Before } else { Side::After } }
    }

    fn partition(&mut self, rows: usize) -> PartitionUpdate {
        let table = self.table.clone();
        let components: Vec<_> =
            table.partition_key.iter().map(|column| self.value(&column.data_type)).collect();
        let key = key::compose(components.iter().map(Vec::as_slice)).unwrap();
        let key = if key.is_empty() { Bytes::from_static(b"no key is empty") } else { key };
        let mut update = PartitionUpdate::new(DecoratedKey::new(key));
        if self.chance(10) {
            update.deletion = self.deletion();
        }
        if table.has_static_columns() && self.chance(50) {
            update.static_row =
                Some(self.row(Clustering::empty(), ColumnKind::Static)).filter(|row| !row.is_empty());
        }
        let rows = if table.clustering.is_empty() { rows.min(1) } else { rows };
        let mut places: Vec<_> = (0..rows).map(|_| self.clustering()).collect();
        places.sort_by(|a, b| table.comparator.compare_rows(a, b));
        places.dedup_by(|a, b| table.comparator.compare_rows(a, b).is_eq());
        update.rows = places
            .into_iter()
            .map(|place| self.row(place, ColumnKind::Regular))
            .filter(|row| !row.is_empty())
            .collect();
        if !table.clustering.is_empty() {
            for _ in 0..[0, 0, 1, rows / 4][self.below(4)] {
                let tombstone =
                    RangeTombstone { start: self.bound(), end: self.bound(), deletion: self.deletion() };
                update.range_tombstones.add(tombstone, &table.comparator);
            }
        }
        update
    }

    /// Partitions in order; `sizes` are numbers of rows.
    pub fn partitions(&mut self, sizes: &[usize]) -> Vec<PartitionUpdate> {
        let mut partitions: Vec<_> = sizes.iter().map(|rows| self.partition(*rows)).collect();
        partitions.retain(|partition| !partition.is_empty());
        partitions.sort_by(|a, b| a.key.cmp(&b.key));
        partitions.dedup_by(|a, b| a.key == b.key);
        partitions
    }
}
