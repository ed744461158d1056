//! The header `Authorization`: a name and a password (RFC 7617), or a bearer token (RFC 6750).

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The maximum length of the header's value, in bytes.
const LENGTH_MAX: usize = 8 << 10;

/// What a client proves its identity with.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer(Vec<u8>),
}

/// Omits secrets.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Basic { username, .. } => f.debug_struct("Basic").field("username", username).finish(),
            Self::Bearer(_) => f.write_str("Bearer"),
        }
    }
}

impl Credentials {
    /// Returns the credentials of a request. `None` without a header.
    ///
    /// # Errors
    /// If there are several headers, or one of another form.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, &'static str> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err("the request has more than one header Authorization");
        }
        Self::parse(value.as_bytes()).map(Some)
    }

    fn parse(value: &[u8]) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected Basic or Bearer credentials";
        if value.len() > LENGTH_MAX {
            return Err("expected a header Authorization of at most 8 KiB");
        }
        let space = value.iter().position(|byte| *byte == b' ').ok_or(EXPECTED)?;
        let (scheme, rest) = value.split_at(space);
        let rest = rest.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return Ok(Self::Bearer(rest.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return Err(EXPECTED);
        }
        let decoded = STANDARD.decode(rest).map_err(|_| "expected Basic credentials in base64")?;
        let text = String::from_utf8(decoded).map_err(|_| "expected Basic credentials in UTF-8")?;
        let (username, password) = text.split_once(':').ok_or("expected Basic credentials with a colon")?;
        Ok(Self::Basic { username: username.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(text: &[u8]) -> Result<Credentials, &'static str> {
        Credentials::parse(format!("Basic {}", STANDARD.encode(text)).as_bytes())
    }

    #[test]
    fn names_end_at_the_first_colon() {
        let (username, password) = ("reader".to_owned(), "a:b c\u{e4}".to_owned());
        let expected = Credentials::Basic { username, password };
        assert_eq!(basic("reader:a:b c\u{e4}".as_bytes()), Ok(expected.clone()));
        assert!(!format!("{expected:?}").contains("a:b"));
        assert_eq!(Credentials::parse(b"bEARER  token"), Ok(Credentials::Bearer(b"token".to_vec())));
    }

    #[test]
    fn headers_of_another_form_are_errors() {
        for value in
            [&b""[..], b"Basic", b"Bearer", b"Digest a=b", b"Basic !", b"Basic \xff", &[b'B'; 10_000]]
        {
            assert!(Credentials::parse(value).is_err(), "{value:?}");
        }
        assert!(basic(b"no colon").is_err());
        assert!(basic(b"\xff:").is_err());
        let mut headers = HeaderMap::new();
        assert_eq!(Credentials::of(&headers), Ok(None));
        headers.append(header::AUTHORIZATION, "Bearer a".parse().unwrap());
        assert!(Credentials::of(&headers).unwrap().is_some());
        headers.append(header::AUTHORIZATION, "Bearer b".parse().unwrap());
        assert!(Credentials::of(&headers).is_err());
    }
}
