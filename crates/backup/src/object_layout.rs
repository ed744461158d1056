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
//! An encrypted repository has this layout in directories, too. The names of its contents are keyed
//! hashes of them, and all objects but the marker and the lease are encrypted.
//!
//! A backup exists when its manifest does, which is stored after all its files. Files that no
//! manifest names are removed with the next backup that is removed.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use cassette_vfs::FileSystem;
use ring::digest::{Context, SHA256};

use crate::copy::{Digest, hex, read};
use crate::error::{Error, Result};
use crate::keys::BackupKeys;
use crate::manifest::{FileRecord, Manifest, is_single_name};
use crate::marker::{LOCK, MARKER, Marker};
use crate::objects::{
    DirectoryObjects, EncryptedObjects, Lease, Objects, SharedObjects, put_json, read_json, read_text,
};

/// Bytes of a file that are passed to the store at once.
const BLOCK: usize = 1 << 20;

/// An open repository of objects.
pub(crate) struct ObjectLayout {
    /// Decrypted, if the repository is encrypted.
    pub objects: Arc<dyn Objects>,
    /// As they are stored.
    pub plain: Arc<dyn Objects>,
    /// The keys of an encrypted repository.
    pub keys: Option<BackupKeys>,
    /// Held if the repository is in an object store and was opened for changes.
    lease: Option<Lease>,
}

impl ObjectLayout {
    /// Opens a repository in an object store; creates it in an empty prefix if it is opened for
    /// changes.
    pub fn open(shared: Arc<dyn SharedObjects>, changes: bool, keys: Option<&BackupKeys>) -> Result<Self> {
        let plain: Arc<dyn Objects> = Arc::<dyn SharedObjects>::clone(&shared);
        let shown = plain.describe("").display().to_string();
        let lease = if changes { Some(Lease::acquire(&shared)?) } else { None };
        match read_json::<Marker>(plain.as_ref(), MARKER)? {
            Some(marker) => marker.check(&shown, keys)?,
            None if !changes => {
                return Err(Error::invalid(format!("{shown}: expected backups, found no {MARKER}")));
            }
            None => {
                let found = plain.list("")?;
                if let Some(other) = found.iter().find(|entry| entry.name != LOCK) {
                    return Err(Error::invalid(format!(
                        "{shown}: expected an empty prefix or one of backups, found {}; specify another prefix",
                        other.name
                    )));
                }
                put_json(plain.as_ref(), MARKER, &Marker::new(keys))?;
            }
        }
        Ok(Self::new(plain, lease, keys))
    }

    /// Returns the layout of a directory with encrypted backups, which the caller has locked.
    pub fn of_directory(fs: &Arc<dyn FileSystem>, root: &Path, keys: &BackupKeys) -> Self {
        Self::new(Arc::new(DirectoryObjects::new(Arc::clone(fs), root)), None, Some(keys))
    }

    fn new(plain: Arc<dyn Objects>, lease: Option<Lease>, keys: Option<&BackupKeys>) -> Self {
        let objects: Arc<dyn Objects> = match keys {
            Some(keys) => Arc::new(EncryptedObjects::new(Arc::clone(&plain), keys.clone())),
            None => Arc::clone(&plain),
        };
        Self { objects, plain, keys: keys.cloned(), lease }
    }

    /// Whether the objects are files of a directory.
    pub fn is_directory(&self) -> bool {
        self.plain.file(MARKER).is_some()
    }

    /// Removes files that an interrupted command was writing. Not those of the log, which may be
    /// archived at the same time.
    pub fn remove_remains(&self) -> Result<()> {
        ["files", "backups"].iter().try_for_each(|prefix| self.plain.remove_temporary(prefix))
    }

    /// Returns the name of a content.
    fn content_name(&self, sha256: &[u8]) -> String {
        self.keys.as_ref().map_or_else(|| hex(sha256), |keys| keys.content_name(sha256))
    }

    /// Whether an object of an earlier backup can be part of a new one. One that was encrypted with
    /// an earlier key is stored again, so that this key is not needed for new backups.
    pub fn is_current(&self, object: &str) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.is_current(object))
    }

    /// Checks that no other command can change the repository.
    fn check_lease(&self) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), Lease::check)
    }

    /// Returns the names of the backups.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = self.objects.list("backups")?;
        let name = |name: &str| Some(name.strip_prefix("backups/")?.strip_suffix(".json")?.to_owned());
        Ok(entries.iter().filter_map(|entry| name(&entry.name)).filter(|name| is_single_name(name)).collect())
    }

    /// Returns the manifest of a backup.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        let object = format!("backups/{name}.json");
        let damaged = |detail: &str| Error::damaged(&self.objects.describe(&object), detail);
        let content = read_text(self.objects.as_ref(), &object)?;
        let content = content.ok_or_else(|| damaged("the manifest is missing"))?;
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
        let hash = hash.finish();
        let object = self.content_name(hash.as_ref());
        let is_new = !known.contains(&object);
        if is_new {
            let file = fs.open(path).map_err(Error::io(path, "open"))?;
            let (mut at, mut block) = (0, vec![0; BLOCK]);
            let mut again = Digest::default();
            self.objects.put_parts(&object_name(&object), &mut |part| {
                let length = file.read_at(&mut block, at).map_err(Error::io(path, "read"))?;
                at += length as u64;
                let read = block.get(..length).unwrap_or_default();
                again.update(read);
                // Later backups use the object without reading it.
                if read.is_empty() && again.content() != content {
                    return Err(Error::damaged(path, "its content differs when it is read twice"));
                }
                part.extend_from_slice(read);
                Ok(())
            })?;
            known.insert(object.clone());
        }
        let record = FileRecord {
            name,
            bytes: content.bytes,
            crc32: content.crc32,
            sha256: Some(hex(hash.as_ref())),
            object: Some(object),
        };
        Ok((record, is_new))
    }

    /// Stores a text, as [`add`](Self::add) does a file.
    pub fn add_text(&self, text: &str, name: String, known: &mut HashSet<String>) -> Result<FileRecord> {
        let hash = ring::digest::digest(&SHA256, text.as_bytes());
        let (sha256, object) = (hex(hash.as_ref()), self.content_name(hash.as_ref()));
        if !known.contains(&object) {
            self.objects.put(&object_name(&object), text.as_bytes())?;
            known.insert(object.clone());
        }
        let (bytes, crc32) = (text.len() as u64, crc32fast::hash(text.as_bytes()));
        Ok(FileRecord { name, bytes, crc32, sha256: Some(sha256), object: Some(object) })
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
            if digest.bytes() > file.bytes {
                let detail = format!("expected {} bytes, found more", file.bytes);
                return Err(Error::damaged(&self.objects.describe(&name), detail));
            }
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
