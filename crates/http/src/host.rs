//! The host that a request names. A web page can send requests to this machine under a name of its
//! domain (DNS rebinding); such a name is neither an address nor configured here.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header;

/// Returns the host that a request names, with its port.
///
/// # Errors
/// If it names none, or more than one: several Host headers, or another host in its URI.
pub fn sole_host(request: &Request) -> Result<&str, &'static str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let header = hosts.next();
    if hosts.next().is_some() {
        return Err("the request names more than one host");
    }
    let header = header.map(|host| host.to_str().map_err(|_| "the request names a host that is not ASCII"));
    match (header.transpose()?, request.uri().authority().map(|authority| authority.as_str())) {
        (None, None) => Err("the request names no host"),
        (None, Some(host)) | (Some(host), None) => Ok(host),
        (Some(host), Some(authority)) if host.eq_ignore_ascii_case(authority) => Ok(host),
        (Some(_), Some(_)) => Err("the request names more than one host"),
    }
}

/// Returns whether `host`, with or without a port, is an address, `localhost` or one of `names`.
/// The comparison ignores case and ports of `names`.
pub fn is_own<'a>(host: &str, names: impl IntoIterator<Item = &'a str>) -> bool {
    let Some(name) = without_port(host) else { return false };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || names
            .into_iter()
            .filter_map(without_port)
            .any(|own| !own.is_empty() && own.eq_ignore_ascii_case(name))
}

/// Returns the name in `NAME`, `NAME:PORT`, `[V6]` or `[V6]:PORT`; `None` if it is none of these.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']').filter(|(name, _)| name.contains(':'))?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (port.is_empty() || is_port(port)).then_some(name)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(uri: &str, hosts: &[&str]) -> Request {
        let request =
            hosts.iter().fold(Request::get(uri), |request, host| request.header(header::HOST, *host));
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_request_names_one_host() {
        assert_eq!(sole_host(&request("/", &["a.example:1"])), Ok("a.example:1"));
        assert_eq!(sole_host(&request("http://a.example/", &[])), Ok("a.example"));
        assert_eq!(sole_host(&request("http://a.example/", &["A.example"])), Ok("A.example"));
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &["localhost", "localhost"]),
            ("/", &["localhost", "rebound.example"]),
            ("http://rebound.example/", &["localhost"]),
            ("http://localhost/", &["rebound.example"]),
        ] {
            assert!(sole_host(&request(uri, hosts)).is_err(), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn addresses_localhost_and_configured_names_are_own() {
        let names = ["Lock.example:7250", "other.example", "10.0.0.1:1", ""];
        for host in [
            "127.0.0.1:7250",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7250",
            "[::1]",
            "lock.example",
            "OTHER.example:9",
        ] {
            assert!(is_own(host, names), "{host}");
        }
        for host in [
            "",
            ":80",
            "rebound.example:7250",
            "127.0.0.1.example",
            "127.0.0.1:port",
            "[::1].example",
            "[localhost]",
            "lock.example.rebound.example",
            "lock.example:7250:1",
            "::1",
        ] {
            assert!(!is_own(host, names), "{host}");
        }
    }
}
