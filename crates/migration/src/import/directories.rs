//! The directories for the SSTables of each node.

use std::io;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_128;

use crate::error::{MoveError, Result, unsuitable};
use crate::settings::ImportOptions;
use crate::streaming::replicas::Node;

/// Suffix of the names of components without which an SSTable cannot be read.
const DATA: &str = "-Data.db";

/// Returns an error about a directory, with what to do.
pub fn failed(path: &Path, error: &dyn std::fmt::Display) -> MoveError {
    MoveError::Unsuitable(format!(
        "directory for import, {}: {error}; resolve that or specify another --import-directory, then start the same \
         command again",
        path.display()
    ))
}

/// Where the SSTables for a node are placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDirectory {
    /// The directory of this move.
    pub root: PathBuf,
    /// The same directory as the node names it.
    at_node: PathBuf,
}

impl NodeDirectory {
    /// Returns the directory of a table, and its path at the node.
    pub fn of_table(&self, key: &str, keyspace: &str, table: &str) -> (PathBuf, PathBuf) {
        let below = Path::new(key).join(keyspace).join(table);
        (self.root.join(&below), self.at_node.join(below))
    }

    /// Removes it with what is left in it.
    pub fn remove(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&self.root, &error)),
            _ => Ok(()),
        }
    }
}

/// Returns the directory of each node: `None` for nodes that replicate nothing and have none.
///
/// # Errors
/// If a node that `needs` one has none, or a specified one is not a directory.
pub fn of_nodes(
    options: &ImportOptions,
    nodes: &[Node],
    (from, to): (&str, &str),
    needs: impl Fn(usize) -> bool,
) -> Result<Vec<Option<NodeDirectory>>> {
    let name = format!("cassette-move-{:032x}", XxHash3_128::oneshot(format!("{from}\n{to}").as_bytes()));
    let mut found = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let address = node.address.ip();
        let of_node = options.directories.iter().find(|directory| match directory.node {
            Some(named) => named == address,
            None => nodes.len() == 1,
        });
        let Some(directory) = of_node else {
            if needs(index) {
                return unsuitable(format!(
                    "node {address} has no directory for import: specify one that this machine and the node can \
                     reach, for each node, with --import-directory ADDRESS=DIR"
                ));
            }
            found.push(None);
            continue;
        };
        let path = std::fs::canonicalize(&directory.path).map_err(|error| failed(&directory.path, &error))?;
        if !path.is_dir() {
            return Err(failed(&path, &"expected a directory, found a file"));
        }
        let at_node = options.node_directory.as_ref().unwrap_or(&path).join(&name);
        found.push(Some(NodeDirectory { root: path.join(&name), at_node }));
    }
    Ok(found)
}

/// Returns the paths of the Data components in a table's directory: those that the node has not
/// added to its table.
///
/// # Errors
/// If the directory cannot be read, for example because it has been removed.
pub fn remaining(directory: &Path) -> Result<Vec<String>> {
    let removed = "it was removed, so that it is unknown whether the node has its SSTables: start again with another \
                   --progress file";
    let entries = std::fs::read_dir(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            MoveError::Unsuitable(format!("directory for import, {}: {removed}", directory.display()))
        }
        _ => failed(directory, &error),
    })?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(directory, &error))?;
        if let Some(prefix) = entry.file_name().to_str().and_then(|name| name.strip_suffix(DATA)) {
            names.push(prefix.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use uuid::Uuid;

    use super::*;
    use crate::settings::ImportDirectory;

    fn node(number: u8) -> Node {
        Node {
            host_id: Uuid::from_u128(number.into()),
            address: ([127, 0, 0, number], 7000).into(),
            data_center: "dc".into(),
            rack: "r".into(),
            tokens: vec![number.into()],
            release: "5.0.8".into(),
        }
    }

    fn options(directories: &[(Option<u8>, &Path)]) -> ImportOptions {
        let directory = |(node, path): &(Option<u8>, &Path)| ImportDirectory {
            node: node.map(|number| IpAddr::from([127, 0, 0, number])),
            path: path.to_path_buf(),
        };
        ImportOptions { directories: directories.iter().map(directory).collect(), ..ImportOptions::default() }
    }

    #[test]
    fn each_node_that_replicates_needs_its_own_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let find =
            |options: &ImportOptions, nodes: &[Node]| of_nodes(options, nodes, ("a", "b"), |node| node < 2);
        let one = find(&options(&[(None, path)]), &[node(1)]).unwrap();
        let root = &one[0].as_ref().unwrap().root;
        assert!(root.starts_with(path) && root.to_str().unwrap().contains("cassette-move-"), "{root:?}");
        let nodes = [node(1), node(2), node(3)];
        let error = find(&options(&[(None, path)]), &nodes).unwrap_err().to_string();
        assert!(error.contains("node 127.0.0.1") && error.contains("ADDRESS=DIR"), "{error}");
        let error = find(&options(&[(Some(1), path)]), &nodes).unwrap_err().to_string();
        assert!(error.contains("node 127.0.0.2"), "{error}");
        let both = find(&options(&[(Some(1), path), (Some(2), path)]), &nodes).unwrap();
        assert!(both[1].is_some() && both[2].is_none());
        let error = find(&options(&[(None, Path::new("/missing"))]), &[node(1)]).unwrap_err().to_string();
        assert!(error.contains("/missing") && error.contains("--import-directory"), "{error}");
    }

    #[test]
    fn nodes_can_name_the_directory_by_another_path() {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(&[(None, directory.path())]);
        options.node_directory = Some("/import".into());
        let found = of_nodes(&options, &[node(1)], ("a", "b"), |_| true).unwrap().remove(0).unwrap();
        let (here, there) = found.of_table("key", "ks", "t");
        assert!(here.starts_with(&found.root) && here.ends_with("key/ks/t"), "{here:?}");
        assert!(there.starts_with("/import") && there.ends_with("key/ks/t"), "{there:?}");
    }

    #[test]
    fn sstables_are_left_as_long_as_their_data_is_there() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["nb-2-big-Data.db", "nb-1-big-Data.db", "nb-3-big-Index.db", "TOC.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(remaining(directory.path()).unwrap(), ["nb-1-big", "nb-2-big"]);
        let error = remaining(&directory.path().join("gone")).unwrap_err().to_string();
        assert!(error.contains("another --progress file"), "{error}");
    }
}
