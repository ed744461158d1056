//! Files with secrets, which only their owner may read, and bearer tokens in them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::TlsError;
use crate::files::FileVersion;

/// The maximum length of a file, in bytes.
const FILE_LENGTH_MAX: u64 = 64 << 10;

/// The valid lengths of tokens, in bytes: shorter ones can be guessed.
const TOKEN_LENGTHS: std::ops::RangeInclusive<usize> = 16..=512;

/// Introduces the fingerprint of a certificate in the place of a token.
const CERTIFICATE: &str = "certificate:";

/// Permissions of a file for its group and for others, and those that only its group has to read.
const OF_OTHERS: u32 = 0o077;
const GROUP_READS: u32 = 0o040;

/// Reads a file that only its owner may read, as a private key. A file of root may also be
/// readable by its group, which is how services get secrets.
///
/// # Errors
/// If it is unreadable, longer than 64 KiB, not UTF-8, or other users can read or write it.
pub fn read(path: &Path) -> Result<String, TlsError> {
    let io = |source| TlsError::io(path, source);
    let file = File::open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?;
    let permitted = if found.uid() == 0 { GROUP_READS } else { 0 };
    if found.mode() & OF_OTHERS & !permitted != 0 {
        return Err(TlsError::invalid(
            path,
            format!(
                "expected a file that only its owner can read, found permissions {:03o}: chmod 600 {}",
                found.mode() & 0o777,
                path.display()
            ),
        ));
    }
    let mut text = String::new();
    file.take(FILE_LENGTH_MAX + 1).read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > FILE_LENGTH_MAX {
        return Err(TlsError::invalid(path, format!("expected at most {FILE_LENGTH_MAX} bytes, found more")));
    }
    Ok(text)
}

/// A token of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Reads the first token of a file.
    ///
    /// # Errors
    /// As [`read`], and without a token.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let text = read(path)?;
        let line = lines(&text).next().map(|(_, line)| line);
        let line = line.ok_or_else(|| TlsError::invalid(path, "expected a token, found none"))?;
        Ok(Self(valid_token(line).map_err(|why| TlsError::invalid(path, why))?.to_owned()))
    }

    /// Returns the value of the header `Authorization`.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

/// Omits the token.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The tokens that a server accepts, from a file that can be replaced while it runs.
///
/// A line has a level and a token, or a token alone if there are no levels. In the place of the
/// token, `certificate:` and the SHA-256 fingerprint of a certificate permit the client that owns
/// it.
pub struct Tokens {
    path: PathBuf,
    levels: &'static [&'static str],
    entries: ArcSwap<Vec<Entry>>,
    /// The version of the file that `entries` was made of.
    loaded: Mutex<FileVersion>,
}

struct Entry {
    level: usize,
    is_certificate: bool,
    /// SHA-256 of the token or of the certificate: comparing digests reveals no length.
    digest: [u8; 32],
}

impl Tokens {
    /// Reads a file. `levels` are ordered: a later one includes those before it.
    ///
    /// # Errors
    /// As [`read`](self::read), and if a line is invalid or there is none.
    pub fn read(path: &Path, levels: &'static [&'static str]) -> Result<Self, TlsError> {
        // Before the file is read: a file that is replaced meanwhile has another version later.
        let loaded = Mutex::new(FileVersion::of(path));
        let entries = ArcSwap::from_pointee(entries(path, levels)?);
        Ok(Self { path: path.to_owned(), levels, entries, loaded })
    }

    /// Reads the file again if it has changed. Returns whether it did.
    ///
    /// # Errors
    /// As [`read`](Self::read); the previous tokens stay in use.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let mut loaded = self.loaded.lock();
        let current = FileVersion::of(&self.path);
        if *loaded == current {
            return Ok(false);
        }
        self.entries.store(entries(&self.path, self.levels)?.into());
        *loaded = current;
        Ok(true)
    }

    /// Returns the index of the highest level of a token. Takes the same time for every token.
    pub fn level(&self, token: &[u8]) -> Option<usize> {
        self.find(token, false)
    }

    /// Returns the index of the highest level of a certificate in DER, which the client has proved
    /// to own.
    pub fn level_of_certificate(&self, certificate: &[u8]) -> Option<usize> {
        self.find(certificate, true)
    }

    fn find(&self, bytes: &[u8], is_certificate: bool) -> Option<usize> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        let mut found = None;
        // Without an early end.
        for entry in self.entries.load().iter() {
            let is_kind = Choice::from(u8::from(entry.is_certificate == is_certificate));
            if bool::from(entry.digest.ct_eq(&digest) & is_kind) {
                found = found.max(Some(entry.level));
            }
        }
        found
    }
}

