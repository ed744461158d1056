//! SSTables that Cassandra wrote, a small one of each kind, from `crates/sstable/tests`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::TableMetadata;
use cassette_sstable::{Component, Descriptor};

use crate::subjects::World;

/// A table with the files of its SSTables.
pub struct GoldenTable {
    /// Where the schema of the table is.
    pub schema: PathBuf,
    /// The name of the table.
    pub name: String,
    /// All files, by SSTable and component.
    pub files: Vec<(Descriptor, Component, Vec<u8>)>,
}

/// Cases with small files, of the formats `nb` (in `golden`), `oa` and `da` (in `golden5`).
const CASES: [(&str, &str); 12] = [
    ("golden", "collections"),
    ("golden", "counters"),
    ("golden", "scalars"),
    ("golden", "statics"),
    ("golden", "tombstones"),
    ("golden", "tuples_udt"),
    ("golden", "ttls"),
    ("golden5/oa", "collections"),
    ("golden5/oa", "tombstones"),
    ("golden5/da", "scalars"),
    ("golden5/da", "clustering"),
    ("golden5/da", "tombstones"),
];

/// Reads the files of all cases.
pub fn tables() -> Vec<GoldenTable> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sstable/tests");
    let mut tables = Vec::new();
    for (version, case) in CASES {
        let folder = tests.join(version).join(case);
        let folder = if version == "golden" { folder.join("data") } else { folder };
        for directory in sorted(&folder) {
            let name = directory.file_name().unwrap().to_string_lossy().into_owned();
            let name = name.split_once('-').map_or(name.as_str(), |(name, _)| name).to_owned();
            let files = sorted(&directory)
                .into_iter()
                .filter_map(|path| {
                    let (descriptor, component) = Descriptor::from_path(&path)?;
                    Some((descriptor, component, std::fs::read(path).unwrap()))
                })
                .collect();
            tables.push(GoldenTable {
                schema: tests.join("golden").join(case).join("schema.cql"),
                name,
                files,
            });
        }
    }
    tables
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

impl GoldenTable {
    /// The content of a component.
    pub fn content(&self, of: &Descriptor, component: Component) -> Option<&[u8]> {
        let found = self.files.iter().find(|(descriptor, other, _)| descriptor == of && *other == component);
        found.map(|(_, _, content)| content.as_slice())
    }

    /// The table's schema, for which the table is created in `world`.
    pub fn metadata(&self, world: &mut World) -> Arc<TableMetadata> {
        let find = |world: &World| {
            let tables = world.database.engine().tables();
            tables.into_iter().find(|(_, t)| t.keyspace == "golden" && t.name == self.name).map(|(_, t)| t)
        };
        if find(world).is_none() {
            for statement in std::fs::read_to_string(&self.schema).unwrap().split(";\n") {
                if !statement.trim().is_empty() {
                    drop(world.session.execute(statement, ()));
                }
            }
        }
        find(world).unwrap_or_else(|| panic!("{}: no table {}", self.schema.display(), self.name))
    }
}
