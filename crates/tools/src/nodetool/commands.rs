//! Executes commands: their requests to the node, and their output.
//! [`operations`](super::operations) has those that change something.

use cassette_admin_api::{
    AuditLogReport, CidrFilteringReport, CidrGroupReport, CompactionRecord, CompactionReport,
    FullQueryLogReport, GuardrailReport, NodeReport, Operation, SnapshotReport, TableReport, TimeoutReport,
    UnknownTableReport,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::Invocation;
use super::client::Client;
use super::text::{Table, double};
use super::{
    Failure, Format, Output, Result, backups, cidr, clients, cluster, compactions, guardrails, info, pools,
    query_logs, snapshots, table_stats, tablehistograms, timeouts, top_partitions, unknown_tables,
};

/// Executes a command.
#[expect(clippy::too_many_lines, reason = "a flat table of the commands that read")]
pub(super) fn execute(invocation: &Invocation, format: Format, client: &Client) -> Result<Output> {
    let command = Command { invocation, format, client };
    match invocation.command {
        "info" => command.node(|node| info::text(node, invocation.has("--tokens"))),
        "status" => {
            let node: NodeReport = client.get("/v1/node")?;
            cluster::check_keyspace(&node, invocation.arguments.first())?;
            command.show(&node, |node| cluster::status(node, command.with_port()))
        }
        "ring" => {
            let node: NodeReport = client.get("/v1/node")?;
            cluster::check_keyspace(&node, invocation.arguments.first())?;
            command.show(&node, |node| cluster::ring(node, command.with_port()))
        }
        "describecluster" => command.node(|node| cluster::describe(node, command.with_port())),
        "version" => command.node(|node| {
            if invocation.has("--verbose") {
                format!("ReleaseVersion: {}\nCassette: {}\n", node.release_version, node.version)
            } else {
                format!("ReleaseVersion: {}\n", node.release_version)
            }
        }),
        "gcstats" => command.node(pools::collections),
        "proxyhistograms" => {
            let node: NodeReport = client.get("/v1/node")?;
            command.show_as(&node.requests, || tablehistograms::requests(&node))
        }
        "tpstats" => {
            let node: NodeReport = client.get("/v1/node")?;
            Ok(command.either(|| pools::text(&node), || pools::data(&node)))
        }
        "clientstats" => command.client_stats(),
        "statusbinary" => command.node(|node| running(node.native_transport_active)),
        "statusgossip" => command.node(|_| running(false)),
        "tablestats" => command.table_stats(),
        "tablehistograms" => {
            let tables = tablehistograms::select(client.get("/v1/tables")?, &invocation.arguments)?;
            command.show(&tables, |tables| tablehistograms::tables(tables))
        }
        "datapaths" => command.data_paths(),
        "statusautocompaction" => command.auto_compaction(),
        "compactionstats" => {
            let report: CompactionReport = client.get("/v1/compactions")?;
            let (human, vtable) = (invocation.has("--human-readable"), invocation.has("--vtable"));
            command.show(&report, |report| compactions::stats(report, human, vtable))
        }
        "compactionhistory" => {
            let records: Vec<CompactionRecord> = client.get("/v1/compactions/history")?;
            Ok(command.either(|| compactions::history(&records), || compactions::history_data(&records)))
        }
        "getcompactionthroughput" => command.compaction_throughput(),
        "getconcurrentcompactors" => {
            let report: CompactionReport = client.get("/v1/compactions")?;
            let compactors = report.concurrent_compactors;
            command.show_as(&json!({"concurrent_compactors": compactors}), || {
                format!("Current concurrent compactors in the system is: \n{compactors}\n")
            })
        }
        "getguardrailsconfig" => {
            let reports: Vec<GuardrailReport> = client.get("/v1/guardrails")?;
            let listed = guardrails::Listed::new(&reports, invocation)?;
            Ok(command.either(|| listed.text(), || listed.data()))
        }
        "getauditlog" => {
            let report: AuditLogReport = client.get("/v1/audit_log")?;
            command.show(&report, query_logs::audit)
        }
        "getfullquerylog" => {
            let report: FullQueryLogReport = client.get("/v1/full_query_log")?;
            command.show(&report, query_logs::full_query)
        }
        "listcidrgroups" => {
            let groups: Vec<CidrGroupReport> = client.get("/v1/cidr_groups")?;
            let name = invocation.arguments.first();
            let title = if name.is_some() { "CIDRs" } else { "CIDR Groups" };
            command.show(&cidr::listed(&groups, name), |names| cidr::column(title, names))
        }
        "getcidrgroupsofip" => {
            let address = cidr::address(invocation)?;
            let names: Vec<String> = client.get(&format!("/v1/cidr_groups_of?address={address}"))?;
            command.show(&names, |names| cidr::column("CIDR Groups", names))
        }
        "cidrfilteringstats" => {
            let report: CidrFilteringReport = client.get("/v1/cidr_filtering")?;
            command.show(&report, cidr::filtering)
        }
        "getlogginglevels" => {
            let levels: Vec<(String, String)> = client.get("/v1/logging")?;
            command.show(&levels, |levels| {
                let lines = levels.iter().map(|(name, level)| format!("{name:<50}{level:>10}\n"));
                format!("\n{:<50}{:>10}\n", "Logger Name", "Log Level") + &lines.collect::<String>()
            })
        }
        "gettimeout" => {
            let reports: Vec<TimeoutReport> = client.get("/v1/timeouts")?;
            let report = timeouts::wanted(&invocation.arguments, &reports)?;
            command.show(report, timeouts::text)
        }
        "gettraceprobability" => {
            let node: NodeReport = client.get("/v1/node")?;
            let probability = node.trace_probability;
            command.show_as(&json!({"trace_probability": probability}), || {
                format!("Current trace probability: {}\n", double(probability))
            })
        }
        "listsnapshots" => {
            let mut list: Vec<SnapshotReport> = client.get("/v1/snapshots")?;
            list.retain(|snapshot| snapshot.expires_at.is_none() || !invocation.has("--no-ttl"));
            list.retain(|snapshot| !snapshot.ephemeral || invocation.has("--ephemeral"));
            command.show(&list, |list| snapshots::list(list, invocation.has("--ephemeral")))
        }
        "backupstatus" => {
            let node: NodeReport = client.get("/v1/node")?;
            command.show(&node.backups, |report| backups::status(report.as_ref()))
        }
        "unknowntables" => {
            let found: Vec<UnknownTableReport> = client.get("/v1/unknown_tables")?;
            command.show(&found, |found| unknown_tables::list(found))
        }
        "toppartitions" => top_partitions::sample(invocation, format, client),
        _ => command.operate(),
    }
}

fn running(is_running: bool) -> String {
    if is_running { "running\n" } else { "not running\n" }.to_owned()
}

pub(super) struct Command<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) format: Format,
    pub(super) client: &'a Client,
}

