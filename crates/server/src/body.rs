//! The body of a response while it is written: bounded, and accounted.

use cassette_database::DatabaseError;

use crate::limits::{Accounts, Charge};

/// A body is written in pieces of about this many bytes, and the first piece is not charged until it is complete.
pub(crate) const PIECE_LENGTH: usize = 256 * 1024;

/// The longest body of a request that is executed on a thread that serves other connections too.
const DIRECT_LENGTH_MAX: usize = 1024 * 1024;

/// Bodies up to this length are not worth counting: a connection has few of them at a time.
const UNCHARGED_LENGTH_MAX: usize = 16 * 1024;

/// Where a backend writes the body of a RESULT.
#[derive(Debug)]
pub struct Body<'a> {
    /// Receives the body, behind what is in it already.
    pub buffer: &'a mut Vec<u8>,
    /// Receives the start of a long body, if it may be written in pieces.
    pub(crate) pieces: Option<&'a mut Vec<Vec<u8>>>,
    pub(crate) room: Room<'a>,
}

impl<'a> Body<'a> {
    /// A body behind what is in `buffer` already, of any length that can be announced.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        Self { buffer, pieces: None, room: Room::Unlimited }
    }

    /// A body in the output of a connection, behind what is in it already.
    pub(crate) fn direct(buffer: &'a mut Vec<u8>) -> Self {
        Self { buffer, pieces: None, room: Room::Direct }
    }

    /// A body in pieces, of which `buffer`, which is empty, receives the last.
    pub(crate) fn in_pieces(
        buffer: &'a mut Vec<u8>,
        pieces: &'a mut Vec<Vec<u8>>,
        meter: &'a mut Meter,
    ) -> Self {
        Self { buffer, pieces: Some(pieces), room: Room::Metered(meter) }
    }
}

/// What a body may occupy.
#[derive(Debug)]
pub(crate) enum Room<'a> {
    /// Nobody bounds it.
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
    /// The longest body. A request whose body is longer than may be written directly comes again with its own thread.
    pub fn length_max(&self) -> usize {
        match self {
            Self::Unlimited => i32::MAX as usize,
            Self::Direct => DIRECT_LENGTH_MAX,
            Self::Metered(meter) => meter.length_max,
        }
    }

    /// Accounts for `bytes` more.
    pub fn charge(&mut self, bytes: usize) -> Result<(), DatabaseError> {
        match self {
            Self::Unlimited | Self::Direct => Ok(()),
            Self::Metered(meter) => meter.charge(bytes),
        }
    }

    /// The error for a body that is longer than [`length_max`](Self::length_max).
    pub fn too_long(&self) -> DatabaseError {
        match self {
            Self::Direct => DatabaseError::WouldBlock,
            Self::Unlimited | Self::Metered(_) => DatabaseError::Invalid(format!(
                "Response is too big: it exceeds the maximum allowed length {} (native_transport_max_response_size); use paging, a smaller page or a LIMIT",
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
                "Response breached limit on bytes in flight. ({}.) Server is currently in an overloaded state and cannot hold more responses: use paging, and read them.",
                self.accounts.usage()
            )))
        }
    }

    /// Accounts for a body of `length` bytes, which exists, and returns what keeps it accounted for.
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
