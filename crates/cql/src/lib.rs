//! The language: statements, parser, literals and the text of values; no I/O.
//!
//! [`parse`] turns the text of one statement into a [`ParsedStatement`], plain data that is
//! faithful to the text and not checked against a schema. The grammar is that of Apache Cassandra
//! 5.0.8; text that it rejects is rejected with a [`SyntaxError`] of Cassandra's form.

pub mod ast;
pub mod error;
pub mod keywords;
pub mod lexer;
mod native_type;
mod obscure;
pub mod parser;
mod statements;
mod subject;
pub mod values;

pub use ast::{ParsedStatement, Statement, quote_identifier, quote_string};
pub use error::SyntaxError;
pub use obscure::{obscure_password_literals, obscure_passwords};
pub use parser::{parse, parse_term, parse_type};
pub use statements::split_statements;
pub use subject::{StatementKind, Subject};
