//! The keys of authentication and authorization.

use std::time::Duration;

use anyhow::{Context, bail};
use cassette_database::{AuthCacheSettings, AuthSettings};
use serde::Deserialize;

use super::{chosen, duration};

const ALLOW_ALL_AUTHENTICATOR: &str = "AllowAllAuthenticator";
const PASSWORD_AUTHENTICATOR: &str = "PasswordAuthenticator";
const ALLOW_ALL_AUTHORIZER: &str = "AllowAllAuthorizer";
const CASSANDRA_AUTHORIZER: &str = "CassandraAuthorizer";

/// The keys as written, absent where the default applies.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AuthKeys {
    authenticator: Option<serde_json::Value>,
    authorizer: Option<serde_json::Value>,
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
        self.authenticator = authenticator.map(value).or_else(|| self.authenticator.take());
        self.authorizer = authorizer.map(value).or_else(|| self.authorizer.take());
    }

    /// Returns the names of the classes, as `system_views.settings` shows them.
    pub fn classes(&self) -> anyhow::Result<[(&'static str, &'static str); 2]> {
        let authenticator = class(
            "authenticator",
            self.authenticator.as_ref(),
            [ALLOW_ALL_AUTHENTICATOR, PASSWORD_AUTHENTICATOR],
        )?;
        let authorizer =
            class("authorizer", self.authorizer.as_ref(), [ALLOW_ALL_AUTHORIZER, CASSANDRA_AUTHORIZER])?;
        if authenticator == ALLOW_ALL_AUTHENTICATOR && authorizer != ALLOW_ALL_AUTHORIZER {
            bail!(
                "{authenticator} can't be used with {authorizer}: set authenticator to {PASSWORD_AUTHENTICATOR}"
            );
        }
        Ok([("authenticator", authenticator), ("authorizer", authorizer)])
    }

    /// Returns the settings of the database.
    pub fn settings(&self) -> anyhow::Result<AuthSettings> {
        let [(_, authenticator), (_, authorizer)] = self.classes()?;
        Ok(AuthSettings {
            passwords: authenticator == PASSWORD_AUTHENTICATOR,
            permissions: authorizer == CASSANDRA_AUTHORIZER,
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

/// Returns which of the two known classes a key names; the first one by default.
fn class(
    key: &str,
    value: Option<&serde_json::Value>,
    known: [&'static str; 2],
) -> anyhow::Result<&'static str> {
    let Some(name) = value.and_then(chosen) else { return Ok(known[0]) };
    let simple = name.rsplit('.').next().unwrap_or_default();
    match known.into_iter().find(|class| *class == simple) {
        Some(class) => Ok(class),
        None => bail!("{key}: {name} is not supported: expected {}", known.join(" or ")),
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
                    authorizer: CassandraAuthorizer\nroles_validity: 1m\npermissions_validity_in_ms: 500\n\
                    credentials_validity: 0ms\ncredentials_cache_max_entries: 7\n";
        let auth = settings(text).unwrap();
        assert!(auth.passwords && auth.permissions);
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
                "authenticator: MutualTlsAuthenticator\n",
                "authenticator: MutualTlsAuthenticator is not supported: \
                 expected AllowAllAuthenticator or PasswordAuthenticator",
            ),
            (
                "authorizer: CassandraAuthorizer\n",
                "AllowAllAuthenticator can't be used with CassandraAuthorizer",
            ),
            ("roles_validity: 5\n", "roles_validity"),
        ] {
            let error = format!("{:#}", settings(text).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }
}
