//! Stalls writes while a table has compaction debt.
//!
//! The debt is [`choose::debt`](crate::strategies::choose::debt): the number of SSTables of a table
//! that reads would be spared if its compactions had caught up. From `slowdown_sstables` on, each
//! write of the table is delayed, so that writes slow down before they stop. From `stop_sstables`
//! on, it waits until there are fewer, and is rejected after `stop_timeout`. So reads never have to
//! open many more SSTables. A table with disabled compactions stalls no writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cassette_rows::interrupt;

use crate::basics::error::{EngineError, Result};
use crate::basics::options::BackpressureOptions;
use crate::store::core::Core;
use crate::store::table::Table;

/// The delay of a write just before writes stop. A connection with sequential writes is then
/// limited to a few hundred a second.
const LONGEST_DELAY: Duration = Duration::from_millis(4);
/// The interval at which a stopped writer checks again.
const CHECK: Duration = Duration::from_millis(10);

/// The reaction to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pressure {
    None,
    Delay(Duration),
    Stop,
}

fn pressure(debt: usize, options: &BackpressureOptions) -> Pressure {
    let (slowdown, stop) = (options.slowdown_sstables, options.stop_sstables);
    if stop == 0 || debt < slowdown.min(stop) {
        Pressure::None
    } else if debt >= stop {
        Pressure::Stop
    } else {
        // Quadratic: halfway it is a quarter.
        let share = (debt - slowdown + 1) as f64 / (stop - slowdown) as f64;
        Pressure::Delay(LONGEST_DELAY.mul_f64(share * share))
    }
}

impl Core {
    /// Whether a write of some table would be stalled.
    pub fn stalls_writes(&self) -> bool {
        let options = &self.options.backpressure;
        let holds = |table: &Arc<Table>| {
            pressure(table.compaction_debt.load(Ordering::Relaxed), options) != Pressure::None
        };
        self.tables.load().values().any(holds)
    }

    /// Stalls a write of the table if its compaction debt is too large. Called without locks.
    ///
    /// # Errors
    /// CompactionDebt; Interrupted, if the request of this thread is interrupted meanwhile.
    #[inline]
    pub fn wait_for_compactions(self: &Arc<Self>, table: &Table) -> Result<()> {
        let options = &self.options.backpressure;
        match pressure(table.compaction_debt.load(Ordering::Relaxed), options) {
            Pressure::None => Ok(()),
            pressure => self.stall(table, pressure),
        }
    }

    /// Whether [`wait_for_compactions`](Self::wait_for_compactions) would return immediately.
    #[inline]
    pub fn accepts_writes(&self, table: &Table) -> bool {
        let debt = table.compaction_debt.load(Ordering::Relaxed);
        pressure(debt, &self.options.backpressure) == Pressure::None
    }

    #[cold]
    fn stall(self: &Arc<Self>, table: &Table, pressure: Pressure) -> Result<()> {
        self.metrics.writes_stalled.add(1);
        self.metrics.writes_stalled_by_compaction.add(1);
        if !self.options.background_threads {
            // There is no background thread. The compaction does not belong to the request, so its
            // deadline does not apply.
            interrupt::shielded(|| self.compact_what_is_due());
            return Ok(());
        }
        if let Pressure::Delay(delay) = pressure {
            std::thread::sleep(delay);
            return Ok(());
        }
        let options = &self.options.backpressure;
        let began = Instant::now();
        while table.compaction_debt.load(Ordering::Relaxed) >= options.stop_sstables && !table.is_dropped() {
            self.compaction_wanted.raise();
            std::thread::sleep(interrupt::check_before_wait()?.min(CHECK));
            self.check_running()?;
            if began.elapsed() >= options.stop_timeout {
                return Err(EngineError::CompactionDebt {
                    table: table.metadata().qualified_name(),
                    sstables: table.compaction_debt.load(Ordering::Relaxed),
                    limit: options.stop_sstables,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_rows::{Interrupted, TableMetadata};

    use super::*;
    use crate::Engine;
    use crate::engine_tests::admission::with_short_deadline;
    use crate::engine_tests::testing::{insert, simple_table};
    use crate::engine_tests::{World, mutation};

    #[test]
    fn writes_slow_down_before_they_stop() {
        let options = BackpressureOptions { slowdown_sstables: 10, stop_sstables: 20, ..Default::default() };
        assert_eq!(pressure(9, &options), Pressure::None);
        let Pressure::Delay(first) = pressure(10, &options) else { panic!("a delay") };
        assert!(first < LONGEST_DELAY / 50);
        assert_eq!(pressure(19, &options), Pressure::Delay(LONGEST_DELAY));
        assert_eq!(pressure(20, &options), Pressure::Stop);
        assert_eq!(pressure(1000, &BackpressureOptions { stop_sstables: 0, ..options }), Pressure::None);
        assert_eq!(pressure(3, &BackpressureOptions { stop_sstables: 3, ..options }), Pressure::Stop);
    }

    /// A world whose compactions make almost no progress.
    fn world_in_debt(table: &Arc<TableMetadata>, stop_timeout: Duration) -> World {
        let mut world = World::new(vec![table.clone()]);
        world.options.background_threads = true;
        world.options.compaction_throughput = 1;
        world.options.backpressure =
            BackpressureOptions { slowdown_sstables: 2, stop_sstables: 4, stop_timeout };
        world
    }

    /// Writes and flushes until a write fails, 2000 times at most.
    fn write_until_refused(
        engine: &Engine,
        write: impl Fn(i32) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        for k in 0..2000 {
            write(k)?;
            if k % 100 == 99 {
                engine.flush(None).unwrap();
            }
        }
        Ok(())
    }

    #[test]
    fn a_write_is_refused_when_compaction_does_not_catch_up_in_time() {
        let table = simple_table("t", Default::default());
        let engine = world_in_debt(&table, Duration::from_millis(50)).open().unwrap();
        let write = |k| engine.apply(&[mutation(&table, insert(k, &[7; 100], 1))]);
        let result = write_until_refused(&engine, write);
        assert!(matches!(result, Err(EngineError::CompactionDebt { limit: 4, .. })), "{result:?}");
        engine.set_autocompaction(table.id, false).unwrap();
        write(10_000).unwrap();
    }

    #[test]
    fn a_write_that_waits_for_compaction_ends_at_its_deadline() {
        let table = simple_table("t", Default::default());
        let engine = world_in_debt(&table, Duration::from_secs(100_000)).open().unwrap();
        let write = |k| with_short_deadline(|| engine.apply(&[mutation(&table, insert(k, &[7; 100], 1))]));
        let result = write_until_refused(&engine, write);
        assert!(matches!(result, Err(EngineError::Interrupted(Interrupted::TimedOut))), "{result:?}");
    }

    #[test]
    fn without_threads_of_its_own_the_engine_compacts_where_it_writes() {
        let table = simple_table("t", Default::default());
        let mut world = World::new(vec![table.clone()]);
        world.options.backpressure =
            BackpressureOptions { slowdown_sstables: 3, stop_sstables: 4, ..Default::default() };
        let engine = world.open().unwrap();
        for k in 0..40 {
            engine.apply(&[mutation(&table, insert(k, b"x", 1))]).unwrap();
            engine.flush(None).unwrap();
        }
        assert!(world.sstables(&table) < 10);
    }
}
