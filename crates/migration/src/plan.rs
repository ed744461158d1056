//! What a move does: the tables, and the schema that the target lacks.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cassette_rows::types::quote_identifier;

use crate::cell::text;
use crate::endpoint::Session;
use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::schema::{self, Keyspace, Kind, Table};
use crate::table_options::without_unknown;

/// Maximum time until all nodes have the same schema.
const AGREEMENT_MAX: Duration = Duration::from_secs(60);
/// A table of every store of transactions.
const OF_TRANSACTIONS: &str = "_timestamp";

/// The keyspaces of the source, and statements for the target.
pub struct Plan {
    pub keyspaces: Vec<Keyspace>,
    /// Statements before and after the copy.
    pub before: Vec<String>,
    pub after: Vec<String>,
    pub warnings: Vec<String>,
}

/// Options of the schema.
#[derive(Debug, Clone, Default)]
pub struct SchemaOptions {
    /// Keyspaces to move; all of users if empty.
    pub keyspaces: Vec<String>,
    /// Replication of created keyspaces: the map after `WITH replication =`. `None`: the source's.
    pub replication: Option<String>,
    /// Moves keyspaces without their functions and aggregates.
    pub without_functions: bool,
}

impl Plan {
    /// Compares the schemas of source and target.
    ///
    /// # Errors
    /// If a keyspace does not exist, a table cannot be read, or a table or type that the target has
    /// is another one.
    pub fn make(source: &mut Session<'_>, target: &mut Session<'_>, options: &SchemaOptions) -> Result<Self> {
        let names = match options.keyspaces.as_slice() {
            [] => schema::keyspaces(source)?,
            names => names.to_vec(),
        };
        if names.is_empty() {
            return unsuitable("the source has no keyspace to move");
        }
        let known = known_options(target)?;
        let mut plan =
            Self { keyspaces: Vec::new(), before: Vec::new(), after: Vec::new(), warnings: Vec::new() };
        for name in names {
            let Some(keyspace) = schema::keyspace(source, &name)? else {
                let known = schema::keyspaces(source)?.join(", ");
                return unsuitable(format!("the source has no keyspace {name}; it has: {known}"));
            };
            check_source(&keyspace)?;
            // Before anything is created: the user may lack SELECT, or a table may be unreadable.
            keyspace.tables.iter().try_for_each(|table| is_empty(source, table).map(drop))?;
            let existing = schema::keyspace(target, &name)?;
            plan.add(&keyspace, existing.as_ref(), options)?;
            if !keyspace.masked.is_empty() {
                plan.warnings.push(format!(
                    "keyspace {name} has masked columns ({}): the user at the source needs UNMASK, or the \
                     masked values are moved",
                    keyspace.masked.join(", ")
                ));
            }
            plan.keyspaces.push(keyspace);
        }
        if !known.is_empty() {
            plan.remove_options(&known);
        }
        Ok(plan)
    }

    /// Removes the options of tables that the target does not have.
    fn remove_options(&mut self, known: &BTreeSet<String>) {
        for statement in self.before.iter_mut().chain(&mut self.after) {
            if !statement.starts_with("CREATE TABLE") && !statement.starts_with("CREATE MATERIALIZED VIEW") {
                continue;
            }
            let (kept, removed) = without_unknown(statement, known);
            if !removed.is_empty() {
                let name =
                    kept.split(['(', '\n']).next().unwrap_or_default().trim_start_matches("CREATE ").trim();
                self.warnings.push(format!(
                    "the target does not have these options, which are left out for {name}: {}",
                    removed.join(", ")
                ));
            }
            *statement = kept;
        }
    }

    fn add(
        &mut self,
        keyspace: &Keyspace,
        existing: Option<&Keyspace>,
        options: &SchemaOptions,
    ) -> Result<()> {
        let name = quote_identifier(&keyspace.name);
        let Some(existing) = existing else {
            let replication = options.replication.as_ref().unwrap_or(&keyspace.replication);
            self.before.push(format!(
                "CREATE KEYSPACE {name} WITH replication = {replication} AND durable_writes = {}",
                keyspace.durable_writes
            ));
            for object in &keyspace.objects {
                self.create(&object.kind, &object.statement, options);
            }
            return Ok(());
        };
        for (type_name, fields) in &keyspace.types {
            if let Some((_, found)) = existing.types.iter().find(|(other, _)| other == type_name)
                && found != fields
            {
                return unsuitable(format!(
                    "type {}.{type_name} exists at the target with other fields: drop it, or move into an \
                     empty keyspace",
                    keyspace.name
                ));
            }
        }
        for table in &keyspace.tables {
            if let Some(found) = existing.tables.iter().find(|other| other.name == table.name) {
                compare(table, found)?;
            }
        }
        let exists = |kind: &str, name: &str| {
            existing.objects.iter().any(|other| other.kind == kind && other.name == name)
        };
        for object in keyspace.objects.iter().filter(|object| !exists(&object.kind, &object.name)) {
            self.create(&object.kind, &object.statement, options);
        }
        Ok(())
    }

