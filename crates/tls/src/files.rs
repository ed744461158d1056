//! The files of keystores and passwords.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::TlsError;
use crate::keystore::{self, Access, Identity, KeystoreError};

/// The maximum length of a file: chains of certificates have a few KiB, stores of all public
/// authorities some 200 KiB.
const FILE_LENGTH_MAX: u64 = 4 << 20;

/// The maximum length of a file with a password.
const PASSWORD_FILE_LENGTH_MAX: u64 = 4 << 10;

/// A keystore or truststore in PEM, PKCS #12 or JKS.
#[derive(Debug, Clone, Default)]
pub struct Keystore {
    /// The path of the file.
    pub path: PathBuf,
    /// The file with the private key in PEM, if it is not in `path`.
    pub private_key: Option<PathBuf>,
    /// The password that its content is encrypted with.
    pub password: KeystorePassword,
}

/// Where the password of a keystore is from.
#[derive(Clone, Default)]
pub enum KeystorePassword {
    /// There is none, as for files of PEM whose key is not encrypted.
    #[default]
    None,
    /// The configuration.
    Text(String),
    /// The first line of a file, which is read again with the keystore.
    File(PathBuf),
}

/// Without the password.
impl fmt::Debug for KeystorePassword {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("None"),
            Self::Text(_) => formatter.write_str("Text"),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

impl KeystorePassword {
    fn read(&self) -> Result<Option<String>, TlsError> {
        let path = match self {
            Self::None => return Ok(None),
            Self::Text(text) => return Ok(Some(text.clone())),
            Self::File(path) => path,
        };
        let content = String::from_utf8(read(path, PASSWORD_FILE_LENGTH_MAX)?);
        let content = content.map_err(|_| invalid(path, "expected a password in UTF-8".to_owned()))?;
        Ok(Some(content.lines().next().unwrap_or_default().to_owned()))
    }
}

impl Keystore {
    /// A file without a password.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Reads the private key and its certificates.
    pub(crate) fn identity(&self) -> Result<Identity, TlsError> {
        self.parse(keystore::identity)
    }

    /// Reads the certificates of a truststore for the verification of others.
    pub(crate) fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.trusted()? {
            roots.add(certificate).map_err(|source| TlsError::rejected(&self.path, source))?;
        }
        Ok(roots)
    }

    /// Reads the certificates of a truststore, at least one.
    pub(crate) fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        self.parse(keystore::trusted)
    }

    /// Reads the secret key with an alias, of a keystore in PKCS #12.
    ///
    /// # Errors
    /// If the file cannot be read, is not PKCS #12, is encrypted with another password, or has no
    /// such key. The text names the file and contains no secret.
    pub fn secret_key(&self, alias: &str) -> Result<Vec<u8>, TlsError> {
        self.parse(|content, access| keystore::secret_key(content, access, alias))
    }

    fn parse<T>(
        &self,
        parse: impl FnOnce(&[u8], Access<'_>) -> Result<T, KeystoreError>,
    ) -> Result<T, TlsError> {
        let password = self.password.read()?;
        let mut content = read(&self.path, FILE_LENGTH_MAX)?;
        if let Some(path) = &self.private_key {
            content.push(b'\n');
            content.extend(read(path, FILE_LENGTH_MAX)?);
        }
        parse(&content, Access::new(password.as_deref()))
            .map_err(|error| invalid(&self.path, error.to_string()))
    }

    /// Returns the versions of its files.
    pub(crate) fn versions(&self) -> Vec<FileVersion> {
        let mut versions = vec![FileVersion::of(&self.path)];
        versions.extend(self.private_key.as_deref().map(FileVersion::of));
        if let KeystorePassword::File(path) = &self.password {
            versions.push(FileVersion::of(path));
        }
        versions
    }
}

/// Reads the content of a keystore, at the cost of at most `iterations_max` iterations of key
/// derivation: the entry point of fuzzing. Returns the number of certificates.
///
/// # Errors
/// The reason why it cannot be used, both as a keystore and as a truststore.
#[doc(hidden)]
pub fn read_keystore(content: &[u8], password: Option<&str>, iterations_max: u32) -> Result<usize, String> {
    let access = Access { password, iterations_max };
    let identity = keystore::identity(content, access).map(|identity| identity.certificates.len());
    identity.or_else(|_| keystore::trusted(content, access).map(|all| all.len())).map_err(|e| e.to_string())
}

/// Returns the length of a secret key in a keystore, for fuzzing.
///
/// # Errors
/// The reason why there is none.
#[doc(hidden)]
pub fn read_secret_key(
    content: &[u8],
    password: Option<&str>,
    iterations_max: u32,
    alias: &str,
) -> Result<usize, String> {
    let access = Access { password, iterations_max };
    keystore::secret_key(content, access, alias).map(|key| key.len()).map_err(|error| error.to_string())
}

fn read(path: &Path, length_max: u64) -> Result<Vec<u8>, TlsError> {
    let io = |source| TlsError::io(path, source);
    let mut content = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(length_max + 1).read_to_end(&mut content).map_err(io)?;
    if content.len() as u64 > length_max {
        return Err(invalid(path, format!("expected at most {length_max} bytes, found more")));
    }
    Ok(content)
}

fn invalid(path: &Path, detail: String) -> TlsError {
    TlsError::invalid(path, detail)
}

/// Distinguishes versions of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    path: PathBuf,
    /// Its time of modification and length; `None` if it is unreadable.
    state: Option<(SystemTime, u64)>,
}

impl FileVersion {
    pub fn of(path: &Path) -> Self {
        let state = path.metadata().ok().and_then(|file| Some((file.modified().ok()?, file.len())));
        Self { path: path.to_owned(), state }
    }
}
