//! Terms.

use super::names::{is_function_name, is_name};
use super::{Parsed, Parser};
use crate::ast::{ArithmeticOperator, BindMarker, FunctionCall, Literal, LiteralKind, Term};
use crate::lexer::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind, unquote};

/// The kind of constant that a token of this kind is.
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
                // `SET c = term + c` is no addition
                TokenKind::Symbol(Symbol::Plus) if !self.column_after_plus() => ArithmeticOperator::Add,
                TokenKind::Symbol(Symbol::Minus) => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            self.link()?;
            self.advance();
            left = Term::Arithmetic(Box::new(left), operator, Box::new(self.multiplication()?));
        }
    }

    /// Whether a name follows the current token that is not a function's.
    fn column_after_plus(&mut self) -> bool {
        let next = self.peek();
        (is_name(next) || next == TokenKind::EmptyQuotedName)
            && next != TokenKind::Keyword(Keyword::Cast)
            && !self.call_ahead(1)
    }

    fn multiplication(&mut self) -> Parsed<Term> {
        let mut left = self.sign()?;
        loop {
            let operator = match self.kind() {
                TokenKind::Symbol(Symbol::Star) => ArithmeticOperator::Multiply,
                TokenKind::Symbol(Symbol::Slash) => ArithmeticOperator::Divide,
                TokenKind::Symbol(Symbol::Percent) => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            self.link()?;
            self.advance();
            left = Term::Arithmetic(Box::new(left), operator, Box::new(self.sign()?));
        }
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
            TokenKind::Symbol(Symbol::QuestionMark | Symbol::Colon) => {
                Ok(Term::BindMarker(self.bind_marker()?))
            }
            TokenKind::Symbol(Symbol::BracketOpen) => {
                Ok(Term::List(self.delimited(Symbol::BracketOpen, Symbol::BracketClose, Self::term)?))
            }
            TokenKind::Symbol(Symbol::BraceOpen) => self.braced_term(),
            TokenKind::Symbol(Symbol::ParenOpen) => self.parenthesized_term(),
            TokenKind::Keyword(Keyword::Null) => {
                self.advance();
                Ok(Term::Null)
            }
            TokenKind::Keyword(Keyword::Cast) if self.peek() == TokenKind::Symbol(Symbol::ParenOpen) => {
                self.cast_term()
            }
            kind if is_name(kind) || is_function_name(kind) => {
                let name = self.function_name()?;
                let arguments = self.delimited(Symbol::ParenOpen, Symbol::ParenClose, Self::term)?;
                Ok(Term::Function(FunctionCall { name, arguments }))
            }
            _ => Err(self.no_viable()),
        }
    }

    /// The current token as a constant, if it is one.
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

    /// Whether the current token starts a bind marker.
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

    /// `open close` or `open rule (, rule)* close`
    pub(super) fn delimited<T>(
        &mut self,
        open: Symbol,
        close: Symbol,
        rule: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.separated(Symbol::Comma, rule)?;
        self.expect(close)?;
        Ok(items)
    }

    /// `{}`, a set, a map, or a value of a user-defined type.
    fn braced_term(&mut self) -> Parsed<Term> {
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
        let first = self.term()?;
        if !self.eat(Symbol::Colon) {
            let mut elements = vec![first];
            while self.eat(Symbol::Comma) {
                elements.push(self.term()?);
            }
            self.expect(Symbol::BraceClose)?;
            return Ok(Term::Set(elements));
        }
        let mut entries = vec![(first, self.term()?)];
        while self.eat(Symbol::Comma) {
            let key = self.term()?;
            self.expect(Symbol::Colon)?;
            entries.push((key, self.term()?));
        }
        self.expect(Symbol::BraceClose)?;
        Ok(Term::Map(entries))
    }

    /// `(type) term`, or a tuple.
    fn parenthesized_term(&mut self) -> Parsed<Term> {
        if self.type_hint_ahead(Self::at_simple_term) {
            self.advance();
            let hint = self.cql_type()?;
            self.expect(Symbol::ParenClose)?;
            let term = self.nested(Self::simple_term)?;
            return Ok(Term::TypeHint(hint, Box::new(term)));
        }
        Ok(Term::Tuple(self.tuple_elements()?))
    }

    /// `(a, b)`, not empty.
    pub(super) fn tuple_elements(&mut self) -> Parsed<Vec<Term>> {
        self.expect(Symbol::ParenOpen)?;
        let elements = self.separated(Symbol::Comma, Self::term)?;
        self.expect(Symbol::ParenClose)?;
        Ok(elements)
    }

    /// Whether, at `(`, a type follows, and `)`, and then what `starts_operand` admits.
    pub(super) fn type_hint_ahead(&mut self, starts_operand: impl FnOnce(&mut Self) -> bool) -> bool {
        let next = self.peek();
        if !is_name(next) && next != TokenKind::String && next != TokenKind::Keyword(Keyword::Set) {
            return false;
        }
        let mark = self.mark();
        self.advance();
        let found = self.cql_type().is_ok() && self.eat(Symbol::ParenClose) && starts_operand(self);
        self.reset(mark);
        found
    }

    /// Whether the current token starts a simple term.
    fn at_simple_term(&mut self) -> bool {
        match self.kind() {
            TokenKind::Symbol(symbol) => matches!(
                symbol,
                Symbol::QuestionMark
                    | Symbol::Colon
                    | Symbol::BracketOpen
                    | Symbol::BraceOpen
                    | Symbol::ParenOpen
            ),
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
