//! WHERE clauses and IF conditions.

use super::names::is_name;
use super::{Parsed, Parser};
use crate::ast::{
    ColumnPart, Condition, ConditionValue, Conditions, CustomIndexExpression, Identifier, InValues, Operator,
    Relation, TupleInValues, TupleValue, WhereClause,
};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `[WHERE ...]`
    pub(super) fn optional_where(&mut self) -> Parsed<WhereClause> {
        if self.eat(Keyword::Where) { self.where_clause() } else { Ok(WhereClause::default()) }
    }

    /// The relations after WHERE.
    pub(super) fn where_clause(&mut self) -> Parsed<WhereClause> {
        let mut clause = WhereClause::default();
        loop {
            if self.eat(Symbol::ExprOpen) {
                let index = self.schema_name("index")?;
                self.expect(Symbol::Comma)?;
                let value = self.term()?;
                self.expect(Symbol::ParenClose)?;
                clause.expressions.push(CustomIndexExpression { index, value });
            } else {
                clause.relations.push(self.relation()?);
            }
            if !self.eat(Keyword::And) {
                return Ok(clause);
            }
        }
    }

    fn relation(&mut self) -> Parsed<Relation> {
        match self.kind() {
            TokenKind::Keyword(Keyword::Token) => {
                self.advance();
                let columns = self.column_tuple()?;
                let operator = self.comparison()?;
                Ok(Relation::Token { columns, operator, value: self.term()? })
            }
            TokenKind::Symbol(Symbol::ParenOpen) if self.column_tuple_ahead() => self.tuple_relation(),
            TokenKind::Symbol(Symbol::ParenOpen) => {
                self.refuse_parenthesis()?;
                self.advance();
                let relation = self.nested(Self::relation)?;
                self.expect(Symbol::ParenClose)?;
                Ok(relation)
            }
            _ if self.at_column() => {
                if !self.relation_operator_ahead() {
                    return Err(self.no_viable_ahead(1));
                }
                if self.peek() == TokenKind::Keyword(Keyword::In) && !starts_in_values(self.peek_nth(2)) {
                    return Err(self.no_viable_ahead(2));
                }
                let column = self.column()?;
                self.column_relation(column)
            }
            _ => Err(self.no_viable()),
        }
    }

    fn column_relation(&mut self, column: Identifier) -> Parsed<Relation> {
        match self.kind() {
            TokenKind::Keyword(Keyword::Like) => {
                self.advance();
                Ok(Relation::Column { column, operator: Operator::Like, value: self.term()? })
            }
            TokenKind::Keyword(Keyword::Is) => {
                self.advance();
                self.expect_all([Keyword::Not, Keyword::Null])?;
                Ok(Relation::IsNotNull { column })
            }
            TokenKind::Keyword(Keyword::In) => {
                self.advance();
                Ok(Relation::In { column, values: self.in_values()? })
            }
            TokenKind::Keyword(Keyword::Contains) => {
                let operator = self.contains();
                Ok(Relation::Column { column, operator, value: self.term()? })
            }
            TokenKind::Symbol(Symbol::BracketOpen) => {
                self.advance();
                let key = self.term()?;
                self.expect(Symbol::BracketClose)?;
                let operator = self.comparison()?;
                Ok(Relation::Element { column, key, operator, value: self.term()? })
            }
            _ => {
                let operator = self.comparison()?;
                Ok(Relation::Column { column, operator, value: self.term()? })
            }
        }
    }

    /// `= < <= > >= !=`
    fn comparison(&mut self) -> Parsed<Operator> {
        let operator = self.at_comparison().ok_or_else(|| self.no_viable())?;
        self.advance();
        Ok(operator)
    }

    fn at_comparison(&self) -> Option<Operator> {
        let TokenKind::Symbol(symbol) = self.kind() else { return None };
        Some(match symbol {
            Symbol::Equal => Operator::Eq,
            Symbol::NotEqual => Operator::Neq,
            Symbol::Less => Operator::Lt,
            Symbol::LessEqual => Operator::Lte,
            Symbol::Greater => Operator::Gt,
            Symbol::GreaterEqual => Operator::Gte,
            _ => return None,
        })
    }

    /// `CONTAINS [KEY]`. KEY can also be the keyspace of a function in the term that follows.
    fn contains(&mut self) -> Operator {
        self.advance();
        if self.is(Keyword::Key) && !self.call_ahead(0) {
            self.advance();
            return Operator::ContainsKey;
        }
        Operator::Contains
    }

    /// The right-hand side of `column IN`.
    fn in_values(&mut self) -> Parsed<InValues> {
        if self.at_bind_marker() {
            return Ok(InValues::BindMarker(self.bind_marker()?));
        }
        if !self.is(Symbol::ParenOpen) {
            return Err(self.no_viable());
        }
        Ok(InValues::List(self.terms(Symbol::ParenOpen, Symbol::ParenClose)?))
    }

    /// Returns whether columns follow at `(` and not a relation: `(c,` or `(c)`.
    fn column_tuple_ahead(&mut self) -> bool {
        let first = self.peek();
        (is_name(first) || first == TokenKind::EmptyQuotedName)
            && matches!(self.peek_nth(2), TokenKind::Symbol(Symbol::Comma | Symbol::ParenClose))
    }

    /// Rejects `(` if it starts neither a relation nor a tuple of columns.
    fn refuse_parenthesis(&mut self) -> Parsed<()> {
        let next = self.peek();
        if matches!(next, TokenKind::Keyword(Keyword::Token) | TokenKind::Symbol(Symbol::ParenOpen)) {
            return Ok(());
        }
        if !is_name(next) && next != TokenKind::EmptyQuotedName {
            return Err(self.no_viable_ahead(1));
        }
        if starts_relation_operator(self.peek_nth(2)) { Ok(()) } else { Err(self.no_viable_ahead(2)) }
    }

    /// Returns whether the operator of a relation follows the current token.
    fn relation_operator_ahead(&mut self) -> bool {
        starts_relation_operator(self.peek())
    }

    /// `(c1, c2)`
    fn column_tuple(&mut self) -> Parsed<Vec<Identifier>> {
        self.expect(Symbol::ParenOpen)?;
        let columns = self.separated(Symbol::Comma, Self::column)?;
        self.expect(Symbol::ParenClose)?;
        Ok(columns)
    }

    fn tuple_relation(&mut self) -> Parsed<Relation> {
        let columns = self.column_tuple()?;
        if self.eat(Keyword::In) {
            return Ok(Relation::TupleIn { columns, values: self.tuple_in_values()? });
        }
        if self.at_comparison().is_some() && !starts_in_values(self.peek()) {
            return Err(self.no_viable_ahead(1));
        }
        let operator = self.comparison()?;
        let value = if self.at_bind_marker() {
            TupleValue::BindMarker(self.bind_marker()?)
        } else {
            TupleValue::Literal(self.tuple_elements()?)
        };
        Ok(Relation::Tuple { columns, operator, value })
    }

    /// The right-hand side of `(columns) IN`.
    fn tuple_in_values(&mut self) -> Parsed<TupleInValues> {
        if self.at_bind_marker() {
            return Ok(TupleInValues::BindMarker(self.bind_marker()?));
        }
        if !self.is(Symbol::ParenOpen) {
            return Err(self.no_viable());
        }
        match self.peek() {
            TokenKind::Symbol(Symbol::ParenOpen) => Ok(TupleInValues::Literals(self.delimited(
                Symbol::ParenOpen,
                Symbol::ParenClose,
                |_| true,
                Self::tuple_elements,
            )?)),
            TokenKind::Symbol(Symbol::ParenClose) => {
                self.advance();
                self.advance();
                Ok(TupleInValues::Literals(Vec::new()))
            }
            TokenKind::Symbol(Symbol::QuestionMark | Symbol::Colon) => Ok(TupleInValues::BindMarkers(
                self.delimited(Symbol::ParenOpen, Symbol::ParenClose, |_| true, Self::bind_marker)?,
            )),
            _ => Err(self.no_viable_ahead(1)),
        }
    }

    /// `[IF EXISTS | IF conditions]`
    pub(super) fn conditions(&mut self) -> Parsed<Conditions> {
        if !self.eat(Keyword::If) {
            return Ok(Conditions::None);
        }
        // A column can be named exists.
        if self.is(Keyword::Exists) && !self.condition_operator_ahead() {
            if !follows_conditions(self.peek()) {
                return Err(self.no_viable_ahead(1));
            }
            self.advance();
            return Ok(Conditions::Exists);
        }
        Ok(Conditions::Columns(self.separated(Keyword::And, Self::condition)?))
    }

    /// Returns whether the next token makes the current one the column of a condition.
    fn condition_operator_ahead(&mut self) -> bool {
        let next = self.peek();
        next == TokenKind::Symbol(Symbol::Dot) || starts_relation_operator(next)
    }

    fn condition(&mut self) -> Parsed<Condition> {
        let column = self.column()?;
        let part = match self.kind() {
            TokenKind::Keyword(Keyword::Contains) => {
                let operator = self.contains();
                let value = ConditionValue::Term(self.term()?);
                return Ok(Condition { column, part: None, operator, value });
            }
            TokenKind::Symbol(Symbol::BracketOpen) => {
                self.advance();
                let key = self.term()?;
                self.expect(Symbol::BracketClose)?;
                Some(ColumnPart::Element(key))
            }
            TokenKind::Symbol(Symbol::Dot) => {
                self.advance();
                Some(ColumnPart::Field(self.identifier()?))
            }
            _ => None,
        };
        if self.eat(Keyword::In) {
            let value = ConditionValue::In(self.in_values()?);
            return Ok(Condition { column, part, operator: Operator::In, value });
        }
        let operator = self.comparison()?;
        let value = ConditionValue::Term(self.term()?);
        Ok(Condition { column, part, operator, value })
    }
}

/// Returns whether a token of this kind can follow the column of a relation.
fn starts_relation_operator(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Symbol(symbol) => matches!(
            symbol,
            Symbol::Equal
                | Symbol::NotEqual
                | Symbol::Less
                | Symbol::LessEqual
                | Symbol::Greater
                | Symbol::GreaterEqual
                | Symbol::BracketOpen
        ),
        kind => {
            matches!(kind, TokenKind::Keyword(Keyword::In | Keyword::Contains | Keyword::Like | Keyword::Is))
        }
    }
}

/// Returns whether a token of this kind can start the operand of IN, or of a comparison with a
/// tuple.
fn starts_in_values(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Symbol(Symbol::QuestionMark | Symbol::Colon | Symbol::ParenOpen))
}

/// Returns whether a token of this kind can follow a statement with conditions.
fn follows_conditions(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Keyword(Keyword::Apply | Keyword::Insert | Keyword::Update | Keyword::Delete)
            | TokenKind::Symbol(Symbol::Semicolon)
            | TokenKind::Eof
    )
}
