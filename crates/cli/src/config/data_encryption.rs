//! `transparent_data_encryption_options`: the encryption of the commit log.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use cassette_encryption::{AesGcm, CIPHER_NAME, Key, KeyError, Keys, NONCE_LENGTH, keys_in_file};
use cassette_server::tls::{Keystore, secret};
use cassette_vfs::encryption::Encryption;
use serde::Deserialize;

use super::encryption::{Secret, password};

const OPTION: &str = "transparent_data_encryption_options";

/// The provider of Cassandra, and the one of key files.
const PROVIDERS: [&str; 2] = ["JKSKeyProvider", "FileKeyProvider"];

/// How the commit log is encrypted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataEncryptionOptions {
    #[serde(default)]
    enabled: bool,
    /// In Cassandra, bytes that are encrypted together; here, these are records.
    chunk_length_kb: Option<u32>,
    cipher: Option<String>,
    key_alias: Option<String>,
    iv_length: Option<usize>,
    key_provider: Option<Vec<Provider>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    class_name: String,
    #[serde(default)]
    parameters: Vec<Parameters>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    keystore: Option<PathBuf>,
    keystore_password: Option<Secret>,
    keystore_password_file: Option<PathBuf>,
    store_type: Option<String>,
    key_password: Option<Secret>,
    key_file: Option<PathBuf>,
}

/// Returns what encrypts and decrypts the commit log. Without `enabled`, it only decrypts: nothing
/// is checked or read until there is an encrypted segment, because Cassandra's file names a
/// keystore that need not exist.
///
/// # Errors
/// If it is enabled, and an option is not supported or the key cannot be read.
pub(super) fn commit_log(
    options: Option<&DataEncryptionOptions>,
) -> anyhow::Result<Option<Arc<dyn Encryption>>> {
    let Some(options) = options else { return Ok(None) };
    let keys = ConfiguredKeys(options.clone());
    let alias = if options.enabled { Some(options.checked_alias().context(OPTION)?) } else { None };
    let encryption = AesGcm::new(keys, alias).map_err(anyhow::Error::new).context(OPTION)?;
    Ok(Some(Arc::new(encryption)))
}

impl DataEncryptionOptions {
    /// Returns the alias of the key for new segments.
    fn checked_alias(&self) -> anyhow::Result<String> {
        if let Some(cipher) = self.cipher.as_deref().filter(|cipher| *cipher != CIPHER_NAME) {
            bail!("cipher: expected {CIPHER_NAME}, which detects changes of the data, found {cipher}");
        }
        if let Some(length) = self.iv_length.filter(|length| *length != NONCE_LENGTH) {
            bail!(
                "iv_length: expected {NONCE_LENGTH}, the length of the nonces of {CIPHER_NAME}, found {length}"
            );
        }
        if self.chunk_length_kb.is_some() {
            tracing::warn!("{OPTION}: chunk_length_kb has no effect; records are encrypted one by one");
        }
        self.key_alias
            .clone()
            .context("key_alias: expected the alias of the key for new segments, found none")
    }

    fn source(&self) -> anyhow::Result<KeySource> {
        let providers = self.key_provider.as_deref().unwrap_or_default();
        let [provider] = providers else {
            bail!("key_provider: expected one of {}, found {}", PROVIDERS.join(", "), providers.len());
        };
        let [parameters] = provider.parameters.as_slice() else {
            bail!("key_provider: expected one list of parameters, found {}", provider.parameters.len());
        };
        let name = provider.class_name.rsplit('.').next().unwrap_or_default();
        match PROVIDERS.iter().position(|known| *known == name) {
            Some(0) => parameters.keystore().map(KeySource::Keystore),
            Some(_) => parameters.key_file().map(KeySource::File),
            None => bail!("key_provider: expected {}, found {}", PROVIDERS.join(" or "), provider.class_name),
        }
    }
}

