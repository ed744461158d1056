//! Files copied with their checksums.

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

/// Reads a file to its end, and passes its blocks to `each`.
fn read(fs: &dyn FileSystem, path: &Path, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<Content> {
    let file = fs.open(path).map_err(Error::io(path, "open"))?;
    let (mut block, mut bytes, mut hasher) = (vec![0; BLOCK], 0, Hasher::new());
    loop {
        let read = file.read_at(&mut block, bytes).map_err(Error::io(path, "read"))?;
        let Some(part) = block.get(..read).filter(|part| !part.is_empty()) else { break };
        hasher.update(part);
        each(part)?;
        bytes += read as u64;
    }
    Ok(Content { bytes, crc32: hasher.finalize() })
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
