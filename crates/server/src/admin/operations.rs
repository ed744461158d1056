//! Executes the operations of the admin endpoint.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_admin_api::{Done, Operation, RefusalKind, Refused, Tables};
use cassette_backup::RestoreOptions;
use cassette_database::{
    AdoptedSchema, AuthCacheKind, Database, DatabaseError, ImportOptions, KeyspaceKind, RestoreNames,
    SnapshotFilter, SnapshotOptions, Timeout,
};
use cassette_engine::{
    CacheKind, CompactionKind, EngineError, OverlappingTombstones, ScrubOptions, import_summary,
};
use cassette_rows::{TableId, TableMetadata};

use super::backups::require_directory;
use super::{Admin, backups, cidr, faults, query_logs, statements};

/// As many threads as any machine could use; each has a stack.
const MOST_COMPACTORS: usize = 1024;

/// Executes an operation on this thread; some take long.
#[expect(clippy::too_many_lines, reason = "one arm for each operation")]
pub(super) fn perform(admin: &Admin, operation: &Operation) -> Result<Done, Refused> {
    let database = &admin.database;
    let engine = database.engine();
    match operation {
        Operation::Flush(tables) => {
            let tables = selected(database, tables, Indexes::All, RefusalKind::Invalid)?;
            each(&tables, "flush", |table| engine.flush(Some(table)))?;
        }
        Operation::Compact { tables, split_output } => compact(database, tables, *split_output)?,
        Operation::CompactRange { tables, start_token, end_token } => {
            compact_range(database, tables, *start_token, *end_token)?;
        }
        Operation::CompactFiles { files } => compact_files(database, files)?,
        Operation::GarbageCollect { tables, cells } => {
            let by = if *cells { OverlappingTombstones::Cell } else { OverlappingTombstones::Row };
            let tables = selected(database, tables, Indexes::None, RefusalKind::Invalid)?;
            each(&tables, "collect the garbage of", |table| engine.garbage_collect(table, by))?;
        }
        Operation::Scrub { tables, snapshot, skip_corrupted, validate, reinsert_overflowed_ttl } => {
            let options = ScrubOptions {
                skip_corrupted: *skip_corrupted,
                validate: *validate,
                reinsert_overflowed_ttl: *reinsert_overflowed_ttl,
            };
            return scrub(database, tables, &options, *snapshot);
        }
        Operation::Verify { tables, extended, .. } => return verify(database, tables, *extended),
        Operation::UpgradeSstables { tables, all } => {
            let tables = selected(database, tables, Indexes::All, RefusalKind::Invalid)?;
            each(&tables, "upgrade", |table| {
                if *all { engine.upgrade_sstables(table) } else { engine.upgrade_other_versions(table) }
            })?;
        }
        Operation::Snapshot { name, of, skip_flush, ttl_seconds } => {
            snapshot(database, name, of, *skip_flush, *ttl_seconds)?;
        }
        Operation::ClearSnapshot { name, keyspaces, before_millis } => {
            let filter = SnapshotFilter { name: name.as_deref(), keyspaces, before_millis: *before_millis };
            database.clear_snapshots(&filter).map_err(of_database)?;
        }
        Operation::Import { keyspace, table, directories, options } => {
            let options = ImportOptions {
                keep_level: options.keep_level,
                keep_repaired: options.keep_repaired,
                verify: options.verify,
                extended_verify: options.extended_verify,
                copy_data: options.copy,
                ..ImportOptions::default()
            };
            return import(database, keyspace, table, directories, &options);
        }
        Operation::Backup { repository, name, keyspaces, link, key_file } => {
            let requested = requested(admin, repository, key_file.as_deref());
            return backups::back_up(database, &requested, name.as_deref(), keyspaces, *link);
        }
        Operation::RestoreBackup { repository, backup, names, truncate, keyspace_as, table_as, key_file } => {
            let options = RestoreOptions {
                names: names.clone(),
                truncate: *truncate,
                rename: RestoreNames { keyspace: keyspace_as.clone(), table: table_as.clone() },
                ..RestoreOptions::default()
            };
            let requested = requested(admin, repository, key_file.as_deref());
            return backups::restore(database, &requested, backup.as_deref(), &options);
        }
        Operation::ArchiveCommitLog => return backups::archive(database, admin.backups.get()),
        Operation::Refresh { keyspace, table } => return refresh(database, keyspace, table),
        Operation::AdoptTable { id } => return adopt_table(database, id),
        Operation::RemoveUnknownTable { name } => {
            database.remove_unknown_table(name).map_err(of_database)?;
            return Ok(Done { messages: vec![format!("{name}: removed")] });
        }
        Operation::SetCompactionThroughput { mebibytes } => set_compaction_throughput(database, *mebibytes)?,
        Operation::SetConcurrentCompactors { count } => set_concurrent_compactors(database, *count)?,
        Operation::CancelStatement { id } => return statements::cancel(admin, *id),
        Operation::SetLoggingLevel { target, level } => {
            admin.logging.set(target, level).map_err(Refused::wrong_use)?;
        }
        Operation::SetGuardrail { name, arguments } => {
            database.guardrails().set_by_name(name, arguments).map_err(Refused::wrong_use)?;
            tracing::info!("guardrail {name} changed to {}", arguments.join(" "));
        }
        Operation::SetTimeout { name, milliseconds } => set_timeout(database, name, *milliseconds)?,
        Operation::SetTraceProbability { probability } => {
            if !(0.0..=1.0).contains(probability) {
                return Err(Refused::wrong_use("Trace probability must be between 0 and 1"));
            }
            database.set_trace_probability(*probability);
        }
        Operation::InvalidateCache { cache } => match cache.as_str() {
            "key" => engine.invalidate_key_cache(),
            "row" => engine.invalidate_row_cache(),
            "counter" => engine.invalidate_counter_cache(),
            other => return Err(Refused::wrong_use(format!("{other} is none of key, row, counter"))),
        },
        Operation::InvalidateAuthCache { cache, roles } => invalidate_auth_cache(database, cache, roles)?,
        Operation::UpdateCidrGroup { group, cidrs } => {
            database.update_cidr_group(group, cidrs).map_err(of_database)?;
            tracing::info!("CIDR group {group} changed to {}", cidrs.join(" "));
        }
        Operation::DropCidrGroup { group } => {
            database.drop_cidr_group(group).map_err(of_database)?;
            tracing::info!("CIDR group {group} dropped");
        }
        Operation::ReloadCidrGroups => database.reload_cidr_groups().map_err(of_database)?,
        Operation::InvalidateCidrPermissionsCache { roles } => return cidr::invalidate(admin, roles),
        Operation::ReloadCertificates => reload_certificates(admin)?,
        Operation::SetCacheCapacity { key_mebibytes, row_mebibytes, counter_mebibytes } => {
            let bytes = |mebibytes: &u64| mebibytes.saturating_mul(1 << 20);
            engine
                .set_cache_capacity(bytes(key_mebibytes), bytes(row_mebibytes), bytes(counter_mebibytes))
                .map_err(|error| Refused::wrong_use(error.to_string()))?;
        }
        Operation::SetCacheKeysToSave { key, row, counter } => {
            for (cache, keys) in CacheKind::ALL.into_iter().zip([*key, *row, *counter]) {
                engine.set_cache_keys_to_save(cache, if keys == 0 { usize::MAX } else { keys });
            }
        }
        Operation::ClearConnectionHistory => admin.server.forget_seen_clients(),
        Operation::Drain => drain(admin)?,
        Operation::EnableAuditLog(changes) => query_logs::enable_audit(admin, changes)?,
        Operation::DisableAuditLog => query_logs::of(admin)?.disable_audit(),
        Operation::EnableFullQueryLog { path, files } => {
            query_logs::enable_full_query(admin, path.as_deref(), files)?;
        }
        Operation::DisableFullQueryLog => query_logs::of(admin)?.disable_full_query(),
        Operation::ResetFullQueryLog => query_logs::of(admin)?
            .reset_full_query()
            .map_err(|error| Refused::failed(format!("cannot remove the full query log: {error}")))?,
        Operation::PutFault(rule) => faults::put(admin, rule)?,
        Operation::RemoveFault { id } => faults::remove(admin, id)?,
        Operation::ClearFaults => faults::clear(admin)?,
        Operation::EnableAutoCompaction(tables) => set_autocompaction(database, tables, true)?,
        Operation::DisableAutoCompaction(tables) => set_autocompaction(database, tables, false)?,
        Operation::StopCompactions { id: Some(id), .. } => stop_compaction(database, id)?,
        Operation::StopCompactions { kind, .. } => stop_compactions(database, kind.as_deref())?,
    }
    Ok(Done::default())
}

