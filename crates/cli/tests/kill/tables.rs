//! Tables that are created, altered and dropped while the server is killed: each has one owner,
//! which records the acknowledged changes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scylla::client::caching_session::CachingSession;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;

use super::support::cql::{execute, rows};
use super::writer::Load;

/// The expected state of a table: its existence, its columns beside the key, and its one row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// How many columns were added: `c0`, `c1`, …; columns are added in order and dropped from the
    /// end.
    columns: usize,
    /// The row's values, by column, for those that were ever written.
    values: Vec<Option<i32>>,
}

/// Owns one table name, and executes one change after the other.
#[derive(Debug)]
pub struct Owner {
    name: String,
    rng: StdRng,
    table: Option<State>,
    /// The state after the request without an answer, if it was applied.
    pending: Option<Option<State>>,
    number: i32,
}

const COLUMNS_MAX: usize = 6;

impl Owner {
    pub fn new(id: usize, seed: u64) -> Self {
        let (name, rng) = (format!("owned{id}"), StdRng::seed_from_u64(seed));
        Self { name, rng, table: None, pending: None, number: 0 }
    }

    /// Changes its table until a request fails, which is permitted only after the stop has been
    /// announced.
    pub async fn change_until_stopped(&mut self, session: &CachingSession, load: &Load) {
        loop {
            match self.step(session).await {
                Ok(()) => {}
                Err(_) if load.is_stopping() => return,
                Err(error) => panic!("{}: {:?} to {:?}: {error:?}", self.name, self.table, self.pending),
            }
        }
    }

    async fn step(&mut self, session: &CachingSession) -> Result<(), ExecutionError> {
        let name = &self.name;
        let (cql, after) = match &self.table {
            None => (
                format!("CREATE TABLE {name} (k int PRIMARY KEY, c0 int)"),
                Some(State { columns: 1, values: vec![None; COLUMNS_MAX] }),
            ),
            Some(table) => match self.rng.random_range(0..10) {
                0 => (format!("DROP TABLE {name}"), None),
                1 => (
                    format!("TRUNCATE {name}"),
                    Some(State { values: vec![None; COLUMNS_MAX], ..table.clone() }),
                ),
                2 | 3 if table.columns < COLUMNS_MAX => {
                    let mut after = table.clone();
                    after.columns += 1;
                    (format!("ALTER TABLE {name} ADD c{} int", table.columns), Some(after))
                }
                4 if table.columns > 1 => {
                    let mut after = table.clone();
                    after.columns -= 1;
                    // Its data is lost permanently, also if the column is added again.
                    after.values[after.columns] = None;
                    (format!("ALTER TABLE {name} DROP c{}", after.columns), Some(after))
                }
                _ => {
                    self.number += 1;
                    let column = self.rng.random_range(0..table.columns);
                    let mut after = table.clone();
                    after.values[column] = Some(self.number);
                    (format!("UPDATE {name} SET c{column} = {} WHERE k = 0", self.number), Some(after))
                }
            },
        };
        self.pending = Some(after.clone());
        // Not prepared: each text is sent once.
        session.get_session().query_unpaged(cql, ()).await?;
        self.table = after;
        self.pending = None;
        Ok(())
    }

    /// Checks schema and row of the table: they are as acknowledged, or as after the request
    /// without an answer.
    pub async fn check(&mut self, session: &Session) {
        let found = self.find(session).await;
        let pending = self.pending.take();
        if found == self.table {
            return;
        }
        match pending {
            Some(pending) if found == pending => self.table = found,
            pending => {
                panic!("{}: acknowledged {:?}, pending {pending:?}, found {found:?}", self.name, self.table)
            }
        }
    }

    async fn find(&self, session: &Session) -> Option<State> {
        let name = &self.name;
        let columns =
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks' AND table_name = ?";
        let names: Vec<(String,)> = rows(session, columns, (name,)).await;
        if names.is_empty() {
            // Then unknown table, and its name is unused.
            assert!(
                rows::<(String,)>(
                    session,
                    "SELECT table_name FROM system_schema.tables WHERE \
                keyspace_name = 'ks' AND table_name = ?",
                    (name,)
                )
                .await
                .is_empty()
            );
            execute(session, &format!("CREATE TABLE {name} (k int PRIMARY KEY)")).await;
            let left: Vec<(i32,)> = rows(session, &format!("SELECT k FROM {name}"), ()).await;
            assert!(left.is_empty(), "{name}: a new table is not empty");
            execute(session, &format!("DROP TABLE {name}")).await;
            return None;
        }
        let columns = names.len() - 1;
        let mut values = vec![None; COLUMNS_MAX];
        for (column, value) in values.iter_mut().enumerate().take(columns) {
            let cql = format!("SELECT c{column} FROM {name} WHERE k = 0");
            *value = rows::<(Option<i32>,)>(session, &cql, ()).await.first().and_then(|(value,)| *value);
        }
        Some(State { columns, values })
    }
}
