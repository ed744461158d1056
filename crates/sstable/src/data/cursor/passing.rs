//! Rows that are skipped because every reader sees them at any time: they are counted, or a probe
//! receives a few of their values.

use cassette_rows::{Bound, ClusteringComparator, PROBED_COLUMNS, Result, RowProbe, Token};

use super::Cursor;
use crate::data::RowFormat;
use crate::data::probe::End;
use crate::input::Input;

impl Cursor {
    /// Skips rows whose primary key is live and that are not deleted, up to `limit`, and returns
    /// their number. Stops early at other rows, at a marker and at the end of the partition.
    pub fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        if !probe.columns().is_empty() {
            return self.probe_live_rows(None, limit, probe);
        }
        let mut passed = 0;
        while passed < limit {
            self.fill(1)?;
            let mut input = Input::over(&self.window, self.position, self.window_start);
            let mut is_live = Ok(true);
            while passed < limit && matches!(is_live, Ok(true)) {
                is_live = self.format.pass_live_row(&mut input);
                if matches!(is_live, Ok(true)) {
                    self.position = input.position();
                    passed += 1;
                }
            }
            if passed == limit || is_live.is_ok() || !self.pass_live_row_beyond_window()? {
                break;
            }
            passed += 1;
        }
        Ok(passed)
    }

    /// Skips a live row that is not completely in the window.
    fn pass_live_row_beyond_window(&mut self) -> Result<bool> {
        let start = self.offset();
        let pending = self.next_head()?;
        let end = pending.end_of_body(self.offset());
        match end.filter(|end| pending.is_lasting_row() && *end <= self.file.data_length()) {
            Some(end) => self.seek(end),
            None => self.seek(start),
        }
        Ok(self.offset() != start)
    }

    /// [`pass_live_rows`](Self::pass_live_rows) for rows before `bound`.
    pub fn pass_live_rows_before(
        &mut self,
        bound: &Bound,
        comparator: &ClusteringComparator,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        if *bound == Bound::top() {
            return self.pass_live_rows(limit, probe);
        }
        if !probe.columns().is_empty() {
            return self.probe_live_rows(Some((bound, comparator)), limit, probe);
        }
        self.fill(1)?;
        let mut input = Input::over(&self.window, self.position, self.window_start);
        let mut passed = 0;
        while passed < limit
            && self.window.get(self.position).is_some_and(|flags| RowFormat::is_lasting(*flags))
            && matches!(self.format.pass_row_before(&mut input, bound, comparator), Ok(Some(_)))
        {
            self.position = input.position();
            passed += 1;
        }
        Ok(passed)
    }

    /// [`pass_live_rows`](Self::pass_live_rows) before `end`, for a probe with columns.
    fn probe_live_rows(&mut self, end: End<'_>, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        let Some(probed) = self.format.probed(probe.columns()) else { return Ok(0) };
        let mut passed = 0;
        loop {
            self.fill(1)?;
            let mut input = Input::over(&self.window, self.position, self.window_start);
            let mut values = [None; PROBED_COLUMNS];
            while passed < limit {
                match self.format.probe_row(&mut input, &probed, end, &mut values) {
                    Ok(true) if probe.skips(&values[..probed.count()]) => {}
                    Ok(_) => return Ok(passed),
                    // The rest of the row may be in the next chunk.
                    Err(_) => break,
                }
                self.position = input.position();
                passed += 1;
            }
            if passed == limit || !self.complete_live_row()? {
                return Ok(passed);
            }
        }
    }

    /// Extends the window by the rest of a live row. Returns whether anything was missing.
    fn complete_live_row(&mut self) -> Result<bool> {
        let start = self.offset();
        let window_end = self.window_start + self.window.len() as u64;
        if window_end >= self.file.data_length() {
            return Ok(false);
        }
        let pending = self.next_head()?;
        let end = pending.end_of_body(self.offset());
        self.seek(start);
        let is_beyond = |end: &u64| (window_end + 1..=self.file.data_length()).contains(end);
        let Some(end) = end.filter(|end| pending.is_lasting_row() && is_beyond(end)) else {
            return Ok(false);
        };
        self.fill((end - start) as usize)?;
        Ok(true)
    }

    /// At the beginning of a partition: skips partitions before `before` that begin before offset
    /// `end` and consist of rows that [`pass_live_rows`](Self::pass_live_rows) skips; with a probe,
    /// of one such row. Returns the number of rows; stops after `limit` of them.
    pub fn pass_live_partitions(
        &mut self,
        (before, end): (Option<Token>, u64),
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        if self.offset() >= end || !self.format.statics.is_empty() {
            return Ok(0);
        }
        if !probe.columns().is_empty() {
            return self.probe_live_partitions((before, end), limit, probe);
        }
        let mut passed = 0;
        loop {
            self.fill(1)?;
            let mut input = Input::over(&self.window, self.position, self.window_start);
            let mut is_complete = true;
            while passed < limit && self.offset() < end {
                match self.format.pass_live_partition(&mut input, before) {
                    Ok(Some(rows)) => {
                        self.position = input.position();
                        passed += rows;
                    }
                    Ok(None) => return Ok(passed),
                    Err(_) => {
                        is_complete = false;
                        break;
                    }
                }
            }
            if is_complete || !self.complete_partition(end)? {
                return Ok(passed);
            }
        }
    }

    /// [`pass_live_partitions`](Self::pass_live_partitions) for a probe with columns. A row must
    /// not be probed twice, so partitions of several rows are left to
    /// [`pass_live_rows`](Self::pass_live_rows), which skips some of them.
    fn probe_live_partitions(
        &mut self,
        (before, end): (Option<Token>, u64),
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        let Some(probed) = self.format.probed(probe.columns()) else { return Ok(0) };
        let mut passed = 0;
        loop {
            self.fill(1)?;
            let mut input = Input::over(&self.window, self.position, self.window_start);
            let mut values = [None; PROBED_COLUMNS];
            let mut is_complete = true;
            while passed < limit && self.window_start + (self.position as u64) < end {
                match self.format.probe_only_row(&mut input, before, &probed, &mut values) {
                    Ok(true) if probe.skips(&values[..probed.count()]) => {}
                    Ok(_) => return Ok(passed),
                    Err(_) => {
                        is_complete = false;
                        break;
                    }
                }
                self.position = input.position();
                passed += 1;
            }
            if is_complete || !self.complete_partition(end)? {
                return Ok(passed);
            }
        }
    }

    /// Extends the window for a small partition that is not completely in it. Returns whether
    /// anything was missing.
    fn complete_partition(&mut self, end: u64) -> Result<bool> {
        let before = self.window.len() - self.position;
        // The first attempt mostly suffices: a row and its key are shorter than the rest of a chunk
        // and as much again.
        let wanted = (2 * before).max(SMALL_PARTITION);
        let left = end.saturating_sub(self.offset());
        if before >= LARGE_PARTITION || before as u64 >= left {
            return Ok(false);
        }
        self.fill((wanted as u64).min(left) as usize)?;
        Ok(self.window.len() - self.position > before)
    }
}

/// The bytes of a partition that are first copied to complete it.
const SMALL_PARTITION: usize = 2 << 10;

/// The bytes from which on a partition is not completed.
const LARGE_PARTITION: usize = 4 << 10;
