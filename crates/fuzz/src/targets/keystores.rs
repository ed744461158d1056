//! Keystores and truststores in PEM, PKCS #12 and JKS, and the identities in certificates. The
//! first byte chooses the password.

use cassette_server::authentication::spiffe_id;
use cassette_server::tls::{read_keystore, read_secret_key};

use super::split;
use crate::Target;

/// Enough for the seeds, and little enough for thousands of inputs.
const ITERATIONS_MAX: u32 = 5_000;

pub const TARGET: Target = Target {
    name: "keystores",
    run,
    seeds,
    words: &[
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----",
        b"-----BEGIN CERTIFICATE-----",
        b"\xFE\xED\xFE\xED",
        b"\x30\x82",
        b"X.509",
    ],
    inputs: 20_000,
};

fn run(input: &[u8]) {
    let (choice, content) = split(input);
    let password = (choice & 1 == 0).then_some("changeit");
    if let Ok(certificates) = read_keystore(content, password, ITERATIONS_MAX) {
        assert!(certificates > 0, "a keystore without a certificate is an error");
    }
    if let Ok(length) = read_secret_key(content, password, ITERATIONS_MAX, "testing:128") {
        assert!(length <= content.len(), "a key of {length} bytes");
    }
    if let Some(identity) = spiffe_id(content) {
        assert!(identity.starts_with("spiffe://"), "{identity}");
    }
}

macro_rules! files {
    ($($name:literal),+) => {
        [$(include_bytes!(concat!("../../../tls/testdata/keystores/", $name)).as_slice()),+]
    };
}

fn seeds() -> Vec<Vec<u8>> {
    let files = files!(
        "key.pem",
        "ca.pem",
        "aes.pem",
        "des.pem",
        "openssl.p12",
        "openssl-plain.p12",
        "openssl-trust.p12",
        "java.jks",
        "java-trust.jks",
        "secret.p12",
        "spiffe.der"
    );
    files.into_iter().flat_map(|file| [0, 1].map(|choice| [&[choice], file].concat())).collect()
}
