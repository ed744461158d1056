//! Background work, executed when it is scheduled; snapshots; faults; time.

use std::path::PathBuf;
use std::time::Duration;

use cassette_database::{DatabaseError, ImportOptions, SnapshotOptions};
use cassette_engine::{EngineError, OverlappingTombstones, ScrubOptions};
use cassette_rows::TableId;
use cassette_vfs::OperationKind;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::node::Errors;
use crate::operation::Kind;
use crate::schema::Stamps;
use crate::simulation::{Outcome, Simulation};

impl Simulation {
    pub(crate) fn upkeep(&mut self, kind: Kind) -> Result<(), String> {
        match kind {
            Kind::Flush | Kind::Compact | Kind::CollectGarbage | Kind::Scrub => self.of_table(kind),
            Kind::RunPendingCompactions => {
                self.note("run pending compactions".to_owned());
                self.node.database()?.engine().run_pending_compactions();
                Ok(())
            }
            Kind::SyncLog => {
                self.note("sync the log".to_owned());
                let synced = self.node.database()?.engine().sync_log();
                if self.may_fail(synced)? {
                    self.model.synced();
                }
                Ok(())
            }
            Kind::SaveCaches => {
                self.note("save caches".to_owned());
                self.node.database()?.engine().save_caches();
                Ok(())
            }
            Kind::DropCaches => {
                self.note("drop caches".to_owned());
                let engine = self.node.database()?.engine();
                engine.invalidate_key_cache();
                engine.invalidate_row_cache();
                engine.invalidate_counter_cache();
                Ok(())
            }
            Kind::TakeSnapshot => self.take_snapshot(),
            Kind::RestoreSnapshot => self.restore_snapshot(),
            Kind::PassTime => {
                let millis = self.random.random_range(1..8000);
                self.note(format!("-- {millis} ms pass"));
                self.node.clock().advance(Duration::from_millis(millis));
                Ok(())
            }
            Kind::SetClock => {
                let seconds = self.random.random_range(-100_000..100_000);
                self.note(format!("-- the clock is set by {seconds} s"));
                self.node.set_clock(seconds);
                Ok(())
            }
            _ => {
                self.fault(kind);
                Ok(())
            }
        }
    }

    /// Begins or ends a fault of the machine.
    fn fault(&mut self, kind: Kind) {
        match kind {
            Kind::CrashSoon => {
                let operations = self.random.random_range(0..120);
                self.note(format!("-- the machine crashes after {operations} more operations on files"));
                self.node.die_after(operations);
            }
            Kind::FailOperations => self.fail_operations(),
            Kind::FillDisk => {
                let left = self.random.random_range(0..100_000);
                self.note(format!("-- the disk has {left} bytes left"));
                self.node.fill_disk(left);
            }
            Kind::SlowDown => {
                let micros = self.random.random_range(0..100_000);
                self.note(format!("-- operations take up to {micros} us"));
                let seed = self.random.random();
                self.node.slow_down(seed, micros);
            }
            Kind::Heal => {
                self.note("-- operations succeed again".to_owned());
                self.node.heal();
            }
            _ => {}
        }
    }

    pub(crate) fn fail_operations(&mut self) {
        const KINDS: [OperationKind; 10] = [
            OperationKind::Read,
            OperationKind::Write,
            OperationKind::Sync,
            OperationKind::SyncDir,
            OperationKind::Create,
            OperationKind::Rename,
            OperationKind::RemoveFile,
            OperationKind::HardLink,
            OperationKind::ReadDir,
            OperationKind::Allocate,
        ];
        let kinds =
            if self.one_in(2) { Vec::new() } else { vec![KINDS[self.random.random_range(0..KINDS.len())]] };
        let one_in = [1, 3, 10, 40][self.random.random_range(0..4)];
        self.note(format!("-- one operation in {one_in} fails: {kinds:?}"));
        let random = SmallRng::seed_from_u64(self.random.random());
        self.node.fail(Errors { random, one_in, kinds });
    }

    /// Returns whether something succeeded.
    ///
    /// # Errors
    /// If it failed and nothing was made to fail.
    fn may_fail<T, E: std::fmt::Display>(&mut self, outcome: Result<T, E>) -> Result<bool, String> {
        match outcome {
            Ok(_) => Ok(true),
            Err(error) if self.node.is_tainted() => {
                self.note(format!("   {error}"));
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn table_id(&self, name: &str) -> Result<TableId, String> {
        let shape = &self.model.tables[name].shape;
        let catalog = self.node.database()?.catalog();
        let table = catalog.table(shape.keyspace(), shape.table());
        Ok(table.ok_or_else(|| format!("{name} does not exist"))?.id)
    }

    fn of_table(&mut self, kind: Kind) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let id = self.table_id(&table)?;
        self.note(format!("{kind:?} {table}"));
        let database = self.node.database()?.clone();
        let engine = database.engine();
        let shape = &self.model.tables[&table].shape;
        let (keyspace, name) = (shape.keyspace(), shape.table());
        let done: Result<(), String> = match kind {
            Kind::Flush => engine.flush(Some(id)).map_err(|error: EngineError| error.to_string()),
            Kind::Compact => engine.compact(id).map_err(|error| error.to_string()),
            Kind::CollectGarbage => {
                engine.garbage_collect(id, OverlappingTombstones::Cell).map_err(|error| error.to_string())
            }
            _ => database
                .scrub(keyspace, name, &ScrubOptions::default(), false)
                .map(drop)
                .map_err(|error: DatabaseError| error.to_string()),
        };
        self.may_fail(done).map(drop)
    }

    fn take_snapshot(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        if self.model.is_open(&table) {
            return Ok(());
        }
        let name = format!("s{}", self.next_number());
        self.note(format!("snapshot {name} of {table}"));
        let options = SnapshotOptions { name: &name, skip_flush: false, ttl_seconds: None };
        let taken = self.node.database()?.snapshot(std::slice::from_ref(&table), &options);
        if self.may_fail(taken)? {
            self.model.snapshot(&table, &name);
        }
        Ok(())
    }

    /// Takes a snapshot's files into its table again. Where tombstones may have been purged since,
    /// the table is emptied first: deleted data would reappear.
    fn restore_snapshot(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let Some(name) = self.model.tables[&table].snapshots.keys().next().cloned() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        // The views would lack rows that are imported as files.
        if shape.is_counter() || !shape.views.is_empty() {
            return Ok(());
        }
        if (shape.stamps == Stamps::Server || self.one_in(2)) && !self.truncate_table(&table)? {
            return Ok(());
        }
        let id = self.table_id(&table)?;
        let directory: PathBuf =
            format!("/data/data/{}/{}-{}", shape.keyspace(), shape.table(), id.0.simple()).into();
        let directory = directory.join("snapshots").join(&name);
        self.note(format!("import {} into {table}", directory.display()));
        let options = ImportOptions { copy_data: true, ..ImportOptions::default() };
        let write = self.model.begin(self.life);
        self.model.restore(write, &table, &name);
        let imported = self.node.database()?.import(shape.keyspace(), shape.table(), &directory, &options);
        let outcome = if self.may_fail(imported)? {
            Outcome::Done(crate::wire::Reply::Done)
        } else {
            Outcome::Failed(String::new())
        };
        self.end(write, &outcome);
        Ok(())
    }
}
