//! Opening the directory of a copy, and beginning one.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use cassette_engine::Engine;
use cassette_engine::cdc::captured_chain;
use cassette_engine::commitlog::{Position, SyncMode};
use cassette_rows::TableMetadata;
use cassette_vfs::FileSystem;

use super::clock::StreamClock;
use super::store::OwnTables;
use super::tables::CopiedTable;
use super::{ImageOptions, Images, VERSION_FILE, initial, size_of};

const VERSION: &[u8] = b"1";

impl Images {
    /// Opens the copy in `directory`, or begins one with `options` for the stream of changes in
    /// `captured` after `from`.
    ///
    /// # Errors
    /// If the directory has other files, another process has it open, or the initial rows cannot be
    /// read or do not fit `from`.
    pub fn open(
        fs: &Arc<dyn FileSystem>,
        directory: &Path,
        captured: &Path,
        from: Option<Position>,
        options: ImageOptions,
    ) -> anyhow::Result<Self> {
        let is_new = claim(fs.as_ref(), directory)?;
        let clock = Arc::new(StreamClock::at(0));
        let mut own = OwnTables::new();
        let (engine, tables) = open_engine(fs, directory, &clock, &own, options.background_threads)?;
        let is_complete = own.state(&engine, "complete")?.is_some();
        let tables = tables.into_iter().map(|table| (table.stored.id, table)).collect();
        own.begin_generation(&engine)?;
        let mut images = Self {
            fs: fs.clone(),
            directory: directory.to_owned(),
            options,
            engine,
            clock,
            own,
            tables,
            position: Position::ZERO,
            acknowledged: Position::ZERO,
            chain: None,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            is_new,
        };
        if is_complete {
            images.load()?;
        } else if is_new || images.tables.is_empty() {
            images.is_new = true;
            images.begin(captured, from)?;
        } else {
            bail!(
                "{}: the copy was not completed; remove the directory and begin again",
                directory.display()
            );
        }
        images.check_chain(captured)?;
        Ok(images)
    }

    /// Begins the copy with the initial rows.
    fn begin(&mut self, captured: &Path, from: Option<Position>) -> anyhow::Result<()> {
        self.chain = captured_chain(self.fs.as_ref(), captured)?;
        let start = from.unwrap_or(Position::ZERO);
        let (mut first, mut last) = (start, start);
        let snapshots = initial::open(&self.fs, &self.options.from, self.chain)?;
        if let Some(end) = snapshots.iter().map(|snapshot| snapshot.contained).max() {
            if from.is_some() && end > start {
                bail!(
                    "--images-from: a snapshot has changes up to {end}, so rows before the changes after {start} are \
                     not known; use an older snapshot, or continue --from {end}"
                );
            }
            first = snapshots.iter().map(|snapshot| snapshot.contained).min().unwrap_or(start);
            last = start.max(end);
        }
        for snapshot in &snapshots {
            let name = format!("{}.{}", snapshot.table.keyspace, snapshot.table.name);
            if !self.options.tables.is_empty() && !self.options.tables.contains(&name) {
                bail!("--images-from: a snapshot of {name}, which --table does not select");
            }
            let copied = CopiedTable::new(&snapshot.table, true, snapshot.contained);
            self.add_table(copied)?;
            self.load_rows(snapshot)?;
        }
        self.position = first;
        self.acknowledged = last;
        self.clock.advance_to(first.segment);
        let selected = self.options.tables.iter().cloned().collect::<Vec<_>>().join("\n");
        let empty = [u8::from(self.options.empty)];
        let mut state = vec![
            self.own.write_state("position", first.to_string().as_bytes()),
            self.own.write_state("acknowledged", last.to_string().as_bytes()),
            self.own.write_state("selected", selected.as_bytes()),
            self.own.write_state("empty", &empty),
            self.own.write_state("complete", b"1"),
        ];
        state.extend(self.chain.map(|chain| self.own.write_state("chain", &chain.to_be_bytes())));
        self.engine.apply(&state)?;
        Ok(self.engine.sync_log()?)
    }

