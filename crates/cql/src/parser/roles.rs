//! Roles, users, identities and permissions.

use super::names::is_name;
use super::{Parsed, Parser};
use crate::ast::{
    Access, AddIdentity, AlterRole, CreateRole, DropIdentity, DropRole, Identifier, ListPermissions,
    ListRoles, Permission, PermissionGrant, Permissions, Resource, RoleGrant, RoleOptions, Statement,
};
use crate::lexer::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind, unquote};

impl Parser<'_> {
    /// A role: a name, or a string, which keeps its case.
    fn role_name(&mut self) -> Parsed<Identifier> {
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

    /// `ACCESS TO ALL DATACENTERS`, `ACCESS TO DATACENTERS {...}`, `ACCESS FROM ALL CIDRS`, `ACCESS FROM CIDRS {...}`
    fn access(&mut self, options: &mut RoleOptions) -> Parsed<()> {
        let (slot, places) = match self.peek() {
            TokenKind::Keyword(Keyword::To) => (&mut options.datacenters, Keyword::Datacenters),
            TokenKind::Keyword(Keyword::From) => (&mut options.cidrs, Keyword::Cidrs),
            _ => return Err(self.no_viable_ahead(1)),
        };
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
        *slot = Some(access);
        Ok(())
    }

    /// `GRANT permissions ON resource TO role` or `GRANT role TO role`
    pub(super) fn grant(&mut self) -> Parsed<Statement> {
        self.advance();
        if self.at_permissions() {
            let (permissions, resource) = self.permissions_on_resource()?;
            self.expect(Keyword::To)?;
            let grantee = self.role_name()?;
            return Ok(Statement::GrantPermissions(PermissionGrant { permissions, resource, grantee }));
        }
        let role = self.role_name()?;
        self.expect(Keyword::To)?;
        Ok(Statement::GrantRole(RoleGrant { role, grantee: self.role_name()? }))
    }

    /// `REVOKE permissions ON resource FROM role` or `REVOKE role FROM role`
    pub(super) fn revoke(&mut self) -> Parsed<Statement> {
        self.advance();
        if self.at_permissions() {
            let (permissions, resource) = self.permissions_on_resource()?;
            self.expect(Keyword::From)?;
            let grantee = self.role_name()?;
            return Ok(Statement::RevokePermissions(PermissionGrant { permissions, resource, grantee }));
        }
        let role = self.role_name()?;
        self.expect(Keyword::From)?;
        Ok(Statement::RevokeRole(RoleGrant { role, grantee: self.role_name()? }))
    }

    /// Whether permissions follow and not a role: some permissions are names too.
    fn at_permissions(&mut self) -> bool {
        if self.at_permission().is_none() && !self.is(Keyword::All) {
            return false;
        }
        !is_name(self.kind()) || !matches!(self.peek(), TokenKind::Keyword(Keyword::To | Keyword::From))
    }

    fn permissions_on_resource(&mut self) -> Parsed<(Permissions, Resource)> {
        let permissions = self.permissions()?;
        self.expect(Keyword::On)?;
        Ok((permissions, self.resource()?))
    }

    /// `ALL [PERMISSIONS]` or `permission [PERMISSION], ...`
    fn permissions(&mut self) -> Parsed<Permissions> {
        if self.eat(Keyword::All) {
            self.eat(Keyword::Permissions);
            return Ok(Permissions::All);
        }
        let listed = self.separated(Symbol::Comma, |parser| {
            let permission = parser.at_permission().ok_or_else(|| parser.no_viable())?;
            parser.advance();
            parser.eat(Keyword::Permission);
            Ok(permission)
        })?;
        Ok(Permissions::Listed(listed))
    }

    fn at_permission(&self) -> Option<Permission> {
        let TokenKind::Keyword(keyword) = self.kind() else { return None };
        Some(match keyword {
            Keyword::Create => Permission::Create,
            Keyword::Alter => Permission::Alter,
            Keyword::Drop => Permission::Drop,
            Keyword::Select => Permission::Select,
            Keyword::Modify => Permission::Modify,
            Keyword::Authorize => Permission::Authorize,
            Keyword::Describe => Permission::Describe,
            Keyword::Execute => Permission::Execute,
            Keyword::Unmask => Permission::Unmask,
            Keyword::SelectMasked => Permission::SelectMasked,
            _ => return None,
        })
    }

    fn resource(&mut self) -> Parsed<Resource> {
        // all these words but KEYSPACE and TABLE are names of tables too
        let next_ends = matches!(
            self.peek(),
            TokenKind::Keyword(Keyword::To | Keyword::From | Keyword::Of | Keyword::NoRecursive)
                | TokenKind::Symbol(Symbol::Dot | Symbol::Semicolon)
                | TokenKind::Eof
        );
        match self.kind() {
            TokenKind::Keyword(Keyword::Keyspace) => {
                self.advance();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            TokenKind::Keyword(Keyword::ColumnFamily) => {
                self.advance();
                Ok(Resource::Table(self.table_name()?))
            }
            _ if next_ends => Ok(Resource::Table(self.table_name()?)),
            TokenKind::Keyword(Keyword::All) => self.all_of_a_kind(),
            TokenKind::Keyword(Keyword::Role) => {
                self.advance();
                Ok(Resource::Role(self.role_name()?))
            }
            TokenKind::Keyword(Keyword::Function) => {
                self.advance();
                Ok(Resource::Function(self.function_name()?, self.signature()?))
            }
            TokenKind::Keyword(Keyword::MBean) => {
                self.advance();
                Ok(Resource::MBean(self.string()?))
            }
            TokenKind::Keyword(Keyword::MBeans) => {
                self.advance();
                Ok(Resource::MBeans(self.string()?))
            }
            _ => Ok(Resource::Table(self.table_name()?)),
        }
    }

    /// `ALL KEYSPACES`, `ALL TABLES IN KEYSPACE name`, ...
    fn all_of_a_kind(&mut self) -> Parsed<Resource> {
        let TokenKind::Keyword(what) = self.peek() else { return Err(self.no_viable_ahead(1)) };
        let resource = match what {
            Keyword::Keyspaces => Resource::AllKeyspaces,
            Keyword::Roles => Resource::AllRoles,
            Keyword::MBeans => Resource::AllMBeans,
            Keyword::Functions => {
                self.advance();
                self.advance();
                return if self.optional([Keyword::In, Keyword::Keyspace])? {
                    Ok(Resource::AllFunctionsIn(self.keyspace_name()?))
                } else {
                    Ok(Resource::AllFunctions)
                };
            }
            Keyword::Tables => {
                self.advance();
                self.advance();
                self.expect_all([Keyword::In, Keyword::Keyspace])?;
                return Ok(Resource::AllTables(self.keyspace_name()?));
            }
            _ => return Err(self.no_viable_ahead(1)),
        };
        self.advance();
        self.advance();
        Ok(resource)
    }

    /// `LIST ROLES`, `LIST USERS`, `LIST permissions`
    pub(super) fn list(&mut self) -> Parsed<Statement> {
        match self.peek() {
            TokenKind::Keyword(Keyword::Users) => {
                self.advance();
                self.advance();
                return Ok(Statement::ListUsers);
            }
            TokenKind::Keyword(Keyword::Roles) => {
                self.advance();
                self.advance();
                let grantee = if self.eat(Keyword::Of) { Some(self.role_name()?) } else { None };
                let no_recursive = self.eat(Keyword::NoRecursive);
                return Ok(Statement::ListRoles(ListRoles { grantee, no_recursive }));
            }
            _ => {}
        }
        let mark = self.mark();
        self.advance();
        if self.at_permission().is_none() && !self.is(Keyword::All) {
            self.reset(mark);
            return Err(self.no_viable_ahead(1));
        }
        let permissions = self.permissions()?;
        let resource = if self.eat(Keyword::On) { Some(self.resource()?) } else { None };
        let grantee = if self.eat(Keyword::Of) { Some(self.role_name()?) } else { None };
        let no_recursive = self.eat(Keyword::NoRecursive);
        Ok(Statement::ListPermissions(ListPermissions { permissions, resource, grantee, no_recursive }))
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
