//! The record by which one server leads, and how long a lease is measured to be.
//!
//! It lies where a plain bound of timestamps would: row and column `ts` of table `_timestamp`. So whoever raises the bound renews its lease by
//! the same write, and a server that lost the lease cannot raise the bound any more.
//!
//! ```text
//! [1] format: 1
//! [8] term        greater with every leader
//! [8] sequence    greater with every write of a leader: no value ever comes back
//! [8] bound       timestamps up to it may have been given out
//! [8] holder      a random number that the server gave itself when it started
//! [4] lease, ms   0: given back
//! [.] where clients reach it, UTF-8
//! ```
//!
//! Numbers are big-endian. A plain bound, as [`Timestamps`](super::Timestamps) stores it, is 8 bytes long, and no record is.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cassette_vfs::Clock;

use super::halt::{self, Halt};

/// The format of records. Never change what a number means.
const FORMAT: u8 = 1;
/// Bytes before the address.
const HEAD_LENGTH: usize = 1 + 8 + 8 + 8 + 8 + 4;
/// The longest address.
const ADDRESS_LENGTH_MAX: usize = 1024;

/// Who leads, and up to where it may give out timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Greater with every leader.
    pub term: u64,
    /// Greater with every write of one leader.
    pub sequence: u64,
    /// All timestamps given out are at most this.
    pub bound: i64,
    /// The server.
    pub holder: u64,
    /// For how long it may think that it leads, from before this record was written. Zero if it has given the lease back.
    pub lease: Duration,
    /// Where clients reach it.
    pub address: String,
}

/// What is stored for the timestamps of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    /// The bound of timestamps that a process gives to itself.
    Plain(i64),
    /// The record of a server.
    Leased(Record),
    /// The record of a server that stopped the timestamps.
    Halted(Halt),
}

impl Record {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEAD_LENGTH + self.address.len());
        out.put_u8(FORMAT);
        out.put_u64(self.term);
        out.put_u64(self.sequence);
        out.put_i64(self.bound);
        out.put_u64(self.holder);
        out.put_u32(u32::try_from(self.lease.as_millis()).unwrap_or(u32::MAX));
        out.put_slice(self.address.as_bytes());
        out.freeze()
    }
}

impl Stored {
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if let Ok(bound) = <[u8; 8]>::try_from(bytes) {
            return Ok(Self::Plain(i64::from_be_bytes(bound)));
        }
        if bytes.first() == Some(&halt::FORMAT) {
            return Halt::decode(bytes).map(Self::Halted);
        }
        let Some((head, address)) = bytes.split_at_checked(HEAD_LENGTH) else {
            return Err(format!("it has {} bytes, and neither a bound nor a lease has", bytes.len()));
        };
        if head.first() != Some(&FORMAT) {
            return Err(format!("its format is {:?}, and this version knows {FORMAT}", head.first()));
        }
        if address.len() > ADDRESS_LENGTH_MAX {
            return Err(format!("its address has {} bytes", address.len()));
        }
        let address = std::str::from_utf8(address).map_err(|_| "its address is not UTF-8".to_owned())?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&head[at..at + 8]);
            u64::from_be_bytes(number)
        };
        let lease = [head[33], head[34], head[35], head[36]];
        Ok(Self::Leased(Record {
            term: number(1),
            sequence: number(9),
            bound: number(17).cast_signed(),
            holder: number(25),
            lease: Duration::from_millis(u32::from_be_bytes(lease).into()),
            address: address.to_owned(),
        }))
    }

    pub fn bound(&self) -> i64 {
        match self {
            Self::Plain(bound) => *bound,
            Self::Leased(record) => record.bound,
            Self::Halted(halt) => halt.bound,
        }
    }

    /// How long another server must have seen this, unchanged, before it may lead.
    pub fn wait(&self) -> Duration {
        match self {
            Self::Plain(_) => Duration::ZERO,
            Self::Leased(record) => with_drift(record.lease),
            // Nobody may lead while it stands.
            Self::Halted(_) => Duration::MAX,
        }
    }
}

/// How long others wait for a lease to end: a quarter longer than its holder. So much may the clocks of both differ in pace.
pub(super) fn with_drift(lease: Duration) -> Duration {
    lease + lease / 4
}

/// What both clocks of a machine say at one moment.
///
/// A monotonic clock may stand still while the machine sleeps; a wall clock may be set. A holder of a lease counts the longer of both, and who
/// waits for its end the shorter, so that one of both may be wrong on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub monotonic: Duration,
    pub wall_micros: i64,
}

impl Reading {
    pub fn of(clock: &dyn Clock) -> Self {
        Self { monotonic: clock.monotonic(), wall_micros: clock.now_micros() }
    }

    fn on_wall(self, earlier: Self) -> Duration {
        let micros = self.wall_micros.saturating_sub(earlier.wall_micros);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    fn on_monotonic(self, earlier: Self) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }

    /// The time since `earlier`, by the clock that says more.
    pub fn longest_since(self, earlier: Self) -> Duration {
        self.on_wall(earlier).max(self.on_monotonic(earlier))
    }

    /// The time since `earlier`, by the clock that says less.
    pub fn shortest_since(self, earlier: Self) -> Duration {
        self.on_wall(earlier).min(self.on_monotonic(earlier))
    }

    /// Whether the wall clock says much more than the monotonic one: it was set, or the machine slept.
    pub fn jumped_since(self, earlier: Self) -> bool {
        self.on_wall(earlier) > self.on_monotonic(earlier) * 2 + Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            term: 3,
            sequence: 0x0102_0304_0506_0708,
            bound: 1_010_000,
            holder: u64::MAX - 1,
            lease: Duration::from_millis(5000),
            address: "10.0.0.5:8421".to_owned(),
        }
    }

    #[test]
    fn records_and_plain_bounds_are_told_apart() {
        let bytes = record().encode();
        assert_eq!(Stored::decode(&bytes), Ok(Stored::Leased(record())));
        assert_eq!(Stored::decode(&10_000i64.to_be_bytes()), Ok(Stored::Plain(10_000)));
        assert_eq!(bytes[..9], [1, 0, 0, 0, 0, 0, 0, 0, 3], "as drawn above");
        assert_eq!(&bytes[HEAD_LENGTH..], b"10.0.0.5:8421");
    }

    #[test]
    fn what_is_neither_is_refused() {
        let bytes = record().encode();
        for length in (0..HEAD_LENGTH).filter(|length| *length != 8) {
            assert!(Stored::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut newer = bytes.to_vec();
        newer[0] = 3;
        assert!(Stored::decode(&newer).unwrap_err().contains("format"));
        let mut no_text = bytes.to_vec();
        no_text.push(0xff);
        assert!(Stored::decode(&no_text).is_err());
        assert!(Stored::decode(&[&bytes[..], &[b'x'; 2000]].concat()).is_err());
    }

    #[test]
    fn a_holder_counts_the_longer_and_others_the_shorter_time() {
        let reading = |monotonic, wall: i64| Reading {
            monotonic: Duration::from_secs(monotonic),
            wall_micros: wall * 1_000_000,
        };
        for (now, shortest, longest, jumped) in [
            (reading(12, 102), 2, 2, false),
            (reading(11, 200), 1, 100, true),
            (reading(15, 50), 0, 5, false),
        ] {
            let began = reading(10, 100);
            assert_eq!(now.shortest_since(began), Duration::from_secs(shortest));
            assert_eq!(now.longest_since(began), Duration::from_secs(longest));
            assert_eq!(now.jumped_since(began), jumped);
        }
    }
}