fn invalidate_auth_cache(database: &Database, cache: &str, roles: &[String]) -> Result<(), Refused> {
    let Some(kind) = AuthCacheKind::named(cache) else {
        let known = AuthCacheKind::ALL.map(AuthCacheKind::name).join(", ");
        return Err(Refused::wrong_use(format!("{cache} is none of {known}")));
    };
    if roles.is_empty() {
        database.invalidate_auth_cache(kind, None);
    }
    for role in roles {
        database.invalidate_auth_cache(kind, Some(role));
    }
    Ok(())
}

/// As in Cassandra, does nothing if no connections are encrypted.
fn reload_certificates(admin: &Admin) -> Result<(), Refused> {
    let Some(tls) = admin.tls.get() else { return Ok(()) };
    let reloaded = tls.reload_if_changed();
    if reloaded.map_err(|error| Refused::failed(error.to_string()))? {
        tracing::info!("certificates were replaced; new connections use them");
    }
    Ok(())
}

/// Applies `operation`, whose name is `what` in errors, to each table.
fn each<T>(
    tables: &[Selected],
    what: &str,
    operation: impl Fn(TableId) -> Result<T, EngineError>,
) -> Result<(), Refused> {
    for table in tables {
        operation(table.id).map_err(|error| failed(what, table, &error))?;
    }
    Ok(())
}

