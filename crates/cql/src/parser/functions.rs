//! CREATE and DROP of functions and aggregates.

use super::names::is_name;
use super::types::starts_type;
use super::{Parsed, Parser};
use crate::ast::{CqlType, CreateAggregate, CreateFunction, DropFunction, Statement};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `CREATE [OR REPLACE]`
    fn create_or_replace(&mut self, or_replace: bool) -> Parsed<()> {
        self.expect(Keyword::Create)?;
        if or_replace { self.expect_all([Keyword::Or, Keyword::Replace]) } else { Ok(()) }
    }

    pub(super) fn create_function(&mut self, or_replace: bool) -> Parsed<Statement> {
        self.create_or_replace(or_replace)?;
        self.expect(Keyword::Function)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let arguments = self.delimited(Symbol::ParenOpen, Symbol::ParenClose, is_name, |parser| {
            Ok((parser.identifier()?, parser.cql_type()?))
        })?;
        let called_on_null_input = match self.kind() {
            TokenKind::Keyword(Keyword::Called) => true,
            TokenKind::Keyword(Keyword::Returns) => false,
            _ => return Err(self.no_viable()),
        };
        self.advance();
        if !called_on_null_input {
            self.expect(Keyword::Null)?;
        }
        self.expect_all([Keyword::On, Keyword::Null, Keyword::Input, Keyword::Returns])?;
        let return_type = self.cql_type()?;
        self.expect(Keyword::Language)?;
        let language = self.expect(TokenKind::Ident)?;
        let language = self.text(language).into();
        self.expect(Keyword::As)?;
        let body = self.string()?;
        Ok(Statement::CreateFunction(Box::new(CreateFunction {
            or_replace,
            if_not_exists,
            name,
            arguments,
            called_on_null_input,
            return_type,
            language,
            body,
        })))
    }

    pub(super) fn create_aggregate(&mut self, or_replace: bool) -> Parsed<Statement> {
        self.create_or_replace(or_replace)?;
        self.expect(Keyword::Aggregate)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let arguments = self.signature()?;
        self.expect(Keyword::SFunc)?;
        let state_function = self.bare_function_name()?;
        self.expect(Keyword::SType)?;
        let state_type = self.cql_type()?;
        let final_function =
            if self.eat(Keyword::FinalFunc) { Some(self.bare_function_name()?) } else { None };
        let initial_value = if self.eat(Keyword::InitCond) { Some(self.term()?) } else { None };
        Ok(Statement::CreateAggregate(Box::new(CreateAggregate {
            or_replace,
            if_not_exists,
            name,
            arguments,
            state_function,
            state_type,
            final_function,
            initial_value,
        })))
    }

    /// `(types)`
    pub(super) fn signature(&mut self) -> Parsed<Vec<CqlType>> {
        self.delimited(Symbol::ParenOpen, Symbol::ParenClose, starts_type, Self::cql_type)
    }

    pub(super) fn drop_function(&mut self) -> Parsed<Statement> {
        let token = self.advance();
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let arguments = if self.is(Symbol::ParenOpen) { Some(self.signature()?) } else { None };
        let dropped = DropFunction { name, if_exists, arguments };
        Ok(match token.kind {
            TokenKind::Keyword(Keyword::Aggregate) => Statement::DropAggregate(dropped),
            _ => Statement::DropFunction(dropped),
        })
    }
}
