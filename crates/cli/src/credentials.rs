//! Passwords, tokens and certificates of clients of clusters and timelock servers.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cassette_transactions::timelock::{ClientTls, ClientTlsOptions, Token};

/// Returns the content of a password file.
pub fn password_in(path: &Path) -> anyhow::Result<String> {
    let password = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the password in {}", path.display()))?;
    Ok(password.trim_end_matches(['\n', '\r']).to_owned())
}

/// Returns the password in the environment.
pub fn password_of_environment(user: &str) -> anyhow::Result<String> {
    const VARIABLE: &str = "CASSETTE_PASSWORD";
    let password = std::env::var(VARIABLE).ok().filter(|password| !password.is_empty());
    password.with_context(|| {
        format!("user {user} has a password: --password-file, or {VARIABLE} in the environment")
    })
}

/// Reads the token of timelock servers.
pub fn token(path: Option<&Path>) -> anyhow::Result<Option<Token>> {
    path.map(Token::read).transpose().context("cannot read the token")
}

/// Reads the certificates of a client.
pub fn client_tls(
    authorities: Option<&PathBuf>,
    certificate: Option<&PathBuf>,
    key: Option<&PathBuf>,
) -> anyhow::Result<Option<ClientTls>> {
    let Some(authorities) = authorities.cloned() else { return Ok(None) };
    let options =
        ClientTlsOptions { authorities, certificate: certificate.cloned(), private_key: key.cloned() };
    Ok(Some(ClientTls::new(&options)?))
}
