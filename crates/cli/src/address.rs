//! Addresses to listen on and to connect to, as users write them.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Parses an address to listen on: `HOST:PORT`, where the host is an IP address or a name, or a
/// port alone, which means loopback. Of the addresses of a name, IPv4 ones are preferred: they are
/// what clients try first.
///
/// # Errors
/// If it is none of these, or the name cannot be resolved.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let is_named = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && !host.contains(':') && port.parse::<u16>().is_ok());
    if !is_named {
        return Err("expected HOST:PORT, such as 127.0.0.1:9042, or a port".to_owned());
    }
    let addresses: Vec<_> =
        text.to_socket_addrs().map_err(|error| format!("cannot resolve the host: {error}"))?.collect();
    let preferred = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    preferred.copied().ok_or_else(|| "the host has no address".to_owned())
}

/// Returns the address of a server to connect to, with CQL's default port unless it has one.
pub fn with_cql_port(contact: &str) -> String {
    match contact.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => contact.to_owned(),
        _ => format!("{contact}:9042"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_addresses_are_understood() {
        for (text, address) in [
            ("127.0.0.2:9042", "127.0.0.2:9042"),
            ("[::1]:9042", "[::1]:9042"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("9604", "127.0.0.1:9604"),
            ("localhost:9604", "127.0.0.1:9604"),
        ] {
            assert_eq!(
                listen_address(text).map(|address| address.to_string()),
                Ok(address.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn contacts_have_the_default_port() {
        let contacts = ["db", "db:1", "10.0.0.1:9042", "[::1]:9042"].map(with_cql_port);
        assert_eq!(contacts, ["db:9042", "db:1", "10.0.0.1:9042", "[::1]:9042"]);
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in ["", "localhost", ":9042", "localhost:", "localhost:99999", "::1:9042", "99999", "a b"] {
            let error = listen_address(text).unwrap_err();
            assert!(error.contains("such as 127.0.0.1:9042"), "{text}: {error}");
        }
        let error = listen_address("no-such-host.invalid:9042").unwrap_err();
        assert!(error.starts_with("cannot resolve the host: "), "{error}");
    }
}
