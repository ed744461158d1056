//! The leader's record, and how the length of a lease is measured.
//!
//! It is stored in place of a plain bound of timestamps: row and column `ts` of table `_timestamp`.
//! So the write that raises the bound also renews the lease, and a server that lost the lease
//! cannot raise the bound.
//!
//! ```text
//! [1] format: 1
//! [8] term        greater with every leader
//! [8] sequence    greater with every write of a leader: no value recurs
//! [8] bound       timestamps up to it may have been issued
//! [8] holder      a random number that the server chose when it started
//! [4] lease, ms   0: given back
//! [.] where clients reach it, UTF-8
//! ```
//!
//! Numbers are big-endian. A plain bound, as [`Timestamps`](super::Timestamps) stores it, has 8
//! bytes; no record does.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cassette_vfs::Clock;

use super::halt::{self, Halt};

/// Format of the records. Never change the meaning of a number.
const FORMAT: u8 = 1;
/// Bytes before the address.
const HEAD_LENGTH: usize = 1 + 8 + 8 + 8 + 8 + 4;
/// Maximum length of the address.
const ADDRESS_LENGTH_MAX: usize = 1024;

/// The leader, and the bound of its timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Increases with every leader.
    pub term: u64,
    /// Increases with every write of a leader.
    pub sequence: u64,
    /// No timestamp above it was issued.
    pub bound: i64,
    /// Random number of the server.
    pub holder: u64,
    /// How long the server may consider itself the leader, from before this record was written.
    /// Zero after it released the lease.
    pub lease: Duration,
    /// Address where clients reach it.
    pub address: String,
}

/// The value stored for the timestamps of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    /// Bound of a process that issues its own timestamps.
    Plain(i64),
    /// Record of a leader.
    Leased(Record),
    /// Record of a server that halted the timestamps.
    Halted(Halt),
}

/// Returns the number at byte `at` of a record's head, whose length was checked.
pub(super) fn number_at(head: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(number)
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
            return Err(format!(
                "expected a bound of 8 bytes or a lease record of at least \
                {HEAD_LENGTH}, found {} bytes",
                bytes.len()
            ));
        };
        if head.first() != Some(&FORMAT) {
            return Err(format!("lease record: expected format {FORMAT}, found {:?}", head.first()));
        }
        if address.len() > ADDRESS_LENGTH_MAX {
            return Err(format!(
                "lease record: expected an address of at most {ADDRESS_LENGTH_MAX} bytes, found {}",
                address.len()
            ));
        }
        let address =
            std::str::from_utf8(address).map_err(|_| "lease record: address is not UTF-8".to_owned())?;
        let number = |at: usize| number_at(head, at);
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

    /// How long another server must see this value unchanged before it may lead.
    pub fn wait(&self) -> Duration {
        match self {
            Self::Plain(_) => Duration::ZERO,
            Self::Leased(record) => with_drift(record.lease),
            // No server may lead while it is stored.
            Self::Halted(_) => Duration::MAX,
        }
    }
}

/// How long others wait for the end of a lease: a quarter longer than its holder, to allow for
/// clocks of different rates.
pub(super) fn with_drift(lease: Duration) -> Duration {
    lease + lease / 4
}

/// Readings of a machine's clocks, taken together.
///
/// A monotonic clock may stand still while the machine sleeps, and a wall clock may be set. The
/// holder of a lease uses the longer of both durations, a server that waits for its end the shorter
/// one, so that one clock on each side may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockReading {
    pub monotonic: Duration,
    pub wall_micros: i64,
}

impl ClockReading {
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

    /// Time since `earlier` according to the clock that advanced more.
    pub fn longest_since(self, earlier: Self) -> Duration {
        self.on_wall(earlier).max(self.on_monotonic(earlier))
    }

    /// Time since `earlier` according to the clock that advanced less.
    pub fn shortest_since(self, earlier: Self) -> Duration {
        self.on_wall(earlier).min(self.on_monotonic(earlier))
    }

    /// Returns whether the wall clock advanced much more than the monotonic one: it was set, or the
    /// machine slept.
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
    fn records_and_plain_bounds_are_distinguished() {
        let bytes = record().encode();
        assert_eq!(Stored::decode(&bytes), Ok(Stored::Leased(record())));
        assert_eq!(Stored::decode(&10_000i64.to_be_bytes()), Ok(Stored::Plain(10_000)));
        assert_eq!(bytes[..9], [1, 0, 0, 0, 0, 0, 0, 0, 3], "as drawn above");
        assert_eq!(&bytes[HEAD_LENGTH..], b"10.0.0.5:8421");
    }

    #[test]
    fn malformed_records_are_rejected() {
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
    fn holders_use_the_longer_duration_and_others_the_shorter() {
        let reading = |monotonic, wall: i64| ClockReading {
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
