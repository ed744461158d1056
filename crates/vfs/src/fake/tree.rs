//! The names of the fake file system: the current ones, and those that survive a crash.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::error;
use super::file::Content;
use crate::DirEntry;

/// The target of a name.
#[derive(Clone)]
pub(super) enum Node {
    Directory,
    File(Arc<Mutex<Content>>),
}

/// Every name, by its full path. The root directory has none and always exists.
pub(super) type Names = BTreeMap<PathBuf, Node>;

/// A change of names not yet synced.
#[derive(Clone)]
pub(super) enum NameChange {
    Link(PathBuf, Node),
    Unlink(PathBuf),
    /// Within one directory, where it is atomic.
    Rename(PathBuf, PathBuf),
}

impl NameChange {
    /// The directory whose sync makes this durable.
    fn directory(&self) -> &Path {
        let (NameChange::Link(path, _) | NameChange::Unlink(path) | NameChange::Rename(path, _)) = self;
        directory(path)
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Applies a change of names.
pub(super) fn apply(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Link(path, node) => {
            names.insert(path.clone(), node.clone());
        }
        NameChange::Unlink(path) => {
            names.remove(path);
        }
        NameChange::Rename(from, to) => {
            // The changes before this one may have been dropped from `names` together with `from`.
            let Some(node) = names.remove(from) else { return };
            names.insert(to.clone(), node);
            let below: Vec<PathBuf> = names
                .range(from.clone()..)
                .map(|(path, _)| path)
                .take_while(|path| path.starts_with(from))
                .cloned()
                .collect();
            for path in below {
                if let (Some(node), Ok(rest)) = (names.remove(&path), path.strip_prefix(from)) {
                    names.insert(to.join(rest), node);
                }
            }
        }
    }
}

/// The names in use, the durable ones, and the changes that lead from these to those.
pub(super) struct Tree {
    live: Names,
    durable: Names,
    pending: Vec<NameChange>,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { live: Names::new(), durable: Names::new(), pending: Vec::new() }
    }

    /// A tree without volatile changes.
    pub(super) fn settled(names: Names) -> Self {
        Self { live: names.clone(), durable: names, pending: Vec::new() }
    }

    pub(super) fn durable(&self) -> &Names {
        &self.durable
    }

    pub(super) fn pending(&self) -> &[NameChange] {
        &self.pending
    }