/// Omits the tokens.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Compares secrets in a time that depends on their lengths alone.
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

fn entries(path: &Path, levels: &[&str]) -> Result<Vec<Entry>, TlsError> {
    let text = read(path)?;
    let entries = lines(&text).map(|(number, line)| {
        entry(line, levels).map_err(|why| TlsError::invalid(path, format!("line {number}: {why}")))
    });
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    if entries.is_empty() {
        return Err(TlsError::invalid(path, "expected at least one token, found none"));
    }
    Ok(entries)
}

fn entry(line: &str, levels: &[&str]) -> Result<Entry, String> {
    let (level, token) = if levels.is_empty() {
        (0, line)
    } else {
        // The error does not contain the words, one of which may be a token.
        let expected = || format!("expected {} and a token", levels.join(" or "));
        let (level, token) = line.split_once(char::is_whitespace).ok_or_else(expected)?;
        (levels.iter().position(|known| *known == level).ok_or_else(expected)?, token.trim_start())
    };
    match token.strip_prefix(CERTIFICATE) {
        Some(fingerprint) => Ok(Entry { level, is_certificate: true, digest: digest_in(fingerprint)? }),
        None => {
            let digest = Sha256::digest(valid_token(token)?).into();
            Ok(Entry { level, is_certificate: false, digest })
        }
    }
}

/// Returns the lines with content and their numbers. A line that begins with `#` is a comment.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Checks that a token can be sent in a header (RFC 6750) and cannot be guessed.
fn valid_token(token: &str) -> Result<&str, String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if !token.bytes().all(is_valid) {
        return Err("expected a token of letters, digits and -._~+/=".to_owned());
    }
    if !TOKEN_LENGTHS.contains(&token.len()) {
        return Err(format!(
            "expected a token of {} to {} characters, found {}; create one: openssl rand -hex 32",
            TOKEN_LENGTHS.start(),
            TOKEN_LENGTHS.end(),
            token.len()
        ));
    }
    Ok(token)
}

/// Parses a fingerprint: 32 bytes in hexadecimal, with or without colons.
fn digest_in(fingerprint: &str) -> Result<[u8; 32], String> {
    let expected = || {
        "expected the SHA-256 fingerprint of a certificate; print it: openssl x509 -noout -fingerprint \
         -sha256 -in FILE"
            .to_owned()
    };
    let digits: Vec<u8> = fingerprint.bytes().filter(|byte| *byte != b':').collect();
    let mut digest = [0; 32];
    if digits.len() != 2 * digest.len() {
        return Err(expected());
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| expected())?;
        // A sign is no digit, but would be parsed.
        if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(expected());
        }
        *byte = u8::from_str_radix(pair, 16).map_err(|_| expected())?;
    }
    Ok(digest)
}

