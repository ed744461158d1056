//! Fields that several messages have. All are big-endian.

use std::net::{IpAddr, SocketAddr};

use bytes::BufMut;
use cassette_sstable::output::Output;

/// Appends fields.
pub trait Fields: BufMut + Sized {
    /// `utf`: u16 length, bytes. The texts of the protocol are short and ASCII, for which Java's
    /// modified UTF-8 is UTF-8.
    fn put_utf(&mut self, text: &str) {
        self.put_bytes16(text.as_bytes());
    }

    /// `endpoint`: u8 length of the rest, 4 or 16 bytes of address, u16 port.
    fn put_endpoint(&mut self, endpoint: SocketAddr) {
        match endpoint.ip() {
            IpAddr::V4(address) => {
                self.put_u8(6);
                self.put_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                self.put_u8(18);
                self.put_slice(&address.octets());
            }
        }
        self.put_u16(endpoint.port());
    }
}

impl<T: BufMut> Fields for T {}
