//! What is sent: for each SSTable and node the sections with the partitions that it replicates.

use std::sync::atomic::{AtomicUsize, Ordering};

use cassette_database::Database;
use cassette_rows::{StorageError, TableId};
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::{Component, SSTableReader};
use parking_lot::Mutex;
use twox_hash::XxHash3_128;
use uuid::Uuid;

use crate::error::{MoveError, Result, unsuitable};
use crate::schema::Table;
use crate::streaming::outgoing::{Outgoing, SendError, may_be_whole};
use crate::streaming::replicas::Node;
use crate::streaming::sections::{Section, Sections, SectionsBuilder};
use crate::token_range::TokenRange;

/// A table of the source, and its SSTables, those with the oldest data first.
pub struct SourceTable<'t> {
    pub table: &'t Table,
    pub readers: Vec<SSTableReader>,
}

/// A table of the target.
pub struct TargetTable {
    pub id: Uuid,
    /// The ranges of each node.
    pub ranges: Vec<Vec<TokenRange>>,
    /// Nodes must write its SSTables themselves, with their index components.
    pub has_attached_indexes: bool,
}

/// What a node gets of an SSTable.
pub struct Share {
    /// Index of the node.
    pub node: usize,
    pub sections: Sections,
    pub is_whole: bool,
    /// Bytes to send.
    pub bytes: u64,
}

/// An SSTable for a node.
pub struct Transfer {
    /// Indexes of table and SSTable.
    pub table: usize,
    pub sstable: usize,
    pub share: Share,
    /// Identifies it in the progress file.
    pub key: String,
}

impl SourceTable<'_> {
    /// Returns whether an SSTable may have deletions of another one's data.
    pub fn may_delete_across_sstables(&self) -> bool {
        self.readers.len() > 1 && self.readers.iter().any(SSTableReader::may_have_deletions)
    }

    /// Returns the bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.readers.iter().map(SSTableReader::bytes_on_disk).sum()
    }
}

/// Returns an error about the source.
pub fn damaged(error: &dyn std::fmt::Display, reader: &SSTableReader) -> MoveError {
    MoveError::Directory {
        path: reader.descriptor().path(Component::Data).display().to_string(),
        reason: format!(
            "{error}; nothing of this SSTable was kept by the target: repair it with `cassette sstable scrub`, \
             or restore a backup, and start the same command again"
        ),
    }
}

/// Returns the SSTables of a table, including what only the commit log contained.
pub fn source_table<'t>(database: &Database, table: &'t Table) -> Result<SourceTable<'t>> {
    let id = Uuid::parse_str(&table.id);
    let id =
        id.map_err(|error| MoveError::Unsuitable(format!("table {} has no id: {error}", table.quoted())))?;
    let readers = database.engine().flushed_sstables(TableId(id));
    let mut readers = readers.map_err(|error| MoveError::Directory {
        path: format!("table {}", table.quoted()),
        reason: format!("{error}; repair it with `cassette sstable scrub`, or restore a backup"),
    })?;
    readers.sort_by_key(|reader| reader.stats().max_timestamp);
    Ok(SourceTable { table, readers })
}

