//! Components as they are stored, for copies elsewhere.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::{Result, StorageError};
use cassette_sstable::{ChunkCache, Component, OpenOptions, SSTableReader};
use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::support::{component, golden_tables, newer_golden_tables};

fn stored(reader: &SSTableReader, component: Component) -> Result<Vec<u8>> {
    let mut stored = reader.stored(component)?;
    let mut bytes = Vec::new();
    while let Some(piece) = stored.next_piece()? {
        bytes.extend_from_slice(piece);
    }
    assert_eq!(bytes.len() as u64, stored.length());
    Ok(bytes)
}

#[test]
fn stored_components_are_the_bytes_of_their_files() {
    let mut tables = golden_tables();
    tables.extend(["oa", "da"].into_iter().flat_map(newer_golden_tables));
    let mut chunks = 0;
    for reader in tables.iter().flat_map(|table| table.open()) {
        for name in reader.components() {
            let file = component(reader.descriptor(), *name).unwrap();
            assert!(stored(&reader, *name).unwrap() == file, "{:?} of {reader:?}", name);
        }
        let Some(info) = reader.compression() else { continue };
        let data = component(reader.descriptor(), Component::Data).unwrap();
        for number in 0..info.chunks() {
            let chunk = info.chunk(number, data.len() as u64).unwrap();
            let (start, end) = (chunk.offset as usize, chunk.offset as usize + chunk.stored_length + 4);
            assert_eq!(reader.stored_chunk(number).unwrap(), Bytes::copy_from_slice(&data[start..end]));
            chunks += 1;
        }
        assert!(reader.stored_chunk(info.chunks() + 1).is_err());
    }
    assert!(chunks > 100, "{chunks}");
}

#[test]
fn damage_to_data_and_index_is_found_while_they_are_read() {
    for table in golden_tables() {
        for descriptor in &table.sstables {
            let files = Arc::new(FakeFileSystem::new());
            files.create_dir_all(&descriptor.directory).unwrap();
            for name in Component::ALL {
                if let Some(content) = component(descriptor, name) {
                    files.create(&descriptor.path(name)).unwrap().write_all(&content).unwrap();
                }
            }
            let cache = Arc::new(ChunkCache::new(1 << 20));
            let open = || {
                let (files, cache) = (files.clone(), cache.clone());
                SSTableReader::open(
                    files,
                    descriptor.clone(),
                    table.table.clone(),
                    cache,
                    OpenOptions::default(),
                )
            };
            for name in [Component::Data, Component::Index] {
                let path: &Path = &descriptor.path(name);
                let reader = open().unwrap();
                let length = files.metadata(path).unwrap().len;
                files.corrupt(path, length / 2, 0x10);
                let found = stored(&reader, name);
                assert!(matches!(found, Err(StorageError::Corrupt { .. })), "{name:?} of {descriptor}");
                files.corrupt(path, length / 2, 0x10);
                assert!(stored(&reader, name).is_ok());
            }
        }
    }
}
