//! `cassette sstable …` prints exactly what Cassandra's tools printed of the golden tables.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sstable/tests/golden")
}

fn cassette(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.arg("sstable");
    for argument in arguments {
        command.arg(argument);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let Ok(found) = std::fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The recorded outputs in a folder `dump` or `meta` of each case: the Data file, the text, and the
/// extension that identifies the command.
fn recorded(folder: &str) -> Vec<(PathBuf, String, String)> {
    let mut found = Vec::new();
    for case in entries(&golden()) {
        for file in entries(&case.join(folder)) {
            let (base, extension) = name(&file).trim_end_matches(".gz").rsplit_once('.').unwrap();
            let (table, sstable) = match base.split_once(".nb-") {
                Some((table, id)) => (Some(format!("{table}-")), format!("nb-{id}")),
                None => (None, base.to_owned()),
            };
            let tables = entries(&case.join("data"));
            let is_meant =
                |directory: &&PathBuf| table.as_deref().is_none_or(|t| name(directory).starts_with(t));
            let directory = tables.iter().find(is_meant).unwrap();
            let mut said = String::new();
            let compressed = std::fs::File::open(&file).unwrap();
            flate2::read::GzDecoder::new(compressed).read_to_string(&mut said).unwrap();
            found.push((directory.join(format!("{sstable}-Data.db")), said, extension.to_owned()));
        }
    }
    found
}

#[track_caller]
fn assert_same(found: &str, expected: &str, what: &Path) {
    let mut lines = found.trim_end().lines().zip(expected.trim_end().lines()).enumerate();
    if let Some((number, (found, expected))) = lines.find(|(_, (found, expected))| found != expected) {
        panic!("{} line {}:\nfound    {found}\nexpected {expected}", what.display(), number + 1);
    }
    assert_eq!(found.trim_end().len(), expected.trim_end().len(), "{}", what.display());
}

#[test]
fn a_dump_is_letter_for_letter_that_of_sstabledump() {
    let recorded = recorded("dump");
    assert!(recorded.len() > 80, "{}", recorded.len());
    for (data, expected, extension) in recorded {
        let how = if extension == "json" { "-t" } else { "-d" };
        assert_same(&text(&cassette(&[&"dump", &how, &data])), &expected, &data);
    }
}

#[test]
fn metadata_is_letter_for_letter_that_of_sstablemetadata() {
    let recorded = recorded("meta");
    assert!(recorded.len() > 40, "{}", recorded.len());
    // The path differs, and the droppable tombstones depend on the day.
    let kept = |text: &str| {
        let lines = text.lines().filter(|l| !l.starts_with("SSTable: ") && !l.contains("droppable"));
        lines.collect::<Vec<_>>().join("\n")
    };
    for (data, expected, _) in recorded {
        assert_same(&kept(&text(&cassette(&[&"metadata", &data]))), &kept(&expected), &data);
    }
}

/// The lines of a scan, and the partitions of each ranking. Which of equal partitions are shown is
/// not specified: of the last value of a ranking, there are no keys.
fn scanned(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let value = |line: &str| line.rsplit_once("] ").map(|(_, value)| value.to_owned());
    let mut last = None;
    for line in lines.iter_mut().rev() {
        let found = value(line).filter(|_| line.starts_with("  ["));
        match found {
            Some(found) if *last.get_or_insert(found.clone()) == found => *line = found,
            Some(_) => {}
            None => last = None,
        }
    }
    for ranking in lines.chunk_by_mut(|a, b| value(a).is_some() && value(a) == value(b)) {
        ranking.sort();
    }
    lines
}

#[test]
fn a_scan_shows_what_that_of_sstablemetadata_does() {
    let recorded = std::fs::read_to_string(golden().join("scan.txt")).unwrap();
    let recorded: Vec<&str> = recorded.split("# ").filter(|part| !part.is_empty()).collect();
    assert!(recorded.len() > 50, "{}", recorded.len());
    for recorded in recorded {
        let (name, expected) = recorded.split_once('\n').unwrap();
        let data = golden().join(format!("{name}-Data.db"));
        let said = text(&cassette(&[&"metadata", &"-s", &data]));
        let (_, scan) = said.split_once('\n').unwrap();
        let (scan, _) = scan.split_once("Partitioner: ").unwrap();
        assert_eq!(scanned(scan), scanned(expected), "{name}");
    }
}

/// The recorded outputs for SSTables of newer versions, by extension.
fn recorded_of_newer(version: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let newer = golden().with_file_name("golden5").join(version);
    for directory in entries(&newer).iter().flat_map(|case| entries(case)) {
        for file in entries(&directory) {
            let Some(sstable) = name(&file).strip_suffix(extension) else { continue };
            let mut said = String::new();
            let compressed = std::fs::File::open(&file).unwrap();
            flate2::read::GzDecoder::new(compressed).read_to_string(&mut said).unwrap();
            found.push((directory.join(format!("{sstable}-Data.db")), said));
        }
    }
    found
}

#[test]
fn sstables_of_newer_versions_are_dumped_as_sstabledump_does() {
    let recorded = recorded_of_newer("da", ".json.gz");
    assert!(recorded.len() > 25, "{}", recorded.len());
    for (data, expected) in recorded {
        assert_same(&text(&cassette(&[&"dump", &"-t", &data])), &expected, &data);
    }
}

/// Headers of Cassandra 3.0 do not contain that user-defined types are frozen: sstabledump 5.0.8
/// fails.
#[test]
fn an_sstable_of_cassandra_3_0_with_user_defined_types_is_dumped() {
    let directory = tempfile::tempdir().unwrap();
    let archive = golden().join("../../../adopt/tests/golden/ma.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(directory.path()).status();
    assert!(unpacked.unwrap().success());
    let tables = entries(&directory.path().join("node/data/random"));
    let table = tables.iter().find(|table| name(table).starts_with("r2-")).unwrap();
    let mut keys = std::collections::BTreeSet::new();
    for data in entries(table).iter().filter(|path| name(path).ends_with("-Data.db")) {
        let partitions: Value = serde_json::from_str(&text(&cassette(&[&"dump", &"-t", data]))).unwrap();
        for partition in partitions.as_array().unwrap() {
            let cells = |row: &Value| row["cells"].as_array().map_or(0, Vec::len);
            if partition["rows"].as_array().unwrap().iter().any(|row| cells(row) > 0) {
                keys.insert(partition["partition"]["key"].to_string());
            }
        }
    }
    let expected = std::fs::read_to_string(directory.path().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let is_of_table = |result: &&Value| result["query"].as_str().unwrap().ends_with("FROM random.r2");
    let result = expected["results"].as_array().unwrap().iter().find(is_of_table).unwrap();
    assert_eq!(keys.len(), result["raw"].as_array().unwrap().len());
}

fn data_of(case: &str) -> PathBuf {
    let directory = entries(&golden().join(case).join("data")).swap_remove(0);
    entries(&directory).into_iter().find(|path| name(path).ends_with("-Data.db")).unwrap()
}

#[test]
fn a_dump_can_be_of_some_keys_or_of_keys_alone_or_a_partition_a_line() {
    let data = data_of("statics");
    let keys = text(&cassette(&[&"dump", &"-e", &data]));
    let keys: Value = serde_json::from_str(&keys).unwrap();
    assert_eq!(keys.to_string(), r#"[["5"],["1"],["2"],["4"],["6"],["3"]]"#);
    let partitions = |arguments: &[&dyn AsRef<std::ffi::OsStr>]| {
        let lines =
            text(&cassette(&[&[&"dump" as &dyn AsRef<std::ffi::OsStr>, &"-l", &data], arguments].concat()));
        let key = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["partition"]["key"][0].as_str().unwrap().to_owned()
        };
        lines.lines().map(key).collect::<Vec<_>>()
    };
    assert_eq!(partitions(&[]), ["5", "1", "2", "4", "6", "3"]);
    assert_eq!(partitions(&[&"-k", &"3", &"-k", &"1", &"-k", &"77"]), ["1", "3"]);
    assert_eq!(partitions(&[&"-x", &"1", &"-x", &"5"]), ["2", "4", "6", "3"]);
    // Dates instead of numbers.
    let dates = text(&cassette(&[&"dump", &"-l", &"-k", &"3", &data]));
    assert!(dates.contains(r#""tstamp":"2023-11-14T22:13:20.000003Z""#), "{dates}");
    let composite = data_of("composite_pk");
    let one = text(&cassette(&[&"dump", &"-e", &composite]));
    assert!(one.contains(r#"[ "-1", "x", "6ba7b814-9dad-41d1-80b4-00c04fd430c8" ]"#), "{one}");
    let key = "-1:x:6ba7b814-9dad-41d1-80b4-00c04fd430c8";
    let found = text(&cassette(&[&"dump", &"-l", &composite, &"-k", &key]));
    assert_eq!(found.lines().count(), 1);
}

#[test]
fn verification_passes_sound_files_and_fails_damaged_ones() {
    let directory = tempfile::tempdir().unwrap();
    let data = data_of("wide");
    for file in entries(data.parent().unwrap()) {
        std::fs::copy(&file, directory.path().join(name(&file))).unwrap();
    }
    let said = text(&cassette(&[&"verify", &"-e", &directory.path()]));
    assert!(said.contains("succeeded"), "{said}");
    let copy = directory.path().join(name(&data));
    let mut bytes = std::fs::read(&copy).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&copy, bytes).unwrap();
    let output = cassette(&[&"verify", &copy]);
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Error verifying") && said.contains("Data.db"), "{said}");
}

#[test]
fn partitions_that_reach_a_threshold_are_named() {
    let data = data_of("wide");
    let said = text(&cassette(&[&"partitions", &"-t", &"100KiB", &data]));
    assert!(said.contains("1 partitions match\n  Keys: "), "{said}");
    assert!(said.contains("Partition size            Row count"), "{said}");
    let csv = text(&cassette(&[&"partitions", &"-m", &"-w", &"1", &data_of("tombstones")]));
    assert!(csv.starts_with("key,keyBinary,live,offset,size,rowCount,cellCount,tombstoneCount"), "{csv}");
    let second = csv.lines().nth(1).unwrap();
    assert!(second.starts_with("\"5\",00000005,true,0,"), "{second}");
}

/// The export equals the answer to `SELECT JSON *`.
#[test]
fn an_export_has_the_rows_that_cassandra_answered() {
    let mut compared = 0;
    for case in entries(&golden()) {
        let Ok(file) = std::fs::File::open(case.join("select.json.gz")) else { continue };
        let mut recorded = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut recorded).unwrap();
        let recorded: Value = serde_json::from_str(&recorded).unwrap();
        for directory in entries(&case.join("data")) {
            let table = name(&directory).rsplit_once('-').unwrap().0;
            let query = format!("SELECT * FROM golden.{table}");
            let results = recorded["results"].as_array().unwrap();
            let Some(result) = results.iter().find(|result| result["query"] == query.as_str()) else {
                continue;
            };
            // Data that has expired since is not exported.
            let Some(expected) = result["json"].as_array() else { continue };
            if name(&case).starts_with("ttls") {
                continue;
            }
            let schema = case.join("schema.cql");
            let rows = text(&cassette(&[&"export", &directory, &"--schema", &schema]));
            let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
            assert_eq!(&rows, expected, "{}", directory.display());
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn an_export_as_csv_has_a_header_and_tells_null_from_nothing() {
    let directory = data_of("clustering");
    let schema = golden().join("clustering/schema.cql");
    let csv = text(&cassette(&[&"export", &directory, &"--schema", &schema, &"--format", &"csv"]));
    assert!(csv.starts_with("k,"), "{csv}");
    assert!(csv.contains(",\"\","), "an empty text is no null: {csv}");
}

#[test]
fn a_directory_is_imported_into_a_data_directory() {
    let data = tempfile::tempdir().unwrap();
    let database = cassette_database::Database::open(data.path()).unwrap();
    let session = database.session();
    let schema = std::fs::read_to_string(golden().join("collections/schema.cql")).unwrap();
    for statement in schema.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        session.execute(statement, ()).unwrap();
    }
    let from = data_of("collections");
    let from = from.parent().unwrap();
    let locked =
        cassette(&[&"import", &from, &"--data", &data.path(), &"--table", &"golden.collections", &"-p"]);
    assert!(!locked.status.success() && String::from_utf8_lossy(&locked.stderr).contains("in use"));
    drop(session);
    database.close().unwrap();
    drop(database);
    let said = text(&cassette(&[
        &"import",
        &from,
        &"--data",
        &data.path(),
        &"--table",
        &"golden.collections",
        &"-p",
    ]));
    assert!(said.contains("2 SSTables"), "{said}");
    let database = cassette_database::Database::open(data.path()).unwrap();
    assert!(database.session().execute("SELECT * FROM golden.collections", ()).unwrap().len() > 3);
}

/// Tables that Cassandra wrote, as Parquet: as many rows as its answers had, in typed columns.
#[test]
fn an_export_as_parquet_is_read_back_with_its_types() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let directory = tempfile::tempdir().unwrap();
    let source = |case: &str| {
        let case = golden().join(case);
        (entries(&case.join("data")).swap_remove(0), case.join("schema.cql"))
    };
    let export = |case: &str| {
        let (data, schema) = source(case);
        let output = directory.path().join(format!("{case}.parquet"));
        assert!(
            cassette(&[&"export", &data, &"--schema", &schema, &"-o", &output]).status.success(),
            "{case}"
        );
        SerializedFileReader::new(std::fs::File::open(output).unwrap()).unwrap()
    };
    let rows_of = |case: &str| {
        let (data, schema) = source(case);
        text(&cassette(&[&"export", &data, &"--schema", &schema])).lines().count() as i64
    };
    for case in ["scalars", "collections", "tuples_udt", "vectors", "counters", "statics", "frozen_keys"] {
        let reader = export(case);
        assert_eq!(reader.metadata().file_metadata().num_rows(), rows_of(case), "{case}");
        let read = reader.get_row_iter(None).unwrap().map(Result::unwrap).count() as i64;
        assert_eq!(read, rows_of(case), "{case}");
    }
    let counters: Vec<String> =
        export("counters").get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(counters[0], "{k: \"a\", c: 0, s: 6, m: -6, n: 116}");
    assert_eq!(counters[1], "{k: \"a\", c: 1, s: 6, m: null, n: 111}");
    let nowhere = cassette(&[&"export", &source("counters").0, &"--format", &"parquet"]);
    assert!(!nowhere.status.success());
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("specify it with --output"));
}

#[test]
fn levels_are_reset_and_blockers_of_expired_sstables_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = cassette_database::Options::new(directory.path());
    options.engine.background_threads = false;
    let database = cassette_database::Database::open(options).unwrap();
    let session = database.session();
    let execute = |cql: &str| drop(session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")));
    execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    execute(
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH gc_grace_seconds = 0 AND compaction = \
         {'class': 'LeveledCompactionStrategy'}",
    );
    let id = database.catalog().table("ks", "t").unwrap().id;
    for k in 0..3 {
        execute(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, 'x') USING TIMESTAMP {k}"));
        database.engine().flush(Some(id)).unwrap();
    }
    database.engine().compact(id).unwrap();
    execute("INSERT INTO ks.t (k, v) VALUES (1, 'expires') USING TIMESTAMP 100 AND TTL 5");
    database.engine().flush(Some(id)).unwrap();
    database.close().unwrap();
    drop((session, database));

    let later = "2000000000";
    let expired = text(&cassette(&[&"expired", &"--data", &directory.path(), &"-u", &later, &"ks", &"t"]));
    assert!(expired.contains(" blocks 1 expired sstables from getting dropped: "), "{expired}");
    assert!(expired.contains("(minTS = 0, maxTS = 2, maxLDT = 2147483647)]"), "{expired}");

    let reset = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
        command.args(["sstable", "level-reset", "--data"]).arg(directory.path()).args(flags);
        command.args(["ks", "t"]).output().unwrap()
    };
    assert!(String::from_utf8_lossy(&reset(&[]).stderr).contains("--really-reset"));
    let changed = text(&reset(&["--really-reset"]));
    assert_eq!(changed.matches("Changing level from ").count(), 1, "{changed}");
    assert_eq!(changed.matches("since it is already level 0").count(), 1, "{changed}");
    assert_eq!(text(&reset(&["--really-reset"])).matches("Skipped ").count(), 2);
    let database = cassette_database::Database::open(directory.path()).unwrap();
    let rows = database.session().execute("SELECT k FROM ks.t WHERE k IN (0, 2)", ()).unwrap();
    assert_eq!(rows.len(), 2);
}

#[test]
fn large_sstables_are_split_after_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let database = cassette_database::Database::open(data).unwrap();
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH compression = {'enabled': 'false'}",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let value = "x".repeat(10_000);
    for k in 0..250 {
        session.execute("INSERT INTO ks.t (k, v) VALUES (?, ?)", (k, value.as_str())).unwrap();
    }
    drop(session);
    database.close().unwrap();
    drop(database);
    let table = entries(&data.join("data/ks")).swap_remove(0);
    let data_files = || {
        let files = entries(&table);
        files.into_iter().filter(|path| name(path).ends_with("-Data.db")).collect::<Vec<_>>()
    };
    let before = data_files();
    assert_eq!(before.len(), 1);
    let split = text(&cassette(&[&"split", &"--data", &data, &"-s", &"1", &before[0]]));
    assert!(split.contains("Pre-split sstables snapshotted into snapshot pre-split-"), "{split}");
    let parts = data_files().len();
    assert!((2..=3).contains(&parts), "{split}");
    assert!(split.contains(&format!("Split {} into {parts} sstables", before[0].display())), "{split}");
    let again = text(&cassette(&[&"split", &"--data", &data, &"-s", &"3", &table]));
    assert!(again.contains("is less than the split size (3 MB)"), "{again}");
    assert!(again.ends_with("No sstables needed splitting.\n"), "{again}");
    let snapshot = entries(&table.join("snapshots")).swap_remove(0);
    let refused = cassette(&[&"split", &"--data", &data, &snapshot]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not in the directory of a table"));
    let database = cassette_database::Database::open(data).unwrap();
    let counted = database.session().execute("SELECT count(*) FROM ks.t", ()).unwrap();
    assert_eq!(counted.iter().next().unwrap().bytes(0), Some([0, 0, 0, 0, 0, 0, 0, 250].as_slice()));
}
