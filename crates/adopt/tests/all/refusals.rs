//! What cannot be adopted is refused with what was found, and what to do.

use std::path::Path;
use std::sync::Arc;

use cassette_adopt::{Plan, PlanRequest, Reason, Recognised, recognise, refuse_foreign};
use cassette_database::Database;
use cassette_engine::Mutation;
use cassette_rows::{Clustering, DecoratedKey, LivenessInfo, PartitionUpdate, RowBuilder};
use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::support::{SCHEMA, files, leave, node, options, put, request, run, take_in};

/// A segment whose section has a record.
const SEGMENT: &[u8] = &[
    0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, b'{', b'}', 1, 2, 3, 4, 0, 0, 0, 60, 9, 9, 9, 9, 0, 0, 0, 12,
    1, 1,
];

#[test]
fn writes_in_a_commit_log_that_cannot_be_read_are_not_lost_silently() {
    let (fs, _) = node();
    put(&fs, "/cassandra/commitlog/CommitLog-7-1.log", SEGMENT);
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    for words in ["CommitLog-7-1.log cannot be read at 0: the header fails its checksum", "nodetool drain"] {
        assert!(error.contains(words) && error.contains("--ignore-commitlog"), "{error}");
    }
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    // Also if only the data directory is specified.
    let request = request(&["/cassandra/data"]);
    let plan = Plan::of(&shared, &request).unwrap();
    assert_eq!(plan.refusals.len(), 1);
    plan.check(|reason| reason == Reason::Commitlog).unwrap();
    let plan = Plan::of(&shared, &PlanRequest { ignore_commitlog: true, ..request }).unwrap();
    plan.check(|_| false).unwrap();
    assert!(plan.warnings.iter().any(|warning| warning.contains("1 segment ")), "{:?}", plan.warnings);
    put(&fs, "/cassandra/commitlog/CommitLog-7-1.log", &SEGMENT[..20]);
    take_in(&fs, &["/cassandra"]).unwrap();
}

#[test]
fn versions_that_cannot_be_read_name_the_cassandra_that_upgrades_them() {
    let (fs, _) = node();
    let tables = fs.read_dir(Path::new("/cassandra/data/app")).unwrap();
    let path = |table: &str| format!("/cassandra/data/app/{table}/la-9-big-Data.db");
    let visits = &tables.iter().find(|table| table.name.starts_with("visits-")).unwrap().name;
    put(&fs, &path(visits), b"x");
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    assert!(error.contains("version la") && error.contains("3.11"), "{error}");
    let schema = fs.read_dir(Path::new("/cassandra/data/system_schema")).unwrap();
    put(&fs, &format!("/cassandra/data/system_schema/{}/lb-1-big-Data.db", schema[0].name), b"x");
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    assert!(error.contains("version lb"), "{error}");
}

#[test]
fn only_an_empty_place_is_adopted_into() {
    let (fs, _) = node();
    take_in(&fs, &["/cassandra"]).unwrap();
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");
    fs.remove_dir_all(Path::new("/target")).unwrap();
    put(&fs, "/target/notes.txt", b"mine");
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
    assert_eq!(files(&fs, "/target").len(), 1);
    fs.remove_dir_all(Path::new("/target")).unwrap();
    put(&fs, "/target.adopting/notes.txt", b"mine");
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    assert!(error.contains("no interrupted adoption left it"), "{error}");
    assert_eq!(files(&fs, "/target.adopting").len(), 1);
}

#[test]
fn a_server_does_not_start_in_or_within_foreign_tables() {
    let (fs, _) = node();
    let database = Database::open(options(&fs, "/own")).unwrap();
    database.close().unwrap();
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let refused = |path: &str| refuse_foreign(&shared, Path::new(path)).unwrap_err().to_string();
    let users = fs.read_dir(Path::new("/cassandra/data/app")).unwrap()[0].name.clone();
    for path in ["/cassandra", "/cassandra/data"] {
        let error = refused(path);
        assert!(error.contains("cassette adopt") && error.contains("keyspace app"), "{error}");
    }
    put(&fs, "/snapshot/nb-1-big-Data.db", b"x");
    put(&fs, "/snapshot/schema.cql", b"x");
    assert!(refused("/snapshot").contains("--read-only /snapshot"));
    for within in [
        "/cassandra/data/new".to_owned(),
        format!("/cassandra/data/app/{users}/snapshots/new"),
        "/own/new".to_owned(),
        "/own/data".to_owned(),
    ] {
        assert!(refused(&within).contains("within"), "{within}");
    }
    for free in ["/own", "/new", "/cassandra/new", "/new/below"] {
        refuse_foreign(&shared, Path::new(free)).unwrap();
    }
    assert_eq!(recognise(&fs, Path::new("/own")).unwrap(), Recognised::Cassette);
}

/// Names of keyspaces, tables and indexes become those of directories.
#[test]
fn names_that_lead_out_of_the_data_directory_are_refused() {
    let fs = FakeFileSystem::new();
    let database = Database::open(options(&fs, "/made")).unwrap();
    run(&database, &SCHEMA);
    let put = |table: &str, keyspace: &str, clustering: &[&[u8]]| {
        let table = database.catalog().table("system_schema", table).unwrap().clone();
        let mut update = PartitionUpdate::new(DecoratedKey::new(keyspace.to_owned().into()));
        let mut row = RowBuilder::new(Clustering::of(clustering));
        row.liveness(LivenessInfo::new(1));
        update.add_row(row.finish(), &table);
        database.engine().apply(&[Mutation { table, update }]).unwrap();
    };
    put("keyspaces", "../evil", &[]);
    put("tables", "app", &[b"/etc/evil"]);
    put("views", "app", &[b"a/b"]);
    put("indexes", "app", &[b"users", b".."]);
    leave(database, &fs, "/made", "/cassandra");
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let plan = Plan::of(&shared, &request(&["/cassandra"])).unwrap();
    let refused = plan.check(|_| false).unwrap_err().to_string();
    let said = format!("{refused}\n{}", plan.warnings.join("\n"));
    for name in [r#""../evil" in"#, r#""/etc/evil" in"#, r#""a/b" in"#, r#"".." in"#] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let names = plan.keyspaces.iter().map(|keyspace| keyspace.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["app"]);
    assert!(plan.keyspaces.iter().all(|keyspace| !keyspace.indexes.contains_key("..")));
}