    /// Reads the state of a copy that was opened before.
    fn load(&mut self) -> anyhow::Result<()> {
        if !self.options.from.is_empty() {
            bail!(
                "--images-from: {} has a copy already; omit the option, or use another directory",
                self.directory.display()
            );
        }
        self.position = self.own.position(&self.engine, "position")?;
        self.acknowledged = self.own.position(&self.engine, "acknowledged")?;
        let chain = self.own.state(&self.engine, "chain")?;
        self.chain = chain.and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
        let selected = self.own.state(&self.engine, "selected")?.unwrap_or_default();
        let selected = String::from_utf8(selected).context("the selected tables of the copy")?;
        let selected: BTreeSet<String> = selected.lines().map(str::to_owned).collect();
        if selected != self.options.tables {
            let selected = selected.into_iter().map(|name| format!(" --table {name}")).collect::<String>();
            let expected = if selected.is_empty() { " without --table".to_owned() } else { selected };
            bail!(
                "{}: the copy was begun{expected}; use the same tables, or another directory",
                self.directory.display()
            );
        }
        self.options.empty = self.own.state(&self.engine, "empty")?.is_some_and(|value| value == [1]);
        self.clock.advance_to(self.position.segment);
        // Lines of a record that was not applied are computed again.
        let invalid = self.own.remove_lines(self.position, true);
        self.engine.apply(&[invalid])?;
        let (mut outbox, mut bytes) = (VecDeque::new(), 0);
        self.own.read_lines(&self.engine, self.acknowledged, |entry| {
            let size = size_of(&entry.lines);
            outbox.push_back((entry.position, size));
            bytes += size;
            Ok(())
        })?;
        (self.outbox, self.outbox_bytes) = (outbox, bytes);
        Ok(())
    }
}

/// Makes `directory` one of a copy, unless it is. Returns whether it was empty.
fn claim(fs: &dyn FileSystem, directory: &Path) -> anyhow::Result<bool> {
    let version = directory.join(VERSION_FILE);
    match fs.read_start(&version, 16) {
        Ok(content) if content == VERSION => return Ok(false),
        Ok(content) => bail!(
            "{}: expected version 1 of copies for images, found {}",
            version.display(),
            String::from_utf8_lossy(&content)
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    fs.create_with_parents(directory)?;
    let is_own = |name: &str| name == format!("{VERSION_FILE}.tmp");
    if let Some(other) = fs.read_dir(directory)?.into_iter().find(|entry| !is_own(&entry.name)) {
        bail!(
            "--images {}: expected an empty directory or one of images, found {}",
            directory.display(),
            other.name
        );
    }
    fs.write_atomically(&version, VERSION)?;
    Ok(true)
}

/// Opens the engine of a copy with its tables.
pub(super) fn open_engine(
    fs: &Arc<dyn FileSystem>,
    directory: &Path,
    clock: &Arc<StreamClock>,
    own: &OwnTables,
    background_threads: bool,
) -> anyhow::Result<(Engine, Vec<CopiedTable>)> {
    let mut options = cassette_engine::Options::new(directory.join("copy"));
    options.commitlog_sync = SyncMode::Periodic { period: std::time::Duration::from_secs(10) };
    options.background_threads = background_threads;
    options.auto_snapshot = false;
    options.counter_cache_size = 0;
    let engine = Engine::open(options, fs.clone(), clock.clone())?;
    engine.create_tables(&own.all())?;
    engine.replay()?;
    let tables = own.definitions(&engine)?;
    let stored: Vec<Arc<TableMetadata>> = tables.iter().map(|table| table.stored.clone()).collect();
    engine.create_tables(&stored)?;
    engine.finish_recovery()?;
    Ok((engine, tables))
}
