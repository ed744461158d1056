//! Decryption with a password: PBES2 of PKCS #5, which current tools write, and the schemes of
//! PKCS #12, which older ones write.

use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, InnerIvInit, KeyIvInit};
use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{Decode, Sequence};
use hmac::{Hmac, KeyInit, Mac};
use pkcs5::AlgorithmIdentifierRef;
use pkcs5::pbes2::PBES2_OID;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{Access, KeystoreError, Result};

const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");

/// pbeWithSHAAnd3-KeyTripleDES-CBC (RFC 7292, appendix C).
const TRIPLE_DES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.3");
/// pbeWithSHAAnd128BitRC2-CBC.
const RC2_128: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.5");
/// pbeWithSHAAnd40BitRC2-CBC.
const RC2_40: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.1.6");

/// What a derived key is for (RFC 7292, appendix B.3).
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// EncryptedPrivateKeyInfo (RFC 5208).
#[derive(Sequence)]
struct EncryptedPrivateKey<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    data: &'a OctetStringRef,
}

/// The parameters of the schemes of PKCS #12, and a salt and iterations elsewhere.
#[derive(Sequence)]
struct SaltAndIterations<'a> {
    salt: &'a OctetStringRef,
    iterations: u32,
}

/// Decrypts what is encrypted with a password, at a bounded cost.
pub(super) struct Unlocker<'a> {
    password: &'a str,
    /// The same in UTF-16BE with a terminating zero, as the schemes of PKCS #12 use it.
    utf16: Vec<u8>,
    iterations_left: u32,
}

impl<'a> Unlocker<'a> {
    /// Without a password, decrypts with the empty one, which tools write for "none".
    pub fn new(access: Access<'a>) -> Self {
        let password = access.password.unwrap_or_default();
        let utf16 = password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect();
        Self { password, utf16, iterations_left: access.iterations_max }
    }

    /// Decrypts an EncryptedPrivateKeyInfo. Returns a PrivateKeyInfo, in DER.
    pub fn private_key(&mut self, encrypted: &[u8]) -> Result<Vec<u8>> {
        let encrypted = EncryptedPrivateKey::from_der(encrypted).map_err(malformed)?;
        self.decrypt(&encrypted.algorithm, encrypted.data.as_bytes())
    }

    /// Decrypts `data` with the algorithm that its header names.
    pub fn decrypt(&mut self, algorithm: &AlgorithmIdentifierRef<'_>, data: &[u8]) -> Result<Vec<u8>> {
        if algorithm.oid == PBES2_OID {
            return self.pbes2(algorithm, data);
        }
        let parameters = algorithm.parameters.ok_or_else(|| unsupported(algorithm.oid))?;
        match algorithm.oid {
            TRIPLE_DES => {
                let (key, iv) = self.key_and_iv(parameters, 24)?;
                decrypted(cbc::Decryptor::<des::TdesEde3>::new_from_slices(&key, &iv).ok(), data)
            }
            RC2_128 | RC2_40 => {
                let length = if algorithm.oid == RC2_128 { 16 } else { 5 };
                let (key, iv) = self.key_and_iv(parameters, length)?;
                let cipher = rc2::Rc2::new_with_eff_key_len(&key, length * 8);
                decrypted(cbc::Decryptor::inner_iv_slice_init(cipher, &iv).ok(), data)
            }
            other => Err(unsupported(other)),
        }
    }

    /// Checks a code of integrity over `content`.
    pub fn verify(&mut self, content: &[u8], mac: &Integrity<'_>) -> Result<()> {
        self.charge(mac.iterations)?;
        let hash = Hash::of(mac.hash)?;
        let key = hash.derive(&self.utf16, mac.salt, mac.iterations, Purpose::Mac, hash.length());
        let is_valid = match hash {
            Hash::Sha1 => is_code::<Hmac<Sha1>>(&key, content, mac.code),
            Hash::Sha256 => is_code::<Hmac<Sha256>>(&key, content, mac.code),
            Hash::Sha384 => is_code::<Hmac<Sha384>>(&key, content, mac.code),
            Hash::Sha512 => is_code::<Hmac<Sha512>>(&key, content, mac.code),
        };
        if is_valid { Ok(()) } else { Err(KeystoreError::Password) }
    }

    fn pbes2(&mut self, algorithm: &AlgorithmIdentifierRef<'_>, data: &[u8]) -> Result<Vec<u8>> {
        let scheme = pkcs5::EncryptionScheme::try_from(*algorithm).map_err(malformed)?;
        // scrypt would allocate as much memory as the file asks for.
        let parameters = scheme.pbes2().and_then(|parameters| parameters.kdf.pbkdf2());
        let parameters = parameters.ok_or_else(|| unsupported(algorithm.oid))?;
        self.charge(parameters.iteration_count)?;
        scheme.decrypt(self.password, data).map_err(|error| match error {
            pkcs5::Error::DecryptFailed => KeystoreError::Password,
            other => KeystoreError::Unsupported(format!("cannot decrypt the keystore: {other}")),
        })
    }

