//! Data directories whose server was cut over to another one.

use std::path::Path;

use cassette_rows::StorageError;
use cassette_vfs::FileSystem;

use crate::basics::error::{DatabaseError, Result};

/// The durable record, in a data directory, that its server forwards all requests to another one. A
/// write to the directory would be read by no client.
pub const FORWARDING_FILE: &str = "forwarding.json";

/// Refuses to open the directory for writing if its server was cut over. The caller has locked it,
/// so that no server can be.
pub(super) fn check(fs: &dyn FileSystem, directory: &Path, is_read_only: bool) -> Result<()> {
    let path = directory.join(FORWARDING_FILE);
    let exists = fs.exists(&path).map_err(|error| StorageError::io(&path, "look for", error));
    if !exists.map_err(DatabaseError::storage)? {
        return Ok(());
    }
    let (directory, path) = (directory.display(), path.display());
    if is_read_only {
        tracing::warn!("{directory} lacks later writes: its server was cut over to the target in {path}");
        return Ok(());
    }
    Err(DatabaseError::Server(format!(
        "cannot open {directory} for writing: its server was cut over to the target in {path}, which has all \
         later writes. Connect to the target, or open the directory for reading only. To write to it again, \
         without these writes, start it once with: cassette serve --data {directory} --undo-cut-over"
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::api::database::{Database, Options};

    #[test]
    fn a_directory_that_was_cut_over_is_opened_for_reading_only() {
        let fs = FakeFileSystem::new();
        let options = || Options { file_system: Arc::new(fs.clone()), ..Options::new("/data") };
        Database::open(options()).unwrap().close().unwrap();
        let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
        shared.write_atomically(&Path::new("/data").join(FORWARDING_FILE), b"{}").unwrap();
        let refused = Database::open(options()).err().unwrap().to_string();
        assert!(refused.contains("--undo-cut-over"), "{refused}");
        let session = Database::open_read_only_with(options()).unwrap().session();
        session.execute("SELECT key FROM system.local", ()).unwrap();
        drop(session);
        shared.remove_file(&Path::new("/data").join(FORWARDING_FILE)).unwrap();
        Database::open(options()).unwrap();
    }
}
