use std::collections::BTreeMap;

use super::*;

#[derive(Debug, Clone, Default)]
struct TestKeys(BTreeMap<String, Key>);

impl TestKeys {
    fn with(mut self, alias: &str, byte: u8, length: usize) -> Self {
        self.0.insert(alias.to_owned(), Key::new(vec![byte; length]).unwrap());
        self
    }
}

impl Keys for TestKeys {
    fn key(&self, alias: &str) -> Result<Key, KeyError> {
        self.0.get(alias).cloned().ok_or_else(|| KeyError(format!("no key \"{alias}\"")))
    }
}

fn keys() -> TestKeys {
    TestKeys::default().with("a", 1, 32).with("b", 2, 16)
}

fn encryption(keys: TestKeys, alias: &str) -> AesGcm {
    AesGcm::new(keys, Some(alias.to_owned())).unwrap()
}

fn error<T>(result: Result<T, EncryptionError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn a_piece_opens_only_with_its_file_number_and_context() {
    for alias in ["a", "b"] {
        let encryption = encryption(keys(), alias);
        let NewCipher { parameters, cipher } = encryption.begin().unwrap();
        let mut sealed = b"a secret".to_vec();
        let tag = cipher.seal(7, b"context", &mut sealed);
        assert_ne!(sealed, b"a secret");
        sealed.extend(tag);
        let resumed = encryption.resume(&parameters).unwrap();
        assert_eq!(resumed.open(7, b"context", &mut sealed.clone()), Some(b"a secret".as_slice()));
        assert_eq!(resumed.open(8, b"context", &mut sealed.clone()), None);
        assert_eq!(resumed.open(7, b"another", &mut sealed.clone()), None);
        assert_eq!(resumed.open(7, b"context", &mut []), None);
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(resumed.open(7, b"context", &mut flipped), None, "bit {bit}");
        }
        let other = encryption.begin().unwrap();
        assert_ne!(other.parameters, parameters);
        assert_eq!(other.cipher.open(7, b"context", &mut sealed), None);
    }
}

#[test]
fn files_keep_the_key_that_they_name_when_new_ones_have_another() {
    let parameters = encryption(keys(), "a").begin().unwrap().parameters;
    encryption(keys(), "b").resume(&parameters).unwrap();
    AesGcm::new(keys(), None).unwrap().resume(&parameters).unwrap();
    let decrypting = AesGcm::new(keys(), None).unwrap();
    assert!(!decrypting.encrypts_new_files() && decrypting.begin().is_err());
}

#[test]
fn missing_and_other_keys_are_named() {
    let parameters = encryption(keys(), "a").begin().unwrap().parameters;
    let without = TestKeys::default().with("b", 2, 16);
    assert_eq!(error(encryption(without, "b").resume(&parameters).map(drop)), "no key \"a\"");
    for other in [keys().with("a", 3, 32), keys().with("a", 1, 16)] {
        let error = error(encryption(other, "b").resume(&parameters).map(drop));
        assert!(error.starts_with("key \"a\" is not the one"), "{error}");
    }
    assert!(AesGcm::new(keys(), Some("c".to_owned())).is_err());
    assert!(AesGcm::new(keys(), Some(String::new())).is_err());
}

#[test]
fn damaged_parameters_are_errors() {
    let encryption = encryption(keys(), "a");
    let parameters = encryption.begin().unwrap().parameters;
    for length in 0..parameters.len() {
        assert!(encryption.resume(&parameters[..length]).is_err(), "{length} bytes");
    }
    for bit in 0..parameters.len() * 8 {
        let mut flipped = parameters.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(encryption.resume(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn key_files_have_an_alias_and_a_key_in_hexadecimal_or_base64_a_line() {
    let hex = "000102030405060708090a0b0c0d0e0F";
    let text =
        format!("# keys\n\n a {hex}\nb\tAAECAwQFBgcICQoLDA0ODw==\nc  AAECAwQFBgcICQoLDA0ODw\nd {hex}{hex}\n");
    let keys = keys_in_file(&text).unwrap();
    let aliases: Vec<&str> = keys.iter().map(|(alias, _)| alias.as_str()).collect();
    assert_eq!(aliases, ["a", "b", "c", "d"]);
    let expected: Vec<u8> = (0..16).collect();
    assert!(keys[..3].iter().all(|(_, key)| key.bytes() == expected));
    assert_eq!(keys[3].1.bytes().len(), 32);
    assert_eq!(format!("{:?}", keys[0].1), "Key");
}

#[test]
fn invalid_key_files_are_refused_without_showing_keys() {
    let hex = "000102030405060708090a0b0c0d0e0f";
    for (text, expected) in [
        ("".to_owned(), "expected at least one key"),
        (hex.to_owned(), "line 1: expected an alias and a key"),
        (format!("\na {hex}x"), "line 2: expected an alias and a key"),
        (format!("a {hex}00"), "line 1: expected an alias and a key"),
        ("a AAECAwQFBgcICQoLDA0O".to_owned(), "found 120 bits"),
        ("a AAECAwQFBgcICQoLDA0ODx==".to_owned(), "line 1: expected an alias"),
        (format!("a {hex}\na {hex}"), "line 2: expected each alias once, found \"a\" again"),
    ] {
        let error = keys_in_file(&text).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("0001020304"), "{text}: {error}");
    }
}
