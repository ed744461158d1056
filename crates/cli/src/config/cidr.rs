//! `cidr_authorizer` and its parameters.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use cassette_database::CidrSettings;
use serde_json::Value;

pub(super) const ALLOW_ALL: &str = "AllowAllCIDRAuthorizer";
pub(super) const CIDR_AUTHORIZER: &str = "CassandraCIDRAuthorizer";

const MODE: &str = "cidr_authorizer_mode";
const SUPERUSERS: &str = "cidr_checks_for_superusers";
const REFRESH_INTERVAL: &str = "cidr_groups_cache_refresh_interval";
const CACHE_SIZE: &str = "ip_cache_max_size";

/// The default of `cidr_groups_cache_refresh_interval`, minutes.
const REFRESH_MINUTES: u64 = 5;

/// Returns the parameters, whose defaults are those of Cassandra.
pub(super) fn settings(authorizer: Option<&Value>) -> anyhow::Result<CidrSettings> {
    let mut settings = CidrSettings {
        enforces: false,
        checks_superusers: false,
        refresh_interval: Duration::from_secs(60 * REFRESH_MINUTES),
    };
    for (name, value) in parameters(authorizer)? {
        let refused = |expected: &str| {
            anyhow::anyhow!("cidr_authorizer.parameters.{name}: expected {expected}, found {value}")
        };
        match name.as_str() {
            MODE => {
                settings.enforces = match value.to_ascii_uppercase().as_str() {
                    "ENFORCE" => true,
                    "MONITOR" => false,
                    _ => return Err(refused("MONITOR or ENFORCE")),
                };
            }
            SUPERUSERS => {
                let expected = |_| refused("true or false");
                settings.checks_superusers = value.to_ascii_lowercase().parse().map_err(expected)?;
            }
            REFRESH_INTERVAL => {
                let minutes = value.parse().ok().filter(|minutes: &u32| *minutes > 0);
                let minutes = minutes.ok_or_else(|| refused("at least 1 minute"))?;
                settings.refresh_interval = Duration::from_secs(60 * u64::from(minutes));
            }
            CACHE_SIZE => {
                value.parse::<u32>().map_err(|_| refused("a number of addresses"))?;
            }
            _ => bail!(
                "cidr_authorizer.parameters: unknown parameter {name}: expected {MODE}, {SUPERUSERS}, \
                 {REFRESH_INTERVAL} or {CACHE_SIZE}"
            ),
        }
    }
    Ok(settings)
}

/// Returns the parameters that have no effect: lookups are too fast for a cache of their results.
pub(super) fn without_effect(authorizer: Option<&Value>) -> Vec<&'static str> {
    let has_cache_size = parameters(authorizer).is_ok_and(|parameters| parameters.contains_key(CACHE_SIZE));
    Vec::from_iter(has_cache_size.then_some("cidr_authorizer.parameters.ip_cache_max_size"))
}

/// Returns the parameters as Cassandra's `system_views.settings` shows them; `None` if there are
/// none.
pub(super) fn shown_parameters(authorizer: Option<&Value>) -> anyhow::Result<Option<String>> {
    let shown: Vec<String> =
        parameters(authorizer)?.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    Ok((!shown.is_empty()).then(|| format!("{{{}}}", shown.join(", "))))
}

/// Returns the parameters as texts. Cassandra's files have them in a map, or in a list of one map.
fn parameters(authorizer: Option<&Value>) -> anyhow::Result<BTreeMap<String, String>> {
    let Some(parameters) = authorizer.and_then(|authorizer| authorizer.get("parameters")) else {
        return Ok(BTreeMap::new());
    };
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        Value::Bool(_) | Value::Number(_) => Ok((name.clone(), value.to_string())),
        _ => bail!("cidr_authorizer.parameters.{name}: expected a text, found {value}"),
    };
    match parameters.get(0).unwrap_or(parameters) {
        Value::Object(map) => map.iter().map(text).collect(),
        Value::Null => Ok(BTreeMap::new()),
        other => bail!("cidr_authorizer.parameters: expected names and values, found {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::*;

    fn options(authorizer: &str) -> anyhow::Result<cassette_database::Options> {
        let text = format!("authenticator: PasswordAuthenticator\ncidr_authorizer{authorizer}\n");
        Config::parse(&text)?.database(Path::new("x"))
    }

    #[test]
    fn parameters_of_the_file_reach_the_database() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let class = ":\n  class_name: org.apache.cassandra.auth.CassandraCIDRAuthorizer\n  parameters:\n";
        for (text, enforces, checks_superusers, refresh_interval) in [
            (": CassandraCIDRAuthorizer".to_owned(), false, false, minutes(5)),
            (format!("{class}    cidr_authorizer_mode: enforce"), true, false, minutes(5)),
            (format!("{class}    - cidr_authorizer_mode: 'MONITOR'"), false, false, minutes(5)),
            (
                format!("{class}    cidr_checks_for_superusers: true\n    ip_cache_max_size: 100"),
                false,
                true,
                minutes(5),
            ),
            (format!("{class}    cidr_groups_cache_refresh_interval: 7"), false, false, minutes(7)),
            (class.to_owned(), false, false, minutes(5)),
        ] {
            let expected = CidrSettings { enforces, checks_superusers, refresh_interval };
            assert_eq!(options(&text).unwrap().auth.cidr, Some(expected), "{text}");
        }
        assert_eq!(options(": AllowAllCIDRAuthorizer").unwrap().auth.cidr, None);
        let both = format!("{class}    cidr_checks_for_superusers: true\n    cidr_authorizer_mode: ENFORCE");
        let shown = options(&both).unwrap().settings;
        let shown = |key: &str| shown.get(key).map(String::as_str);
        assert_eq!(shown("cidr_authorizer.class_name"), Some(CIDR_AUTHORIZER));
        let parameters = "{cidr_authorizer_mode=ENFORCE, cidr_checks_for_superusers=true}";
        assert_eq!(shown("cidr_authorizer.parameters"), Some(parameters));
    }

    #[test]
    fn parameters_that_cannot_work_are_refused_by_name() {
        let class = ":\n  class_name: CassandraCIDRAuthorizer\n  parameters:";
        for (text, says) in [
            (
                ": Ours".to_owned(),
                "cidr_authorizer: Ours is not supported: expected AllowAllCIDRAuthorizer or",
            ),
            (
                format!("{class}\n    cidr_authorizer_mode: STRICT"),
                "expected MONITOR or ENFORCE, found STRICT",
            ),
            (format!("{class}\n    cidr_checks_for_superusers: 1"), "expected true or false, found 1"),
            (
                format!("{class}\n    cidr_groups_cache_refresh_interval: 0"),
                "cidr_authorizer.parameters.cidr_groups_cache_refresh_interval: expected at least 1 minute, found 0",
            ),
            (format!("{class}\n    cidr_groups_cache_refresh_interval: 5m"), "found 5m"),
            (format!("{class}\n    ip_cache_max_size: many"), "expected a number of addresses, found many"),
            (format!("{class}\n    mode: ENFORCE"), "unknown parameter mode: expected cidr_authorizer_mode"),
            (format!("{class} ENFORCE"), "cidr_authorizer.parameters: expected names and values"),
        ] {
            let error = format!("{:#}", options(&text).err().expect("an error"));
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_cache_size_is_accepted_with_a_warning() {
        let text = "cidr_authorizer:\n  class_name: CassandraCIDRAuthorizer\n  parameters:\n    ip_cache_max_size: 9\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.auth.without_effect(), ["cidr_authorizer.parameters.ip_cache_max_size"]);
    }
}
