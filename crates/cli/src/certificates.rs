//! `cassette certificates`: a certificate authority for development, and certificates that it
//! signs.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::config::encryption_options;

const EXAMPLES: &str = "\
Examples:
  Certificates for clients on this machine, in ./certificates:
    cassette certificates certificates

  For a server that clients reach by other names:
    cassette certificates certificates --name db.example.com --name 192.0.2.7

  For a client that logs in with its certificate:
    cassette certificates certificates --client-uri spiffe://example.com/app

The files are for development and tests: everyone who can read ca-key.pem can sign certificates.

For production, use those of your own authority in the same form.";

/// The validity of the certificates, from the start of this year.
const VALID_YEARS: i32 = 10;

const SECONDS_A_YEAR: u64 = 31_556_952;

/// Arguments of `cassette certificates`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CertificatesArguments {
    /// The directory for the files; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// A host name or address of the server; can be repeated [default: localhost, 127.0.0.1, ::1]
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,

    /// The name in the client's certificate
    #[arg(long, value_name = "NAME", default_value = "client")]
    client: String,

    /// A URI in the client's certificate, as MutualTlsAuthenticator needs it:
    /// spiffe://DOMAIN/PATH; can be repeated
    #[arg(long = "client-uri", value_name = "URI")]
    client_uris: Vec<String>,
}

/// Creates the files, and prints how to use them.
pub fn run(arguments: &CertificatesArguments) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.with_context(|| format!("cannot create {}", directory.display()))?;
    let directory = directory.canonicalize()?;
    for (name, content) in files(arguments)? {
        write_new(&directory.join(name), &content)?;
    }
    print!("{}", instructions(&directory));
    Ok(())
}

/// Returns the names and contents of the files.
fn files(arguments: &CertificatesArguments) -> anyhow::Result<[(&'static str, String); 4]> {
    let authority_key = KeyPair::generate()?;
    let mut authority = parameters("Cassette development authority", &[])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_certificate = authority.self_signed(&authority_key)?.pem();
    let authority_key_pem = authority_key.serialize_pem();
    let issuer = Issuer::new(authority, authority_key);

    let signed = |mut parameters: CertificateParams, purpose| -> anyhow::Result<String> {
        let key = KeyPair::generate()?;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![purpose];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, &issuer)?;
        Ok(key.serialize_pem() + &certificate.pem())
    };
    let defaults = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let hosts = if arguments.names.is_empty() { &defaults[..] } else { &arguments.names };
    let server = parameters(&hosts[0], hosts)?;
    let mut client = parameters(&arguments.client, &[])?;
    for uri in &arguments.client_uris {
        let name = uri.as_str().try_into().ok().filter(|_| uri.bytes().all(|byte| byte.is_ascii_graphic()));
        let name = name.with_context(|| format!("expected a URI in ASCII, found {uri}"))?;
        client.subject_alt_names.push(SanType::URI(name));
    }
    Ok([
        ("server.pem", signed(server, ExtendedKeyUsagePurpose::ServerAuth)?),
        ("client.pem", signed(client, ExtendedKeyUsagePurpose::ClientAuth)?),
        ("ca-key.pem", authority_key_pem),
        ("ca.pem", authority_certificate),
    ])
}

fn parameters(name: &str, hosts: &[String]) -> anyhow::Result<CertificateParams> {
    let mut parameters = CertificateParams::new(hosts)
        .with_context(|| format!("expected host names or addresses, found {}", hosts.join(", ")))?;
    parameters.distinguished_name.push(DnType::CommonName, name);
    let year = this_year();
    (parameters.not_before, parameters.not_after) =
        (date_time_ymd(year, 1, 1), date_time_ymd(year + VALID_YEARS, 1, 1));
    Ok(parameters)
}

fn this_year() -> i32 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    1970 + i32::try_from(since_1970.as_secs() / SECONDS_A_YEAR).unwrap_or(0)
}

/// Writes a file that only its owner can read. Fails if it exists: others may rely on its keys.
fn write_new(path: &Path, content: &str) -> anyhow::Result<()> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot create {}", path.display()))
}

fn instructions(directory: &Path) -> String {
    let options = encryption_options(directory);
    let path = directory.display();
    format!(
        "Created in {path}:
  ca.pem      the certificate that clients trust
  ca-key.pem  its private key, to sign more certificates
  server.pem  private key and certificate of the server
  client.pem  private key and certificate of a client

The server, in the file of `cassette serve --config FILE`:

{options}
With `require_client_auth: true`, clients must present a certificate.

cassette cql and cqlsh --ssl, in ~/.cassandra/cqlshrc:

[ssl]
certfile = {path}/ca.pem
validate = true
userkey = {path}/client.pem
usercert = {path}/client.pem

The Python driver:

import ssl
context = ssl.create_default_context(cafile='{path}/ca.pem')
context.load_cert_chain('{path}/client.pem')
cluster = Cluster(['127.0.0.1'], ssl_context=context, ssl_options={{'server_hostname': 'localhost'}})

The Java driver needs keystores:

openssl pkcs12 -export -in {path}/client.pem -out client.p12
keytool -importcert -noprompt -file {path}/ca.pem -alias ca -keystore trust.p12 -storetype PKCS12
"
    )
}