impl Parameters {
    fn keystore(&self) -> anyhow::Result<Keystore> {
        if let Some(found) = self.store_type.as_deref().filter(|found| !found.eq_ignore_ascii_case("PKCS12"))
        {
            bail!(
                "store_type: expected PKCS12, found {found}; convert the keystore: keytool -importkeystore \
                 -srckeystore FILE -srcstoretype {found} -destkeystore NEW -deststoretype PKCS12"
            );
        }
        if self.key_file.is_some() {
            bail!("expected keystore, found key_file, which is for FileKeyProvider");
        }
        let Some(path) = &self.keystore else { bail!("keystore: expected a file, found none") };
        if let (Some(key), Some(store)) = (&self.key_password, &self.keystore_password)
            && key.0 != store.0
        {
            bail!("key_password: expected none or that of the keystore, which encrypts the keys of PKCS12");
        }
        let password = password("keystore_password", &self.keystore_password, &self.keystore_password_file)?;
        Ok(Keystore { password, ..Keystore::new(path) })
    }

    fn key_file(&self) -> anyhow::Result<PathBuf> {
        let Self { keystore, keystore_password, keystore_password_file, store_type, key_password, key_file } =
            self;
        let is_alone = keystore.is_none()
            && keystore_password.is_none()
            && keystore_password_file.is_none()
            && store_type.is_none()
            && key_password.is_none();
        match key_file {
            Some(path) if is_alone => Ok(path.clone()),
            Some(_) => bail!("expected key_file alone, found parameters of keystores"),
            None => bail!("key_file: expected a file, found none"),
        }
    }
}

enum KeySource {
    Keystore(Keystore),
    /// A file with an alias and a key in each line.
    File(PathBuf),
}

/// Reads the keystore or file whenever a key is needed, so that no other key stays in memory.
struct ConfiguredKeys(DataEncryptionOptions);

impl fmt::Debug for ConfiguredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfiguredKeys")
    }
}

