//! Texts that contain several statements.

use crate::lexer::{Lexer, Symbol, TokenKind};

/// Returns the statements of a text, without the semicolons between them. Ends at the first invalid
/// token.
pub fn split_statements(text: &str) -> Vec<&str> {
    let mut lexer = Lexer::new(text);
    let mut found = Vec::new();
    let mut start = 0;
    let mut is_empty = true;
    loop {
        let token = lexer.next_token();
        let is_end = matches!(token.kind, TokenKind::Eof | TokenKind::Error);
        if !is_end && token.kind != TokenKind::Symbol(Symbol::Semicolon) {
            is_empty = false;
            continue;
        }
        if !is_empty && let Some(statement) = text.get(start..token.start as usize) {
            found.push(statement.trim());
        }
        if is_end {
            return found;
        }
        start = token.end as usize;
        is_empty = true;
    }
}
