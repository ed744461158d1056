//! The table of a golden case: names and kinds from its `schema.cql`, types from the headers of its
//! SSTables.
//!
//! The parser of CQL belongs to a higher layer and is not used here: Cassandra prints one column
//! per line.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cassette_rows::schema::DroppedColumn;
use cassette_rows::types::{parse_class_name, parse_key_class_name};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableId, TableMetadata, TableParams};
use cassette_sstable::statistics::Statistics;
use cassette_sstable::{Component, Descriptor};

/// Tables whose columns are read by tests, by the directory of their SSTables (`<table>-<id>`).
pub fn table_of(schema: &Path, directory: &Path) -> Arc<TableMetadata> {
    let sstables = super::sstables_in(directory);
    let name = directory.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap().0;
    let text = std::fs::read_to_string(schema).unwrap();
    let start = text.find(&format!("CREATE TABLE golden.{name} (")).unwrap();
    let body = &text[start..start + text[start..].find(") WITH").unwrap()];
    let types = Types::of(&sstables);

    let mut columns = Vec::new();
    let mut key = Vec::new();
    let mut clustering = Vec::new();
    for line in body.lines().skip(1) {
        let line = line.trim().trim_end_matches(',');
        if let Some(keys) = line.strip_prefix("PRIMARY KEY (").and_then(|rest| rest.strip_suffix(')')) {
            let (partition, rest) = match keys.strip_prefix('(') {
                Some(rest) => rest.split_once(')').unwrap(),
                None => keys.split_once(',').unwrap_or((keys, "")),
            };
            let names = |list: &str| {
                let names =
                    list.split(", ").map(|n| name_of(n.trim_matches([',', ' ']))).filter(|n| !n.is_empty());
                names.collect::<Vec<_>>()
            };
            key = names(partition);
            clustering = names(rest);
            continue;
        }
        let (name, rest) = split_name(line);
        if rest.ends_with("PRIMARY KEY") {
            key = vec![name.clone()];
        }
        columns.push((name, rest.ends_with(" static")));
    }
    let place = |names: &[String], name: &str| names.iter().position(|n| n == name);
    let columns = columns
        .into_iter()
        .map(|(name, is_static)| {
            let (kind, position, data_type, reversed) = match (place(&key, &name), place(&clustering, &name))
            {
                (Some(i), _) => (ColumnKind::PartitionKey, i, types.key[i].clone(), false),
                (_, Some(i)) => {
                    (ColumnKind::Clustering, i, types.clustering[i].0.clone(), types.clustering[i].1)
                }
                _ => {
                    let kind = if is_static { ColumnKind::Static } else { ColumnKind::Regular };
                    (kind, 0, types.columns.get(&name).cloned().unwrap_or(DataType::Blob), false)
                }
            };
            ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind, position, data_type) }
        })
        .collect();
    let mut table =
        TableMetadata::new(TableId(uuid_of(directory)), "golden", name, columns, params(&text[start..]));
    let mut dropped = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with(&format!("ALTER TABLE golden.{name} DROP "))) {
        let words: Vec<_> = line.trim_end_matches(';').split(' ').collect();
        let (name, at) = (words[4].to_owned(), words[7].parse().unwrap());
        let kind = if types.statics.contains(&name) { ColumnKind::Static } else { ColumnKind::Regular };
        let data_type = types.columns.get(&name).cloned().unwrap_or(DataType::Blob);
        dropped.insert(name, DroppedColumn { data_type, kind, dropped_at: at });
    }
    table.set_dropped_columns(dropped);
    Arc::new(table)
}

fn params(text: &str) -> TableParams {
    let option = |name: &str| {
        let (_, rest) = text.split_once(&format!("AND {name} = "))?;
        rest.lines().next().map(|value| value.trim_end_matches(';').to_owned())
    };
    TableParams {
        bloom_filter_fp_chance: option("bloom_filter_fp_chance").map(|value| value.parse().unwrap()),
        min_index_interval: option("min_index_interval").unwrap().parse().unwrap(),
        ..TableParams::default()
    }
}

fn uuid_of(directory: &Path) -> uuid::Uuid {
    directory.to_str().unwrap().rsplit_once('-').unwrap().1.parse().unwrap()
}

/// The name that a line begins with, quoted or not, and what follows it.
fn split_name(line: &str) -> (String, &str) {
    if !line.starts_with('"') {
        let (name, rest) = line.split_once(' ').unwrap();
        return (name.to_owned(), rest);
    }
    let bytes = line.as_bytes();
    let mut end = 1;
    while bytes[end] != b'"' || bytes.get(end + 1) == Some(&b'"') {
        end += if bytes[end] == b'"' { 2 } else { 1 };
    }
    (name_of(&line[..=end]), line[end + 1..].trim())
}

fn name_of(text: &str) -> String {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => text.to_owned(),
    }
}

/// The types that the headers of some SSTables name; the last one wins, for types only grow.
struct Types {
    key: Vec<DataType>,
    clustering: Vec<(DataType, bool)>,
    columns: BTreeMap<String, DataType>,
    statics: Vec<String>,
}

impl Types {
    fn of(sstables: &[Descriptor]) -> Self {
        let mut types =
            Self { key: Vec::new(), clustering: Vec::new(), columns: BTreeMap::new(), statics: Vec::new() };
        for descriptor in sstables {
            let bytes = super::component(descriptor, Component::Statistics).unwrap();
            let header = Statistics::decode_version(&bytes, descriptor.version).unwrap().header;
            types.key = parse_key_class_name(&header.key_type).unwrap();
            types.clustering =
                header.clustering_types.iter().map(|name| parse_class_name(name).unwrap()).collect();
            for column in header.static_columns.iter().chain(&header.regular_columns) {
                types.columns.insert(column.name.clone(), parse_class_name(&column.type_name).unwrap().0);
            }
            types.statics.extend(header.static_columns.into_iter().map(|column| column.name));
        }
        types
    }
}
