//! Protocol versions: the low seven bits of an envelope's first byte.

use std::fmt;

/// A supported version of the native protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// The oldest supported version, as in Cassandra 5.0.
    V3 = 3,
    /// Adds unset values, warnings, custom payloads and the types date, time, smallint and tinyint.
    V4 = 4,
    /// Adds checksummed frames, result metadata ids, per-request keyspaces and the type duration.
    V5 = 5,
}

impl Version {
    /// All supported versions, oldest first.
    pub const SUPPORTED: [Self; 3] = [Self::V3, Self::V4, Self::V5];

    /// The newest version; a request in an unknown version is answered in this one.
    pub const CURRENT: Self = Self::V5;

    /// Returns the supported version with this number, from which the direction bit was removed.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::SUPPORTED.into_iter().find(|version| version.number() == number)
    }

    /// The number on the wire, without the direction bit.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns `3/v3, 4/v4, 5/v5`, the list of supported versions in error messages. Drivers search
    /// for this text.
    pub fn supported_list() -> String {
        Self::SUPPORTED.map(|version| version.to_string()).join(", ")
    }
}

/// Writes `4/v4`, the form of SUPPORTED.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0}/v{0}", self.number())
    }
}
