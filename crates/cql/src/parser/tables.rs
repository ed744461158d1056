//! CREATE and ALTER of tables, and CREATE of views.

use super::names::is_name;
use super::properties::Options;
use super::terms::starts_term;
use super::{Parsed, Parser};
use crate::ast::{
    AlterTable, AlterTableChange, ColumnDefinition, ColumnMask, CreateTable, CreateView, Direction,
    Identifier, PrimaryKey, Properties, QualifiedName, Statement,
};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

/// `CLUSTERING ORDER BY (...)`, whether `COMPACT STORAGE` is specified, and the other options.
type TableOptions = (Vec<(Identifier, Direction)>, bool, Properties);

impl Parser<'_> {
    pub(super) fn create_table(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::ColumnFamily)?;
        let if_not_exists = self.if_not_exists()?;
        let mut table = CreateTable {
            name: self.table_name()?,
            if_not_exists,
            columns: Vec::new(),
            primary_keys: Vec::new(),
            clustering_order: Vec::new(),
            is_compact: false,
            properties: Properties::default(),
        };
        self.expect(Symbol::ParenOpen)?;
        self.table_item(&mut table)?;
        while self.eat(Symbol::Comma) {
            // A trailing comma is permitted.
            if is_name(self.kind()) || self.is(Keyword::Primary) {
                self.table_item(&mut table)?;
            }
        }
        self.expect(Symbol::ParenClose)?;
        (table.clustering_order, table.is_compact, table.properties) = self.table_options()?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    /// A column, or `PRIMARY KEY (...)`.
    fn table_item(&mut self, table: &mut CreateTable) -> Parsed<()> {
        if self.is(Keyword::Primary) {
            table.primary_keys.push(self.primary_key()?);
            return Ok(());
        }
        let column = self.column_definition()?;
        if self.optional([Keyword::Primary, Keyword::Key])? {
            table
                .primary_keys
                .push(PrimaryKey { partition_key: vec![column.name.clone()], clustering: Vec::new() });
        }
        table.columns.push(column);
        Ok(())
    }

    /// `name type [STATIC] [MASKED WITH ...]`
    fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        let name = self.identifier()?;
        let column_type = self.cql_type()?;
        let is_static = self.eat(Keyword::Static);
        let mask = if self.is(Keyword::Masked) { Some(self.column_mask()?) } else { None };
        Ok(ColumnDefinition { name, column_type, is_static, mask })
    }

    /// `MASKED WITH DEFAULT` or `MASKED WITH function(arguments)`
    fn column_mask(&mut self) -> Parsed<ColumnMask> {
        if self.peek() != TokenKind::Keyword(Keyword::With) {
            return Err(self.no_viable_ahead(1));
        }
        if self.peek_nth(2) == TokenKind::Keyword(Keyword::Default)
            && !matches!(self.peek_nth(3), TokenKind::Symbol(Symbol::ParenOpen | Symbol::Dot))
        {
            if !follows_mask(self.peek_nth(3)) {
                return Err(self.no_viable_ahead(3));
            }
            self.expect_all([Keyword::Masked, Keyword::With, Keyword::Default])?;
            let function = QualifiedName::new(None, Identifier::from("mask_default"));
            return Ok(ColumnMask { function, arguments: Vec::new() });
        }
        self.advance();
        self.advance();
        let function = self.function_name()?;
        if !self.is(Symbol::ParenOpen) {
            return Err(self.no_viable());
        }
        let first = self.peek();
        if first != TokenKind::Symbol(Symbol::ParenClose) && !starts_term(first) {
            return Err(self.no_viable_ahead(1));
        }
        let arguments = self.terms(Symbol::ParenOpen, Symbol::ParenClose)?;
        Ok(ColumnMask { function, arguments })
    }

    /// `PRIMARY KEY (partition key, clustering)`
    fn primary_key(&mut self) -> Parsed<PrimaryKey> {
        self.expect_all([Keyword::Primary, Keyword::Key])?;
        self.expect(Symbol::ParenOpen)?;
        let partition_key = if self.eat(Symbol::ParenOpen) {
            let columns = self.separated(Symbol::Comma, Self::identifier)?;
            self.expect(Symbol::ParenClose)?;
            columns
        } else {
            vec![self.identifier()?]
        };
        let mut clustering = Vec::new();
        while self.eat(Symbol::Comma) {
            clustering.push(self.identifier()?);
        }
        self.expect(Symbol::ParenClose)?;
        Ok(PrimaryKey { partition_key, clustering })
    }

    /// `[WITH option AND ...]`, where an option is `CLUSTERING ORDER BY (...)`, `COMPACT STORAGE`
    /// or `name = value`.
    fn table_options(&mut self) -> Parsed<TableOptions> {
        let mut clustering_order = Vec::new();
        let mut is_compact = false;
        let mut options = Options::default();
        if !self.eat(Keyword::With) {
            return Ok((clustering_order, is_compact, options.properties));
        }
        loop {
            match self.kind() {
                TokenKind::Keyword(Keyword::Compact)
                    if self.peek() == TokenKind::Keyword(Keyword::Storage) =>
                {
                    self.expect_all([Keyword::Compact, Keyword::Storage])?;
                    is_compact = true;
                }
                TokenKind::Keyword(Keyword::Clustering)
                    if self.peek() == TokenKind::Keyword(Keyword::Order) =>
                {
                    self.expect_all([Keyword::Clustering, Keyword::Order, Keyword::By])?;
                    self.expect(Symbol::ParenOpen)?;
                    clustering_order.extend(self.separated(Symbol::Comma, Self::clustering_direction)?);
                    self.expect(Symbol::ParenClose)?;
                }
                _ => self.property(&mut options)?,
            }
            if !self.eat(Keyword::And) {
                return Ok((clustering_order, is_compact, options.properties));
            }
        }
    }

    /// `column ASC` or `column DESC`
    fn clustering_direction(&mut self) -> Parsed<(Identifier, Direction)> {
        let column = self.identifier()?;
        let direction = match self.kind() {
            TokenKind::Keyword(Keyword::Asc) => Direction::Asc,
            TokenKind::Keyword(Keyword::Desc) => Direction::Desc,
            _ => return Err(self.no_viable()),
        };
        self.advance();
        Ok((column, direction))
    }

    pub(super) fn alter_table(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::ColumnFamily)?;
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        let TokenKind::Keyword(keyword) = self.kind() else { return Err(self.no_viable()) };
        let change = match keyword {
            Keyword::Alter => self.alter_column()?,
            Keyword::Add => self.add_columns()?,
            Keyword::Drop => self.drop_columns()?,
            Keyword::Rename => {
                self.advance();
                let if_exists = self.if_exists()?;
                AlterTableChange::Rename { if_exists, columns: self.renames()? }
            }
            Keyword::With => {
                self.advance();
                AlterTableChange::Properties(self.properties()?)
            }
            _ => return Err(self.no_viable()),
        };
        Ok(Statement::AlterTable(Box::new(AlterTable { name, if_exists, change })))
    }

    /// `ALTER column TYPE type`, `ALTER [IF EXISTS] column MASKED WITH ...`, `... DROP MASKED`
    fn alter_column(&mut self) -> Parsed<AlterTableChange> {
        let next = self.peek();
        if is_name(next) || next == TokenKind::EmptyQuotedName {
            let after = self.peek_nth(2);
            if !matches!(after, TokenKind::Keyword(Keyword::Type | Keyword::Masked | Keyword::Drop)) {
                return Err(self.no_viable_ahead(2));
            }
        } else if next != TokenKind::Keyword(Keyword::If) {
            return Err(self.no_viable_ahead(1));
        }
        self.advance();
        let if_exists = self.if_exists()?;
        let column = self.column()?;
        match self.kind() {
            TokenKind::Keyword(Keyword::Type) if !if_exists => {
                self.advance();
                Ok(AlterTableChange::AlterType { column, column_type: self.cql_type()? })
            }
            TokenKind::Keyword(Keyword::Masked) => {
                let mask = Some(self.column_mask()?);
                Ok(AlterTableChange::Mask { if_exists, column, mask })
            }
            TokenKind::Keyword(Keyword::Drop) => {
                self.expect_all([Keyword::Drop, Keyword::Masked])?;
                Ok(AlterTableChange::Mask { if_exists, column, mask: None })
            }
            _ => Err(self.no_viable()),
        }
    }

    fn add_columns(&mut self) -> Parsed<AlterTableChange> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let columns = self.one_or_parenthesized(Self::column_definition)?;
        Ok(AlterTableChange::Add { if_not_exists, columns })
    }

    /// `DROP COMPACT STORAGE`, `DROP [IF EXISTS] columns [USING TIMESTAMP t]`
    fn drop_columns(&mut self) -> Parsed<AlterTableChange> {
        let next = self.peek();
        if !is_name(next)
            && !matches!(next, TokenKind::Keyword(Keyword::If) | TokenKind::Symbol(Symbol::ParenOpen))
        {
            return Err(self.no_viable_ahead(1));
        }
        let follows_column = |kind| {
            matches!(
                kind,
                TokenKind::Keyword(Keyword::Using | Keyword::Storage)
                    | TokenKind::Symbol(Symbol::Semicolon)
                    | TokenKind::Eof
            )
        };
        if self.peek() == TokenKind::Keyword(Keyword::Compact) && !follows_column(self.peek_nth(2)) {
            return Err(self.no_viable_ahead(2));
        }
        self.advance();
        if self.is(Keyword::Compact) && self.peek() == TokenKind::Keyword(Keyword::Storage) {
            self.advance();
            self.advance();
            return Ok(AlterTableChange::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns = self.one_or_parenthesized(Self::identifier)?;
        let mut timestamp = None;
        if self.optional([Keyword::Using, Keyword::Timestamp])? {
            let token = self.expect(TokenKind::Integer)?;
            let text = self.text(token);
            let parsed = text
                .parse()
                .map_err(|_| self.refused(format!("Invalid timestamp {text}: it must fit in 64 bits")))?;
            timestamp = Some(parsed);
        }
        Ok(AlterTableChange::Drop { if_exists, columns, timestamp })
    }

    /// `rule` or `(rule, ...)`
    fn one_or_parenthesized<T>(&mut self, mut rule: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if !self.eat(Symbol::ParenOpen) {
            return Ok(vec![rule(self)?]);
        }
        let items = self.separated(Symbol::Comma, rule)?;
        self.expect(Symbol::ParenClose)?;
        Ok(items)
    }

    pub(super) fn create_view(&mut self) -> Parsed<Statement> {
        self.expect_all([Keyword::Materialized, Keyword::View])?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_all([Keyword::As, Keyword::Select])?;
        let selections = self.selections()?;
        self.expect(Keyword::From)?;
        let base_table = self.table_name()?;
        let where_clause = self.optional_where()?;
        let primary_key = self.primary_key()?;
        let (clustering_order, is_compact, properties) = self.table_options()?;
        if is_compact {
            return Err(self.refused("COMPACT STORAGE tables are not allowed starting with version 4.0"));
        }
        Ok(Statement::CreateView(Box::new(CreateView {
            name,
            if_not_exists,
            selections,
            base_table,
            where_clause,
            primary_key,
            clustering_order,
            properties,
        })))
    }
}

/// Returns whether a token of this kind can follow `MASKED WITH DEFAULT`.
fn follows_mask(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Keyword(Keyword::Primary)
            | TokenKind::Symbol(Symbol::Comma | Symbol::ParenClose | Symbol::Semicolon)
            | TokenKind::Eof
    )
}
