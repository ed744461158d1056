//! Addresses as text, as Java parses and formats them.

use std::net::Ipv6Addr;

/// Parses an address into its 4 or 16 bytes. IPv4 also with fewer than four parts, the last of
/// which fills the rest; IPv6 also in brackets; an IPv4 address mapped into IPv6 becomes the IPv4
/// address. Names are not resolved.
pub fn parse_inet(text: &str) -> Option<Vec<u8>> {
    if let Some(address) = parse_v4(text) {
        return Some(address.to_be_bytes().to_vec());
    }
    let bare = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'))?;
    // A numeric scope is meaningful only on one machine, and is not stored.
    let bare = match bare.split_once('%') {
        Some((address, scope)) if !scope.is_empty() && scope.bytes().all(|c| c.is_ascii_digit()) => address,
        _ => bare,
    };
    let address: Ipv6Addr = bare.parse().ok()?;
    Some(match address.to_ipv4_mapped() {
        Some(mapped) => mapped.octets().to_vec(),
        None => address.octets().to_vec(),
    })
}

fn parse_v4(text: &str) -> Option<u32> {
    let parts: Vec<&str> = text.split('.').collect();
    let (last, first) = parts.split_last()?;
    if text.len() > 15 || first.len() > 3 {
        return None;
    }
    let number = |part: &str, limit: u64| {
        let digits = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        part.parse::<u64>().ok().filter(|number| digits && *number <= limit)
    };
    let mut address = 0;
    for part in first {
        address = address << 8 | number(part, 255)?;
    }
    let last_bits = 32 - 8 * first.len() as u32;
    let last = number(last, (1 << last_bits) - 1)?;
    Some((address << last_bits | last) as u32)
}

/// Formats `127.0.0.1` or `0:0:0:0:0:0:0:1`; an empty text if the bytes are not an address.
pub fn inet_to_text(bytes: &[u8]) -> String {
    if let Ok([a, b, c, d]) = <[u8; 4]>::try_from(bytes) {
        return format!("{a}.{b}.{c}.{d}");
    }
    let groups = bytes.chunks_exact(2).map(|pair| format!("{:x}", u16::from_be_bytes([pair[0], pair[1]])));
    groups.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed_as_in_java() {
        for (text, printed) in [
            ("127.0.0.1", "127.0.0.1"),
            ("010.1.2.3", "10.1.2.3"),
            ("127.1", "127.0.0.1"),
            ("1.2.772", "1.2.3.4"),
            ("2130706433", "127.0.0.1"),
            ("::1", "0:0:0:0:0:0:0:1"),
            ("[2001:DB8::1]", "2001:db8:0:0:0:0:0:1"),
            ("fe80::1%3", "fe80:0:0:0:0:0:0:1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
        ] {
            assert_eq!(inet_to_text(&parse_inet(text).unwrap()), printed, "{text}");
        }
        for bad in
            ["", "256.1.1.1", "1.2.3.4.5", "localhost", "::g", "[::1", "1..2", "fe80::1%eth0", "+1.2.3.4"]
        {
            assert_eq!(parse_inet(bad), None, "{bad}");
        }
    }
}
