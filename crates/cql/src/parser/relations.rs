//! WHERE clauses and IF conditions.

use super::{Parsed, Parser};
use crate::ast::{
    ColumnPart, Condition, ConditionValue, Conditions, CustomIndexExpression, Identifier, InValues, Operator,
    Relation, TupleInValues, TupleValue, WhereClause,
};
use crate::lexer::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `[WHERE ...]`
    pub(super) fn optional_where(&mut self) -> Parsed<WhereClause> {
        if self.eat(Keyword::Where) { self.where_clause() } else { Ok(WhereClause::default()) }
    }

    /// What stands after WHERE.
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
                self.advance();
                let relation = self.nested(Self::relation)?;
                self.expect(Symbol::ParenClose)?;
                Ok(relation)
            }
            _ if self.at_column() => {
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

    /// `CONTAINS [KEY]`. KEY may also be the keyspace of a function in the term that follows.
    fn contains(&mut self) -> Operator {
        self.advance();
        if self.is(Keyword::Key) && !self.call_ahead(0) {
            self.advance();
            return Operator::ContainsKey;
        }
        Operator::Contains
    }

    /// What stands after `column IN`.
    fn in_values(&mut self) -> Parsed<InValues> {
        if self.at_bind_marker() {
            return Ok(InValues::BindMarker(self.bind_marker()?));
        }
        if !self.is(Symbol::ParenOpen) {
            return Err(self.no_viable());
        }
        Ok(InValues::List(self.delimited(Symbol::ParenOpen, Symbol::ParenClose, Self::term)?))
    }

    /// Whether, at `(`, columns follow and not a relation: `(c,` or `(c)`.
    fn column_tuple_ahead(&mut self) -> bool {
        matches!(self.peek_nth(2), TokenKind::Symbol(Symbol::Comma | Symbol::ParenClose))
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
        let operator = self.comparison()?;
        let value = if self.at_bind_marker() {
            TupleValue::BindMarker(self.bind_marker()?)
        } else if self.is(Symbol::ParenOpen) {
            TupleValue::Literal(self.tuple_elements()?)
        } else {
            return Err(self.no_viable());
        };
        Ok(Relation::Tuple { columns, operator, value })
    }

    /// What stands after `(columns) IN`.
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
                Self::tuple_elements,
            )?)),
            TokenKind::Symbol(Symbol::ParenClose) => {
                self.advance();
                self.advance();
                Ok(TupleInValues::Literals(Vec::new()))
            }
            TokenKind::Symbol(Symbol::QuestionMark | Symbol::Colon) => Ok(TupleInValues::BindMarkers(
                self.delimited(Symbol::ParenOpen, Symbol::ParenClose, Self::bind_marker)?,
            )),
            _ => Err(self.no_viable_ahead(1)),
        }
    }

    /// `[IF EXISTS | IF conditions]`
    pub(super) fn conditions(&mut self) -> Parsed<Conditions> {
        if !self.eat(Keyword::If) {
            return Ok(Conditions::None);
        }
        // a column may be called exists
        if self.is(Keyword::Exists) && !self.condition_operator_ahead() {
            self.advance();
            return Ok(Conditions::Exists);
        }
        Ok(Conditions::Columns(self.separated(Keyword::And, Self::condition)?))
    }

    /// Whether what follows the current token would make it the column of a condition.
    fn condition_operator_ahead(&mut self) -> bool {
        match self.peek() {
            TokenKind::Symbol(symbol) => matches!(
                symbol,
                Symbol::Equal
                    | Symbol::NotEqual
                    | Symbol::Less
                    | Symbol::LessEqual
                    | Symbol::Greater
                    | Symbol::GreaterEqual
                    | Symbol::BracketOpen
                    | Symbol::Dot
            ),
            kind => matches!(kind, TokenKind::Keyword(Keyword::In | Keyword::Contains)),
        }
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
