//! Section 3 of the specification: readers and writers of the notations of message bodies.
//!
//! The native protocol is big-endian throughout. Readers and writers have the specification's
//! names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use uuid::Uuid;

use crate::{ProtocolError, Text, error::HEX_SHOWN_MAX};

/// Reads notations consecutively from a message body. Compares every length with the remaining
/// bytes before a slice or an allocation.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    body: &'a Bytes,
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `body`.
    pub fn new(body: &'a Bytes) -> Self {
        Self { body, position: 0 }
    }

    /// Returns the whole body, including consumed bytes.
    pub fn body(&self) -> &'a Bytes {
        self.body
    }

    /// Offset in the body of the next byte to read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of remaining bytes.
    pub fn left(&self) -> usize {
        self.body.len() - self.position
    }

    /// Returns the remaining bytes, sharing the body's memory.
    pub fn rest(&self) -> Bytes {
        self.body.slice(self.position..)
    }

    /// Returns the next `length` bytes; `what` names them in the error.
    pub fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], ProtocolError> {
        let taken = self
            .position
            .checked_add(length)
            .and_then(|end| self.body.get(self.position..end))
            .ok_or_else(|| ProtocolError::Truncated { what, needed: length, left: self.left() })?;
        self.position += length;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ProtocolError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    /// \[byte\]
    pub fn read_byte(&mut self) -> Result<u8, ProtocolError> {
        Ok(u8::from_be_bytes(self.take_array("a [byte]")?))
    }

    /// \[short\]
    pub fn read_short(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_be_bytes(self.take_array("a [short]")?))
    }

    /// \[int\]
    pub fn read_int(&mut self) -> Result<i32, ProtocolError> {
        Ok(i32::from_be_bytes(self.take_array("an [int]")?))
    }

    /// \[long\]
    pub fn read_long(&mut self) -> Result<i64, ProtocolError> {
        Ok(i64::from_be_bytes(self.take_array("a [long]")?))
    }

    /// \[uuid\]
    pub fn read_uuid(&mut self) -> Result<Uuid, ProtocolError> {
        Ok(Uuid::from_bytes(self.take_array("a [uuid]")?))
    }

    /// \[string\]
    pub fn read_string(&mut self) -> Result<&'a str, ProtocolError> {
        let length = usize::from(self.read_short()?);
        utf8(self.take(length, "a UTF8 serialized string preceded by its 2 bytes length")?)
    }

    /// \[long string\]
    pub fn read_long_string(&mut self) -> Result<&'a str, ProtocolError> {
        let length = self.read_length("long string")?;
        utf8(self.take(length, "a UTF8 serialized string preceded by its 4 bytes length")?)
    }

    /// \[long string\], sharing the body's memory.
    pub fn read_long_string_shared(&mut self) -> Result<Text, ProtocolError> {
        let length = self.read_length("long string")?;
        let bytes = self.take(length, "a UTF8 serialized string preceded by its 4 bytes length")?;
        Text::try_from(self.body.slice_ref(bytes)).map_err(|_| invalid_utf8(bytes))
    }

    /// \[short bytes\], sharing the body's memory.
    pub fn read_short_bytes(&mut self) -> Result<Bytes, ProtocolError> {
        let length = usize::from(self.read_short()?);
        let start = self.position;
        self.take(length, "a byte array preceded by its 2 bytes length")?;
        Ok(self.body.slice(start..start + length))
    }

    /// \[bytes\]: `None` for null, which is any negative length.
    pub fn read_bytes(&mut self) -> Result<Option<&'a [u8]>, ProtocolError> {
        match usize::try_from(self.read_int()?) {
            Ok(length) => self.take(length, "a value preceded by its 4 bytes length").map(Some),
            Err(_) => Ok(None),
        }
    }

    /// \[bytes\] sharing the body's memory.
    pub fn read_bytes_shared(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        Ok(self.read_bytes()?.map(|bytes| self.body.slice_ref(bytes)))
    }

    /// \[string list\]
    pub fn read_string_list(&mut self) -> Result<Vec<String>, ProtocolError> {
        let count = usize::from(self.read_short()?);
        let mut strings = Vec::with_capacity(self.bounded(count, 2));
        for _ in 0..count {
            strings.push(self.read_string()?.to_owned());
        }
        Ok(strings)
    }

    /// \[string map\], in the order sent.
    pub fn read_string_map(&mut self) -> Result<Vec<(String, String)>, ProtocolError> {
        let count = usize::from(self.read_short()?);
        let mut entries = Vec::with_capacity(self.bounded(count, 4));
        for _ in 0..count {
            entries.push((self.read_string()?.to_owned(), self.read_string()?.to_owned()));
        }
        Ok(entries)
    }

    /// \[string multimap\], in the order sent.
    pub fn read_string_multimap(&mut self) -> Result<Vec<(String, Vec<String>)>, ProtocolError> {
        let count = usize::from(self.read_short()?);
        let mut entries = Vec::with_capacity(self.bounded(count, 4));
        for _ in 0..count {
            entries.push((self.read_string()?.to_owned(), self.read_string_list()?));
        }
        Ok(entries)
    }

    /// \[bytes map\], in the order sent.
    pub fn read_bytes_map(&mut self) -> Result<Vec<(String, Option<Bytes>)>, ProtocolError> {
        let count = usize::from(self.read_short()?);
        let mut entries = Vec::with_capacity(self.bounded(count, 6));
        for _ in 0..count {
            entries.push((self.read_string()?.to_owned(), self.read_bytes_shared()?));
        }
        Ok(entries)
    }

    /// \[inetaddr\]
    pub fn read_inetaddr(&mut self) -> Result<IpAddr, ProtocolError> {
        match self.read_byte()? {
            4 => Ok(Ipv4Addr::from(self.take_array::<4>("an IPv4 address")?).into()),
            16 => Ok(Ipv6Addr::from(self.take_array::<16>("an IPv6 address")?).into()),
            size => Err(ProtocolError::Invalid(format!("Invalid IP address of {size} bytes"))),
        }
    }

    /// \[inet\]
    pub fn read_inet(&mut self) -> Result<SocketAddr, ProtocolError> {
        let address = self.read_inetaddr()?;
        let port = self.read_int()?;
        let port = u16::try_from(port).map_err(|_| ProtocolError::Invalid(format!("Invalid port {port}")))?;
        Ok(SocketAddr::new(address, port))
    }

    /// An \[int\] that is a count or length; negative ones are rejected.
    pub(crate) fn read_length(&mut self, what: &str) -> Result<usize, ProtocolError> {
        let length = self.read_int()?;
        usize::try_from(length)
            .map_err(|_| ProtocolError::Invalid(format!("Invalid length {length} of {what}")))
    }

    /// Limits `count` announced elements, each of at least `size_min` bytes, to those that fit the
    /// remaining bytes: the capacity to allocate before reading them.
    pub(crate) fn bounded(&self, count: usize, size_min: usize) -> usize {
        count.min(self.left() / size_min)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, ProtocolError> {
    std::str::from_utf8(bytes).map_err(|_| invalid_utf8(bytes))
}

/// Keeps only the bytes that the message of the error shows.
fn invalid_utf8(bytes: &[u8]) -> ProtocolError {
    ProtocolError::InvalidUtf8 { bytes: bytes[..bytes.len().min(HEX_SHOWN_MAX + 1)].to_vec() }
}

/// \[byte\]
pub fn write_byte(value: u8, buffer: &mut Vec<u8>) {
    buffer.push(value);
}

/// \[short\]
pub fn write_short(value: u16, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&value.to_be_bytes());
}

