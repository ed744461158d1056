//! What an adoption would take in, and why it may be refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::Keyspace;
use cassette_rows::{TableId, TableMetadata};
use cassette_vfs::FileSystem;

use crate::commitlog::{self, Segment};
use crate::error::{AdoptError, Result};
use crate::interrupted;
use crate::layout::{
    CassandraDirectory, Recognised, TableDirectory, data_directories_beside, list, recognise,
};
use crate::nodes::{self, NodeSummary, is_read};
use crate::sizes::size_text;
use crate::versions;

/// The keyspace of roles and permissions.
const SYSTEM_AUTH: &str = "system_auth";

/// The directories of Cassandra to plan for.
#[derive(Debug, Clone, Default)]
pub struct PlanRequest {
    /// Data directories, or directories that contain one, of one or several nodes of a cluster.
    pub directories: Vec<PathBuf>,
    /// Directories of commit logs that are not beside a data directory.
    pub commitlogs: Vec<PathBuf>,
    /// Whether the writes that are only in commit logs are left out.
    pub ignore_commitlog: bool,
    /// Whether roles and permissions are taken in.
    pub roles: bool,
}

/// Why an adoption is refused, and what overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Writes are only in the commit log of Cassandra, which cannot be read.
    Commitlog,
    /// Nodes are missing that may have the only replica of a partition.
    MissingNodes,
    /// Definitions or files are not supported; overridden by omitting them.
    Unsupported,
    /// Nothing overrides it.
    Final,
}

/// A reason to refuse an adoption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the reason.
    pub reason: Reason,
    /// What was found, and what to do.
    pub text: String,
}

/// The SSTables of a table on all nodes.
#[derive(Debug, Clone)]
pub struct TablePlan {
    /// The definition, with Cassandra's id.
    pub table: Arc<TableMetadata>,
    /// Whether it is a materialized view.
    pub is_view: bool,
    /// The directories with its SSTables.
    pub directories: Vec<PathBuf>,
    /// The number of SSTables.
    pub sstables: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// What an adoption would take in.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The nodes, by their directories.
    pub nodes: Vec<NodeSummary>,
    /// The user keyspaces.
    pub keyspaces: Vec<Keyspace>,
    /// Their tables.
    pub tables: Vec<TablePlan>,
    /// Whether roles and permissions are taken in.
    pub takes_roles: bool,
    /// The directories of the tables of roles, by table name.
    pub roles: BTreeMap<String, Vec<PathBuf>>,
    /// The reasons to refuse the adoption.
    pub refusals: Vec<Refusal>,
    /// What is not taken in, or could be missing.
    pub warnings: Vec<String>,
    /// The directories of commit logs that were examined.
    pub commitlogs: Vec<PathBuf>,
}

impl Plan {
    /// Reads the schema of the directories, and lists their SSTables. Writes nothing.
    ///
    /// # Errors
    /// [`AdoptError::Refused`] if a directory is not one of Cassandra, or the nodes do not belong
    /// together. If system tables cannot be read.
    pub fn of(fs: &Arc<dyn FileSystem>, request: &PlanRequest) -> Result<Self> {
        let directories = find_all(fs.as_ref(), &request.directories)?;
        let mut plan = Self {
            nodes: nodes::group(fs, &directories)?,
            keyspaces: Vec::new(),
            tables: Vec::new(),
            takes_roles: request.roles,
            roles: BTreeMap::new(),
            refusals: Vec::new(),
            warnings: Vec::new(),
            commitlogs: Vec::new(),
        };
        plan.examine_logs(fs, request)?;
        plan.examine_hints(fs.as_ref(), &directories)?;
        for node in &plan.nodes {
            let disagreement = interrupted::disagreement(fs.as_ref(), node)?;
            let refusal = disagreement.map(|text| Refusal { reason: Reason::Final, text });
            plan.refusals.extend(refusal);
        }
        plan.refuse_further_directories(fs.as_ref(), &directories);
        plan.refuse_versions(request.roles);
        if plan.refusals.iter().any(|refusal| refusal.reason == Reason::Final) {
            return Ok(plan);
        }
        plan.take_schema()?;
        plan.take_tables(request.roles);
        plan.check_replicas();
        Ok(plan)
    }

    /// Bytes of the SSTables of all tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    /// Returns the directories whose files are read: those of data and of commit logs.
    pub fn directories(&self) -> Vec<PathBuf> {
        let data = self.nodes.iter().flat_map(|node| &node.directories);
        data.chain(&self.commitlogs).cloned().collect()
    }