    fn key_and_iv(&mut self, parameters: der::AnyRef<'_>, length: usize) -> Result<(Vec<u8>, Vec<u8>)> {
        let SaltAndIterations { salt, iterations } = parameters.decode_as().map_err(malformed)?;
        self.charge(iterations)?;
        let derive =
            |purpose, length| Hash::Sha1.derive(&self.utf16, salt.as_bytes(), iterations, purpose, length);
        Ok((derive(Purpose::Key, length), derive(Purpose::Iv, 8)))
    }

    fn charge(&mut self, iterations: u32) -> Result<()> {
        const TOO_MANY: KeystoreError = KeystoreError::Content(
            "expected fewer iterations of key derivation, at most 20,000,000 in the file",
        );
        self.iterations_left = self.iterations_left.checked_sub(iterations).ok_or(TOO_MANY)?;
        Ok(())
    }
}

/// A code of integrity, and how its key is derived.
pub(super) struct Integrity<'a> {
    pub hash: ObjectIdentifier,
    pub salt: &'a [u8],
    pub iterations: u32,
    pub code: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn of(identifier: ObjectIdentifier) -> Result<Self> {
        match identifier {
            SHA1 => Ok(Self::Sha1),
            SHA256 => Ok(Self::Sha256),
            SHA384 => Ok(Self::Sha384),
            SHA512 => Ok(Self::Sha512),
            other => Err(unsupported(other)),
        }
    }

    fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn block_length(self) -> usize {
        match self {
            Self::Sha1 | Self::Sha256 => 64,
            Self::Sha384 | Self::Sha512 => 128,
        }
    }

    fn digest(self, content: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(content).to_vec(),
            Self::Sha256 => Sha256::digest(content).to_vec(),
            Self::Sha384 => Sha384::digest(content).to_vec(),
            Self::Sha512 => Sha512::digest(content).to_vec(),
        }
    }

    /// Derives `length` bytes from a password (RFC 7292, appendix B.2).
    fn derive(
        self,
        password: &[u8],
        salt: &[u8],
        iterations: u32,
        purpose: Purpose,
        length: usize,
    ) -> Vec<u8> {
        let block = self.block_length();
        let mut input = repeated(salt, block);
        input.extend(repeated(password, block));
        let mut derived = Vec::with_capacity(length + self.length());
        loop {
            let mut hashed = vec![purpose as u8; block];
            hashed.extend_from_slice(&input);
            hashed = self.digest(&hashed);
            for _ in 1..iterations {
                hashed = self.digest(&hashed);
            }
            derived.extend_from_slice(&hashed);
            if derived.len() >= length {
                derived.truncate(length);
                return derived;
            }
            let addend: Vec<u8> = hashed.iter().copied().cycle().take(block).collect();
            input.chunks_exact_mut(block).for_each(|number| add_and_increment(number, &addend));
        }
    }
}

/// Repeats bytes up to a multiple of `block`. Nothing remains nothing.
fn repeated(bytes: &[u8], block: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(bytes.len().next_multiple_of(block)).collect()
}

/// Adds a number and 1 to one of the same length, both big-endian; drops the carry.
fn add_and_increment(number: &mut [u8], addend: &[u8]) {
    let mut carry = 1;
    for (digit, addend) in number.iter_mut().zip(addend).rev() {
        let sum = u16::from(*digit) + u16::from(*addend) + carry;
        *digit = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
}

fn is_code<M: Mac + KeyInit>(key: &[u8], content: &[u8], code: &[u8]) -> bool {
    <M as KeyInit>::new_from_slice(key).is_ok_and(|mac| mac.chain_update(content).verify_slice(code).is_ok())
}

fn decrypted<C: BlockModeDecrypt>(cipher: Option<C>, data: &[u8]) -> Result<Vec<u8>> {
    let cipher = cipher.ok_or(KeystoreError::Password)?;
    // A wrong password shows as false padding.
    cipher.decrypt_padded_vec::<Pkcs7>(data).map_err(|_| KeystoreError::Password)
}

fn unsupported(algorithm: ObjectIdentifier) -> KeystoreError {
    KeystoreError::Unsupported(format!(
        "cannot decrypt the keystore: algorithm {algorithm} is not supported; export it to PEM: \
         openssl pkcs12 -in FILE -nodes"
    ))
}

fn malformed(error: impl std::fmt::Display) -> KeystoreError {
    KeystoreError::Malformed { format: "PKCS #12", detail: error.to_string() }
}
