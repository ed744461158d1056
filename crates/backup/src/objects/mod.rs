//! Objects: named contents that are written once, in a directory or a bucket.

mod directory;
mod encrypted;
#[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only object stores need it"))]
mod lease;
#[cfg(feature = "s3")]
mod remote;
mod sealed;
#[cfg(feature = "s3")]
mod tls;
#[cfg(all(test, feature = "s3"))]
mod tls_tests;

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

pub(crate) use directory::DirectoryObjects;
pub(crate) use encrypted::EncryptedObjects;
pub(crate) use lease::Lease;
#[cfg(feature = "s3")]
pub(crate) use remote::RemoteObjects;

/// The maximum length of an object that is read as a whole, bytes.
pub(crate) const WHOLE_LENGTH_MAX: u64 = 256 << 20;

/// Named contents. Names are relative, with `/` between their parts.
///
/// An object appears with all its content or not at all, and survives a crash of the machine as
/// soon as the call that stores it returns.
pub(crate) trait Objects: fmt::Debug + Send + Sync {
    /// Returns the objects below `prefix`, sorted by name.
    fn list(&self, prefix: &str) -> Result<Vec<Entry>>;

    /// Returns the content of an object of at most [`WHOLE_LENGTH_MAX`] bytes; `None` if it does
    /// not exist.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Passes the content of an object to `each`, in parts. Returns false if it does not exist.
    fn stream(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool>;

    /// Stores an object, in place of one that exists.
    fn put(&self, name: &str, content: &[u8]) -> Result<()> {
        let mut rest = Some(content);
        self.put_parts(name, &mut |part| {
            part.extend_from_slice(rest.take().unwrap_or_default());
            Ok(())
        })
    }

    /// Stores an object whose parts `next` appends to a buffer, until it appends nothing.
    fn put_parts(&self, name: &str, next: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>) -> Result<()>;

    /// Removes an object; no-op if it does not exist.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes what interrupted writes of objects below `prefix` left, if that takes space that
    /// only this removal frees. Nothing else may be writing there.
    fn remove_temporary(&self, prefix: &str) -> Result<()> {
        let _ = prefix;
        Ok(())
    }

    /// Returns the file with the content of an object, if it is one.
    fn file(&self, name: &str) -> Option<PathBuf>;

    /// Returns the name of an object in messages.
    fn describe(&self, name: &str) -> PathBuf;
}

/// Objects that several machines change, with the operations that a [`Lease`] needs. An object that
/// was created or replaced so exists once: of concurrent attempts, one succeeds.
pub(crate) trait SharedObjects: Objects {
    /// Returns the content of a small object, and its version.
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>>;

    /// Stores an object, unless it exists. Returns whether it was stored.
    fn create(&self, name: &str, content: &[u8]) -> Result<bool>;

    /// Stores an object in place of this version. Returns whether it was stored.
    fn replace(&self, name: &str, content: &[u8], version: &Version) -> Result<bool>;
}

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub bytes: u64,
}

/// The version of an object's content.
#[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only object stores have versions"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version(String);

/// Stores a value as JSON, followed by a line with its checksum.
pub(crate) fn put_json(objects: &dyn Objects, name: &str, value: &impl Serialize) -> Result<()> {
    objects.put(name, &encode(value))
}

/// Reads a value that [`put_json`] stored; `None` if it does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(objects: &dyn Objects, name: &str) -> Result<Option<T>> {
    let Some(content) = objects.read(name)? else { return Ok(None) };
    decode(&content).map(Some).map_err(|detail| Error::damaged(&objects.describe(name), detail))
}

/// Reads the text of a value that [`put_json`] stored, without decoding it.
pub(crate) fn read_text(objects: &dyn Objects, name: &str) -> Result<Option<Vec<u8>>> {
    let Some(content) = objects.read(name)? else { return Ok(None) };
    let damaged = |detail| Error::damaged(&objects.describe(name), detail);
    checked(&content).map(|json| Some(json.as_bytes().to_vec())).map_err(damaged)
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("strings and numbers can be encoded");
    text.extend(format!("\ncrc32 {}\n", crc32fast::hash(&text)).into_bytes());
    text
}

fn decode<T: DeserializeOwned>(content: &[u8]) -> std::result::Result<T, String> {
    serde_json::from_str(checked(content)?).map_err(|error| error.to_string())
}

/// Returns what precedes the checksum, if that is right.
fn checked(content: &[u8]) -> std::result::Result<&str, String> {
    let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
    let (json, checksum) = text.trim_end().rsplit_once("\ncrc32 ").ok_or("expected a checksum at its end")?;
    let found = crc32fast::hash(json.as_bytes()).to_string();
    if checksum != found {
        return Err(format!("expected checksum {checksum} as at its end, found {found}"));
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_back_and_every_changed_byte_is_noticed() {
        let value = vec!["a".to_owned(), "crc32 7".to_owned()];
        let encoded = encode(&value);
        assert_eq!(decode::<Vec<String>>(&encoded), Ok(value));
        for at in 0..encoded.len() - 1 {
            let mut changed = encoded.clone();
            changed[at] ^= 1;
            assert!(decode::<Vec<String>>(&changed).is_err(), "byte {at}");
        }
    }
}
