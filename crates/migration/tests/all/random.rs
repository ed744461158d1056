//! Keyspaces with random tables of many types, and random writes.

use std::fmt::Write as _;

use cassette_database::Database;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::support::{execute, rows};

const SCALARS: &[&str] = &[
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];
const OTHERS: &[&str] = &[
    "duration",
    "list<int>",
    "list<text>",
    "set<text>",
    "set<int>",
    "map<text, bigint>",
    "map<int, frozen<list<text>>>",
    "frozen<list<int>>",
    "frozen<set<text>>",
    "frozen<map<text, int>>",
    "tuple<int, text>",
    "vector<float, 3>",
    "u",
    "frozen<u>",
    "list<frozen<u>>",
];

/// Name and type of a column.
type Column = (String, String);

/// A table with its columns.
pub struct RandomTable {
    name: String,
    keys: Vec<Column>,
    clusterings: Vec<Column>,
    statics: Vec<Column>,
    regulars: Vec<Column>,
    /// Whether each inserted row has a cell, if there are columns.
    has_cells: bool,
}

/// Creates keyspace `ks` with a type, and tables with rows, from a seed.
pub fn fill(database: &Database, seed: u64, tables: usize, writes: usize) -> Vec<RandomTable> {
    let mut rng = StdRng::seed_from_u64(seed);
    let tables = create(database, tables, &mut rng, OTHERS, "");
    for table in &tables {
        (0..writes).for_each(|_| table.write(database, &mut rng));
    }
    tables
}

/// Creates keyspace `ks` with a type, and captured tables of types that can be followed.
pub fn captured(database: &Database, seed: u64, tables: usize) -> Vec<RandomTable> {
    let mut rng = StdRng::seed_from_u64(seed);
    let others: Vec<&str> = OTHERS.iter().copied().filter(|name| !name.starts_with("list<")).collect();
    create(database, tables, &mut rng, &others, "cdc = true")
}