    /// Indexes and views are created after the copy: they are built from it.
    fn create(&mut self, kind: &str, statement: &str, options: &SchemaOptions) {
        match kind {
            "index" | "materialized_view" => self.after.push(statement.to_owned()),
            "function" | "aggregate" if options.without_functions => {}
            _ => self.before.push(statement.to_owned()),
        }
    }

    /// Returns all tables, with the keyspaces in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.keyspaces.iter().flat_map(|keyspace| &keyspace.tables)
    }
}

/// Returns the names of the options of tables that a server has: they are columns of its schema.
fn known_options(target: &mut Session<'_>) -> Result<BTreeSet<String>> {
    let page = target.query(
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'system_schema' AND table_name = 'tables'",
    )?;
    Ok((0..page.rows.len()).filter_map(|row| page.text(row, 0)).collect())
}

fn check_source(keyspace: &Keyspace) -> Result<()> {
    if keyspace.tables.iter().any(|table| table.name == OF_TRANSACTIONS) {
        return unsuitable(format!(
            "keyspace {} is a store of transactions, whose timestamps a copy by rows does not advance: use \
             `cassette transactions copy`",
            keyspace.name
        ));
    }
    Ok(())
}

fn compare(table: &Table, found: &Table) -> Result<()> {
    let differs = |what: String| {
        unsuitable(format!(
            "table {}.{} exists at the target with {what}: drop or alter it there, or move other keyspaces",
            table.keyspace, table.name
        ))
    };
    for column in &table.columns {
        match found.columns.iter().find(|other| other.name == column.name) {
            None => return differs(format!("no column {}", column.name)),
            Some(other) if other.cql_type != column.cql_type => {
                return differs(format!(
                    "column {} of type {}, expected {}",
                    column.name, other.cql_type, column.cql_type
                ));
            }
            Some(other) if (other.kind, other.position) != (column.kind, column.position) => {
                return differs(format!("column {} in another part of the row", column.name));
            }
            Some(_) => {}
        }
    }
    if found.layout != table.layout {
        let compact = if found.layout.is_compact() { "" } else { "out" };
        return differs(format!("another layout, with{compact} COMPACT STORAGE"));
    }
    let is_key = |column: &&schema::Column| matches!(column.kind, Kind::PartitionKey | Kind::Clustering);
    if found.columns.iter().filter(is_key).count() != table.columns.iter().filter(is_key).count() {
        return differs("another primary key".to_owned());
    }
    Ok(())
}

/// Executes the statements on the target, and waits until its nodes agree. A function that the
/// target refuses is reported as a warning.
pub fn execute(target: &mut Session<'_>, statements: &[String], observer: &dyn Observer) -> Result<()> {
    for statement in statements {
        observer.event(&Event::Schema { statement: statement.clone() });
        match target.query(statement) {
            Err(MoveError::Refused { reason, .. }) if creates_function(statement) => {
                // Tables do not need it. Its language may be unknown there.
                let name = statement.split('(').next().unwrap_or_default().trim_start_matches("CREATE ");
                observer.event(&Event::Warning { text: format!("{name} is not moved: {reason}") });
                continue;
            }
            result => result.map_err(|error| advise(error, statement))?,
        };
        wait_for_agreement(target)?;
    }
    Ok(())
}

fn creates_function(statement: &str) -> bool {
    statement.starts_with("CREATE FUNCTION") || statement.starts_with("CREATE AGGREGATE")
}

fn advise(error: MoveError, statement: &str) -> MoveError {
    let MoveError::Refused { address, statement: text, reason } = error else { return error };
    let advice = if statement.starts_with("CREATE KEYSPACE") {
        "; choose a replication that the target has with --replication, and a user that may create keyspaces"
    } else {
        "; create it by hand, or give the user the permission, and start the same command again"
    };
    MoveError::Refused { address, statement: text, reason: reason + advice }
}

fn wait_for_agreement(target: &mut Session<'_>) -> Result<()> {
    let deadline = Instant::now() + AGREEMENT_MAX;
    loop {
        let local = target.query("SELECT schema_version FROM system.local")?;
        let peers = target.query("SELECT schema_version FROM system.peers")?;
        let version = local.get(0, "schema_version").cloned();
        let agrees = |row: &Vec<Option<bytes::Bytes>>| row.first().cloned().flatten() == version;
        if peers.rows.iter().all(agrees) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return unsuitable(
                "the target's nodes have different schema versions for a minute: wait until `nodetool \
                 describecluster` shows one, and start the same command again",
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Returns whether a table has no row.
pub fn is_empty(session: &mut Session<'_>, table: &Table) -> Result<bool> {
    let key = table.columns(Kind::PartitionKey).map(|column| quote_identifier(&column.name));
    let key: Vec<_> = key.collect();
    let page = session.query(&format!("SELECT {} FROM {} LIMIT 1", key.join(", "), table.quoted()))?;
    Ok(page.rows.is_empty())
}

/// Returns a value for messages: UTF-8 text of printable characters, or hexadecimal digits.
pub fn readable(value: &bytes::Bytes) -> String {
    let printable = text(value).filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
    printable.unwrap_or_else(|| {
        value.iter().fold(String::from("0x"), |mut out, byte| {
            out.push_str(&format!("{byte:02x}"));
            out
        })
    })
}
