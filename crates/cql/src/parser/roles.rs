//! Roles, users, identities and permissions.

use super::{Parsed, Parser};
use crate::ast::{
    Access, AddIdentity, AlterRole, CreateRole, DropIdentity, DropRole, Identifier, RoleOptions, Statement,
};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind, unquote};

impl Parser<'_> {
    /// A role: a name, or a string, which keeps its case.
    pub(super) fn role_name(&mut self) -> Parsed<Identifier> {
        if self.is(TokenKind::String) {
            return Ok(Identifier::new(self.string()?));
        }
        self.schema_name("role")
    }

    /// A user: a word or a string, which both keep their case.
    fn user_name(&mut self) -> Parsed<Box<str>> {
        self.word_or_string(
            "Quoted strings are are not supported for user names and USER is deprecated, please use ROLE",
        )
    }

    fn identity(&mut self) -> Parsed<Box<str>> {
        self.word_or_string("Quoted strings are are not supported for identity")
    }

    fn word_or_string(&mut self, if_quoted: &str) -> Parsed<Box<str>> {
        match self.kind() {
            TokenKind::Ident | TokenKind::String => {
                let token = self.advance();
                Ok(unquote(self.text(token)).into())
            }
            TokenKind::QuotedName => Err(self.refused(if_quoted)),
            _ => Err(self.no_viable()),
        }
    }

    pub(super) fn create_role(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Role)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        Ok(Statement::CreateRole(Box::new(CreateRole { name, if_not_exists, options })))
    }

    pub(super) fn alter_role(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Role)?;
        let if_exists = self.if_exists()?;
        let name = self.role_name()?;
        let options = self.role_options()?;
        Ok(Statement::AlterRole(Box::new(AlterRole { name, if_exists, options })))
    }

    pub(super) fn drop_role(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Role)?;
        let if_exists = self.if_exists()?;
        let name = self.role_name()?;
        Ok(Statement::DropRole(DropRole { name, if_exists }))
    }

    pub(super) fn create_user(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::User)?;
        let if_not_exists = self.if_not_exists()?;
        let name = Identifier::new(self.user_name()?);
        let mut options = self.user_options()?;
        options.login = Some(true);
        options.superuser.get_or_insert(false);
        Ok(Statement::CreateRole(Box::new(CreateRole { name, if_not_exists, options })))
    }

    pub(super) fn alter_user(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::User)?;
        let if_exists = self.if_exists()?;
        let name = Identifier::new(self.user_name()?);
        let options = self.user_options()?;
        Ok(Statement::AlterRole(Box::new(AlterRole { name, if_exists, options })))
    }

    pub(super) fn drop_user(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::User)?;
        let if_exists = self.if_exists()?;
        let name = Identifier::new(self.user_name()?);
        Ok(Statement::DropRole(DropRole { name, if_exists }))
    }

    /// `[WITH [HASHED] PASSWORD '...'] [SUPERUSER | NOSUPERUSER]`
    fn user_options(&mut self) -> Parsed<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat(Keyword::With) {
            let hashed = self.eat(Keyword::Hashed);
            if !hashed && !self.is(Keyword::Password) {
                return Err(self.no_viable());
            }
            self.expect(Keyword::Password)?;
            let password = Some(self.string()?);
            if hashed {
                options.hashed_password = password;
            } else {
                options.password = password;
            }
        }
        if self.eat(Keyword::Superuser) {
            options.superuser = Some(true);
        } else if self.eat(Keyword::NoSuperuser) {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    /// `[WITH option AND ...]`
    fn role_options(&mut self) -> Parsed<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.eat(Keyword::With) {
            return Ok(options);
        }
        loop {
            self.role_option(&mut options)?;
            if !self.eat(Keyword::And) {
                break;
            }
        }
        if options.password.is_some() && options.hashed_password.is_some() {
            return Err(self.refused("Options 'password' and 'hashed password' are mutually exclusive"));
        }
        Ok(options)
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Parsed<()> {
        let TokenKind::Keyword(keyword) = self.kind() else { return Err(self.no_viable()) };
        match keyword {
            Keyword::Password => {
                let value = self.assigned_option(Self::string)?;
                self.set_once(&mut options.password, value, "PASSWORD")
            }
            Keyword::Hashed => {
                self.advance();
                if !self.is(Keyword::Password) {
                    return Err(self.mismatched(Keyword::Password.into()));
                }
                let value = self.assigned_option(Self::string)?;
                self.set_once(&mut options.hashed_password, value, "HASHED_PASSWORD")
            }
            Keyword::Options => {
                let value = self.assigned_option(Self::property_map)?;
                self.set_once(&mut options.custom, value, "OPTIONS")
            }
            Keyword::Superuser => {
                let value = self.assigned_option(Self::boolean)?;
                self.set_once(&mut options.superuser, value, "SUPERUSER")
            }
            Keyword::Login => {
                let value = self.assigned_option(Self::boolean)?;
                self.set_once(&mut options.login, value, "LOGIN")
            }
            Keyword::Access => self.access(options),
            _ => Err(self.no_viable()),
        }
    }

    /// `keyword = rule`
    fn assigned_option<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.advance();
        self.expect(Symbol::Equal)?;
        rule(self)
    }

    fn set_once<T>(&self, slot: &mut Option<T>, value: T, name: &str) -> Parsed<()> {
        match slot.replace(value) {
            Some(_) => Err(self.refused(format!("Multiple definition for property '{name}'"))),
            None => Ok(()),
        }
    }

    fn boolean(&mut self) -> Parsed<bool> {
        let token = self.expect(TokenKind::Boolean)?;
        Ok(self.text(token).eq_ignore_ascii_case("true"))
    }

    /// `ACCESS TO ALL DATACENTERS`, `ACCESS TO DATACENTERS {...}`, `ACCESS FROM ALL CIDRS`, `ACCESS
    /// FROM CIDRS {...}`
    fn access(&mut self, options: &mut RoleOptions) -> Parsed<()> {
        let (slot, places, exclusive) = match self.peek() {
            TokenKind::Keyword(Keyword::To) => (
                &mut options.datacenters,
                Keyword::Datacenters,
                "ACCESS TO ALL DATACENTERS and ACCESS TO DATACENTERS are mutually exclusive",
            ),
            TokenKind::Keyword(Keyword::From) => (
                &mut options.cidrs,
                Keyword::Cidrs,
                "ACCESS FROM ALL CIDRS and ACCESS FROM CIDRS are mutually exclusive",
            ),
            _ => return Err(self.no_viable_ahead(1)),
        };
        let all_or_some = [Keyword::All.into(), places.into()];
        if !all_or_some.contains(&self.peek_nth(2)) {
            return Err(self.no_viable_ahead(2));
        }
        self.advance();
        self.advance();
        let access = if self.eat(Keyword::All) {
            self.expect(places)?;
            Access::All
        } else {
            self.expect(places)?;
            self.expect(Symbol::BraceOpen)?;
            let names = self.separated(Symbol::Comma, Self::string)?;
            self.expect(Symbol::BraceClose)?;
            Access::Only(names)
        };
        match (&mut *slot, access) {
            (Some(Access::Only(names)), Access::Only(more)) => names.extend(more),
            (Some(Access::All), Access::Only(_)) | (Some(Access::Only(_)), Access::All) => {
                return Err(self.refused(exclusive));
            }
            (_, access) => *slot = Some(access),
        }
        Ok(())
    }

    pub(super) fn add_identity(&mut self) -> Parsed<Statement> {
        self.expect_all([Keyword::Add, Keyword::Identity])?;
        let if_not_exists = self.if_not_exists()?;
        let identity = self.identity()?;
        self.expect_all([Keyword::To, Keyword::Role])?;
        let role = self.identity()?;
        Ok(Statement::AddIdentity(AddIdentity { identity, role, if_not_exists }))
    }

    pub(super) fn drop_identity(&mut self) -> Parsed<Statement> {
        self.expect(Keyword::Identity)?;
        let if_exists = self.if_exists()?;
        let identity = self.identity()?;
        Ok(Statement::DropIdentity(DropIdentity { identity, if_exists }))
    }
}
