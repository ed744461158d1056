//! The language: statements, parser, literals and how values are written; no I/O.
//!
//! [`parse`] turns the text of one statement into a [`ParsedStatement`], plain data that is faithful to what was
//! written and checked against no schema. The grammar is that of Apache Cassandra 5.0.8; what it refuses is
//! refused with a [`SyntaxError`] of Cassandra's shape.

pub mod ast;
pub mod error;
pub mod lexer;
pub mod parser;
mod statements;
pub mod values;

pub use ast::{ParsedStatement, Statement, quote_identifier, quote_string};
pub use error::SyntaxError;
pub use parser::{parse, parse_term, parse_type};
pub use statements::split_statements;
