//! Objects as files of a directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::FileSystem;

use super::{Entry, Objects, WHOLE_LENGTH_MAX};
use crate::copy::read;
use crate::error::{Error, Result};

/// The suffix of a file that is being written.
const TEMPORARY: &str = ".tmp";

/// The files of a directory, which need not exist.
pub(crate) struct DirectoryObjects {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
}

impl fmt::Debug for DirectoryObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirectoryObjects").field(&self.root).finish()
    }
}

impl DirectoryObjects {
    pub fn new(fs: Arc<dyn FileSystem>, root: &Path) -> Self {
        Self { fs, root: root.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn list_into(&self, name: &str, found: &mut Vec<Entry>) -> Result<()> {
        let path = self.path(name);
        let entries = match self.fs.read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::io(&path, "list"))?,
        };
        for entry in entries {
            let name = if name.is_empty() { entry.name } else { format!("{name}/{}", entry.name) };
            if entry.is_dir {
                self.list_into(&name, found)?;
            } else if !name.ends_with(TEMPORARY) {
                found.push(Entry { name, bytes: entry.len });
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.fs.exists(path).map_err(Error::io(path, "examine"))
    }
}

impl Objects for DirectoryObjects {
    fn list(&self, prefix: &str) -> Result<Vec<Entry>> {
        let mut found = Vec::new();
        self.list_into(prefix, &mut found)?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        if !self.exists(&path)? {
            return Ok(None);
        }
        let length = self.fs.metadata(&path).map_err(Error::io(&path, "examine"))?.len;
        if length > WHOLE_LENGTH_MAX {
            let detail = format!("expected at most {WHOLE_LENGTH_MAX} bytes, found {length}");
            return Err(Error::damaged(&path, detail));
        }
        self.fs.read(&path).map(Some).map_err(Error::io(&path, "read"))
    }

    fn stream(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let path = self.path(name);
        if !self.exists(&path)? {
            return Ok(false);
        }
        read(self.fs.as_ref(), &path, each)?;
        Ok(true)
    }

    fn put_parts(&self, name: &str, next: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let path = self.path(name);
        let parent = path.parent().unwrap_or(&self.root);
        self.fs.create_with_parents(parent).map_err(Error::io(parent, "create the directory"))?;
        let mut temporary = path.clone().into_os_string();
        temporary.push(TEMPORARY);
        let temporary = PathBuf::from(temporary);
        let written = (|| {
            let mut out = self.fs.create(&temporary).map_err(Error::io(&temporary, "create"))?;
            let mut part = Vec::new();
            loop {
                part.clear();
                next(&mut part)?;
                if part.is_empty() {
                    break;
                }
                out.write_all(&part).map_err(Error::io(&temporary, "write"))?;
            }
            out.sync().map_err(Error::io(&temporary, "sync"))?;
            self.fs.rename(&temporary, &path).map_err(Error::io(&temporary, "rename"))
        })();
        if written.is_err() {
            // The next object of this name replaces it otherwise.
            let _ = self.fs.remove_file(&temporary);
        }
        written?;
        self.fs.sync_dir(parent).map_err(Error::io(parent, "sync the directory"))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match self.fs.remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(Error::io(&path, "remove"))?,
        }
        let parent = path.parent().unwrap_or(&self.root);
        self.fs.sync_dir(parent).map_err(Error::io(parent, "sync the directory"))
    }

    fn remove_temporary(&self, prefix: &str) -> Result<()> {
        let path = self.path(prefix);
        let entries = match self.fs.read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::io(&path, "list"))?,
        };
        for entry in entries.iter().filter(|entry| !entry.is_dir && entry.name.ends_with(TEMPORARY)) {
            let path = path.join(&entry.name);
            self.fs.remove_file(&path).map_err(Error::io(&path, "remove"))?;
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.path(name))
    }

    fn describe(&self, name: &str) -> PathBuf {
        self.path(name)
    }
}
