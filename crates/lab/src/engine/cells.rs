//! The transactions' store as an engine: a read loads thousands of cells, split into statements by
//! a cell loader.
//!
//! It generates its data: [`SETS`] sets of cells of one shape. The key of a read determines the
//! set.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use cassette_database::Database;
use cassette_transactions::Timestamp;
use cassette_transactions::store::{
    Cell, CellBatching, CellLoader, ClusterOptions, ClusterStore, EmbeddedStore, Put, Store, StoreError,
    TableKind,
};

use super::{Engine, Session};
use crate::LabError;
use crate::results::EngineInfo;
use crate::run::Action;
use crate::workload::{Failure, RowSink, TableShape};
use crate::ycsb::FieldValues;

/// Keyspace of the store.
pub const KEYSPACE: &str = "lab_cells";
/// Number of sets, so that reads do not always load the same cells.
const SETS: u32 = 8;
/// Length of a value, bytes.
const VALUE_LENGTH: usize = 32;
/// Number of cells written in one call.
const PUTS: usize = 1_000;
/// Timestamp of the versions; reads are above.
const WRITTEN: Timestamp = Timestamp(10);
const READ: Timestamp = Timestamp(20);

/// Shape of a set of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    rows: u32,
    columns: u32,
    /// Whether each row has distinct columns; otherwise all have the same.
    dynamic: bool,
}

impl Shape {
    /// Parses `100x100-static`, `16x500-dynamic`.
    fn parse(text: &str) -> Option<Self> {
        let (size, kind) = text.split_once('-')?;
        let (rows, columns) = size.split_once('x')?;
        let dynamic = match kind {
            "static" => false,
            "dynamic" => true,
            _ => return None,
        };
        let number = |text: &str| text.parse().ok().filter(|number| (1..=100_000).contains(number));
        Some(Self { rows: number(rows)?, columns: number(columns)?, dynamic })
    }

    /// Returns the cells of a set.
    fn cells(self, set: u32) -> Vec<Cell> {
        let cell = |row: u32, column: u32| {
            let column = if self.dynamic { scatter(row * self.columns + column) } else { column };
            Cell::new(format!("{set}/{row}"), column.to_be_bytes().to_vec())
        };
        let row = |row: u32| (0..self.columns).map(move |column| cell(row, column));
        (0..self.rows).flat_map(row).collect()
    }

    fn table(self) -> String {
        let kind = if self.dynamic { "dynamic" } else { "static" };
        format!("cells_{}x{}_{kind}", self.rows, self.columns)
    }
}

/// Maps numbers one-to-one in scattered order: an odd factor has an inverse modulo 2^32.
fn scatter(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1)
}

/// A store that loads cells.
pub struct Cells {
    store: Box<dyn Store>,
    /// Whether the store is in this process.
    is_embedded: bool,
    shape: Shape,
    settings: BTreeMap<String, String>,
    /// By set.
    cells: Vec<Vec<Cell>>,
}

fn options(options: &BTreeMap<String, String>) -> Result<(Shape, CellLoader), String> {
    let mut shape = Shape { rows: 100, columns: 100, dynamic: false };
    let mut loader = CellLoader::default();
    for (name, value) in options {
        let wrong = |expected: &str| format!("invalid {name} {value:?}: expected {expected}");
        let limit = || value.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| wrong("1 or more"));
        match name.as_str() {
            "shape" => {
                let parsed = Shape::parse(value);
                shape = parsed
                    .ok_or_else(|| wrong("rows x columns, such as 100x100-static or 16x500-dynamic"))?;
            }
            "loader" => {
                loader.batching = match value.as_str() {
                    "v1" => CellBatching::ByColumn,
                    "full" => CellBatching::Full,
                    "v2" => CellBatching::Selective,
                    "row-wise" => CellBatching::ByRow,
                    _ => return Err(wrong("v1, full, v2 or row-wise")),
                }
            }
            "crossColumnLoadBatchLimit" => loader.cross_column_load_batch_limit = limit()?,
            "singleQueryLoadBatchLimit" => loader.single_query_load_batch_limit = limit()?,
            _ => {
                return Err(format!(
                    "engine cells: unknown option {name}, expected crossColumnLoadBatchLimit, \
                     loader, shape or singleQueryLoadBatchLimit"
                ));
            }
        }
    }
    Ok((shape, loader))
}

fn refused(attempt: &str) -> impl Fn(StoreError) -> LabError {
    move |error| LabError::engine("cells", attempt, error)
}

impl Cells {
    /// Checks options without opening anything.
    pub fn check_options(given: &BTreeMap<String, String>) -> Result<(), String> {
        options(given).map(drop)
    }

    /// Opens the store on a server, or embedded in `data`.
    pub fn open(
        given: &BTreeMap<String, String>,
        server: Option<ClusterOptions>,
        data: &Path,
    ) -> Result<Self, LabError> {
        let (shape, cell_loader) = options(given).map_err(LabError::Usage)?;
        let mut settings = given.clone();
        let is_embedded = server.is_none();
        let contact = server.as_ref().map(|cluster| cluster.contact_points.join(", "));
        settings.insert("server".into(), contact.unwrap_or_else(|| "embedded".into()));
        let store: Box<dyn Store> = match server {
            Some(cluster) => {
                // The measured data may be lost.
                let cluster = ClusterOptions { cell_loader, accept_periodic_sync: true, ..cluster };
                Box::new(ClusterStore::connect(&cluster).map_err(refused("connect"))?)
            }
            None => {
                let database =
                    Database::open(data).map_err(|error| LabError::engine("cells", "open", error))?;
                let store = EmbeddedStore::open(database, KEYSPACE).map_err(refused("open"))?;
                Box::new(store.with_loader(cell_loader))
            }
        };
        let cells = (0..SETS).map(|set| shape.cells(set)).collect();
        Ok(Self { store, is_embedded, shape, settings, cells })
    }
}