/// As in Cassandra: a major compaction of the data on disk, after a flush.
fn compact(database: &Database, tables: &Tables, split_output: bool) -> Result<(), Refused> {
    let engine = database.engine();
    let tables = selected(database, tables, Indexes::Named, RefusalKind::Invalid)?;
    each(&tables, "compact", |table| {
        engine.flush(Some(table))?;
        if split_output { engine.compact_split(table) } else { engine.compact(table) }
    })
}

/// Compacts the SSTables with tokens in a range.
fn compact_range(database: &Database, tables: &Tables, start: i64, end: i64) -> Result<(), Refused> {
    if start == end {
        return Err(Refused::invalid("Start and end tokens must be different."));
    }
    let engine = database.engine();
    let tables = selected(database, tables, Indexes::Named, RefusalKind::Invalid)?;
    each(&tables, "compact", |table| {
        let sstables = engine.sstables(table)?;
        let in_range = sstables.iter().filter(|sstable| shares_tokens(sstable.tokens, start, end));
        let in_range: Vec<_> = in_range.map(|sstable| sstable.id).collect();
        if in_range.is_empty() { Ok(()) } else { engine.compact_sstables(table, &in_range) }
    })
}

/// Returns the repository of backups that an operation names.
fn requested<'a>(admin: &'a Admin, repository: &'a str, key_file: Option<&'a str>) -> backups::Requested<'a> {
    backups::Requested { repository, key_file, service: admin.backups.get() }
}

fn snapshot(
    database: &Database,
    name: &str,
    of: &[String],
    skip_flush: bool,
    ttl_seconds: Option<u64>,
) -> Result<(), Refused> {
    let ttl_seconds = ttl_seconds.map(u32::try_from).transpose();
    let ttl_seconds = ttl_seconds.map_err(|_| Refused::wrong_use("the ttl is too long"))?;
    let options = SnapshotOptions { name, skip_flush, ttl_seconds };
    options.check_ttl().map_err(|error| Refused::wrong_use(error.to_string()))?;
    database.named_tables(of).map_err(|error| Refused::wrong_use(error.to_string()))?;
    database.snapshot(of, &options).map_err(of_database)?;
    Ok(())
}

