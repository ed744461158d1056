//! Imports: all of a directory or nothing of it.

use super::*;
use crate::testing::{self, insert, key};
use crate::{EngineError, ImportOptions, SnapshotOptions};

const SOURCE: &str = "elsewhere";

/// An engine with table `t`, and a directory with two SSTables of it, keys 0 to 19, which it does not have.
fn world() -> (World, Arc<TableMetadata>) {
    let table = testing::simple_table("t", Default::default());
    let world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    for keys in [0..10, 10..20] {
        for k in keys {
            engine.apply(&[mutation(&table, insert(k, b"imported", 5))]).unwrap();
        }
        engine.flush(None).unwrap();
    }
    let options = SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: None };
    let taken = engine.snapshot(&[(table.id, String::new())], &options).unwrap();
    let fs: &dyn FileSystem = &world.fs;
    fs.create_dir_all(Path::new(SOURCE)).unwrap();
    for entry in fs.read_dir(&taken[0].directory).unwrap() {
        let content = fs.read(&taken[0].directory.join(&entry.name)).unwrap();
        fs.write_atomically(&Path::new(SOURCE).join(&entry.name), &content).unwrap();
    }
    fs.sync_dir(Path::new("")).unwrap();
    engine.clear_snapshots(&Default::default()).unwrap();
    engine.truncate(table.id).unwrap();
    engine.apply(&[mutation(&table, insert(100, b"own", 5))]).unwrap();
    engine.flush(None).unwrap();
    drop(engine);
    (world, table)
}

fn rows(world: &World, engine: &Engine, table: &TableMetadata) -> usize {
    world.seen(engine, table.id, &Selection::all()).len()
}

