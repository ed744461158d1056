//! Unix sockets that only the user of the process can connect to.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::Mode;
use rustix::process::umask;
use tokio::net::UnixListener;

/// A listening socket with its file.
pub struct BoundSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket, removed when it is dropped.
pub struct SocketFile(PathBuf);

impl BoundSocket {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.file.0
    }

    /// Returns the listener and the file, which must outlive it.
    pub fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // An error only means that the next start finds the file, and removes it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens on a socket at `path` with permissions 0600. Replaces the socket of a process that has
/// ended.
///
/// # Errors
/// If another process listens there, or the file is no socket or cannot be created.
pub fn bind(path: &Path) -> anyhow::Result<BoundSocket> {
    let shown = path.display();
    if let Ok(found) = path.symlink_metadata() {
        if !found.file_type().is_socket() {
            bail!("cannot listen on {shown}: expected no file or a socket, found another file");
        }
        if UnixStream::connect(path).is_ok() {
            bail!("cannot listen on {shown}: another process does; choose another path with --admin");
        }
        std::fs::remove_file(path).with_context(|| format!("cannot replace the socket {shown}"))?;
    }
    // The file has its permissions when it is created: no other user can connect in between. Files
    // that other threads create meanwhile get fewer permissions, never more.
    let before = umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener.with_context(|| format!("cannot listen on {shown}"))?;
    Ok(BoundSocket { listener, file: SocketFile(path.to_owned()) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone_and_replaces_that_of_a_dead_process_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let first = bind(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = bind(&path).err().unwrap().to_string();
        assert!(error.contains("another process does"), "{error}");
        // As a process that was killed leaves it.
        let (listener, file) = first.into_parts();
        drop(listener);
        std::mem::forget(file);
        drop(bind(&path).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "data").unwrap();
        assert!(bind(&path).err().unwrap().to_string().contains("found another file"));
        assert!(path.exists());
    }
}