/// Checks that the nodes can read the SSTables.
pub fn check_versions(tables: &[SourceTable<'_>], nodes: &[Node]) -> Result<()> {
    let is_old = nodes.iter().any(|node| super::topology::major(node).is_none_or(|major| major < 5));
    let mut readers = tables.iter().flat_map(|of| &of.readers);
    let newer = readers.find(|reader| reader.descriptor().version.is_of_cassandra_5());
    match newer.filter(|_| is_old) {
        None => Ok(()),
        Some(reader) => unsuitable(format!(
            "SSTable {} has a format of Cassandra 5.0, and the target is {}: execute `cassette nodetool \
             upgradesstables` at the source first, or use --by rows",
            reader.descriptor(),
            nodes[0].release
        )),
    }
}

/// Plans all transfers, with a few threads.
///
/// # Errors
/// If an index is damaged.
pub fn plan(tables: &[SourceTable<'_>], targets: &[TargetTable], nodes: &[Node]) -> Result<Vec<Transfer>> {
    let sstables: Vec<(usize, usize)> = tables
        .iter()
        .enumerate()
        .flat_map(|(table, of)| (0..of.readers.len()).map(move |sstable| (table, sstable)))
        .collect();
    let (next, planned) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let failure: Mutex<Option<MoveError>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(sstables.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failure.lock().is_none()
                    && let Some((table, sstable)) = sstables.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let reader = &tables[*table].readers[*sstable];
                    match plan_sstable((*table, *sstable), reader, &targets[*table], nodes) {
                        Ok(transfers) => planned.lock().extend(transfers),
                        Err(error) => _ = failure.lock().get_or_insert(error),
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    let mut planned = planned.into_inner();
    planned.sort_by_key(|transfer| (transfer.table, transfer.sstable, transfer.share.node));
    Ok(planned)
}

fn plan_sstable(
    (table, sstable): (usize, usize),
    reader: &SSTableReader,
    target: &TargetTable,
    nodes: &[Node],
) -> Result<Vec<Transfer>> {
    let failed = |error: StorageError| damaged(&error, reader);
    let transfer = |share: Share| -> Result<Transfer> {
        let key = key(reader, target.id, &nodes[share.node], &share.sections.sections).map_err(failed)?;
        Ok(Transfer { table, sstable, share, key })
    };
    shares(reader, target, nodes).map_err(failed)?.into_iter().map(transfer).collect()
}

/// Returns what each node gets of an SSTable; nodes that get nothing are omitted.
///
/// # Errors
/// If a component cannot be read, or the index is damaged.
pub fn shares(
    reader: &SSTableReader,
    target: &TargetTable,
    nodes: &[Node],
) -> std::result::Result<Vec<Share>, StorageError> {
    let length = reader.uncompressed_bytes();
    // A node trusts the commit log positions of SSTables that it wrote itself.
    let is_foreign =
        reader.stats().host_id.is_none_or(|host_id| nodes.iter().all(|node| node.host_id != host_id));
    let copies = may_be_whole(reader) && is_foreign && !target.has_attached_indexes;
    let mut shares = Vec::new();
    for (node, sections) in sections(reader, &target.ranges)?.into_iter().enumerate() {
        if sections.sections.is_empty() {
            continue;
        }
        let is_whole = copies && sections.are_all_of(length);
        let bytes = match Outgoing::new(reader, &sections, is_whole) {
            Ok(outgoing) => outgoing.length(),
            Err(SendError::Source(error)) => return Err(error),
            Err(SendError::Network(error)) => {
                return Err(StorageError::io(reader.descriptor().path(Component::Data), "read", error));
            }
        };
        shares.push(Share { node, sections, is_whole, bytes });
    }
    Ok(shares)
}

/// Returns the sections for each node. Lists the partitions only if a node does not get all of
/// them, or none.
fn sections(
    reader: &SSTableReader,
    ranges: &[Vec<TokenRange>],
) -> std::result::Result<Vec<Sections>, StorageError> {
    let (first, last) = (reader.first_key().token().0, reader.last_key().token().0);
    let length = reader.uncompressed_bytes();
    let simple = |ranges: &Vec<TokenRange>| {
        if ranges.iter().any(|range| range.contains(first) && range.contains(last)) {
            let whole = Section { start: 0, end: length };
            Some(Sections { sections: vec![whole], keys: reader.estimated_keys() })
        } else if ranges.iter().all(|range| range.1 < first || last <= range.0) {
            Some(Sections { sections: Vec::new(), keys: 0 })
        } else {
            None
        }
    };
    if let Some(all) = ranges.iter().map(simple).collect() {
        return Ok(all);
    }
    let mut builders: Vec<_> = ranges.iter().map(|ranges| SectionsBuilder::new(ranges)).collect();
    let mut keys = reader.keys(Caching::LeaveAlone);
    let mut previous: Option<(i64, u64)> = None;
    while keys.advance()? {
        let place = (keys.decorated_key().token().0, keys.position());
        let ascends = previous.map_or(place.1 == 0, |last| last.0 <= place.0 && last.1 < place.1);
        if !ascends || place.1 >= length {
            return Err(StorageError::corrupt(
                reader.descriptor().path(Component::Index),
                format!("at {}: a partition after the previous one expected", keys.entry_start()),
            ));
        }
        builders.iter_mut().for_each(|builder| builder.add(place.0, place.1));
        previous = Some(place);
    }
    Ok(builders.into_iter().map(|builder| builder.finish(length)).collect())
}

/// Identifies a transfer by the content of the SSTable and all that determines what a node gets.
fn key(
    reader: &SSTableReader,
    table: Uuid,
    node: &Node,
    sections: &[Section],
) -> std::result::Result<String, StorageError> {
    let mut bytes = Vec::new();
    bytes.extend(table.as_bytes());
    bytes.extend(node.host_id.as_bytes());
    let fingerprint = reader.fingerprint()?.map(|of| (of.data_crc, of.data_length, of.index_length));
    bytes.extend(format!("{:?} {fingerprint:?} ", reader.descriptor().id).into_bytes());
    bytes.extend(format!("{} {} ", reader.data_bytes_on_disk(), reader.stats().max_timestamp).into_bytes());
    for section in sections {
        bytes.extend(section.start.to_be_bytes());
        bytes.extend(section.end.to_be_bytes());
    }
    Ok(format!("{:032x}", XxHash3_128::oneshot(&bytes)))
}
