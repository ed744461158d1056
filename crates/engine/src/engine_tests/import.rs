//! Imports are atomic.

use std::path::PathBuf;

use cassette_rows::{Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, RowBuilder};
use cassette_vfs::RealFileSystem;
use uuid::Uuid;

use super::*;
use crate::engine_tests::testing::{self, insert, key};
use crate::{DiskFailurePolicy, EngineError, ImportOptions, SnapshotOptions, Transfer};

const SOURCE: &str = "elsewhere";

/// An engine with table `t`, and a directory with two SSTables of it, keys 0 to 19, which it lacks.
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
    // Without manifest.json: files that are not a backup.
    let files = fs.read_dir(&taken[0].directory).unwrap().into_iter();
    for entry in files.filter(|entry| entry.name.starts_with("nb-")) {
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
        if copy_data {
            assert_eq!(source(&world), before)
        } else {
            assert!(left.is_empty(), "{left:?}")
        }
        // The names of imported SSTables do not clash with later ones.
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
        // Nothing depends on these: they are created again, or not read.
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

/// `k int, c int, v <v>, PRIMARY KEY (k, c)`, or with `types`.
fn typed_table(name: &str, types: [DataType; 3]) -> Arc<TableMetadata> {
    let kinds = [ColumnKind::PartitionKey, ColumnKind::Clustering, ColumnKind::Regular];
    let columns = ["k", "c", "v"].into_iter().zip(kinds).zip(types);
    let columns = columns.map(|((name, kind), data_type)| ColumnMetadata::new(name, kind, 0, data_type));
    let id = name.bytes().fold(9u128, |id, byte| id.wrapping_mul(31).wrapping_add(u128::from(byte)));
    let columns = columns.collect();
    Arc::new(TableMetadata::new(TableId(Uuid::from_u128(id)), "ks", name, columns, Default::default()))
}

/// All but the last two were imported. Reads returned garbage, a compaction panicked, or wrote
/// unreadable data and removed the rows.
#[test]
fn files_whose_types_are_not_the_tables_are_refused_and_those_that_read_as_such_are_not() {
    use DataType::*;
    let written = typed_table("written", [Int, Int, Text]);
    let of = |name: &str, k, c, v| typed_table(name, [k, c, v]);
    let refused = [
        (of("r0", Int, Int, Int), "regular column \"v\" of ks.r0 has type int; in the file it has type text"),
        (of("r1", Int, Int, Vector { element: Float.into(), dimension: 2 }), "column \"v\""),
        (of("r2", Int, Int, Decimal), "column \"v\""),
        (
            of("r3", Int, BigInt, Text),
            "clustering column \"c\" of ks.r3 has type bigint; in the file it has type int",
        ),
        (of("r4", Int, Uuid, Text), "clustering column \"c\""),
        (of("r5", Int, VarInt, Text), "clustering column \"c\""),
        (
            of("r6", Text, Int, Text),
            "partition key column \"k\" of ks.r6 has type text; in the file it has type int",
        ),
    ];
    let taken = [of("t0", Int, Int, Text), of("t1", Int, Int, Blob)];
    let mut tables = vec![written.clone()];
    tables.extend(refused.iter().map(|(table, _)| table).chain(&taken).cloned());
    let world = World::new(tables);
    let engine = world.open().unwrap();
    let mut row = RowBuilder::new(Clustering::of(&[&7i32.to_be_bytes()]));
    row.live_cell(ColumnId(0), b"fifteen letters", 5);
    let mut update = PartitionUpdate::new(key(1));
    update.rows.push(row.finish());
    engine.apply(&[mutation(&written, update)]).unwrap();
    engine.flush(None).unwrap();
    let options = SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: None };
    let snapshot = engine.snapshot(&[(written.id, String::new())], &options).unwrap().remove(0).directory;
    let copying = ImportOptions { copy_data: true, ..ImportOptions::default() };
    let fs: &dyn FileSystem = &world.fs;
    for (table, says) in &refused {
        for verify in [true, false] {
            let options = ImportOptions { verify, ..copying };
            let error = engine.import(table.id, &snapshot, &options).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(world.files(table).is_empty(), "{:?}", world.files(table));
        let own = Path::new("db/data/ks").join(table.directory_name());
        let put = fs.read_dir(&snapshot).unwrap().into_iter().filter(|entry| entry.name.starts_with("nb-"));
        let put: Vec<_> = put.map(|entry| (snapshot.join(&entry.name), own.join(&entry.name))).collect();
        put.iter().for_each(|(from, to)| fs.write_atomically(to, &fs.read(from).unwrap()).unwrap());
        let error = engine.refresh(table.id).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        put.iter().for_each(|(_, to)| fs.remove_file(to).unwrap());
    }
    for table in &taken {
        assert_eq!(engine.import(table.id, &snapshot, &copying).unwrap().len(), 1);
        engine.compact(table.id).unwrap();
        assert_eq!(rows(&world, &engine, table), 1);
    }
}

#[test]
fn reads_of_a_table_name_its_file_whose_types_are_not_the_tables_and_nothing_else_suffers() {
    let (mut world, table) = world();
    let to_int =
        |data_type: &DataType| if *data_type == DataType::Text { DataType::Int } else { data_type.clone() };
    let altered = Arc::new(table.with_types_mapped(to_int));
    let other = testing::simple_table("other", Default::default());
    world.tables = vec![altered, other.clone()];
    let says_why = |error: String| {
        assert!(
            error.contains("nb-3-big-Statistics.db") && error.contains("regular column \"v\" of ks.t"),
            "{error}"
        );
        assert!(error.contains("has type int; in the file it has type text"), "{error}");
    };
    world.options.disk_failure_policy = DiskFailurePolicy::Stop;
    says_why(world.open().map(drop).unwrap_err().to_string());

    world.options.disk_failure_policy = DiskFailurePolicy::Ignore;
    let engine = world.open().unwrap();
    let altered = world.tables[0].clone();
    let refusals = [
        engine.read(table.id, &key(1), &Selection::all()).map(drop).unwrap_err(),
        engine.scan(table.id, &KeyRange::ALL, &Selection::all()).map(drop).unwrap_err(),
        // It is unknown that a partition has no data.
        engine.may_contain(table.id, &key(1)).map(drop).unwrap_err(),
    ];
    for error in refusals.map(|error| error.to_string()) {
        assert!(error.starts_with("ks.t cannot be read") && error.contains("nodetool refresh"), "{error}");
        says_why(error);
    }
    says_why(engine.verify(table.id, false).unwrap()[0].result.as_ref().unwrap_err().to_string());
    let stats = engine.table_stats(table.id).unwrap();
    assert_eq!((stats.sstables, stats.sstables_quarantined), (0, 1));
    // It accepts writes, and other tables can be read.
    engine.apply(&[mutation(&altered, insert(7, &7_i32.to_be_bytes(), 5))]).unwrap();
    engine.apply(&[mutation(&other, insert(1, b"well", 4))]).unwrap();
    engine.flush(None).unwrap();
    engine.compact(table.id).unwrap();
    assert_eq!(rows(&world, &engine, &other), 1);
    drop(engine);
    // A refresh detects SSTables that were repaired or moved away.
    let engine = world.open().unwrap();
    let directory = Path::new("db/data/ks").join(table.directory_name());
    for name in world.files(&table).into_iter().filter(|name| name.starts_with("nb-3-")) {
        world.fs.rename(&directory.join(&name), &Path::new(SOURCE).join(&name)).unwrap();
    }
    assert!(engine.read(table.id, &key(1), &Selection::all()).is_err());
    engine.refresh(table.id).unwrap();
    assert_eq!(rows(&world, &engine, &altered), 1);
    assert_eq!(engine.table_stats(table.id).unwrap().sstables_quarantined, 0);
    drop(engine);
    for name in source(&world).into_iter().filter(|name| name.starts_with("nb-3-")) {
        world.fs.rename(&Path::new(SOURCE).join(&name), &directory.join(&name)).unwrap();
    }

    world.options.disk_failure_policy = DiskFailurePolicy::BestEffort;
    let engine = world.open().unwrap();
    engine.apply(&[mutation(&other, insert(1, b"well", 5))]).unwrap();
    engine.flush(None).unwrap();
    assert_eq!((rows(&world, &engine, &other), rows(&world, &engine, &altered)), (1, 1));
}

#[test]
fn the_directory_of_an_open_table_is_refused() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    let own = Path::new("db/data/ks").join(table.directory_name());
    let error = engine.import(table.id, &own, &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains("ks.t, which is open"), "{error}");
}

