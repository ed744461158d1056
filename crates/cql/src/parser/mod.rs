//! A recursive-descent parser. Every method parses one rule of Cassandra's grammar from the current
//! token on and leaves the current token after it; `failure` formats the errors.

mod describe;
mod expressions;
mod failure;
mod follow;
mod functions;
mod modification;
mod names;
mod permissions;
mod properties;
mod relations;
mod roles;
mod schema;
mod select;
mod selectors;
mod tables;
mod terms;
mod types;

use cassette_rows::interrupt::{self, Interrupted};
use failure::{Failure, FailureKind};

use crate::ast::{CqlType, Identifier, ParsedStatement, Statement, Term};
use crate::error::SyntaxError;
use crate::keywords::Keyword;
use crate::lexer::{Lexer, Symbol, Token, TokenKind};

/// The maximum length of a statement, in bytes. The native protocol's frames end at 256 MiB; tokens
/// store 32-bit offsets.
pub const STATEMENT_BYTES_MAX: usize = 256 << 20;

/// The maximum nesting of brackets, types and relations: deeper than anything written by hand, and
/// shallow enough for the 2 MiB stack of a worker thread in a debug build.
const NESTING_MAX: u32 = 100;

/// The maximum number of operators and modifiers of an expression, all its parts together. Each
/// makes the tree one level deeper, and trees are walked and dropped recursively.
const CHAIN_MAX: u32 = 500;

/// Parses one statement, which semicolons may follow.
pub fn parse(source: &str) -> Result<ParsedStatement, SyntaxError> {
    let mut parser = Parser::new(source)?;
    let statement = parser.statement().and_then(|statement| parser.end_of_statement().map(|()| statement));
    if let Some(reason) = parser.interrupted {
        return Err(SyntaxError::interrupted(reason));
    }
    match statement {
        Ok(statement) => Ok(ParsedStatement { statement, bind_markers: parser.bind_markers }),
        Err(failure) => Err(parser.explain(*failure)),
    }
}

/// Parses a type, in the syntax of a column definition.
pub fn parse_type(source: &str) -> Result<CqlType, SyntaxError> {
    parse_all(source, |parser| parser.cql_type())
}

/// Parses a term. Its markers are numbered from 0.
pub fn parse_term(source: &str) -> Result<Term, SyntaxError> {
    parse_all(source, |parser| parser.term())
}

fn parse_all<T>(source: &str, rule: impl FnOnce(&mut Parser) -> Parsed<T>) -> Result<T, SyntaxError> {
    let mut parser = Parser::new(source)?;
    match rule(&mut parser).and_then(|parsed| parser.end_of_statement().map(|()| parsed)) {
        Ok(parsed) => Ok(parsed),
        Err(failure) => Err(parser.explain(*failure)),
    }
}

/// The result of a rule.
type Parsed<T> = Result<T, Box<Failure>>;

struct Parser<'a> {
    source: &'a str,
    /// Continues after `next`, or after `current` without a `next`.
    lexer: Lexer<'a>,
    current: Token,
    /// The token after `current`, once it was read.
    next: Option<Token>,
    /// The start of the furthest token read so far; error messages show the text around the failure
    /// only up to there, as Cassandra's do.
    furthest: u32,
    /// The start of the furthest token on which a decision was based: Cassandra's parser then reads
    /// one more.
    predicted: Option<u32>,
    bind_markers: Vec<Option<Identifier>>,
    nesting: u32,
    chain: u32,
    /// The reason for ending early.
    interrupted: Option<Interrupted>,
}

