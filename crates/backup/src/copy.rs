//! Files copied with their checksums.

use std::fmt::Write as _;
use std::path::Path;

use cassette_vfs::FileSystem;
use crc32fast::Hasher;

use crate::error::{Error, Result};

/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;

/// The length and the checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub bytes: u64,
    pub crc32: u32,
}

/// Computes the content of what it is passed.
#[derive(Default)]
pub(crate) struct Digest {
    bytes: u64,
    hasher: Hasher,
}

impl Digest {
    pub fn update(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        self.hasher.update(part);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn content(&self) -> Content {
        Content { bytes: self.bytes, crc32: self.hasher.clone().finalize() }
    }

    pub fn finish(self) -> Content {
        self.content()
    }
}

/// Reads a file to its end, and passes its blocks to `each`.
pub(crate) fn read(
    fs: &dyn FileSystem,
    path: &Path,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Content> {
    let file = fs.open(path).map_err(Error::io(path, "open"))?;
    let (mut block, mut digest) = (vec![0; BLOCK], Digest::default());
    loop {
        let read = file.read_at(&mut block, digest.bytes).map_err(Error::io(path, "read"))?;
        let Some(part) = block.get(..read).filter(|part| !part.is_empty()) else { break };
        digest.update(part);
        each(part)?;
    }
    Ok(digest.finish())
}

/// Reads a file of at most `maximum` bytes.
///
/// # Errors
/// Damaged, if it is longer; otherwise those of the file system.
pub(crate) fn read_small(fs: &dyn FileSystem, path: &Path, maximum: u64) -> Result<Vec<u8>> {
    let length = fs.metadata(path).map_err(Error::io(path, "examine"))?.len;
    if length > maximum {
        return Err(Error::damaged(path, format!("expected at most {maximum} bytes, found {length}")));
    }
    fs.read(path).map_err(Error::io(path, "read"))
}

/// Returns the content of a file without copying it.
pub(crate) fn examine(fs: &dyn FileSystem, path: &Path) -> Result<Content> {
    read(fs, path, |_| Ok(()))
}

/// Copies a file and syncs the copy; its name is durable after its directory is synced.
pub(crate) fn copy(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<Content> {
    let mut out = fs.create(to).map_err(Error::io(to, "create"))?;
    let content = read(fs, from, |part| out.write_all(part).map_err(Error::io(to, "write")))?;
    out.sync().map_err(Error::io(to, "sync"))?;
    Ok(content)
}

/// Writes a file and syncs it; its name is durable after its directory is synced.
pub(crate) fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<Content> {
    let mut out = fs.create(path).map_err(Error::io(path, "create"))?;
    out.write_all(bytes).map_err(Error::io(path, "write"))?;
    out.sync().map_err(Error::io(path, "sync"))?;
    Ok(Content { bytes: bytes.len() as u64, crc32: crc32fast::hash(bytes) })
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
