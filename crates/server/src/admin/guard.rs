//! Rejects requests of foreign web pages.
//!
//! A browser runs foreign pages. By default every client that can connect has access, and with
//! passwords a browser adds them to the requests of every page. Foreign pages are kept out as
//! follows:
//!
//! 1. There is one `Host`, which agrees with the request line, and it must be an address or
//!    `localhost`. A foreign name that was made to resolve to this machine is rejected. Over TLS
//!    any name is accepted: the browser has checked that the certificate is for it.
//! 2. `Origin`, if present, must be this endpoint itself, and `Sec-Fetch-Site` must not name
//!    another site.
//! 3. Changes require a POST with a JSON content type: a page of another origin cannot send that
//!    without a preflight request, which is not answered.

use cassette_http::host::is_own;

/// The relevant parts of a request's head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    /// Its only host; see [`sole_host`](cassette_http::host::sole_host).
    pub host: &'a str,
    pub is_encrypted: bool,
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub changes_something: bool,
}

/// Returns the reason for a rejection; `None` if the request is permitted.
pub(super) fn refusal(head: &Head<'_>) -> Option<String> {
    let host = head.host;
    if !head.is_encrypted && !is_own(host, []) {
        return Some(format!("{host} is neither an address nor localhost"));
    }
    if let Some(origin) = head.origin
        && origin.strip_prefix(if head.is_encrypted { "https://" } else { "http://" }) != Some(host)
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Head<'static> = Head {
        host: "127.0.0.1:7199",
        is_encrypted: false,
        origin: None,
        fetch_site: None,
        content_type: None,
        changes_something: false,
    };

    fn refusal_at(host: &str, head: Head<'_>) -> Option<String> {
        refusal(&Head { host, ..head })
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
            ("db.example:7199", Head { is_encrypted: true, ..HERE }),
            ("db.example:7199", Head { is_encrypted: true, origin: Some("https://db.example:7199"), ..HERE }),
            (
                "127.0.0.1:7199",
                Head {
                    changes_something: true,
                    content_type: Some("application/json; charset=utf-8"),
                    ..HERE
                },
            ),
        ] {
            assert_eq!(refusal_at(host, head), None, "{head:?}");
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
            ("127.0.0.1:7199", Head { is_encrypted: true, origin: Some("http://127.0.0.1:7199"), ..HERE }),
            ("db.example", Head { is_encrypted: true, origin: Some("https://rebound.example"), ..HERE }),
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
            assert!(refusal_at(host, head).is_some(), "{head:?}");
        }
    }
}
