//! Shared rules of terms and selectors: products, and collections in braces.

use super::{Parsed, Parser};
use crate::ast::{ArithmeticOperator, Selector, Term};
use crate::lexer::{Symbol, TokenKind};

/// Terms and selectors, the operands of operators.
pub(super) trait Expression: Sized {
    /// `left operator right`
    fn arithmetic(left: Self, operator: ArithmeticOperator, right: Self) -> Self;
    /// `{elements}`
    fn set(elements: Vec<Self>) -> Self;
    /// `{key: value, …}`
    fn map(entries: Vec<(Self, Self)>) -> Self;
}

impl Expression for Term {
    fn arithmetic(left: Self, operator: ArithmeticOperator, right: Self) -> Self {
        Self::Arithmetic(Box::new(left), operator, Box::new(right))
    }

    fn set(elements: Vec<Self>) -> Self {
        Self::Set(elements)
    }

    fn map(entries: Vec<(Self, Self)>) -> Self {
        Self::Map(entries)
    }
}

impl Expression for Selector {
    fn arithmetic(left: Self, operator: ArithmeticOperator, right: Self) -> Self {
        Self::Arithmetic(Box::new(left), operator, Box::new(right))
    }

    fn set(elements: Vec<Self>) -> Self {
        Self::Set(elements)
    }

    fn map(entries: Vec<(Self, Self)>) -> Self {
        Self::MapOrUserType(entries)
    }
}

impl Parser<'_> {
    /// `factor ((* | / | %) factor)*`
    pub(super) fn product<E: Expression>(&mut self, factor: fn(&mut Self) -> Parsed<E>) -> Parsed<E> {
        let mut left = factor(self)?;
        loop {
            let operator = match self.kind() {
                TokenKind::Symbol(Symbol::Star) => ArithmeticOperator::Multiply,
                TokenKind::Symbol(Symbol::Slash) => ArithmeticOperator::Divide,
                TokenKind::Symbol(Symbol::Percent) => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            left = self.operation(left, operator, factor)?;
        }
    }

    /// `left operator right`, at the operator.
    pub(super) fn operation<E: Expression>(
        &mut self,
        left: E,
        operator: ArithmeticOperator,
        right: impl FnOnce(&mut Self) -> Parsed<E>,
    ) -> Parsed<E> {
        self.link()?;
        self.advance();
        Ok(E::arithmetic(left, operator, right(self)?))
    }

    /// A set or a map of one element or more, after its brace.
    pub(super) fn set_or_map<E: Expression>(&mut self, item: fn(&mut Self) -> Parsed<E>) -> Parsed<E> {
        let first = item(self)?;
        if !self.at_collection_separator() {
            return Err(self.no_viable());
        }
        if !self.eat(Symbol::Colon) {
            let mut elements = vec![first];
            while self.eat(Symbol::Comma) {
                elements.push(item(self)?);
            }
            self.expect(Symbol::BraceClose)?;
            return Ok(E::set(elements));
        }
        let mut entries = vec![(first, item(self)?)];
        while self.eat(Symbol::Comma) {
            let key = item(self)?;
            self.expect(Symbol::Colon)?;
            entries.push((key, item(self)?));
        }
        self.expect(Symbol::BraceClose)?;
        Ok(E::map(entries))
    }

    /// Returns whether the current token can follow the first element of a set or map.
    fn at_collection_separator(&self) -> bool {
        matches!(self.kind(), TokenKind::Symbol(Symbol::Colon | Symbol::Comma | Symbol::BraceClose))
    }
}

/// Returns whether a symbol opens a simple term or a selector without operators.
pub(super) fn opens_operand(symbol: Symbol) -> bool {
    matches!(
        symbol,
        Symbol::QuestionMark | Symbol::Colon | Symbol::BracketOpen | Symbol::BraceOpen | Symbol::ParenOpen
    )
}
