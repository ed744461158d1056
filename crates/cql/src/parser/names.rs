//! Names of all kinds. They differ in the keywords that they admit.

use super::follow::{follows_function_name, follows_index, follows_table};
use super::terms::starts_term;
use super::{Parsed, Parser};
use crate::ast::{Identifier, QualifiedName};
use crate::keywords::{Keyword, KeywordClass, RESERVED_TYPE_NAMES};
use crate::lexer::{Symbol, TokenKind, unquote};

/// Returns whether a token of this kind can be a name: a word, a quoted name, or an unreserved
/// keyword.
pub(super) fn is_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => keyword.class() != KeywordClass::Reserved,
        _ => false,
    }
}

/// Returns whether a token of this kind can be the name of a function.
pub(super) fn is_function_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(Keyword::Token | Keyword::Count) => true,
        TokenKind::Keyword(keyword) => matches!(keyword.class(), KeywordClass::Basic | KeywordClass::Type(_)),
        _ => false,
    }
}

/// Returns whether a token of this kind can be the name of a user-defined type.
pub(super) fn is_user_type_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(keyword) => keyword == Keyword::Key || keyword.class() == KeywordClass::Basic,
        _ => false,
    }
}

impl Parser<'_> {
    /// A column, field, argument, option: any name.
    pub(super) fn identifier(&mut self) -> Parsed<Identifier> {
        if is_name(self.kind()) { Ok(self.take_name()) } else { Err(self.no_viable()) }
    }

    /// A column in a position where its name can also be `""`.
    pub(super) fn column(&mut self) -> Parsed<Identifier> {
        if self.eat(TokenKind::EmptyQuotedName) {
            return Ok(Identifier::from(""));
        }
        self.identifier()
    }

    /// Returns whether the current token can be a column.
    pub(super) fn at_column(&self) -> bool {
        is_name(self.kind()) || self.is(TokenKind::EmptyQuotedName)
    }

    /// Consumes the current token as a name: quoted verbatim, otherwise in lower case.
    pub(super) fn take_name(&mut self) -> Identifier {
        let token = self.advance();
        let text = self.text(token);
        if token.kind == TokenKind::QuotedName {
            return Identifier::new(unquote(text));
        }
        let mut text: Box<str> = text.into();
        text.make_ascii_lowercase();
        Identifier::new(text)
    }

    /// A keyspace.
    pub(super) fn keyspace_name(&mut self) -> Parsed<Identifier> {
        self.schema_name("keyspace")
    }

    /// `[keyspace.]table`
    pub(super) fn table_name(&mut self) -> Parsed<QualifiedName> {
        self.qualified_name("table", follows_table)
    }

    /// `[keyspace.]index`
    pub(super) fn index_name(&mut self) -> Parsed<QualifiedName> {
        self.qualified_name("index", follows_index)
    }

    fn qualified_name(&mut self, what: &str, follows: fn(TokenKind) -> bool) -> Parsed<QualifiedName> {
        let mut keyspace = None;
        if is_name(self.kind()) || self.is(Symbol::QuestionMark) {
            match self.peek() {
                TokenKind::Symbol(Symbol::Dot) => {
                    keyspace = Some(self.keyspace_name()?);
                    self.advance();
                }
                next if !follows(next) => return Err(self.no_viable_ahead(1)),
                _ => {}
            }
        }
        Ok(QualifiedName { keyspace, name: self.schema_name(what)? })
    }

    /// The name of a schema element; a bind marker in its place has a specific error.
    pub(super) fn schema_name(&mut self, what: &str) -> Parsed<Identifier> {
        if self.is(Symbol::QuestionMark) {
            return Err(self.refused(format!("Bind variables cannot be used for {what} names")));
        }
        self.identifier()
    }

    /// `[keyspace.]type`
    pub(super) fn user_type_name(&mut self) -> Parsed<QualifiedName> {
        if is_name(self.kind()) && self.glance() == TokenKind::Symbol(Symbol::Dot) {
            let keyspace = self.take_name();
            self.advance();
            return Ok(QualifiedName { keyspace: Some(keyspace), name: self.bare_type_name(true)? });
        }
        Ok(QualifiedName { keyspace: None, name: self.bare_type_name(false)? })
    }

    fn bare_type_name(&mut self, qualified: bool) -> Parsed<Identifier> {
        if !is_user_type_name(self.kind()) {
            return if qualified || !is_name(self.kind()) {
                Err(self.no_viable())
            } else {
                self.missing_dot()
            };
        }
        if self.is(TokenKind::Ident) && RESERVED_TYPE_NAMES.contains(&self.text(self.current)) {
            let name = self.text(self.current);
            return Err(self.refused(format!("Invalid (reserved) user type name {name}")));
        }
        Ok(self.take_name())
    }

    /// `[keyspace.]function`
    pub(super) fn function_name(&mut self) -> Parsed<QualifiedName> {
        let mut keyspace = None;
        if self.is(Symbol::QuestionMark) {
            self.keyspace_name()?;
        }
        if is_name(self.kind()) {
            match self.peek() {
                TokenKind::Symbol(Symbol::Dot) => {
                    keyspace = Some(self.keyspace_name()?);
                    self.advance();
                }
                _ if !is_function_name(self.kind()) => return self.missing_dot(),
                next if !follows_function_name(next) => return Err(self.no_viable_ahead(1)),
                _ => {}
            }
        }
        Ok(QualifiedName { keyspace, name: self.bare_function_name()? })
    }

    /// Fails at the token after a name that can only be a keyspace's.
    fn missing_dot<T>(&mut self) -> Parsed<T> {
        self.advance();
        Err(self.mismatched(Symbol::Dot.into()))
    }

    /// `[keyspace.]function`, which must be followed by `(`.
    pub(super) fn called_function_name(&mut self) -> Parsed<QualifiedName> {
        let broken_off_at = match self.peek() {
            TokenKind::Symbol(Symbol::ParenOpen) if is_function_name(self.kind()) => self.call_breaks_off(2),
            TokenKind::Symbol(Symbol::Dot) if is_name(self.kind()) => {
                if !is_function_name(self.peek_nth(2)) {
                    Some(2)
                } else if self.peek_nth(3) != TokenKind::Symbol(Symbol::ParenOpen) {
                    Some(3)
                } else {
                    self.call_breaks_off(4)
                }
            }
            _ => Some(1),
        };
        match broken_off_at {
            Some(n) => Err(self.no_viable_ahead(n)),
            None => self.function_name(),
        }
    }

    /// Returns `Some(n)` if the `n`th token ahead, after a call's `(`, neither starts an argument
    /// nor ends the call.
    fn call_breaks_off(&mut self, n: usize) -> Option<usize> {
        let next = self.peek_nth(n);
        (next != TokenKind::Symbol(Symbol::ParenClose) && !starts_term(next)).then_some(n)
    }

    pub(super) fn bare_function_name(&mut self) -> Parsed<Identifier> {
        if is_function_name(self.kind()) { Ok(self.take_name()) } else { Err(self.no_viable()) }
    }

    /// Returns whether a function call starts `n` tokens after the current one: `name (` or
    /// `keyspace . name (`.
    pub(super) fn call_ahead(&mut self, n: usize) -> bool {
        let kind = |parser: &mut Self, n| if n == 0 { parser.kind() } else { parser.peek_nth(n) };
        let first = kind(self, n);
        if !is_name(first) && !is_function_name(first) {
            return false;
        }
        match self.peek_nth(n + 1) {
            TokenKind::Symbol(Symbol::ParenOpen) => is_function_name(first),
            TokenKind::Symbol(Symbol::Dot) => {
                is_name(first)
                    && is_function_name(self.peek_nth(n + 2))
                    && self.peek_nth(n + 3) == TokenKind::Symbol(Symbol::ParenOpen)
            }
            _ => false,
        }
    }

    /// The content of a string literal.
    pub(super) fn string(&mut self) -> Parsed<Box<str>> {
        let token = self.expect(TokenKind::String)?;
        Ok(unquote(self.text(token)).into())
    }
}
