//! The checksums of v5 frames, as `org.apache.cassandra.net.Crc` defines them.

/// Start value of the header's CRC24.
const CRC24_INIT: u32 = 0x0087_5060;

/// Koopman's polynomial 0x1974F0B (x^24 included): Hamming distance 8 up to 105 bits, and a header
/// has 48 or 64.
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;

/// Bytes that precede every payload in its CRC32, so that a run of zeros is not its own checksum.
const CRC32_INITIAL_BYTES: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

/// Computes the CRC24 of a frame header's bytes, in wire order.
///
/// Bitwise: a header has three or five bytes, and a table of any size would cost more to load than
/// it saves.
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INIT;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
        }
    }
    crc
}

/// CRC32 (IEEE, as zlib's) of a frame's payload after the fixed initial bytes.
pub fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_INITIAL_BYTES);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values computed by `org.apache.cassandra.net.Crc` of Cassandra 5.0.8.
    #[test]
    fn crc24_agrees_with_cassandra() {
        let cases: [(&[u8], u32); 8] = [
            (&[0, 0, 0], 0x7d_e777),
            (&[0, 0, 2], 0xc4_366a),
            (&[0x2a, 0, 2], 0x58_5cdf),
            (&[0xff, 0xff, 1], 0xfe_9138),
            (&[0xff, 0xff, 3], 0x47_4025),
            (&[0, 0, 0, 0, 0], 0xaa_ac0a),
            (&[0x14, 0, 0xc8, 0, 4], 0xc8_536d),
            (&[5, 4, 3, 2, 1], 0x55_cd12),
        ];
        for (bytes, expected) in cases {
            assert_eq!(crc24(bytes), expected, "{bytes:02x?}");
        }
    }

    /// Values computed by `org.apache.cassandra.net.Crc` of Cassandra 5.0.8.
    #[test]
    fn crc32_agrees_with_cassandra() {
        assert_eq!(crc32(b""), 0x4477_7ed3);
        assert_eq!(crc32(b"123456789"), 0xe2a2_61a7);
        assert_eq!(crc32(b"cassette"), 0x8359_2df1);
    }
}