/// Reads a password: from a file that only its owner may read, without its line end, or from an
/// environment variable. `None` without either.
///
/// # Errors
/// As [`read`], and if the file is empty or has more than one line.
pub fn password(file: Option<&Path>, variable: &str) -> Result<Option<String>, TlsError> {
    let Some(path) = file else { return Ok(std::env::var(variable).ok().filter(|text| !text.is_empty())) };
    let text = read(path)?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() || password.contains(['\0', '\n']) {
        return Err(TlsError::invalid(path, "expected one line with a password"));
    }
    Ok(Some(password.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    const LEVELS: &[&str] = &["read-only", "operator"];
    const READER: &str = "0123456789abcdef";
    const OPERATOR: &str = "fedcba9876543210/+-._~=";

    fn written(directory: &TempDir, content: &str) -> PathBuf {
        let path = directory.path().join("tokens");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn error(result: Result<impl Sized, TlsError>) -> String {
        match result {
            Ok(_) => panic!("was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn tokens_and_certificates_have_the_level_of_their_line() {
        let directory = TempDir::new().unwrap();
        let certificate = b"a certificate in DER";
        let fingerprint =
            Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>();
        let path = written(
            &directory,
            &format!(
                "# Prometheus\nread-only {READER}\n\n  operator\t{OPERATOR}\nread-only {OPERATOR}\n\
                 operator certificate:{}\n",
                fingerprint.join(":")
            ),
        );
        let tokens = Tokens::read(&path, LEVELS).unwrap();
        assert_eq!(tokens.level(READER.as_bytes()), Some(0));
        assert_eq!(tokens.level(OPERATOR.as_bytes()), Some(1));
        for wrong in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0"] {
            assert_eq!(tokens.level(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(tokens.level_of_certificate(certificate), Some(1));
        assert_eq!(tokens.level_of_certificate(READER.as_bytes()), None);
        assert_eq!(tokens.level(certificate), None);
        assert!(!format!("{tokens:?}").contains(READER));
    }

    #[test]
    fn files_that_others_can_read_are_refused_with_what_to_do() {
        let directory = TempDir::new().unwrap();
        let path = written(&directory, READER);
        for mode in [0o644, 0o604, 0o602, 0o620, 0o660] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = error(Token::read(&path));
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:o}")), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert_eq!(Token::read(&path).unwrap().header(), format!("Bearer {READER}"));
    }

    #[test]
    fn lines_that_are_no_tokens_are_refused_without_showing_them() {
        let directory = TempDir::new().unwrap();
        for (line, expected) in [
            ("", "expected at least one token"),
            ("# nothing", "expected at least one token"),
            (READER, "line 1: expected read-only or operator and a token"),
            ("root 0123456789abcdef", "expected read-only or operator and a token"),
            ("operator 0123456789abcde", "16 to 512 characters, found 15"),
            ("operator 0123456789 abcdef", "letters, digits"),
            ("operator certificate:00", "SHA-256 fingerprint"),
            (&format!("operator certificate:{}", "+1".repeat(32)), "SHA-256 fingerprint"),
        ] {
            let error = error(Tokens::read(&written(&directory, line), LEVELS));
            assert!(error.contains(expected) && !error.contains("0123456789"), "{line}: {error}");
        }
        assert!(error(Tokens::read(&directory.path().join("missing"), LEVELS)).starts_with("cannot read"));
    }

    #[test]
    fn a_replaced_file_is_read_again_and_a_damaged_one_leaves_the_previous_tokens_in_use() {
        let directory = TempDir::new().unwrap();
        let path = written(&directory, &format!("{READER}\n"));
        let tokens = Tokens::read(&path, &[]).unwrap();
        assert!(!tokens.reload_if_changed().unwrap());
        written(&directory, "short");
        tokens.reload_if_changed().unwrap_err();
        assert_eq!(tokens.level(READER.as_bytes()), Some(0));
        // Longer than before, whatever the resolution of times.
        written(&directory, &format!("{OPERATOR}\n\n\n"));
        assert!(tokens.reload_if_changed().unwrap());
        assert_eq!((tokens.level(READER.as_bytes()), tokens.level(OPERATOR.as_bytes())), (None, Some(0)));
    }

    #[test]
    fn a_password_is_one_line_of_its_file() {
        let directory = TempDir::new().unwrap();
        let path = written(&directory, "pass word\r\n");
        assert_eq!(password(Some(&path), "NONE").unwrap().as_deref(), Some("pass word"));
        for content in ["", "\n", "two\nlines\n"] {
            let path = written(&directory, content);
            assert!(error(password(Some(&path), "NONE")).contains("one line"), "{content:?}");
        }
        assert_eq!(password(None, "CASSETTE_NO_SUCH_VARIABLE").unwrap(), None);
    }
}