/// \[int\]
pub fn write_int(value: i32, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&value.to_be_bytes());
}

/// \[long\]
pub fn write_long(value: i64, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(&value.to_be_bytes());
}

/// \[uuid\]
pub fn write_uuid(value: Uuid, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(value.as_bytes());
}

/// The count of a list or map as a \[short\].
///
/// # Panics
/// If the count exceeds 65535, which no message can carry.
pub(crate) fn write_count(count: usize, buffer: &mut Vec<u8>) {
    write_short(
        u16::try_from(count).expect("a list or map of the native protocol has at most 65535 elements"),
        buffer,
    );
}

/// \[string\]. A string longer than 65535 bytes is cut at a character boundary: only error messages
/// can be that long.
pub fn write_string(value: &str, buffer: &mut Vec<u8>) {
    let mut length = value.len().min(usize::from(u16::MAX));
    while !value.is_char_boundary(length) {
        length -= 1;
    }
    write_short(length as u16, buffer);
    buffer.extend_from_slice(&value.as_bytes()[..length]);
}

/// \[long string\]
pub fn write_long_string(value: &str, buffer: &mut Vec<u8>) {
    write_length(value.len(), buffer);
    buffer.extend_from_slice(value.as_bytes());
}

/// \[short bytes\]
///
/// # Panics
/// If longer than 65535 bytes: ids and tokens are far shorter.
pub fn write_short_bytes(value: &[u8], buffer: &mut Vec<u8>) {
    write_count(value.len(), buffer);
    buffer.extend_from_slice(value);
}

/// \[bytes\]; null when `None`.
#[inline]
pub fn write_bytes(value: Option<&[u8]>, buffer: &mut Vec<u8>) {
    match value {
        Some(value) => {
            write_length(value.len(), buffer);
            buffer.extend_from_slice(value);
        }
        None => write_int(-1, buffer),
    }
}

/// \[string list\]
pub fn write_string_list<S: AsRef<str>>(values: &[S], buffer: &mut Vec<u8>) {
    write_count(values.len(), buffer);
    for value in values {
        write_string(value.as_ref(), buffer);
    }
}

/// \[string map\]
pub fn write_string_map(entries: &[(String, String)], buffer: &mut Vec<u8>) {
    write_count(entries.len(), buffer);
    for (key, value) in entries {
        write_string(key, buffer);
        write_string(value, buffer);
    }
}

/// \[string multimap\]
pub fn write_string_multimap(entries: &[(String, Vec<String>)], buffer: &mut Vec<u8>) {
    write_count(entries.len(), buffer);
    for (key, values) in entries {
        write_string(key, buffer);
        write_string_list(values, buffer);
    }
}

/// \[bytes map\]
pub fn write_bytes_map(entries: &[(String, Option<Bytes>)], buffer: &mut Vec<u8>) {
    write_count(entries.len(), buffer);
    for (key, value) in entries {
        write_string(key, buffer);
        write_bytes(value.as_deref(), buffer);
    }
}

/// \[inetaddr\]
pub fn write_inetaddr(address: IpAddr, buffer: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            write_byte(4, buffer);
            buffer.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            write_byte(16, buffer);
            buffer.extend_from_slice(&address.octets());
        }
    }
}

/// \[inet\]
pub fn write_inet(address: SocketAddr, buffer: &mut Vec<u8>) {
    write_inetaddr(address.ip(), buffer);
    write_int(i32::from(address.port()), buffer);
}

/// A length of at most `i32::MAX` as an \[int\].
///
/// # Panics
/// If it is longer: no message of that size is ever built, see `native_transport_max_frame_size`.
#[inline]
fn write_length(length: usize, buffer: &mut Vec<u8>) {
    write_int(i32::try_from(length).expect("a message body is shorter than 2 GiB"), buffer);
}
