//! Types.

use super::follow::follows_type;
use super::names::is_name;
use super::{Parsed, Parser};
use crate::ast::{CqlType, NativeType};
use crate::keywords::{Keyword, KeywordClass};
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// A type.
    pub(super) fn cql_type(&mut self) -> Parsed<CqlType> {
        self.nested(Self::cql_type_unbounded)
    }

    fn cql_type_unbounded(&mut self) -> Parsed<CqlType> {
        match self.kind() {
            TokenKind::String => Ok(CqlType::Custom(self.string()?)),
            TokenKind::Keyword(keyword) => match keyword {
                Keyword::Set => self.parameters(Self::set_type),
                _ if keyword.class() == KeywordClass::Reserved => Err(self.no_viable()),
                _ if self.glance() == TokenKind::Symbol(Symbol::Dot) => self.user_type(),
                _ if self.glance() != TokenKind::Symbol(Symbol::Less) => self.plain_type(keyword),
                Keyword::List => self.parameters(|parser| Ok(CqlType::List(Box::new(parser.cql_type()?)))),
                Keyword::Map => self.parameters(Self::map_type),
                Keyword::Tuple => self.parameters(|parser| {
                    Ok(CqlType::Tuple(parser.separated(Symbol::Comma, Self::cql_type)?))
                }),
                Keyword::Vector => self.parameters(Self::vector_type),
                Keyword::Frozen => self.frozen_type(),
                _ => self.plain_type(keyword),
            },
            _ => self.user_type(),
        }
    }

    /// A type without parameters, at a keyword.
    fn plain_type(&mut self, keyword: Keyword) -> Parsed<CqlType> {
        let looks_ahead = matches!(
            keyword,
            Keyword::List | Keyword::Map | Keyword::Tuple | Keyword::Vector | Keyword::Frozen
        );
        let native = match keyword.class() {
            KeywordClass::Type(native) => Some(native),
            _ => None,
        };
        if (looks_ahead || native.is_some()) && !follows_type(self.peek()) {
            return Err(self.no_viable_ahead(1));
        }
        match native {
            Some(native) => {
                self.advance();
                Ok(CqlType::Native(native))
            }
            None => self.user_type(),
        }
    }

    fn user_type(&mut self) -> Parsed<CqlType> {
        Ok(CqlType::UserType(self.user_type_name()?))
    }

    /// `keyword < rule >`
    fn parameters(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<CqlType>) -> Parsed<CqlType> {
        self.advance();
        self.expect(Symbol::Less)?;
        let parsed = rule(self)?;
        self.expect(Symbol::Greater)?;
        Ok(parsed)
    }

    fn set_type(&mut self) -> Parsed<CqlType> {
        Ok(CqlType::Set(Box::new(self.cql_type()?)))
    }

    fn map_type(&mut self) -> Parsed<CqlType> {
        let key = self.cql_type()?;
        self.expect(Symbol::Comma)?;
        Ok(CqlType::Map(Box::new(key), Box::new(self.cql_type()?)))
    }

    fn vector_type(&mut self) -> Parsed<CqlType> {
        let element = self.cql_type()?;
        self.expect(Symbol::Comma)?;
        let token = self.expect(TokenKind::Integer)?;
        let text = self.text(token);
        let dimension = text.parse().map_err(|_| self.not_an_int(text))?;
        Ok(CqlType::Vector(Box::new(element), dimension))
    }

    fn frozen_type(&mut self) -> Parsed<CqlType> {
        let frozen = self.parameters(Self::cql_type)?;
        match frozen {
            CqlType::Native(_) | CqlType::Custom(_) => Err(self.refused(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got {frozen})"
            ))),
            _ => Ok(CqlType::Frozen(Box::new(frozen))),
        }
    }

    /// The keyword of a native type.
    pub(super) fn native_type(&mut self) -> Parsed<NativeType> {
        if let TokenKind::Keyword(keyword) = self.kind()
            && let KeywordClass::Type(native) = keyword.class()
        {
            self.advance();
            return Ok(native);
        }
        Err(self.no_viable())
    }
}

/// Returns whether a token of this kind can start a type.
pub(super) fn starts_type(kind: TokenKind) -> bool {
    is_name(kind) || matches!(kind, TokenKind::String | TokenKind::Keyword(Keyword::Set))
}