    pub(super) fn get(&self, path: &Path) -> Option<Node> {
        if path.as_os_str().is_empty() { Some(Node::Directory) } else { self.live.get(path).cloned() }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<Arc<Mutex<Content>>> {
        match self.get(path) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Directory) => Err(error(io::ErrorKind::IsADirectory, "File", path, "a directory")),
            None => Err(error(io::ErrorKind::NotFound, "File", path, "no such file")),
        }
    }

    fn require_directory(&self, path: &Path) -> io::Result<()> {
        match self.get(path) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(error(io::ErrorKind::NotADirectory, "Directory", path, "a file")),
            None => Err(error(io::ErrorKind::NotFound, "Directory", path, "no such directory")),
        }
    }

    fn change(&mut self, change: NameChange) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    pub(super) fn link(&mut self, path: &Path, node: Node) -> io::Result<()> {
        self.require_directory(directory(path))?;
        self.change(NameChange::Link(path.to_owned(), node));
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) {
        self.change(NameChange::Unlink(path.to_owned()));
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|above| self.get(above).is_none()).collect();
        for path in missing.into_iter().rev() {
            self.link(path, Node::Directory)?;
        }
        self.require_directory(path)
    }

    pub(super) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.require_directory(path)?;
        // Paths are ordered by their components, so everything below a directory follows it.
        let below = self.live.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        let below = below.take_while(|(entry, _)| entry.starts_with(path));
        let children = below.filter(|(entry, _)| directory(entry) == path);
        Ok(children
            .filter_map(|(entry, node)| {
                let name = entry.file_name()?.to_str()?.to_owned();
                Some(match node {
                    Node::Directory => DirEntry { name, is_dir: true, len: 0 },
                    Node::File(content) => {
                        DirEntry { name, is_dir: false, len: content.lock().live().len() as u64 }
                    }
                })
            })
            .collect())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node =
            self.get(from).ok_or_else(|| error(io::ErrorKind::NotFound, "Rename", from, "no such file"))?;
        self.require_directory(directory(to))?;
        if from == to {
            return Ok(());
        }
        match (&node, self.get(to)) {
            (_, None) | (Node::File(_), Some(Node::File(_))) => {}
            (Node::File(_), Some(Node::Directory)) => {
                return Err(error(io::ErrorKind::IsADirectory, "Rename", to, "a directory"));
            }
            (Node::Directory, Some(_)) => {
                return Err(error(io::ErrorKind::AlreadyExists, "Rename", to, "already there"));
            }
        }
        if matches!(node, Node::Directory)
            && self.pending.iter().any(|change| change.directory().starts_with(from))
        {
            let why = "names below are not synced: what a crash then leaves is not modelled";
            return Err(error(io::ErrorKind::Unsupported, "Rename", from, why));
        }
        if directory(from) == directory(to) {
            self.change(NameChange::Rename(from.to_owned(), to.to_owned()));
            return Ok(());
        }
        if matches!(node, Node::Directory) {
            let why = "moving a directory to another one is not something we do";
            return Err(error(io::ErrorKind::Unsupported, "Rename", from, why));
        }
        self.change(NameChange::Link(to.to_owned(), node));
        self.change(NameChange::Unlink(from.to_owned()));
        Ok(())
    }

    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        self.require_directory(path)?;
        let below: Vec<PathBuf> = self
            .live
            .range(path.to_owned()..)
            .map(|(path, _)| path)
            .take_while(|below| below.starts_with(path))
            .cloned()
            .collect();
        for path in below.iter().rev() {
            self.unlink(path);
        }
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.require_directory(path)?;
        let pending = std::mem::take(&mut self.pending);
        let (synced, pending) = pending.into_iter().partition(|change| change.directory() == path);
        let synced: Vec<NameChange> = synced;
        self.pending = pending;
        for change in &synced {
            apply(&mut self.durable, change);
        }
        Ok(())
    }

    /// Bytes in all files in use, each counted once however many names it has.
    pub(super) fn used(&self) -> u64 {
        let mut seen = HashSet::new();
        let files = self.live.values().filter_map(|node| match node {
            Node::File(content) => {
                seen.insert(Arc::as_ptr(content)).then(|| content.lock().live().len() as u64)
            }
            Node::Directory => None,
        });
        files.sum()
    }

    /// Returns a copy that shares no file with this one.
    pub(super) fn deep_clone(&self) -> Self {
        let mut copies = Copies::new(Content::clone);
        Self {
            live: copies.names(&self.live),
            durable: copies.names(&self.durable),
            pending: self
                .pending
                .iter()
                .map(|change| match change {
                    NameChange::Link(path, node) => NameChange::Link(path.clone(), copies.node(node)),
                    other => other.clone(),
                })
                .collect(),
        }
    }
}

/// Copies nodes so that several names of one file remain names of one file.
pub(super) struct Copies<F> {
    copy: F,
    made: HashMap<*const Mutex<Content>, Arc<Mutex<Content>>>,
}

impl<F: FnMut(&Content) -> Content> Copies<F> {
    pub(super) fn new(copy: F) -> Self {
        Self { copy, made: HashMap::new() }
    }

    pub(super) fn names(&mut self, names: &Names) -> Names {
        names.iter().map(|(path, node)| (path.clone(), self.node(node))).collect()
    }

    fn node(&mut self, node: &Node) -> Node {
        match node {
            Node::Directory => Node::Directory,
            Node::File(content) => {
                let copy = &mut self.copy;
                let made = self.made.entry(Arc::as_ptr(content));
                Node::File(made.or_insert_with(|| Arc::new(Mutex::new(copy(&content.lock())))).clone())
            }
        }
    }
}
