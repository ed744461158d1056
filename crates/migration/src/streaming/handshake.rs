//! The handshake of a connection between nodes.
//!
//! ```text
//! Initiate   u32  ca552dfa
//!            u32  flags: bit 3 streaming; bits 8, 16 and 24: a byte with the lowest version,
//!                 twice, and the highest
//!            endpoint of the initiator
//!            u32  CRC-32 of the bytes before
//!
//! Accept     u32  the highest version of the node
//!            u32  the version that it chose
//!            u32  CRC-32 of the bytes before
//! ```
//!
//! The CRC-32 begins with the bytes fa 2d 55 ca. A node that supports none of the versions sends
//! Accept, and closes the connection. Source: `net.HandshakeProtocol`, `net.Crc`.

use std::net::SocketAddr;

use bytes::{Buf, BufMut};

use super::wire::Fields;

const MAGIC: u32 = 0xca55_2dfa;
const STREAMING: u32 = 1 << 3;
const CRC_START: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];

/// Version of Cassandra 4.0, and of 5.0 with `storage_compatibility_mode: CASSANDRA_4`.
pub const VERSION_40: u32 = 12;
/// Version of Cassandra 5.0. The messages of a stream are those of 4.0.
pub const VERSION_50: u32 = 13;
/// Length of Accept.
pub const ACCEPT_LENGTH: usize = 12;

/// The response of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    /// The highest version of the node.
    pub highest: u32,
    /// The version that it chose.
    pub chosen: u32,
}

fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC_START);
    hasher.update(bytes);
    hasher.finalize()
}

/// Encodes Initiate of a connection for streams.
pub fn initiate(from: SocketAddr) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    out.put_u32(MAGIC);
    out.put_u32(STREAMING | VERSION_40 << 8 | VERSION_40 << 16 | VERSION_50 << 24);
    out.put_endpoint(from);
    let crc = crc(&out);
    out.put_u32(crc);
    out
}

impl Accept {
    /// Decodes Accept.
    ///
    /// # Errors
    /// A text for users, if it is not the response of a node, or no version fits.
    pub fn decode(bytes: [u8; ACCEPT_LENGTH]) -> Result<Self, String> {
        let mut input = &bytes[..];
        let (highest, chosen, found) = (input.get_u32(), input.get_u32(), input.get_u32());
        if found != crc(&bytes[..ACCEPT_LENGTH - 4]) {
            return Err(
                "expected a node of Cassandra 4.0 or later, found another protocol: check the storage \
                        port (--storage-port), and whether it requires TLS (--internode-tls-ca)"
                    .to_owned(),
            );
        }
        if !(VERSION_40..=VERSION_50).contains(&chosen) {
            return Err(format!(
                "expected messaging version {VERSION_40} or {VERSION_50} (Cassandra 4.0 to 5.0), found {highest}"
            ));
        }
        Ok(Self { highest, chosen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiate_has_the_bytes_that_cassandra_expects() {
        let bytes = initiate(([127, 0, 0, 1], 7000).into());
        assert_eq!(bytes[..8], [0xca, 0x55, 0x2d, 0xfa, 13, 12, 12, 8]);
        assert_eq!(bytes[8..15], [6, 127, 0, 0, 1, 0x1b, 0x58]);
        assert_eq!(bytes[15..], crc(&bytes[..15]).to_be_bytes());
        assert_eq!(initiate("[::1]:7000".parse().unwrap()).len(), 8 + 19 + 4);
    }

    #[test]
    fn an_answer_is_verified_before_it_is_used() {
        let answer = |highest: u32, chosen: u32| {
            let mut bytes = Vec::new();
            bytes.put_u32(highest);
            bytes.put_u32(chosen);
            bytes.put_u32(crc(&bytes));
            <[u8; ACCEPT_LENGTH]>::try_from(bytes).unwrap()
        };
        assert_eq!(Accept::decode(answer(13, 12)), Ok(Accept { highest: 13, chosen: 12 }));
        assert!(Accept::decode(answer(11, 11)).unwrap_err().contains("found 11"));
        assert!(Accept::decode(answer(14, 14)).unwrap_err().contains("found 14"));
        let mut damaged = answer(13, 13);
        damaged[6] ^= 1;
        assert!(Accept::decode(damaged).unwrap_err().contains("another protocol"));
    }
}
