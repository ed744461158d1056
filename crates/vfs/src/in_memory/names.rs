//! The names of files and directories.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use super::content::Content;
use super::error;
use crate::DirEntry;

/// The target of a name, with its number.
#[derive(Clone)]
pub(super) enum Node {
    Directory(u64),
    File(u64, Arc<RwLock<Content>>),
}

/// Every name by its [`normal`] path. The root directory has none and always exists.
#[derive(Default)]
pub(super) struct Names {
    nodes: BTreeMap<PathBuf, Node>,
    last_number: u64,
}

/// Returns the path without `.`, `..` and the root: there are no links and one working directory.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    normal
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<Node> {
        if path.as_os_str().is_empty() { Some(Node::Directory(0)) } else { self.nodes.get(path).cloned() }
    }

    /// Returns the target of a name, or an error of `operation`.
    pub(super) fn existing(&self, operation: &str, path: &Path) -> io::Result<Node> {
        let missing =
            || error(io::ErrorKind::NotFound, operation, path, "no such file or directory in memory");
        self.get(path).ok_or_else(missing)
    }

    pub(super) fn file(&self, operation: &str, path: &Path) -> io::Result<Arc<RwLock<Content>>> {
        match self.existing(operation, path)? {
            Node::File(_, content) => Ok(content),
            Node::Directory(_) => {
                Err(error(io::ErrorKind::IsADirectory, operation, path, "it is a directory"))
            }
        }
    }

    /// Returns an error unless the path is that of a directory.
    pub(super) fn directory(&self, operation: &str, path: &Path) -> io::Result<()> {
        match self.existing(operation, path)? {
            Node::Directory(_) => Ok(()),
            Node::File(..) => Err(error(io::ErrorKind::NotADirectory, operation, path, "it is a file")),
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn link_file(
        &mut self,
        operation: &str,
        path: &Path,
        content: Arc<RwLock<Content>>,
    ) -> io::Result<()> {
        self.directory(operation, parent(path))?;
        let number = self.next_number();
        self.nodes.insert(path.to_owned(), Node::File(number, content));
        Ok(())
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|above| self.get(above).is_none()).collect();
        let first_existing = missing.last().map_or(path, |lowest| parent(lowest));
        self.directory("create directory", first_existing)?;
        for path in missing.into_iter().rev() {
            let number = self.next_number();
            self.nodes.insert(path.to_owned(), Node::Directory(number));
        }
        Ok(())
    }

    /// The names at and below a path.
    fn below(&self, path: &Path) -> Vec<PathBuf> {
        // Paths are ordered by their components, so everything below a directory follows it.
        let from = self.nodes.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        from.map(|(below, _)| below).take_while(|below| below.starts_with(path)).cloned().collect()
    }

    pub(super) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.directory("list", path)?;
        let below = self.nodes.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        let below = below.take_while(|(entry, _)| entry.starts_with(path));
        let children = below.filter(|(entry, _)| parent(entry) == path);
        Ok(children
            .filter_map(|(entry, node)| {
                let name = entry.file_name()?.to_str()?.to_owned();
                Some(match node {
                    Node::Directory(_) => DirEntry { name, is_dir: true, len: 0 },
                    Node::File(_, content) => DirEntry { name, is_dir: false, len: content.read().len() },
                })
            })
            .collect())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.existing("rename", from)?;
        self.directory("rename", parent(to))?;
        if from == to {
            return Ok(());
        }
        let refused = |kind, why| Err(error(kind, "rename", to, why));
        match (&node, self.get(to)) {
            (Node::Directory(_), _) if to.starts_with(from) => {
                return refused(io::ErrorKind::InvalidInput, "it is below the directory to rename");
            }
            (_, None) | (Node::File(..), Some(Node::File(..))) => {}
            (Node::File(..), Some(Node::Directory(_))) => {
                return refused(io::ErrorKind::IsADirectory, "it is a directory");
            }
            (Node::Directory(_), Some(_)) => return refused(io::ErrorKind::AlreadyExists, "it exists"),
        }
        for path in self.below(from) {
            if let (Some(node), Ok(rest)) = (self.nodes.remove(&path), path.strip_prefix(from)) {
                // Joining an empty path would append a separator.
                let to = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
                self.nodes.insert(to, node);
            }
        }
        Ok(())
    }

    /// Removes the name of a file, and returns what it named.
    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<Option<Node>> {
        self.file("remove", path)?;
        Ok(self.nodes.remove(path))
    }

    /// Removes a directory, and returns everything that was in it.
    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<Vec<Node>> {
        self.directory("remove directory", path)?;
        Ok(self.below(path).iter().filter_map(|path| self.nodes.remove(path)).collect())
    }

    pub(super) fn hard_link(&mut self, original: &Path, link: &Path) -> io::Result<()> {
        self.file("link", original)?;
        let node = self.existing("link", original)?;
        self.directory("link", parent(link))?;
        if self.get(link).is_some() {
            return Err(error(io::ErrorKind::AlreadyExists, "link", link, "it exists"));
        }
        self.nodes.insert(link.to_owned(), node);
        Ok(())
    }
}
