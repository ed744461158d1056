//! From arguments, environment and cqlshrc to a place that executes statements.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cassette_adopt::{ReadOnly, open_read_only};
use cassette_database::{Database, Options};
use cassette_protocol::Version;
use cassette_tls::{ClientTls, ClientTlsOptions};

use crate::arguments::CqlArguments;
use crate::commands::ask_password;
use crate::cqlshrc::{Cqlshrc, expand_home};
use crate::error::{Result, command};
use crate::link::{Credentials, Embedded, Endpoint, Remote};

const HOST: &str = "127.0.0.1";
const PORT: &str = "9042";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the options of a database in a directory, as the configuration file sets them.
pub type OptionsOf<'a> = &'a dyn Fn(&Path) -> std::result::Result<Options, String>;

/// A place that executes statements, and what its user should know about it.
pub struct Connected {
    /// The place.
    pub endpoint: Box<dyn Endpoint>,
    /// What is missing in a directory, or could be.
    pub warnings: Vec<String>,
    /// The database to close at the end.
    pub database: Option<Database>,
}

/// Opens the directories of `arguments`, or describes its server. `interrupt` cancels statements,
/// or ends waits for the server's responses.
///
/// # Errors
/// If a directory cannot be opened, or options are invalid.
pub fn connect(
    arguments: &CqlArguments,
    cqlshrc: &Cqlshrc,
    options: OptionsOf<'_>,
    interrupt: &Arc<AtomicBool>,
) -> Result<Connected> {
    if let Some(data) = &arguments.data {
        if !data.is_dir() {
            let text = format!("{}: expected the directory of a database, found none", data.display());
            return Err(command(text));
        }
        let options = options(data).map_err(command)?;
        cassette_adopt::refuse_foreign(&options.file_system, data)
            .map_err(|error| command(error.to_string()))?;
        let database = Database::open(options).map_err(|error| {
            let is_locked = error.to_string().contains("in use");
            let advice = if is_locked { ". Connect to its server: cassette cql HOST:PORT" } else { "" };
            command(format!("cannot open {}: {error}{advice}", data.display()))
        })?;
        return Ok(embedded(database, data.display().to_string(), Vec::new(), interrupt));
    }
    if let [first, ..] = arguments.read_only.as_slice() {
        let ReadOnly { database, warnings } =
            open_read_only(options(first).map_err(command)?, &arguments.read_only)
                .map_err(|error| command(format!("cannot open {}: {error}", first.display())))?;
        let places: Vec<String> = arguments.read_only.iter().map(|path| path.display().to_string()).collect();
        let place = format!("{} (read-only)", places.join(", "));
        return Ok(embedded(database, place, warnings, interrupt));
    }
    let endpoint = Box::new(remote(arguments, cqlshrc, interrupt)?);
    Ok(Connected { endpoint, warnings: Vec::new(), database: None })
}

fn embedded(
    database: Database,
    place: String,
    warnings: Vec<String>,
    interrupt: &Arc<AtomicBool>,
) -> Connected {
    let endpoint = Box::new(Embedded::new(database.clone(), place, interrupt.clone()));
    Connected { endpoint, warnings, database: Some(database) }
}

fn remote(arguments: &CqlArguments, cqlshrc: &Cqlshrc, interrupt: &Arc<AtomicBool>) -> Result<Remote> {
    let seconds = arguments.request_timeout.or_else(|| cqlshrc.number("connection", "request_timeout"));
    let version = arguments.protocol_version.or_else(|| cqlshrc.number("protocol", "version"));
    let versions = match version {
        None => vec![Version::V5, Version::V4, Version::V3],
        Some(number) => vec![Version::from_number(number).ok_or_else(|| {
            command(format!("invalid version of the protocol: expected 3, 4 or 5, found {number}"))
        })?],
    };
    let address = address(arguments, cqlshrc);
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
    Ok(Remote {
        credentials: credentials(arguments, cqlshrc)?,
        tls: tls(arguments, cqlshrc, &host)?,
        versions,
        request_timeout: seconds.map_or(REQUEST_TIMEOUT, Duration::from_secs),
        interrupt: interrupt.clone(),
        address,
    })
}

/// Returns `host:port`: of the arguments, the environment, cqlshrc, in this order.
fn address(arguments: &CqlArguments, cqlshrc: &Cqlshrc) -> String {
    let environment = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let option = |name| cqlshrc.get("connection", name).map(str::to_owned);
    let host = arguments.host.clone().or_else(|| environment("CQLSH_HOST")).or_else(|| option("hostname"));
    let host = host.unwrap_or_else(|| HOST.to_owned());
    let named = arguments.port.map(|port| port.to_string());
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
    });
    if has_port && named.is_none() {
        return host;
    }
    let port = named.or_else(|| environment("CQLSH_PORT")).or_else(|| option("port"));
    let port = port.unwrap_or_else(|| PORT.to_owned());
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Returns user and password: of the arguments, the credentials file, cqlshrc, in this order.
fn credentials(arguments: &CqlArguments, cqlshrc: &Cqlshrc) -> Result<Option<Credentials>> {
    let path = match &arguments.credentials {
        Some(path) => Some(path.clone()),
        None => cqlshrc.path("authentication", "credentials").or_else(|| {
            let default = expand_home("~/.cassandra/credentials");
            default.exists().then_some(default)
        }),
    };
    let file = match &path {
        Some(path) => credentials_file(path)?,
        None => Cqlshrc::default(),
    };
    let option = |name| {
        let of_file = file.get("plain_text_auth", name);
        of_file.or_else(|| cqlshrc.get("authentication", name)).map(str::to_owned)
    };
    let Some(user) = arguments.username.clone().or_else(|| option("username")) else { return Ok(None) };
    let environment = std::env::var("CASSETTE_PASSWORD").ok();
    let of_file = option("password")
        .filter(|_| arguments.username.is_none() || option("username").as_ref() == Some(&user));
    let password = match arguments.password.clone().or(of_file).or(environment) {
        Some(password) => password,
        None => ask_password()?,
    };
    Ok(Some((user, password)))
}

