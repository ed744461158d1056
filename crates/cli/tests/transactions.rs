//! `cassette transactions` on the files of an embedded store.

use std::path::Path;
use std::process::{Command, Output};

use cassette_database::Database;
use cassette_transactions::{ConflictHandler, Error, Transactions};

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.arg("transactions").args(words).output().unwrap()
}

fn shows(words: &[&str]) -> String {
    let output = run(words);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

fn refuses(words: &[&str]) -> String {
    let output = run(words);
    assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Creates a bank with an account; returns a start timestamp that committed and one that aborted.
fn bank(data: &Path) -> (i64, i64) {
    let database = Database::open(data).unwrap();
    let transactions = Transactions::embedded(database.clone(), "bank").unwrap();
    let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
    let balance = accounts.column::<String, i64>("balance");
    let mut tx = transactions.start().unwrap();
    let committed = tx.start_timestamp().0;
    balance.put(&mut tx, "alice", 70).unwrap();
    tx.commit().unwrap();
    let mut tx = transactions.start().unwrap();
    let aborted = tx.start_timestamp().0;
    balance.put(&mut tx, "alice", 0).unwrap();
    tx.commit_if(|_| Err(Error::caller("no"))).unwrap_err();
    drop(transactions);
    database.close().unwrap();
    (committed, aborted)
}

#[test]
fn a_store_is_shown_its_transactions_are_told_and_a_backup_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, file, new) = (path("data"), path("bank.backup"), path("new"));
    let (committed, aborted) = bank(Path::new(&data));
    let shown = shows(&["show", "--data", &data]);
    for line in
        ["keyspace bank", "issued up to", "was issued", "2 from 1 on", "unswept", "tables     accounts\n"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let shown: serde_json::Value =
        serde_json::from_str(&shows(&["show", "--data", &data, "--json"])).unwrap();
    let bound = shown["timestamps_bound"].as_i64().unwrap();
    let numbers = [committed, aborted, 0, bound + 1].map(|number| number.to_string());
    let mut words = vec!["status", "--data", &data];
    words.extend(numbers.iter().map(String::as_str));
    let told: Vec<String> = shows(&words).lines().map(str::to_owned).collect();
    assert!(told[0].starts_with(&format!("{committed}  committed at ")), "{told:?}");
    assert!(told[1].starts_with(&format!("{aborted}  aborted")), "{told:?}");
    assert!(told[2].contains("before time") && told[3].contains("not issued"), "{told:?}");
    let issued = (bound - 1).to_string();
    assert!(shows(&["status", "--data", &data, &issued]).contains("dead: no commit record"));
    assert!(shows(&["sweep", "--data", &data]).starts_with("swept what "));
    assert!(shows(&["map", "--data", &data]).contains("2 (_transactions2)"));
    assert!(shows(&["migrate", "--data", &data, "--to", "3"]).contains("layout 3 instead of 2"));
    assert!(shows(&["migrate", "--data", &data, "--to", "3"]).contains("already"));
    let map: serde_json::Value = serde_json::from_str(&shows(&["map", "--data", &data, "--json"])).unwrap();
    assert_eq!(map["ranges"][1]["layout"], 3, "{map}");
    assert!(shows(&words).starts_with(&told[0]), "what was concluded stays");
    assert!(refuses(&["migrate", "--data", &data, "--to", "4"]).contains("--to"));
    assert!(shows(&["backup", "--data", &data, &file]).contains("1 cells"));
    assert!(refuses(&["backup", "--data", &data, &file]).contains("cannot write"));
    shows(&["restore", "--data", &new, "--keyspace", "bank", &file]);
    assert!(refuses(&["restore", "--data", &new, "--keyspace", "bank", &file]).contains("not empty"));
    let transactions = Transactions::embedded(Database::open(&new).unwrap(), "bank").unwrap();
    let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
    let balance = accounts.column::<String, i64>("balance");
    assert_eq!(transactions.read(|tx| balance.get(tx, "alice")).unwrap(), Some(70));
}

#[test]
fn a_store_is_copied_in_passes_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, new) = (path("data"), path("new"));
    bank(Path::new(&data));
    let copy = |option: &[&'static str]| {
        [&["copy", "--data", &data, "--to-data", &new, "--to-keyspace", "moved"], option].concat()
    };
    assert!(shows(&copy(&[])).contains("1 rows, 1 cells"), "the first pass");
    assert!(shows(&copy(&["--compare"])).contains("0 cells differ, 0 are only at the target"));
    assert!(refuses(&copy(&[])).contains("not empty"));
    let change = |data: &str, keyspace: &str, account: &str| {
        let database = Database::open(Path::new(data)).unwrap();
        let transactions = Transactions::embedded(database.clone(), keyspace).unwrap();
        let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
        let balance = accounts.column::<String, i64>("balance");
        transactions.run(|tx| balance.put(tx, account, 1)).unwrap();
        drop(transactions);
        database.close().unwrap();
    };
    change(&data, "bank", "alice");
    change(&new, "moved", "mallory");
    let output = run(&copy(&["--compare"]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("another value of accounts") && text.contains("only the target has accounts"));
    assert!(shows(&copy(&["--continue"])).contains("1 cells written, 1 removed"));
    assert!(shows(&copy(&["--compare"])).contains("0 cells differ, 0 are only at the target"));
    assert!(refuses(&["copy", "--data", &data, "--to-data", &data, "--to-keyspace", "x"]).contains("same"));
}

#[test]
fn what_is_no_store_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let name = data.to_str().unwrap();
    assert!(refuses(&["show", "--data", name]).contains("no data directory"));
    assert!(!data.exists(), "nothing is made where one only looks");
    let database = Database::open(&data).unwrap();
    assert!(refuses(&["show", "--data", name]).contains("is in use"));
    database.close().unwrap();
    drop(database);
    assert!(refuses(&["show", "--data", name]).contains("_timestamp"));
    assert!(refuses(&["show"]).contains("--data"));
    assert!(refuses(&["show", "--contact", "127.0.0.1:1", "--keyspace", "bank"]).contains("connect"));
}
