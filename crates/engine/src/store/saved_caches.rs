//! What is known of the saved caches: where they are, and what is due.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::signal::Signal;
use crate::basics::options::{CacheKind, Options};

/// What is to be saved where, and when.
pub(crate) struct SavedCaches {
    pub directory: PathBuf,
    /// By [`CacheKind`].
    pub keys_to_save: [AtomicUsize; 3],
    /// Held while caches are saved. When each is due, by the monotonic clock, once that was looked
    /// at.
    pub due: Mutex<[Option<Duration>; 3]>,
    /// Whose counts the counter cache is to have, when loading has been asked for.
    pub load_wanted: Mutex<Option<[u8; 16]>>,
    /// Loading has been asked for and not ended yet: the files hold more than the caches.
    pub loading: AtomicBool,
    /// Raised for loading.
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

    /// Ours alone: another program's files in the directory are left alone.
    pub fn path(&self, kind: CacheKind) -> PathBuf {
        self.directory.join(format!("{}-cassette.db", kind.name()))
    }

    pub fn keys_to_save(&self, kind: CacheKind) -> usize {
        self.keys_to_save[kind as usize].load(Ordering::Relaxed)
    }

    /// Says how many keys of a cache are saved at most.
    pub fn set_keys_to_save(&self, kind: CacheKind, most: usize) {
        self.keys_to_save[kind as usize].store(most, Ordering::Relaxed);
    }
}
