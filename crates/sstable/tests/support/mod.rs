//! What the integration tests share: the golden tables on disk.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::{Path, PathBuf};

use cassette_sstable::{Component, Descriptor};

/// The folder of the golden cases.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Every golden SSTable: 59 of them.
pub fn golden_sstables() -> Vec<Descriptor> {
    let mut found = Vec::new();
    for case in sorted(&golden()) {
        for table in sorted(&case.join("data")) {
            found.extend(sstables_in(&table));
        }
    }
    assert_eq!(found.len(), 59);
    found
}

/// The SSTables of one directory, by id.
pub fn sstables_in(directory: &Path) -> Vec<Descriptor> {
    let mut found: Vec<_> = sorted(directory)
        .iter()
        .filter_map(|path| Descriptor::from_path(path))
        .filter(|(_, component)| *component == Component::Data)
        .map(|(descriptor, _)| descriptor)
        .collect();
    found.sort_by_key(|descriptor| descriptor.id);
    found
}

/// The paths in a directory, sorted; none if it is not one.
pub fn sorted(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The bytes of a component, if there is one.
pub fn component(descriptor: &Descriptor, component: Component) -> Option<Vec<u8>> {
    std::fs::read(descriptor.path(component)).ok()
}
