//! Second paths of the fake file system: bind mounts.

use std::path::{Component, Path, PathBuf};

/// Pairs of a mount point and the directory mounted there.
#[derive(Clone, Default)]
pub(super) struct Mounts(Vec<(PathBuf, PathBuf)>);

impl Mounts {
    pub(super) fn bind(&mut self, target: &Path, mount_point: &Path) {
        let mount = (normal(mount_point), self.resolve(target));
        self.0.push(mount);
    }

    /// Returns the path of `path` in the tree without mounts.
    pub(super) fn resolve(&self, path: &Path) -> PathBuf {
        let path = normal(path);
        let below = |(at, target): &(PathBuf, PathBuf)| Some(target.join(path.strip_prefix(at).ok()?));
        self.0.iter().find_map(below).unwrap_or(path)
    }
}

/// Returns the path without a root, `.` and `..`: `/a/./b` and `a/c/../b` are one file.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    normal
}