impl Command<'_> {
    fn with_port(&self) -> bool {
        self.invocation.has("--print-port")
    }

    fn node(&self, text: impl FnOnce(&NodeReport) -> String) -> Result<Output> {
        let node: NodeReport = self.client.get("/v1/node")?;
        self.show(&node, text)
    }

    /// Outputs a report as text, or as data.
    fn show<T: Serialize>(&self, report: &T, text: impl FnOnce(&T) -> String) -> Result<Output> {
        self.show_as(report, || text(report))
    }

    pub(super) fn show_as(&self, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<Output> {
        let data = serde_json::to_value(report).map_err(|error| Failure::Error(error.to_string()))?;
        Ok(self.either(text, || data))
    }

    fn either(&self, text: impl FnOnce() -> String, data: impl FnOnce() -> Value) -> Output {
        match self.format {
            Format::Text => Output::Text(text()),
            Format::Json | Format::Yaml => Output::Data(data()),
        }
    }

    /// Outputs the clients, or clears the history.
    fn client_stats(&self) -> Result<Output> {
        let invocation = self.invocation;
        if invocation.has("--clear-history") {
            let done = self.client.operate(&Operation::ClearConnectionHistory)?;
            return self.show_as(&done, || "Clearing connection history\n".to_owned());
        }
        let node: NodeReport = self.client.get("/v1/node")?;
        if invocation.has("--by-protocol") {
            return self.show(&node.client_history, |history| clients::by_protocol(history));
        }
        let listed = clients::Listed {
            connections: invocation.has("--all"),
            options: invocation.has("--client-options"),
        };
        self.show_as(&node.clients, || clients::text(&node.clients, listed))
    }

    fn table_stats(&self) -> Result<Output> {
        let invocation = self.invocation;
        let options = table_stats::Options {
            names: invocation.arguments.clone(),
            ignore: invocation.has("-i"),
            human_readable: invocation.has("--human-readable"),
            sort_key: invocation.option("--sort").unwrap_or_default().to_owned(),
            top: match invocation.number::<i64>("--top", 0)? {
                top if top < 0 => {
                    return Err(Failure::usage("argument for top must be a positive integer."));
                }
                top => top as usize,
            },
            location_check: invocation.has("--sstable-location-check"),
        };
        let selected = table_stats::Selected::new(self.client.get("/v1/tables")?, options)?;
        Ok(self.either(|| selected.text(), || selected.data()))
    }

    fn data_paths(&self) -> Result<Output> {
        let tables: Vec<TableReport> = self.client.get("/v1/tables")?;
        let is_meant = |table: &&TableReport| {
            let names = &self.invocation.arguments;
            let full = format!("{}.{}", table.keyspace, table.table);
            names.is_empty() || names.iter().any(|name| *name == table.keyspace || *name == full)
        };
        let tables: Vec<_> = tables.iter().filter(is_meant).collect();
        let mut text = String::new();
        let mut keyspace = "";
        for table in &tables {
            if table.keyspace != keyspace {
                keyspace = &table.keyspace;
                text += &format!("Keyspace: {keyspace}\n");
            }
            text += &format!("\tTable: {}\n\tPaths:\n\t\t{}\n\n", table.table, table.directory);
        }
        let path = |table: &&TableReport| {
            let paths = [&table.directory];
            json!({"keyspace": table.keyspace, "table": table.table, "paths": paths})
        };
        Ok(self.either(|| text, || tables.iter().map(path).collect()))
    }

    /// Outputs whether compactions of tables start automatically: for each, or for all together.
    fn auto_compaction(&self) -> Result<Output> {
        let mut tables: Vec<TableReport> = self.client.get("/v1/tables")?;
        let (keyspace, names) = match self.invocation.arguments.split_first() {
            Some((keyspace, names)) => (Some(keyspace), names),
            None => (None, &[][..]),
        };
        if let Some(keyspace) = keyspace {
            tables.retain(|table| table.keyspace == *keyspace);
            if tables.is_empty() {
                return Err(Failure::usage(format!("Keyspace [{keyspace}] does not exist.")));
            }
            if let Some(name) = names.iter().find(|name| !tables.iter().any(|table| table.table == **name)) {
                return Err(Failure::usage(format!("Unknown keyspace/cf pair ({keyspace}.{name})")));
            }
        }
        tables.retain(|table| names.is_empty() || names.contains(&table.table));
        let state = |on: bool| if on { "running" } else { "not running" };
        let data = || {
            let state = |table: &TableReport| {
                let status = state(table.autocompaction);
                json!({"keyspace": table.keyspace, "table": table.table, "status": status})
            };
            tables.iter().map(state).collect()
        };
        let text = || {
            if self.invocation.has("--all") {
                let mut text = Table::default();
                text.row(["Keyspace", "Table", "Status"]);
                for table in &tables {
                    text.row([table.keyspace.as_str(), &table.table, state(table.autocompaction)]);
                }
                return text.text(" ");
            }
            let running = tables.iter().filter(|table| table.autocompaction).count();
            let all = match running {
                0 => "not running",
                running if running == tables.len() => "running",
                _ => "partially running",
            };
            format!("{all}\n")
        };
        Ok(self.either(text, data))
    }

    fn compaction_throughput(&self) -> Result<Output> {
        let report: CompactionReport = self.client.get("/v1/compactions")?;
        let mebibytes = report.throughput_bytes as f64 / f64::from(1 << 20);
        let precise = self.invocation.has("--precise-mib");
        if !precise && self.format == Format::Text && mebibytes.fract() != 0.0 {
            let advice = "Use the -d flag to quiet this error and get the exact throughput in MiB/s";
            return Err(Failure::Error(advice.to_owned()));
        }
        self.show_as(&json!({"mebibytes_per_second": mebibytes}), || {
            if precise {
                format!("Current compaction throughput: {} MiB/s\n", double(mebibytes))
            } else {
                format!("Current compaction throughput: {mebibytes:.0} MB/s\n")
            }
        })
    }
}
