//! Definitions of a table under other names.

use std::borrow::Cow;

use cassette_cql::lexer::{Lexer, Symbol, Token, TokenKind, unquote};
use cassette_cql::quote_identifier;

/// The names under which a table is restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreNames {
    /// The keyspace, if it is another one.
    pub keyspace: Option<String>,
    /// The table, if it has another name. Its indexes get this name as a prefix, and its views are
    /// not created.
    pub table: Option<String>,
}

impl RestoreNames {
    /// Whether all names stay.
    pub fn is_empty(&self) -> bool {
        self.keyspace.is_none() && self.table.is_none()
    }

    /// Returns the keyspace in which `keyspace` is restored.
    pub fn keyspace<'a>(&'a self, keyspace: &'a str) -> &'a str {
        self.keyspace.as_deref().unwrap_or(keyspace)
    }

    /// Returns the name under which `table` is restored.
    pub fn table<'a>(&'a self, table: &'a str) -> &'a str {
        self.table.as_deref().unwrap_or(table)
    }

    /// Returns statements that create a keyspace, its types, or a table with its indexes and views,
    /// as DESCRIBE prints them, with the new names. Tables and views get new ids.
    pub fn rename(&self, text: &str, keyspace: &str, table: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let renaming = Renaming { names: self, text, keyspace, table };
        let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
        let mut lexer = Lexer::new(text);
        let mut before: [Option<Token>; 2] = [None, None];
        loop {
            let token = lexer.next_token();
            if matches!(token.kind, TokenKind::Eof | TokenKind::Error) {
                break;
            }
            if let Some((end, replacement)) = renaming.replace(before, token, lexer) {
                out.push_str(&text[copied..token.start as usize]);
                out.push_str(&replacement);
                copied = end;
                // Continues after what was replaced.
                let mut following = lexer;
                while following.next_token().end as usize <= end {
                    lexer = following;
                }
            }
            before = [before[1], Some(token)];
        }
        out.push_str(&text[copied..]);
        out
    }
}

struct Renaming<'a> {
    names: &'a RestoreNames,
    text: &'a str,
    keyspace: &'a str,
    table: &'a str,
}

impl Renaming<'_> {
    /// Returns the text in place of that from `token` to the returned offset. `before` has the two
    /// previous tokens, and `rest` reads the following ones.
    fn replace(
        &self,
        before: [Option<Token>; 2],
        token: Token,
        mut rest: Lexer<'_>,
    ) -> Option<(usize, String)> {
        let name = self.name(token)?;
        let mut next = || rest.next_token();
        let second = next();
        let is_second = |symbol| second.kind == TokenKind::Symbol(symbol);
        // keyspace.name
        if is_second(Symbol::Dot) && name == self.keyspace {
            let third = next();
            let object = self.name(third)?;
            let renamed = if object == self.table { self.names.table(self.table) } else { &object };
            let keyspace = quote_identifier(self.names.keyspace(self.keyspace));
            return Some((third.end as usize, format!("{keyspace}.{}", quote_identifier(renamed))));
        }
        // ID = uuid AND
        if is_second(Symbol::Equal) && name == "id" {
            let (third, fourth) = (next(), next());
            let is_id = third.kind == TokenKind::Uuid && self.word(fourth) == "AND";
            return is_id.then(|| {
                let end = fourth.end as usize;
                let blanks = self.text[end..].len() - self.text[end..].trim_start().len();
                (end + blanks, String::new())
            });
        }
        let previous = before[1].map(|token| self.word(token))?;
        // CREATE KEYSPACE [IF NOT EXISTS] keyspace
        let is_after_exists = previous == "EXISTS";
        if name == self.keyspace && (previous == "KEYSPACE" || is_after_exists) && self.word(second) == "WITH"
        {
            let keyspace = quote_identifier(self.names.keyspace(self.keyspace)).into_owned();
            return Some((token.end as usize, keyspace));
        }
        // CREATE [CUSTOM] INDEX [IF NOT EXISTS] name ON
        if self.names.table.is_some() && (previous == "INDEX" || is_after_exists) && self.word(second) == "ON"
        {
            let renamed = format!("{}_{name}", self.names.table(self.table));
            return Some((token.end as usize, quote_identifier(&renamed).into_owned()));
        }
        None
    }

    /// Returns the name that a token is.
    fn name(&self, token: Token) -> Option<Cow<'_, str>> {
        let raw = &self.text[token.start as usize..token.end as usize];
        match token.kind {
            TokenKind::QuotedName => Some(unquote(raw)),
            TokenKind::Ident | TokenKind::Keyword(_) => Some(Cow::Owned(raw.to_ascii_lowercase())),
            _ => None,
        }
    }

    /// Returns a token that is no quoted name, in capital letters.
    fn word(&self, token: Token) -> String {
        self.text[token.start as usize..token.end as usize].to_ascii_uppercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
CREATE TYPE IF NOT EXISTS \"Shop\".address (street text);
CREATE TABLE IF NOT EXISTS \"Shop\".orders (
    id int PRIMARY KEY,
    home frozen<address>,
    note text
) WITH ID = 1e566bcc-9420-56cb-a6de-d377be37237b
    AND comment = '\"Shop\".orders, ID = 1'
    AND cdc = false;
ALTER TABLE \"Shop\".orders DROP x USING TIMESTAMP 1;
CREATE INDEX IF NOT EXISTS by_note ON \"Shop\".orders (note);
CREATE MATERIALIZED VIEW IF NOT EXISTS \"Shop\".w AS
    SELECT * FROM \"Shop\".orders WHERE id IS NOT NULL PRIMARY KEY (id)
 WITH ID = 2e566bcc-9420-56cb-a6de-d377be37237b
    AND cdc = false;
";

    fn names(keyspace: Option<&str>, table: Option<&str>) -> RestoreNames {
        RestoreNames { keyspace: keyspace.map(str::to_owned), table: table.map(str::to_owned) }
    }

    #[test]
    fn every_qualified_name_is_renamed_and_ids_are_removed() {
        let renamed = names(Some("old"), Some("Orders 2")).rename(TEXT, "Shop", "orders");
        assert_eq!(
            renamed,
            "\
CREATE TYPE IF NOT EXISTS old.address (street text);
CREATE TABLE IF NOT EXISTS old.\"Orders 2\" (
    id int PRIMARY KEY,
    home frozen<address>,
    note text
) WITH comment = '\"Shop\".orders, ID = 1'
    AND cdc = false;
ALTER TABLE old.\"Orders 2\" DROP x USING TIMESTAMP 1;
CREATE INDEX IF NOT EXISTS \"Orders 2_by_note\" ON old.\"Orders 2\" (note);
CREATE MATERIALIZED VIEW IF NOT EXISTS old.w AS
    SELECT * FROM old.\"Orders 2\" WHERE id IS NOT NULL PRIMARY KEY (id)
 WITH cdc = false;
"
        );
        let keyspace =
            "CREATE KEYSPACE IF NOT EXISTS \"Shop\" WITH replication = {'class': 'SimpleStrategy'};";
        assert_eq!(
            names(Some("new"), None).rename(keyspace, "Shop", ""),
            keyspace.replace("\"Shop\"", "new")
        );
    }

    #[test]
    fn without_other_names_a_text_stays() {
        assert_eq!(names(None, None).rename(TEXT, "Shop", "orders"), TEXT);
    }
}
