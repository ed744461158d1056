//! Which words can follow.

use cassette_cql::keywords::Keyword;
use cassette_cql::lexer::{Lexer, Symbol, TokenKind};
use cassette_cql::quote_identifier;
use cassette_protocol::Consistency;

use super::vocabulary::{DESCRIBED, FUNCTIONS, KEYWORDS, MORE_KEYWORDS, OBJECTS, TYPES, VERBS};
use crate::commands::topics;
use crate::output::Format;
use crate::schema::{Keyspace, Schema};

/// The names that exist.
#[derive(Debug, Default)]
pub struct Names {
    /// The schema.
    pub schema: Schema,
    /// The keyspace of USE.
    pub keyspace: Option<String>,
}

/// A token of a statement: its kind, and a name without quotes or a keyword in upper case.
type Word = (TokenKind, String);

/// Returns where the word at `position` begins, and the words that can be in its place.
pub fn complete(line: &str, position: usize, names: &Names) -> (usize, Vec<String>) {
    let before = line.get(..position).unwrap_or(line);
    let start = before
        .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '"')
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let start = if before[..start].trim_end().ends_with('.') && before[..start].trim().len() == 1 {
        0
    } else {
        start
    };
    let typed = &before[start..];
    let words = statement_before(&before[..start]);
    if words.last().is_some_and(|(kind, _)| *kind == TokenKind::Error) {
        // Inside of a string or a comment.
        return (position, Vec::new());
    }
    let after = words_of(line.get(position..).unwrap_or_default());
    let mut found = candidates(&words, &after, typed, names);
    let lower = typed.trim_matches('"').to_lowercase();
    found.retain(|word| word.trim_matches('"').to_lowercase().starts_with(&lower));
    found.sort_by_key(|word| word.to_lowercase());
    found.dedup();
    (start, found)
}

fn words_of(text: &str) -> Vec<Word> {
    let mut lexer = Lexer::new(text);
    let mut words = Vec::new();
    loop {
        let token = lexer.next_token();
        let source = text.get(token.start as usize..token.end as usize).unwrap_or_default();
        let word = match token.kind {
            TokenKind::Eof => return words,
            TokenKind::QuotedName => source.trim_matches('"').replace("\"\"", "\""),
            TokenKind::Keyword(_) => source.to_uppercase(),
            _ => source.to_lowercase(),
        };
        words.push((token.kind, word));
        if token.kind == TokenKind::Error {
            return words;
        }
    }
}

/// Returns the words of the statement that `text` ends with.
fn statement_before(text: &str) -> Vec<Word> {
    let mut words = words_of(text);
    if let Some(at) = words.iter().rposition(|(kind, _)| *kind == TokenKind::Symbol(Symbol::Semicolon)) {
        words.drain(..=at);
    }
    words
}

fn candidates(words: &[Word], after: &[Word], typed: &str, names: &Names) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let Some((last_kind, last)) = words.last() else { return owned(&VERBS) };
    let last_upper = last.to_uppercase();
    let verb = words[0].1.to_uppercase();
    if *last_kind == TokenKind::Symbol(Symbol::Dot) {
        let keyspace = words.len().checked_sub(2).map(|at| words[at].1.as_str()).unwrap_or_default();
        return names.schema.keyspaces.get(keyspace).map(names_in).unwrap_or_default();
    }
    if words.len() == 1 {
        match verb.as_str() {
            "CONSISTENCY" => return Consistency::ALL.iter().map(ToString::to_string).collect(),
            "FORMAT" => return Format::ALL.iter().map(|(_, name)| (*name).to_owned()).collect(),
            "TRACING" | "EXPAND" | "PAGING" => return owned(&["ON", "OFF"]),
            "SHOW" => return owned(&["HOST", "REPLICAS", "SESSION", "VERSION"]),
            "SERIAL" => return owned(&["CONSISTENCY"]),
            "HELP" | "?" => return topics().collect(),
            "DESCRIBE" | "DESC" => {
                return [owned(&DESCRIBED), keyspaces(names, ""), tables(names)].concat();
            }
            "CREATE" | "ALTER" | "DROP" => return owned(&OBJECTS),
            "INSERT" => return owned(&["INTO"]),
            "BEGIN" => return owned(&["BATCH", "COUNTER BATCH", "UNLOGGED BATCH"]),
            _ => {}
        }
    }
    if verb == "SERIAL" {
        return owned(&["SERIAL", "LOCAL_SERIAL"]);
    }
    match last_upper.as_str() {
        "USE" | "KEYSPACE" if typed.is_empty() || last_upper != "EXISTS" => return keyspaces(names, ""),
        "FROM" | "INTO" | "TABLE" | "TRUNCATE" | "COPY" | "UPDATE" | "VIEW" | "ON" => {
            return [tables(names), keyspaces(names, ".")].concat();
        }
        "TYPE" | "INDEX" => return [objects(names, &last_upper), keyspaces(names, ".")].concat(),
        _ => {}
    }
    let mut found = columns(words, after, names);
    if last_upper == "SELECT" || *last_kind == TokenKind::Symbol(Symbol::Comma) || verb == "SELECT" {
        found.extend(owned(&FUNCTIONS));
        found.extend(
            current(names)
                .into_iter()
                .flat_map(|keyspace| &keyspace.functions)
                .map(|name| format!("{name}(")),
        );
    }
    if verb == "CREATE" || verb == "ALTER" {
        found.extend(owned(&TYPES));
        found.extend(
            current(names)
                .into_iter()
                .flat_map(|keyspace| &keyspace.types)
                .map(|name| quote_identifier(name).into_owned()),
        );
    }
    // Keywords would hide the names if nothing is typed.
    if !typed.is_empty() || found.is_empty() {
        found.extend(owned(&KEYWORDS));
        found.extend(owned(&MORE_KEYWORDS));
    }
    found
}

