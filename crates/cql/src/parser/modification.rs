//! INSERT, UPDATE, DELETE and BATCH.

use std::collections::{HashMap, HashSet};

use super::failure::FailureKind;
use super::names::is_function_name;
use super::{Parsed, Parser};
use crate::ast::{
    Assignment, AssignmentOperation, Batch, BatchKind, Delete, DeleteTarget, Identifier, Insert,
    InsertSource, JsonValue, Literal, LiteralKind, Modification, Term, Update, Using,
};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

/// The assignments of an UPDATE so far, by column.
#[derive(Default)]
struct Assigned(HashMap<Identifier, AssignedParts>);

#[derive(Default)]
struct AssignedParts {
    /// `c = value`
    whole: bool,
    /// `c.field = value`
    fields: HashSet<Identifier>,
}

impl Assigned {
    /// Records an assignment. Returns whether it is compatible with earlier ones: a column can be
    /// assigned several times if none of them sets the whole column, or the same field.
    fn add(&mut self, Assignment { column, operation }: &Assignment) -> bool {
        let first = !self.0.contains_key(column);
        let parts = self.0.entry(column.clone()).or_default();
        match operation {
            AssignmentOperation::Set(_) => {
                parts.whole = true;
                first
            }
            AssignmentOperation::SetField(field, _) => parts.fields.insert(field.clone()) && !parts.whole,
            _ => !parts.whole,
        }
    }
}

