//! Keys, and files with keys.

use std::fmt;

use ring::aead::{AES_128_GCM, AES_256_GCM, Algorithm};
use ring::hkdf::{HKDF_SHA256, Salt};

/// The error of a key that cannot be used. Contains no part of any key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub String);

/// A secret key of AES with 128 or 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// Creates a key of 16 or 32 bytes.
    ///
    /// # Errors
    /// For other lengths.
    pub fn new(bytes: Vec<u8>) -> Result<Self, KeyError> {
        match bytes.len() {
            16 | 32 => Ok(Self(bytes)),
            other => Err(KeyError(format!("expected a key of 128 or 256 bits, found {} bits", 8 * other))),
        }
    }

    /// Returns a key for another purpose, which `purpose` names. It reveals nothing of this one.
    pub fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut derived = [0; 32];
        let key = Salt::new(HKDF_SHA256, b"cassette purpose").extract(self.bytes());
        // The output is far below the limit of HKDF, 255 hashes.
        let filled = key.expand(&[purpose], HKDF_SHA256).and_then(|okm| okm.fill(&mut derived));
        filled.expect("a length within HKDF's limit");
        derived
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn algorithm(&self) -> &'static Algorithm {
        if self.0.len() == 16 { &AES_128_GCM } else { &AES_256_GCM }
    }
}

/// Omits the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Parses a file with keys, one a line: an alias, white space, and the key in hexadecimal digits or
/// in base64. Lines that are empty or begin with `#` are skipped.
///
/// # Errors
/// If a line is invalid, an alias occurs twice, or there is no key. The text names the line, and
/// contains nothing of it but the alias.
pub fn keys_in_file(text: &str) -> Result<Vec<(String, Key)>, KeyError> {
    let mut keys: Vec<(String, Key)> = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: &str| KeyError(format!("line {}: {why}", number + 1));
        let expected =
            "expected an alias and a key, in hexadecimal digits or base64; create one: openssl rand -hex 32";
        let (alias, key) = line.split_once(char::is_whitespace).ok_or_else(|| at(expected))?;
        let bytes = from_hex(key.trim()).or_else(|| from_base64(key.trim())).ok_or_else(|| at(expected))?;
        let key = Key::new(bytes).map_err(|error| at(&error.to_string()))?;
        if keys.iter().any(|(known, _)| known == alias) {
            return Err(at(&format!("expected each alias once, found \"{alias}\" again")));
        }
        keys.push((alias.to_owned(), key));
    }
    if keys.is_empty() { Err(KeyError("expected at least one key, found none".to_owned())) } else { Ok(keys) }
}

/// Only texts of 32 and 64 digits: the base64 of a key has 22, 24, 43 or 44 characters.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let byte = |pair: &[u32]| u8::try_from(16 * pair[0] + pair[1]).ok();
    matches!(digits.len(), 32 | 64).then(|| digits.chunks_exact(2).map(byte).collect())?
}

/// Standard base64 (RFC 4648), with or without padding.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = text.trim_end_matches('=').as_bytes();
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for digit in text {
        let value = DIGITS.iter().position(|known| known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // The unused bits of the last digit are zeros.
    (count < 6 && bits == 0).then_some(bytes)
}
