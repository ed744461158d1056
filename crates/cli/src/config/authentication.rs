//! The keys of authentication and authorization.

use std::time::Duration;

use anyhow::{Context, bail};
use cassette_database::{AuthCacheSettings, AuthSettings};
use cassette_server::tls::{ClientCertificates, Tls};
use serde::Deserialize;

use super::{chosen, cidr, duration};

const ALLOW_ALL_AUTHENTICATOR: &str = "AllowAllAuthenticator";
const PASSWORD_AUTHENTICATOR: &str = "PasswordAuthenticator";
const CERTIFICATE_AUTHENTICATOR: &str = "MutualTlsAuthenticator";
const FALLBACK_AUTHENTICATOR: &str = "MutualTlsWithPasswordFallbackAuthenticator";
const ALLOW_ALL_AUTHORIZER: &str = "AllowAllAuthorizer";
const CASSANDRA_AUTHORIZER: &str = "CassandraAuthorizer";
const ALLOW_ALL_NETWORKS: &str = "AllowAllNetworkAuthorizer";
const NETWORK_AUTHORIZER: &str = "CassandraNetworkAuthorizer";

/// The only class that finds the identity in a certificate.
const CERTIFICATE_VALIDATOR: &str = "SpiffeCertificateValidator";

/// The keys as written, absent where the default applies.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AuthKeys {
    authenticator: Option<serde_json::Value>,
    authorizer: Option<serde_json::Value>,
    network_authorizer: Option<serde_json::Value>,
    cidr_authorizer: Option<serde_json::Value>,
    credentials_validity: Option<String>,
    credentials_cache_max_entries: Option<usize>,
    permissions_validity: Option<String>,
    permissions_cache_max_entries: Option<usize>,
    roles_validity: Option<String>,
    roles_cache_max_entries: Option<usize>,
}

impl AuthKeys {
    /// Replaces what the file says by classes of the command line.
    pub fn choose(&mut self, authenticator: Option<&str>, authorizer: Option<&str>) {
        let value = |class: &str| serde_json::Value::String(class.to_owned());
        // The file may have the parameters of the same class.
        let is_same = authenticator == self.authenticator.as_ref().and_then(chosen).as_deref().map(simple);
        if !is_same {
            self.authenticator = authenticator.map(value).or_else(|| self.authenticator.take());
        }
        self.authorizer = authorizer.map(value).or_else(|| self.authorizer.take());
    }

    /// Returns what `system_views.settings` shows.
    pub fn shown(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut shown: Vec<(String, String)> =
            self.classes()?.into_iter().map(|(key, class)| (key.to_owned(), class.to_owned())).collect();
        let parameters = cidr::shown_parameters(self.cidr_authorizer.as_ref())?;
        shown.extend(parameters.map(|parameters| ("cidr_authorizer.parameters".to_owned(), parameters)));
        Ok(shown)
    }

