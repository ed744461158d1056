//! The default superuser of a server with passwords.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};
use cassette_database::{DEFAULT_SUPERUSER, Database, Superuser};

/// Creates the default superuser if the database has no roles, with the password of a file if there
/// is one. Without passwords, does nothing.
///
/// # Errors
/// If the superuser has the default password and other machines can reach one of `addresses`,
/// unless that `is_allowed`; if the file cannot be used.
pub fn set_up(
    database: &Database,
    password_file: Option<&Path>,
    addresses: impl IntoIterator<Item = SocketAddr>,
    is_allowed: bool,
) -> anyhow::Result<()> {
    if !database.auth_settings().passwords {
        if password_file.is_some() {
            bail!("--superuser-password-file requires --authenticator PasswordAuthenticator");
        }
        return Ok(());
    }
    let password = password_file.map(read_password).transpose()?;
    let exposed = addresses.into_iter().find(|address| !address.ip().is_loopback());
    match database.set_up_superuser(password.as_deref()).context("cannot set up the superuser")? {
        Superuser::Changed if password.is_some() => tracing::info!(
            "{DEFAULT_SUPERUSER} does not have the default password any more: \
             --superuser-password-file has no effect"
        ),
        Superuser::Changed => {}
        Superuser::PasswordWasSet => {
            tracing::info!("{DEFAULT_SUPERUSER} now has the password of --superuser-password-file");
        }
        Superuser::HasDefaultPassword => match exposed {
            Some(address) if !is_allowed => bail!(
                "the superuser {DEFAULT_SUPERUSER} has the default password, and {address} can be \
                 reached by other machines: set a password with --superuser-password-file, or on a \
                 loopback address with ALTER ROLE {DEFAULT_SUPERUSER} WITH PASSWORD, or add \
                 --allow-default-password"
            ),
            _ => tracing::warn!(
                "the superuser {DEFAULT_SUPERUSER} has the default password: change it with \
                 ALTER ROLE {DEFAULT_SUPERUSER} WITH PASSWORD"
            ),
        },
    }
    Ok(())
}

/// Reads a password without its line end.
fn read_password(path: &Path) -> anyhow::Result<String> {
    /// Longer files hold something else. bcrypt uses 72 bytes.
    const LENGTH_MAX: u64 = 1024;
    let read = || -> anyhow::Result<String> {
        let mut text = String::new();
        // Not by the length of the file: a pipe has none.
        File::open(path)?.take(LENGTH_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > LENGTH_MAX {
            bail!("expected at most {LENGTH_MAX} bytes, found more");
        }
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() || password.contains(['\0', '\n']) {
            bail!("expected one line with a password");
        }
        Ok(password.to_owned())
    };
    read().with_context(|| format!("cannot read the password in {}", path.display()))
}

#[cfg(test)]
mod tests {
    use cassette_database::{AuthSettings, Login, Options};

    use super::*;

    fn database() -> Database {
        let auth = AuthSettings { passwords: true, ..AuthSettings::default() };
        Database::open(Options { auth, ..Options::in_memory() }).unwrap()
    }

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn the_default_password_is_served_on_loopback_only_unless_allowed() {
        let (near, far) = ("127.0.0.1:1".parse().unwrap(), "0.0.0.0:1".parse().unwrap());
        let database = database();
        set_up(&database, None, [near], false).unwrap();
        let error = set_up(&database, None, [far], false).unwrap_err().to_string();
        assert!(error.contains("has the default password"), "{error}");
        set_up(&database, None, [far], true).unwrap();
        let password = file("geheim\n");
        set_up(&database, Some(password.path()), [far], false).unwrap();
        assert_eq!(database.log_in(DEFAULT_SUPERUSER, "geheim").unwrap(), Login::Accepted);
        set_up(&database, None, [far], false).unwrap();
    }

    #[test]
    fn files_that_hold_no_password_are_refused() {
        let address = "127.0.0.1:1".parse().unwrap();
        for content in ["", "\n", "two\nlines\n", &"x".repeat(2000)] {
            let file = file(content);
            assert!(set_up(&database(), Some(file.path()), [address], false).is_err(), "{content}");
        }
        let without = Database::in_memory().unwrap();
        let password = file("geheim");
        let error = set_up(&without, Some(password.path()), [address], false).unwrap_err().to_string();
        assert!(error.contains("requires --authenticator PasswordAuthenticator"), "{error}");
    }
}
