//! Authenticated encryption of files: AES-GCM with named keys.
//!
//! Every file has its own key, which HKDF-SHA256 derives from a named key and a random salt. The
//! number of a piece is its nonce, so a file needs no stored nonces, and two files never share a
//! pair of key and nonce, whatever their names and ids are: a copied data directory that continues
//! with the same named key gets other salts.
//!
//! ```text
//! parameters   0  u8        1: AES-GCM, HKDF-SHA256
//!              1  32 bytes  salt
//!             33  16 bytes  check: derived from the named key as the key is, to detect another one
//!             49  u8        length n of the alias, at least 1
//!             50  n bytes   alias of the named key, UTF-8
//!
//! nonce        4 zero bytes, u64 number of the piece, big-endian
//! ```

mod key;

use std::fmt;
use std::sync::Arc;

use cassette_vfs::encryption::{Encryption, EncryptionError, NewCipher, PieceCipher, TAG_LENGTH};
use ring::aead::{Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};

pub use key::{Key, KeyError, keys_in_file};

/// The name of the cipher in settings, as Java spells it.
pub const CIPHER_NAME: &str = "AES/GCM/NoPadding";

/// The length of its nonces, bytes.
pub const NONCE_LENGTH: usize = 12;

/// The maximum length of an alias, bytes.
pub const ALIAS_LENGTH_MAX: usize = 255;

const VERSION: u8 = 1;
const SALT_LENGTH: usize = 32;
const CHECK_LENGTH: usize = 16;

/// Provides named keys.
pub trait Keys: fmt::Debug + Send + Sync + 'static {
    /// Returns the key with this alias.
    ///
    /// # Errors
    /// If there is none, or the keys cannot be read. The text names the file and what to do.
    fn key(&self, alias: &str) -> Result<Key, KeyError>;
}

/// Files encrypted with AES-GCM, with keys of 128 or 256 bits.
pub struct AesGcm {
    keys: Box<dyn Keys>,
    /// The key for new files, and its alias.
    new_files: Option<(String, Key)>,
    salts: Box<dyn Fn() -> Option<[u8; SALT_LENGTH]> + Send + Sync>,
}

/// Omits the keys.
impl fmt::Debug for AesGcm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alias = self.new_files.as_ref().map(|(alias, _)| alias);
        f.debug_struct("AesGcm").field("alias", &alias).finish_non_exhaustive()
    }
}

impl AesGcm {
    /// Encrypts new files with the key `alias`; with `None`, only decrypts existing ones. Those of
    /// other keys are decrypted as long as `keys` has them.
    ///
    /// # Errors
    /// If the alias is empty or too long, or there is no such key.
    pub fn new(keys: impl Keys, alias: Option<String>) -> Result<Self, KeyError> {
        let with_key = |alias: String| {
            if !(1..=ALIAS_LENGTH_MAX).contains(&alias.len()) {
                return Err(KeyError(format!(
                    "invalid alias of a key: expected 1 to {ALIAS_LENGTH_MAX} bytes, found {}",
                    alias.len()
                )));
            }
            let key = keys.key(&alias)?;
            Ok((alias, key))
        };
        let new_files = alias.map(with_key).transpose()?;
        let random = SystemRandom::new();
        let salts = Box::new(move || {
            let mut salt = [0; SALT_LENGTH];
            random.fill(&mut salt).is_ok().then_some(salt)
        });
        Ok(Self { keys: Box::new(keys), new_files, salts })
    }

    /// Replaces the random salts, for tests that repeat exactly.
    #[doc(hidden)]
    pub fn with_salts(self, salts: impl Fn() -> [u8; SALT_LENGTH] + Send + Sync + 'static) -> Self {
        Self { salts: Box::new(move || Some(salts())), ..self }
    }
}

impl Encryption for AesGcm {
    fn encrypts_new_files(&self) -> bool {
        self.new_files.is_some()
    }

    fn begin(&self) -> Result<NewCipher, EncryptionError> {
        let (alias, key) = self.new_files.as_ref().ok_or("new files are not encrypted")?;
        let salt = (self.salts)().ok_or("the operating system provides no random numbers")?;
        let derived = Derived::new(key, &salt);
        let mut parameters = vec![VERSION];
        parameters.extend(salt);
        parameters.extend(derived.check);
        parameters.push(u8::try_from(alias.len())?);
        parameters.extend(alias.bytes());
        Ok(NewCipher { parameters, cipher: Arc::new(derived.cipher) })
    }

    fn resume(&self, parameters: &[u8]) -> Result<Arc<dyn PieceCipher>, EncryptionError> {
        let Parameters { salt, check, alias } = Parameters::decode(parameters)
            .ok_or("unknown parameters of encryption: a later version may have written the file")?;
        let derived = Derived::new(&self.keys.key(alias)?, salt);
        if derived.check != *check {
            return Err(KeyError(format!(
                "key \"{alias}\" is not the one that the file was encrypted with: restore that key under its alias, \
                 and give new keys new aliases"
            ))
            .into());
        }
        Ok(Arc::new(derived.cipher))
    }
}

struct Parameters<'a> {
    salt: &'a [u8; SALT_LENGTH],
    check: &'a [u8; CHECK_LENGTH],
    alias: &'a str,
}

impl<'a> Parameters<'a> {
    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (check, rest) = rest.split_first_chunk()?;
        let (&length, alias) = rest.split_first()?;
        let alias = std::str::from_utf8(alias).ok()?;
        let is_valid = version == VERSION && length > 0 && usize::from(length) == alias.len();
        is_valid.then_some(Self { salt, check, alias })
    }
}

/// What is derived from a named key for one file.
struct Derived {
    cipher: FileCipher,
    check: [u8; CHECK_LENGTH],
}

struct CheckLength;

impl KeyType for CheckLength {
    fn len(&self) -> usize {
        CHECK_LENGTH
    }
}

impl Derived {
    fn new(key: &Key, salt: &[u8; SALT_LENGTH]) -> Self {
        let derived: Prk = Salt::new(HKDF_SHA256, salt).extract(key.bytes());
        // The outputs are far below the limit of HKDF, 255 hashes.
        let file_key =
            derived.expand(&[b"cassette file"], key.algorithm()).expect("a length within HKDF's limit");
        let mut check = [0; CHECK_LENGTH];
        let filled = derived.expand(&[b"cassette check"], CheckLength).and_then(|okm| okm.fill(&mut check));
        filled.expect("a length within HKDF's limit");
        Self { cipher: FileCipher(LessSafeKey::new(UnboundKey::from(file_key))), check }
    }
}

struct FileCipher(LessSafeKey);

impl PieceCipher for FileCipher {
    fn seal(&self, number: u64, context: &[u8], piece: &mut [u8]) -> [u8; TAG_LENGTH] {
        let tag = self.0.seal_in_place_separate_tag(nonce(number), Aad::from(context), piece);
        let tag: Tag = tag.expect("a piece shorter than 64 GiB");
        let mut bytes = [0; TAG_LENGTH];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    fn open<'a>(&self, number: u64, context: &[u8], sealed: &'a mut [u8]) -> Option<&'a [u8]> {
        self.0.open_in_place(nonce(number), Aad::from(context), sealed).ok().map(|piece| &*piece)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LENGTH];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests;