    /// Returns the keys that are accepted and have no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        cidr::without_effect(self.cidr_authorizer.as_ref())
    }

    /// Returns the names of the classes, as `system_views.settings` shows them.
    fn classes(&self) -> anyhow::Result<[(&'static str, &'static str); 4]> {
        let authenticator = class(
            "authenticator",
            self.authenticator.as_ref(),
            &[
                ALLOW_ALL_AUTHENTICATOR,
                PASSWORD_AUTHENTICATOR,
                CERTIFICATE_AUTHENTICATOR,
                FALLBACK_AUTHENTICATOR,
            ],
        )?;
        if [CERTIFICATE_AUTHENTICATOR, FALLBACK_AUTHENTICATOR].contains(&authenticator) {
            check_validator(self.authenticator.as_ref())?;
        }
        let authorizer =
            class("authorizer", self.authorizer.as_ref(), &[ALLOW_ALL_AUTHORIZER, CASSANDRA_AUTHORIZER])?;
        if authenticator == ALLOW_ALL_AUTHENTICATOR && authorizer != ALLOW_ALL_AUTHORIZER {
            bail!(
                "{authenticator} can't be used with {authorizer}: set authenticator to {PASSWORD_AUTHENTICATOR}"
            );
        }
        let network = self.network_authorizer.as_ref();
        let network = class("network_authorizer", network, &[ALLOW_ALL_NETWORKS, NETWORK_AUTHORIZER])?;
        if authenticator == ALLOW_ALL_AUTHENTICATOR && network != ALLOW_ALL_NETWORKS {
            bail!(
                "{network} can't be used with {authenticator}: set authenticator to {PASSWORD_AUTHENTICATOR}"
            );
        }
        let cidr = self.cidr_authorizer.as_ref();
        let cidr = class("cidr_authorizer", cidr, &[cidr::ALLOW_ALL, cidr::CIDR_AUTHORIZER])?;
        if authenticator == ALLOW_ALL_AUTHENTICATOR && cidr != cidr::ALLOW_ALL {
            bail!("{cidr} can't be used with {authenticator}: set authenticator to {PASSWORD_AUTHENTICATOR}");
        }
        Ok([
            ("authenticator", authenticator),
            ("authorizer", authorizer),
            ("network_authorizer", network),
            // As in Cassandra, which has no shorter name of it.
            ("cidr_authorizer.class_name", cidr),
        ])
    }

    /// Checks that clients can present what the authenticator requires.
    pub fn check_certificates(&self, tls: Option<&Tls>) -> anyhow::Result<()> {
        let [(_, authenticator), ..] = self.classes()?;
        let found = tls.map_or(ClientCertificates::Ignored, Tls::client_certificates);
        let (required, is_met) = match authenticator {
            CERTIFICATE_AUTHENTICATOR => ("true", found == ClientCertificates::Required),
            FALLBACK_AUTHENTICATOR => ("true or optional", found != ClientCertificates::Ignored),
            _ => return Ok(()),
        };
        if !is_met {
            bail!(
                "{authenticator} requires client_encryption_options.enabled to be true & \
                 client_encryption_options.require_client_auth to be {required}"
            );
        }
        Ok(())
    }

    /// Returns the settings of the database.
    pub fn settings(&self) -> anyhow::Result<AuthSettings> {
        let [(_, authenticator), (_, authorizer), (_, network), (_, cidr)] = self.classes()?;
        let cidr_settings = cidr::settings(self.cidr_authorizer.as_ref())?;
        Ok(AuthSettings {
            passwords: [PASSWORD_AUTHENTICATOR, FALLBACK_AUTHENTICATOR].contains(&authenticator),
            certificates: [CERTIFICATE_AUTHENTICATOR, FALLBACK_AUTHENTICATOR].contains(&authenticator),
            permissions: authorizer == CASSANDRA_AUTHORIZER,
            network: network == NETWORK_AUTHORIZER,
            cidr: (cidr == cidr::CIDR_AUTHORIZER).then_some(cidr_settings),
            credentials_cache: cache(
                "credentials_validity",
                self.credentials_validity.as_deref(),
                self.credentials_cache_max_entries,
            )?,
            permissions_cache: cache(
                "permissions_validity",
                self.permissions_validity.as_deref(),
                self.permissions_cache_max_entries,
            )?,
            roles_cache: cache(
                "roles_validity",
                self.roles_validity.as_deref(),
                self.roles_cache_max_entries,
            )?,
        })
    }
}

/// Returns which of the known classes a key names; the first one by default.
fn class(
    key: &str,
    value: Option<&serde_json::Value>,
    known: &[&'static str],
) -> anyhow::Result<&'static str> {
    let Some(name) = value.and_then(chosen) else { return Ok(known[0]) };
    match known.iter().find(|class| **class == simple(&name)) {
        Some(class) => Ok(*class),
        None => bail!("{key}: {name} is not supported: expected {}", known.join(" or ")),
    }
}

/// Returns the name of a class without its package.
fn simple(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// Returns a parameter of a class. Cassandra's files have them in a map, or in a list of one map.
pub(super) fn parameter<'a>(value: Option<&'a serde_json::Value>, name: &str) -> Option<&'a str> {
    let parameters = value?.get("parameters")?;
    parameters.get(0).unwrap_or(parameters).get(name)?.as_str()
}

/// Checks that the identity of a certificate is its SPIFFE ID.
fn check_validator(authenticator: Option<&serde_json::Value>) -> anyhow::Result<()> {
    match parameter(authenticator, "validator_class_name").filter(|name| !name.is_empty()) {
        Some(name) if simple(name) == CERTIFICATE_VALIDATOR => Ok(()),
        Some(name) => bail!(
            "authenticator.parameters.validator_class_name: {name} is not supported: expected \
             {CERTIFICATE_VALIDATOR}"
        ),
        None => bail!(
            "authenticator.parameters.validator_class_name is not set: expected {CERTIFICATE_VALIDATOR}"
        ),
    }
}

