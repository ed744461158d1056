//! The bytes of one fake file: what readers see, what survives a crash, and the changes between the
//! two.

/// Bytes of a file. Zeros at the end are not stored: most of a reserved segment of the commit log
/// consists of them, and tests copy every file at each crash.
#[derive(Clone, Default)]
pub(super) struct FileBytes {
    /// At most `length` bytes; those after them are zeros.
    stored: Vec<u8>,
    length: usize,
}

impl FileBytes {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Returns the byte at `offset`, or zero after the end.
    pub(super) fn byte(&self, offset: usize) -> u8 {
        self.stored.get(offset).copied().unwrap_or(0)
    }

    /// Copies bytes from `offset` on, and returns their number.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.length);
        let count = buffer.len().min(self.length - start);
        let stored = self.stored.get(start..).unwrap_or(&[]);
        let stored = &stored[..stored.len().min(count)];
        buffer[..stored.len()].copy_from_slice(stored);
        buffer[stored.len()..count].fill(0);
        count
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        bytes[..self.stored.len()].copy_from_slice(&self.stored);
        bytes
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.stored.len() < end {
            self.stored.resize(end, 0);
        }
        self.stored[offset..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
    }

    fn set_length(&mut self, length: usize) {
        self.stored.truncate(length);
        self.length = length;
    }
}

/// A change not yet synced.
#[derive(Clone)]
pub(super) enum Change {
    /// These bytes at this offset.
    Write(u64, Vec<u8>),
    /// The file's length set; growth reads as zeros.
    Length(u64),
}

/// The bytes of one file. `durable` with `pending` applied in order is `live`, except after a
/// failed sync, whose changes are in `live` only.
#[derive(Clone, Default)]
pub(super) struct Content {
    live: FileBytes,
    durable: FileBytes,
    pending: Vec<Change>,
}

impl Content {
    /// The content that readers see.
    pub(super) fn live(&self) -> &FileBytes {
        &self.live
    }

    /// The content that survives every crash.
    pub(super) fn durable(&self) -> &FileBytes {
        &self.durable
    }

    /// The changes that a crash can drop, in order.
    pub(super) fn pending(&self) -> &[Change] {
        &self.pending
    }

    /// A file without volatile changes.
    pub(super) fn settled(bytes: FileBytes) -> Self {
        Self { live: bytes.clone(), durable: bytes, pending: Vec::new() }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.change(Change::Write(offset, bytes.to_vec()));
    }

    pub(super) fn set_length(&mut self, length: u64) {
        self.change(Change::Length(length));
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// Records a failed sync: the kernel no longer writes these bytes back.
    pub(super) fn fail_sync(&mut self) {
        self.pending.clear();
    }

    pub(super) fn corrupt(&mut self, offset: u64, mask: u8) {
        let offset = offset as usize;
        assert!(offset < self.live.len(), "no byte at {offset} to corrupt");
        for bytes in [&mut self.live, &mut self.durable] {
            if offset < bytes.len() {
                bytes.write(offset, &[bytes.byte(offset) ^ mask]);
            }
        }
        for change in &mut self.pending {
            if let Change::Write(start, bytes) = change
                && let Some(at) = offset.checked_sub(*start as usize)
                && let Some(byte) = bytes.get_mut(at)
            {
                *byte ^= mask;
            }
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }
}

/// Applies a change to a file's bytes.
pub(super) fn apply(bytes: &mut FileBytes, change: &Change) {
    match change {
        Change::Write(offset, written) => bytes.write(*offset as usize, written),
        Change::Length(length) => bytes.set_length(*length as usize),
    }
}
