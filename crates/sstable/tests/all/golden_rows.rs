//! Every golden table contains the rows that Cassandra answered to `SELECT *`.

use std::io::Read;
use std::sync::Arc;

use crate::support::{GoldenTable, Partition, collect, golden_tables};
use cassette_rows::merge::counter;
use cassette_rows::types::collection;
use cassette_rows::{
    ColumnKind, ColumnMetadata, DataType, MergedStream, PartitionStream, Row, TableMetadata, Unfiltered, key,
};
use serde_json::Value;

fn select_json(table: &GoldenTable) -> Value {
    let file = std::fs::File::open(table.case.join("select.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value of a column that a reader sees, in the encoding of the native protocol.
fn value(row: &Row, column: &ColumnMetadata, now: u32) -> Option<Vec<u8>> {
    let cells = row.cells_of(column.id).filter(|cell| cell.is_live(now));
    let mut out = Vec::new();
    match &column.data_type {
        DataType::Counter => {
            return cells.last().map(|cell| counter::total(cell.value).to_be_bytes().to_vec());
        }
        data_type if !data_type.is_multi_cell() => return cells.last().map(|cell| cell.value.to_vec()),
        DataType::List { .. } => {
            collection::write_list(&mut out, cells.map(|c| c.value).collect::<Vec<_>>().into_iter())
        }
        DataType::Set { .. } => {
            collection::write_list(&mut out, cells.map(|c| c.path.unwrap()).collect::<Vec<_>>().into_iter());
        }
        DataType::Map { .. } => {
            let entries: Vec<_> = cells.map(|cell| (cell.path.unwrap(), cell.value)).collect();
            collection::write_map(&mut out, entries.into_iter());
        }
        DataType::Udt { definition, .. } => {
            let cells: Vec<_> = cells.collect();
            let field =
                |i: usize| cells.iter().find(|c| c.path == Some(&(i as u16).to_be_bytes())).map(|c| c.value);
            collection::write_tuple(&mut out, (0..definition.fields.len()).map(field));
        }
        other => panic!("{other:?} has no cells"),
    }
    row.cells_of(column.id).any(|cell| cell.is_live(now)).then_some(out)
}

/// The rows of `SELECT *` as hex, each a list of values in the order of `columns`.
fn select_all(
    table: &TableMetadata,
    partitions: &[Partition],
    columns: &[String],
    now: u32,
) -> Vec<Vec<Option<String>>> {
    let columns: Vec<_> = columns.iter().map(|name| table.column(name).unwrap()).collect();
    let mut out = Vec::new();
    for partition in partitions {
        let components = key::components(partition.header.key.key(), table.partition_key.len()).unwrap();
        let static_row = partition.header.static_row.as_ref();
        let mut push = |row: Option<&Row>| {
            let values = columns.iter().map(|column| match column.kind {
                ColumnKind::PartitionKey => Some(components[column.position].to_vec()),
                ColumnKind::Clustering => row?.clustering().value(column.position).map(<[u8]>::to_vec),
                ColumnKind::Static => value(static_row?, column, now),
                ColumnKind::Regular => value(row?, column, now),
            });
            out.push(values.map(|value| value.map(|value| hex(&value))).collect());
        };
        let mut any = false;
        for unfiltered in &partition.rows {
            if let Unfiltered::Row(row) = unfiltered
                && row.is_live(now)
            {
                push(Some(row));
                any = true;
            }
        }
        if !any && static_row.is_some_and(|row| row.has_live_cell(now)) {
            push(None);
        }
    }
    out
}

#[test]
fn every_table_reads_back_to_its_recorded_rows() {
    let mut compared = 0;
    for golden in golden_tables() {
        let table = &golden.table;
        let select = select_json(&golden);
        let query = format!("SELECT * FROM golden.{}", table.name);
        let results = select["results"].as_array().unwrap();
        let Some(result) = results.iter().find(|result| result["query"] == query.as_str()) else { continue };
        let now = select["taken_at"].as_u64().unwrap() as u32;

        let readers = golden.open();
        let sources: Vec<Box<dyn PartitionStream>> =
            readers.iter().map(|reader| Box::new(reader.scan_all().unwrap()) as _).collect();
        let mut merged = MergedStream::new(sources, table.clone(), false);
        let partitions = collect(&mut merged).unwrap();

        let columns: Vec<_> = result["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap().to_owned())
            .collect();
        let expected: Vec<Vec<Option<String>>> = serde_json::from_value(result["raw"].clone()).unwrap();
        let found = select_all(table, &partitions, &columns, now);
        assert_eq!(found.len(), expected.len(), "{}", golden.directory.display());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{}: {columns:?}", golden.directory.display());
        }
        compared += 1;
    }
    // The others were only queried partially; those of `compression` are compared below.
    assert_eq!(compared, 39);
}

#[test]
fn every_compression_of_the_same_rows_reads_the_same() {
    let tables = golden_tables();
    let rows = |name: &str| {
        let golden = tables.iter().find(|golden| golden.table.name == name).unwrap();
        let columns: Vec<_> = golden.table.all_columns().map(|column| column.name.clone()).collect();
        let partitions = collect(&mut golden.open()[0].scan_all().unwrap()).unwrap();
        select_all(&golden.table, &partitions, &columns, 0)
    };
    let expected = rows("comp_lz4_4k");
    assert_eq!(expected.len(), 60);
    for name in [
        "comp_lz4_16k",
        "comp_lz4_64k",
        "comp_lz4hc",
        "comp_snappy",
        "comp_zstd",
        "comp_deflate",
        "comp_none",
    ] {
        assert_eq!(rows(name), expected, "{name}");
    }
}

#[test]
fn every_sstable_passes_verification() {
    for golden in golden_tables() {
        for reader in golden.open() {
            let verified = reader.verify().unwrap();
            assert_eq!(verified.partitions, reader.estimated_keys(), "{reader:?}");
            let static_rows = collect(&mut reader.scan_all().unwrap()).unwrap();
            let static_rows = static_rows.iter().filter(|p| p.header.static_row.is_some()).count() as u64;
            if golden.table.dropped_columns.is_empty() {
                assert_eq!((verified.rows + static_rows) as i64, reader.stats().rows, "{reader:?}");
            }
        }
    }
}

/// A read of one partition returns the same as the complete scan, by every access path.
#[test]
fn every_partition_is_found_by_its_key() {
    let all = Arc::new(cassette_rows::Selection::all());
    for golden in golden_tables() {
        for reader in golden.open() {
            for expected in collect(&mut reader.scan_all().unwrap()).unwrap() {
                let mut read = reader.partition(&expected.header.key, &all).unwrap().unwrap();
                assert_eq!(collect(&mut read).unwrap(), [expected], "{reader:?}");
            }
        }
    }
}
