//! Messages about addresses that are not available.

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