impl Keys for ConfiguredKeys {
    fn key(&self, alias: &str) -> Result<Key, KeyError> {
        let error = |why: String| KeyError(format!("key \"{alias}\": {why}"));
        match self.0.source().map_err(|why| error(format!("{why:#}")))? {
            KeySource::Keystore(keystore) => {
                let bytes = keystore.secret_key(alias).map_err(|why| error(why.to_string()))?;
                Key::new(bytes).map_err(|why| error(format!("{}: {why}", keystore.path.display())))
            }
            KeySource::File(path) => {
                let text = secret::read(&path).map_err(|why| error(why.to_string()))?;
                let keys = keys_in_file(&text).map_err(|why| error(format!("{}: {why}", path.display())))?;
                let found = keys.into_iter().find(|(known, _)| known == alias);
                found
                    .map(|(_, key)| key)
                    .ok_or_else(|| error(format!("expected it in {}, found none", path.display())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use tempfile::TempDir;

    use super::super::Config;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";

    fn key_file(directory: &TempDir) -> PathBuf {
        let path = directory.path().join("keys");
        fs::write(&path, format!("old {HEX}\nnew {HEX}{HEX}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    use super::*;

    fn read(options: &str) -> anyhow::Result<Option<Arc<dyn Encryption>>> {
        let text = format!("transparent_data_encryption_options:\n{options}");
        let config = Config::parse(&text)?;
        config.database(Path::new("x")).map(|options| options.engine.commitlog_encryption)
    }

    fn keystore(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/testdata/keystores").join(name)
    }

    fn with_keystore(name: &str, others: &str) -> String {
        let path = keystore(name);
        format!(
            "  enabled: true\n  key_alias: Testing:256\n{others}  key_provider:\n    - class_name: \
             org.apache.cassandra.security.JKSKeyProvider\n      parameters:\n        - keystore: {}\n          \
             keystore_password: changeit\n          key_password: changeit\n",
            path.display()
        )
    }

    fn with_file(path: &Path, alias: &str) -> String {
        format!(
            "  enabled: true\n  key_alias: {alias}\n  key_provider:\n    - class_name: FileKeyProvider\n      \
             parameters:\n        - key_file: {}\n",
            path.display()
        )
    }

    #[test]
    fn keys_come_from_pkcs12_keystores_and_key_files() {
        let directory = TempDir::new().unwrap();
        let file = key_file(&directory);
        for options in [
            with_keystore("secret.p12", ""),
            with_keystore(
                "secret.p12",
                "  cipher: AES/GCM/NoPadding\n  chunk_length_kb: 64\n  iv_length: 12\n",
            ),
            with_file(&file, "new"),
        ] {
            let encryption = read(&options).unwrap().unwrap();
            let parameters = encryption.begin().unwrap().parameters;
            encryption.resume(&parameters).unwrap();
        }
        // Segments of the previous key are readable as long as the file has it.
        let old = read(&with_file(&file, "old")).unwrap().unwrap().begin().unwrap().parameters;
        let new = read(&with_file(&file, "new")).unwrap().unwrap();
        new.resume(&old).unwrap();
        fs::write(&file, format!("new {HEX}{HEX}\n")).unwrap();
        let error = new.resume(&old).err().unwrap().to_string();
        assert!(error.starts_with("key \"old\": expected it in "), "{error}");
    }

    #[test]
    fn the_block_of_cassandras_file_is_accepted_while_it_is_disabled() {
        let block = "  enabled: false\n  chunk_length_kb: 64\n  cipher: AES/CBC/PKCS5Padding\n  key_alias: a\n  \
                     key_provider:\n    - class_name: org.apache.cassandra.security.JKSKeyProvider\n      \
                     parameters:\n        - keystore: conf/.keystore\n          \
                     keystore_password: cassandra\n          store_type: JCEKS\n          key_password: cassandra\n";
        let encryption = read(block).unwrap().unwrap();
        assert!(!encryption.encrypts_new_files());
        let enabled = block.replace("enabled: false", "enabled: true");
        let error = format!("{:#}", read(&enabled).err().unwrap());
        assert!(error.contains("cipher: expected AES/GCM/NoPadding"), "{error}");
        let enabled = enabled.replace("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding");
        let error = format!("{:#}", read(&enabled).err().unwrap());
        assert!(error.contains("store_type: expected PKCS12, found JCEKS; convert"), "{error}");
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name_without_secrets() {
        let directory = TempDir::new().unwrap();
        let file = key_file(&directory);
        let public = directory.path().join("public");
        fs::write(&public, format!("new {HEX}\n")).unwrap();
        fs::set_permissions(&public, Permissions::from_mode(0o644)).unwrap();
        let store = with_keystore("secret.p12", "");
        for (options, expected) in [
            ("  enabled: true\n".to_owned(), "key_alias: expected the alias"),
            ("  enabled: true\n  key_alias: a\n".to_owned(), "key_provider: expected one of JKSKeyProvider"),
            (
                store.replace("JKSKeyProvider", "VaultKeyProvider"),
                "found org.apache.cassandra.security.VaultKeyProvider",
            ),
            (store.replace("Testing:256", "other"), "expected a secret key with alias other"),
            (store.replace("word: changeit", "word: changeme"), "the password does not open the keystore"),
            (
                store.replace("key_password: changeit", "key_password: changeme"),
                "key_password: expected none",
            ),
            (with_keystore("java.jceks", ""), "found JCEKS; convert it"),
            (with_keystore("missing.p12", ""), "cannot read"),
            (with_keystore("secret.p12", "  iv_length: 16\n"), "iv_length: expected 12"),
            (with_keystore("secret.p12", "  other: 16\n"), "unknown field"),
            (with_file(&file, "missing"), "key \"missing\": expected it in"),
            (with_file(&public, "new"), "chmod 600"),
            (
                with_file(&file, "new").replace("key_file", "keystore"),
                "key_file: expected a file, found none",
            ),
        ] {
            let error = format!("{:#}", read(&options).expect_err(&options));
            assert!(error.contains(expected), "{options}: {error}");
            assert!(!error.contains("changeit") && !error.contains(HEX), "{error}");
        }
    }
}
