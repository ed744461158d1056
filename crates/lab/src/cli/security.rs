//! Arguments of logins and TLS, shared by the commands that connect to servers.

use std::path::PathBuf;

use clap::Args;

use crate::cql::ClientSecurity;

/// Logins and TLS of a client.
#[derive(Debug, Clone, Default, Args)]
pub struct SecurityArgs {
    /// User to log in as
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Password of the user; not included in the report. Other users may see it in the list of
    /// processes
    #[arg(long, value_name = "TEXT", requires = "user", conflicts_with = "password_file")]
    pub password: Option<String>,

    /// File with the password, which only its owner may read; without it and --password,
    /// CASSETTE_PASSWORD in the environment has it
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,

    /// Connect with TLS to a server whose certificate one in this file has signed
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// Certificate of the client, and its private key unless --tls-key names another file
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_certificate: Option<PathBuf>,

    /// File with the private key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
}

impl SecurityArgs {
    /// Returns the arguments for the client.
    pub fn client(&self) -> ClientSecurity<'_> {
        ClientSecurity {
            user: self.user.as_deref(),
            password: self.password.as_deref(),
            password_file: self.password_file.as_deref(),
            tls_ca: self.tls_ca.as_ref(),
            tls_certificate: self.tls_certificate.as_ref(),
            tls_key: self.tls_key.as_ref(),
        }
    }
}