/// A position to return to after looking ahead.
struct Mark<'a> {
    lexer: Lexer<'a>,
    current: Token,
    next: Option<Token>,
    bind_markers: usize,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Result<Parser<'a>, SyntaxError> {
        if source.len() > STATEMENT_BYTES_MAX {
            let length = source.len();
            let message =
                format!("statement of {length} bytes is longer than the limit of {STATEMENT_BYTES_MAX}");
            return Err(SyntaxError { message, line: None, column: None, interrupted: None });
        }
        let mut lexer = Lexer::new(source);
        let current = lexer.next_token();
        Ok(Parser {
            source,
            lexer,
            current,
            next: None,
            furthest: current.start,
            predicted: None,
            bind_markers: Vec::new(),
            nesting: 0,
            chain: 0,
            interrupted: None,
        })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(keyword) = self.current.kind else { return Err(self.no_viable()) };
        match keyword {
            Keyword::Select => Ok(Statement::Select(Box::new(self.select()?))),
            Keyword::Insert | Keyword::Update | Keyword::Delete => {
                Ok(Statement::Modification(Box::new(self.modification()?)))
            }
            Keyword::Begin => Ok(Statement::Batch(self.batch()?)),
            Keyword::Use => {
                self.advance();
                Ok(Statement::Use(self.keyspace_name()?))
            }
            Keyword::Truncate => {
                self.advance();
                self.eat(Keyword::ColumnFamily);
                Ok(Statement::Truncate(self.table_name()?))
            }
            Keyword::Create => self.create(),
            Keyword::Alter => self.alter(),
            Keyword::Drop => self.drop(),
            Keyword::Grant => self.grant(),
            Keyword::Revoke => self.revoke(),
            Keyword::List => self.list(),
            Keyword::Add => self.add_identity(),
            Keyword::Describe | Keyword::Desc => Ok(Statement::Describe(self.describe()?)),
            _ => Err(self.no_viable()),
        }
    }

    /// `;`* and the end of the source.
    fn end_of_statement(&mut self) -> Parsed<()> {
        while self.eat(Symbol::Semicolon) {}
        match self.current.kind {
            TokenKind::Eof => Ok(()),
            _ => Err(self.mismatched(TokenKind::Eof)),
        }
    }

    // The cursor.

    fn kind(&self) -> TokenKind {
        self.current.kind
    }

    /// Advances to the next token; returns the previous one.
    fn advance(&mut self) -> Token {
        let token = self.current;
        self.current = match self.next.take() {
            Some(next) => next,
            None => self.lexer.next_token(),
        };
        self.furthest = self.furthest.max(self.current.start);
        if let Err(reason) = interrupt::check() {
            // No rule continues after this. The partial result is never returned.
            self.interrupted = Some(reason);
            self.current.kind = TokenKind::Eof;
        }
        token
    }

    /// Returns the kind of the token after the current one, as the basis of a decision.
    fn peek(&mut self) -> TokenKind {
        let kind = self.glance();
        self.predicted = self.predicted.max(self.next.map(|next| next.start));
        kind
    }

    /// Returns the kind of the token after the current one, where Cassandra's parser reads no
    /// further.
    fn glance(&mut self) -> TokenKind {
        let next = match self.next {
            Some(next) => next,
            None => {
                let next = self.lexer.next_token();
                self.furthest = self.furthest.max(next.start);
                self.next = Some(next);
                next
            }
        };
        next.kind
    }

    /// Returns the `n`th token after the current one, `n` at least 1.
    fn peek_token(&mut self, n: usize) -> Token {
        self.peek();
        let mut token = self.next.unwrap_or(self.current);
        let mut lexer = self.lexer;
        for _ in 1..n {
            token = lexer.next_token();
        }
        self.furthest = self.furthest.max(token.start);
        self.predicted = self.predicted.max(Some(token.start));
        token
    }

    /// Returns the kind of the `n`th token after the current one, `n` at least 1.
    fn peek_nth(&mut self, n: usize) -> TokenKind {
        self.peek_token(n).kind
    }

    fn is(&self, kind: impl Into<TokenKind>) -> bool {
        self.current.kind == kind.into()
    }

    /// Consumes the current token if it is of this kind; returns whether it was.
    fn eat(&mut self, kind: impl Into<TokenKind>) -> bool {
        let found = self.is(kind);
        if found {
            self.advance();
        }
        found
    }

    /// Consumes the current token, which must be of this kind.
    fn expect(&mut self, kind: impl Into<TokenKind>) -> Parsed<Token> {
        let kind = kind.into();
        if self.current.kind == kind { Ok(self.advance()) } else { Err(self.mismatched(kind)) }
    }

    fn expect_all<const N: usize>(&mut self, keywords: [Keyword; N]) -> Parsed<()> {
        for keyword in keywords {
            self.expect(keyword)?;
        }
        Ok(())
    }

    /// `rule (separator rule)*`
    fn separated<T>(
        &mut self,
        separator: impl Into<TokenKind>,
        mut rule: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let separator = separator.into();
        let mut items = vec![rule(self)?];
        while self.eat(separator) {
            items.push(rule(self)?);
        }
        Ok(items)
    }

    /// `[keywords]`: all of them, if the first is present.
    fn optional<const N: usize>(&mut self, keywords: [Keyword; N]) -> Parsed<bool> {
        if !self.is(keywords[0]) {
            return Ok(false);
        }
        self.expect_all(keywords)?;
        Ok(true)
    }

    fn if_exists(&mut self) -> Parsed<bool> {
        self.optional([Keyword::If, Keyword::Exists])
    }

    fn if_not_exists(&mut self) -> Parsed<bool> {
        self.optional([Keyword::If, Keyword::Not, Keyword::Exists])
    }

    fn text(&self, token: Token) -> &'a str {
        self.source.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    fn mark(&self) -> Mark<'a> {
        Mark {
            lexer: self.lexer,
            current: self.current,
            next: self.next,
            bind_markers: self.bind_markers.len(),
        }
    }

    fn reset(&mut self, mark: Mark<'a>) {
        self.lexer = mark.lexer;
        self.current = mark.current;
        self.next = mark.next;
        self.bind_markers.truncate(mark.bind_markers);
    }

    /// Runs `rule` one nesting level deeper, unless that exceeds the limit.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= NESTING_MAX {
            return Err(self.fail(FailureKind::TooDeep(NESTING_MAX)));
        }
        if self.nesting == 0 {
            self.chain = 0;
        }
        self.nesting += 1;
        let parsed = rule(self);
        self.nesting -= 1;
        parsed
    }

    /// Counts another operator or modifier of the current expression.
    fn link(&mut self) -> Parsed<()> {
        self.chain += 1;
        if self.chain > CHAIN_MAX { Err(self.fail(FailureKind::TooLong(CHAIN_MAX))) } else { Ok(()) }
    }
}

impl From<Keyword> for TokenKind {
    fn from(keyword: Keyword) -> TokenKind {
        TokenKind::Keyword(keyword)
    }
}

impl From<Symbol> for TokenKind {
    fn from(symbol: Symbol) -> TokenKind {
        TokenKind::Symbol(symbol)
    }
}