/// Reads a file that only its owner may read.
fn credentials_file(path: &Path) -> Result<Cqlshrc> {
    if let Ok(metadata) = path.metadata() {
        let is_owner =
            rustix::process::getuid().is_root() || metadata.uid() == rustix::process::getuid().as_raw();
        if !is_owner || metadata.mode() & 0o044 != 0 {
            return Err(command(format!(
                "the credentials file {} is not used: expected a file of this user that others cannot read; \
                 chmod 600 {0}",
                path.display()
            )));
        }
    }
    Cqlshrc::read(path)
}

/// Reads the certificates, if TLS is wanted.
fn tls(arguments: &CqlArguments, cqlshrc: &Cqlshrc, host: &str) -> Result<Option<ClientTls>> {
    let wanted =
        arguments.ssl || arguments.tls_ca.is_some() || cqlshrc.flag("connection", "ssl") == Some(true);
    if !wanted {
        return Ok(None);
    }
    let environment = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let validate = environment("SSL_VALIDATE").or_else(|| cqlshrc.get("ssl", "validate").map(str::to_owned));
    if validate.is_some_and(|validate| validate.eq_ignore_ascii_case("false")) {
        return Err(command(
            "TLS without validation is not supported: remove `validate = false`, and name the \
                            certificate of the server's authority with --tls-ca",
        ));
    }
    let authorities = arguments
        .tls_ca
        .clone()
        .or_else(|| environment("SSL_CERTFILE").map(|path| expand_home(&path)))
        .or_else(|| cqlshrc.path("certfiles", host))
        .or_else(|| cqlshrc.path("ssl", "certfile"));
    let authorities = authorities.ok_or_else(|| {
        command(
            "TLS needs the certificate of the server's authority: --tls-ca FILE, SSL_CERTFILE, or `certfile` \
                 in [ssl] of cqlshrc",
        )
    })?;
    let certificate = arguments.tls_certificate.clone().or_else(|| cqlshrc.path("ssl", "usercert"));
    let private_key = arguments.tls_key.clone().or_else(|| cqlshrc.path("ssl", "userkey"));
    let options = ClientTlsOptions { authorities, certificate, private_key };
    ClientTls::new(&options).map(Some).map_err(|error| command(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> CqlArguments {
        use clap::{Args, FromArgMatches};
        let command = CqlArguments::augment_args(clap::Command::new("cql").no_binary_name(true));
        CqlArguments::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn addresses_are_those_of_arguments_before_those_of_cqlshrc() {
        let file = Cqlshrc::parse("[connection]\nhostname = db\nport = 9043\n");
        for (words, of_file, of_none) in [
            (&[][..], "db:9043", "127.0.0.1:9042"),
            (&["a"], "a:9043", "a:9042"),
            (&["a:1"], "a:1", "a:1"),
            (&["a", "2"], "a:2", "a:2"),
            (&["::1"], "[::1]:9043", "[::1]:9042"),
            (&["[::1]:5"], "[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(address(&arguments(words), &file), of_file, "{words:?}");
            assert_eq!(address(&arguments(words), &Cqlshrc::default()), of_none, "{words:?}");
        }
    }

    #[test]
    fn credentials_come_from_a_file_that_others_cannot_read() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        std::fs::write(&path, "[plain_text_auth]\nusername = ada\npassword = a%b\n").unwrap();
        let path_text = path.to_str().unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let read = |words: &[&str]| credentials(&arguments(words), &Cqlshrc::default());
        let error = read(&["--credentials", path_text]).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let found = read(&["--credentials", path_text]).unwrap();
        assert_eq!(found, Some(("ada".to_owned(), "a%b".to_owned())));
        let named = read(&["--credentials", path_text, "-u", "bob", "-p", "x"]).unwrap();
        assert_eq!(named, Some(("bob".to_owned(), "x".to_owned())));
    }

    #[test]
    fn tls_needs_authorities_and_validates() {
        let none = Cqlshrc::default();
        let error = tls(&arguments(&["--ssl"]), &none, "h").err().unwrap().to_string();
        assert!(error.contains("--tls-ca"), "{error}");
        let file = Cqlshrc::parse("[connection]\nssl = true\n[ssl]\nvalidate = false\n");
        let error = tls(&arguments(&[]), &file, "h").err().unwrap().to_string();
        assert!(error.contains("not supported"), "{error}");
        assert!(tls(&arguments(&[]), &none, "h").unwrap().is_none());
    }
}
