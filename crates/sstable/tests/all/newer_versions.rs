//! SSTables of the versions `oa` and `da`, which Cassandra 5.0.8 wrote from the golden tables with
//! `storage_compatibility_mode: NONE`: they have the same content.

use std::path::Path;
use std::sync::Arc;

use crate::support::{GoldenTable, Partition, collect, component, golden_tables, model, newer_golden_tables};
use cassette_rows::{MergedStream, PartitionStream};
use cassette_sstable::{ChunkCache, Component, Descriptor, OpenOptions, SSTableReader};
use cassette_vfs::{FakeFileSystem, FileSystem};

fn merged(golden: &GoldenTable) -> Vec<Partition> {
    let readers = golden.open();
    let sources: Vec<Box<dyn PartitionStream>> =
        readers.iter().map(|reader| Box::new(reader.scan_all().unwrap()) as _).collect();
    collect(&mut MergedStream::new(sources, golden.table.clone(), false)).unwrap()
}

#[test]
fn they_hold_the_partitions_of_the_golden_tables() {
    let older = golden_tables();
    for version in ["oa", "da"] {
        let mut compared = 0;
        for golden in newer_golden_tables(version) {
            // Rewriting turned expired cells into tombstones.
            if golden.table.name.starts_with("ttls") {
                continue;
            }
            let same = |other: &&GoldenTable| {
                other.case == golden.case && other.directory.file_name() == golden.directory.file_name()
            };
            let original = older.iter().find(same).unwrap();
            assert!(!golden.sstables.is_empty(), "{}", golden.directory.display());
            assert!(merged(&golden) == merged(original), "{}", golden.directory.display());
            compared += 1;
        }
        assert!(compared > 25, "{version}: {compared}");
    }
}

#[test]
fn they_pass_verification_and_every_partition_is_found_by_its_key_and_in_parts() {
    for version in ["oa", "da"] {
        for golden in newer_golden_tables(version) {
            for reader in golden.open() {
                let verified = reader.verify().unwrap();
                assert_eq!(verified.partitions, reader.estimated_keys(), "{reader:?}");
                reader.verify_values().unwrap();
                let mut random = model::random(5);
                for expected in collect(&mut reader.scan_all().unwrap()).unwrap() {
                    let key = &expected.header.key;
                    for selection in model::selections(&expected, &golden.table, &mut random) {
                        let part = model::expected(&expected, &golden.table, &selection);
                        let mut read = reader.partition(key, &Arc::new(selection)).unwrap().unwrap();
                        assert!(collect(&mut read).unwrap() == [part], "{reader:?} {key:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_adopted_one_is_opened_with_the_index_beside_it() {
    for version in ["oa", "da"] {
        let golden = newer_golden_tables(version).into_iter().find(|golden| golden.table.name == "wide");
        let golden = golden.unwrap();
        let files = Arc::new(FakeFileSystem::new());
        let copy = Descriptor { directory: "/t".into(), ..golden.sstables[0].clone() };
        files.create_dir_all(Path::new("/t")).unwrap();
        for part in Component::ALL {
            if let Some(bytes) = component(&golden.sstables[0], part) {
                (&*files as &dyn FileSystem).write_atomically(&copy.path(part), &bytes).unwrap();
            }
        }
        let open = || {
            let cache = Arc::new(ChunkCache::new(1 << 20));
            let (table, options) = (golden.table.clone(), OpenOptions::default());
            SSTableReader::open(files.clone(), copy.clone(), table, cache, options)
        };
        let expected = collect(&mut open().unwrap().scan_all().unwrap()).unwrap();
        let adopted = open().unwrap().adopted().unwrap();
        assert!(adopted.is_checksummed() && adopted.components().contains(&Component::DerivedIndex));
        let again = open().unwrap();
        assert!(again.is_checksummed());
        assert!(collect(&mut again.scan_all().unwrap()).unwrap() == expected);
        again.write_level(3).unwrap();
        let levelled = open().unwrap();
        assert_eq!(levelled.stats().level, 3);
        assert!(collect(&mut levelled.scan_all().unwrap()).unwrap() == expected);
        let path = copy.path(Component::DerivedIndex);
        files.corrupt(&path, 5, 1);
        assert!(open().and_then(|reader| reader.verify()).unwrap_err().to_string().contains("NbIndex.db"));
    }
}

#[test]
fn what_they_say_of_themselves_is_read() {
    for version in ["oa", "da"] {
        for golden in newer_golden_tables(version) {
            for reader in golden.open() {
                let stats = reader.stats();
                assert!(stats.rows > 0, "{reader:?}");
                assert!(stats.max_timestamp >= stats.min_timestamp);
                if golden.table.name == "tombstones" {
                    assert!(stats.min_local_deletion_time > 1_700_000_000);
                    assert!(!stats.drop_times.points().is_empty());
                }
            }
        }
    }
}
