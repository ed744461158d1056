//! Encryption of files behind a trait, so that the storage engine depends on no cipher.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The error of a file whose cipher is not available. Its text names the key and what to do, and
/// contains no secret.
pub type EncryptionError = Box<dyn Error + Send + Sync>;

/// The cipher of a new file.
pub struct NewCipher {
    /// Stored in the file, unencrypted: they name the key and contain what [`Encryption::resume`]
    /// needs besides it. At most [`PARAMETERS_MAX`] bytes.
    pub parameters: Vec<u8>,
    /// The cipher.
    pub cipher: Arc<dyn PieceCipher>,
}

/// The maximum length of the parameters of a file, bytes.
pub const PARAMETERS_MAX: usize = 512;

/// Bytes that authenticate an encrypted piece.
pub const TAG_LENGTH: usize = 16;

/// Provides the ciphers of files. No two files have the same cipher.
pub trait Encryption: fmt::Debug + Send + Sync + 'static {
    /// Whether new files are encrypted. Constant.
    fn encrypts_new_files(&self) -> bool;

    /// Returns the cipher for a new file.
    ///
    /// # Errors
    /// If new files are not encrypted, or the operating system provides no random numbers.
    fn begin(&self) -> Result<NewCipher, EncryptionError>;

    /// Returns the cipher of a file with these parameters.
    ///
    /// # Errors
    /// If the parameters are invalid, or their key is not available or another one.
    fn resume(&self, parameters: &[u8]) -> Result<Arc<dyn PieceCipher>, EncryptionError>;
}

/// The cipher of one file, which is encrypted in pieces.
pub trait PieceCipher: Send + Sync {
    /// Encrypts `piece` in place and returns its tag. `context` is authenticated and not stored.
    /// The caller encrypts at most one piece with each `number`: two would reveal both.
    fn seal(&self, number: u64, context: &[u8], piece: &mut [u8]) -> [u8; TAG_LENGTH];

    /// Decrypts `sealed`, a piece and its tag, in place. Returns the piece; `None` if it was not
    /// encrypted with this cipher, number and context.
    fn open<'a>(&self, number: u64, context: &[u8], sealed: &'a mut [u8]) -> Option<&'a [u8]>;
}