impl Engine for Cells {
    fn describe(&self) -> EngineInfo {
        EngineInfo {
            name: "cells".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            settings: self.settings.clone(),
        }
    }

    fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    fn create_table(&mut self, _: &TableShape, _: bool) -> Result<(), LabError> {
        let table = self.shape.table();
        self.store.create_table(&table, TableKind::Data).map_err(refused("create the table"))?;
        let value: bytes::Bytes = vec![b'v'; VALUE_LENGTH].into();
        for set in &self.cells {
            // A server may have it from the previous part.
            let last = set.last().map(|cell| (cell, READ)).into_iter().collect::<Vec<_>>();
            let found = self.store.get(&table, &last).map_err(refused("read existing cells"))?;
            if found.iter().any(Option::is_some) {
                continue;
            }
            for cells in set.chunks(PUTS) {
                let put = |cell| Put {
                    table: &table,
                    cell,
                    timestamp: WRITTEN,
                    value: value.clone(),
                    write_time: WRITTEN.0,
                };
                self.store.put(&cells.iter().map(put).collect::<Vec<_>>()).map_err(refused("load"))?;
            }
        }
        Ok(())
    }

    fn use_table(&mut self, _: &TableShape) -> Result<(), LabError> {
        self.store.create_table(&self.shape.table(), TableKind::Data).map_err(refused("use the table"))
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        Err(LabError::Usage(format!("engine cells cannot {action}")))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, LabError> {
        let ask = |set: &Vec<Cell>| set.iter().map(|cell| (cell.clone(), READ)).collect();
        Ok(Box::new(CellsSession {
            store: &*self.store,
            table: self.shape.table(),
            sets: self.cells.iter().map(ask).collect(),
        }))
    }
}

struct CellsSession<'a> {
    store: &'a dyn Store,
    table: String,
    sets: Vec<Vec<(Cell, Timestamp)>>,
}

impl Session for CellsSession<'_> {
    fn insert(&mut self, _: &str, _: &FieldValues) -> Result<(), Failure> {
        // All data is loaded when the table is created.
        Ok(())
    }

    fn update(&mut self, _: &str, _: &FieldValues) -> Result<(), Failure> {
        Err(Failure::new("unsupported", "engine cells is read-only"))
    }

    fn read(&mut self, key: &str, _: Option<usize>, rows: &mut RowSink) -> Result<(), Failure> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let set = &self.sets[(hasher.finish() % self.sets.len() as u64) as usize];
        let asked: Vec<_> = set.iter().map(|(cell, below)| (cell, *below)).collect();
        let found = self.store.get(&self.table, &asked).map_err(|error| Failure::new("store", error))?;
        for ((cell, _), version) in set.iter().zip(found) {
            match version {
                Some(version) if version.value.len() == VALUE_LENGTH => {}
                _ => return Err(Failure::not_found(&format!("{cell:?}"))),
            }
        }
        // The set counts as one record.
        rows.row(key.as_bytes());
        Ok(())
    }

    fn scan(&mut self, _: &str, _: usize, _: Option<usize>, _: &mut RowSink) -> Result<(), Failure> {
        Err(Failure::new("unsupported", "engine cells is read-only"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(loader: &str, shape: &str) -> BTreeMap<String, String> {
        [("loader", loader), ("shape", shape)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn every_loader_loads_every_shape_completely() {
        let directory = tempfile::tempdir().unwrap();
        let shape = TableShape { table: "t".into(), field_names: vec!["field0".into()], statements: None };
        for (number, shape_name) in ["10x10-static", "4x20-dynamic"].into_iter().enumerate() {
            for loader in ["v1", "full", "v2", "row-wise"] {
                let data = directory.path().join(number.to_string());
                let mut cells = Cells::open(&given(loader, shape_name), None, &data).unwrap();
                cells.create_table(&shape, true).unwrap();
                cells.use_table(&shape).unwrap();
                let mut session = cells.session().unwrap();
                let mut rows = RowSink::new(None);
                session.read("user1", None, &mut rows).unwrap();
                assert_eq!(rows.rows(), 1);
            }
        }
    }

    #[test]
    fn dynamic_columns_are_distinct() {
        let shape = Shape::parse("16x500-dynamic").unwrap();
        let columns: std::collections::BTreeSet<_> =
            shape.cells(0).into_iter().map(|cell| cell.column).collect();
        assert_eq!(columns.len(), 8_000);
    }

    #[test]
    fn invalid_options_are_rejected_by_name() {
        let check = |loader: &str, shape: &str| Cells::check_options(&given(loader, shape));
        assert!(check("v3", "10x10-static").unwrap_err().contains("v1, full, v2 or row-wise"));
        assert!(check("v1", "10-static").unwrap_err().contains("100x100-static"));
        let unknown = BTreeMap::from([("nosuch".to_owned(), "1".to_owned())]);
        assert!(Cells::check_options(&unknown).unwrap_err().contains("crossColumnLoadBatchLimit"));
    }
}
