//! Directories that administrators arranged in other ways than Cassandra does itself.

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use cassette_adopt::{AdoptOptions, Plan, PlanRequest, Reason, Step, adopt, estimate_text, open_read_only};
use cassette_database::Database;
use cassette_vfs::{FakeFileSystem, FileSystem, OperationKind, RealFileSystem};

use crate::support::{
    Answers, answers, clock, copy, directories, files, node, options, put, request, take_in,
};

/// Writes the node `/cassandra` of [`node`] into a directory of this machine.
fn real_node(directory: &Path) -> Answers {
    let (fs, expected) = node();
    for path in directories(&fs, Path::new("/cassandra")) {
        std::fs::create_dir_all(directory.join(path.strip_prefix("/").unwrap())).unwrap();
    }
    for (path, (content, _)) in files(&fs, "/cassandra") {
        std::fs::write(directory.join(path.strip_prefix("/").unwrap()), content).unwrap();
    }
    expected
}

fn real() -> Arc<dyn FileSystem> {
    Arc::new(RealFileSystem)
}

#[test]
fn keyspaces_and_tables_behind_symbolic_links_are_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let expected = real_node(directory.path());
    let data = directory.path().join("cassandra/data");
    let volume = directory.path().join("volume");
    std::fs::rename(data.join("app"), &volume).unwrap();
    symlink(&volume, data.join("app")).unwrap();
    let users = std::fs::read_dir(&volume).unwrap().map(|entry| entry.unwrap().path());
    let users = users.into_iter().find(|path| path.to_string_lossy().contains("/users-")).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    std::fs::rename(&users, &elsewhere).unwrap();
    symlink(&elsewhere, &users).unwrap();

    let request = PlanRequest { directories: vec![data], ..PlanRequest::default() };
    let plan = Plan::of(&real(), &request).unwrap();
    plan.check(|_| false).unwrap();
    let target = directory.path().join("target");
    let adopting = AdoptOptions { target: target.clone(), copy: false, verify: false };
    adopt(&real(), clock(), &plan, &adopting, &mut |_| {}).unwrap();
    let mut options = options(&FakeFileSystem::new(), target.to_str().unwrap());
    options.file_system = real();
    let database = Database::open(options).unwrap();
    assert!(answers(&database) == expected);
}

#[test]
fn the_commit_log_beside_the_target_of_a_symbolic_link_is_found() {
    let directory = tempfile::tempdir().unwrap();
    real_node(directory.path());
    let home = directory.path().join("cassandra");
    std::fs::write(home.join("commitlog/CommitLog-7-1.log"), b"no header").unwrap();
    let link = directory.path().join("link");
    symlink(home.join("data"), &link).unwrap();
    // The directory itself, by a path without its name.
    let unnamed = home.join("data/app/..");
    for path in [link, unnamed] {
        let request = PlanRequest { directories: vec![path], ..PlanRequest::default() };
        let plan = Plan::of(&real(), &request).unwrap();
        let error = plan.check(|_| false).unwrap_err().to_string();
        assert!(error.contains("CommitLog-7-1.log cannot be read"), "{error}");
    }
}

/// Renames the directory of a table, in a file system that renames single files.
fn rename_table(fs: &FakeFileSystem, keyspace: &str, table: &str, name: &str) {
    let keyspace = Path::new("/cassandra/data").join(keyspace);
    let tables = fs.read_dir(&keyspace).unwrap();
    let prefix = format!("{table}-");
    let from = &tables.iter().find(|entry| entry.name.starts_with(&prefix)).unwrap().name;
    copy(fs, &keyspace.join(from), &keyspace.join(name));
    fs.remove_dir_all(&keyspace.join(from)).unwrap();
}

#[test]
fn tables_from_before_cassandra_2_1_have_directories_without_an_id() {
    let (fs, expected) = node();
    let (data, users) = (Path::new("/cassandra/data/app"), "users-");
    let with_id = fs.read_dir(data).unwrap().into_iter().find(|entry| entry.name.starts_with(users));
    let with_id = with_id.unwrap().name;
    rename_table(&fs, "app", "users", "users");
    rename_table(&fs, "app", "visits", "visits");
    rename_table(&fs, "system", "local", "local");
    let adopted = take_in(&fs, &["/cassandra"]).unwrap();
    assert_eq!(adopted.warnings, [""; 0]);
    let database = Database::open(options(&fs, "/target")).unwrap();
    assert!(answers(&database) == expected);
    database.close().unwrap();
    let opened = open_read_only(options(&fs, "/unused"), &["/cassandra".into()]).unwrap();
    opened.database.close().unwrap();

    // Cassandra ignores a directory with the id then.
    copy(&fs, &data.join("users"), &data.join(with_id));
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let plan = Plan::of(&shared, &request(&["/cassandra"])).unwrap();
    assert!(plan.warnings.iter().any(|warning| warning.contains("users-")), "{:?}", plan.warnings);
    let users = plan.tables.iter().find(|planned| planned.table.name == "users").unwrap();
    assert_eq!(users.directories, [data.join("users")]);
}

