//! Writes to CQL tables of an embedded database, which a transaction commits together with its own.

use cassette_database::embedded::BindValues;
use cassette_database::{DeferError, Query, StatementOptions};

use super::Transaction;
use crate::error::{Error, Result};
use crate::store::{Store, is_table_of_versions};

impl Transaction {
    /// Buffers an INSERT, an UPDATE, a DELETE or a batch of them, text or prepared, on ordinary
    /// tables of the store's database until the commit. Plans the statement and validates its
    /// values now; the commit applies it atomically and durably with the commit record, or not at
    /// all.
    ///
    /// Names in texts have a keyspace. Statements take effect in their order, with write times that
    /// are taken at the commit, as are the values of `now()` and the beginning of a TTL. A rollback
    /// to a savepoint undoes them.
    ///
    /// CQL rows have no versions: a transaction neither reads them in its snapshot nor detects
    /// conflicts about them. Programs whose statements depend on each other also write a cell of a
    /// transactional table, or read it for update.
    ///
    /// ```
    /// # use cassette_database::Database;
    /// # use cassette_transactions::{ConflictHandler, Transactions};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = Database::in_memory()?;
    /// let session = database.session();
    /// # session.execute(
    /// #     "CREATE KEYSPACE app \
    /// #      WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    /// #     (),
    /// # )?;
    /// session.execute("CREATE TABLE app.outbox (queue text, id int, mail text, PRIMARY KEY (queue, id))", ())?;
    /// let transactions = Transactions::embedded(database, "shop")?;
    /// let stock = transactions.table("stock", ConflictHandler::WriteWriteByCell)?.column::<String, u32>("pieces");
    /// let announce = session.prepare("INSERT INTO app.outbox (queue, id, mail) VALUES ('mail', ?, ?)")?;
    /// transactions.run(|tx| {
    ///     let pieces = stock.add(tx, "chair", 4)?;
    ///     tx.execute(&announce, (1, format!("{pieces} chairs have arrived")))
    /// })?;
    /// assert_eq!(session.query_one::<(String,)>("SELECT mail FROM app.outbox", ())?.0, "4 chairs have arrived");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoCqlTables` on stores that are not embedded; `CqlRefused` for SELECT, conditional
    /// statements, counters, schema changes, TRUNCATE, USING TIMESTAMP, keyspaces without
    /// `durable_writes` and the tables of transactions; `Cql` for the error that executing the
    /// statement would have; `CqlTooLarge`; `ReadOnly`. Nothing is buffered then. The commit fails
    /// with `CqlNotApplied` if the statements exceed a limit with their index entries and view
    /// rows, or are refused in another way.
    pub fn execute<'q>(&mut self, query: impl Into<Query<'q>>, values: impl BindValues) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly { start: self.start });
        }
        let inner = self.inner.clone();
        let (Some(database), Some(session)) = (inner.store.database(), inner.session()) else {
            return Err(Error::NoCqlTables);
        };
        let bound = session.bind(query, values, &StatementOptions::default()).map_err(Error::Cql)?;
        let deferred = database.defer(bound, |table| !is_table_of_versions(table));
        let deferred = deferred.map_err(|error| match error {
            DeferError::Failed(error) => Error::Cql(error),
            DeferError::Refused(what) => Error::CqlRefused { what: what.to_string() },
            DeferError::Table(table) => {
                Error::CqlRefused { what: format!("a write to {table}, a table of transactions,") }
            }
        })?;
        let bytes = self.writes.cql_bytes() + deferred.bytes();
        let max = inner.version_max.unwrap_or(usize::MAX);
        if bytes > max {
            return Err(Error::CqlTooLarge { bytes, max });
        }
        self.writes.execute(deferred);
        Ok(())
    }
}
