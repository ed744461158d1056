//! Digest.crc32: the CRC-32 of the whole Data file as stored, as decimal text without a newline.

use crate::error::{Malformed, Parsed};

/// Returns the file's content.
pub fn encode(crc: u32) -> Vec<u8> {
    crc.to_string().into_bytes()
}

/// Returns the checksum in the file.
pub fn decode(bytes: &[u8]) -> Parsed<u32> {
    // parse() alone would accept "+1" and "007" as well, which no writer produces.
    let text = std::str::from_utf8(bytes).ok();
    let value = text.and_then(|text| text.parse::<u32>().ok());
    value.filter(|crc| encode(*crc) == bytes).ok_or_else(|| {
        Malformed::new(
            0,
            format!("a checksum in decimal expected, {:?} found", String::from_utf8_lossy(bytes)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_form_is_read() {
        assert_eq!(decode(&encode(0xffff_ffff)).unwrap(), u32::MAX);
        for bad in [&b""[..], b"4294967296", b"-1", b"+1", b"01", b"1\n", b"1 ", b"\xff"] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }
}
