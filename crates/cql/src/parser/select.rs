//! SELECT.

use super::{Parsed, Parser};
use crate::ast::{Direction, Ordering, Select};
use crate::keywords::Keyword;
use crate::lexer::Symbol;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Parsed<Select> {
        self.advance();
        let (json, (distinct, selections)) =
            self.modified(Keyword::Json, |parser| parser.modified(Keyword::Distinct, Self::selections))?;
        self.expect(Keyword::From)?;
        let table = self.table_name()?;
        let where_clause = self.optional_where()?;
        let group_by = if self.optional([Keyword::Group, Keyword::By])? {
            self.separated(Symbol::Comma, Self::selector)?
        } else {
            Vec::new()
        };
        let order_by = if self.optional([Keyword::Order, Keyword::By])? {
            self.separated(Symbol::Comma, Self::ordering)?
        } else {
            Vec::new()
        };
        let per_partition_limit = if self.optional([Keyword::Per, Keyword::Partition, Keyword::Limit])? {
            Some(self.integer_term()?)
        } else {
            None
        };
        let limit = if self.eat(Keyword::Limit) { Some(self.integer_term()?) } else { None };
        let allow_filtering = self.optional([Keyword::Allow, Keyword::Filtering])?;
        Ok(Select {
            json,
            distinct,
            selections,
            table,
            where_clause,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
        })
    }

    /// `keyword rule`, or else `rule`, because JSON and DISTINCT are also valid columns; returns
    /// which.
    fn modified<T>(
        &mut self,
        keyword: Keyword,
        mut rule: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<(bool, T)> {
        if self.is(keyword) {
            let mark = self.mark();
            self.advance();
            match rule(self) {
                Err(failure) if !failure.is_limit() => self.reset(mark),
                parsed => return Ok((true, parsed?)),
            }
        }
        Ok((false, rule(self)?))
    }

    fn ordering(&mut self) -> Parsed<Ordering> {
        let column = self.column()?;
        let ann_of = if self.optional([Keyword::Ann, Keyword::Of])? { Some(self.term()?) } else { None };
        let direction = if self.eat(Keyword::Desc) {
            Direction::Desc
        } else {
            self.eat(Keyword::Asc);
            Direction::Asc
        };
        Ok(Ordering { column, ann_of, direction })
    }
}
