//! Keeps a server out of directories that hold the tables of something else.

use std::path::Path;
use std::sync::Arc;

use cassette_vfs::FileSystem;

use crate::error::{AdoptError, Result};
use crate::layout::{Recognised, list, recognise, table_name};
use crate::plan::{Plan, PlanRequest};

/// Checks that a database may be opened, or created, in a directory.
///
/// # Errors
/// [`AdoptError::Refused`] if it is a directory of Cassandra, or a snapshot, or is within one or
/// within a data directory of this program; with what it is, and the command for it.
pub fn refuse_foreign(fs: &Arc<dyn FileSystem>, path: &Path) -> Result<()> {
    let shown = path.display();
    match recognise(fs.as_ref(), path)? {
        Recognised::Cassette => return Ok(()),
        Recognised::Cassandra(_) => {
            let what = describe(fs, path);
            return Err(AdoptError::Refused(format!(
                "{shown} holds {what}. To take it in, stop Cassandra, and run:\n  cassette \
                 adopt {shown} --data NEW_DIRECTORY\nTo query it without changing it:\n  cassette serve --read-only \
                 {shown}"
            )));
        }
        Recognised::TableFiles { has_schema } => {
            let next = if has_schema {
                format!("To query it without changing it:\n  cassette serve --read-only {shown}")
            } else {
                "Choose another directory".to_owned()
            };
            return Err(AdoptError::Refused(format!(
                "{shown} holds SSTables of one table, such as a snapshot does. {next}"
            )));
        }
        Recognised::Other => {}
    }
    refuse_within(fs.as_ref(), path)
}

/// Returns the version and the keyspaces of a directory of Cassandra, as far as they can be read.
fn describe(fs: &Arc<dyn FileSystem>, path: &Path) -> String {
    let directories = vec![path.to_owned()];
    let request = PlanRequest { directories, ignore_commitlog: true, ..PlanRequest::default() };
    let plan = Plan::of(fs, &request);
    let Ok(plan) = plan else { return "data of Apache Cassandra".to_owned() };
    let release = plan.nodes.first().and_then(|node| node.system.release_version.clone());
    let release = release.map_or_else(String::new, |release| format!(" {release}"));
    let names: Vec<&str> = plan.keyspaces.iter().map(|keyspace| keyspace.name.as_str()).collect();
    let keyspaces = match names.as_slice() {
        [] => String::new(),
        [name] => format!(" with the keyspace {name}"),
        names => format!(" with {} keyspaces ({})", names.len(), names.join(", ")),
    };
    format!("data of Apache Cassandra{release}{keyspaces}")
}

/// Refuses a directory within a data directory of Cassandra or of this program, or within a
/// snapshot.
pub(crate) fn refuse_within(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let existing = path.ancestors().skip(1).find_map(|above| {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        fs.canonicalize(above).ok()
    });
    let canonical = fs.canonicalize(path).ok();
    let above = canonical.as_deref().and_then(Path::parent).or(existing.as_deref());
    for above in above.into_iter().flat_map(Path::ancestors) {
        let is_table =
            above.file_name().and_then(|name| name.to_str()).is_some_and(|name| table_name(name).is_some());
        let is_cassettes = fs.exists(&above.join("cassette.version")).unwrap_or(false);
        let has_tables = |keyspace: &str| {
            let tables = list(fs, &above.join(keyspace)).unwrap_or_default();
            tables.iter().any(|table| table.is_dir && table_name(&table.name).is_some())
        };
        if is_table || is_cassettes || has_tables("system_schema") || has_tables("system") {
            return Err(AdoptError::Refused(format!(
                "{} is within {}, which holds the tables of another database: choose a directory elsewhere",
                path.display(),
                above.display()
            )));
        }
    }
    Ok(())
}
