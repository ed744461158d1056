use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::*;

macro_rules! file {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../testdata/keystores/", $name)).as_slice())
    };
}

const PASSWORD: Access<'static> = Access { password: Some("changeit"), iterations_max: 1_000_000 };

const IDENTITIES: [(&str, &[u8]); 9] = [
    file!("aes.pem"),
    file!("des.pem"),
    file!("openssl.p12"),
    file!("openssl-legacy.p12"),
    file!("openssl-rc2.p12"),
    file!("openssl-plain.p12"),
    file!("java.p12"),
    file!("java-legacy.p12"),
    file!("java.jks"),
];

const SECRET_OF_JAVA: [u8; 16] =
    [0xcd, 0x2b, 0x19, 0x1e, 0xf7, 0x52, 0x7d, 0x4a, 0x15, 0xb7, 0x19, 0x38, 0x33, 0xe7, 0x4d, 0xf9];

const TRUSTSTORES: [(&str, &[u8]); 4] =
    [file!("ca.pem"), file!("openssl-trust.p12"), file!("java-trust.p12"), file!("java-trust.jks")];

fn certificate(pem: (&str, &[u8])) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.1).unwrap()
}

#[test]
fn every_format_of_keytool_and_openssl_gives_the_key_and_its_chain() {
    let key = PrivateKeyDer::from_pem_slice(file!("key.pem").1).unwrap();
    let chain = [certificate(file!("certificate.pem")), certificate(file!("ca.pem"))];
    for (name, content) in IDENTITIES {
        let found = identity(content, PASSWORD).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.key.secret_der(), key.secret_der(), "{name}");
        assert_eq!(found.certificates, chain, "{name}");
    }
}

#[test]
fn every_format_of_truststores_gives_the_authority() {
    let authority = [certificate(file!("ca.pem"))];
    for (name, content) in TRUSTSTORES {
        assert_eq!(trusted(content, PASSWORD).unwrap(), authority, "{name}");
    }
}

#[test]
fn only_the_own_certificate_of_a_key_in_a_truststore_is_trusted() {
    for name in [file!("java.p12"), file!("java.jks"), file!("openssl.p12")] {
        assert_eq!(trusted(name.1, PASSWORD).unwrap(), [certificate(file!("certificate.pem"))], "{}", name.0);
    }
}

#[test]
fn another_password_or_none_is_an_error_that_names_the_setting() {
    let encrypted = IDENTITIES
        .into_iter()
        .chain(TRUSTSTORES)
        .filter(|(name, _)| !["ca.pem", "openssl-plain.p12"].contains(name));
    for (name, content) in encrypted {
        for password in [Some("changed"), None] {
            let access = Access { password, ..PASSWORD };
            let error = if name.contains("trust") {
                // As in Java, the certificates of JKS can be read without a password.
                if name == "java-trust.jks" && password.is_none() {
                    continue;
                }
                trusted(content, access).unwrap_err()
            } else {
                identity(content, access).err().unwrap()
            };
            assert!(error.to_string().contains("keystore_password"), "{name}, {password:?}: {error}");
        }
    }
}

#[test]
fn secret_keys_of_keytool_are_found_by_their_alias_in_any_case() {
    let (_, content) = file!("secret.p12");
    let first = secret_key(content, PASSWORD, "testing:128").unwrap();
    assert_eq!((first.len(), secret_key(content, PASSWORD, "TESTING:256").unwrap().len()), (16, 32));
    // What `Key.getEncoded` of Java returns.
    assert_eq!(first, SECRET_OF_JAVA);
    let error = |content, access, alias| secret_key(content, access, alias).unwrap_err().to_string();
    let missing = error(content, PASSWORD, "other");
    assert_eq!(missing, "expected a secret key with alias other, found testing:128, testing:256");
    let wrong = Access { password: Some("changeme"), ..PASSWORD };
    assert!(error(content, wrong, "testing:128").starts_with("the password does not open the keystore"));
    assert!(error(file!("openssl.p12").1, PASSWORD, "server").ends_with("found none"));
    assert!(error(file!("java.jks").1, PASSWORD, "a").contains("found JKS, which has no secret keys"));
    assert!(error(file!("java.jceks").1, PASSWORD, "a").contains("found JCEKS; convert it: keytool"));
    assert!(error(file!("key.pem").1, PASSWORD, "a").contains("found another format"));
    let cheap = Access { iterations_max: 25_000, ..PASSWORD };
    for length in 0..content.len() {
        assert!(secret_key(&content[..length], cheap, "testing:128").is_err(), "first {length} bytes");
    }
}

#[test]
fn a_truststore_has_no_key_and_other_formats_are_refused_by_name() {
    for (name, content) in TRUSTSTORES {
        let error = identity(content, PASSWORD).err().unwrap().to_string();
        assert!(error.starts_with("expected a private key"), "{name}: {error}");
    }
    let error = |(_, content)| identity(content, PASSWORD).err().unwrap().to_string();
    assert!(error(file!("java.jceks")).contains("found JCEKS; convert it: keytool"));
    assert!(error(file!("scrypt.pem")).contains("algorithm 1.2.840.113549.1.5.13 is not supported"));
}

#[test]
fn key_derivation_is_bounded_for_the_whole_file() {
    let few = Access { iterations_max: 5_000, ..PASSWORD };
    let error = identity(file!("openssl.p12").1, few).err().unwrap().to_string();
    assert!(error.contains("expected fewer iterations"), "{error}");
    assert!(identity(file!("aes.pem").1, few).is_ok());
}

#[test]
fn damaged_keystores_are_errors() {
    let cheap = Access { iterations_max: 3_000, ..PASSWORD };
    for (name, content) in IDENTITIES.into_iter().chain(TRUSTSTORES) {
        if name.ends_with("pem") {
            continue;
        }
        for length in 0..content.len() {
            assert!(identity(&content[..length], cheap).is_err(), "{name}, first {length} bytes");
        }
        let mut changed = content.to_vec();
        for at in (0..content.len()).step_by(3) {
            let bit = 1 << (at % 8);
            changed[at] ^= bit;
            // Without a code of integrity a change can go unnoticed; it must not panic.
            let read = identity(&changed, cheap).is_ok() || trusted(&changed, cheap).is_ok();
            assert!(!read || name == "openssl-plain.p12", "{name}, byte {at}");
            changed[at] ^= bit;
        }
    }
}