fn cache(
    key: &'static str,
    validity: Option<&str>,
    max_entries: Option<usize>,
) -> anyhow::Result<AuthCacheSettings> {
    let defaults = AuthCacheSettings::default();
    let validity: Option<Duration> = validity.map(duration).transpose().context(key)?;
    Ok(AuthCacheSettings {
        validity: validity.unwrap_or(defaults.validity),
        max_entries: max_entries.unwrap_or(defaults.max_entries),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::*;

    fn settings(text: &str) -> anyhow::Result<AuthSettings> {
        Ok(Config::parse(text)?.database(Path::new("x"))?.auth)
    }

    #[test]
    fn nobody_is_authenticated_by_default() {
        assert_eq!(settings("cluster_name: a\n").unwrap(), AuthSettings::default());
        assert!(!AuthSettings::default().passwords && !AuthSettings::default().permissions);
    }

    #[test]
    fn classes_and_caches_of_the_file_reach_the_database() {
        let text = "authenticator:\n  class_name: org.apache.cassandra.auth.PasswordAuthenticator\n\
                    authorizer: CassandraAuthorizer\n\
                    network_authorizer: CassandraNetworkAuthorizer\n\
                    roles_validity: 1m\npermissions_validity_in_ms: 500\n\
                    credentials_validity: 0ms\ncredentials_cache_max_entries: 7\n";
        let auth = settings(text).unwrap();
        assert!(auth.passwords && auth.permissions && auth.network);
        assert_eq!(auth.roles_cache.validity, Duration::from_secs(60));
        assert_eq!(auth.permissions_cache.validity, Duration::from_millis(500));
        assert_eq!(auth.credentials_cache, AuthCacheSettings { validity: Duration::ZERO, max_entries: 7 });
        let shown = Config::parse(text).unwrap().database(Path::new("x")).unwrap().settings;
        assert_eq!(shown.get("authenticator").map(String::as_str), Some("PasswordAuthenticator"));
        assert_eq!(shown.get("authorizer").map(String::as_str), Some("CassandraAuthorizer"));
    }

    #[test]
    fn classes_that_do_not_fit_are_refused() {
        for (text, says) in [
            (
                "authenticator: LdapAuthenticator\n",
                "authenticator: LdapAuthenticator is not supported: expected AllowAllAuthenticator or \
                 PasswordAuthenticator or MutualTlsAuthenticator or",
            ),
            (
                "authenticator: MutualTlsAuthenticator\n",
                "authenticator.parameters.validator_class_name is not set: expected",
            ),
            (
                "authenticator:\n  class_name: MutualTlsAuthenticator\n  parameters:\n    \
                 validator_class_name: com.example.Own\n",
                "com.example.Own is not supported: expected SpiffeCertificateValidator",
            ),
            (
                "authorizer: CassandraAuthorizer\n",
                "AllowAllAuthenticator can't be used with CassandraAuthorizer",
            ),
            ("roles_validity: 5\n", "roles_validity"),
            (
                "network_authorizer: CassandraNetworkAuthorizer\n",
                "CassandraNetworkAuthorizer can't be used with AllowAllAuthenticator",
            ),
        ] {
            let error = format!("{:#}", settings(text).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn certificates_log_in_by_all_of_cassandras_forms_and_only_with_tls() {
        let spiffe = "validator_class_name: org.apache.cassandra.auth.SpiffeCertificateValidator\n";
        for (class, passwords, expected) in [
            ("MutualTlsAuthenticator", false, "require_client_auth to be true"),
            (
                "MutualTlsWithPasswordFallbackAuthenticator",
                true,
                "require_client_auth to be true or optional",
            ),
        ] {
            for (package, before) in [("", "    "), ("org.apache.cassandra.auth.", "    - ")] {
                let text = format!(
                    "authenticator:\n  class_name: {package}{class}\n  parameters:\n{before}{spiffe}"
                );
                let auth = settings(&text).unwrap();
                assert!(auth.certificates && auth.passwords == passwords, "{text}");
                let mut config = Config::parse(&text).unwrap();
                let error = config.tls().unwrap_err().to_string();
                assert!(error.starts_with(class) && error.ends_with(expected), "{error}");
                config.choose_auth(Some(class), None);
                assert!(config.database(Path::new("x")).unwrap().auth.certificates);
            }
        }
    }
}
