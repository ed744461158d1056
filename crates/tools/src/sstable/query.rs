//! `cassette sstable query`: CQL on files, without a server.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use cassette_adopt::{ReadOnly, open_read_only};
use cassette_cql::values::json::encode_value;
use cassette_cql::values::text::to_literal;
use cassette_database::{Database, KeyspaceKind, OwnedRow, RowIter, Session};
use clap::{Args, ValueEnum};

/// The rows whose values decide the width of columns: those after them are printed as they come.
const ALIGNED_ROWS: usize = 1000;

/// The statement, and the files.
#[derive(Debug, Args)]
#[command(after_help = "\
The directories are a snapshot with its schema.cql, a data directory that no server has open for \
writing, or data directories of Cassandra. Nothing is written to them.

Examples:
  A snapshot, whose table needs no keyspace:
    cassette sstable query 'SELECT count(*) FROM users' data/app/users-*/snapshots/monday

  Directories of a stopped Cassandra, as JSON:
    cassette sstable query -f json 'SELECT * FROM app.users' /var/lib/cassandra/data")]
pub struct QueryArguments {
    /// A SELECT, or another statement that does not write
    statement: String,
    /// Directories
    #[arg(required = true, value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    /// The format of the rows
    #[arg(short = 'f', long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// The formats of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned columns, values as CQL literals
    Table,
    /// One JSON object for each row
    Json,
}

pub fn run(arguments: &QueryArguments) -> anyhow::Result<bool> {
    let options = cassette_database::Options::new("");
    let ReadOnly { database, warnings } = open_read_only(options, &arguments.directories)?;
    for warning in warnings {
        eprintln!("cassette: {warning}");
    }
    let session = database.session();
    use_only_keyspace(&database, &session)?;
    let rows = session.query_iter(arguments.statement.as_str(), ())?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match arguments.format {
        Format::Table => print_table(rows, &mut out)?,
        Format::Json => print_json(rows, &mut out)?,
    }
    out.flush().context("cannot write the rows")?;
    Ok(true)
}

/// Uses the user keyspace, if there is one only: snapshots have one.
fn use_only_keyspace(database: &Database, session: &Session) -> anyhow::Result<()> {
    let catalog = database.catalog();
    let mut users = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    if let (Some(only), None) = (users.next(), users.next()) {
        session.execute(format!("USE {}", cassette_cql::quote_identifier(&only.name)).as_str(), ())?;
    }
    Ok(())
}

fn literals(row: &OwnedRow) -> Vec<String> {
    let row = row.as_row();
    let columns = row.columns().iter().enumerate();
    columns.map(|(i, column)| to_literal(&column.data_type, row.bytes(i))).collect()
}

/// Prints aligned columns, and the number of rows.
fn print_table(mut rows: RowIter, out: &mut impl Write) -> anyhow::Result<()> {
    let names: Vec<String> = rows.columns().iter().map(|column| column.name.to_string()).collect();
    if names.is_empty() {
        bail!("the statement has no rows");
    }
    let mut first = Vec::new();
    for row in rows.by_ref().take(ALIGNED_ROWS) {
        first.push(literals(&row?));
    }
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..names.len())
        .map(|i| first.iter().chain([&names]).filter_map(|row| row.get(i)).map(length).max().unwrap_or(0))
        .collect();
    let mut print = |values: &[String]| {
        let padded: Vec<String> =
            values.iter().zip(&widths).map(|(value, width)| format!("{value:<width$}")).collect();
        writeln!(out, "{}", padded.join(" | ").trim_end())
    };
    print(&names)?;
    print(&widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>())?;
    let mut count = first.len();
    for row in &first {
        print(row)?;
    }
    for row in rows {
        print(&literals(&row?))?;
        count += 1;
    }
    writeln!(out, "({count} rows)")?;
    Ok(())
}

fn print_json(rows: RowIter, out: &mut impl Write) -> anyhow::Result<()> {
    for row in rows {
        let row = row?;
        let row = row.as_row();
        let mut fields = Vec::with_capacity(row.columns().len());
        for (i, column) in row.columns().iter().enumerate() {
            let value = row
                .bytes(i)
                .map_or_else(|| "null".to_owned(), |value| encode_value(&column.data_type, value));
            fields.push(format!("{}: {value}", serde_json::Value::from(&*column.name)));
        }
        writeln!(out, "{{{}}}", fields.join(", "))?;
    }
    Ok(())
}