/// Two tables of one schema in a real data directory: rows in `victim`, none in `target`.
struct RealTables {
    root: tempfile::TempDir,
    victim: Arc<TableMetadata>,
    target: Arc<TableMetadata>,
}

impl RealTables {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let victim = testing::simple_table("victim", Default::default());
        let target = testing::simple_table("target", Default::default());
        let tables = Self { root, victim, target };
        let engine = tables.open();
        for k in 0..50 {
            engine.apply(&[mutation(&tables.victim, insert(k, b"own", 5))]).unwrap();
        }
        engine.close().unwrap();
        tables
    }

    fn open(&self) -> Engine {
        let options = Options { background_threads: false, ..Options::new(self.root.path().join("db")) };
        let clock = Arc::new(ManualClock::at_micros(1_000_000));
        let engine = Engine::open(options, Arc::new(RealFileSystem), clock).unwrap();
        engine.create_tables(&[self.victim.clone(), self.target.clone()]).unwrap();
        engine.replay().unwrap();
        engine.finish_recovery().unwrap();
        engine.flush(None).unwrap();
        engine
    }

    fn directory(&self, table: &TableMetadata) -> PathBuf {
        self.root.path().join("db/data/ks").join(table.directory_name())
    }

    fn rows(engine: &Engine, table: &TableMetadata) -> usize {
        let mut stream = engine.scan(table.id, &KeyRange::ALL, &Selection::all()).unwrap();
        let mut rows = 0;
        while stream.next_partition().unwrap().is_some() {
            rows += 1;
        }
        rows
    }

    fn refused(&self, engine: &Engine, directory: &Path) {
        for copy_data in [true, false] {
            let options = ImportOptions { copy_data, ..ImportOptions::default() };
            let imported = engine.import(self.target.id, directory, &options);
            assert!(
                matches!(imported, Err(EngineError::ImportRefused { .. })),
                "{directory:?}: {imported:?}"
            );
        }
        assert_eq!((Self::rows(engine, &self.victim), Self::rows(engine, &self.target)), (50, 0));
    }
}