#[test]
fn a_node_without_a_commit_log_is_refused_unless_it_is_to_be_ignored() {
    let (fs, _) = node();
    fs.remove_dir_all(Path::new("/cassandra/commitlog")).unwrap();
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    for words in ["no commit log was found beside /cassandra/data", "--commitlog", "--ignore-commitlog"] {
        assert!(error.contains(words), "{error}");
    }
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let request = request(&["/cassandra"]);
    let plan = Plan::of(&shared, &PlanRequest { ignore_commitlog: true, ..request.clone() }).unwrap();
    plan.check(|_| false).unwrap();
    assert!(plan.warnings.iter().any(|warning| warning.contains("no commit log")), "{:?}", plan.warnings);
    fs.create_dir_all(Path::new("/elsewhere")).unwrap();
    let plan = Plan::of(&shared, &PlanRequest { commitlogs: vec!["/elsewhere".into()], ..request }).unwrap();
    plan.check(|_| false).unwrap();
}

#[test]
fn a_data_directory_beside_the_specified_one_is_not_left_out_silently() {
    let (fs, expected) = node();
    let tables = fs.read_dir(Path::new("/cassandra/data/app")).unwrap();
    let users = &tables.iter().find(|table| table.name.starts_with("users-")).unwrap().name;
    let (from, to) =
        (Path::new("/cassandra/data/app").join(users), Path::new("/cassandra/data2/app").join(users));
    copy(&fs, &from, &to);
    fs.remove_dir_all(&from).unwrap();
    let error = take_in(&fs, &["/cassandra"]).unwrap_err().to_string();
    assert!(error.contains("/cassandra/data2 is beside"), "{error}");
    take_in(&fs, &["/cassandra", "/cassandra/data2"]).unwrap();
    let database = Database::open(options(&fs, "/target")).unwrap();
    assert!(answers(&database) == expected);
}

#[test]
fn directories_that_cannot_be_keyspaces_are_not_read() {
    let (fs, expected) = node();
    put(&fs, "/cassandra/data/lost+found/x", b"x");
    fs.fail_when(|operation| {
        let is_lost = operation.path.ends_with("lost+found") && operation.kind == OperationKind::ReadDir;
        is_lost.then_some(io::ErrorKind::PermissionDenied)
    });
    take_in(&fs, &["/cassandra"]).unwrap();
    let database = Database::open(options(&fs, "/target")).unwrap();
    assert!(answers(&database) == expected);
}

#[test]
fn a_transaction_that_was_committed_in_one_of_two_directories_is_refused() {
    let (fs, _) = node();
    let users = fs.read_dir(Path::new("/cassandra/data/app")).unwrap();
    let users = &users.iter().find(|entry| entry.name.starts_with("users-")).unwrap().name;
    let log = "nb_txn_compaction_c9a1e4b0-0000-11ee-8000-000000000000.log";
    let add = "ADD:[/disk2/app/nb-9-big-,0,0][1]\n";
    put(&fs, &format!("/cassandra/data/app/{users}/{log}"), format!("{add}COMMIT:[,0,0][2]\n").as_bytes());
    put(&fs, &format!("/disk2/app/{users}/{log}"), add.as_bytes());
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let plan = Plan::of(&shared, &request(&["/cassandra", "/disk2"])).unwrap();
    let error = plan.check(|reason| reason != Reason::Final).unwrap_err().to_string();
    assert!(error.contains("different records") && error.contains("/disk2/app"), "{error}");
}

#[test]
fn the_steps_of_an_adoption_are_reported_and_its_time_is_estimated() {
    let (fs, _) = node();
    let shared: Arc<dyn FileSystem> = Arc::new(fs);
    let plan = Plan::of(&shared, &request(&["/cassandra"])).unwrap();
    let mut options = AdoptOptions { target: "/target".into(), copy: false, verify: false };
    let linked = estimate_text(shared.as_ref(), &plan, &options).unwrap();
    assert!(linked.contains("are linked") && linked.contains("indexes and views are built"), "{linked}");
    options.copy = true;
    options.verify = true;
    let copied = estimate_text(shared.as_ref(), &plan, &options).unwrap();
    assert!(copied.contains("are copied") && copied.contains("are read"), "{copied}");
    let (mut permilles, mut others) = (Vec::new(), Vec::new());
    adopt(&shared, clock(), &plan, &options, &mut |step| match step {
        Step::SSTables { permille, .. } => permilles.push(permille),
        Step::CommitLog { .. } => panic!("the log is empty"),
        Step::Building { count } => others.push(format!("building {count}")),
        Step::Flushing => others.push("flushing".to_owned()),
    })
    .unwrap();
    assert!(permilles.is_sorted() && permilles[0] == 0 && permilles.len() > 10, "{permilles:?}");
    assert_eq!(permilles.last(), Some(&1000));
    assert!(others.len() == 2 && others[0].starts_with("building "), "{others:?}");
}
