//! Who may ask: not a web page of somebody else.
//!
//! The endpoint has no passwords; whoever can connect may ask, and by default only this machine can. A browser on it
//! runs pages of strangers, though. What keeps them out:
//!
//! 1. `Host` must be an address or `localhost`. A stranger's name that was made to resolve to this machine is refused.
//! 2. `Origin`, where there is one, must be this endpoint itself, and `Sec-Fetch-Site` must not say that it is another site.
//! 3. What changes something is a POST with a JSON content type: a page of another origin cannot send that without
//!    asking first, and it is not answered when it asks.

use std::net::IpAddr;

/// What of a request's head decides.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head<'a> {
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub changes_something: bool,
}

/// Why a request is refused; `None` if it is not.
pub(super) fn refusal(head: &Head<'_>) -> Option<String> {
    let Some(host) = head.host else { return Some("the request names no host".to_owned()) };
    if !is_own_name(host) {
        return Some(format!("{host} is neither an address nor localhost"));
    }
    if let Some(origin) = head.origin
        && origin.strip_prefix("http://") != Some(host)
    {
        return Some(format!("a page of {origin} may not ask {host}"));
    }
    if let Some(site) = head.fetch_site
        && !matches!(site, "same-origin" | "none")
    {
        return Some(format!("a {site} page may not ask"));
    }
    let is_json = head.content_type.is_some_and(|content_type| {
        content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    });
    if head.changes_something && !is_json {
        return Some("what changes something comes as application/json".to_owned());
    }
    None
}

/// Whether `host`, with or without a port, is an address or `localhost`.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => match v6.split_once(']') {
            Some((name, rest)) if rest.is_empty() || is_port(rest) => name,
            _ => return false,
        },
        None => match host.find(':') {
            Some(at) if is_port(&host[at..]) => &host[..at],
            Some(_) => return false,
            None => host,
        },
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Head<'static> = Head {
        host: Some("127.0.0.1:7199"),
        origin: None,
        fetch_site: None,
        content_type: None,
        changes_something: false,
    };

    #[test]
    fn tools_and_the_endpoints_own_page_may_ask() {
        for head in [
            HERE,
            Head { host: Some("localhost:7199"), origin: Some("http://localhost:7199"), ..HERE },
            Head { host: Some("[::1]:7199"), ..HERE },
            Head { fetch_site: Some("none"), ..HERE },
            Head { fetch_site: Some("same-origin"), origin: Some("http://127.0.0.1:7199"), ..HERE },
            Head { changes_something: true, content_type: Some("application/json; charset=utf-8"), ..HERE },
        ] {
            assert_eq!(refusal(&head), None, "{head:?}");
        }
    }

    #[test]
    fn pages_of_others_may_not() {
        for head in [
            Head { host: None, ..HERE },
            Head { host: Some("rebound.example:7199"), ..HERE },
            Head { host: Some("127.0.0.1.example"), ..HERE },
            Head { host: Some("127.0.0.1:port"), ..HERE },
            Head { host: Some("[::1].example"), ..HERE },
            Head { origin: Some("http://example.org"), ..HERE },
            Head { origin: Some("http://127.0.0.1:8080"), ..HERE },
            Head { origin: Some("https://127.0.0.1:7199"), ..HERE },
            Head { origin: Some("null"), ..HERE },
            Head { fetch_site: Some("cross-site"), ..HERE },
            Head { fetch_site: Some("same-site"), ..HERE },
            Head { changes_something: true, ..HERE },
            Head { changes_something: true, content_type: Some("text/plain"), ..HERE },
            Head { changes_something: true, content_type: Some("application/x-www-form-urlencoded"), ..HERE },
        ] {
            assert!(refusal(&head).is_some(), "{head:?}");
        }
    }
}