#[test]
fn no_path_to_a_live_table_can_be_imported() {
    let tables = RealTables::new();
    let engine = tables.open();
    let root = tables.root.path();
    let victim = tables.directory(&tables.victim);
    let name = tables.victim.directory_name();
    std::os::unix::fs::symlink(&victim, root.join("link")).unwrap();
    std::os::unix::fs::symlink(root.join("db"), root.join("root")).unwrap();
    for directory in [
        victim.clone(),
        victim.join("..").join(&name),
        root.join("link"),
        root.join("root/data/ks").join(&name),
        root.join("db/data/ks"),
        root.join("db"),
        root.to_owned(),
        root.join("db/commitlog"),
        tables.directory(&tables.target),
    ] {
        tables.refused(&engine, &directory);
    }
    std::fs::create_dir(root.join("db/data/ks/dropped-0")).unwrap();
    tables.refused(&engine, &root.join("db/data/ks/dropped-0"));
    // Files with links to it are rejected individually.
    let linked = root.join("linked");
    std::fs::create_dir(&linked).unwrap();
    for entry in std::fs::read_dir(&victim).unwrap() {
        let entry = entry.unwrap();
        std::os::unix::fs::symlink(entry.path(), linked.join(entry.file_name())).unwrap();
    }
    tables.refused(&engine, &linked);
    engine.close().unwrap();
    let engine = tables.open();
    assert_eq!(RealTables::rows(&engine, &tables.victim), 50);
}

#[test]
fn a_bind_mount_of_a_live_table_cannot_be_imported() {
    let (world, table) = world();
    let engine = world.open().unwrap();
    let own = Path::new("db/data/ks").join(table.directory_name());
    for (target, mounted) in
        [(own.clone(), ""), ("db/data/ks".into(), &*table.directory_name()), ("db".into(), "")]
    {
        let mount_point = Path::new("/mnt").join(target.file_name().unwrap());
        world.fs.bind_mount(&target, &mount_point);
        let error =
            engine.import(table.id, &mount_point.join(mounted), &ImportOptions::default()).unwrap_err();
        assert!(matches!(&error, EngineError::ImportRefused { .. }), "{error}");
    }
    assert_eq!(rows(&world, &engine, &table), 1);
}

