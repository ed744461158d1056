//! The options after WITH.

use std::collections::HashSet;

use super::names::is_name;
use super::terms::{literal_kind, starts_term};
use super::{Parsed, Parser};
use crate::ast::{Identifier, Literal, LiteralKind, Properties, PropertyValue, Term};
use crate::keywords::{Keyword, KeywordClass};
use crate::lexer::{Symbol, TokenKind};

/// The options read so far.
#[derive(Default)]
pub(super) struct Options {
    /// In order.
    pub(super) properties: Properties,
    names: HashSet<Identifier>,
}

impl Parser<'_> {
    /// `name = value AND ...`
    pub(super) fn properties(&mut self) -> Parsed<Properties> {
        let mut options = Options::default();
        loop {
            self.property(&mut options)?;
            if !self.eat(Keyword::And) {
                return Ok(options.properties);
            }
        }
    }

    /// `name = value`
    pub(super) fn property(&mut self, options: &mut Options) -> Parsed<()> {
        if !is_name(self.kind()) {
            return Err(self.no_viable());
        }
        if self.peek() != TokenKind::Symbol(Symbol::Equal) {
            return Err(self.no_viable_ahead(1));
        }
        if !starts_value(self.peek_nth(2)) {
            return Err(self.no_viable_ahead(2));
        }
        let name = self.take_name();
        self.advance();
        let value = if self.is(Symbol::BraceOpen) {
            PropertyValue::Map(self.property_map()?)
        } else {
            PropertyValue::Simple(self.property_literal()?)
        };
        if !options.names.insert(name.clone()) {
            let name = name.as_str();
            return Err(self.refused(format!("Multiple definitions for property '{name}'")));
        }
        options.properties.0.push((name, value));
        Ok(())
    }

    /// A constant, or an unreserved keyword.
    fn property_literal(&mut self) -> Parsed<Literal> {
        if literal_kind(self.kind()).is_some()
            && let Some(literal) = self.literal()
        {
            return Ok(literal);
        }
        match self.kind() {
            TokenKind::Keyword(keyword) if keyword.class() != KeywordClass::Reserved => {
                let token = self.advance();
                Ok(Literal::new(LiteralKind::String, self.text(token)))
            }
            _ => Err(self.no_viable()),
        }
    }

    /// `{literal: literal, ...}`
    pub(super) fn property_map(&mut self) -> Parsed<Vec<(Box<str>, Box<str>)>> {
        let mut entries: Vec<(Box<str>, Box<str>)> = Vec::new();
        let mut keys = HashSet::new();
        let pairs = self.delimited(Symbol::BraceOpen, Symbol::BraceClose, starts_term, |parser| {
            let key = parser.term()?;
            parser.expect(Symbol::Colon)?;
            Ok((key, parser.term()?))
        })?;
        for (key, value) in pairs {
            let show = |term: &Term| match term {
                Term::BindMarker(_) => "? (bind variables are not supported in DDL queries)".to_string(),
                _ => term.to_string(),
            };
            let (key, value) = match (key, value) {
                (Term::Literal(key), Term::Literal(value)) => (key.text, value.text),
                (key @ Term::Literal(_), Term::BindMarker(_)) => {
                    let message = format!(
                        "Invalid property value: ? for property: {key} (bind variables are not supported in \
                         DDL queries)"
                    );
                    return Err(self.refused(message));
                }
                (key @ Term::Literal(_), value) => {
                    return Err(self.refused(format!("Invalid property value: {value} for property: {key}")));
                }
                (key, _) => return Err(self.refused(format!("Invalid property name: {}", show(&key)))),
            };
            if !keys.insert(key.clone()) {
                return Err(self.refused(format!("Multiple definition for property {key}")));
            }
            entries.push((key, value));
        }
        Ok(entries)
    }
}

/// Returns whether a token of this kind can start the value of an option.
fn starts_value(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Keyword(keyword) => {
            keyword.class() != KeywordClass::Reserved || matches!(keyword, Keyword::NaN | Keyword::Infinity)
        }
        kind => kind == TokenKind::Symbol(Symbol::BraceOpen) || literal_kind(kind).is_some(),
    }
}
