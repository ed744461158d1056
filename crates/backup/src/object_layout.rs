//! A repository of objects: contents by their checksums, and manifests that name them.
//!
//! ```text
//! cassette-backups.json       makes the prefix a repository
//! lock                        the lease of the command that changes it
//! files/<sha-256>             the content of a file, once for all backups that have it
//! backups/<backup>.json       the manifest of a backup, with its checksum
//! log/<chain>/...             the archived commit log
//! ```
//!
//! A backup exists when its manifest does, which is stored after all its files. Files that no
//! manifest names are removed with the next backup that is removed.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cassette_vfs::FileSystem;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::copy::{Digest, read};
use crate::error::{Error, Result};
use crate::manifest::{FileRecord, Manifest};
use crate::objects::{Lease, Objects, SharedObjects, put_json, read_json};

const MARKER: &str = "cassette-backups.json";
const LOCK: &str = "lock";
const FORMAT: u32 = 1;
/// Bytes of a file that are passed to the store at once.
const BLOCK: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
}

/// An open repository of objects.
pub(crate) struct ObjectLayout {
    pub objects: Arc<dyn Objects>,
    /// Held if the repository was opened for changes.
    lease: Option<Lease>,
}

impl ObjectLayout {
    /// Opens a repository; creates it in an empty prefix if it is opened for changes.
    pub fn open(shared: Arc<dyn SharedObjects>, changes: bool) -> Result<Self> {
        let objects: Arc<dyn Objects> = Arc::<dyn SharedObjects>::clone(&shared);
        let shown = objects.describe("").display().to_string();
        let lease = if changes { Some(Lease::acquire(&shared)?) } else { None };
        match read_json::<Marker>(objects.as_ref(), MARKER)? {
            Some(Marker { format: FORMAT }) => {}
            Some(Marker { format }) => {
                return Err(Error::invalid(format!(
                    "{shown}: expected format {FORMAT}, found {format}: use the version of cassette that wrote it"
                )));
            }
            None if !changes => {
                return Err(Error::invalid(format!("{shown}: expected backups, found no {MARKER}")));
            }
            None => {
                let found = objects.list("")?;
                if let Some(other) = found.iter().find(|entry| entry.name != LOCK) {
                    return Err(Error::invalid(format!(
                        "{shown}: expected an empty prefix or one of backups, found {}; specify another prefix",
                        other.name
                    )));
                }
                put_json(objects.as_ref(), MARKER, &Marker { format: FORMAT })?;
            }
        }
        Ok(Self { objects, lease })
    }