fn source(world: &World) -> Vec<String> {
    world.fs.read_dir(Path::new(SOURCE)).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn import(engine: &Engine, table: &TableMetadata, copy_data: bool) -> Result<usize> {
    let options = ImportOptions { copy_data, ..ImportOptions::default() };
    Ok(engine.import(table.id, Path::new(SOURCE), &options)?.len())
}

#[test]
fn what_is_imported_is_read_and_stays_after_a_restart() {
    for copy_data in [true, false] {
        let (world, table) = world();
        let before = source(&world);
        let engine = world.open().unwrap();
        assert_eq!(import(&engine, &table, copy_data).unwrap(), 2);
        assert_eq!(rows(&world, &engine, &table), 21);
        drop(engine);
        let engine = world.open().unwrap();
        assert_eq!(rows(&world, &engine, &table), 21);
        assert!(
            engine.read(table.id, &key(7), &Selection::all()).unwrap().next_partition().unwrap().is_some()
        );
        let left: Vec<_> = source(&world).into_iter().filter(|name| name.starts_with("nb-")).collect();
        match copy_data {
            true => assert_eq!(source(&world), before),
            false => assert!(left.is_empty(), "{left:?}"),
        }
        // The names of the imported do not clash with those of what comes later.
        engine.apply(&[mutation(&table, insert(200, b"later", 5))]).unwrap();
        engine.flush(None).unwrap();
        engine.compact(table.id).unwrap();
        assert_eq!((rows(&world, &engine, &table), world.sstables(&table)), (22, 1));
    }
}

#[test]
fn one_damaged_file_and_nothing_is_imported_nor_left_behind() {
    let (world, table) = world();
    let (before, had) = (source(&world), world.files(&table));
    for name in before.iter().filter(|name| name.starts_with("nb-2-") || name.starts_with("nb-1-")) {
        // Nothing depends on these: they are made again, or not looked at.
        if ["Summary.db", "Filter.db", "TOC.txt"].iter().any(|part| name.ends_with(part)) {
            continue;
        }
        let path = Path::new(SOURCE).join(name);
        let engine = world.open().unwrap();
        world.fs.corrupt(&path, 3, 0x7f);
        let error = import(&engine, &table, true).unwrap_err();
        assert!(matches!(&error, EngineError::ImportRefused { .. }), "{name}: {error}");
        assert!(error.to_string().contains("elsewhere/nb-"), "{name}: {error}");
        world.fs.corrupt(&path, 3, 0x7f);
        assert_eq!((world.files(&table), source(&world)), (had.clone(), before.clone()), "{name}");
        assert_eq!(rows(&world, &engine, &table), 1, "{name}");
    }
}

#[test]
fn sstables_of_another_schema_are_refused() {
    let (world, _) = world();
    let other = testing::table_with("t", Default::default());
    let world = World {
        fs: world.fs,
        tables: vec![other.clone()],
        options: Options { data_dir: "db2".into(), ..world.options },
        ..world
    };
    let engine = world.open().unwrap();
    let error = import(&engine, &other, true).unwrap_err();
    assert!(error.to_string().contains("Statistics.db"), "{error}");
    let error = engine.import(other.id, Path::new("nowhere"), &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn the_directory_of_an_open_table_is_refused() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    let own = Path::new("db/data/ks").join(table.directory_name());
    let error = engine.import(table.id, &own, &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains("ks.t, which is open"), "{error}");
}

#[test]
fn a_crash_at_any_step_leaves_all_or_none_of_the_directory() {
    for copy_data in [true, false] {
        for step in 1.. {
            let (mut world, table) = world();
            let engine = world.open().unwrap();
            world.fs.fail_from(world.fs.operations() + step);
            let imported = import(&engine, &table, copy_data).is_ok();
            world.fs = world.fs.crash(step);
            drop(engine);
            let engine = world.open().unwrap();
            let found = rows(&world, &engine, &table);
            assert!(found == 21 || found == 1 && !imported, "copy {copy_data}, step {step}: {found}");
            // What is not in the table is in the directory still.
            if found == 1 {
                assert_eq!(import(&engine, &table, copy_data).unwrap(), 2, "copy {copy_data}, step {step}");
                assert_eq!(rows(&world, &engine, &table), 21);
            }
            let logs: Vec<_> = world.files(&table).into_iter().filter(|name| name.contains("txn")).collect();
            assert!(logs.is_empty(), "{logs:?}");
            if imported && world.fs.operations() > 0 && step > 400 {
                break;
            }
            if imported && source(&world).iter().all(|name| copy_data || !name.starts_with("nb-")) {
                break;
            }
        }
    }
}

#[test]
fn one_failure_at_any_step_undoes_the_import_or_leaves_it_whole() {
    for step in 1.. {
        let (world, table) = world();
        let (engine, had) = (world.open().unwrap(), world.files(&table));
        world.fs.fail_at(world.fs.operations() + step);
        let imported = import(&engine, &table, false);
        world.fs.heal();
        let found = rows(&world, &engine, &table);
        match imported {
            Ok(_) => assert_eq!(found, 21, "step {step}"),
            Err(error) => {
                assert_eq!(found, 1, "step {step}: {error}");
                drop(engine);
                let engine = world.open().unwrap();
                let found = rows(&world, &engine, &table);
                assert!(
                    found == 1 && world.files(&table) == had || found == 21,
                    "step {step}: {error}: {found}"
                );
            }
        }
        if source(&world).iter().all(|name| !name.starts_with("nb-")) {
            break;
        }
    }
}

#[test]
fn files_put_into_the_tables_directory_are_found_by_a_refresh() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    assert!(engine.refresh(table.id).unwrap().is_empty());
    let own = Path::new("db/data/ks").join(table.directory_name());
    let fs: &dyn FileSystem = &world.fs;
    for name in source(&world).iter().filter(|name| name.starts_with("nb-2-")) {
        let content = fs.read(&Path::new(SOURCE).join(name)).unwrap();
        fs.write_atomically(&own.join(name.replace("nb-2-", "nb-77-")), &content).unwrap();
    }
    assert_eq!(rows(&world, &engine, &table), 1);
    assert_eq!(engine.refresh(table.id).unwrap().len(), 1);
    assert_eq!(rows(&world, &engine, &table), 11);
    assert!(engine.refresh(table.id).unwrap().is_empty());
    engine.compact(table.id).unwrap();
    assert!(world.files(&table).iter().any(|name| name.starts_with("nb-78-")), "{:?}", world.files(&table));
    assert_eq!(rows(&world, &engine, &table), 11);
}

#[test]
fn verification_names_the_sstable_that_is_wrong() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    import(&engine, &table, false).unwrap();
    let verified = engine.verify(table.id, true).unwrap();
    assert_eq!(verified.len(), 3);
    assert_eq!(verified.iter().map(|one| one.result.as_ref().unwrap().partitions).sum::<u64>(), 21);
    world.fs.corrupt(&verified[1].path, 3, 1);
    let again = engine.verify(table.id, false).unwrap();
    let wrong: Vec<_> = again.iter().filter(|one| one.result.is_err()).map(|one| &one.path).collect();
    assert_eq!(wrong, [&verified[1].path]);
}

#[test]
fn sstables_of_two_versions_with_one_id_are_refused() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    let directory = Path::new("db/data/ks").join(table.directory_name());
    let fs: &dyn FileSystem = &world.fs;
    let own = world.files(&table).into_iter().filter(|name| name.starts_with("nb-"));
    for name in own.collect::<Vec<_>>() {
        let content = fs.read(&directory.join(&name)).unwrap();
        fs.write_atomically(&directory.join(name.replace("nb-", "oa-")), &content).unwrap();
    }
    let refused = engine.refresh(table.id).unwrap_err().to_string();
    assert!(refused.contains("has the same id"), "{refused}");
    assert_eq!(rows(&world, &engine, &table), 1);
    drop(engine);
    let refused = world.open().map(drop).unwrap_err().to_string();
    assert!(refused.contains("has the same id"), "{refused}");
}