fn current(names: &Names) -> Option<&Keyspace> {
    names.schema.keyspaces.get(names.keyspace.as_deref()?)
}

fn keyspaces(names: &Names, end: &str) -> Vec<String> {
    names.schema.keyspaces.keys().map(|name| format!("{}{end}", quote_identifier(name))).collect()
}

fn tables(names: &Names) -> Vec<String> {
    let tables = current(names).into_iter().flat_map(|keyspace| keyspace.tables.keys());
    tables.map(|name| quote_identifier(name).into_owned()).collect()
}

fn objects(names: &Names, kind: &str) -> Vec<String> {
    let Some(keyspace) = current(names) else { return Vec::new() };
    let found = if kind == "TYPE" { &keyspace.types } else { &keyspace.indexes };
    found.iter().map(|name| quote_identifier(name).into_owned()).collect()
}

fn names_in(keyspace: &Keyspace) -> Vec<String> {
    let names =
        keyspace.tables.keys().chain(&keyspace.types).chain(&keyspace.indexes).chain(&keyspace.functions);
    names.map(|name| quote_identifier(name).into_owned()).collect()
}

/// Returns the columns of the table that the statement names, before or after the cursor.
fn columns(words: &[Word], after: &[Word], names: &Names) -> Vec<String> {
    let found = table_in(words, names).or_else(|| table_in(after, names));
    found.into_iter().flatten().map(|column| quote_identifier(&column.name).into_owned()).collect()
}

fn table_in<'a>(words: &[Word], names: &'a Names) -> Option<&'a Vec<crate::schema::Column>> {
    use Keyword::{From, Into, Truncate, Update};
    let is_before_table = |(kind, word): &Word| {
        matches!(kind, TokenKind::Keyword(From | Into | Update | Truncate))
            || word.eq_ignore_ascii_case("copy")
    };
    let at = words.iter().position(is_before_table)?;
    let name = |at: usize| {
        words.get(at).map(|(kind, word)| match kind {
            TokenKind::QuotedName => word.clone(),
            _ => word.to_lowercase(),
        })
    };
    let first = name(at + 1)?;
    let is_qualified = words.get(at + 2).is_some_and(|(kind, _)| *kind == TokenKind::Symbol(Symbol::Dot));
    let (keyspace, table) =
        if is_qualified { (Some(first), name(at + 3)?) } else { (names.keyspace.clone(), first) };
    names.schema.keyspaces.get(&keyspace?)?.tables.get(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, ColumnKind};

    fn names() -> Names {
        let mut names = Names { keyspace: Some("shop".to_owned()), ..Names::default() };
        let keyspace = names.schema.keyspaces.entry("shop".to_owned()).or_default();
        let column = |name: &str| Column::new(name, ColumnKind::Regular, "int");
        keyspace.tables.insert("orders".to_owned(), vec![column("customer"), column("Placed")]);
        keyspace.types.push("address".to_owned());
        names.schema.keyspaces.insert("system".to_owned(), Keyspace::default());
        names
    }

    fn offered(line: &str) -> Vec<String> {
        complete(line, line.len(), &names()).1
    }

    #[test]
    fn names_are_offered_where_they_can_be() {
        assert_eq!(offered("sel"), ["SELECT"]);
        assert_eq!(offered("SELECT 1; USE s"), ["shop", "system"]);
        assert_eq!(offered("SELECT * FROM "), ["orders", "shop.", "system."]);
        assert_eq!(offered("SELECT * FROM shop."), ["address", "orders"]);
        assert!(offered("SELECT * FROM shop.orders WHERE cu").contains(&"customer".to_owned()));
        assert_eq!(offered("INSERT INTO orders ("), ["\"Placed\"", "customer"]);
        assert!(offered("CREATE TABLE t (k int, v addr").contains(&"address".to_owned()));
        assert_eq!(offered("CONSISTENCY LOCAL_Q"), ["LOCAL_QUORUM"]);
        assert_eq!(offered("DESCRIBE KEYSPACES"), ["KEYSPACES"]);
        assert_eq!(offered("SELECT 'or"), [""; 0], "no names in strings");
    }

    #[test]
    fn columns_of_a_table_after_the_cursor_are_offered() {
        let line = "SELECT cu FROM orders";
        let (start, found) = complete(line, 9, &names());
        assert_eq!(start, 7);
        assert!(found.contains(&"customer".to_owned()) && found.contains(&"current_date(".to_owned()));
    }

    #[test]
    fn keywords_complete_what_is_typed() {
        assert_eq!(offered("SELECT * FROM orders WHERE customer = 1 ALLOW FILT"), ["FILTERING"]);
    }
}
