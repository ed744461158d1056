//! DESCRIBE.

use super::names::{is_function_name, is_name};
use super::{Parsed, Parser};
use crate::ast::{Describe, DescribeTarget, QualifiedName};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Parsed<Describe> {
        self.advance();
        let target = self.describe_target()?;
        let with_internals = self.optional([Keyword::With, Keyword::Internals])?;
        Ok(Describe { target, with_internals })
    }

    fn describe_target(&mut self) -> Parsed<DescribeTarget> {
        let TokenKind::Keyword(keyword) = self.kind() else { return self.describe_any() };
        let plural = match keyword {
            Keyword::Cluster => Some(DescribeTarget::Cluster),
            Keyword::Keyspaces => Some(DescribeTarget::Keyspaces),
            Keyword::Tables => Some(DescribeTarget::Tables),
            Keyword::Types => Some(DescribeTarget::Types),
            Keyword::Functions => Some(DescribeTarget::Functions),
            Keyword::Aggregates => Some(DescribeTarget::Aggregates),
            _ => None,
        };
        if let Some(target) = plural {
            self.advance();
            self.predicted = self.predicted.max(Some(self.current.start));
            return Ok(target);
        }
        // These require a name after them; without one they are names themselves.
        let named = matches!(keyword, Keyword::Type | Keyword::Function | Keyword::Aggregate)
            && !follows_any(self.peek());
        match keyword {
            Keyword::Schema => {
                self.advance();
                Ok(DescribeTarget::Schema { full: false })
            }
            Keyword::Full => {
                self.advance();
                self.expect(Keyword::Schema)?;
                Ok(DescribeTarget::Schema { full: true })
            }
            Keyword::Keyspace => self.describe_keyspace(false),
            Keyword::Only if self.peek() == TokenKind::Keyword(Keyword::Keyspace) => {
                self.advance();
                self.describe_keyspace(true)
            }
            Keyword::ColumnFamily => {
                self.advance();
                Ok(DescribeTarget::Table(self.table_name()?))
            }
            Keyword::Index => {
                self.advance();
                Ok(DescribeTarget::Index(self.table_name()?))
            }
            Keyword::Materialized => {
                self.advance();
                self.expect(Keyword::View)?;
                Ok(DescribeTarget::View(self.table_name()?))
            }
            Keyword::Type | Keyword::Function | Keyword::Aggregate
                if named && !is_name(self.peek()) && !is_function_name(self.peek()) =>
            {
                Err(self.no_viable_ahead(1))
            }
            Keyword::Type if named => {
                self.advance();
                Ok(DescribeTarget::Type(self.user_type_name()?))
            }
            Keyword::Function if named => {
                self.advance();
                Ok(DescribeTarget::Function(self.function_name()?))
            }
            Keyword::Aggregate if named => {
                self.advance();
                Ok(DescribeTarget::Aggregate(self.function_name()?))
            }
            _ => self.describe_any(),
        }
    }

    fn describe_keyspace(&mut self, only: bool) -> Parsed<DescribeTarget> {
        self.expect(Keyword::Keyspace)?;
        let named = is_name(self.kind()) || self.is(Symbol::QuestionMark);
        let name = if named { Some(self.keyspace_name()?) } else { None };
        Ok(DescribeTarget::Keyspace { only, name })
    }

    fn describe_any(&mut self) -> Parsed<DescribeTarget> {
        if !is_name(self.kind()) {
            return Err(self.no_viable());
        }
        if !follows_any(self.peek()) {
            return Err(self.no_viable_ahead(1));
        }
        let first = self.take_name();
        if self.eat(Symbol::Dot) {
            return Ok(DescribeTarget::Any(QualifiedName::new(Some(first), self.identifier()?)));
        }
        Ok(DescribeTarget::Any(QualifiedName::new(None, first)))
    }
}

/// Returns whether a token of this kind can follow the bare name of what is described.
fn follows_any(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Keyword(Keyword::With)
            | TokenKind::Symbol(Symbol::Dot | Symbol::Semicolon)
            | TokenKind::Eof
    )
}
