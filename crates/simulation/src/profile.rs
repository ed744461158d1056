//! Properties that vary from seed to seed and stay the same during a run.

use std::time::Duration;

use cassette_engine::commitlog::SyncMode;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::model::Mistake;

/// Properties of a run.
#[derive(Debug, Clone)]
pub struct Profile {
    /// `commitlog_sync`.
    pub sync: SyncMode,
    /// `commitlog_segment_size`.
    pub segment_size: u32,
    /// `memtable_heap_space`.
    pub memtable_space: usize,
    /// `row_cache_size`.
    pub row_cache: u64,
    /// `auto_snapshot`.
    pub auto_snapshot: bool,
    /// Whether values expire. The wall clock is not set back then, because expired values may have
    /// been purged.
    pub expires: bool,
    /// Whether operations fail.
    pub errors: bool,
    /// Whether the disk fills up.
    pub fills: bool,
    /// Whether operations take time.
    pub slow: bool,
    /// Whether the machine crashes.
    pub crashes: bool,
    /// Whether files are damaged at the end.
    pub damages: bool,
    /// Whether a process may start with the wall clock behind that of an earlier process.
    pub clock_back_across_lives: bool,
    /// Whether the commit log is encrypted.
    pub encrypts: bool,
    /// Syncs have no effect: a deliberate fault of the disk that the simulation must detect.
    pub lying_disk: bool,
    /// A deliberate mistake of the model that the simulation must detect.
    pub mistake: Option<Mistake>,
}

impl Profile {
    /// Returns the profile of a seed.
    pub fn of(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed ^ 0x5eed);
        let sync = match random.random_range(0..4) {
            0 => SyncMode::Periodic { period: Duration::from_secs(10) },
            1 => SyncMode::Group { window: Duration::from_millis(1) },
            _ => SyncMode::Batch,
        };
        Self {
            sync,
            segment_size: [256 << 10, 512 << 10, 1 << 20][random.random_range(0..3)],
            memtable_space: [300_000, 1 << 20, 8 << 20][random.random_range(0..3)],
            row_cache: [0, 0, 100_000][random.random_range(0..3)],
            auto_snapshot: random.random_range(0..3) == 0,
            expires: random.random_range(0..3) == 0,
            errors: random.random_range(0..2) == 0,
            fills: random.random_range(0..3) == 0,
            slow: random.random_range(0..4) == 0,
            crashes: random.random_range(0..8) != 0,
            damages: random.random_range(0..3) == 0,
            clock_back_across_lives: random.random_range(0..3) == 0,
            encrypts: random.random_range(0..4) == 0,
            lying_disk: false,
            mistake: None,
        }
    }
}
