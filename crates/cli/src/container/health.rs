//! The health check of the image: whether the server answers, without a password.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

/// How long each step may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// OPTIONS of protocol 4 without a body, which a server answers before a login.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

/// The version of a response of protocol 4, and the opcode SUPPORTED.
const RESPONSE: u8 = 0x84;
const SUPPORTED: u8 = 6;

/// The type of a TLS record with an alert, from a server that accepts encrypted connections alone.
const TLS_ALERT: u8 = 21;

/// Checks that a server that listens on `address` answers a request.
///
/// # Errors
/// If it does not, or with something else than CQL or TLS.
pub fn check(address: SocketAddr) -> anyhow::Result<()> {
    let address = reachable(address);
    let exchange = || -> std::io::Result<(u8, u8)> {
        let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        connection.set_write_timeout(Some(TIMEOUT))?;
        connection.write_all(&OPTIONS)?;
        let mut header = [0; 5];
        connection.read_exact(&mut header)?;
        Ok((header[0], header[4]))
    };
    match exchange().with_context(|| format!("no answer from {address}"))? {
        (RESPONSE, SUPPORTED) | (TLS_ALERT, _) => Ok(()),
        (version, opcode) => bail!("unexpected answer from {address}: version {version}, opcode {opcode}"),
    }
}

/// Returns an address of this machine for one to listen on, which can be all.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let loopback = match listen.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    if listen.ip().is_unspecified() { SocketAddr::new(loopback, listen.port()) } else { listen }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The outcome of a check of a server that answers with `answer`, and closes the connection.
    fn outcome(answer: &'static [u8]) -> anyhow::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; OPTIONS.len()];
            connection.read_exact(&mut request).unwrap();
            assert_eq!(request, OPTIONS);
            connection.write_all(answer).unwrap();
        });
        let outcome = check(address);
        server.join().unwrap();
        outcome
    }

    #[test]
    fn a_server_is_healthy_if_it_answers_with_or_without_tls() {
        outcome(&[0x84, 0, 0, 0, 6, 0, 0, 0, 0]).unwrap();
        outcome(&[21, 3, 3, 0, 2, 2, 70]).unwrap();
    }

    #[test]
    fn a_server_that_does_not_answer_or_speaks_something_else_is_not_healthy() {
        assert!(outcome(&[]).unwrap_err().to_string().contains("no answer"));
        assert!(outcome(b"HTTP/1.1 400").unwrap_err().to_string().contains("unexpected answer"));
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        assert!(check(closed).is_err());
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_by_loopback() {
        let checked = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(
            ["0.0.0.0:9042", "[::]:1", "10.0.0.1:9042"].map(checked),
            ["127.0.0.1:9042", "[::1]:1", "10.0.0.1:9042"]
        );
    }
}
