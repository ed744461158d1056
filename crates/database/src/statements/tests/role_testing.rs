//! Statements of tests, executed by the program or by a role of a server.

use crate::api::database::Database;
use crate::api::embedded::Rows;
use crate::basics::request::{Caller, StatementOptions, Values};

/// The options of a statement by `role`; by the program if that is empty.
pub fn options(role: &str) -> StatementOptions {
    let caller = if role.is_empty() { Caller::Program } else { Caller::Role(role.into()) };
    StatementOptions { caller, ..StatementOptions::default() }
}

/// Executes statements as the program.
pub fn run(database: &Database, statements: &[&str]) {
    for cql in statements {
        database.session().execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    }
}

/// Returns the error of a statement.
pub fn error(database: &Database, role: &str, cql: &str) -> String {
    let executed = database.query(None, cql, Values::NONE, &options(role), &mut Rows::default());
    executed.map(|_| ()).expect_err(cql).to_string()
}

/// The rows of a statement as text, one line each.
pub fn lines(database: &Database, role: &str, cql: &str) -> Vec<String> {
    let rows = database.session().execute_with(cql, (), &options(role));
    let rows = rows.unwrap_or_else(|error| panic!("{cql}: {error}"));
    rows.iter()
        .map(|row| {
            let columns = row.columns().iter().enumerate();
            columns.map(|(i, column)| column.literal(row.bytes(i))).collect::<Vec<_>>().join(" ")
        })
        .collect()
}
