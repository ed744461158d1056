//! Compares the results of statements with those of Apache Cassandra, without a server.
//!
//! `tests/conformance/NAME.cql` at the root contains statements, one in each paragraph; `NAME.json`
//! the responses of Cassandra 5.0.8 through the Python driver; `differences.json` the accepted
//! differences. `tests/clients` tests the server with the same files.

mod answers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use answers::answer;
use cassette_cql::values::text::encode_hex;
use cassette_database::{Database, Options, Session};
use cassette_vfs::FakeFileSystem;
use serde_json::{Map, Value, json};

const KEYSPACE: &str = "conformance";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the paragraphs of a file without its comments.
fn statements(path: &Path) -> Vec<String> {
    let text: String = read(path)
        .lines()
        .filter(|line| !line.starts_with("--"))
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    text.split("\n\n").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn session() -> Session {
    session_with(|_| ())
}

fn session_with(change: impl FnOnce(&mut Options)) -> Session {
    // The configuration of Cassandra when its responses were recorded.
    let mut options = Options {
        file_system: Arc::new(FakeFileSystem::new()),
        materialized_views_enabled: true,
        drop_compact_storage_enabled: true,
        sasi_indexes_enabled: true,
        // The responses were those to a superuser, who is exempt from guardrails.
        guardrails: [("zero_ttl_on_twcs_warned".to_owned(), "false".to_owned())].into(),
        ..Options::new("/data")
    };
    change(&mut options);
    let session = Database::open(options).unwrap().session();
    begin(&session);
    session
}

/// Makes the keyspace of the statements, without tables.
fn begin(session: &Session) {
    session.execute(&format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"), ()).unwrap();
    let create = format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    );
    session.execute(&create, ()).unwrap();
    session.execute(&format!("USE {KEYSPACE}"), ()).unwrap();
}

/// Returns the response with the functions in its message sorted by name: Cassandra lists them in
/// the order of a hash map.
fn in_order(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(Value::String(message)) = answer.get_mut("message")
        && let Some((before, listed)) = message.split_once("signatures: ")
    {
        let (listed, after) = match listed.find("): ") {
            Some(end) => listed.split_at(end),
            None => (listed.trim_end_matches(')'), ")"),
        };
        let keyspaces = [", system.", ", conformance."];
        let lines = keyspaces
            .iter()
            .fold(listed.to_owned(), |listed, start| listed.replace(start, &start.replace(", ", "\n")));
        let mut signatures: Vec<&str> = lines.lines().collect();
        signatures.sort_unstable();
        *message = format!("{before}signatures: {}{after}", signatures.join(", "));
    }
    answer
}

/// Returns the difference between the responses to one statement; `None` if there is none.
fn judge(statement: &str, ours: &Value, cassandra: &Value, kept: Option<&Value>) -> Option<String> {
    let (ours, cassandra) = (&in_order(ours), &in_order(cassandra));
    match kept {
        Some(_) if ours == cassandra => {
            Some(format!("{statement}\n  no longer differs: take it out of differences.json"))
        }
        Some(kept) if *ours != kept["answer"] => {
            Some(format!("{statement}\n  ours      {ours}\n  accepted  {}", kept["answer"]))
        }
        None if ours != cassandra => {
            Some(format!("{statement}\n  ours      {ours}\n  Cassandra {cassandra}"))
        }
        _ => None,
    }
}

#[test]
fn answers_are_those_of_cassandra() {
    let differences = read_json(&folder().join("differences.json"));
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cql"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no statements in {}", folder().display());
    let mut wrong = Vec::new();
    for name in &names {
        let recorded = read_json(&folder().join(format!("{name}.json")));
        let recorded = recorded.as_array().unwrap();
        let statements = statements(&folder().join(format!("{name}.cql")));
        let known: Vec<&str> = recorded.iter().filter_map(|entry| entry["statement"].as_str()).collect();
        assert_eq!(statements, known, "{name}: record the answers again");
        let session = session();
        for entry in recorded {
            let statement = entry["statement"].as_str().unwrap();
            let ours = answer(&session, statement);
            let kept = differences.get(name).and_then(|of_file| of_file.get(statement));
            wrong.extend(
                judge(statement, &ours, &entry["answer"], kept).map(|wrong| format!("{name}: {wrong}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the statements of a case in `random.txt` with their answers. `tests/random/record.py`
/// describes the format.
fn random_case(lines: &str) -> Vec<(&str, Value)> {
    let mut case: Vec<(&str, Map<String, Value>)> = Vec::new();
    for line in lines.lines() {
        let Some(part) = line.strip_prefix('\t') else {
            case.push((line, Map::new()));
            continue;
        };
        let (_, answer) = case.last_mut().unwrap();
        let (kind, text) = part.split_at(1);
        let mut add = |name: &str, value: Value| {
            answer.entry(name).or_insert_with(|| json!([])).as_array_mut().unwrap().push(value);
        };
        match kind {
            "!" => {
                let (code, message) = text.split_once(' ').unwrap();
                answer.insert("error".into(), code.into());
                match message.split_once('.').filter(|_| code == "2400") {
                    Some((keyspace, table)) => {
                        answer.insert("keyspace".into(), keyspace.into());
                        answer.insert("table".into(), table.into());
                    }
                    None => drop(answer.insert("message".into(), message.into())),
                }
            }
            "*" => add("warnings", text.replace("\\n", "\n").into()),
            ":" => {
                answer.insert("columns".into(), text.split('\t').collect());
                answer.insert("rows".into(), json!([]));
            }
            "=" => {
                let cell = |cell: &str| if cell == "-" { Value::Null } else { cell.into() };
                add("rows", text.split('\t').map(cell).collect());
            }
            "?" => {
                let (key, columns) = text.split_once('\t').unwrap();
                let key: Vec<u16> = key.split(',').filter_map(|index| index.parse().ok()).collect();
                let columns: Vec<_> = columns.split('\t').collect();
                answer.insert("markers".into(), json!({"columns": columns, "key": key}));
            }
            _ => panic!("{line}"),
        }
    }
    case.into_iter().map(|(statement, answer)| (statement, Value::Object(answer))).collect()
}

#[test]
fn random_statements_are_answered_as_by_cassandra() {
    let text = read(&folder().join("random.txt"));
    let (mut wrong, session) = (Vec::new(), session());
    for case in text.trim_start_matches("# ").split("\n# ") {
        let (seed, lines) = case.split_once('\n').unwrap();
        begin(&session);
        for (statement, cassandra) in random_case(lines) {
            let ours = answer(&session, statement);
            wrong.extend(judge(statement, &ours, &cassandra, None).map(|wrong| format!("{seed}: {wrong}")));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The bodies of functions: in Java, as Cassandra's answers were recorded, and in Lua.
struct Bodies(Vec<(String, String)>);

impl Bodies {
    fn read(path: &Path) -> Self {
        let bodies = read_json(path);
        let bodies = bodies.as_object().unwrap().iter();
        Self(bodies.map(|(java, lua)| (java.clone(), lua.as_str().unwrap().to_owned())).collect())
    }

    /// Returns a statement with its body in Lua.
    fn in_lua(&self, statement: &str) -> String {
        let Some((start, body)) = statement.split_once(" LANGUAGE java AS '") else {
            return statement.to_owned();
        };
        let body = body.strip_suffix('\'').unwrap();
        let (_, lua) = self.0.iter().find(|(java, _)| java == body).unwrap_or_else(|| panic!("{body}"));
        format!("{start} LANGUAGE lua AS '{}'", lua.replace('\'', "''"))
    }

    /// Returns an answer with the bodies that the statements have.
    fn in_java(&self, mut answer: Value) -> Value {
        let rows = answer.get_mut("rows").and_then(Value::as_array_mut);
        for cell in rows.into_iter().flatten().filter_map(Value::as_array_mut).flatten() {
            if let Some(text) = cell.as_str() {
                *cell = self.cell(text).into();
            }
        }
        answer
    }

    fn cell(&self, text: &str) -> String {
        let hex = |text: &str| encode_hex(text.as_bytes());
        let described = |language: &str, body: &str| hex(&format!("LANGUAGE {language}\n    AS $${body}$$"));
        let mut text = text.to_owned();
        for (java, lua) in &self.0 {
            if text == hex(lua) {
                return hex(java);
            }
            text = text.replace(&described("lua", lua), &described("java", java));
        }
        if text == hex("lua") { hex("java") } else { text }
    }
}

/// Returns an answer without the reason of a failure, which is that of the language.
fn without_reason(mut answer: Value) -> Value {
    const OF_COMPILER: &str = " source compilation failed:";
    let is_failure = answer["error"] == "1400";
    if let Some(Value::String(message)) = answer.get_mut("message")
        && (is_failure || message.contains(OF_COMPILER))
    {
        *message = if is_failure { String::new() } else { OF_COMPILER.to_owned() };
    }
    answer
}

#[test]
fn functions_answer_as_those_of_cassandra() {
    let folder = folder().join("functions");
    let bodies = Bodies::read(&folder.join("bodies.json"));
    let differences = read_json(&folder.join("differences.json"));
    let mut wrong = Vec::new();
    for name in ["aggregates", "functions"] {
        let recorded = read_json(&folder.join(format!("{name}.json")));
        let recorded = recorded.as_array().unwrap();
        let known: Vec<&str> = recorded.iter().filter_map(|entry| entry["statement"].as_str()).collect();
        let statements = statements(&folder.join(format!("{name}.cql")));
        assert_eq!(statements, known, "{name}: record the answers again");
        let session = session_with(|options| options.functions.enabled = true);
        for entry in recorded {
            let statement = entry["statement"].as_str().unwrap();
            let ours = without_reason(bodies.in_java(answer(&session, &bodies.in_lua(statement))));
            let cassandra = without_reason(entry["answer"].clone());
            let kept = differences.get(name).and_then(|of_file| of_file.get(statement));
            wrong.extend(judge(statement, &ours, &cassandra, kept).map(|wrong| format!("{name}: {wrong}")));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}
