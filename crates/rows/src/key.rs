//! Partition keys and their order.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::token::{Token, murmur3_token};

/// A partition key with its token, ordered as partitions are stored: by token, then by unsigned key
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    token: Token,
    key: Bytes,
}

/// The longest partition key, in bytes: its length is written in 16 bits.
pub const MAX_KEY_LENGTH: usize = u16::MAX as usize;

impl DecoratedKey {
    /// Hashes `key`, the serialized partition key (see [`compose`]).
    pub fn new(key: Bytes) -> Self {
        Self { token: murmur3_token(&key), key }
    }

    /// Creates the key from its token, without hashing.
    pub fn with_token(token: Token, key: Bytes) -> Self {
        Self { token, key }
    }

    /// The position on the ring.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The serialized partition key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The serialized partition key, shared.
    pub fn key_bytes(&self) -> &Bytes {
        &self.key
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token.cmp(&other.token).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for DecoratedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Serializes a partition key from the values of its components.
///
/// A single component is stored bare. Several form a composite: per component `u16 length, bytes,
/// u8 0`. `None` if a component or the whole key is longer than [`MAX_KEY_LENGTH`].
pub fn compose<'a>(components: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Option<Bytes> {
    if components.len() == 1 {
        let only = components.clone().next()?;
        return (only.len() <= MAX_KEY_LENGTH).then(|| Bytes::copy_from_slice(only));
    }
    let total: usize = components.clone().map(|c| c.len() + 3).sum();
    if total > MAX_KEY_LENGTH {
        return None;
    }
    let mut out = Vec::with_capacity(total);
    for component in components {
        out.extend_from_slice(&(component.len() as u16).to_be_bytes());
        out.extend_from_slice(component);
        out.push(0);
    }
    Some(out.into())
}

/// Returns the `count` components of a serialized partition key; `None` if the bytes do not match
/// that number.
pub fn components(key: &[u8], count: usize) -> Option<Vec<&[u8]>> {
    if count == 1 {
        return Some(vec![key]);
    }
    let mut out = Vec::with_capacity(count);
    let mut rest = key;
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (value, after) = after.split_at_checked(u16::from_be_bytes(*length) as usize)?;
        let (_, after) = after.split_first()?;
        out.push(value);
        rest = after;
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_component_is_stored_bare() {
        assert_eq!(compose([&b"abc"[..]].into_iter()).unwrap(), &b"abc"[..]);
    }

    #[test]
    fn a_composite_key_splits_into_what_it_was_made_of() {
        let parts: [&[u8]; 3] = [b"\0\0\0\x01", b"", b"xyz"];
        let key = compose(parts.into_iter()).unwrap();
        assert_eq!(key, &b"\0\x04\0\0\0\x01\0\0\0\0\0\x03xyz\0"[..]);
        assert_eq!(components(&key, 3).unwrap(), parts);
        assert_eq!(components(&key[..key.len() - 1], 3), None);
        assert_eq!(components(&key, 2), None);
    }

    #[test]
    fn a_key_beyond_64_kib_is_refused() {
        let long = vec![0u8; MAX_KEY_LENGTH + 1];
        assert!(compose([&long[..]].into_iter()).is_none());
        assert!(compose([&long[..65_530], &b"a"[..]].into_iter()).is_none());
    }
}
