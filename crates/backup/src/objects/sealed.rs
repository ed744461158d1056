//! The format of encrypted objects: chunks of a stream, in their order and up to its end.
//!
//! ```text
//!  0  8 bytes  "CASSBAK1"
//!  8  u16      length n of the parameters of the cipher, big-endian
//! 10  n bytes  parameters: the salt of the object's key, a check and the alias of the named key
//!     chunks   65536 bytes each and a tag of 16; the last one has 0 to 65536 bytes
//! ```
//!
//! The number of a chunk is its nonce. Authenticated with each chunk are the name of the object and
//! whether it is the last one: a chunk that is missing, repeated or in another place, and an object
//! that is stored under another name, cannot be decrypted.

use std::path::Path;
use std::sync::Arc;

use cassette_vfs::encryption::{Encryption, PARAMETERS_MAX, PieceCipher, TAG_LENGTH};

use crate::error::{Error, Result};
use crate::keys::BackupKeys;

/// Never change this: objects that exist have it.
const MAGIC: [u8; 8] = *b"CASSBAK1";
/// Bytes of content in a chunk.
pub(super) const CHUNK: usize = 64 << 10;
const SEALED: usize = CHUNK + TAG_LENGTH;
const START: usize = MAGIC.len() + 2;

/// What is authenticated with a chunk.
fn context(name: &str) -> Vec<u8> {
    [&[0], name.as_bytes()].concat()
}

/// Encrypts an object.
pub(super) struct Sealer {
    cipher: Arc<dyn PieceCipher>,
    context: Vec<u8>,
    number: u64,
    /// Less than a chunk, or a whole one that may be the last.
    chunk: Vec<u8>,
}

impl Sealer {
    /// Begins the object `name`, and appends what precedes its chunks to `out`.
    pub fn new(keys: &BackupKeys, name: &str, path: &Path, out: &mut Vec<u8>) -> Result<Self> {
        let failed = |error: String| Error::invalid(format!("{}: cannot encrypt: {error}", path.display()));
        let new = keys.encryption().begin().map_err(|error| failed(error.to_string()))?;
        let length = u16::try_from(new.parameters.len()).map_err(|error| failed(error.to_string()))?;
        out.extend(MAGIC);
        out.extend(length.to_be_bytes());
        out.extend(new.parameters);
        Ok(Self { cipher: new.cipher, context: context(name), number: 0, chunk: Vec::with_capacity(CHUNK) })
    }

    /// Appends what can be encrypted to `out`.
    pub fn push(&mut self, mut content: &[u8], out: &mut Vec<u8>) {
        while !content.is_empty() {
            if self.chunk.len() == CHUNK {
                self.seal(false, out);
            }
            let (now, later) = content.split_at(content.len().min(CHUNK - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            content = later;
        }
    }

    /// Appends the last chunk to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.seal(true, out);
    }

    fn seal(&mut self, is_last: bool, out: &mut Vec<u8>) {
        self.context[0] = u8::from(is_last);
        let tag = self.cipher.seal(self.number, &self.context, &mut self.chunk);
        out.extend_from_slice(&self.chunk);
        out.extend(tag);
        self.chunk.clear();
        self.number += 1;
    }
}

/// Decrypts an object.
pub(super) struct Opener<'a> {
    keys: &'a BackupKeys,
    path: &'a Path,
    context: Vec<u8>,
    /// Present after the parameters.
    cipher: Option<Arc<dyn PieceCipher>>,
    number: u64,
    /// Less than what is decrypted together, or a whole chunk that may be the last.
    pending: Vec<u8>,
}

impl<'a> Opener<'a> {
    pub fn new(keys: &'a BackupKeys, name: &str, path: &'a Path) -> Self {
        Self {
            keys,
            path,
            context: context(name),
            cipher: None,
            number: 0,
            pending: Vec::with_capacity(SEALED),
        }
    }

    /// Passes the content that is complete to `each`.
    pub fn push(&mut self, mut sealed: &[u8], each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        while !sealed.is_empty() {
            let wanted = if self.cipher.is_some() { SEALED } else { self.start_length()? };
            if self.pending.len() == wanted {
                match self.cipher.clone() {
                    Some(cipher) => self.open(cipher.as_ref(), false, each)?,
                    None => self.begin()?,
                }
                continue;
            }
            let (now, later) = sealed.split_at(sealed.len().min(wanted - self.pending.len()));
            self.pending.extend_from_slice(now);
            sealed = later;
        }
        Ok(())
    }

    /// Passes the last chunk to `each`.
    ///
    /// # Errors
    /// Damaged, if the object ends before its end.
    pub fn finish(mut self, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self.cipher.take() {
            Some(cipher) => self.open(cipher.as_ref(), true, each),
            None => Err(self.damaged("it is cut off or not encrypted")),
        }
    }

    /// Returns the length of what precedes the chunks, as far as it is known.
    fn start_length(&self) -> Result<usize> {
        let Some(start) = self.pending.first_chunk::<START>() else { return Ok(START) };
        let [magic @ .., high, low] = start;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *magic != MAGIC || length == 0 || length > PARAMETERS_MAX {
            return Err(self.damaged("it is not encrypted, or by a later version"));
        }
        Ok(START + length)
    }