impl Parser<'_> {
    /// INSERT, UPDATE or DELETE.
    pub(super) fn modification(&mut self) -> Parsed<Modification> {
        match self.kind() {
            TokenKind::Keyword(Keyword::Insert) => Ok(Modification::Insert(self.insert()?)),
            TokenKind::Keyword(Keyword::Update) => Ok(Modification::Update(self.update()?)),
            TokenKind::Keyword(Keyword::Delete) => Ok(Modification::Delete(self.delete()?)),
            _ => Err(self.no_viable()),
        }
    }

    fn insert(&mut self) -> Parsed<Insert> {
        self.expect_all([Keyword::Insert, Keyword::Into])?;
        let table = self.table_name()?;
        let source = match self.kind() {
            TokenKind::Symbol(Symbol::ParenOpen) => self.insert_values()?,
            TokenKind::Keyword(Keyword::Json) => self.insert_json()?,
            _ => return Err(self.no_viable()),
        };
        let if_not_exists = self.if_not_exists()?;
        let using = self.optional_using()?;
        Ok(Insert { table, source, if_not_exists, using })
    }

    /// `(columns) VALUES (values)`
    fn insert_values(&mut self) -> Parsed<InsertSource> {
        self.advance();
        let columns = self.separated(Symbol::Comma, Self::column)?;
        self.expect(Symbol::ParenClose)?;
        self.expect(Keyword::Values)?;
        let values = self.tuple_elements()?;
        Ok(InsertSource::Values { columns, values })
    }

    /// `JSON value [DEFAULT NULL | DEFAULT UNSET]`
    fn insert_json(&mut self) -> Parsed<InsertSource> {
        self.advance();
        let value = match self.kind() {
            TokenKind::String => JsonValue::Literal(self.string()?),
            _ => JsonValue::BindMarker(self.bind_marker()?),
        };
        let mut default_unset = false;
        if self.eat(Keyword::Default) {
            default_unset = match self.kind() {
                TokenKind::Keyword(Keyword::Null) => false,
                TokenKind::Keyword(Keyword::Unset) => true,
                _ => return Err(self.no_viable()),
            };
            self.advance();
        }
        Ok(InsertSource::Json { value, default_unset })
    }

    /// `[USING TIMESTAMP t AND TTL s]`
    fn optional_using(&mut self) -> Parsed<Using> {
        let mut using = Using::default();
        if !self.eat(Keyword::Using) {
            return Ok(using);
        }
        loop {
            match self.kind() {
                TokenKind::Keyword(Keyword::Timestamp) => {
                    self.advance();
                    using.timestamp = Some(self.integer_term()?);
                }
                TokenKind::Keyword(Keyword::Ttl) => {
                    self.advance();
                    using.ttl = Some(self.integer_term()?);
                }
                _ => return Err(self.no_viable()),
            }
            if !self.eat(Keyword::And) {
                return Ok(using);
            }
        }
    }

    fn update(&mut self) -> Parsed<Update> {
        self.expect(Keyword::Update)?;
        let table = self.table_name()?;
        let using = self.optional_using()?;
        self.expect(Keyword::Set)?;
        let mut assignments = vec![self.assignment()?];
        if self.is(Symbol::Comma) {
            let mut assigned = Assigned::default();
            assigned.add(&assignments[0]);
            while self.eat(Symbol::Comma) {
                let assignment = self.assignment()?;
                if !assigned.add(&assignment) {
                    let column = assignment.column.as_str();
                    return Err(self.refused(format!("Multiple incompatible setting of column {column}")));
                }
                assignments.push(assignment);
            }
        }
        self.expect(Keyword::Where)?;
        let where_clause = self.where_clause()?;
        let conditions = self.conditions()?;
        Ok(Update { table, using, assignments, where_clause, conditions })
    }

    fn assignment(&mut self) -> Parsed<Assignment> {
        let column = self.column()?;
        let operation = match self.kind() {
            TokenKind::Symbol(Symbol::Equal) => {
                self.advance();
                self.assigned(&column)?
            }
            TokenKind::Symbol(Symbol::PlusEqual) => {
                self.advance();
                AssignmentOperation::Add(self.term()?)
            }
            TokenKind::Symbol(Symbol::MinusEqual) => {
                self.advance();
                AssignmentOperation::Subtract(self.term()?)
            }
            TokenKind::Symbol(Symbol::BracketOpen) => {
                self.advance();
                let key = self.term()?;
                self.expect(Symbol::BracketClose)?;
                self.expect(Symbol::Equal)?;
                AssignmentOperation::SetElement(key, self.term()?)
            }
            TokenKind::Symbol(Symbol::Dot) => {
                self.advance();
                let field = self.identifier()?;
                self.expect(Symbol::Equal)?;
                AssignmentOperation::SetField(field, self.term()?)
            }
            _ => return Err(self.no_viable()),
        };
        Ok(Assignment { column, operation })
    }

    /// The right-hand side of `column =`: a term, `term + column`, `column + term`, `column -
    /// term`, or `column -1`.
    fn assigned(&mut self, column: &Identifier) -> Parsed<AssignmentOperation> {
        if !self.at_column() || self.term_ahead() {
            let term = self.term()?;
            if !self.eat(Symbol::Plus) {
                return Ok(AssignmentOperation::Set(term));
            }
            if self.column()? != *column {
                return Err(self.refused("Only expressions of the form X = <value> + X are supported."));
            }
            return Ok(AssignmentOperation::Prepend(term));
        }
        if !matches!(self.peek(), TokenKind::Integer | TokenKind::Symbol(Symbol::Plus | Symbol::Minus)) {
            return Err(self.no_viable_ahead(1));
        }
        let operand = self.column()?;
        if self.is(TokenKind::Integer) {
            let token = self.advance();
            let text = self.text(token);
            if operand != *column {
                let sign = if text.starts_with('-') { '-' } else { '+' };
                return Err(
                    self.refused(format!("Only expressions of the form X = X {sign} <value> are supported."))
                );
            }
            return Ok(AssignmentOperation::Add(Term::Literal(Literal::new(LiteralKind::Integer, text))));
        }
        let operation = match self.kind() {
            TokenKind::Symbol(Symbol::Plus) => AssignmentOperation::Add as fn(Term) -> AssignmentOperation,
            TokenKind::Symbol(Symbol::Minus) => AssignmentOperation::Subtract,
            _ => return Err(self.fail(FailureKind::MismatchedSet)),
        };
        let token = self.advance();
        let term = self.term()?;
        if operand != *column {
            let sign = self.text(token);
            // Cassandra's text lacks the blank after the sign.
            return Err(
                self.refused(format!("Only expressions of the form X = X {sign}<value> are supported."))
            );
        }
        Ok(operation(term))
    }

    /// Returns whether a function call or a cast starts at a name.
    fn term_ahead(&mut self) -> bool {
        match self.peek() {
            TokenKind::Symbol(Symbol::ParenOpen) => is_function_name(self.kind()) || self.is(Keyword::Cast),
            next => next == TokenKind::Symbol(Symbol::Dot) && !self.is(TokenKind::EmptyQuotedName),
        }
    }

    fn delete(&mut self) -> Parsed<Delete> {
        self.expect(Keyword::Delete)?;
        let targets =
            if self.at_column() { self.separated(Symbol::Comma, Self::delete_target)? } else { Vec::new() };
        self.expect(Keyword::From)?;
        let table = self.table_name()?;
        let timestamp = if self.optional([Keyword::Using, Keyword::Timestamp])? {
            Some(self.integer_term()?)
        } else {
            None
        };
        self.expect(Keyword::Where)?;
        let where_clause = self.where_clause()?;
        let conditions = self.conditions()?;
        Ok(Delete { targets, table, timestamp, where_clause, conditions })
    }

    fn delete_target(&mut self) -> Parsed<DeleteTarget> {
        if self.at_column()
            && !matches!(
                self.peek(),
                TokenKind::Symbol(Symbol::Comma | Symbol::BracketOpen | Symbol::Dot)
                    | TokenKind::Keyword(Keyword::From)
            )
        {
            return Err(self.no_viable_ahead(1));
        }
        let column = self.column()?;
        if self.eat(Symbol::BracketOpen) {
            let key = self.term()?;
            self.expect(Symbol::BracketClose)?;
            return Ok(DeleteTarget::Element(column, key));
        }
        if self.eat(Symbol::Dot) {
            return Ok(DeleteTarget::Field(column, self.identifier()?));
        }
        Ok(DeleteTarget::Column(column))
    }

    pub(super) fn batch(&mut self) -> Parsed<Batch> {
        self.expect(Keyword::Begin)?;
        let kind = if self.eat(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.eat(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect(Keyword::Batch)?;
        let using = self.optional_using()?;
        let mut statements = Vec::new();
        while let TokenKind::Keyword(Keyword::Insert | Keyword::Update | Keyword::Delete) = self.kind() {
            statements.push(self.modification()?);
            self.eat(Symbol::Semicolon);
        }
        self.expect_all([Keyword::Apply, Keyword::Batch])?;
        Ok(Batch { kind, using, statements })
    }
}