/// Imports the SSTables of directories, one after the other; returns a message for each.
fn import(
    database: &Database,
    keyspace: &str,
    table: &str,
    directories: &[String],
    options: &ImportOptions,
) -> Result<Done, Refused> {
    check_stored(database, keyspace, table)?;
    require_directory(database)?;
    let mut messages = Vec::new();
    for directory in directories {
        if !Path::new(directory).is_dir() {
            return Err(Refused::invalid(format!("Directory {directory} does not exist")));
        }
        let imported = database.import(keyspace, table, Path::new(directory), options);
        let summary = import_summary(&imported.map_err(of_database)?);
        messages.push(format!("{directory}: {summary}"));
    }
    Ok(Done { messages })
}

fn refresh(database: &Database, keyspace: &str, table: &str) -> Result<Done, Refused> {
    let named = database.named_tables(&[format!("{keyspace}.{table}")]);
    named.map_err(|error| Refused::wrong_use(error.to_string()))?;
    require_directory(database)?;
    let found = database.refresh(keyspace, table).map_err(of_database)?;
    Ok(Done { messages: vec![format!("{keyspace}.{table}: {}", import_summary(&found))] })
}

fn adopt_table(database: &Database, id: &str) -> Result<Done, Refused> {
    let id = id.parse().map_err(|_| Refused::wrong_use(format!("Invalid UUID string: {id}")))?;
    let (name, schema) = database.adopt_table(id).map_err(of_database)?;
    let from = match schema {
        AdoptedSchema::Snapshot => "the schema of its newest snapshot",
        AdoptedSchema::Headers => "its SSTables' headers; rename its key columns with ALTER TABLE ... RENAME",
    };
    Ok(Done { messages: vec![format!("{name}: adopted with {from}")] })
}

fn set_compaction_throughput(database: &Database, mebibytes: f64) -> Result<(), Refused> {
    let bytes = mebibytes * f64::from(1 << 20);
    if !(0.0..=9e15).contains(&bytes) {
        return Err(Refused::wrong_use(format!("{mebibytes} MiB/s is no throughput")));
    }
    database.engine().set_compaction_throughput(bytes as u64);
    Ok(())
}

fn set_concurrent_compactors(database: &Database, count: usize) -> Result<(), Refused> {
    if !(1..=MOST_COMPACTORS).contains(&count) {
        return Err(Refused::wrong_use(format!(
            "{count} concurrent compactors cannot be: 1 to {MOST_COMPACTORS} can"
        )));
    }
    database.engine().set_concurrent_compactors(count).map_err(|error| Refused::failed(error.to_string()))
}

fn set_timeout(database: &Database, name: &str, milliseconds: u64) -> Result<(), Refused> {
    let Some(timeout) = Timeout::named(name) else {
        return Err(Refused::wrong_use(format!("{name} is no type of timeout")));
    };
    database.timeouts().set(timeout, Some(Duration::from_millis(milliseconds)));
    tracing::info!("{} changed to {milliseconds} ms", timeout.key());
    Ok(())
}

fn set_autocompaction(database: &Database, tables: &Tables, on: bool) -> Result<(), Refused> {
    let engine = database.engine();
    let tables = selected(database, tables, Indexes::All, RefusalKind::WrongUse)?;
    each(&tables, "set autocompaction of", |table| engine.set_autocompaction(table, on))
}

fn stop_compaction(database: &Database, id: &str) -> Result<(), Refused> {
    let id = id.parse().map_err(|_| Refused::wrong_use(format!("Invalid UUID string: {id}")))?;
    if database.engine().stop_compaction(id) {
        Ok(())
    } else {
        Err(Refused::invalid(format!("no compaction {id} is running")))
    }
}

/// Stops the compactions of one kind, or all.
fn stop_compactions(database: &Database, kind: Option<&str>) -> Result<(), Refused> {
    let known = |name: &str| {
        CompactionKind::from_name(name).ok_or_else(|| {
            Refused::wrong_use(format!("compaction_type: can not convert \"{name}\" to a OperationType"))
        })
    };
    database.engine().stop_compactions(kind.map(known).transpose()?);
    Ok(())
}