    fn begin(&mut self) -> Result<()> {
        let parameters = self.pending.get(START..).unwrap_or_default();
        let cipher = self.keys.encryption().resume(parameters);
        let cipher = cipher
            .map_err(|error| Error::invalid(format!("{}: cannot decrypt: {error}", self.path.display())))?;
        self.cipher = Some(cipher);
        self.pending.clear();
        Ok(())
    }

    fn open(
        &mut self,
        cipher: &dyn PieceCipher,
        is_last: bool,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.context[0] = u8::from(is_last);
        let mut sealed = std::mem::take(&mut self.pending);
        match cipher.open(self.number, &self.context, &mut sealed) {
            Some(content) if !content.is_empty() => each(content)?,
            Some(_) => {}
            None => {
                let what = if is_last { "its end" } else { "a part of it" };
                return Err(self.damaged(&format!(
                    "{what} is missing, was changed, or belongs to another object (chunk {})",
                    self.number
                )));
            }
        }
        self.number += 1;
        sealed.clear();
        self.pending = sealed;
        Ok(())
    }

    fn damaged(&self, detail: &str) -> Error {
        Error::damaged(self.path, format!("it cannot be decrypted: {detail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(byte: u8) -> BackupKeys {
        BackupKeys::parse(&format!("a {}\n", format!("{byte:02x}").repeat(32))).unwrap()
    }

    fn seal(name: &str, content: &[u8], step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sealer = Sealer::new(&keys(1), name, Path::new(name), &mut out).unwrap();
        content.chunks(step).for_each(|part| sealer.push(part, &mut out));
        sealer.finish(&mut out);
        out
    }

    fn open(keys: &BackupKeys, name: &str, sealed: &[u8], step: usize) -> Result<Vec<u8>> {
        let path = Path::new(name);
        let (mut opener, mut found) = (Opener::new(keys, name, path), Vec::new());
        let mut each = |part: &[u8]| {
            found.extend_from_slice(part);
            Ok(())
        };
        sealed.chunks(step).try_for_each(|part| opener.push(part, &mut each))?;
        opener.finish(&mut each)?;
        Ok(found)
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 3 % 251) as u8).collect()
    }

    #[test]
    fn objects_of_any_length_read_back_in_parts_of_any_length() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7] {
            let content = content(length);
            for step in [7, 1000, CHUNK, CHUNK + 16, 1 << 20] {
                let sealed = seal("n", &content, step);
                assert!(open(&keys(1), "n", &sealed, step).unwrap() == content, "{length} by {step}");
            }
            let other = seal("n", &content, 1000);
            assert_ne!(seal("n", &content, 1000), other, "two objects have two keys");
        }
    }

    #[test]
    fn a_changed_byte_and_a_missing_end_are_noticed() {
        let sealed = seal("n", &content(CHUNK + 5), 1000);
        let start = sealed.len() - (CHUNK + 5 + 2 * TAG_LENGTH);
        for at in (0..start + 20).chain([start + CHUNK, start + SEALED, sealed.len() - 1]) {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(open(&keys(1), "n", &changed, 4096).is_err(), "byte {at}");
        }
        for length in (0..start + 20).chain([start + SEALED - 1, start + SEALED, sealed.len() - 1]) {
            assert!(open(&keys(1), "n", &sealed[..length], 4096).is_err(), "{length} bytes");
        }
        let longer = [&sealed[..], &[0; 20]].concat();
        assert!(open(&keys(1), "n", &longer, 4096).is_err());
    }

    #[test]
    fn exchanged_chunks_and_exchanged_objects_are_noticed() {
        let sealed = seal("n", &content(3 * CHUNK), 1 << 20);
        let start = sealed.len() - 3 * SEALED;
        let chunk = |number: usize| &sealed[start + number * SEALED..start + (number + 1) * SEALED];
        for order in [[1, 0, 2], [0, 2, 1], [0, 0, 2], [0, 1, 1]] {
            let parts: Vec<&[u8]> = order.iter().map(|number| chunk(*number)).collect();
            let exchanged = [&sealed[..start], &parts.concat()].concat();
            assert!(open(&keys(1), "n", &exchanged, 4096).is_err(), "{order:?}");
        }
        let other = seal("m", &content(3 * CHUNK), 1 << 20);
        assert!(open(&keys(1), "n", &other, 4096).is_err(), "an object under another name");
        let mixed = [&sealed[..start + SEALED], &other[start + SEALED..]].concat();
        assert!(open(&keys(1), "n", &mixed, 4096).is_err(), "chunks of two objects");
    }

    #[test]
    fn another_key_and_a_plain_object_are_named() {
        let sealed = seal("n", b"content", 7);
        let error = open(&keys(2), "n", &sealed, 4096).unwrap_err().to_string();
        assert!(error.contains("key \"a\" is not the one that the file was encrypted with"), "{error}");
        let other = BackupKeys::parse(&format!("b {}\n", "02".repeat(32))).unwrap();
        let error = open(&other, "n", &sealed, 4096).unwrap_err().to_string();
        assert!(error.contains("key \"a\" is not in the specified file"), "{error}");
        let error = open(&keys(1), "n", b"{\"format\": 1, \"more\": 2}", 4096).unwrap_err().to_string();
        assert!(error.contains("it is not encrypted"), "{error}");
    }
}