    /// Returns the refusals for which `overridden` is false, as one error.
    ///
    /// # Errors
    /// [`AdoptError::Refused`] if there are any.
    pub fn check(&self, overridden: impl Fn(Reason) -> bool) -> Result<()> {
        let left: Vec<&str> = self
            .refusals
            .iter()
            .filter(|refusal| refusal.reason == Reason::Final || !overridden(refusal.reason))
            .map(|refusal| refusal.text.as_str())
            .collect();
        if left.is_empty() { Ok(()) } else { Err(AdoptError::Refused(left.join("\n"))) }
    }

    fn refuse(&mut self, reason: Reason, text: String) {
        self.refusals.push(Refusal { reason, text });
    }

    /// Lists the segments with writes that SSTables may lack, of each node, and reads those to
    /// system tables.
    fn examine_logs(&mut self, fs: &Arc<dyn FileSystem>, request: &PlanRequest) -> Result<()> {
        if let [node] = self.nodes.as_mut_slice() {
            node.commitlogs.extend_from_slice(&request.commitlogs);
        } else {
            self.refuse_unassigned_logs(fs.as_ref(), &request.commitlogs)?;
        }
        let mut refusals = Vec::new();
        let mut without = Vec::new();
        for node in &mut self.nodes {
            node.remove_repeated_logs(fs.as_ref());
            if node.commitlogs.is_empty() {
                without.push(node.name());
            }
            self.commitlogs.extend_from_slice(&node.commitlogs);
            for log in &node.commitlogs {
                node.unflushed.extend(commitlog::segments_with_records(fs.as_ref(), log)?);
            }
            node.unflushed.sort_by_key(|segment| segment.id);
            if node.unflushed.is_empty() {
                continue;
            }
            if request.ignore_commitlog {
                let logs = describe_segments(&node.unflushed);
                self.warnings.push(format!("{logs}, which are left out if they are not in SSTables"));
                node.unflushed.clear();
                continue;
            }
            match node.replay_system(fs) {
                Ok(()) => {}
                Err(error @ AdoptError::CommitLog { .. }) => refusals.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        // Logs that were specified for several nodes are refused if they contain writes.
        if request.commitlogs.is_empty() && !without.is_empty() {
            let text = format!(
                "no commit log was found beside {}: if Cassandra was not drained, its latest writes are only there",
                without.join(", ")
            );
            if request.ignore_commitlog {
                self.warnings.push(text);
            } else {
                refusals.push(format!(
                    "{text}. Specify it with --commitlog DIR, or adopt what SSTables contain with --ignore-commitlog"
                ));
            }
        }
        refusals.into_iter().for_each(|text| self.refuse(Reason::Commitlog, text));
        Ok(())
    }

    /// Refuses commit logs with records whose node is not known: positions are those of a node.
    fn refuse_unassigned_logs(&mut self, fs: &dyn FileSystem, specified: &[PathBuf]) -> Result<()> {
        for log in specified {
            let segments = commitlog::segments_with_records(fs, log)?;
            if !segments.is_empty() {
                let text = format!(
                    "{}, and nothing shows to which of the nodes they belong: make the commit log directory of each \
                     node a sibling of its data directory, or start Cassandra, run `nodetool drain`, and stop it; or \
                     lose these writes with --ignore-commitlog",
                    describe_segments(&segments)
                );
                self.refuse(Reason::Commitlog, text);
            }
            self.commitlogs.push(log.clone());
        }
        Ok(())
    }

    fn examine_hints(&mut self, fs: &dyn FileSystem, directories: &[CassandraDirectory]) -> Result<()> {
        for hints in directories.iter().filter_map(|directory| directory.hints.as_deref()) {
            let found = list(fs, hints)?.iter().filter(|entry| entry.name.ends_with(".hints")).count();
            if found > 0 {
                self.warnings.push(format!(
                    "{} has {found} files with writes for other nodes: they are not taken in; the directories of \
                     all nodes contain them",
                    hints.display()
                ));
            }
        }
        Ok(())
    }

    /// Refuses if there are data directories beside the specified ones: a node may have SSTables of
    /// any table in each of them.
    fn refuse_further_directories(&mut self, fs: &dyn FileSystem, specified: &[CassandraDirectory]) {
        let beside = specified.iter().flat_map(|directory| data_directories_beside(fs, &directory.data));
        let is_specified =
            |path: &PathBuf| specified.iter().any(|directory| is_same(fs, &directory.data, path));
        let further: BTreeSet<PathBuf> = beside.filter(|path| !is_specified(path)).collect();
        if !further.is_empty() {
            let paths: Vec<String> = further.iter().map(|path| path.display().to_string()).collect();
            self.refuse(
                Reason::MissingNodes,
                format!(
                    "{} is beside a specified directory, and may be another of data_file_directories: specify it, too, \
                     or leave out what it contains with --ignore-missing-nodes",
                    paths.join(", ")
                ),
            );
        }
    }

    /// Refuses SSTables of versions that cannot be read: those of system tables finally.
    fn refuse_versions(&mut self, roles: bool) {
        let mut found: BTreeMap<(bool, String), Vec<&TableDirectory>> = BTreeMap::new();
        for table in self.nodes.iter().flat_map(|node| &node.tables) {
            let is_needed = is_read(table) || roles && table.keyspace == SYSTEM_AUTH;
            if !is_needed && is_system(&table.keyspace) {
                continue;
            }
            for version in &table.unsupported {
                found.entry((is_needed, version.clone())).or_default().push(table);
            }
        }
        let refusals: Vec<Refusal> = found
            .into_iter()
            .map(|((is_needed, version), tables)| {
                let more = tables.len().saturating_sub(1);
                let first = tables.first().map(|table| table.path.display().to_string()).unwrap_or_default();
                let more = if more > 0 { format!(" and {more} more directories") } else { String::new() };
                let advice = versions::advice(&version);
                let text =
                    format!("{first}{more}: SSTables of version {version} are not supported; {advice}");
                Refusal { reason: if is_needed { Reason::Final } else { Reason::Unsupported }, text }
            })
            .collect();
        self.refusals.extend(refusals);
    }

    fn take_schema(&mut self) -> Result<()> {
        nodes::check_same(&self.nodes)?;
        let Some(first) = self.nodes.first() else { return Ok(()) };
        let system = first.system.clone();
        let has_schema = |node: &NodeSummary| {
            node.tables.iter().any(|table| table.keyspace == "system_schema" && table.sstables > 0)
        };
        if let Some(without) = self.nodes.iter().find(|node| !has_schema(node)) {
            let text = format!(
                "{} has no SSTables of system_schema: the first of Cassandra's data_file_directories has them, \
                 and must be specified, too",
                without.name()
            );
            return Err(AdoptError::Refused(text));
        }
        for unsupported in &system.unsupported {
            self.refuse(
                Reason::Unsupported,
                format!("{unsupported}. It can be left out with --skip-unsupported"),
            );
        }
        for omitted in &system.omitted_indexes {
            self.warnings.push(format!("{omitted}: the index is left out"));
        }
        for function in &system.uncallable {
            self.warnings.push(format!(
                "{function} is kept, but cannot be called: its language is not supported; CREATE OR REPLACE \
                 FUNCTION … LANGUAGE lua replaces it"
            ));
        }
        for omitted in &system.omitted {
            self.warnings.push(format!("{omitted} is left out: not supported"));
        }
        for node in &self.nodes {
            if node.system.pending_batches > 0 {
                self.warnings.push(format!(
                    "{} has {} logged batches that may be applied in part: start Cassandra for a minute, which \
                     completes them, and drain it",
                    node.name(),
                    node.system.pending_batches
                ));
            }
        }
        for node in self.nodes.iter().filter(|node| node.system.has_unread_batches) {
            self.warnings.push(format!(
                "{} has SSTables of system.batches, which cannot be read: if Cassandra was not stopped cleanly, logged \
                 batches may be applied in part; start Cassandra for a minute, which completes them, and drain it",
                node.name()
            ));
        }
        self.keyspaces = system.keyspaces;
        Ok(())
    }

    fn take_tables(&mut self, roles: bool) {
        let mut of_table: BTreeMap<TableId, Vec<&TableDirectory>> = BTreeMap::new();
        let mut others = Vec::new();
        for node in &self.nodes {
            for table in &node.tables {
                match node.id_of(table, &self.keyspaces) {
                    Some(id) => of_table.entry(id).or_default().push(table),
                    None => others.push(table),
                }
            }
        }
        let mut tables = Vec::new();
        for keyspace in &self.keyspaces {
            for table in keyspace.tables.values() {
                let found: Vec<&TableDirectory> = of_table.remove(&table.id).unwrap_or_default();
                let with_files =
                    || found.iter().filter(|found| found.sstables > 0 && found.unsupported.is_empty());
                tables.push(TablePlan {
                    table: table.clone(),
                    is_view: keyspace.views.contains_key(&table.name),
                    directories: with_files().map(|found| found.path.clone()).collect(),
                    sstables: with_files().map(|found| found.sstables).sum(),
                    bytes: with_files().map(|found| found.bytes).sum(),
                });
            }
        }
        let mut warnings = Vec::new();
        for table in of_table.into_values().flatten().chain(others) {
            if table.keyspace == SYSTEM_AUTH && roles && table.sstables > 0 {
                self.roles.entry(table.table.clone()).or_default().push(table.path.clone());
            } else if !is_system(&table.keyspace) && table.sstables > 0 {
                warnings.push(format!(
                    "{} has {} SSTables of a table that is not adopted",
                    table.path.display(),
                    table.sstables
                ));
            }
        }
        self.tables = tables;
        self.warnings.extend(warnings);
    }

    /// Refuses if partitions may have all their replicas on nodes that are not specified.
    fn check_replicas(&mut self) {
        let present: BTreeSet<_> = self.nodes.iter().filter_map(|node| node.system.host_id).collect();
        let known: BTreeSet<_> = self.nodes.iter().flat_map(|node| &node.system.peers).copied().collect();
        let missing = known.difference(&present).count();
        if missing == 0 {
            return;
        }
        let replicas = |keyspace: &Keyspace| -> usize {
            // Such as `3/1`: three replicas, one of them transient.
            let full = |text: &String| text.split('/').next().and_then(|n| n.parse::<usize>().ok());
            keyspace.params.replication.options.values().filter_map(full).sum()
        };
        let lacking: Vec<&str> = self
            .keyspaces
            .iter()
            .filter(|keyspace| replicas(keyspace) <= missing && !keyspace.tables.is_empty())
            .map(|keyspace| keyspace.name.as_str())
            .collect();
        if lacking.is_empty() {
            self.warnings.push(format!(
                "{missing} nodes of the cluster are not specified: each partition has a replica on those that are, \
                 which may lack writes that were not repaired"
            ));
        } else {
            let text = format!(
                "{missing} nodes of the cluster are not specified, and keyspaces {} have no more replicas than that: \
                 partitions may be missing. Specify the directories of all nodes, or take what there is with \
                 --ignore-missing-nodes",
                lacking.join(", ")
            );
            self.refuse(Reason::MissingNodes, text);
        }
    }
}

/// Returns the directories, the number and the size of segments with records.
pub(crate) fn describe_segments(segments: &[Segment]) -> String {
    let directories: BTreeSet<_> = segments.iter().filter_map(|segment| segment.path.parent()).collect();
    let shown: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let noun = if segments.len() == 1 { "segment" } else { "segments" };
    format!(
        "the commit log {} has {} {noun} ({}) with writes",
        shown.join(", "),
        segments.len(),
        size_text(bytes)
    )
}

/// Whether a keyspace is one of Cassandra's own.
pub(crate) fn is_system(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system"
            | "system_schema"
            | "system_auth"
            | "system_distributed"
            | "system_traces"
            | "system_cluster_metadata"
    )
}

/// Returns the data directories of Cassandra at the paths, each once.
fn find_all(fs: &dyn FileSystem, paths: &[PathBuf]) -> Result<Vec<CassandraDirectory>> {
    let mut found: Vec<CassandraDirectory> = Vec::new();
    for path in paths {
        match recognise(fs, path)? {
            Recognised::Cassandra(directory) => {
                if !found.iter().any(|other| is_same(fs, &other.data, &directory.data)) {
                    found.push(directory);
                }
            }
            Recognised::Cassette => {
                return Err(AdoptError::Refused(format!(
                    "{} is a data directory of Cassette already: `cassette serve --data {0}`",
                    path.display()
                )));
            }
            Recognised::TableFiles { .. } => {
                return Err(AdoptError::Refused(format!(
                    "{} has the SSTables of one table: specify the data directory of Cassandra above it, or take \
                     them into a table with `cassette sstable import`",
                    path.display()
                )));
            }
            Recognised::Other => {
                return Err(AdoptError::Refused(format!(
                    "{} is no data directory of Cassandra: expected directories of keyspaces with those of tables, \
                     such as system_schema/tables-afddfb9dbc1e30688056eed6c302ba09, in it or in its `data`",
                    path.display()
                )));
            }
        }
    }
    Ok(found)
}

fn is_same(fs: &dyn FileSystem, a: &Path, b: &Path) -> bool {
    matches!((fs.identity(a), fs.identity(b)), (Ok(a), Ok(b)) if a == b)
}
