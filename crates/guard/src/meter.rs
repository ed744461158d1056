//! The part of a case that callgrind counts.

use std::hint::black_box;

/// The name of the function during which callgrind counts.
pub const COUNTED_FUNCTION: &str = "cassette_guard_counted";

/// Calls `work`. Callgrind finds this function by its name, so it is not renamed and not inlined.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn cassette_guard_counted(work: &mut dyn FnMut()) {
    work();
    // Without this, the call above becomes a jump, and the function ends before its work.
    black_box(());
}

/// Counts the operations of one case. A case prepares its data, and then gives up the meter for
/// [`Counted`], so that it counts once.
#[derive(Debug)]
pub struct Meter {
    operations: u64,
}

/// Evidence that a case was counted.
#[derive(Debug)]
pub struct Counted(());

impl Meter {
    /// Returns a meter for so many operations.
    pub fn new(operations: u64) -> Self {
        Self { operations }
    }

    /// Returns the number of operations that the case has to perform.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Counts operations that are called one by one, with their number.
    pub fn each(self, mut operation: impl FnMut(u64)) -> Counted {
        let operations = black_box(self.operations);
        self.together(|| (0..operations).for_each(&mut operation))
    }

    /// Counts `work`, which performs all operations.
    pub fn together(self, mut work: impl FnMut()) -> Counted {
        cassette_guard_counted(&mut work);
        Counted(())
    }
}
