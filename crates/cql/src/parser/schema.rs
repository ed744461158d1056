//! CREATE, ALTER and DROP: dispatch by kind, and the rules of keyspaces, types, indexes and
//! triggers. Other modules parse the remaining kinds.

use super::names::is_name;
use super::{Parsed, Parser};
use crate::ast::{
    AlterKeyspace, AlterType, AlterTypeChange, AlterView, CqlType, CreateIndex, CreateKeyspace,
    CreateTrigger, CreateType, DropElement, DropKeyspace, DropTrigger, Identifier, IndexTarget,
    IndexTargetKind, Properties, QualifiedName, Statement,
};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `CREATE ...`
    pub(super) fn create(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(what) = self.peek() else { return Err(self.no_viable_ahead(1)) };
        let rule = match what {
            Keyword::Keyspace => Self::create_keyspace,
            Keyword::ColumnFamily => Self::create_table,
            Keyword::Type => Self::create_type,
            Keyword::Index | Keyword::Custom => Self::create_index,
            Keyword::Materialized => Self::create_view,
            Keyword::Trigger => Self::create_trigger,
            Keyword::Role => Self::create_role,
            Keyword::User => Self::create_user,
            Keyword::Function => return self.create_function(false),
            Keyword::Aggregate => return self.create_aggregate(false),
            Keyword::Or => {
                return match (self.peek_nth(2), self.peek_nth(3)) {
                    (TokenKind::Keyword(Keyword::Replace), TokenKind::Keyword(Keyword::Function)) => {
                        self.create_function(true)
                    }
                    (TokenKind::Keyword(Keyword::Replace), TokenKind::Keyword(Keyword::Aggregate)) => {
                        self.create_aggregate(true)
                    }
                    (TokenKind::Keyword(Keyword::Replace), _) => Err(self.no_viable_ahead(3)),
                    _ => Err(self.no_viable_ahead(2)),
                };
            }
            _ => return Err(self.no_viable_ahead(1)),
        };
        self.advance();
        rule(self)
    }

    /// `ALTER ...`
    pub(super) fn alter(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(what) = self.peek() else { return Err(self.no_viable_ahead(1)) };
        let rule = match what {
            Keyword::Keyspace => Self::alter_keyspace,
            Keyword::ColumnFamily => Self::alter_table,
            Keyword::Type => Self::alter_type,
            Keyword::Materialized => Self::alter_view,
            Keyword::Role => Self::alter_role,
            Keyword::User => Self::alter_user,
            _ => return Err(self.no_viable_ahead(1)),
        };
        self.advance();
        rule(self)
    }

    /// `DROP ...`
    pub(super) fn drop(&mut self) -> Parsed<Statement> {
        let TokenKind::Keyword(what) = self.peek() else { return Err(self.no_viable_ahead(1)) };
        let rule = match what {
            Keyword::Keyspace => Self::drop_keyspace,
            Keyword::ColumnFamily | Keyword::Type | Keyword::Index | Keyword::Materialized => {
                Self::drop_element
            }
            Keyword::Trigger => Self::drop_trigger,
            Keyword::Role => Self::drop_role,
            Keyword::User => Self::drop_user,
            Keyword::Identity => Self::drop_identity,
            Keyword::Function | Keyword::Aggregate => Self::drop_function,
            _ => return Err(self.no_viable_ahead(1)),
        };
        self.advance();
        rule(self)
    }

    fn create_keyspace(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Keyspace)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.keyspace_name()?;
        let properties = self.with_properties()?;
        Ok(Statement::CreateKeyspace(CreateKeyspace { name, if_not_exists, properties }))
    }

    fn alter_keyspace(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Keyspace)?;
        let if_exists = self.if_exists()?;
        let name = self.keyspace_name()?;
        let properties = self.with_properties()?;
        Ok(Statement::AlterKeyspace(AlterKeyspace { name, if_exists, properties }))
    }

    fn drop_keyspace(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Keyspace)?;
        let if_exists = self.if_exists()?;
        let name = self.keyspace_name()?;
        Ok(Statement::DropKeyspace(DropKeyspace { name, if_exists }))
    }

    /// `WITH name = value AND ...`
    fn with_properties(&mut self) -> Parsed<Properties> {
        self.expect(Keyword::With)?;
        self.properties()
    }

    /// A table, type, index or view.
    fn drop_element(&mut self) -> Parsed<Statement> {
        type Name = fn(&mut Parser) -> Parsed<QualifiedName>;
        let token = self.advance();
        let (statement, name): (fn(DropElement) -> Statement, Name) = match token.kind {
            TokenKind::Keyword(Keyword::Type) => (Statement::DropType, |parser| parser.user_type_name()),
            TokenKind::Keyword(Keyword::Index) => (Statement::DropIndex, |parser| parser.index_name()),
            TokenKind::Keyword(Keyword::Materialized) => {
                self.expect(Keyword::View)?;
                (Statement::DropView, |parser| parser.table_name())
            }
            _ => (Statement::DropTable, |parser| parser.table_name()),
        };
        let if_exists = self.if_exists()?;
        let name = name(self)?;
        Ok(statement(DropElement { name, if_exists }))
    }

    fn create_type(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Type)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(Symbol::ParenOpen)?;
        let mut fields = vec![self.field_definition()?];
        while self.eat(Symbol::Comma) {
            // A trailing comma is permitted.
            if is_name(self.kind()) {
                fields.push(self.field_definition()?);
            }
        }
        self.expect(Symbol::ParenClose)?;
        Ok(Statement::CreateType(CreateType { name, if_not_exists, fields }))
    }

    fn field_definition(&mut self) -> Parsed<(Identifier, CqlType)> {
        Ok((self.identifier()?, self.cql_type()?))
    }

    fn alter_type(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Type)?;
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let change = match self.kind() {
            TokenKind::Keyword(Keyword::Alter) => {
                self.advance();
                let field = self.identifier()?;
                self.expect(Keyword::Type)?;
                AlterTypeChange::AlterField { field, field_type: self.cql_type()? }
            }
            TokenKind::Keyword(Keyword::Add) => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                let (field, field_type) = self.field_definition()?;
                AlterTypeChange::Add { if_not_exists, field, field_type }
            }
            TokenKind::Keyword(Keyword::Rename) => {
                self.advance();
                let if_exists = self.if_exists()?;
                AlterTypeChange::Rename { if_exists, fields: self.renames()? }
            }
            _ => return Err(self.no_viable()),
        };
        Ok(Statement::AlterType(AlterType { name, if_exists, change }))
    }

    /// `a TO b AND ...`
    pub(super) fn renames(&mut self) -> Parsed<Vec<(Identifier, Identifier)>> {
        self.separated(Keyword::And, |parser| {
            let from = parser.identifier()?;
            parser.expect(Keyword::To)?;
            Ok((from, parser.identifier()?))
        })
    }

    fn create_index(&mut self) -> Parsed<Statement> {
        let custom = self.eat(Keyword::Custom);
        self.expect(Keyword::Index)?;
        let if_not_exists = self.if_not_exists()?;
        let named = is_name(self.kind()) || self.is(Symbol::QuestionMark);
        let name = if named { Some(self.schema_name("index")?) } else { None };
        self.expect(Keyword::On)?;
        let table = self.table_name()?;
        let targets =
            self.delimited(Symbol::ParenOpen, Symbol::ParenClose, starts_index_target, Self::index_target)?;
        let using = if self.eat(Keyword::Using) { Some(self.string()?) } else { None };
        let properties = if self.eat(Keyword::With) { self.properties()? } else { Properties::default() };
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            custom,
            if_not_exists,
            name,
            table,
            targets,
            using,
            properties,
        })))
    }

    fn index_target(&mut self) -> Parsed<IndexTarget> {
        let kind = match self.kind() {
            TokenKind::Keyword(Keyword::Entries) => IndexTargetKind::Entries,
            TokenKind::Keyword(Keyword::Full) => IndexTargetKind::Full,
            TokenKind::Keyword(Keyword::Keys) if self.peek() == TokenKind::Symbol(Symbol::ParenOpen) => {
                IndexTargetKind::Keys
            }
            TokenKind::Keyword(Keyword::Values) if self.peek() == TokenKind::Symbol(Symbol::ParenOpen) => {
                IndexTargetKind::Values
            }
            TokenKind::Keyword(Keyword::Keys | Keyword::Values)
                if !matches!(self.peek(), TokenKind::Symbol(Symbol::Comma | Symbol::ParenClose)) =>
            {
                return Err(self.no_viable_ahead(1));
            }
            _ => return Ok(IndexTarget { column: self.column()?, kind: IndexTargetKind::Simple }),
        };
        self.advance();
        self.expect(Symbol::ParenOpen)?;
        let column = self.column()?;
        self.expect(Symbol::ParenClose)?;
        Ok(IndexTarget { column, kind })
    }

    fn alter_view(&mut self) -> Parsed<Statement> {
        self.expect_all([Keyword::Materialized, Keyword::View])?;
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        let properties = self.with_properties()?;
        Ok(Statement::AlterView(AlterView { name, if_exists, properties }))
    }

    fn create_trigger(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Trigger)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.identifier()?;
        self.expect(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(Keyword::Using)?;
        let class = self.string()?;
        Ok(Statement::CreateTrigger(CreateTrigger { name, if_not_exists, table, class }))
    }

    fn drop_trigger(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Trigger)?;
        let if_exists = self.if_exists()?;
        let name = self.identifier()?;
        self.expect(Keyword::On)?;
        let table = self.table_name()?;
        Ok(Statement::DropTrigger(DropTrigger { name, if_exists, table }))
    }
}

/// Returns whether a token of this kind can start the target of an index.
fn starts_index_target(kind: TokenKind) -> bool {
    is_name(kind)
        || matches!(kind, TokenKind::EmptyQuotedName | TokenKind::Keyword(Keyword::Entries | Keyword::Full))
}