#[test]
fn an_import_never_removes_a_snapshot_or_a_backup() {
    let tables = RealTables::new();
    let engine = tables.open();
    let options = SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: None };
    let taken = engine.snapshot(&[(tables.victim.id, String::new())], &options).unwrap().remove(0).directory;
    let backups = tables.directory(&tables.victim).join("backups");
    let outside = tables.root.path().join("copy");
    for directory in [&backups, &outside] {
        std::fs::create_dir(directory).unwrap();
        for entry in std::fs::read_dir(&taken).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
        }
    }
    let link = tables.root.path().join("link");
    std::os::unix::fs::symlink(&taken, &link).unwrap();
    let files = |directory: &Path| std::fs::read_dir(directory).unwrap().count();
    for (directory, copy_data, transfer) in [
        (&taken, false, Transfer::Linked),
        (&taken, true, Transfer::Copied),
        (&link, false, Transfer::Linked),
        (&backups, false, Transfer::Linked),
        (&outside, false, Transfer::Linked),
    ] {
        let had = files(directory);
        let options = ImportOptions { copy_data, ..ImportOptions::default() };
        let imported = engine.import(tables.target.id, directory, &options).unwrap();
        assert_eq!(imported.iter().map(|sstable| sstable.transfer).collect::<Vec<_>>(), [transfer]);
        assert_eq!(files(directory), had, "{directory:?}");
    }
    engine.compact(tables.target.id).unwrap();
    assert_eq!(RealTables::rows(&engine, &tables.target), 50);
    assert_eq!(engine.import(tables.target.id, &taken, &ImportOptions::default()).unwrap().len(), 1);
    // Without the manifest and the names it is an ordinary directory.
    std::fs::remove_file(outside.join("manifest.json")).unwrap();
    let imported = engine.import(tables.target.id, &outside, &ImportOptions::default()).unwrap();
    assert_eq!(imported[0].transfer, Transfer::Moved);
    assert_eq!(files(&outside), 1, "schema.cql");
}

#[test]
fn files_behind_symbolic_links_are_imported_but_neither_moved_nor_refreshed() {
    let tables = RealTables::new();
    let engine = tables.open();
    let options = SnapshotOptions { name: "s", skip_flush: false, ttl_seconds: None };
    let taken = engine.snapshot(&[(tables.victim.id, String::new())], &options).unwrap().remove(0).directory;
    let linked = tables.root.path().join("linked");
    std::fs::create_dir(&linked).unwrap();
    let own = tables.directory(&tables.target);
    for entry in std::fs::read_dir(&taken).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("nb-") {
            std::os::unix::fs::symlink(entry.path(), linked.join(entry.file_name())).unwrap();
            std::os::unix::fs::symlink(entry.path(), own.join(entry.file_name())).unwrap();
        }
    }
    let error = engine.refresh(tables.target.id).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    for entry in std::fs::read_dir(&linked).unwrap() {
        std::fs::remove_file(own.join(entry.unwrap().file_name())).unwrap();
    }
    let had = std::fs::read_dir(&linked).unwrap().count();
    let imported = engine.import(tables.target.id, &linked, &ImportOptions::default()).unwrap();
    assert_eq!(imported[0].transfer, Transfer::Linked);
    assert_eq!(std::fs::read_dir(&linked).unwrap().count(), had);
    engine.clear_snapshots(&Default::default()).unwrap();
    assert_eq!(RealTables::rows(&engine, &tables.target), 50);
    for entry in std::fs::read_dir(&own).unwrap() {
        assert!(!entry.unwrap().path().is_symlink());
    }
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
            // Files that are not in the table remain in the directory.
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
    // Whatever is damaged, nothing is imported.
    let data = own.join("nb-77-big-Data.db");
    for at in [0, 5, fs.metadata(&data).unwrap().len - 1] {
        world.fs.corrupt(&data, at, 0x20);
        let error = engine.refresh(table.id).unwrap_err().to_string();
        assert!(error.contains("nb-77-big-"), "{error}");
        assert_eq!(rows(&world, &engine, &table), 1);
        world.fs.corrupt(&data, at, 0x20);
    }
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

/// Found by the simulation (seed 369216): what survives a crash under periodic sync is a prefix of
/// what was acknowledged.
#[test]
fn an_import_does_not_survive_a_crash_that_loses_earlier_writes() {
    for seed in 0..20 {
        let (mut world, table) = world();
        world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
        let engine = world.open().unwrap();
        engine.apply(&[mutation(&table, insert(101, b"own", 5))]).unwrap();
        assert_eq!(import(&engine, &table, true).unwrap(), 2);
        drop(engine);
        world.fs = world.fs.crash(seed);
        let engine = world.open().unwrap();
        // Two written here and twenty imported.
        assert_eq!(rows(&world, &engine, &table), 22, "seed {seed}");
    }
}
