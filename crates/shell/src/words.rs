//! The words of a command.

use cassette_cql::lexer::{Lexer, Symbol, Token, TokenKind};

use crate::error::{Result, command};

/// Reads a command word by word.
pub struct Words<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    next: Token,
}

impl<'a> Words<'a> {
    /// Starts at the first word.
    pub fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let next = lexer.next_token();
        Self { text, lexer, next }
    }

    /// Returns the text of the next word; empty at the end.
    pub fn peek(&self) -> &'a str {
        self.text.get(self.next.start as usize..self.next.end as usize).unwrap_or_default()
    }

    /// Reads a word, whatever it is.
    pub fn skip(&mut self) -> &'a str {
        let word = self.peek();
        self.next = self.lexer.next_token();
        word
    }

    /// Returns whether nothing follows.
    pub fn is_end(&self) -> bool {
        self.next.kind == TokenKind::Eof
    }

    /// Reads the next word if it is `word`, in any case.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.peek().eq_ignore_ascii_case(word) && !self.is_end();
        if found {
            self.skip();
        }
        found
    }

    /// Reads the next word if it is this symbol.
    pub fn take_symbol(&mut self, symbol: Symbol) -> bool {
        let found = self.next.kind == TokenKind::Symbol(symbol);
        if found {
            self.skip();
        }
        found
    }

    /// Reads a string, and returns it without quotes.
    pub fn string(&mut self) -> Option<String> {
        if self.next.kind != TokenKind::String {
            return None;
        }
        let text = self.skip();
        Some(match text.strip_prefix("$$").and_then(|text| text.strip_suffix("$$")) {
            Some(content) => content.to_owned(),
            None => text.get(1..text.len() - 1).unwrap_or_default().replace("''", "'"),
        })
    }

    /// Reads a name: in lower case unless it is quoted.
    pub fn name(&mut self) -> Option<String> {
        match self.next.kind {
            TokenKind::QuotedName => {
                let text = self.skip();
                Some(text.get(1..text.len() - 1).unwrap_or_default().replace("\"\"", "\""))
            }
            TokenKind::Ident | TokenKind::Keyword(_) => Some(self.skip().to_lowercase()),
            _ => None,
        }
    }

    /// Reads `name` or `keyspace.name`.
    pub fn qualified_name(&mut self) -> Option<(Option<String>, String)> {
        let first = self.name()?;
        if !self.take_symbol(Symbol::Dot) {
            return Some((None, first));
        }
        self.name().map(|name| (Some(first), name))
    }

    /// Expects the end of the command.
    ///
    /// # Errors
    /// If words follow.
    pub fn end(&mut self, name: &str) -> Result<()> {
        if self.is_end() { Ok(()) } else { Err(self.improper(name, "the end of the command")) }
    }

    /// Creates the error of a command that is not as it should be here.
    pub fn improper(&self, name: &str, expected: &str) -> crate::error::ShellError {
        let found = if self.is_end() { "the end".to_owned() } else { format!("'{}'", self.peek()) };
        command(format!(
            "Improper {name} command: expected {expected}, found {found}; HELP {} describes it.",
            name.split(' ').next().unwrap_or(name)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_lower_case_unless_quoted() {
        let mut words = Words::new("COPY Ks.\"T\"\"x\" FROM 'it''s' rest");
        assert_eq!(words.skip(), "COPY");
        assert_eq!(words.qualified_name(), Some((Some("ks".to_owned()), "T\"x".to_owned())));
        assert!(words.take("from") && !words.take("from"));
        assert_eq!(words.string().as_deref(), Some("it's"));
        let error = words.end("COPY").unwrap_err().to_string();
        assert!(error.contains("found 'rest'"), "{error}");
        words.skip();
        assert!(words.end("COPY").is_ok());
    }
}
