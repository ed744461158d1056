//! Objects whose contents are encrypted.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::sealed::{Opener, Sealer};
use super::{Entry, Objects, WHOLE_LENGTH_MAX};
use crate::error::{Error, Result};
use crate::keys::BackupKeys;

/// Encrypts the objects of another store. Their names stay as they are.
pub(crate) struct EncryptedObjects {
    inner: Arc<dyn Objects>,
    keys: BackupKeys,
}

impl fmt::Debug for EncryptedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EncryptedObjects").field(&self.inner).finish()
    }
}

impl EncryptedObjects {
    pub fn new(inner: Arc<dyn Objects>, keys: BackupKeys) -> Self {
        Self { inner, keys }
    }
}

impl Objects for EncryptedObjects {
    /// The lengths are those of encrypted contents.
    fn list(&self, prefix: &str) -> Result<Vec<Entry>> {
        self.inner.list(prefix)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut content = Vec::new();
        let exists = self.stream(name, &mut |part| {
            if (content.len() + part.len()) as u64 > WHOLE_LENGTH_MAX {
                let detail = format!("expected at most {WHOLE_LENGTH_MAX} bytes, found more");
                return Err(Error::damaged(&self.describe(name), detail));
            }
            content.extend_from_slice(part);
            Ok(())
        })?;
        Ok(exists.then_some(content))
    }

    fn stream(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let path = self.describe(name);
        let mut opener = Opener::new(&self.keys, name, &path);
        let exists = self.inner.stream(name, &mut |part| opener.push(part, each))?;
        if exists {
            opener.finish(each)?;
        }
        Ok(exists)
    }

    fn put_parts(&self, name: &str, next: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let mut start = Vec::new();
        let mut sealer = Sealer::new(&self.keys, name, &self.describe(name), &mut start)?;
        let (mut part, mut is_done) = (Vec::new(), false);
        self.inner.put_parts(name, &mut |out| {
            let before = out.len();
            out.append(&mut start);
            // Nothing is appended at the end alone.
            while !is_done && out.len() == before {
                part.clear();
                next(&mut part)?;
                if part.is_empty() {
                    sealer.finish(out);
                    is_done = true;
                } else {
                    sealer.push(&part, out);
                }
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    /// No file has the content.
    fn file(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn describe(&self, name: &str) -> PathBuf {
        self.inner.describe(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cassette_vfs::{FakeFileSystem, FileSystem};

    use super::super::DirectoryObjects;
    use super::*;

    #[test]
    fn contents_read_back_and_are_not_on_the_disk() {
        let fs = FakeFileSystem::new();
        let plain = Arc::new(DirectoryObjects::new(Arc::new(fs.clone()), Path::new("/b")));
        let keys = BackupKeys::parse(&format!("a {}\n", "07".repeat(32))).unwrap();
        let objects = EncryptedObjects::new(plain.clone(), keys);
        assert_eq!(objects.read("files/x").unwrap(), None);
        let content = b"a secret ".repeat(30_000);
        for content in [&content[..], b"", b"short"] {
            objects.put("files/x", content).unwrap();
            assert!(objects.read("files/x").unwrap().unwrap() == content);
            let stored = plain.read("files/x").unwrap().unwrap();
            assert!(!stored.windows(6).any(|window| window == b"secret"));
        }
        assert_eq!(objects.list("files").unwrap().len(), 1);
        assert_eq!(objects.file("files/x"), None);
        // Under another name.
        let stored = plain.read("files/x").unwrap().unwrap();
        plain.put("files/y", &stored).unwrap();
        assert!(matches!(objects.read("files/y"), Err(Error::Damaged { .. })));
        objects.remove("files/x").unwrap();
        assert!(!(&fs as &dyn FileSystem).exists(Path::new("/b/files/x")).unwrap());
    }
}
