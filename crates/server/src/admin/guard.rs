//! Who may ask: not a web page of somebody else.
//!
//! The endpoint has no passwords; whoever can connect may ask, and by default only this machine can. A browser on it
//! runs pages of strangers, though. What keeps them out:
//!
//! 1. There is one `Host`, which the request line does not contradict, and it must be an address or `localhost`. A stranger's name that was made to resolve to this machine is refused.
//! 2. `Origin`, where there is one, must be this endpoint itself, and `Sec-Fetch-Site` must not say that it is another site.
//! 3. What changes something is a POST with a JSON content type: a page of another origin cannot send that without
//!    asking first, and it is not answered when it asks.

use std::net::IpAddr;

/// What of a request's head decides.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head<'a> {
    /// The values of all Host headers.
    pub hosts: &'a [String],
    /// The host in the request line, where that is a whole URI.
    pub authority: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub changes_something: bool,
}

/// Why a request is refused; `None` if it is not.
pub(super) fn refusal(head: &Head<'_>) -> Option<String> {
    let host = match (head.hosts, head.authority) {
        ([], None) => return Some("the request names no host".to_owned()),
        ([], Some(host)) => host,
        ([host], None) => host,
        ([host], Some(authority)) if host == authority => host,
        _ => return Some("the request names more than one host".to_owned()),
    };
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
        hosts: &[],
        authority: None,
        origin: None,
        fetch_site: None,
        content_type: None,
        changes_something: false,
    };

    fn refusal_at(hosts: &[&str], head: Head<'_>) -> Option<String> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        refusal(&Head { hosts: &hosts, ..head })
    }

    #[test]
    fn a_request_names_one_host() {
        const LOCAL: &str = "127.0.0.1:7199";
        let at = |authority| Head { authority: Some(authority), ..HERE };
        assert_eq!(refusal_at(&[LOCAL], at(LOCAL)), None);
        assert_eq!(refusal_at(&[], at(LOCAL)), None);
        assert!(refusal_at(&[], HERE).is_some());
        assert!(refusal_at(&[LOCAL, "rebound.example:7199"], HERE).is_some());
        assert!(refusal_at(&[LOCAL, LOCAL], HERE).is_some());
        assert!(refusal_at(&[LOCAL], at("rebound.example:7199")).is_some());
        assert!(refusal_at(&[], at("rebound.example:7199")).is_some());
    }

    #[test]
    fn tools_and_the_endpoints_own_page_may_ask() {
        for (host, head) in [
            ("127.0.0.1:7199", HERE),
            ("localhost:7199", Head { origin: Some("http://localhost:7199"), ..HERE }),
            ("[::1]:7199", HERE),
            ("127.0.0.1:7199", Head { fetch_site: Some("none"), ..HERE }),
            (
                "127.0.0.1:7199",
                Head { fetch_site: Some("same-origin"), origin: Some("http://127.0.0.1:7199"), ..HERE },
            ),
            (
                "127.0.0.1:7199",
                Head {
                    changes_something: true,
                    content_type: Some("application/json; charset=utf-8"),
                    ..HERE
                },
            ),
        ] {
            assert_eq!(refusal_at(&[host], head), None, "{head:?}");
        }
    }

    #[test]
    fn pages_of_others_may_not() {
        for (host, head) in [
            ("rebound.example:7199", HERE),
            ("127.0.0.1.example", HERE),
            ("127.0.0.1:port", HERE),
            ("[::1].example", HERE),
            ("127.0.0.1:7199", Head { origin: Some("http://example.org"), ..HERE }),
            ("127.0.0.1:7199", Head { origin: Some("http://127.0.0.1:8080"), ..HERE }),
            ("127.0.0.1:7199", Head { origin: Some("https://127.0.0.1:7199"), ..HERE }),
            ("127.0.0.1:7199", Head { origin: Some("null"), ..HERE }),
            ("127.0.0.1:7199", Head { fetch_site: Some("cross-site"), ..HERE }),
            ("127.0.0.1:7199", Head { fetch_site: Some("same-site"), ..HERE }),
            ("127.0.0.1:7199", Head { changes_something: true, ..HERE }),
            ("127.0.0.1:7199", Head { changes_something: true, content_type: Some("text/plain"), ..HERE }),
            (
                "127.0.0.1:7199",
                Head {
                    changes_something: true,
                    content_type: Some("application/x-www-form-urlencoded"),
                    ..HERE
                },
            ),
        ] {
            assert!(refusal_at(&[host], head).is_some(), "{head:?}");
        }
    }
}
