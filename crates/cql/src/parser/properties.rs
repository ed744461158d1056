//! The options after WITH.

use super::terms::literal_kind;
use super::{Parsed, Parser};
use crate::ast::{Literal, LiteralKind, Properties, PropertyValue, Term};
use crate::lexer::keywords::{Keyword, KeywordClass};
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `name = value AND ...`
    pub(super) fn properties(&mut self) -> Parsed<Properties> {
        let mut properties = Properties::default();
        loop {
            self.property(&mut properties)?;
            if !self.eat(Keyword::And) {
                return Ok(properties);
            }
        }
    }

    /// `name = value`
    pub(super) fn property(&mut self, properties: &mut Properties) -> Parsed<()> {
        let name = self.identifier()?;
        self.expect(Symbol::Equal)?;
        let value = if self.is(Symbol::BraceOpen) {
            PropertyValue::Map(self.property_map()?)
        } else {
            PropertyValue::Simple(self.property_literal()?)
        };
        if properties.get(&name).is_some() {
            let name = name.as_str();
            return Err(self.refused(format!("Multiple definitions for property '{name}'")));
        }
        properties.0.push((name, value));
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
        let pairs = self.delimited(Symbol::BraceOpen, Symbol::BraceClose, |parser| {
            let key = parser.term()?;
            parser.expect(Symbol::Colon)?;
            Ok((key, parser.term()?))
        })?;
        for (key, value) in pairs {
            let hint = |term: &Term| match term {
                Term::BindMarker(_) => " (bind variables are not supported in DDL queries)",
                _ => "",
            };
            let (key, value) = match (key, value) {
                (Term::Literal(key), Term::Literal(value)) => (key.text, value.text),
                (key @ Term::Literal(_), value) => {
                    let message =
                        format!("Invalid property value: {value} for property: {key}{}", hint(&value));
                    return Err(self.refused(message));
                }
                (key, _) => return Err(self.refused(format!("Invalid property name: {key}{}", hint(&key)))),
            };
            if entries.iter().any(|(earlier, _)| *earlier == key) {
                return Err(self.refused(format!("Multiple definition for property {key}")));
            }
            entries.push((key, value));
        }
        Ok(entries)
    }
}
