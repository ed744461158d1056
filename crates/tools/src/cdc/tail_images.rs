//! `cassette cdc tail --images`: lines with the rows before and after each change.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use cassette_engine::cdc::{ChangeRecord, ChangeStream, ChangeStreamError};
use cassette_engine::commitlog::Position;
use cassette_vfs::FileSystem;
use cassette_vfs::encryption::Encryption;

use super::images::{ImageOptions, Images};
use super::{FOLLOW_INTERVAL, finished};

/// Changes that are made durable together: a sync for each would limit the rate.
const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// What to read, and where the copy is.
pub(super) struct ImagesTail<'a> {
    pub fs: Arc<dyn FileSystem>,
    /// The directory of the segments.
    pub captured: &'a Path,
    /// The directory of the copy.
    pub images: &'a Path,
    pub options: ImageOptions,
    pub encryption: Option<Arc<dyn Encryption>>,
    pub from: Option<Position>,
    pub follow: bool,
}

impl ImagesTail<'_> {
    /// Prints the changes that have not been acknowledged, with their images. A line is printed
    /// when the copy has it durably.
    pub fn run(self, mut out: impl Write) -> anyhow::Result<bool> {
        let mut images = Images::open(&self.fs, self.images, self.captured, self.from, self.options.clone())?;
        if let Some(from) = self.from {
            images.acknowledge(from)?;
        } else {
            images.read_acknowledged()?;
        }
        let mut stream =
            ChangeStream::open(self.fs.clone(), self.captured, self.encryption.clone(), images.position());
        let printed = self.print_all(&mut images, &mut stream, &mut out);
        let closed = images.close();
        let printed = printed?;
        closed?;
        finished(printed)
    }

    /// Returns the error of the output, which ends the command.
    fn print_all(
        &self,
        images: &mut Images,
        stream: &mut ChangeStream,
        out: &mut impl Write,
    ) -> anyhow::Result<io::Result<()>> {
        let mut failed = Ok(());
        images
            .replay(|lines| {
                failed = print(out, lines);
                if failed.is_err() { bail!("cannot write") } else { Ok(()) }
            })
            .or_else(|error| if failed.is_err() { Ok(()) } else { Err(error) })?;
        if failed.is_err() {
            return Ok(failed);
        }
        let mut is_waiting = false;
        loop {
            let is_at_end = self.apply_batch(images, stream, out)?;
            match is_at_end {
                Ok(false) => continue,
                Err(error) => return Ok(Err(error)),
                Ok(true) => {}
            }
            images.read_acknowledged()?;
            if images.has_room() {
                is_waiting = false;
                if !self.follow {
                    return Ok(Ok(()));
                }
            } else if !self.follow {
                bail!(images.full());
            } else if !std::mem::replace(&mut is_waiting, true) {
                eprintln!("warning: {}; waiting for it", images.full());
            }
            std::thread::sleep(FOLLOW_INTERVAL);
        }
    }

    /// Applies some changes and prints their lines. Returns whether there are no more, or no room
    /// for them in the outbox.
    fn apply_batch(
        &self,
        images: &mut Images,
        stream: &mut ChangeStream,
        out: &mut impl Write,
    ) -> anyhow::Result<io::Result<bool>> {
        let (mut lines, mut bytes, mut records) = (Vec::new(), 0, 0);
        let mut is_at_end = false;
        while records < BATCH_RECORDS && bytes < BATCH_BYTES {
            if !images.has_room() {
                images.read_acknowledged()?;
                is_at_end = !images.has_room();
                if is_at_end {
                    break;
                }
            }
            let Some(record) = self.next_record(images, stream)? else {
                is_at_end = true;
                break;
            };
            let added = images.apply(&record)?;
            bytes += added.iter().map(String::len).sum::<usize>();
            lines.extend(added);
            records += 1;
        }
        let consumed = if is_at_end && images.has_room() { stream.consumed() } else { Position::ZERO };
        images.sync(consumed)?;
        Ok(print(out, &lines).map(|()| is_at_end))
    }

    /// Returns the next record. Missing ones are an error, except before the copy's first.
    fn next_record(
        &self,
        images: &mut Images,
        stream: &mut ChangeStream,
    ) -> anyhow::Result<Option<ChangeRecord>> {
        let before = stream.position().segment;
        let record = loop {
            match stream.next_record() {
                Err(error @ ChangeStreamError::Missing { .. }) if images.may_lack_changes() => {
                    eprintln!("warning: {error}");
                    stream.skip_missing();
                }
                Err(error @ ChangeStreamError::Missing { .. }) => bail!(
                    "{error}, so the copy in {} lacks them; begin a new one in another directory, with \
                     --images-from and a new snapshot",
                    self.images.display()
                ),
                record => break record?,
            }
        };
        if record.as_ref().is_some_and(|record| record.position.segment != before) {
            images.check_chain(self.captured)?;
        }
        Ok(record)
    }
}

fn print(out: &mut impl Write, lines: &[String]) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()
}
