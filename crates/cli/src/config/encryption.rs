//! `client_encryption_options`, and `admin_encryption_options` with the same keys.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cassette_server::tls::{ClientCertificates, Keystore, KeystorePassword, Tls, TlsOptions};
use serde::Deserialize;

/// The factories of Cassandra whose files are supported or recognized. That of PEM takes inline
/// keys as well, which are not supported: a configuration file is no place for a key.
const FACTORIES: [&str; 2] = ["DefaultSslContextFactory", "PEMBasedSslContextFactory"];

/// The formats of keystores.
const STORE_TYPES: [&str; 3] = ["PEM", "PKCS12", "JKS"];

/// How connections of clients are encrypted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EncryptionOptions {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    optional: bool,
    keystore: Option<PathBuf>,
    truststore: Option<PathBuf>,
    require_client_auth: Option<serde_json::Value>,
    accepted_protocols: Option<Vec<String>>,
    cipher_suites: Option<Vec<String>>,
    store_type: Option<String>,
    ssl_context_factory: Option<Factory>,
    /// In Cassandra, the name of the implementation; the versions are in `accepted_protocols`.
    protocol: Option<String>,
    keystore_password: Option<Secret>,
    keystore_password_file: Option<PathBuf>,
    truststore_password: Option<Secret>,
    truststore_password_file: Option<PathBuf>,
    /// The algorithm of Java's key managers, of which there are none.
    algorithm: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Factory {
    class_name: String,
    parameters: Option<serde_json::Value>,
}

/// A password, which is not shown in messages.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl EncryptionOptions {
    /// Reads the files. `None` if encryption is disabled.
    fn tls(&self, key: &str) -> anyhow::Result<Option<Tls>> {
        if !self.enabled {
            return Ok(None);
        }
        self.check_format(key)?;
        let Some(keystore) = &self.keystore else {
            bail!(
                "keystore: expected a file with private key and certificates, as `cassette certificates` \
                 creates it"
            );
        };
        let keystore_password =
            password("keystore_password", &self.keystore_password, &self.keystore_password_file)?;
        let truststore_password =
            password("truststore_password", &self.truststore_password, &self.truststore_password_file)?;
        let options = TlsOptions {
            keystore: Keystore { password: keystore_password, ..Keystore::new(keystore) },
            truststore: self
                .truststore
                .as_ref()
                .map(|path| Keystore { password: truststore_password, ..Keystore::new(path) }),
            is_optional: self.optional,
            client_certificates: self.client_certificates()?,
            protocols: self.accepted_protocols.clone().unwrap_or_default(),
            cipher_suites: self.cipher_suites.clone().unwrap_or_default(),
        };
        Ok(Some(Tls::new(options)?))
    }

    /// Refuses other formats by name, and reports keys without effect.
    fn check_format(&self, option: &str) -> anyhow::Result<()> {
        // The format of a file shows in its content, so the name alone has to be known.
        if let Some(store) = &self.store_type
            && !STORE_TYPES.iter().any(|known| known.eq_ignore_ascii_case(store))
        {
            bail!("store_type: expected {}, found {store}", STORE_TYPES.join(", "));
        }
        if let Some(factory) = &self.ssl_context_factory {
            let name = factory.class_name.rsplit('.').next().unwrap_or_default();
            if !FACTORIES.contains(&name) {
                bail!("ssl_context_factory: expected {}, found {name}", FACTORIES.join(" or "));
            }
            if factory.parameters.as_ref().is_some_and(|parameters| !parameters.is_null()) {
                bail!(
                    "ssl_context_factory: expected no parameters; set keystore and truststore to files of PEM"
                );
            }
        }
        if let Some(protocol) = self.protocol.as_deref().filter(|protocol| *protocol != "TLS") {
            bail!("protocol: expected TLS, found {protocol}; set the versions in accepted_protocols");
        }
        if self.algorithm.is_some() {
            tracing::warn!("{option}: algorithm has no effect");
        }
        Ok(())
    }

    fn client_certificates(&self) -> anyhow::Result<ClientCertificates> {
        match &self.require_client_auth {
            None | Some(serde_json::Value::Bool(false) | serde_json::Value::Null) => {
                Ok(ClientCertificates::Ignored)
            }
            Some(serde_json::Value::Bool(true)) => Ok(ClientCertificates::Required),
            Some(serde_json::Value::String(text)) => match text.as_str() {
                "true" => Ok(ClientCertificates::Required),
                "optional" => Ok(ClientCertificates::Optional),
                "false" => Ok(ClientCertificates::Ignored),
                other => bail!("require_client_auth: expected true, false or optional, found {other}"),
            },
            Some(other) => bail!("require_client_auth: expected true, false or optional, found {other}"),
        }
    }
}

/// Returns the password of the keys `key` and `key`_file, of which one can be set.
pub(super) fn password(
    key: &str,
    text: &Option<Secret>,
    file: &Option<PathBuf>,
) -> anyhow::Result<KeystorePassword> {
    match (text, file) {
        (None, None) => Ok(KeystorePassword::None),
        (Some(text), None) => Ok(KeystorePassword::Text(text.0.clone())),
        (None, Some(file)) => Ok(KeystorePassword::File(file.clone())),
        (Some(_), Some(_)) => bail!("expected {key} or {key}_file, found both"),
    }
}

/// Reads the files of the options of `key`, which errors name.
pub(super) fn tls(key: &'static str, options: Option<&EncryptionOptions>) -> anyhow::Result<Option<Tls>> {
    let Some(options) = options else { return Ok(None) };
    options.tls(key).context(key)
}

/// Returns the options for the files that `cassette certificates` creates in a directory.
pub(crate) fn options_of(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "client_encryption_options:\n  enabled: true\n  keystore: {directory}/server.pem\n  \
         truststore: {directory}/ca.pem\n  require_client_auth: false\n"
    )
}