fn create(
    database: &Database,
    tables: usize,
    rng: &mut StdRng,
    others: &[&str],
    option: &str,
) -> Vec<RandomTable> {
    execute(
        database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    execute(database, "CREATE TYPE ks.u (\"F\" text, g int, h frozen<set<int>>)");
    (0..tables).map(|number| RandomTable::create(database, number, rng, others, option)).collect()
}

impl RandomTable {
    fn create(database: &Database, number: usize, rng: &mut StdRng, others: &[&str], option: &str) -> Self {
        let mut columns = |prefix: &str, count: usize, types: &[&str]| -> Vec<Column> {
            (0..count)
                .map(|index| (format!("{prefix}{index}"), types[rng.random_range(0..types.len())].to_owned()))
                .collect()
        };
        let has_clustering = !number.is_multiple_of(4);
        let table = Self {
            name: format!("t{number}"),
            keys: columns("k", 1 + number % 2, SCALARS),
            clusterings: columns("c", if has_clustering { 1 + number % 3 } else { 0 }, SCALARS),
            statics: columns("s", if has_clustering { number % 3 } else { 0 }, &[SCALARS, others].concat()),
            has_cells: !option.is_empty(),
            regulars: columns("V", number % 7, &[SCALARS, others, others].concat()),
        };
        let mut text = format!("CREATE TABLE ks.{} (", table.name);
        for (name, cql_type) in table.keys.iter().chain(&table.clusterings).chain(&table.regulars) {
            write!(text, "\"{name}\" {cql_type}, ").unwrap();
        }
        for (name, cql_type) in &table.statics {
            write!(text, "\"{name}\" {cql_type} static, ").unwrap();
        }
        let names =
            |columns: &[Column]| columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(", ");
        write!(text, "PRIMARY KEY (({})", names(&table.keys)).unwrap();
        let mut options = Vec::new();
        if has_clustering {
            write!(text, ", {}", names(&table.clusterings)).unwrap();
            options.push("CLUSTERING ORDER BY (c0 DESC".to_owned());
            for (name, _) in &table.clusterings[1..] {
                write!(options[0], ", {name} ASC").unwrap();
            }
            options[0].push(')');
        }
        // A lifetime that cells without TTL must not get at the target.
        if number.is_multiple_of(3) {
            options.push("default_time_to_live = 300000000".to_owned());
        }
        if !option.is_empty() {
            options.push(option.to_owned());
        }
        text.push_str("))");
        if !options.is_empty() {
            write!(text, " WITH {}", options.join(" AND ")).unwrap();
        }
        execute(database, &text);
        table
    }

    /// Executes random statements, also deletions of partitions, ranges, static cells and elements.
    pub fn write_and_delete(&self, database: &Database, seed: u64, writes: usize) {
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..writes {
            if rng.random_range(0..4) == 0 {
                self.delete(database, &mut rng);
            } else {
                self.write(database, &mut rng);
            }
        }
    }

    /// Executes a random statement: an insert, an update, or a deletion.
    pub fn write(&self, database: &Database, rng: &mut StdRng) {
        self.write_at(1_000_000, database, rng);
    }

    /// Does [`write`](Self::write) with timestamps from `base` on.
    pub fn write_at(&self, base: i64, database: &Database, rng: &mut StdRng) {
        let using = |rng: &mut StdRng| {
            let timestamp = base + rng.random_range(0..200);
            match rng.random_range(0..3) {
                0 => format!(
                    "USING TIMESTAMP {timestamp} AND TTL {}",
                    rng.random_range(200_000_000..200_000_009)
                ),
                1 => format!("USING TIMESTAMP {timestamp} AND TTL 0"),
                _ => format!("USING TIMESTAMP {timestamp}"),
            }
        };
        // Few keys, so that rows are written several times.
        let mut key_rng = StdRng::seed_from_u64(rng.random_range(0..12));
        let keys: Vec<String> =
            self.keys.iter().map(|(name, t)| format!("\"{name}\" = {}", literal(t, &mut key_rng))).collect();
        let mut row_rng = StdRng::seed_from_u64(rng.random_range(0..6));
        let row: Vec<String> = self
            .clusterings
            .iter()
            .map(|(name, t)| format!("\"{name}\" = {}", literal(t, &mut row_rng)))
            .collect();
        let of_row = [keys.clone(), row].concat().join(" AND ");
        let name = &self.name;
        if !self.statics.is_empty() && rng.random_range(0..4) == 0 {
            let set = self.assignments(&self.statics, rng);
            execute(
                database,
                &format!("UPDATE ks.{name} {} SET {set} WHERE {}", using(rng), keys.join(" AND ")),
            );
            return;
        }
        match rng.random_range(0..10) {
            0 => execute(
                database,
                &format!(
                    "DELETE FROM ks.{name} USING TIMESTAMP {} WHERE {of_row}",
                    base + rng.random_range(0..100)
                ),
            ),
            1..4 => {
                let split = of_row.split(" AND ").map(|part| part.split_once(" = ").unwrap());
                let (mut names, mut values): (Vec<_>, Vec<_>) =
                    split.map(|(name, value)| (name.to_owned(), value.to_owned())).unzip();
                let always = rng.random_range(0..self.regulars.len().max(1));
                for (at, (name, cql_type)) in self.regulars.iter().enumerate() {
                    if rng.random() || self.has_cells && at == always {
                        names.push(format!("\"{name}\""));
                        values.push(literal(cql_type, rng));
                    }
                }
                let text = format!("({}) VALUES ({})", names.join(", "), values.join(", "));
                execute(database, &format!("INSERT INTO ks.{name} {text} {}", using(rng)));
            }
            _ if self.regulars.is_empty() => {}
            _ => {
                let set = self.assignments(&self.regulars, rng);
                execute(database, &format!("UPDATE ks.{name} {} SET {set} WHERE {of_row}", using(rng)));
            }
        }
    }

    /// Returns the restrictions of a random row: those of the partition key, and those of the
    /// clustering.
    fn restrictions(&self, rng: &mut StdRng) -> (Vec<String>, Vec<String>) {
        let mut of = |columns: &[Column], count: u64| {
            let mut rng = StdRng::seed_from_u64(rng.random_range(0..count));
            let equal = |(name, t): &Column| format!("\"{name}\" = {}", literal(t, &mut rng));
            columns.iter().map(equal).collect::<Vec<_>>()
        };
        (of(&self.keys, 12), of(&self.clusterings, 6))
    }

    /// Executes a random deletion: of a partition, a range, a row, columns or elements, or a batch
    /// of two of them.
    pub fn delete(&self, database: &Database, rng: &mut StdRng) {
        let (partition, row) = self.restrictions(rng);
        let statements: Vec<String> =
            (0..rng.random_range(1..3)).map(|_| self.deletion(&partition, &row, rng)).collect();
        match statements.as_slice() {
            [one] => execute(database, one),
            many => execute(database, &format!("BEGIN BATCH {}; APPLY BATCH", many.join("; "))),
        }
    }

    fn deletion(&self, partition: &[String], row: &[String], rng: &mut StdRng) -> String {
        let timestamp = rng.random_range(1_000_000..1_000_200);
        let delete = |what: &str, of: &[String]| {
            format!(
                "DELETE {what} FROM ks.{} USING TIMESTAMP {timestamp} WHERE {}",
                self.name,
                of.join(" AND ")
            )
        };
        let whole = [partition, row].concat();
        let is_static = !self.statics.is_empty() && rng.random();
        let (columns, of) = if is_static { (&self.statics, partition) } else { (&self.regulars, &whole[..]) };
        match rng.random_range(0..8) {
            0 => delete("", partition),
            1..4 if !row.is_empty() => {
                // A slice of a column after equal ones, with one end or two.
                let equal = rng.random_range(0..row.len());
                let mut parts = [partition, &row[..equal]].concat();
                let operators = [" > ", " >= ", " < ", " <= "];
                let first = rng.random_range(0..4);
                parts.push(row[equal].replacen(" = ", operators[first], 1));
                if rng.random() {
                    let (_, other) = self.restrictions(rng);
                    let second = (first / 2 * 2 + 2) % 4 + rng.random_range(0..2);
                    parts.push(other[equal].replacen(" = ", operators[second], 1));
                }
                delete("", &parts)
            }
            4 if !row.is_empty() => delete("", &[partition, &row[..rng.random_range(0..row.len())]].concat()),
            _ if columns.is_empty() => delete("", &whole),
            _ => {
                let (name, cql_type) = &columns[rng.random_range(0..columns.len())];
                let name = format!("\"{name}\"");
                let arguments =
                    |prefix: &str| cql_type.strip_prefix(prefix).map(|rest| &rest[..rest.len() - 1]);
                let key = arguments("set<").or(arguments("map<").and_then(|types| types.split(", ").next()));
                match (cql_type.as_str(), key) {
                    ("u", _) if rng.random() => delete(&format!("{name}.g"), of),
                    (_, Some(key)) if rng.random() => delete(&format!("{name}[{}]", literal(key, rng)), of),
                    _ => delete(&name, of),
                }
            }
        }
    }

    fn assignments(&self, columns: &[Column], rng: &mut StdRng) -> String {
        let (name, cql_type) = &columns[rng.random_range(0..columns.len())];
        let name = format!("\"{name}\"");
        let value = literal(cql_type, rng);
        match cql_type.as_str() {
            "u" if rng.random() => format!("{name}.g = {}", literal("int", rng)),
            t if t.starts_with("list<") || t.starts_with("set<") || t.starts_with("map<") => {
                match rng.random_range(0..4) {
                    0 => format!("{name} = {value}"),
                    1 if t.starts_with("list<") => format!("{name} = {value} + {name}"),
                    _ => format!("{name} = {name} + {value}"),
                }
            }
            _ => format!("{name} = {value}"),
        }
    }

    /// Returns the rows with the write timestamps and lifetimes of all cells, in order.
    pub fn content(&self, database: &Database) -> Vec<Vec<Option<bytes::Bytes>>> {
        let names = self.keys.iter().chain(&self.clusterings).map(|(name, _)| format!("\"{name}\""));
        let cells = self
            .statics
            .iter()
            .chain(&self.regulars)
            .map(|(name, _)| format!("\"{name}\", writetime(\"{name}\"), ttl(\"{name}\")"));
        let names: Vec<String> = names.chain(cells).collect();
        rows(database, &format!("SELECT {} FROM ks.{}", names.join(", "), self.name))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns a random literal of a type.
fn literal(cql_type: &str, rng: &mut StdRng) -> String {
    let word = |rng: &mut StdRng| {
        let length = rng.random_range(1..9);
        (0..length).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect::<String>()
    };
    let inner = |from: &str| cql_type[from.len()..cql_type.len() - 1].to_owned();
    let items = |of: &str, rng: &mut StdRng| {
        let count = rng.random_range(1..4);
        (0..count).map(|_| literal(of, rng)).collect::<Vec<_>>().join(", ")
    };
    match cql_type {
        "ascii" | "text" => format!("'{}'", word(rng)),
        "bigint" | "varint" => rng.random_range(-1_000_000_000_000i64..1_000_000_000_000).to_string(),
        "blob" => format!("0x{:08x}", rng.random::<u32>()),
        "boolean" => rng.random::<bool>().to_string(),
        "date" => format!("'20{:02}-03-17'", rng.random_range(10..90)),
        "decimal" | "double" | "float" => format!("{}.5", rng.random_range(-9999..9999)),
        "inet" => format!("'10.0.{}.{}'", rng.random_range(0..255), rng.random_range(0..255)),
        "int" => rng.random_range(-100_000..100_000).to_string(),
        "smallint" | "tinyint" => rng.random_range(-120..120).to_string(),
        "time" => format!("'{:02}:30:00.5'", rng.random_range(0..24)),
        "timestamp" => rng.random_range(0..2_000_000_000_000i64).to_string(),
        "timeuuid" => format!("{:08x}-9cf2-11ee-8c90-0242ac120002", rng.random::<u32>()),
        "uuid" => format!("{:08x}-9cf2-41ee-8c90-0242ac120002", rng.random::<u32>()),
        "duration" => format!("{}d{}h", rng.random_range(1..99), rng.random_range(1..23)),
        "u" => format!("{{\"F\": '{}', g: {}, h: {{1, 2}}}}", word(rng), rng.random_range(0..99)),
        "tuple<int, text>" => format!("({}, '{}')", rng.random_range(0..99), word(rng)),
        "vector<float, 3>" => format!("[1.5, {}.5, 2.5]", rng.random_range(0..99)),
        _ if cql_type.starts_with("frozen<") => literal(&inner("frozen<"), rng),
        _ if cql_type.starts_with("list<") => format!("[{}]", items(&inner("list<"), rng)),
        _ if cql_type.starts_with("set<") => format!("{{{}}}", items(&inner("set<"), rng)),
        _ => {
            let types = inner("map<");
            let (key, value) = types.split_once(", ").unwrap();
            format!("{{{}: {}}}", literal(key, rng), literal(value, rng))
        }
    }
}
