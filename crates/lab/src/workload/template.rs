//! CQL with named values: `... WHERE id = :id`.

/// A statement to prepare, with the names of its bound values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The statement, with `?` for each value.
    pub cql: String,
    /// Names of the values, in order; a name may occur several times.
    pub names: Vec<String>,
}

impl Template {
    /// Finds `:name` outside of quotes and comments. Colons in map literals and casts are not
    /// followed by a letter, or are quoted; `{'a':b}` needs a space.
    pub fn parse(text: &str) -> Self {
        let (mut cql, mut names) = (String::with_capacity(text.len()), Vec::new());
        let mut quote: Option<char> = None;
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            match quote {
                Some(open) if c == open => quote = None,
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c == ':' => {
                    let tail = &text[at + 1..];
                    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let length = tail.find(|c| !word(c)).unwrap_or(tail.len());
                    if tail.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                        names.push(tail[..length].to_owned());
                        cql.push('?');
                        if length > 0 {
                            let _ = rest.nth(length - 1);
                        }
                        continue;
                    }
                }
                _ => {}
            }
            cql.push(c);
        }
        Self { cql, names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_quotes_become_markers() {
        let parsed =
            Template::parse("UPDATE t SET m = {'a:b': :v} WHERE id=:id AND \"x:y\" = ':id' AND c = :id");
        assert_eq!(parsed.cql, "UPDATE t SET m = {'a:b': ?} WHERE id=? AND \"x:y\" = ':id' AND c = ?");
        assert_eq!(parsed.names, ["v", "id", "id"]);
        assert_eq!(
            Template::parse("SELECT 1: 2 ::"),
            Template { cql: "SELECT 1: 2 ::".into(), names: vec![] }
        );
    }
}
