//! The bytes of one fake file: what readers see, what survives a crash, and the changes between the
//! two.

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
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Content {
    /// The content that readers see.
    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    /// The content that survives every crash.
    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// The changes that a crash can drop, in order.
    pub(super) fn pending(&self) -> &[Change] {
        &self.pending
    }

    /// A file without volatile changes.
    pub(super) fn settled(bytes: Vec<u8>) -> Self {
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
        self.live[offset] ^= mask;
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= mask;
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
pub(super) fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, written) => {
            let start = *offset as usize;
            let end = start + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(written);
        }
        Change::Length(length) => bytes.resize(*length as usize, 0),
    }
}
