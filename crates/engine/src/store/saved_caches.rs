//! The state of saved caches: their location, and when saves are due.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::signal::Signal;
use crate::basics::options::{CacheKind, Options};

/// The configuration and schedule of saved caches.
pub(crate) struct SavedCaches {
    pub directory: PathBuf,
    /// By [`CacheKind`].
    pub keys_to_save: [AtomicUsize; 3],
    /// Held while caches are saved. The time when each is due, monotonic; `None` before it was
    /// computed.
    pub due: Mutex<[Option<Duration>; 3]>,
    /// The host whose counts are to be loaded into the counter cache, once loading was requested.
    pub load_wanted: Mutex<Option<[u8; 16]>>,
    /// Loading was requested and has not ended: the files contain more than the caches.
    pub loading: AtomicBool,
    /// Raised to start loading.
    pub wanted: Signal,
}

impl SavedCaches {
    pub fn new(options: &Options) -> Self {
        let saved = &options.saved_caches;
        let directory = saved.directory.clone().unwrap_or_else(|| options.data_dir.join("saved_caches"));
        Self {
            directory,
            keys_to_save: CacheKind::ALL.map(|kind| AtomicUsize::new(saved.of(kind).keys_to_save)),
            due: Mutex::default(),
            load_wanted: Mutex::default(),
            loading: AtomicBool::new(false),
            wanted: Signal::default(),
        }
    }

    /// Files of other programs in the directory have other names and are not touched.
    pub fn path(&self, kind: CacheKind) -> PathBuf {
        self.directory.join(format!("{}-cassette.db", kind.name()))
    }

    pub fn keys_to_save(&self, kind: CacheKind) -> usize {
        self.keys_to_save[kind as usize].load(Ordering::Relaxed)
    }

    /// Sets the maximum number of saved keys of a cache.
    pub fn set_keys_to_save(&self, kind: CacheKind, most: usize) {
        self.keys_to_save[kind as usize].store(most, Ordering::Relaxed);
    }
}
