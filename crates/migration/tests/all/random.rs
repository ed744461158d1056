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
}

/// Creates keyspace `ks` with a type, and tables with rows, from a seed.
pub fn fill(database: &Database, seed: u64, tables: usize, writes: usize) -> Vec<RandomTable> {
    let mut rng = StdRng::seed_from_u64(seed);
    execute(
        database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    execute(database, "CREATE TYPE ks.u (\"F\" text, g int, h frozen<set<int>>)");
    (0..tables)
        .map(|number| {
            let table = RandomTable::create(database, number, &mut rng);
            (0..writes).for_each(|_| table.write(database, &mut rng));
            table
        })
        .collect()
}

impl RandomTable {
    fn create(database: &Database, number: usize, rng: &mut StdRng) -> Self {
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
            statics: columns("s", if has_clustering { number % 3 } else { 0 }, &[SCALARS, OTHERS].concat()),
            regulars: columns("V", number % 7, &[SCALARS, OTHERS, OTHERS].concat()),
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

    fn delete(&self, database: &Database, rng: &mut StdRng) {
        let mut key_rng = StdRng::seed_from_u64(rng.random_range(0..12));
        let keys: Vec<String> =
            self.keys.iter().map(|(name, t)| format!("\"{name}\" = {}", literal(t, &mut key_rng))).collect();
        let (keys, timestamp) = (keys.join(" AND "), rng.random_range(1_000_000..1_000_100));
        let mut row_rng = StdRng::seed_from_u64(rng.random_range(0..6));
        let row: Vec<(String, String)> =
            self.clusterings.iter().map(|(name, t)| (name.clone(), literal(t, &mut row_rng))).collect();
        let equal = row.iter().map(|(name, value)| format!(" AND {name} = {value}")).collect::<String>();
        let (what, more) = match (rng.random_range(0..5), row.first()) {
            (0, _) => (String::new(), String::new()),
            (1, Some((name, value))) => (String::new(), format!(" AND {name} > {value}")),
            (2, Some((name, value))) => (String::new(), format!(" AND {name} <= {value}")),
            (3, _) if !self.statics.is_empty() => (format!("\"{}\"", self.statics[0].0), String::new()),
            _ if self.regulars.is_empty() => (String::new(), equal),
            _ => {
                let column = &self.regulars[rng.random_range(0..self.regulars.len())].0;
                (format!("\"{column}\""), equal)
            }
        };
        let name = &self.name;
        execute(
            database,
            &format!("DELETE {what} FROM ks.{name} USING TIMESTAMP {timestamp} WHERE {keys}{more}"),
        );
    }

    /// Executes a random statement: an insert, an update, or a deletion.
    fn write(&self, database: &Database, rng: &mut StdRng) {
        let using = |rng: &mut StdRng| {
            let timestamp = rng.random_range(1_000_000..1_000_200);
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
                    rng.random_range(1_000_000..1_000_100)
                ),
            ),
            1..4 => {
                let split = of_row.split(" AND ").map(|part| part.split_once(" = ").unwrap());
                let (mut names, mut values): (Vec<_>, Vec<_>) =
                    split.map(|(name, value)| (name.to_owned(), value.to_owned())).unzip();
                for (name, cql_type) in &self.regulars {
                    if rng.random() {
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