    /// Checks that no other command can change the repository.
    fn check_lease(&self) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), Lease::check)
    }

    /// Returns the names of the backups.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = self.objects.list("backups")?;
        let name = |name: &str| Some(name.strip_prefix("backups/")?.strip_suffix(".json")?.to_owned());
        Ok(entries.iter().filter_map(|entry| name(&entry.name)).collect())
    }

    /// Returns the manifest of a backup.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        let object = format!("backups/{name}.json");
        let damaged = |detail: &str| Error::damaged(&self.objects.describe(&object), detail);
        let value: serde_json::Value =
            read_json(self.objects.as_ref(), &object)?.ok_or_else(|| damaged("the manifest is missing"))?;
        let content = serde_json::to_vec(&value).map_err(|error| damaged(&error.to_string()))?;
        Manifest::decode(&content).map_err(|detail| damaged(&detail))
    }

    /// Makes a backup exist.
    pub fn put_manifest(&self, name: &str, manifest: &Manifest) -> Result<()> {
        self.check_lease()?;
        put_json(self.objects.as_ref(), &format!("backups/{name}.json"), manifest)
    }

    /// Removes a backup, and then the files that no other has.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.check_lease()?;
        self.objects.remove(&format!("backups/{name}.json"))?;
        let mut needed = HashSet::new();
        // An unreadable manifest may name any of them.
        for name in self.names()? {
            needed.extend(self.manifest(&name)?.files().filter_map(|file| file.object.clone()));
        }
        for name in self.files()?.difference(&needed) {
            self.check_lease()?;
            self.objects.remove(&object_name(name))?;
        }
        Ok(())
    }

    /// Returns the names of the stored files.
    pub fn files(&self) -> Result<HashSet<String>> {
        let entries = self.objects.list("files")?;
        let name = |name: &str| name.strip_prefix("files/").map(str::to_owned);
        Ok(entries.iter().filter_map(|entry| name(&entry.name)).collect())
    }

    /// Stores a file, unless `known` has its content, and adds it to `known`. Returns its record,
    /// and whether it was stored.
    pub fn add(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        name: String,
        known: &mut HashSet<String>,
    ) -> Result<(FileRecord, bool)> {
        let mut hash = Context::new(&SHA256);
        let content = read(fs, path, |part| {
            hash.update(part);
            Ok(())
        })?;
        let sha256 = hex(hash.finish().as_ref());
        let is_new = !known.contains(&sha256);
        if is_new {
            let file = fs.open(path).map_err(Error::io(path, "open"))?;
            let (mut at, mut block) = (0, vec![0; BLOCK]);
            self.objects.put_parts(&object_name(&sha256), &mut |part| {
                let length = file.read_at(&mut block, at).map_err(Error::io(path, "read"))?;
                at += length as u64;
                part.extend_from_slice(block.get(..length).unwrap_or_default());
                Ok(())
            })?;
            known.insert(sha256.clone());
        }
        let record = FileRecord {
            name,
            bytes: content.bytes,
            crc32: content.crc32,
            sha256: Some(sha256.clone()),
            object: Some(sha256),
        };
        Ok((record, is_new))
    }

    /// Stores a text, as [`add`](Self::add) does a file.
    pub fn add_text(&self, text: &str, name: String, known: &mut HashSet<String>) -> Result<FileRecord> {
        let sha256 = hex(ring::digest::digest(&SHA256, text.as_bytes()).as_ref());
        if known.insert(sha256.clone()) {
            self.objects.put(&object_name(&sha256), text.as_bytes())?;
        }
        let (bytes, crc32) = (text.len() as u64, crc32fast::hash(text.as_bytes()));
        Ok(FileRecord { name, bytes, crc32, sha256: Some(sha256.clone()), object: Some(sha256) })
    }

    /// Passes the content of a file to `each`, and then compares it with its record. The last part
    /// is passed before the comparison.
    pub fn read_file(&self, file: &FileRecord, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(object) = &file.object else {
            let detail = format!("its manifest names no object for {}", file.name);
            return Err(Error::damaged(&self.objects.describe("backups"), detail));
        };
        let name = object_name(object);
        let (mut digest, mut hash) = (Digest::default(), Context::new(&SHA256));
        let exists = self.objects.stream(&name, &mut |part| {
            digest.update(part);
            hash.update(part);
            each(part)
        })?;
        let path = self.objects.describe(&name);
        if !exists {
            return Err(Error::damaged(&path, format!("the content of {} is missing", file.name)));
        }
        let found = digest.finish();
        let sha256 = hex(hash.finish().as_ref());
        let is_same = (found.bytes, found.crc32) == (file.bytes, file.crc32)
            && file.sha256.as_ref().is_none_or(|expected| *expected == sha256);
        if !is_same {
            let detail = format!(
                "expected {} bytes with CRC-32 {:08x}, found {} with {:08x}",
                file.bytes, file.crc32, found.bytes, found.crc32
            );
            return Err(Error::damaged(&path, detail));
        }
        Ok(())
    }

    /// Downloads a file, verified and synced.
    pub fn fetch(&self, fs: &dyn FileSystem, file: &FileRecord, to: &Path) -> Result<()> {
        let mut out = fs.create(to).map_err(Error::io(to, "create"))?;
        self.read_file(file, &mut |part| out.write_all(part).map_err(Error::io(to, "write")))?;
        out.sync().map_err(Error::io(to, "sync"))
    }
}

fn object_name(file: &str) -> String {
    format!("files/{file}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
