//! How a command connects and what it proves its identity with.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cassette_tls::secret::{self, Token};
use cassette_tls::{ClientTls, ClientTlsOptions};

use super::arguments::Invocation;
use super::{Failure, Result};

/// The environment variable with the password.
const PASSWORD_VARIABLE: &str = "CASSETTE_PASSWORD";

/// TLS and credentials of a client.
pub(super) struct Connection {
    /// The value of the header `Authorization`.
    pub authorization: Option<String>,
    pub tls: Option<ClientTls>,
    /// The path of the Unix socket, to which host and port do not apply.
    pub socket: Option<PathBuf>,
}

impl Connection {
    /// Reads the files that options name.
    pub fn of(invocation: &Invocation) -> Result<Self> {
        let socket = invocation.option("--socket").or_else(|| invocation.host.strip_prefix("unix:"));
        let (authorization, tls) = (authorization(invocation)?, tls(invocation)?);
        if socket.is_some() && tls.is_some() {
            return Err(Failure::usage("expected either a Unix socket or --tls-ca, found both"));
        }
        Ok(Self { authorization, tls, socket: socket.map(PathBuf::from) })
    }
}

fn authorization(invocation: &Invocation) -> Result<Option<String>> {
    let token = invocation.option("--token-file");
    match (token, invocation.option("--username")) {
        (Some(_), Some(_)) => Err(Failure::usage("expected either --username or --token-file, found both")),
        (Some(path), None) => Ok(Some(Token::read(Path::new(path)).map_err(unreadable)?.header())),
        (None, Some(username)) => {
            if username.contains(':') {
                return Err(Failure::usage("expected a user name without a colon"));
            }
            let password = password(invocation, username)?;
            Ok(Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))))
        }
        (None, None) if invocation.option("--password").is_some() => {
            Err(Failure::usage("--password requires --username"))
        }
        (None, None) if invocation.option("--password-file").is_some() => {
            Err(Failure::usage("--password-file requires --username"))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the password of a user: of the file, of the command line, or of the environment.
fn password(invocation: &Invocation, username: &str) -> Result<String> {
    if let Some(path) = invocation.option("--password-file") {
        let text = secret::read(Path::new(path)).map_err(unreadable)?;
        return password_in(&text, username).map(str::to_owned).ok_or_else(|| {
            Failure::usage(format!("{path}: expected a line with {username} and a password"))
        });
    }
    let password = invocation.option("--password").map(str::to_owned);
    password
        .or_else(|| std::env::var(PASSWORD_VARIABLE).ok())
        .filter(|password| !password.is_empty())
        .ok_or_else(|| {
            Failure::usage(format!(
                "expected a password for {username}: --password-file, --password or {PASSWORD_VARIABLE}"
            ))
        })
}

/// Returns the password of a user in a file of Cassandra's nodetool: lines of a name and a
/// password.
fn password_in<'a>(text: &'a str, username: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(username)).then(|| words.next()).flatten()
    })
}

fn tls(invocation: &Invocation) -> Result<Option<ClientTls>> {
    let path = |name| invocation.option(name).map(Into::into);
    let Some(authorities) = path("--tls-ca") else {
        let alone = ["--ssl", "--tls-certificate", "--tls-key"].into_iter().find(|name| invocation.has(name));
        return match alone {
            Some(name) => {
                Err(Failure::usage(format!("{name} requires --tls-ca: the certificate of the authority")))
            }
            None => Ok(None),
        };
    };
    let options = ClientTlsOptions {
        authorities,
        certificate: path("--tls-certificate"),
        private_key: path("--tls-key"),
    };
    ClientTls::new(&options).map(Some).map_err(unreadable)
}

fn unreadable(error: cassette_tls::TlsError) -> Failure {
    Failure::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::nodetool::arguments::{Parsed, parse};

    fn connection(line: &str) -> Result<Connection> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&words)? {
            Parsed::Run(invocation) => Connection::of(&invocation),
            Parsed::Help(_) => panic!("{line}: help"),
        }
    }

    fn error(line: &str) -> String {
        match connection(line) {
            Err(Failure::Usage(message)) => message,
            Err(other) => panic!("{line}: {other:?}"),
            Ok(_) => panic!("{line}: accepted"),
        }
    }

    #[test]
    fn a_file_of_passwords_has_a_name_and_a_password_in_a_line() {
        let text = "monitor  read me\n  control\twrite\nempty\nmonitor other\n";
        assert_eq!(password_in(text, "monitor"), Some("read"));
        assert_eq!(password_in(text, "control"), Some("write"));
        assert_eq!(password_in(text, "empty"), None);
        assert_eq!(password_in(text, "read"), None);
    }

    #[test]
    fn credentials_come_from_the_command_line_or_a_file_that_only_its_owner_can_read() {
        let basic = connection("-u me -pw secret status").unwrap().authorization;
        assert_eq!(basic.as_deref(), Some("Basic bWU6c2VjcmV0"));
        assert!(connection("status").unwrap().authorization.is_none());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "me secret\n").unwrap();
        let line = format!("-u me -pwf {} status", file.path().display());
        assert_eq!(connection(&line).unwrap().authorization, basic);
        assert!(error(&line.replace("-u me", "-u you")).contains("expected a line with you"));
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(error(&line).contains("chmod 600"));
        assert!(error("-u me -pwf /nonexistent/file status").starts_with("cannot read /nonexistent/file"));
    }

    #[test]
    fn options_without_those_that_they_need_are_refused() {
        for (line, expected) in [
            ("-pw secret status", "--password requires --username"),
            ("-pwf file status", "--password-file requires --username"),
            ("-u a:b -pw secret status", "without a colon"),
            ("-u me --token-file file status", "found both"),
            ("--ssl status", "--ssl requires --tls-ca"),
            ("--socket admin.sock --tls-ca Cargo.toml status", "expected certificates in PEM"),
            ("--tls-certificate file status", "--tls-certificate requires --tls-ca"),
            ("--tls-ca /nonexistent/ca.pem status", "cannot read /nonexistent/ca.pem"),
        ] {
            let error = error(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
