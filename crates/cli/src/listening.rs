//! Messages about addresses that are not available, or that others can reach.

use std::io;
use std::net::SocketAddr;

/// Describes why nothing can listen on `address`, and what to do about it.
pub fn cannot_listen(address: SocketAddr, option: &str, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                ". Another process uses this port: choose another with {option}; port 0 selects a free one"
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            format!(". No network interface has this address: choose another with {option}")
        }
        _ => String::new(),
    };
    format!("cannot listen on {address}{remedy}")
}

/// Warns if other machines can reach `what`: there are no passwords.
pub fn warn_of_exposure(what: &str, address: SocketAddr) {
    if !address.ip().is_loopback() {
        tracing::warn!(
            "{what} listens on {address} without authentication: every client that can connect has full access"
        );
    }
}

/// Warns if other machines can reach `what`: passwords and data are not encrypted.
pub fn warn_of_plain_text(what: &str, address: SocketAddr) {
    if !address.ip().is_loopback() {
        tracing::warn!(
            "{what} listens on {address} without TLS: passwords and data can be read on the network"
        );
    }
}
