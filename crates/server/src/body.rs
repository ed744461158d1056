//! The body of a response while it is written: limited, and charged.

use cassette_database::DatabaseError;

use crate::limits::{Accounts, Charge};

/// The approximate length of the pieces of a body; the first piece is not charged until it is
/// complete.
pub(crate) const PIECE_LENGTH: usize = 256 * 1024;

/// The maximum length of a body that is written on a thread that serves other connections too.
const DIRECT_LENGTH_MAX: usize = 1024 * 1024;

/// Bodies up to this length are not charged: a connection has few of them at a time.
const UNCHARGED_LENGTH_MAX: usize = 16 * 1024;

/// The target for the body of a RESULT.
#[derive(Debug)]
pub struct Body<'a> {
    /// Receives the body, after its present content.
    pub buffer: &'a mut Vec<u8>,
    /// Receives the start of a long body, if it may be written in pieces.
    pub(crate) pieces: Option<&'a mut Vec<Vec<u8>>>,
    pub(crate) room: Room<'a>,
}

impl<'a> Body<'a> {
    /// Creates a body after the present content of `buffer`, with no limit except that of the
    /// protocol.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        Self { buffer, pieces: None, room: Room::Unlimited }
    }

    /// Creates a body in the output of a connection, after its present content.
    pub(crate) fn direct(buffer: &'a mut Vec<u8>) -> Self {
        Self { buffer, pieces: None, room: Room::Direct }
    }

    /// Creates a body in pieces, of which `buffer`, which is empty, receives the last.
    pub(crate) fn in_pieces(
        buffer: &'a mut Vec<u8>,
        pieces: &'a mut Vec<Vec<u8>>,
        meter: &'a mut Meter,
    ) -> Self {
        Self { buffer, pieces: Some(pieces), room: Room::Metered(meter) }
    }
}

/// The limit of a body.
#[derive(Debug)]
pub(crate) enum Room<'a> {
    /// No limit.
    Unlimited,
    /// A part of a connection's output.
    Direct,
    /// A separate buffer, in pieces.
    Metered(&'a mut Meter),
}

/// The memory of one response while a job writes it.
#[derive(Debug)]
pub(crate) struct Meter {
    charge: Option<Charge>,
    accounts: Accounts,
    length_max: usize,
}

impl Room<'_> {
    /// Returns the maximum length of the body. A request with a longer body than may be written
    /// directly is repeated on a dedicated thread.
    pub fn length_max(&self) -> usize {
        match self {
            Self::Unlimited => i32::MAX as usize,
            Self::Direct => DIRECT_LENGTH_MAX,
            Self::Metered(meter) => meter.length_max,
        }
    }

    /// Charges `bytes` more.
    pub fn charge(&mut self, bytes: usize) -> Result<(), DatabaseError> {
        match self {
            Self::Unlimited | Self::Direct => Ok(()),
            Self::Metered(meter) => meter.charge(bytes),
        }
    }

    /// Returns the error for a body that is longer than [`length_max`](Self::length_max).
    pub fn too_long(&self) -> DatabaseError {
        match self {
            Self::Direct => DatabaseError::WouldBlock,
            Self::Unlimited | Self::Metered(_) => DatabaseError::Invalid(format!(
                "Response is too big: it exceeds the maximum allowed length {} \
                 (native_transport_max_response_size); use paging, a smaller page or a LIMIT",
                self.length_max()
            )),
        }
    }
}

impl Meter {
    pub fn new(accounts: Accounts, length_max: usize) -> Self {
        Self { charge: None, accounts, length_max }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), DatabaseError> {
        let granted = match &mut self.charge {
            Some(charge) => charge.try_grow(bytes),
            None => {
                self.charge = self.accounts.try_charge(bytes);
                self.charge.is_some()
            }
        };
        if granted {
            Ok(())
        } else {
            Err(DatabaseError::Overloaded(format!(
                "Response breached limit on bytes in flight. ({}.) Server is currently in an overloaded \
                 state and cannot hold more responses: use paging, and read them.",
                self.accounts.usage()
            )))
        }
    }

    /// Charges an existing body of `length` bytes, and returns the guard of the charge.
    pub fn complete(self, length: usize) -> Option<Charge> {
        let Some(mut charge) = self.charge else {
            return (length > UNCHARGED_LENGTH_MAX).then(|| self.accounts.charge_anyway(length));
        };
        if length > charge.bytes() {
            charge.add(self.accounts.charge_anyway(length - charge.bytes()));
        }
        Some(charge)
    }
}
