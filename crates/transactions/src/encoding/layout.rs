//! The storage layouts of commit records: their tables, cells and values.

use bytes::Bytes;

use super::tickets::{self, Tickets};
use super::two_stage::{self, Stage};
use super::{DecodeError, plain};
use crate::store::{Cell, TableKind};
use crate::timestamp::{Timestamp, TransactionStatus};

/// Storage layout of commit records; see `docs/transactions.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Layout 1: a partition per start timestamp.
    Plain,
    /// Layout 2: tickets.
    Tickets(Tickets),
    /// Layout 3: tickets with two-stage values.
    TwoStage(Tickets),
}

impl Layout {
    /// Returns the layout of a version number; `None` if unknown.
    pub fn of_version(version: u32) -> Option<Self> {
        match version {
            1 => Some(Self::Plain),
            2 => Some(Self::Tickets(Tickets::STANDARD)),
            3 => Some(Self::TwoStage(Tickets::STANDARD)),
            _ => None,
        }
    }

    /// Returns its version number in the coordination map.
    pub fn version(self) -> u32 {
        match self {
            Self::Plain => 1,
            Self::Tickets(_) => 2,
            Self::TwoStage(_) => 3,
        }
    }

    /// Returns the name of its table.
    pub fn table(self) -> &'static str {
        match self {
            Self::Plain => "_transactions",
            Self::Tickets(_) => "_transactions2",
            Self::TwoStage(_) => "_transactions3",
        }
    }

    pub(crate) fn table_kind(self) -> TableKind {
        match self {
            Self::Plain => TableKind::SmallPartitions,
            Self::Tickets(_) | Self::TwoStage(_) => TableKind::DensePartitions,
        }
    }

    pub(crate) fn cell(self, start: Timestamp) -> Cell {
        match self {
            Self::Plain => Cell::new(plain::row(start), plain::COLUMN),
            Self::Tickets(tickets) | Self::TwoStage(tickets) => {
                let (row, column) = tickets.cell(start);
                Cell::new(Bytes::copy_from_slice(&row), column)
            }
        }
    }

    pub(crate) fn start(self, row: &[u8], column: &[u8]) -> Result<Timestamp, DecodeError> {
        match self {
            Self::Plain => plain::start(row),
            Self::Tickets(tickets) | Self::TwoStage(tickets) => tickets.start(row, column),
        }
    }

    /// Encodes the value that a conditional put writes.
    pub(crate) fn value(self, start: Timestamp, status: TransactionStatus) -> Bytes {
        match self {
            Self::Plain => plain::value(status),
            Self::Tickets(_) => tickets::value(start, status),
            Self::TwoStage(_) => two_stage::value(start, status, Stage::Staging),
        }
        .into()
    }

    /// Decodes a value, and whether it is final.
    pub(crate) fn decode(
        self,
        start: Timestamp,
        value: &[u8],
    ) -> Result<(TransactionStatus, Stage), DecodeError> {
        let certain = |status| (status, Stage::Committed);
        match self {
            Self::Plain => plain::status(value).map(certain),
            Self::Tickets(_) => tickets::status(start, value).map(certain),
            Self::TwoStage(_) => two_stage::status(start, value),
        }
    }
}
