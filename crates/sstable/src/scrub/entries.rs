//! The readable entries of Index.

use std::sync::Arc;

use cassette_rows::{DecoratedKey, Result};

use super::{Log, is_damage};
use crate::index::PromotedIndex;
use crate::reader::{IndexCursor, Salvage};

/// The entry of a partition in Index.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: DecoratedKey,
    /// The partition's offset in the uncompressed Data.
    pub position: u64,
    /// The row index, if it has a readable one.
    pub promoted: Option<PromotedIndex>,
}

/// Iterates over Index. After an unreadable part it continues at the next entry known to Summary.
pub(super) struct Entries {
    source: Arc<Salvage>,
    cursor: Option<IndexCursor>,
    next: Option<Entry>,
}

impl Entries {
    pub fn new(source: Arc<Salvage>, log: &mut Log) -> Result<Self> {
        let mut entries = Self { cursor: source.index_from(0), source, next: None };
        entries.advance(log)?;
        Ok(entries)
    }

    /// Returns the entry of the partition at `position`, if it exists; skips those of partitions
    /// before it.
    pub fn at(&mut self, position: u64, log: &mut Log) -> Result<Option<Entry>> {
        while self.next.as_ref().is_some_and(|next| next.position < position) {
            self.advance(log)?;
        }
        match &self.next {
            Some(next) if next.position == position => {
                let entry = self.next.clone();
                self.advance(log)?;
                Ok(entry)
            }
            _ => Ok(None),
        }
    }

    /// Returns the first entry of a partition after `position` without consuming it.
    pub fn after(&mut self, position: u64, log: &mut Log) -> Result<Option<&Entry>> {
        while self.next.as_ref().is_some_and(|next| next.position <= position) {
            self.advance(log)?;
        }
        Ok(self.next.as_ref())
    }

    fn advance(&mut self, log: &mut Log) -> Result<()> {
        self.next = None;
        while let Some(cursor) = &mut self.cursor {
            match cursor.advance() {
                Ok(true) => {
                    let promoted = match cursor.promoted_index() {
                        Err(error) if !is_damage(&error) => return Err(error),
                        read => read.ok().flatten(),
                    };
                    let (key, position) = (cursor.decorated_key(), cursor.position());
                    self.next = Some(Entry { key, position, promoted });
                    return Ok(());
                }
                Ok(false) => self.cursor = None,
                Err(error) if is_damage(&error) => {
                    log.warn(format!("Error reading index file: {error}"));
                    let after = self.source.sample_after(cursor.entry_end());
                    self.cursor = after.and_then(|start| self.source.index_from(start));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
