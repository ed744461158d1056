//! The operations of a run. Each has its own seed, so that omitting some does not change the
//! others.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::profile::Profile;

/// One step of a run. Its details depend on its seed and on the state of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: Kind,
    /// Determines the details.
    pub seed: u64,
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Write,
    ConditionalWrite,
    Batch,
    Truncate,
    ReadPartition,
    ReadTable,
    ReadIndex,
    ReadView,
    ReadPage,
    CreateTable,
    DropTable,
    DropKeyspace,
    AlterTable,
    CreateIndex,
    DropIndex,
    CreateView,
    DropView,
    Flush,
    Compact,
    RunPendingCompactions,
    CollectGarbage,
    Scrub,
    SyncLog,
    SaveCaches,
    DropCaches,
    TakeSnapshot,
    RestoreSnapshot,
    Reconnect,
    PassTime,
    SetClock,
    Stop,
    Kill,
    Crash,
    CrashSoon,
    FailOperations,
    FillDisk,
    SlowDown,
    Heal,
}

impl Kind {
    /// Returns its relative frequency.
    fn weight(self, profile: &Profile) -> u32 {
        let only = |condition: bool, weight: u32| if condition { weight } else { 0 };
        match self {
            Kind::Write => 120,
            Kind::ConditionalWrite => 12,
            Kind::Batch => 16,
            Kind::Truncate => 2,
            Kind::ReadPartition => 20,
            Kind::ReadTable => 4,
            Kind::ReadIndex => 6,
            Kind::ReadView => 3,
            Kind::ReadPage => 8,
            Kind::CreateTable => 3,
            Kind::DropTable => 2,
            Kind::AlterTable => 3,
            Kind::CreateIndex => 4,
            Kind::DropIndex => 1,
            Kind::CreateView => 2,
            Kind::DropView | Kind::DropKeyspace => 1,
            Kind::Flush => 6,
            Kind::Compact => 3,
            Kind::RunPendingCompactions => 3,
            Kind::CollectGarbage | Kind::Scrub | Kind::SaveCaches | Kind::DropCaches => 1,
            Kind::SyncLog => 2,
            Kind::TakeSnapshot => 2,
            Kind::RestoreSnapshot => 2,
            Kind::Reconnect => 2,
            Kind::PassTime => 8,
            Kind::SetClock => only(!profile.expires, 2),
            Kind::Stop => 1,
            Kind::Kill => 1,
            Kind::Crash => only(profile.crashes, 2),
            Kind::CrashSoon => only(profile.crashes, 3),
            Kind::FailOperations => only(profile.errors, 3),
            Kind::FillDisk => only(profile.fills, 2),
            Kind::SlowDown => only(profile.slow, 2),
            Kind::Heal => only(profile.errors || profile.fills, 8),
        }
    }
}

const KINDS: [Kind; 38] = [
    Kind::Write,
    Kind::ConditionalWrite,
    Kind::Batch,
    Kind::Truncate,
    Kind::ReadPartition,
    Kind::ReadTable,
    Kind::ReadIndex,
    Kind::ReadView,
    Kind::ReadPage,
    Kind::CreateTable,
    Kind::DropTable,
    Kind::DropKeyspace,
    Kind::AlterTable,
    Kind::CreateIndex,
    Kind::DropIndex,
    Kind::CreateView,
    Kind::DropView,
    Kind::Flush,
    Kind::Compact,
    Kind::RunPendingCompactions,
    Kind::CollectGarbage,
    Kind::Scrub,
    Kind::SyncLog,
    Kind::SaveCaches,
    Kind::DropCaches,
    Kind::TakeSnapshot,
    Kind::RestoreSnapshot,
    Kind::Reconnect,
    Kind::PassTime,
    Kind::SetClock,
    Kind::Stop,
    Kind::Kill,
    Kind::Crash,
    Kind::CrashSoon,
    Kind::FailOperations,
    Kind::FillDisk,
    Kind::SlowDown,
    Kind::Heal,
];

/// Returns the operations of a seed.
pub fn operations(seed: u64, profile: &Profile, count: usize) -> Vec<Operation> {
    let mut random = SmallRng::seed_from_u64(seed);
    let total: u32 = KINDS.iter().map(|kind| kind.weight(profile)).sum();
    let kind = |random: &mut SmallRng| {
        let mut left = random.random_range(0..total);
        for kind in KINDS {
            match left.checked_sub(kind.weight(profile)) {
                Some(less) => left = less,
                None => return kind,
            }
        }
        Kind::Write
    };
    // Most operations need a table.
    let first = [Kind::CreateTable, Kind::CreateTable];
    let kinds: Vec<Kind> = first.into_iter().chain((2..count).map(|_| kind(&mut random))).collect();
    kinds.into_iter().map(|kind| Operation { kind, seed: random.random() }).collect()
}
