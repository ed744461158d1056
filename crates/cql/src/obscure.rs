//! Statement texts for logs, traces and lists of queries, without passwords.

use std::borrow::Cow;

use crate::keywords::Keyword;
use crate::lexer::{Lexer, Symbol, TokenKind};

/// The word before a password.
const WORD: &str = "password";

/// Replaces everything after the word `password` of a statement that creates or alters a role, as
/// Cassandra's `PasswordObfuscator` does, and of a text that begins like no statement: it may be
/// one of these with a typing error. Returns other texts unchanged.
pub fn obscure_passwords(text: &str) -> Cow<'_, str> {
    // The text after the first keywords may be no CQL at all, and contain a password anyway.
    if begins_like_another_statement(text) { Cow::Borrowed(text) } else { obscure_rest(text) }
}

/// Returns whether the first keywords are those of a statement that has no password.
fn begins_like_another_statement(text: &str) -> bool {
    use Keyword::*;

    let mut lexer = Lexer::new(text);
    let TokenKind::Keyword(verb) = lexer.next_token().kind else { return false };
    match verb {
        Select | Insert | Update | Delete | Begin | Use | Truncate | Drop | Grant | Revoke | List
        | Describe | Desc | Add => true,
        Create | Alter => matches!(
            lexer.next_token().kind,
            TokenKind::Keyword(
                ColumnFamily
                    | Keyspace
                    | Type
                    | Index
                    | Custom
                    | Materialized
                    | Function
                    | Aggregate
                    | Trigger
                    | Or
            )
        ),
        _ => false,
    }
}

/// Replaces only the passwords of a statement that creates or alters a role, so that its other
/// options stay visible; of a text that is not valid CQL, everything after the word `password`,
/// whatever its first words are. Returns other texts unchanged.
///
/// `is_valid` is whether the text has been parsed.
pub fn obscure_password_literals(text: &str, is_valid: bool) -> Cow<'_, str> {
    if !is_valid {
        return obscure_rest(text);
    }
    if matches!(obscure_passwords(text), Cow::Borrowed(_)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut copied = 0;
    let mut lexer = Lexer::new(text);
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::Eof => break,
            TokenKind::Error => return obscure_rest(text),
            TokenKind::Keyword(Keyword::Password) => {
                let mut value = lexer.next_token();
                if matches!(value.kind, TokenKind::Symbol(Symbol::Equal)) {
                    value = lexer.next_token();
                }
                // Anything else is a role of this name, or a notation that this does not know.
                if !matches!(value.kind, TokenKind::String) {
                    return obscure_rest(text);
                }
                shown.push_str(text.get(copied..value.start as usize).unwrap_or_default());
                shown.push_str("'*******'");
                copied = value.end as usize;
            }
            _ => {}
        }
    }
    shown.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(shown)
}

/// Replaces everything after the first word `password`.
fn obscure_rest(text: &str) -> Cow<'_, str> {
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
            // With typing errors.
            ("CREATE ROL a WITH PASSWORD = 'secret'", "CREATE ROL a WITH PASSWORD *******"),
            ("CRATE ROLE a WITH PASSWORD = 'secret'", "CRATE ROLE a WITH PASSWORD *******"),
            ("; ALTER ROLE a WITH PASSWORD = 'secret'", "; ALTER ROLE a WITH PASSWORD *******"),
        ] {
            assert_eq!(obscure_passwords(text), shown);
        }
    }

    #[test]
    fn only_the_literal_of_a_valid_statement_is_obscured() {
        for (text, shown) in [
            (
                "CREATE ROLE a WITH PASSWORD = 'se''cret' AND LOGIN = true",
                "CREATE ROLE a WITH PASSWORD = '*******' AND LOGIN = true",
            ),
            ("ALTER USER a WITH PASSWORD $$x$$ SUPERUSER", "ALTER USER a WITH PASSWORD '*******' SUPERUSER"),
            ("CREATE ROLE a WITH HASHED PASSWORD='$2a$'", "CREATE ROLE a WITH HASHED PASSWORD='*******'"),
            ("CREATE ROLE password WITH PASSWORD = 'x'", "CREATE ROLE password *******"),
            ("SELECT password FROM t WHERE p = 'x'", "SELECT password FROM t WHERE p = 'x'"),
        ] {
            assert_eq!(obscure_password_literals(text, true), shown);
        }
    }

    #[test]
    fn everything_after_the_word_is_obscured_in_invalid_text() {
        for (text, shown) in [
            ("CREATE ROL a WITH PASSWORD = 'x'", "CREATE ROL a WITH PASSWORD *******"),
            ("SELEC x", "SELEC x"),
        ] {
            assert_eq!(obscure_password_literals(text, false), shown);
        }
    }

    #[test]
    fn other_statements_stay_as_they_are() {
        for text in [
            "SELECT password FROM users",
            "INSERT INTO t (password) VALUES ('x')",
            "CREATE TABLE t (password text PRIMARY KEY)",
            "ALTER TABLE t ADD password text",
            "CREATE INDEX ON users (password)",
            "GRANT SELECT ON password TO a",
            "CREATE ROLE a",
            "",
            "'",
        ] {
            assert_eq!(obscure_passwords(text), text);
        }
    }
}
