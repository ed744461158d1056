//! What a client presents to servers, and how it verifies them.

use std::path::{Path, PathBuf};

use cassette_tls::secret::password;
use cassette_tls::{ClientTls, ClientTlsOptions};

use crate::LabError;

/// Environment variable with the password.
const VARIABLE: &str = "CASSETTE_PASSWORD";

/// The user, and the files with secrets and certificates.
#[derive(Clone, Copy, Default)]
pub struct ClientSecurity<'a> {
    /// User to log in as.
    pub user: Option<&'a str>,
    /// Password on the command line.
    pub password: Option<&'a str>,
    /// File with the password; without it and `password`, the environment has it.
    pub password_file: Option<&'a Path>,
    /// Certificates of the authorities that sign those of servers. `None`: without TLS.
    pub tls_ca: Option<&'a PathBuf>,
    /// Certificate of the client.
    pub tls_certificate: Option<&'a PathBuf>,
    /// Private key, if the file of the certificate does not have it.
    pub tls_key: Option<&'a PathBuf>,
}

impl ClientSecurity<'_> {
    /// Returns user and password; `None` without a user.
    ///
    /// # Errors
    /// If the user has no password, or its file is invalid or readable by other users.
    pub fn credentials(&self) -> Result<Option<(String, String)>, LabError> {
        let Some(user) = self.user else { return Ok(None) };
        let password = match self.password {
            Some(password) => Some(password.to_owned()),
            None => password(self.password_file, VARIABLE).map_err(usage)?,
        };
        let missing =
            || LabError::Usage(format!("user {user} has a password: a password file or {VARIABLE}"));
        Ok(Some((user.to_owned(), password.ok_or_else(missing)?)))
    }

    /// Reads the certificates; `None` without authorities.
    ///
    /// # Errors
    /// If a file is unreadable or invalid.
    pub fn tls(&self) -> Result<Option<ClientTls>, LabError> {
        let Some(authorities) = self.tls_ca.cloned() else { return Ok(None) };
        let (certificate, private_key) = (self.tls_certificate.cloned(), self.tls_key.cloned());
        ClientTls::new(&ClientTlsOptions { authorities, certificate, private_key }).map(Some).map_err(usage)
    }
}

fn usage(error: impl std::fmt::Display) -> LabError {
    LabError::Usage(error.to_string())
}
