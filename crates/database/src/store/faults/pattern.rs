//! Patterns of statements: `%` stands for any characters.

/// A pattern, prepared for comparisons.
#[derive(Debug)]
pub(crate) struct Pattern(Vec<String>);

impl Pattern {
    pub fn new(text: &str) -> Self {
        Self(normal(text).split('%').map(str::to_owned).collect())
    }

    /// Whether a whole statement, as [`normal`] returns it, is like this.
    pub fn matches(&self, statement: &str) -> bool {
        let Some((first, rest)) = self.0.split_first() else { return false };
        let Some(mut text) = statement.strip_prefix(first.as_str()) else { return false };
        let Some((last, between)) = rest.split_last() else { return text.is_empty() };
        for part in between {
            match text.split_once(part.as_str()) {
                Some((_, after)) => text = after,
                None => return false,
            }
        }
        text.ends_with(last.as_str())
    }
}

/// Returns the text in lower case with one space for any white space, and without a semicolon at
/// the end.
pub(crate) fn normal(text: &str) -> String {
    let words: Vec<&str> = text.trim_end().trim_end_matches(';').split_whitespace().collect();
    words.join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_statements_without_regard_to_case_and_space() {
        for (pattern, statement, matches) in [
            ("SELECT % FROM users%", "select *\n from users WHERE id = 1;", true),
            ("SELECT % FROM users", "SELECT * FROM users WHERE id = 1", false),
            ("%users%", "INSERT INTO app.users (id) VALUES (1)", true),
            ("select 1", "SELECT 1", true),
            ("select 1", "SELECT 12", false),
            ("a%a", "a", false),
            ("a%a", "aa", true),
            ("a%b%c", "a b b c", true),
            ("%", "", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(&normal(statement)), matches, "{pattern}: {statement}");
        }
    }
}
