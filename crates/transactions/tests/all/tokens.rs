//! Timelock servers that require a token.

use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io::Write};

use cassette_transactions::store::MemoryStore;
use cassette_transactions::timelock::{
    Operator, RemoteOptions, RemoteTimeLock, TimeLock, TimeLockError, Token, Tokens,
};
use tempfile::TempDir;

use super::timelock::{Served, runtime};

const TOKEN: &str = "0123456789abcdef-right";
const NEXT: &str = "0123456789abcdef-next";
const WRONG: &str = "0123456789abcdef-wrong";

fn file(directory: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = directory.path().join(name);
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    path
}

#[test]
fn clients_need_one_of_the_tokens_of_the_server() {
    let (runtime, directory) = (runtime(), TempDir::new().unwrap());
    let tokens = file(&directory, "tokens", &format!("{TOKEN}\n{NEXT}\n"));
    let served = Served::at(&runtime, Arc::new(MemoryStore::new()), ([127, 0, 0, 1], 0).into(), |options| {
        options.tokens = Some(Arc::new(Tokens::read(&tokens, &[]).unwrap()));
    });
    let options = |token: Option<&str>| RemoteOptions {
        token: token.map(|token| {
            let directory = TempDir::new().unwrap();
            Token::read(&file(&directory, "token", token)).unwrap()
        }),
        ..RemoteOptions::new([&*served.address])
    };
    for (token, expected) in [(None, "no token"), (Some(WRONG), "wrong token")] {
        let options = options(token);
        // At once: a client with a wrong token is not to try again.
        let error = RemoteTimeLock::connect(options.clone()).err().unwrap();
        assert!(matches!(error, TimeLockError::Refused { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("0123456789"), "{error}");
        let operator = Operator::with(&options);
        assert!(operator.status().unwrap_err().to_string().contains(expected));
        assert!(operator.stop().unwrap_err().to_string().contains(expected));
    }
    for token in [TOKEN, NEXT] {
        let client = RemoteTimeLock::connect(options(Some(token))).unwrap();
        client.timestamp().unwrap();
        Operator::with(&options(Some(token))).status().unwrap();
    }
    served.stop(&runtime);
}
