//! Terms.

use super::expressions::opens_operand;
use super::follow::{follows_simple_term, follows_term};
use super::names::{is_function_name, is_name, is_user_type_name};
use super::{Parsed, Parser};
use crate::ast::{ArithmeticOperator, BindMarker, FunctionCall, Literal, LiteralKind, Term};
use crate::keywords::{Keyword, KeywordClass};
use crate::lexer::{Symbol, TokenKind, unquote};

/// Returns the kind of constant of a token.
pub(super) fn literal_kind(kind: TokenKind) -> Option<LiteralKind> {
    Some(match kind {
        TokenKind::String => LiteralKind::String,
        TokenKind::Integer => LiteralKind::Integer,
        TokenKind::Float | TokenKind::NegativeNaN | TokenKind::NegativeInfinity => LiteralKind::Float,
        TokenKind::Keyword(Keyword::NaN | Keyword::Infinity) => LiteralKind::Float,
        TokenKind::Boolean => LiteralKind::Boolean,
        TokenKind::Duration => LiteralKind::Duration,
        TokenKind::Uuid => LiteralKind::Uuid,
        TokenKind::Hex => LiteralKind::Hex,
        _ => return None,
    })
}

impl Parser<'_> {
    /// A term.
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.nested(Self::addition)
    }

    fn addition(&mut self) -> Parsed<Term> {
        let mut left = self.multiplication()?;
        loop {
            let operator = match self.kind() {
                // `SET c = term + c` is not an addition.
                TokenKind::Symbol(Symbol::Plus) if self.column_after_plus()? => return Ok(left),
                TokenKind::Symbol(Symbol::Plus) => ArithmeticOperator::Add,
                TokenKind::Symbol(Symbol::Minus) => ArithmeticOperator::Subtract,
                kind if follows_term(kind) => {
                    self.predicted = self.predicted.max(Some(self.current.start));
                    return Ok(left);
                }
                _ => return Err(self.no_viable()),
            };
            left = self.operation(left, operator, Self::multiplication)?;
        }
    }

    /// Returns whether a column follows the current token, and not a term.
    fn column_after_plus(&mut self) -> Parsed<bool> {
        let next = self.peek();
        if next == TokenKind::EmptyQuotedName {
            return Ok(true);
        }
        if !is_name(next) {
            return if starts_term(next) { Ok(false) } else { Err(self.no_viable_ahead(1)) };
        }
        let called = is_function_name(next) || next == TokenKind::Keyword(Keyword::Cast);
        match self.peek_nth(2) {
            TokenKind::Symbol(Symbol::Comma) | TokenKind::Keyword(Keyword::Where) => Ok(true),
            TokenKind::Symbol(Symbol::Dot) => Ok(false),
            TokenKind::Symbol(Symbol::ParenOpen) if called => Ok(false),
            _ => Err(self.no_viable_ahead(2)),
        }
    }

    fn multiplication(&mut self) -> Parsed<Term> {
        self.product(Self::sign)
    }

    fn sign(&mut self) -> Parsed<Term> {
        if self.eat(Symbol::Minus) {
            return Ok(Term::Negated(Box::new(self.simple_term()?)));
        }
        self.simple_term()
    }

    /// A term without operators.
    fn simple_term(&mut self) -> Parsed<Term> {
        if let Some(literal) = self.literal() {
            return Ok(Term::Literal(literal));
        }
        match self.kind() {
            TokenKind::Symbol(Symbol::QuestionMark) if !follows_simple_term(self.peek()) => {
                Err(self.no_viable_ahead(1))
            }
            TokenKind::Symbol(Symbol::QuestionMark | Symbol::Colon) => {
                Ok(Term::BindMarker(self.bind_marker()?))
            }
            TokenKind::Symbol(Symbol::BracketOpen) => {
                Ok(Term::List(self.terms(Symbol::BracketOpen, Symbol::BracketClose)?))
            }
            TokenKind::Symbol(Symbol::BraceOpen) => self.braced_term(),
            TokenKind::Symbol(Symbol::ParenOpen) => self.parenthesized_term(),
            TokenKind::Keyword(Keyword::Null) => {
                self.advance();
                Ok(Term::Null)
            }
            TokenKind::Keyword(Keyword::Cast) => match self.peek() {
                TokenKind::Symbol(Symbol::ParenOpen) => self.cast_term(),
                _ => self.function_term(),
            },
            kind if is_name(kind) || is_function_name(kind) => self.function_term(),
            _ => Err(self.no_viable()),
        }
    }

    fn function_term(&mut self) -> Parsed<Term> {
        let name = self.called_function_name()?;
        let arguments = self.terms(Symbol::ParenOpen, Symbol::ParenClose)?;
        Ok(Term::Function(FunctionCall { name, arguments }))
    }

    /// Consumes the current token as a constant, if it is one.
    pub(super) fn literal(&mut self) -> Option<Literal> {
        let kind = literal_kind(self.kind())?;
        let token = self.advance();
        let text = self.text(token);
        Some(match token.kind {
            TokenKind::String => Literal::new(kind, unquote(text)),
            TokenKind::NegativeNaN => Literal::new(kind, "-NaN"),
            TokenKind::NegativeInfinity => Literal::new(kind, "-Infinity"),
            TokenKind::Keyword(Keyword::NaN) => Literal::new(kind, "NaN"),
            TokenKind::Keyword(Keyword::Infinity) => Literal::new(kind, "Infinity"),
            _ => Literal::new(kind, text),
        })
    }

    /// `?` or `:name`
    pub(super) fn bind_marker(&mut self) -> Parsed<BindMarker> {
        let name = match self.kind() {
            TokenKind::Symbol(Symbol::QuestionMark) => {
                self.advance();
                None
            }
            TokenKind::Symbol(Symbol::Colon) => {
                self.advance();
                Some(self.identifier()?)
            }
            _ => return Err(self.no_viable()),
        };
        let index = self.bind_markers.len() as u32;
        self.bind_markers.push(name.clone());
        Ok(BindMarker { index, name })
    }

    /// Returns whether the current token starts a bind marker.
    pub(super) fn at_bind_marker(&self) -> bool {
        self.is(Symbol::QuestionMark) || self.is(Symbol::Colon)
    }

    /// An integer or a marker, as after LIMIT or TTL.
    pub(super) fn integer_term(&mut self) -> Parsed<Term> {
        if self.is(TokenKind::Integer) {
            let token = self.advance();
            return Ok(Term::Literal(Literal::new(LiteralKind::Integer, self.text(token))));
        }
        Ok(Term::BindMarker(self.bind_marker()?))
    }

    /// `open close` or `open term (, term)* close`
    pub(super) fn terms(&mut self, open: Symbol, close: Symbol) -> Parsed<Vec<Term>> {
        self.delimited(open, close, starts_term, Self::term)
    }

    /// `open close` or `open rule (, rule)* close`. If neither `close` nor a token for which
    /// `starts` holds comes, the error reports a missing `close`.
    pub(super) fn delimited<T>(
        &mut self,
        open: Symbol,
        close: Symbol,
        starts: impl FnOnce(TokenKind) -> bool,
        rule: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(open)?;
        if !starts(self.kind()) {
            self.expect(close)?;
            return Ok(Vec::new());
        }
        let items = self.separated(Symbol::Comma, rule)?;
        self.expect(close)?;
        Ok(items)
    }

    /// `{}`, a set, a map, or a value of a user-defined type.
    fn braced_term(&mut self) -> Parsed<Term> {
        let next = self.peek();
        if next != TokenKind::Symbol(Symbol::BraceClose) && !starts_term(next) {
            return Err(self.no_viable_ahead(1));
        }
        if is_name(next)
            && !matches!(self.peek_nth(2), TokenKind::Symbol(Symbol::Colon | Symbol::Dot | Symbol::ParenOpen))
        {
            return Err(self.no_viable_ahead(2));
        }
        self.advance();
        if self.eat(Symbol::BraceClose) {
            return Ok(Term::Set(Vec::new()));
        }
        if is_name(self.kind()) && self.peek() == TokenKind::Symbol(Symbol::Colon) {
            let fields = self.separated(Symbol::Comma, |parser| {
                let field = parser.identifier()?;
                parser.expect(Symbol::Colon)?;
                Ok((field, parser.term()?))
            })?;
            self.expect(Symbol::BraceClose)?;
            return Ok(Term::UserType(fields));
        }
        self.set_or_map(Self::term)
    }

    /// `(type) term`, or a tuple.
    fn parenthesized_term(&mut self) -> Parsed<Term> {
        if self.starts_type_hint()? {
            self.advance();
            let hint = self.cql_type()?;
            self.expect(Symbol::ParenClose)?;
            let term = self.nested(Self::simple_term)?;
            return Ok(Term::TypeHint(hint, Box::new(term)));
        }
        Ok(Term::Tuple(self.tuple_elements()?))
    }

    /// Returns whether a type hint starts at `(`, and not a tuple.
    fn starts_type_hint(&mut self) -> Parsed<bool> {
        let first = self.peek();
        if first == TokenKind::String {
            return Ok(self.type_hint_ahead(Self::at_simple_term));
        }
        if first == TokenKind::Keyword(Keyword::Set) {
            return Ok(true);
        }
        if !starts_term(first) {
            return Err(self.no_viable_ahead(1));
        }
        if !is_name(first) {
            return Ok(false);
        }
        let parameterized = matches!(
            first,
            TokenKind::Keyword(
                Keyword::List | Keyword::Map | Keyword::Tuple | Keyword::Vector | Keyword::Frozen
            )
        );
        match self.peek_nth(2) {
            TokenKind::Symbol(Symbol::ParenOpen)
                if is_function_name(first) || first == TokenKind::Keyword(Keyword::Cast) =>
            {
                Ok(false)
            }
            TokenKind::Symbol(Symbol::ParenClose) if is_type_name(first) => Ok(true),
            TokenKind::Symbol(Symbol::Less) if parameterized => Ok(true),
            TokenKind::Symbol(Symbol::Dot) => {
                let name = self.peek_nth(3);
                match self.peek_nth(4) {
                    _ if !is_user_type_name(name) => Ok(false),
                    TokenKind::Symbol(Symbol::ParenClose) => Ok(true),
                    TokenKind::Symbol(Symbol::ParenOpen) => Ok(false),
                    _ => Err(self.no_viable_ahead(4)),
                }
            }
            _ => Err(self.no_viable_ahead(2)),
        }
    }

    /// `(a, b)`, not empty.
    pub(super) fn tuple_elements(&mut self) -> Parsed<Vec<Term>> {
        self.expect(Symbol::ParenOpen)?;
        let elements = self.separated(Symbol::Comma, Self::term)?;
        self.expect(Symbol::ParenClose)?;
        Ok(elements)
    }

    /// Returns whether a type and `)` follow at `(`, and then a token for which `starts_operand`
    /// holds.
    pub(super) fn type_hint_ahead(&mut self, starts_operand: impl FnOnce(&mut Self) -> bool) -> bool {
        let next = self.peek();
        if !is_name(next) && next != TokenKind::String && next != TokenKind::Keyword(Keyword::Set) {
            return false;
        }
        let mark = self.mark();
        self.advance();
        let found = match self.cql_type() {
            Ok(_) => self.eat(Symbol::ParenClose) && starts_operand(self),
            Err(failure) => failure.is_refused(),
        };
        self.reset(mark);
        found
    }

    /// Returns whether the current token starts a simple term, and is not one that can follow a
    /// term.
    fn at_simple_term(&mut self) -> bool {
        match self.kind() {
            // `('a'): 1` is an entry of a map, not a marker.
            TokenKind::Symbol(Symbol::Colon) => is_name(self.peek()),
            TokenKind::Symbol(symbol) => opens_operand(symbol),
            TokenKind::Keyword(Keyword::Null) => true,
            TokenKind::Keyword(Keyword::Cast) => self.peek() == TokenKind::Symbol(Symbol::ParenOpen),
            kind => literal_kind(kind).is_some() || self.call_ahead(0),
        }
    }

    /// `CAST(term AS type)`
    fn cast_term(&mut self) -> Parsed<Term> {
        self.advance();
        self.expect(Symbol::ParenOpen)?;
        let term = self.nested(Self::simple_term)?;
        self.expect(Keyword::As)?;
        let native = self.native_type()?;
        self.expect(Symbol::ParenClose)?;
        Ok(Term::Cast(Box::new(term), native))
    }
}

/// Returns whether a token of this kind can start a term.
pub(super) fn starts_term(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Symbol(symbol) => symbol == Symbol::Minus || opens_operand(symbol),
        TokenKind::Keyword(Keyword::Null) => true,
        _ => literal_kind(kind).is_some() || is_name(kind) || is_function_name(kind),
    }
}

/// Returns whether a token of this kind can be a complete type.
fn is_type_name(kind: TokenKind) -> bool {
    let native =
        matches!(kind, TokenKind::Keyword(keyword) if matches!(keyword.class(), KeywordClass::Type(_)));
    native || is_user_type_name(kind)
}
