//! Statement texts for logs, traces and lists of queries, without passwords.

use std::borrow::Cow;

use crate::keywords::Keyword;
use crate::lexer::{Lexer, TokenKind};

/// Replaces everything after the word `password` of a statement that creates or alters a role, as
/// Cassandra's `PasswordObfuscator` does. Returns other texts unchanged.
pub fn obscure_passwords(text: &str) -> Cow<'_, str> {
    const WORD: &str = "password";
    let mut lexer = Lexer::new(text);
    let mut next = || lexer.next_token();
    let verb = next();
    if !matches!(verb.kind, TokenKind::Keyword(Keyword::Create | Keyword::Alter)) {
        return Cow::Borrowed(text);
    }
    let object = next();
    if !matches!(object.kind, TokenKind::Keyword(Keyword::Role | Keyword::User)) {
        return Cow::Borrowed(text);
    }
    // The text after the two keywords may be no CQL at all, and contain a password anyway.
    let lower = text.to_ascii_lowercase();
    match lower.find(WORD).and_then(|at| text.get(..at + WORD.len())) {
        Some(shown) => Cow::Owned(format!("{shown} *******")),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_role_statements_are_obscured() {
        for (text, shown) in [
            (
                "CREATE ROLE a WITH PASSWORD = 'secret' AND LOGIN = true",
                "CREATE ROLE a WITH PASSWORD *******",
            ),
            ("alter user a with password 'secret' superuser", "alter user a with password *******"),
            (
                "-- c\nALTER ROLE a WITH HASHED PASSWORD = '$2a$10$x'",
                "-- c\nALTER ROLE a WITH HASHED PASSWORD *******",
            ),
            ("CREATE ROLE a WITH PASSWORD 'unfinished", "CREATE ROLE a WITH PASSWORD *******"),
            ("CREATE ROLE password WITH PASSWORD = 'secret'", "CREATE ROLE password *******"),
        ] {
            assert_eq!(obscure_passwords(text), shown);
        }
    }

    #[test]
    fn other_statements_stay_as_they_are() {
        for text in [
            "SELECT password FROM users",
            "INSERT INTO t (password) VALUES ('x')",
            "CREATE TABLE t (password text PRIMARY KEY)",
            "CREATE ROLE a",
            "",
            "'",
        ] {
            assert_eq!(obscure_passwords(text), text);
        }
    }
}
