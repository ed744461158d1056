//! What the admin endpoint does when it is told to.

use std::sync::atomic::Ordering;

use cassette_database::{Database, engine::EngineError};
use cassette_rows::TableId;

use super::Admin;
use super::model::{Done, Operation, Refused, Tables};

/// Does what is asked, in this thread: some of it takes long.
pub(super) fn perform(admin: &Admin, operation: &Operation) -> Result<Done, Refused> {
    let database = &admin.database;
    let engine = database.engine();
    match operation {
        Operation::Flush(tables) => {
            for table in selected(database, tables)? {
                engine.flush(Some(table.id)).map_err(|error| failed("flush", &table, &error))?;
            }
        }
        Operation::Compact { tables, split_output: false } => {
            for table in selected(database, tables)? {
                // What Cassandra does too: a major compaction of what is on disk, after what is in memory got there.
                let done = engine.flush(Some(table.id)).and_then(|()| engine.compact(table.id));
                done.map_err(|error| failed("compact", &table, &error))?;
            }
        }
        Operation::Compact { split_output: true, .. } => return Err(not_yet("compact --split-output")),
        Operation::CompactFiles { .. } => return Err(not_yet("compact --user-defined")),
        Operation::GarbageCollect { .. } => return Err(not_yet("garbagecollect")),
        Operation::Scrub { .. } => return Err(not_yet("scrub")),
        Operation::Verify { .. } => return Err(not_yet("verify")),
        Operation::UpgradeSstables { .. } => return Err(not_yet("upgradesstables")),
        Operation::Snapshot { .. } => return Err(not_yet("snapshot")),
        Operation::ClearSnapshot { .. } => return Err(not_yet("clearsnapshot")),
        Operation::Import { .. } => return Err(not_yet("import")),
        Operation::Refresh { .. } => return Err(not_yet("refresh")),
        Operation::SetCompactionThroughput { .. } => return Err(not_yet("setcompactionthroughput")),
        Operation::SetConcurrentCompactors { .. } => return Err(not_yet("setconcurrentcompactors")),
        Operation::SetLoggingLevel { target, level } => {
            admin.logging.set(target, level).map_err(usage)?;
        }
        // Nothing is ever traced, so that this much can be promised.
        Operation::SetTraceProbability { probability } if *probability == 0.0 => {}
        Operation::SetTraceProbability { .. } => return Err(not_yet("tracing of requests")),
        Operation::InvalidateCache { cache } => {
            return Err(not_yet(&format!("a {cache} cache")));
        }
        Operation::Drain => {
            (admin.drain)();
            admin.drained.store(true, Ordering::Relaxed);
            engine
                .flush(None)
                .and_then(|()| engine.sync_log())
                .map_err(|error| Refused { error: format!("cannot drain: {error}"), is_usage: false })?;
        }
        Operation::EnableAutoCompaction(_) => return Err(not_yet("enableautocompaction")),
        Operation::DisableAutoCompaction(_) => return Err(not_yet("disableautocompaction")),
        Operation::StopCompactions { .. } => return Err(not_yet("stop")),
    }
    Ok(Done::default())
}

/// A table that something is done to.
struct Selected {
    id: TableId,
    name: String,
}

/// The stored tables that are meant.
fn selected(database: &Database, tables: &Tables) -> Result<Vec<Selected>, Refused> {
    let catalog = database.catalog();
    if let Some(keyspace) = &tables.keyspace
        && catalog.keyspace(keyspace).is_none()
    {
        return Err(usage(format!("Keyspace [{keyspace}] does not exist.")));
    }
    if let Some(keyspace) = &tables.keyspace {
        for table in &tables.tables {
            if catalog.table(keyspace, table).is_none() {
                return Err(usage(format!("Unknown keyspace/cf pair ({keyspace}.{table})")));
            }
        }
    }
    let is_meant = |keyspace: &str, table: &str| {
        tables.keyspace.as_ref().is_none_or(|wanted| wanted == keyspace)
            && (tables.tables.is_empty() || tables.tables.iter().any(|wanted| wanted == table))
    };
    let stored = database.engine().tables().into_iter();
    Ok(stored
        .filter(|(_, table)| is_meant(&table.keyspace, &table.name))
        .map(|(id, table)| Selected { id, name: table.qualified_name() })
        .collect())
}

fn failed(what: &str, table: &Selected, error: &EngineError) -> Refused {
    Refused { error: format!("cannot {what} {}: {error}", table.name), is_usage: false }
}

fn usage(error: impl Into<String>) -> Refused {
    Refused { error: error.into(), is_usage: true }
}

fn not_yet(what: &str) -> Refused {
    Refused { error: format!("Cassette does not have {what} yet"), is_usage: false }
}