/// Ends all connections, and writes everything that is in memory.
fn drain(admin: &Admin) -> Result<(), Refused> {
    (admin.drain)();
    admin.drained.store(true, Ordering::Relaxed);
    let engine = admin.database.engine();
    engine
        .flush(None)
        .and_then(|()| engine.sync_log())
        .map_err(|error| Refused::failed(format!("cannot drain: {error}")))?;
    engine.save_caches();
    Ok(())
}

/// Checks that a table exists whose files can be imported.
fn check_stored(database: &Database, keyspace: &str, table: &str) -> Result<(), Refused> {
    let is_meant = |known: &TableMetadata| known.keyspace == keyspace && known.name == table;
    if database.engine().tables().iter().any(|(_, known)| is_meant(known)) {
        Ok(())
    } else {
        Err(Refused::no_table(keyspace, table))
    }
}

/// Returns whether tokens `first..=last` overlap the range from `start` to `end`, both inclusive;
/// the range wraps around the ring if its start exceeds its end.
fn shares_tokens((first, last): (i64, i64), start: i64, end: i64) -> bool {
    if start < end { first <= end && last >= start } else { last >= start || first <= end }
}

/// Compacts SSTables that are named by the paths of their Data files, grouped by table.
fn compact_files(database: &Database, files: &[String]) -> Result<(), Refused> {
    let engine = database.engine();
    let mut of_tables = BTreeMap::new();
    for file in files {
        let Some((table, sstable)) = engine.sstable_at(Path::new(file)) else {
            return Err(Refused::invalid(format!(
                "Invalid sstable file {file}: the Data file of no table's SSTable"
            )));
        };
        of_tables.entry(table).or_insert_with(Vec::new).push(sstable);
    }
    for (table, sstables) in of_tables {
        engine
            .compact_sstables(table, &sstables)
            .map_err(|error| Refused::failed(format!("cannot compact: {error}")))?;
    }
    Ok(())
}

/// Verifies tables: returns the SSTables read, and fails with the damage found.
fn verify(database: &Database, tables: &Tables, extended: bool) -> Result<Done, Refused> {
    let mut messages = Vec::new();
    let mut wrong = Vec::new();
    for table in selected(database, tables, Indexes::None, RefusalKind::Invalid)? {
        let verified = database.engine().verify(table.id, extended);
        for sstable in verified.map_err(|error| failed("verify", &table, &error))? {
            match sstable.result {
                Ok(_) => messages.push(format!(
                    "{} ({} bytes) is as it was written",
                    sstable.path.display(),
                    sstable.bytes
                )),
                Err(error) => wrong.push(error.to_string()),
            }
        }
    }
    if wrong.is_empty() { Ok(Done { messages }) } else { Err(Refused::failed(wrong.join("\n"))) }
}

/// Scrubs tables: returns the results, and fails with the tables that could not be scrubbed.
fn scrub(
    database: &Database,
    tables: &Tables,
    options: &ScrubOptions,
    snapshot: bool,
) -> Result<Done, Refused> {
    let mut messages = Vec::new();
    let mut wrong = Vec::new();
    for table in selected(database, tables, Indexes::None, RefusalKind::WrongUse)? {
        let Some(stored) = database.catalog().table_by_id(table.id).cloned() else { continue };
        for sstable in
            database.scrub(&stored.keyspace, &stored.name, options, snapshot).map_err(of_database)?
        {
            match &sstable.result {
                Ok(_) => messages.extend(sstable.messages()),
                Err(error) => wrong.push(format!("cannot scrub {}: {error}", sstable.path.display())),
            }
        }
    }
    if wrong.is_empty() { Ok(Done { messages }) } else { Err(Refused::failed(wrong.join("\n"))) }
}

/// A table selected for an operation.
struct Selected {
    id: TableId,
    name: String,
}

/// The hidden index tables that an operation includes; for each operation as in Cassandra. They are
/// named `table.index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexes {
    /// None: the operation concerns the data, from which indexes are built.
    None,
    /// Those that are named.
    Named,
    /// Those, and the ones of all selected tables.
    All,
}

