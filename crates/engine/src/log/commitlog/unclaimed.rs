//! Segments kept for tables that the schema does not name.
//!
//! ```text
//! <log's directory>/unclaimed/<table id as 32 hex digits>/CommitLog-*.log
//!     hard links to the segments with its records
//! <log's directory>/unclaimed/<table id>.applied/CommitLog-*.log
//!     segments whose records were applied without columns that the table lacked
//! ```
//!
//! The log itself can then remove these segments, as if the table were clean in them. Nothing
//! replays them until the table is opened. They stay until its records are in SSTables, a drop
//! record covers them, or a command removes them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use cassette_vfs::FileSystem;
use cassette_vfs::encryption::Encryption;
use hashbrown::HashMap;

use super::format::{self, Body, Found, HEADER_LEN};
use super::replay::{Entry, cipher_of, next_record};
use super::{CommitLogOptions, HandlerError, OpenError, Position, TableVersion};

const DIRECTORY: &str = "unclaimed";

/// The kept segments of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnclaimedLog {
    pub table: u128,
    /// Id, path and length of each segment, ascending.
    pub segments: Vec<(u64, PathBuf, u64)>,
}

impl UnclaimedLog {
    /// Bytes of all its segments, which may hold records of other tables too.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|(_, _, length)| length).sum()
    }
}

fn table_directory(log: &Path, table: u128) -> PathBuf {
    log.join(DIRECTORY).join(format!("{table:032x}"))
}

/// Durably links `segments` of the log into the directory of a table. No-op for those linked
/// before.
pub(crate) fn keep(fs: &dyn FileSystem, log: &Path, table: u128, segments: &BTreeSet<u64>) -> io::Result<()> {
    let directory = table_directory(log, table);
    fs.create_dir_all(&directory)?;
    for entry in fs.read_dir(log)? {
        let name = entry.name;
        if !format::parse_file_name(&name).is_some_and(|(_, id)| segments.contains(&id)) {
            continue;
        }
        match fs.hard_link(&log.join(&name), &directory.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    fs.sync_dir(log)?;
    fs.sync_dir(&log.join(DIRECTORY))?;
    fs.sync_dir(&directory)
}

/// Lists the kept segments of all tables.
pub(crate) fn list(fs: &dyn FileSystem, log: &Path) -> io::Result<Vec<UnclaimedLog>> {
    let root = log.join(DIRECTORY);
    let entries = match fs.read_dir(&root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.is_dir && entry.name.len() == 32) {
        let Ok(table) = u128::from_str_radix(&entry.name, 16) else { continue };
        found.extend(of_table(fs, log, table)?);
    }
    Ok(found)
}

/// Lists the kept segments of one table; `None` if there are none.
pub(crate) fn of_table(fs: &dyn FileSystem, log: &Path, table: u128) -> io::Result<Option<UnclaimedLog>> {
    let directory = table_directory(log, table);
    let entries = match fs.read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut segments = Vec::new();
    for file in entries {
        if let Some((_, id)) = format::parse_file_name(&file.name) {
            segments.push((id, directory.join(&file.name), file.len));
        }
    }
    segments.sort_unstable();
    Ok((!segments.is_empty()).then_some(UnclaimedLog { table, segments }))
}

/// Durably removes the kept segments of a table. No-op if there are none.
pub(crate) fn remove(fs: &dyn FileSystem, log: &Path, table: u128) -> io::Result<()> {
    match fs.remove_dir_all(&table_directory(log, table)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| fs.sync_dir(&log.join(DIRECTORY))),
    }
}

/// Durably renames the directory of a table's kept segments to one that nothing reads, and returns
/// that: `<id>.applied`, or `<id>.applied-2` and so on if the table has been lost before.
pub(crate) fn retire(fs: &dyn FileSystem, log: &Path, table: u128) -> io::Result<PathBuf> {
    let directory = table_directory(log, table);
    let mut retired = directory.with_extension("applied");
    let mut number = 1;
    while fs.exists(&retired)? {
        number += 1;
        retired = directory.with_extension(format!("applied-{number}"));
    }
    fs.rename(&directory, &retired)?;
    fs.sync_dir(&log.join(DIRECTORY))?;
    Ok(retired)
}

/// Passes the entries of kept segments to `handler`, in the order of appending. Skips damage, which
/// replay has reported when the segments were kept; changes no file.
pub(crate) fn read(
    fs: &dyn FileSystem,
    kept: &UnclaimedLog,
    encryption: Option<&dyn Encryption>,
    handler: &mut dyn FnMut(Entry<'_>) -> Result<(), HandlerError>,
) -> Result<(), OpenError> {
    for (id, path, length) in &kept.segments {
        let io_error = |source| OpenError::Io { directory: path.clone(), source };
        if *length > u64::from(CommitLogOptions::SEGMENT_SIZE_MAX) {
            let maximum = u64::from(CommitLogOptions::SEGMENT_SIZE_MAX);
            let damage = "the file is longer than any segment".into();
            return Err(OpenError::Corrupt { file: path.clone(), offset: maximum, damage });
        }
        let bytes = fs.read(path).map_err(io_error)?;
        read_segment(*id, path, &bytes, encryption, handler)?;
    }
    Ok(())
}

fn read_segment(
    id: u64,
    path: &Path,
    bytes: &[u8],
    encryption: Option<&dyn Encryption>,
    handler: &mut dyn FnMut(Entry<'_>) -> Result<(), HandlerError>,
) -> Result<(), OpenError> {
    let cipher = cipher_of(id, path, bytes, encryption)?;
    let mut dictionary: HashMap<u16, TableVersion> = HashMap::new();
    let mut offset = HEADER_LEN as usize;
    while let Some(at) = next_record(id, bytes, offset) {
        let Found::Body(body, end) = format::find(id, bytes, at) else { break };
        offset = end;
        let position = Position { segment: id, offset: end as u32 };
        let opened;
        let mut decoded = Body::decode(body);
        if let (Some(Body::Encrypted(sealed)), Some(cipher)) = (&decoded, &cipher) {
            let Some(body) = sealed.open(id, end, cipher.as_ref()) else { continue };
            opened = body;
            decoded = Body::decode(&opened);
        }
        let handled = match decoded {
            Some(Body::Dictionary { index, table, content }) => {
                dictionary.insert(index, table);
                handler(Entry::Dictionary { table, content })
            }
            Some(Body::Entry { indexes, content }) => {
                let tables = indexes.iter().map(|index| dictionary.get(&index).copied());
                match tables.collect::<Option<Vec<_>>>() {
                    Some(tables) => handler(Entry::Record { position, tables: &tables, content }),
                    None => Ok(()),
                }
            }
            Some(Body::End) => break,
            Some(
                Body::SyncMark(_) | Body::Encryption(_) | Body::Encrypted(_) | Body::Time(_) | Body::Event(_),
            )
            | None => Ok(()),
        };
        handled.map_err(|source| OpenError::Handler { file: path.to_owned(), position, source })?;
    }
    Ok(())
}
