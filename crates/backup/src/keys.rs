//! Keys of encrypted backups.
//!
//! A file has one key a line, as for the encryption of the commit log. The first one encrypts; the
//! others decrypt what was stored before they were replaced.

use std::fmt;
use std::sync::Arc;

use cassette_encryption::{AesGcm, Key, KeyError, Keys, keys_in_file};
use ring::hmac;

use crate::copy::hex;

/// Domains of derived keys: what is derived for one purpose reveals nothing of another.
const NAMES: &[u8] = b"cassette backup names";
const ID: &[u8] = b"cassette backup key id";
/// Bytes of a key's id. It distinguishes the keys of one user, and reveals nothing of them.
const ID_LENGTH: usize = 8;

/// The keys of encrypted backups. Clones share them.
#[derive(Clone)]
pub struct BackupKeys(Arc<Inner>);

struct Inner {
    alias: String,
    /// The id of the key that encrypts, in hexadecimal digits.
    id: String,
    names: hmac::Key,
    pub encryption: AesGcm,
}

/// Omits the keys.
impl fmt::Debug for BackupKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupKeys").field("alias", &self.0.alias).finish_non_exhaustive()
    }
}

/// The keys of a file.
#[derive(Debug)]
struct FileKeys(Vec<(String, Key)>);

impl Keys for FileKeys {
    fn key(&self, alias: &str) -> Result<Key, KeyError> {
        let found = self.0.iter().find(|(known, _)| known == alias);
        found.map(|(_, key)| key.clone()).ok_or_else(|| {
            KeyError(format!(
                "key \"{alias}\" is not in the specified file: add the line with this key to it, or specify the file \
                 that has it"
            ))
        })
    }
}

impl BackupKeys {
    /// Parses a file with keys, one a line: an alias, white space, and 128 or 256 bits in
    /// hexadecimal digits or base64. The first key encrypts.
    ///
    /// # Errors
    /// If a line is invalid, an alias occurs twice, or there is no key. The text contains no key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let keys = keys_in_file(text)?;
        let Some((alias, key)) = keys.first().cloned() else {
            return Err(KeyError("expected at least one key, found none".to_owned()));
        };
        let id = hex(&key.derive(ID)[..ID_LENGTH]);
        let names = hmac::Key::new(hmac::HMAC_SHA256, &key.derive(NAMES));
        let encryption = AesGcm::new(FileKeys(keys), Some(alias.clone()))?;
        Ok(Self(Arc::new(Inner { alias, id, names, encryption })))
    }

    /// Returns the alias of the key that encrypts.
    pub fn alias(&self) -> &str {
        &self.0.alias
    }

    /// Returns the id of the key that encrypts.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    pub(crate) fn encryption(&self) -> &AesGcm {
        &self.0.encryption
    }

    /// Returns the name of the object with a content: the same for equal contents, and of no use
    /// without the key, not even to test whether a known content is stored.
    pub(crate) fn content_name(&self, sha256: &[u8]) -> String {
        format!("{}-{}", self.0.id, hex(hmac::sign(&self.0.names, sha256).as_ref()))
    }

    /// Whether an object with this name was encrypted with the present key.
    pub(crate) fn is_current(&self, object: &str) -> bool {
        object.strip_prefix(&self.0.id).is_some_and(|rest| rest.starts_with('-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[(&str, u8)]) -> BackupKeys {
        let line = |(alias, byte): &(&str, u8)| format!("{alias} {}\n", hex(&[*byte; 32]));
        BackupKeys::parse(&lines.iter().map(line).collect::<String>()).unwrap()
    }

    #[test]
    fn names_of_contents_depend_on_the_first_key_and_the_content_alone() {
        let (one, other) = (keys(&[("a", 1)]), keys(&[("b", 2), ("a", 1)]));
        assert_eq!(one.content_name(b"x"), keys(&[("renamed", 1), ("b", 2)]).content_name(b"x"));
        assert_ne!(one.content_name(b"x"), one.content_name(b"y"));
        assert_ne!(one.content_name(b"x"), other.content_name(b"x"));
        assert!(one.is_current(&one.content_name(b"x")) && !other.is_current(&one.content_name(b"x")));
        assert_eq!((one.alias(), other.alias()), ("a", "b"));
        assert!(!format!("{one:?}").contains(&hex(&[1; 8])), "{one:?}");
    }

    #[test]
    fn files_without_usable_keys_are_rejected() {
        for text in ["", "# none\n", "a\n", "a 00\n", "a 000102030405060708090a0b0c0d0e0f extra\n"] {
            assert!(BackupKeys::parse(text).is_err(), "{text:?}");
        }
    }
}
