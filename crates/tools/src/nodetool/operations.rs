//! Commands that change something: the operations that they request, and their output.

use cassette_admin_api::{ImportChoices, Operation, Tables, TimeoutReport};

use super::commands::Command;
use super::{Failure, Format, Output, Result, backups, cidr, permissions_cache, query_logs, timeouts};

impl Command<'_> {
    /// Executes an operation on the node.
    pub(super) fn operate(&self) -> Result<Output> {
        let (before, operation) = self.operation()?;
        let done = match self.client.operate(&operation) {
            Ok(done) => done,
            Err(failure) => {
                if self.format == Format::Text {
                    print!("{before}");
                }
                return Err(failure);
            }
        };
        let after = match &operation {
            Operation::DropCidrGroup { group } => format!("Deleted CIDR group {group}\n"),
            Operation::ReloadCidrGroups => "Reloaded CIDR groups cache\n".to_owned(),
            Operation::Snapshot { name, .. } => format!("Snapshot directory: {name}\n"),
            // Cassandra's nodetool prints nothing here. These results are a line for each file.
            Operation::Import { .. }
            | Operation::Backup { .. }
            | Operation::RestoreBackup { .. }
            | Operation::ArchiveCommitLog
            | Operation::Refresh { .. }
            | Operation::InvalidateCidrPermissionsCache { .. }
            | Operation::AdoptTable { .. }
            | Operation::RemoveUnknownTable { .. } => {
                done.messages.iter().map(|message| format!("{message}\n")).collect()
            }
            _ => String::new(),
        };
        // The results are printed only as data: Cassandra's nodetool prints nothing on success.
        self.show_as(&done, || before + &after)
    }

    /// Returns the text to print before, and the operation.
    #[expect(clippy::too_many_lines, reason = "a flat table of the commands that change something")]
    fn operation(&self) -> Result<(String, Operation)> {
        let invocation = self.invocation;
        let silently = |operation| Ok((String::new(), operation));
        match invocation.command {
            "flush" => silently(Operation::Flush(self.tables())),
            "drain" => silently(Operation::Drain),
            "enableauditlog" => silently(query_logs::enable_audit(invocation)?),
            "disableauditlog" => silently(Operation::DisableAuditLog),
            "enablefullquerylog" => silently(query_logs::enable_full_query(invocation)?),
            "disablefullquerylog" => silently(Operation::DisableFullQueryLog),
            "resetfullquerylog" => silently(Operation::ResetFullQueryLog),
            "compact" => silently(self.compact()?),
            "garbagecollect" => silently(self.garbage_collect()?),
            "scrub" => silently(Operation::Scrub {
                tables: self.tables(),
                snapshot: !invocation.has("--no-snapshot"),
                skip_corrupted: invocation.has("--skip-corrupted"),
                validate: !invocation.has("--no-validate"),
                reinsert_overflowed_ttl: invocation.has("--reinsert-overflowed-ttl"),
            }),
            "verify" if !invocation.has("--force") => Err(Failure::Said(
                "verify is disabled unless a [-f|--force] override flag is provided. See CASSANDRA-9947 and \
                 CASSANDRA-17017 for details."
                    .to_owned(),
            )),
            "verify" => silently(Operation::Verify {
                tables: self.tables(),
                extended: invocation.has("--extended-verify"),
                quick: invocation.has("--quick"),
            }),
            "upgradesstables" => silently(Operation::UpgradeSstables {
                tables: self.tables(),
                all: invocation.has("--include-all-sstables"),
            }),
            "snapshot" => self.snapshot(),
            "clearsnapshot" => self.clear_snapshot(),
            "import" => self.import(),
            "archivecommitlog" => silently(Operation::ArchiveCommitLog),
            "backup" | "restorebackup" => silently(backups::operation(invocation)?),
            "adopttable" => silently(self.adopt_table()?),
            "removeunknowntable" => silently(self.remove_unknown_table()?),
            "refresh" => {
                let [keyspace, table] = &invocation.arguments[..] else {
                    return Err(Failure::usage("refresh requires ks and cf args"));
                };
                let operation = Operation::Refresh { keyspace: keyspace.clone(), table: table.clone() };
                Ok(("nodetool refresh is deprecated, use nodetool import instead\n".to_owned(), operation))
            }
            "setcompactionthroughput" => silently(self.set_compaction_throughput()?),
            "setconcurrentcompactors" => silently(self.set_concurrent_compactors()?),
            "settraceprobability" => {
                let probability = self.required::<f64>("trace_probability", "Double")?;
                if !(0.0..=1.0).contains(&probability) {
                    return Err(Failure::usage("Trace probability must be between 0 and 1"));
                }
                silently(Operation::SetTraceProbability { probability })
            }
            "settimeout" => {
                let reports: Vec<TimeoutReport> = self.client.get("/v1/timeouts")?;
                let (name, milliseconds) = timeouts::changed(&invocation.arguments, &reports)?;
                silently(Operation::SetTimeout { name, milliseconds })
            }
            "setguardrailsconfig" => {
                let Some((name, arguments)) = invocation.arguments.split_first() else {
                    return Err(Failure::usage("No arguments."));
                };
                silently(Operation::SetGuardrail { name: name.clone(), arguments: arguments.to_vec() })
            }
            "setlogginglevel" => {
                let argument = |i: usize| invocation.arguments.get(i).cloned().unwrap_or_default();
                silently(Operation::SetLoggingLevel { target: argument(0), level: argument(1) })
            }
            "invalidatekeycache" | "invalidaterowcache" | "invalidatecountercache" => {
                let cache = invocation.command.trim_start_matches("invalidate").trim_end_matches("cache");
                silently(Operation::InvalidateCache { cache: cache.to_owned() })
            }
            "invalidatecredentialscache"
            | "invalidaterolescache"
            | "invalidatenetworkpermissionscache"
            | "invalidatejmxpermissionscache" => {
                let cache = invocation.command.trim_start_matches("invalidate").trim_end_matches("cache");
                let roles = invocation.arguments.clone();
                silently(Operation::InvalidateAuthCache { cache: cache.to_owned(), roles })
            }
            "invalidatepermissionscache" => silently(permissions_cache::invalidation(invocation)?),
            "updatecidrgroup" => silently(cidr::update(invocation)?),
            "dropcidrgroup" => silently(cidr::drop(invocation)?),
            "reloadcidrgroupscache" => silently(Operation::ReloadCidrGroups),
            "invalidatecidrpermissionscache" => {
                silently(Operation::InvalidateCidrPermissionsCache { roles: invocation.arguments.clone() })
            }
            "reloadssl" => silently(Operation::ReloadCertificates),
            "setcachecapacity" => {
                let [key_mebibytes, row_mebibytes, counter_mebibytes] = self.of_caches("capacity")?;
                silently(Operation::SetCacheCapacity { key_mebibytes, row_mebibytes, counter_mebibytes })
            }
            "setcachekeystosave" => {
                let [key, row, counter] = self.of_caches("keys-to-save")?;
                silently(Operation::SetCacheKeysToSave { key, row, counter })
            }
            "enableautocompaction" => silently(Operation::EnableAutoCompaction(self.tables())),
            "disableautocompaction" => silently(Operation::DisableAutoCompaction(self.tables())),
            "stop" => silently(Operation::StopCompactions {
                kind: invocation.arguments.first().cloned(),
                id: invocation.option("--compaction-id").map(str::to_owned),
            }),
            other => Err(Failure::Error(format!("Cassette does not support {other} yet"))),
        }
    }

    fn garbage_collect(&self) -> Result<Operation> {
        let cells = match self.invocation.option("--granularity").unwrap_or("ROW") {
            "ROW" => false,
            "CELL" => true,
            other => {
                let message = format!(
                    "Value for option 'granularity' was given as '{other}' which \
                    is not in the list of allowed values: [ROW, CELL]"
                );
                return Err(Failure::usage(message));
            }
        };
        Ok(Operation::GarbageCollect { tables: self.tables(), cells })
    }

    fn adopt_table(&self) -> Result<Operation> {
        let [id] = &self.invocation.arguments[..] else {
            return Err(Failure::usage("adopttable requires a table id, as unknowntables lists them"));
        };
        Ok(Operation::AdoptTable { id: id.clone() })
    }

    fn remove_unknown_table(&self) -> Result<Operation> {
        let [name] = &self.invocation.arguments[..] else {
            let expected =
                "removeunknowntable requires a table id or a directory, as unknowntables lists them";
            return Err(Failure::usage(expected));
        };
        if !self.invocation.has("--yes") {
            let advice =
                format!("{name} and its rows would be removed permanently: repeat with --yes to confirm");
            return Err(Failure::usage(advice));
        }
        Ok(Operation::RemoveUnknownTable { name: name.clone() })
    }

    fn set_compaction_throughput(&self) -> Result<Operation> {
        let mebibytes = self.required::<i32>("compaction_throughput", "Integer")?;
        if mebibytes < 0 {
            return Err(Failure::usage("Invalid data rate: value must be non-negative"));
        }
        Ok(Operation::SetCompactionThroughput { mebibytes: mebibytes.into() })
    }

    fn set_concurrent_compactors(&self) -> Result<Operation> {
        let count = self.required::<i32>("concurrent_compactors", "int")?;
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            return Err(Failure::usage("concurrent_compactors should be great than 0."));
        };
        Ok(Operation::SetConcurrentCompactors { count })
    }

    /// `[<keyspace> <tables>...]`
    fn tables(&self) -> Tables {
        match self.invocation.arguments.split_first() {
            Some((keyspace, tables)) => Tables { keyspace: Some(keyspace.clone()), tables: tables.to_vec() },
            None => Tables::default(),
        }
    }

    /// `<key-cache-WHAT> <row-cache-WHAT> <counter-cache-WHAT>`
    fn of_caches<N: std::str::FromStr>(&self, what: &str) -> Result<[N; 3]> {
        let invocation = self.invocation;
        let [key, row, counter] = &invocation.arguments[..] else {
            return Err(Failure::usage(format!(
                "{} requires key-cache-{what}, row-cache-{what}, and counter-cache-{what} args.",
                invocation.command
            )));
        };
        let number = |cache: &str, text: &String| {
            let failed = |_| Failure::usage(format!("{cache}-cache-{what}: can not convert \"{text}\""));
            text.parse().map_err(failed)
        };
        Ok([number("key", key)?, number("row", row)?, number("counter", counter)?])
    }

    /// Returns the first argument; `kind` is Java's name of its type.
    fn required<N: std::str::FromStr>(&self, title: &str, kind: &str) -> Result<N> {
        let argument = self.invocation.arguments.first();
        let text =
            argument.ok_or_else(|| Failure::usage(format!("Required parameters are missing: {title}")))?;
        text.parse().map_err(|_| Failure::usage(format!("{title}: can not convert \"{text}\" to a {kind}")))
    }

    fn compact(&self) -> Result<Operation> {
        let invocation = self.invocation;
        let (split, files) = (invocation.has("--split-output"), invocation.has("--user-defined"));
        let by_token =
            ["--start-token", "--end-token", "--partition"].iter().any(|name| invocation.has(name));
        if split && (files || by_token) {
            let message = "Invalid option combination: Can not use split-output here";
            return Err(Failure::Error(message.to_owned()));
        }
        if files && by_token {
            let message = "Invalid option combination: Can not provide tokens when using user-defined";
            return Err(Failure::Error(message.to_owned()));
        }
        if invocation.has("--partition") {
            return Err(Failure::Error(
                "Cassette does not support compactions of one partition yet".to_owned(),
            ));
        }
        if by_token {
            let token = |name: &str| {
                let text = invocation.option(name).unwrap_or_default();
                text.parse::<i64>().map_err(|_| {
                    let message = format!(
                        "Invalid token for Murmur3Partitioner. Got {text} but expected a \
                        long value (unsigned 8 bytes integer)."
                    );
                    Failure::Error(message)
                })
            };
            let (start_token, end_token) = (token("--start-token")?, token("--end-token")?);
            return Ok(Operation::CompactRange { tables: self.tables(), start_token, end_token });
        }
        if files {
            let files = invocation.arguments.iter().flat_map(|files| files.split(','));
            return Ok(Operation::CompactFiles { files: files.map(str::to_owned).collect() });
        }
        Ok(Operation::Compact { tables: self.tables(), split_output: split })
    }

    fn snapshot(&self) -> Result<(String, Operation)> {
        let invocation = self.invocation;
        let name = match invocation.option("--tag") {
            Some(name) => name.to_owned(),
            None => now_millis().to_string(),
        };
        let skip_flush = invocation.has("--skip-flush");
        let ttl = invocation.option("--ttl");
        let ttl_seconds = ttl.map(seconds).transpose()?;
        let options = match ttl {
            Some(ttl) => format!("{{skipFlush={skip_flush}, ttl={ttl}}}"),
            None => format!("{{skipFlush={skip_flush}}}"),
        };
        let keyspaces = &invocation.arguments;
        let of: Vec<String> = match (invocation.option("--kt-list"), invocation.option("--column-family")) {
            (Some(_), table) if !keyspaces.is_empty() || table.is_some() => {
                let message = "When specifying the Keyspace table list (using -kt,--kt-list,-kc,--kc.list), \
                    you must not also specify keyspaces to snapshot";
                return Err(Failure::Error(message.to_owned()));
            }
            (Some(list), _) => list.replace(' ', "").split(',').map(str::to_owned).collect(),
            (None, Some(table)) => match &keyspaces[..] {
                [keyspace] => vec![format!("{keyspace}.{table}")],
                _ => {
                    let message = "When specifying the table for a snapshot, you must specify one and only \
                        one keyspace";
                    return Err(Failure::Error(message.to_owned()));
                }
            },
            (None, None) => keyspaces.clone(),
        };
        let what = match (&of[..], invocation.has("--kt-list")) {
            ([], _) => "[all keyspaces]".to_owned(),
            (list, true) => format!("[{}]", list.join(",")),
            _ => format!("[{}]", keyspaces.join(", ")),
        };
        let named = if name.is_empty() { String::new() } else { format!(" with snapshot name [{name}]") };
        let said = format!("Requested creating snapshot(s) for {what}{named} and options {options}\n");
        Ok((said, Operation::Snapshot { name, of, skip_flush, ttl_seconds }))
    }

    fn clear_snapshot(&self) -> Result<(String, Operation)> {
        let invocation = self.invocation;
        let name = invocation.option("-t").filter(|name| !name.is_empty());
        let (older, before) =
            (invocation.option("--older-than"), invocation.option("--older-than-timestamp"));
        let refused = match (name, invocation.has("--all"), older, before) {
            (None, false, ..) => Some("Specify snapshot name or --all"),
            (Some(_), true, ..) => Some("Specify only one of snapshot name or --all"),
            (_, _, Some(_), Some(_)) => Some("Specify only one of --older-than or --older-than-timestamp"),
            (Some(_), _, Some(_), _) => {
                Some("Specifying snapshot name together with --older-than flag is not allowed")
            }
            (Some(_), _, _, Some(_)) => {
                Some("Specifying snapshot name together with --older-than-timestamp flag is not allowed")
            }
            _ => None,
        };
        if let Some(message) = refused {
            return Err(Failure::usage(message));
        }
        let keyspaces = &invocation.arguments;
        let mut said = if keyspaces.is_empty() {
            "Requested clearing snapshot(s) for [all keyspaces]".to_owned()
        } else {
            format!("Requested clearing snapshot(s) for [{}]", keyspaces.join(", "))
        };
        said += &name.map_or_else(
            || " with [all snapshots]".to_owned(),
            |name| format!(" with snapshot name [{name}]"),
        );
        let mut before_millis = None;
        if let Some(older) = older {
            let seconds = seconds(older)?;
            said += &format!(" older than {seconds} seconds.");
            before_millis = Some(now_millis() - i64::try_from(seconds).unwrap_or(i64::MAX / 1000) * 1000);
        }
        if let Some(before) = before {
            let message = "Parameter --older-than-timestamp has to be a valid instant in ISO format.";
            let time: jiff::Timestamp = before.parse().map_err(|_| Failure::usage(message))?;
            said += &format!(" older than timestamp {before}");
            before_millis = Some(time.as_millisecond());
        }
        let (name, keyspaces) = (name.map(str::to_owned), keyspaces.clone());
        Ok((said + "\n", Operation::ClearSnapshot { name, keyspaces, before_millis }))
    }

    fn import(&self) -> Result<(String, Operation)> {
        let invocation = self.invocation;
        let [keyspace, table, directories @ ..] = &invocation.arguments[..] else {
            return Err(Failure::usage("import requires keyspace, table name and directories"));
        };
        if directories.is_empty() {
            return Err(Failure::usage("import requires keyspace, table name and directories"));
        }
        let quick = invocation.has("--quick");
        let said = if quick {
            "Doing a quick import - skipping sstable verification and row cache invalidation\n"
        } else {
            ""
        };
        let options = ImportChoices {
            copy: invocation.has("--copy-data"),
            verify: !quick && !invocation.has("--no-verify"),
            extended_verify: !quick && invocation.has("--extended-verify"),
            keep_level: invocation.has("--keep-level"),
            keep_repaired: invocation.has("--keep-repaired"),
        };
        // The node is on this machine, but may have been started in another directory.
        let directories = directories
            .iter()
            .map(|directory| match std::path::absolute(directory) {
                Ok(path) => path.display().to_string(),
                Err(_) => directory.clone(),
            })
            .collect();
        let (keyspace, table) = (keyspace.clone(), table.clone());
        Ok((said.to_owned(), Operation::Import { keyspace, table, directories, options }))
    }
}

fn now_millis() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Parses `90s`, `15m`, `2h`, `1d` into seconds.
fn seconds(text: &str) -> Result<u64> {
    let duration = crate::units::duration(text);
    duration.map(|duration| duration.as_secs()).map_err(|_| {
        Failure::usage(format!(
            "Invalid duration: {text} Accepted units:[NANOSECONDS, MICROSECONDS, \
            MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS] where case matters and only non-negative values."
        ))
    })
}