/// Returns the selected tables. `unknown` is the kind of the error for a name that no table of the
/// keyspace has: Cassandra's commands differ in it.
fn selected(
    database: &Database,
    tables: &Tables,
    indexes: Indexes,
    unknown: RefusalKind,
) -> Result<Vec<Selected>, Refused> {
    let catalog = database.catalog();
    let stored = database.engine().tables();
    if let Some(keyspace) = &tables.keyspace {
        if catalog.keyspace(keyspace).is_none_or(|found| found.kind == KeyspaceKind::Virtual) {
            return Err(Refused::wrong_use(format!("Keyspace [{keyspace}] does not exist.")));
        }
        for name in &tables.tables {
            let mut in_keyspace = stored.iter().filter(|(_, table)| table.keyspace == *keyspace);
            match in_keyspace.find(|(_, table)| table.name == *name) {
                Some((_, table)) if indexes == Indexes::None && table.index_of.is_some() => {
                    return Err(Refused::invalid(format!(
                        "Operation not allowed on secondary Index table ({name})"
                    )));
                }
                None if catalog.table(keyspace, name).is_none() => {
                    let error = format!("Unknown keyspace/cf pair ({keyspace}.{name})");
                    return Err(Refused { error, kind: unknown });
                }
                _ => {}
            }
        }
    }
    let is_meant = |table: &TableMetadata| {
        let is_named = |name: &str| tables.tables.iter().any(|wanted| wanted == name);
        tables.keyspace.as_ref().is_none_or(|wanted| *wanted == table.keyspace)
            && match table.name.split_once('.') {
                Some((base, _)) if table.index_of.is_some() => {
                    is_named(&table.name)
                        || indexes == Indexes::All && (tables.tables.is_empty() || is_named(base))
                }
                _ => tables.tables.is_empty() || is_named(&table.name),
            }
    };
    Ok(stored
        .into_iter()
        .filter(|(_, table)| is_meant(table))
        .map(|(id, table)| Selected { id, name: table.qualified_name() })
        .collect())
}

fn failed(what: &str, table: &Selected, error: &EngineError) -> Refused {
    Refused::failed(format!("cannot {what} {}: {error}", table.name))
}

pub(super) fn of_database(error: DatabaseError) -> Refused {
    let kind = match error {
        DatabaseError::Invalid(_) | DatabaseError::Refused(_) => RefusalKind::Invalid,
        _ => RefusalKind::Failed,
    };
    Refused { error: error.to_string(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_the_hidden_tables_of_indexes_that_cassandras_takes() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path()).unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "CREATE TABLE ks.u (k int PRIMARY KEY, v int)",
            "CREATE INDEX i ON ks.t (v)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        for (named, indexes, expected) in [
            (&[][..], Indexes::None, Some(&["ks.t", "ks.u"][..])),
            (&[], Indexes::Named, Some(&["ks.t", "ks.u"])),
            (&[], Indexes::All, Some(&["ks.\"t.i\"", "ks.t", "ks.u"])),
            (&["t"], Indexes::None, Some(&["ks.t"])),
            (&["t"], Indexes::Named, Some(&["ks.t"])),
            (&["t"], Indexes::All, Some(&["ks.\"t.i\"", "ks.t"])),
            (&["t.i"], Indexes::None, None),
            (&["t.i"], Indexes::Named, Some(&["ks.\"t.i\""])),
            (&["t.j"], Indexes::All, None),
        ] {
            let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
            let tables = Tables { keyspace: Some("ks".to_owned()), tables: named };
            let found = selected(&database, &tables, indexes, RefusalKind::Invalid).ok().map(|found| {
                let mut names: Vec<String> = found.into_iter().map(|table| table.name).collect();
                names.sort();
                names
            });
            assert_eq!(
                found.as_deref(),
                expected.map(|e| e.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).as_deref(),
                "{tables:?} {indexes:?}"
            );
        }
    }

    #[test]
    fn a_range_of_tokens_may_go_round_the_ring() {
        for (sstable, start, end, expected) in [
            ((0, 10), 10, 20, true),
            ((0, 10), -20, 0, true),
            ((0, 10), 11, 20, false),
            ((0, 10), 20, -20, false),
            ((0, 10), 20, 0, true),
            ((0, 10), 5, -20, true),
            ((i64::MIN, i64::MAX), 1, 2, true),
        ] {
            assert_eq!(shares_tokens(sstable, start, end), expected, "{sstable:?} {start} {end}");
        }
    }
}
