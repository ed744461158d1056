//! Keys of indexes: encodings that sort as the keys do, none of which is a prefix of another.

use bytes::Bytes;

use super::DecodeError;

/// Follows an escaped text. Less than all escapes, so that a text sorts before its extensions.
const END: [u8; 2] = [0, 0];
/// A zero byte in an escaped text.
const ZERO: [u8; 2] = [0, 0xff];

/// Types of index keys: text, bytes, integers, flags, `Option`, which sorts absent keys first, and
/// tuples of up to four of them. Encodings are persisted, and sort as the keys do.
///
/// | type | bytes |
/// | --- | --- |
/// | `String`, `Bytes` | the bytes, with `00` as `00 ff`; then `00 00` |
/// | `u32`, `u64` | 4, 8 bytes, big-endian |
/// | `i32`, `i64` | the same of the number with its sign flipped |
/// | `bool` | 0 or 1 |
/// | `Option` | 0, or 1 and the key |
/// | tuples | one after the other |
///
/// An implementation for another type encodes it so that encodings compare as the keys do, and that
/// no encoding is the beginning of another one: combine those of this crate.
pub trait IndexKey: Sized {
    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes a key at the beginning of `bytes`, and removes it from there.
    ///
    /// # Errors
    /// If there is none.
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError>;
}

/// Beginnings of keys, for [`Index::prefix`](crate::Index::prefix): text of a text, the first
/// components of a tuple.
pub trait KeyPrefix<K> {
    /// Appends the common beginning of the encodings of these keys.
    fn encode(&self, out: &mut Vec<u8>);
}

/// Appends bytes with a terminator.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    escape_open(bytes, out);
    out.extend_from_slice(&END);
}

fn escape_open(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        if *byte == 0 { out.extend_from_slice(&ZERO) } else { out.push(*byte) }
    }
}

/// Decodes what [`escape`] encoded.
pub fn unescape(bytes: &mut &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    let mut rest = *bytes;
    loop {
        match rest {
            [0, 0, after @ ..] => {
                *bytes = after;
                return Ok(out);
            }
            [0, 0xff, after @ ..] => {
                out.push(0);
                rest = after;
            }
            [byte, after @ ..] if *byte != 0 => {
                out.push(*byte);
                rest = after;
            }
            _ => return Err(DecodeError::new("escaped text", bytes, "expected an end")),
        }
    }
}

/// Removes `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    match bytes.split_first_chunk::<N>() {
        Some((taken, rest)) => {
            *bytes = rest;
            Ok(*taken)
        }
        None => Err(DecodeError::new("index key", bytes, format!("expected {N} more bytes"))),
    }
}

impl IndexKey for Bytes {
    fn encode(&self, out: &mut Vec<u8>) {
        escape(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        unescape(bytes).map(Self::from)
    }
}

impl IndexKey for String {
    fn encode(&self, out: &mut Vec<u8>) {
        escape(self.as_bytes(), out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let text = unescape(bytes)?;
        Self::from_utf8(text)
            .map_err(|error| DecodeError::new("text", error.as_bytes(), error.utf8_error().to_string()))
    }
}

/// `$flip` turns the unsigned order of the bytes into the order of the type.
macro_rules! integer {
    ($type:ty, $flip:expr) => {
        impl IndexKey for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self ^ $flip).to_be_bytes());
            }

            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(<$type>::from_be_bytes(take(bytes)?) ^ $flip)
            }
        }
    };
}

integer!(u32, 0);
integer!(u64, 0);
integer!(i32, i32::MIN);
integer!(i64, i64::MIN);

impl IndexKey for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        match take(bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            other => Err(DecodeError::new("flag", &other, "expected 0 or 1")),
        }
    }
}

impl<K: IndexKey> IndexKey for Option<K> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode(out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        if bool::decode(bytes)? { K::decode(bytes).map(Some) } else { Ok(None) }
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),+) => {
        impl<$($name: IndexKey),+> IndexKey for ($($name,)+) {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)+
            }

            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($($name::decode(bytes)?,)+))
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

impl KeyPrefix<String> for &str {
    fn encode(&self, out: &mut Vec<u8>) {
        escape_open(self.as_bytes(), out);
    }
}

impl KeyPrefix<Bytes> for &[u8] {
    fn encode(&self, out: &mut Vec<u8>) {
        escape_open(self, out);
    }
}

macro_rules! prefix {
    (($($whole:ident),+), $($name:ident $index:tt),+) => {
        impl<$($whole: IndexKey),+> KeyPrefix<($($whole,)+)> for ($($name,)+) {
            fn encode(&self, out: &mut Vec<u8>) {
                $(IndexKey::encode(&self.$index, out);)+
            }
        }
    };
}

prefix!((A, B), A 0);
prefix!((A, B, C), A 0);
prefix!((A, B, C), A 0, B 1);
prefix!((A, B, C, D), A 0);
prefix!((A, B, C, D), A 0, B 1);
prefix!((A, B, C, D), A 0, B 1, C 2);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Key = (String, Option<i64>, Bytes, bool);

    fn encoded(key: &impl IndexKey) -> Vec<u8> {
        let mut out = Vec::new();
        key.encode(&mut out);
        out
    }

    fn key() -> impl Strategy<Value = Key> {
        let bytes = prop::collection::vec(prop::sample::select(vec![0, 1, 0xff]), 0..4);
        let text = prop::collection::vec(prop::sample::select(vec!['\0', 'a', 'ü']), 0..4);
        (text, prop::option::of(-2..2i64), bytes, any::<bool>())
            .prop_map(|(text, number, bytes, flag)| (text.into_iter().collect(), number, bytes.into(), flag))
    }

    proptest! {
        #[test]
        fn keys_sort_as_their_encodings_and_none_is_a_prefix(a in key(), b in key()) {
            let (left, right) = (encoded(&a), encoded(&b));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert!(a == b || !left.starts_with(&right));
            let mut rest = &left[..];
            prop_assert_eq!(Key::decode(&mut rest), Ok(a.clone()));
            prop_assert!(rest.is_empty());
            let mut prefix = Vec::new();
            KeyPrefix::<Key>::encode(&(a.0.clone(), a.1), &mut prefix);
            prop_assert_eq!(right.starts_with(&prefix), (&a.0, a.1) == (&b.0, b.1));
            let (mut prefix, text) = (Vec::new(), encoded(&b.0));
            KeyPrefix::<String>::encode(&&*a.0, &mut prefix);
            prop_assert_eq!(text.starts_with(&prefix), b.0.starts_with(&a.0));
        }

        #[test]
        fn malformed_keys_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut rest = &bytes[..];
            if let Ok(key) = Key::decode(&mut rest) {
                prop_assert_eq!([&encoded(&key)[..], rest].concat(), bytes);
            }
        }
    }
}
