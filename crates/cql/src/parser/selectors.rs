//! Selectors.

use super::expressions::opens_operand;
use super::follow::follows_selector;
use super::names::{is_function_name, is_name};
use super::terms::literal_kind;
use super::{Parsed, Parser};
use crate::ast::{ArithmeticOperator, QualifiedName, Selection, Selector};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `*`, which yields no selections, or `selector [AS name], ...`
    pub(super) fn selections(&mut self) -> Parsed<Vec<Selection>> {
        if self.eat(Symbol::Star) {
            return Ok(Vec::new());
        }
        self.separated(Symbol::Comma, |parser| {
            let selector = parser.selector()?;
            let alias = if parser.eat(Keyword::As) { Some(parser.identifier()?) } else { None };
            Ok(Selection { selector, alias })
        })
    }

    /// A selector.
    pub(super) fn selector(&mut self) -> Parsed<Selector> {
        self.nested(Self::selector_addition)
    }

    fn selector_addition(&mut self) -> Parsed<Selector> {
        let mut left = self.selector_multiplication()?;
        loop {
            let operator = match self.kind() {
                TokenKind::Symbol(Symbol::Plus) => ArithmeticOperator::Add,
                TokenKind::Symbol(Symbol::Minus) => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            left = self.operation(left, operator, Self::selector_multiplication)?;
        }
    }

    fn selector_multiplication(&mut self) -> Parsed<Selector> {
        self.product(Self::selector_sign)
    }

    fn selector_sign(&mut self) -> Parsed<Selector> {
        if self.eat(Symbol::Minus) {
            return Ok(Selector::Negated(Box::new(self.nested(Self::selector_sign)?)));
        }
        let operand = self.operand()?;
        self.predicted = self.predicted.max(Some(self.current.start));
        if !self.is(Symbol::Dot) && !self.is(Symbol::BracketOpen) {
            return Ok(operand);
        }
        // Cassandra tries the modifiers and, if they fail, reports a missing token of the follow
        // set.
        let mark = self.mark();
        match self.modifiers(operand.clone()) {
            Err(failure) if !failure.is_limit() => {
                self.reset(mark);
                Ok(operand)
            }
            parsed => parsed,
        }
    }

    /// `(.field | [element])*` after `selector`.
    fn modifiers(&mut self, mut selector: Selector) -> Parsed<Selector> {
        loop {
            match self.kind() {
                TokenKind::Symbol(Symbol::Dot) => {
                    self.link()?;
                    self.advance();
                    selector = Selector::Field(Box::new(selector), self.identifier()?);
                }
                TokenKind::Symbol(Symbol::BracketOpen) => {
                    self.link()?;
                    self.advance();
                    selector = self.sub_selection(selector)?;
                    self.expect(Symbol::BracketClose)?;
                }
                kind if follows_selector(kind) => return Ok(selector),
                _ => return Err(self.no_viable()),
            }
        }
    }

    /// `key`, `from..`, `from..to` or `..to`
    fn sub_selection(&mut self, of: Selector) -> Parsed<Selector> {
        let of = Box::new(of);
        if self.eat(Symbol::Range) {
            return Ok(Selector::Slice(of, None, Some(self.term()?)));
        }
        let from = self.term()?;
        if !self.eat(Symbol::Range) {
            return Ok(Selector::Element(of, from));
        }
        let to = if self.is(Symbol::BracketClose) { None } else { Some(self.term()?) };
        Ok(Selector::Slice(of, Some(from), to))
    }

    /// A selector without operators and modifiers.
    fn operand(&mut self) -> Parsed<Selector> {
        if let Some(literal) = self.literal() {
            return Ok(Selector::Literal(literal));
        }
        match self.kind() {
            TokenKind::Symbol(Symbol::QuestionMark) if !follows_selector(self.peek()) => {
                Err(self.no_viable_ahead(1))
            }
            TokenKind::Symbol(Symbol::QuestionMark | Symbol::Colon) => {
                Ok(Selector::BindMarker(self.bind_marker()?))
            }
            TokenKind::Symbol(Symbol::ParenOpen) => self.parenthesized_selector(),
            TokenKind::Symbol(Symbol::BracketOpen) => {
                Ok(Selector::List(self.selectors(Symbol::BracketOpen, Symbol::BracketClose)?))
            }
            TokenKind::Symbol(Symbol::BraceOpen) => self.braced_selector(),
            TokenKind::Keyword(Keyword::Null) => {
                self.advance();
                Ok(Selector::Null)
            }
            kind if is_name(kind) || is_function_name(kind) => self.named_operand(),
            _ => Err(self.no_viable()),
        }
    }

    /// A column or a function, at a name.
    fn named_operand(&mut self) -> Parsed<Selector> {
        if self.peek() == TokenKind::Symbol(Symbol::ParenOpen)
            && let TokenKind::Keyword(keyword) = self.kind()
        {
            match keyword {
                Keyword::Count if !starts_count_argument(self.peek_nth(2)) => {
                    return Err(self.no_viable_ahead(2));
                }
                Keyword::Count if self.peek_nth(2) == TokenKind::Symbol(Symbol::Star) => {
                    self.advance();
                    self.advance();
                    self.advance();
                    self.expect(Symbol::ParenClose)?;
                    return Ok(Selector::CountRows);
                }
                Keyword::WriteTime => return Ok(Selector::WriteTime(self.metadata_of()?)),
                Keyword::MaxWriteTime => return Ok(Selector::MaxWriteTime(self.metadata_of()?)),
                Keyword::Ttl => return Ok(Selector::Ttl(self.metadata_of()?)),
                Keyword::Cast => return self.cast_selector(),
                _ => {}
            }
        }
        if self.call_ahead(0) || self.is(Keyword::Token) {
            let name = if self.is(Keyword::Token) {
                QualifiedName::new(None, self.bare_function_name()?)
            } else {
                self.function_name()?
            };
            let arguments = self.selectors(Symbol::ParenOpen, Symbol::ParenClose)?;
            return Ok(Selector::Function(name, arguments));
        }
        match self.peek() {
            TokenKind::Symbol(Symbol::Dot) => {
                let field = self.peek_nth(2);
                if !is_name(field) {
                    return Err(self.no_viable_ahead(2));
                }
                let after = self.peek_nth(3);
                let ends = follows_selector(after) || after == TokenKind::Symbol(Symbol::Dot);
                if is_function_name(field) && !ends {
                    return Err(self.no_viable_ahead(3));
                }
            }
            next if !follows_selector(next) => return Err(self.no_viable_ahead(1)),
            _ => {}
        }
        Ok(Selector::Column(self.take_name()))
    }

    /// `open close` or `open selector (, selector)* close`
    fn selectors(&mut self, open: Symbol, close: Symbol) -> Parsed<Vec<Selector>> {
        self.delimited(open, close, starts_selector, Self::selector)
    }

    /// `keyword(column modifiers)`
    fn metadata_of(&mut self) -> Parsed<Box<Selector>> {
        self.advance();
        self.expect(Symbol::ParenOpen)?;
        let column = Selector::Column(self.identifier()?);
        let of = self.modifiers(column)?;
        self.expect(Symbol::ParenClose)?;
        Ok(Box::new(of))
    }

    /// `CAST(selector AS type)`
    fn cast_selector(&mut self) -> Parsed<Selector> {
        self.advance();
        self.expect(Symbol::ParenOpen)?;
        let of = self.selector()?;
        self.expect(Keyword::As)?;
        let native = self.native_type()?;
        self.expect(Symbol::ParenClose)?;
        Ok(Selector::Cast(Box::new(of), native))
    }

    /// `(type) selector`, a tuple, or a selector in parentheses.
    fn parenthesized_selector(&mut self) -> Parsed<Selector> {
        if self.type_hint_ahead(|parser| starts_operand(parser.kind())) {
            let mark = self.mark();
            self.advance();
            let hint = self.cql_type()?;
            self.expect(Symbol::ParenClose)?;
            match self.nested(Self::operand) {
                // The hint was a column in parentheses.
                Err(failure) if !failure.is_limit() => self.reset(mark),
                operand => return Ok(Selector::TypeHint(hint, Box::new(operand?))),
            }
        }
        self.advance();
        let elements = self.separated(Symbol::Comma, Self::selector)?;
        self.expect(Symbol::ParenClose)?;
        Ok(Selector::Tuple(elements))
    }

    /// `{}`, a set, or a map.
    fn braced_selector(&mut self) -> Parsed<Selector> {
        self.advance();
        if self.eat(Symbol::BraceClose) {
            return Ok(Selector::Set(Vec::new()));
        }
        self.set_or_map(Self::selector)
    }
}

/// Returns whether a token of this kind can start a selector.
fn starts_selector(kind: TokenKind) -> bool {
    kind == TokenKind::Symbol(Symbol::Minus) || starts_operand(kind)
}

/// Returns whether a token of this kind can start a selector other than a negated one.
fn starts_operand(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Symbol(symbol) => opens_operand(symbol),
        TokenKind::Keyword(Keyword::Null) => true,
        _ => literal_kind(kind).is_some() || is_name(kind) || is_function_name(kind),
    }
}

/// Returns whether a token of this kind can come after `count(`.
fn starts_count_argument(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Symbol(Symbol::Star | Symbol::ParenClose)) || starts_selector(kind)
}
