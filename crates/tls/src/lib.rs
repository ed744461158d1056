//! TLS 1.2 and 1.3 of servers and clients, and the files with their keys and tokens.
//!
//! | type | content |
//! | --- | --- |
//! | [`Tls`] | encrypts the connections of a server, with files that can be replaced meanwhile |
//! | [`ClientTls`] | the certificates with which a client verifies servers, and its own |
//! | [`secret`] | files that only their owner may read, and bearer tokens |

mod client;
mod error;
mod files;
mod keystore;
mod options;
pub mod secret;
mod server;
mod socket;

#[cfg(feature = "ureq")]
pub use client::explain_ureq;
pub use client::{ClientTls, ClientTlsOptions, explain};
pub use error::TlsError;
pub use files::{Keystore, KeystorePassword, read_keystore, read_secret_key};
pub use options::{ClientCertificates, TlsOptions};
pub use server::Tls;
pub use socket::{Encryption, Socket};
pub use tokio_rustls::rustls;

#[cfg(test)]
mod tests;
