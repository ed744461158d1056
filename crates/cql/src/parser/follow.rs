//! The follow sets of rules, in any context. Cassandra's parser checks these before it decides, and
//! reports `no viable alternative` if nothing matches, even if only one token is possible at that
//! position.
//!
//! Source: the decision tables of the parser that ANTLR generated from `Parser.g` of Apache
//! Cassandra 5.0.8.

use crate::keywords::Keyword as K;
use crate::lexer::{Symbol as S, TokenKind};

/// After the name of a table.
pub(super) fn follows_table(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            K::Add
                | K::Allow
                | K::Alter
                | K::As
                | K::Drop
                | K::From
                | K::Group
                | K::Json
                | K::Limit
                | K::NoRecursive
                | K::Of
                | K::Order
                | K::Per
                | K::Primary
                | K::Rename
                | K::Set
                | K::To
                | K::Using
                | K::Where
                | K::With
        ),
        TokenKind::Symbol(symbol) => matches!(symbol, S::ParenOpen | S::Semicolon),
        kind => kind == TokenKind::Eof,
    }
}

/// After the name of an index.
pub(super) fn follows_index(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Symbol(S::Semicolon) | TokenKind::Eof)
}

/// After the name of a function that is not called.
pub(super) fn follows_function_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Symbol(symbol) => matches!(symbol, S::ParenOpen | S::Semicolon),
        kind => matches!(kind, TokenKind::Keyword(K::With) | TokenKind::Eof),
    }
}

/// After a type.
pub(super) fn follows_type(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Keyword(keyword) => {
            matches!(keyword, K::FinalFunc | K::InitCond | K::Language | K::Masked | K::Primary | K::Static)
        }
        TokenKind::Symbol(symbol) => matches!(symbol, S::ParenClose | S::Comma | S::Semicolon | S::Greater),
        kind => kind == TokenKind::Eof,
    }
}

/// After a column or a marker of a select clause, modifiers aside.
pub(super) fn follows_selector(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Keyword(keyword) => {
            matches!(keyword, K::Allow | K::As | K::From | K::Limit | K::Order | K::Per)
        }
        TokenKind::Symbol(symbol) => matches!(
            symbol,
            S::Percent
                | S::ParenClose
                | S::Plus
                | S::Comma
                | S::Minus
                | S::Slash
                | S::Colon
                | S::Semicolon
                | S::BracketOpen
                | S::Star
                | S::BracketClose
                | S::BraceClose
        ),
        kind => kind == TokenKind::Eof,
    }
}

/// After a term with all its operators, and not as an operator.
pub(super) fn follows_term(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Keyword(keyword) => matches!(
            keyword,
            K::Allow
                | K::And
                | K::Apply
                | K::Asc
                | K::Delete
                | K::Desc
                | K::Group
                | K::If
                | K::Insert
                | K::Limit
                | K::Order
                | K::Per
                | K::Primary
                | K::Update
                | K::Where
        ),
        TokenKind::Symbol(symbol) => matches!(
            symbol,
            S::Range | S::ParenClose | S::Comma | S::Colon | S::Semicolon | S::BracketClose | S::BraceClose
        ),
        kind => matches!(kind, TokenKind::Eof | TokenKind::Error),
    }
}

/// After a marker in place of a simple term.
pub(super) fn follows_simple_term(kind: TokenKind) -> bool {
    follows_term(kind)
        || matches!(
            kind,
            TokenKind::Keyword(K::As)
                | TokenKind::Symbol(S::Percent | S::Plus | S::Minus | S::Slash | S::Star)
        )
}
