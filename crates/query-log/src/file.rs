//! The layout of a file: a header, records, and a mark where it was closed.
//!
//! ```text
//! header   magic "CSTQLOG\n" | version u16 | kind u16 | created i64 | number u64 | CRC32
//! record   length u32 | CRC32 | length bytes
//! end      length 0   | CRC32
//! ```
//!
//! All numbers are big-endian. The checksum of the header covers the bytes before it. That of a
//! record covers the number of the file, the number of the record in it (from 0), the length and
//! the bytes: a record that is missing, repeated or moved is found. The end is a record without
//! bytes. A file without it is being written, or its writer ended without closing it.

use std::io;
use std::path::{Path, PathBuf};

use cassette_vfs::FileSystem;

use crate::codec::Fields;

const MAGIC: [u8; 8] = *b"CSTQLOG\n";
const VERSION: u16 = 1;

/// The length of the header of a file, bytes.
pub const FILE_HEADER_LENGTH: usize = 32;

/// The length of the header of a record, bytes.
pub const RECORD_HEADER_LENGTH: usize = 8;

/// The longest record: a message of the maximum length, with some space for its other fields.
pub const RECORD_LENGTH_MAX: usize = 300 << 20;

/// What a log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`AuditEntry`](crate::AuditEntry)s.
    Audit,
    /// [`LoggedQuery`](crate::LoggedQuery)s.
    Queries,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Audit, Self::Queries];

    fn code(self) -> u16 {
        match self {
            Self::Audit => 1,
            Self::Queries => 2,
        }
    }

    /// Returns the first part of the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Queries => "queries",
        }
    }
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    /// Milliseconds since 1970.
    pub created: i64,
    /// One more than that of the previous file of the directory.
    pub number: u64,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEADER_LENGTH);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.kind.code().to_be_bytes());
        out.extend_from_slice(&self.created.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out
    }

    pub fn decode(bytes: &[u8; FILE_HEADER_LENGTH]) -> Result<Self, String> {
        let mut fields = Fields(bytes);
        let mut read = || {
            let magic = fields.array::<8>()?;
            Ok::<_, crate::Malformed>((
                magic,
                fields.u16()?,
                fields.u16()?,
                fields.i64()?,
                fields.u64()?,
                fields.u32()?,
            ))
        };
        let (magic, version, kind, created, number, checksum) = read().map_err(|e| e.to_string())?;
        if magic != MAGIC {
            return Err("it is no file of an audit log or full query log".to_owned());
        }
        if crc32fast::hash(&bytes[..FILE_HEADER_LENGTH - 4]) != checksum {
            return Err("the checksum of its header is wrong".to_owned());
        }
        if version != VERSION {
            return Err(format!("its version is {version}: expected {VERSION}"));
        }
        let kind = Kind::ALL.into_iter().find(|known| known.code() == kind);
        let kind = kind.ok_or_else(|| "its kind is unknown".to_owned())?;
        Ok(Self { kind, created, number })
    }
}

/// Appends a record, or the end if `bytes` is empty.
pub(crate) fn put_record(out: &mut Vec<u8>, file: u64, record: u64, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&checksum(file, record, bytes).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Returns the checksum of a record.
pub(crate) fn checksum(file: u64, record: u64, bytes: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&file.to_be_bytes());
    checksum.update(&record.to_be_bytes());
    checksum.update(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    checksum.update(bytes);
    checksum.finalize()
}

/// Returns the path of a file. Its names sort by number.
pub(crate) fn path(directory: &Path, header: &Header) -> PathBuf {
    directory.join(format!("{}-{:010}-{}.log", header.kind.name(), header.number, header.created))
}

/// Returns kind and number of a file's name; `None` for other names.
pub(crate) fn parse_name(name: &str) -> Option<(Kind, u64)> {
    let mut parts = name.strip_suffix(".log")?.split('-');
    let kind = parts.next()?;
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
    let number = parts.next()?.parse().ok()?;
    parts.next()?.parse::<i64>().ok()?;
    parts.next().is_none().then_some((kind, number))
}

/// Removes a file that its owner may have moved elsewhere.
pub(crate) fn remove_if_present(fs: &dyn FileSystem, path: &Path) -> io::Result<()> {
    match fs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
