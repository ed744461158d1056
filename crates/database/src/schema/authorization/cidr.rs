//! CIDRs: networks of addresses, with Cassandra's rules and notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: the addresses that begin with a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cidr {
    /// The first address. IPv4 addresses within IPv6 are IPv4 addresses.
    first: IpAddr,
    /// The length of the prefix in bits: at most 32 or 128.
    prefix_length: u8,
}

impl Cidr {
    /// Returns the network of `address` with a prefix of this length; `None` if the length is
    /// negative, or greater than that of the address.
    pub fn new(address: IpAddr, prefix_length: i16) -> Option<Self> {
        let prefix_length = u8::try_from(prefix_length).ok()?;
        let first = match address {
            IpAddr::V4(address) => {
                let others = u32::BITS.checked_sub(u32::from(prefix_length))?;
                let bits = address.to_bits().checked_shr(others).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(bits.checked_shl(others).unwrap_or(0)))
            }
            IpAddr::V6(address) => {
                let others = u128::BITS.checked_sub(u32::from(prefix_length))?;
                let bits = address.to_bits().checked_shr(others).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(bits.checked_shl(others).unwrap_or(0)))
            }
        };
        Some(Self { first, prefix_length })
    }

    /// Parses `10.0.0.0/8`. As in Cassandra, an IPv4 address within an IPv6 one has a prefix of 96
    /// bits more if it is written with dots, and otherwise its own.
    pub fn parse(text: &str) -> Option<Self> {
        let (written, prefix_length) = text.split_once('/')?;
        let prefix_length: i16 = prefix_length.parse().ok()?;
        let address: IpAddr = written.parse().ok()?;
        match address.to_canonical() {
            // Written as an IPv6 address with dots.
            canonical @ IpAddr::V4(_) if address.is_ipv6() && written.contains('.') => {
                Self::new(canonical, prefix_length.checked_sub(96)?)
            }
            canonical => Self::new(canonical, prefix_length),
        }
    }

    /// Returns the first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Returns the length of the prefix in bits.
    pub fn prefix_length(&self) -> u8 {
        self.prefix_length
    }

    /// Returns the first and the last address as numbers.
    pub fn bounds(&self) -> (u128, u128) {
        let (first, bits) = match self.first {
            IpAddr::V4(address) => (u128::from(address.to_bits()), u32::BITS),
            IpAddr::V6(address) => (address.to_bits(), u128::BITS),
        };
        let others = bits - u32::from(self.prefix_length);
        let rest = u128::MAX.checked_shr(u128::BITS - others).unwrap_or(0);
        (first, first | rest)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", shown_address(self.first), self.prefix_length)
    }
}

/// Returns an address as Java shows it: IPv6 without `::`.
pub(crate) fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|segment| format!("{segment:x}")).join(":"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed_and_shown_as_by_cassandra() {
        for (text, shown) in [
            ("127.0.0.1/8", "127.0.0.0/8"),
            ("1.2.3.4/32", "1.2.3.4/32"),
            ("1.2.3.4/0", "0.0.0.0/0"),
            ("255.255.255.255/31", "255.255.255.254/31"),
            ("::/0", "0:0:0:0:0:0:0:0/0"),
            ("2001:db8::/32", "2001:db8:0:0:0:0:0:0/32"),
            ("FE80::1:2/64", "fe80:0:0:0:0:0:0:0/64"),
            ("::1/128", "0:0:0:0:0:0:0:1/128"),
            ("::ffff:1.2.3.4/120", "1.2.3.0/24"),
            ("::ffff:1.2.3.4/96", "0.0.0.0/0"),
            ("1.2.3.4/+8", "1.0.0.0/8"),
            ("1.2.3.4/08", "1.0.0.0/8"),
        ] {
            assert_eq!(Cidr::parse(text).map(|cidr| cidr.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in [
            "",
            "/",
            "/8",
            "1.2.3.4",
            "1.2.3.4/",
            "1.2.3.4/33",
            "1.2.3.4/-1",
            "1.2.3.4/8/9",
            "1.2.3.4/x",
            "1.2.3.4/40000",
            "::1/129",
            "::ffff:1.2.3.4/95",
            "::ffff:1.2.3.4/129",
            "nonsense",
            "1.2.3.256/8",
            " 1.2.3.4/8",
            "localhost/8",
            "::ffff:102:304/120",
        ] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }

    #[test]
    fn bounds_are_the_first_and_the_last_address() {
        let bounds = |text| Cidr::parse(text).unwrap().bounds();
        assert_eq!(bounds("0.0.0.0/0"), (0, u128::from(u32::MAX)));
        assert_eq!(bounds("0.0.1.0/24"), (256, 511));
        assert_eq!(bounds("0.0.1.1/32"), (257, 257));
        assert_eq!(bounds("::/0"), (0, u128::MAX));
        assert_eq!(bounds("::2/127"), (2, 3));
        assert_eq!(bounds("::2/128"), (2, 2));
    }
}
