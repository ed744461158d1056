//! Tokens of SASL PLAIN (RFC 4616), in the form that Cassandra accepts.

/// The longest accepted token, in bytes. Only the first 72 bytes of a password count.
pub const TOKEN_LENGTH_MAX: usize = 8 << 10;

/// A name and a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The name of the role.
    pub username: &'a str,
    /// Its password.
    pub password: &'a str,
}

/// Omits the password.
impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Decodes a token: `[authorization identity] NUL username NUL password`. Ignores the authorization
/// identity.
///
/// # Errors
/// The reason, as in Cassandra.
pub fn decode(token: &[u8]) -> Result<Credentials<'_>, String> {
    if token.len() > TOKEN_LENGTH_MAX {
        return Err(format!(
            "invalid token: expected at most {TOKEN_LENGTH_MAX} bytes, found {}",
            token.len()
        ));
    }
    let mut parts = token.rsplitn(3, |byte| *byte == 0);
    let last = parts.next().unwrap_or_default();
    let (password, username) = match parts.next() {
        // Without a separator there is no password.
        None => (&[][..], last),
        Some(username) => (last, username),
    };
    let identity = parts.next();
    if identity.is_some_and(|identity| identity.contains(&0)) {
        return Err("Credential format error: username or password is empty or contains NUL(\\0) character"
            .to_owned());
    }
    if password.is_empty() {
        return Err("Password must not be null".to_owned());
    }
    if username.is_empty() || identity.is_none() {
        return Err("Authentication ID must not be null".to_owned());
    }
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "invalid token: expected UTF-8".to_owned());
    Ok(Credentials { username: text(username)?, password: text(password)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_name_and_a_password_after_an_optional_identity() {
        for token in [&b"\0user\0pass word"[..], b"identity\0user\0pass word"] {
            assert_eq!(decode(token), Ok(Credentials { username: "user", password: "pass word" }));
        }
    }

    #[test]
    fn incomplete_tokens_are_refused() {
        for (token, reason) in [
            (&b""[..], "Password must not be null"),
            (b"user", "Password must not be null"),
            (b"\0user\0", "Password must not be null"),
            (b"\0\0pass", "Authentication ID must not be null"),
            (b"user\0pass", "Authentication ID must not be null"),
            (b"\0", "Password must not be null"),
            (
                b"\0a\0user\0pass",
                "Credential format error: username or password is empty or contains NUL(\\0) character",
            ),
            (
                b"\0\0\0",
                "Credential format error: username or password is empty or contains NUL(\\0) character",
            ),
            (b"\0\xff\0pass", "invalid token: expected UTF-8"),
        ] {
            assert_eq!(decode(token).unwrap_err(), reason, "{token:?}");
        }
        let long = [b"\0u\0".to_vec(), vec![b'p'; TOKEN_LENGTH_MAX]].concat();
        assert_eq!(decode(&long).unwrap_err(), "invalid token: expected at most 8192 bytes, found 8195");
    }

    #[test]
    fn a_password_is_not_printed() {
        let shown = format!("{:?}", decode(b"\0user\0geheim").unwrap());
        assert!(shown.contains("user") && !shown.contains("geheim"), "{shown}");
    }
}
