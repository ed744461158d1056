//! Tokens of SASL PLAIN, which clients send before they have logged in.

use cassette_server::authentication::plain::{TOKEN_LENGTH_MAX, decode};

use crate::Target;

pub const TARGET: Target =
    Target { name: "sasl", run, seeds, words: &[b"\0", b"cassandra", b"\0\0", b"\xff"], inputs: 20_000 };

fn run(input: &[u8]) {
    let Ok(credentials) = decode(input) else { return };
    assert!(input.len() <= TOKEN_LENGTH_MAX);
    let (username, password) = (credentials.username, credentials.password);
    assert!(!username.is_empty() && !password.is_empty());
    assert!(!username.contains('\0') && !password.contains('\0'));
    // What a token says can be said without an identity.
    let written = format!("\0{username}\0{password}");
    assert!(input.ends_with(written.as_bytes()), "{input:02x?}");
    assert_eq!(decode(written.as_bytes()).unwrap(), credentials);
}

fn seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 6] = [
        b"\0cassandra\0cassandra",
        b"identity\0user\0password",
        b"",
        b"\0user\0",
        b"a\0b\0c\0d",
        "\0r\u{f6}le\0gr\u{fc}n".as_bytes(),
    ];
    seeds.into_iter().map(<[u8]>::to_vec).collect()
}
