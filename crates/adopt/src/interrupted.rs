//! Transactions of Cassandra that were interrupted between two of its data directories.
//!
//! A compaction with files in several data directories has a log in each of them, and writes every
//! record to all. SSTables are taken in directory by directory, so these logs must agree: if only
//! one of them contains the commit, the old SSTables of one directory and the new ones of the other
//! would be left out.

use std::collections::BTreeMap;

use cassette_vfs::FileSystem;

use crate::error::{AdoptError, Result};
use crate::layout::list;
use crate::nodes::NodeSummary;

/// Returns why the directories of a node cannot be read one by one.
pub(crate) fn disagreement(fs: &dyn FileSystem, node: &NodeSummary) -> Result<Option<String>> {
    if node.directories.len() < 2 {
        return Ok(None);
    }
    let mut known = BTreeMap::new();
    for table in &node.tables {
        for entry in list(fs, &table.path)?.iter().filter(|entry| !entry.is_dir) {
            if !entry.name.contains("_txn_") || !entry.name.ends_with(".log") {
                continue;
            }
            let path = table.path.join(&entry.name);
            let content = fs.read(&path).map_err(AdoptError::io("read", &path))?;
            let name = (table.keyspace.clone(), table.table.clone(), entry.name.clone());
            let (first, of_first) = known.entry(name).or_insert_with(|| (path.clone(), content.clone()));
            if *of_first != content {
                return Ok(Some(format!(
                    "{} and {} are logs of one transaction with different records, which Cassandra completes when it \
                     starts: start it, run `nodetool drain`, and stop it",
                    first.display(),
                    path.display()
                )));
            }
        }
    }
    Ok(None)
}
