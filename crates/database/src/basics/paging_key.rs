//! The key that authenticates paging states.
//!
//! Clients store paging states and send them back. Without authentication, a forged state could
//! direct a read to any position. The key belongs to the data directory, so states remain valid
//! across restarts:
//!
//! ```text
//! <data_dir>/paging_key    "CASSPKEY", 32 random bytes, u32 crc32 of all before      big-endian
//! ```

use std::fmt;
use std::path::Path;

use cassette_rows::StorageError;
use cassette_vfs::FileSystem;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result};

const MAGIC: &[u8; 8] = b"CASSPKEY";
const FILE_NAME: &str = "paging_key";
/// The length of a tag in bytes. HMAC-SHA256 is truncated from 32 bytes; 16 resist guessing.
pub(crate) const TAG_LENGTH: usize = 16;

/// The key of a data directory.
pub(crate) struct PagingKey(Hmac<Sha256>);

impl fmt::Debug for PagingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PagingKey")
    }
}

impl PagingKey {
    /// Reads the key of the data directory, or creates one: `new`, or a random one. The directory
    /// must be locked. A damaged key is replaced, which invalidates the paging states of clients.
    ///
    /// # Errors
    /// Server, if the file can be neither read nor written.
    pub fn open(fs: &dyn FileSystem, directory: &Path, new: Option<[u8; 32]>) -> Result<Self> {
        let path = directory.join(FILE_NAME);
        let failed = |action: &str, error: std::io::Error| {
            DatabaseError::storage(StorageError::io(&path, action, error))
        };
        if fs.exists(&path).map_err(|error| failed("find", error))? {
            let content = fs.read(&path).map_err(|error| failed("read", error))?;
            match decode(&content) {
                Some(key) => return Ok(Self::new(key)),
                None => tracing::warn!(
                    path = %path.display(),
                    "the key of paging states was damaged and has been replaced; earlier paging states are rejected"
                ),
            }
        }
        let key = new.unwrap_or_else(random);
        let mut content = MAGIC.to_vec();
        content.extend_from_slice(&key);
        content.extend_from_slice(&crc32fast::hash(&content).to_be_bytes());
        fs.write_atomically(&path, &content).map_err(|error| failed("write", error))?;
        Ok(Self::new(&key))
    }

    fn new(key: &[u8; 32]) -> Self {
        // HMAC pads keys with zeros to the size of a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// Returns the tag of a state within a scope.
    pub fn tag(&self, scope: &PagingScope, state: &[u8]) -> [u8; TAG_LENGTH] {
        let mut tag = [0; TAG_LENGTH];
        tag.copy_from_slice(&self.mac(scope, state).finalize().into_bytes()[..TAG_LENGTH]);
        tag
    }

    /// Returns whether a tag is that of a state within a scope, in constant time.
    pub fn verifies(&self, scope: &PagingScope, state: &[u8], tag: &[u8; TAG_LENGTH]) -> bool {
        self.mac(scope, state).verify_truncated_left(tag).is_ok()
    }

    fn mac(&self, scope: &PagingScope, state: &[u8]) -> Hmac<Sha256> {
        // The scope has a fixed length, so that no state reads as part of it.
        self.0.clone().chain_update(scope.table.as_bytes()).chain_update(scope.statement).chain_update(state)
    }
}

fn random() -> [u8; 32] {
    // Version 4 UUIDs are random except for six bits each.
    let mut key = [0; 32];
    let (first, second) = key.split_at_mut(16);
    first.copy_from_slice(Uuid::new_v4().as_bytes());
    second.copy_from_slice(Uuid::new_v4().as_bytes());
    key
}

fn decode(content: &[u8]) -> Option<&[u8; 32]> {
    let (checked, checksum) = content.split_last_chunk::<4>()?;
    let key = checked.strip_prefix(MAGIC)?;
    (crc32fast::hash(checked) == u32::from_be_bytes(*checksum)).then_some(key)?.try_into().ok()
}

/// The statement and table that a paging state belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PagingScope {
    /// The table's id.
    pub table: Uuid,
    /// The digest of the statement's text, which is independent of when and how it is prepared.
    pub statement: [u8; 16],
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;

    const SCOPE: PagingScope = PagingScope { table: Uuid::nil(), statement: [7; 16] };

    fn tag(fs: &FakeFileSystem) -> [u8; TAG_LENGTH] {
        PagingKey::open(fs, Path::new(""), None).unwrap().tag(&SCOPE, b"state")
    }

    #[test]
    fn a_key_survives_crashes_and_is_replaced_when_damaged() {
        let fs = FakeFileSystem::new();
        let first = tag(&fs);
        assert_ne!(first, tag(&FakeFileSystem::new()));
        for seed in 0..5 {
            assert_eq!(tag(&fs.fork().crash(seed)), first);
        }
        fs.corrupt(Path::new(FILE_NAME), 20, 1);
        let replaced = tag(&fs);
        assert_ne!(replaced, first);
        assert_eq!(tag(&fs), replaced);
    }

    #[test]
    fn a_tag_holds_for_one_state_of_one_statement_and_table() {
        let key = PagingKey::open(&FakeFileSystem::new(), Path::new(""), None).unwrap();
        let tag = key.tag(&SCOPE, b"state");
        assert!(key.verifies(&SCOPE, b"state", &tag));
        assert!(!key.verifies(&SCOPE, b"State", &tag));
        assert!(!key.verifies(&PagingScope { table: Uuid::max(), ..SCOPE }, b"state", &tag));
        assert!(!key.verifies(&PagingScope { statement: [8; 16], ..SCOPE }, b"state", &tag));
        let mut other = tag;
        other[15] ^= 1;
        assert!(!key.verifies(&SCOPE, b"state", &other));
    }
}
