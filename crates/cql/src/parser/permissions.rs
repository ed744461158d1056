//! GRANT, REVOKE and LIST.

use super::failure::FailureKind;
use super::names::is_name;
use super::{Parsed, Parser};
use crate::ast::{
    ListPermissions, ListRoles, Permission, PermissionGrant, Permissions, Resource, RoleGrant, Statement,
};
use crate::keywords::Keyword;
use crate::lexer::{Symbol, TokenKind};

impl Parser<'_> {
    /// `GRANT permissions ON resource TO role` or `GRANT role TO role`
    pub(super) fn grant(&mut self) -> Parsed<Statement> {
        self.refuse_grant(Keyword::To)?;
        self.advance();
        if self.at_permissions() {
            let (permissions, resource) = self.permissions_on_resource()?;
            self.expect(Keyword::To)?;
            let grant = self.permission_grant(permissions, resource)?;
            return Ok(Statement::GrantPermissions(grant));
        }
        let role = self.role_name()?;
        self.expect(Keyword::To)?;
        Ok(Statement::GrantRole(RoleGrant { role, grantee: self.role_name()? }))
    }

    /// `REVOKE permissions ON resource FROM role` or `REVOKE role FROM role`
    pub(super) fn revoke(&mut self) -> Parsed<Statement> {
        self.refuse_grant(Keyword::From)?;
        self.advance();
        if self.at_permissions() {
            let (permissions, resource) = self.permissions_on_resource()?;
            self.expect(Keyword::From)?;
            let grant = self.permission_grant(permissions, resource)?;
            return Ok(Statement::RevokePermissions(grant));
        }
        let role = self.role_name()?;
        self.expect(Keyword::From)?;
        Ok(Statement::RevokeRole(RoleGrant { role, grantee: self.role_name()? }))
    }

    /// Returns whether permissions follow and not a role: some permissions are also names.
    fn at_permissions(&mut self) -> bool {
        if self.at_permission().is_none() && !self.is(Keyword::All) {
            return false;
        }
        !is_name(self.kind()) || !matches!(self.peek(), TokenKind::Keyword(Keyword::To | Keyword::From))
    }

    /// Rejects, at GRANT or REVOKE, anything that is neither permissions nor a role.
    fn refuse_grant(&mut self, before_grantee: Keyword) -> Parsed<()> {
        let next = self.peek();
        let role =
            is_name(next) || matches!(next, TokenKind::String | TokenKind::Symbol(Symbol::QuestionMark));
        let after: &[TokenKind] = match next {
            TokenKind::Keyword(Keyword::All) => &[Keyword::Permissions.into(), Keyword::On.into()],
            TokenKind::Keyword(Keyword::Unmask | Keyword::SelectMasked) => {
                &[Keyword::Permission.into(), Keyword::On.into(), Symbol::Comma.into()]
            }
            TokenKind::Keyword(keyword) if permission(keyword).is_some() => return Ok(()),
            _ if role => return Ok(()),
            _ => return Err(self.no_viable_ahead(1)),
        };
        let second = self.peek_nth(2);
        if second == before_grantee.into() || after.contains(&second) {
            Ok(())
        } else {
            Err(self.no_viable_ahead(2))
        }
    }

    fn permissions_on_resource(&mut self) -> Parsed<(Permissions, Resource)> {
        let permissions = self.permissions()?;
        self.expect(Keyword::On)?;
        Ok((permissions, self.resource()?))
    }

    /// Parses the grantee; rejects permissions of which none applies to the resource.
    fn permission_grant(&mut self, permissions: Permissions, resource: Resource) -> Parsed<PermissionGrant> {
        let grantee = self.role_name()?;
        let applies = match &permissions {
            Permissions::All => true,
            Permissions::Listed(listed) => listed.iter().any(|permission| resource.supports(*permission)),
        };
        if !applies {
            let class = resource.class_name();
            return Err(self.refused(format!(
                "Resource type {class} does not support any of the requested permissions"
            )));
        }
        Ok(PermissionGrant { permissions, resource, grantee })
    }

    /// `ALL [PERMISSIONS]` or `permission [PERMISSION], ...`
    fn permissions(&mut self) -> Parsed<Permissions> {
        if self.eat(Keyword::All) {
            self.eat(Keyword::Permissions);
            return Ok(Permissions::All);
        }
        let listed = self.separated(Symbol::Comma, |parser| {
            let permission = parser.at_permission().ok_or_else(|| parser.fail(FailureKind::MismatchedSet))?;
            parser.advance();
            parser.eat(Keyword::Permission);
            Ok(permission)
        })?;
        Ok(Permissions::Listed(listed))
    }

    fn at_permission(&self) -> Option<Permission> {
        let TokenKind::Keyword(keyword) = self.kind() else { return None };
        permission(keyword)
    }

    fn resource(&mut self) -> Parsed<Resource> {
        // These words are also names of tables.
        let ambiguous = matches!(
            self.kind(),
            TokenKind::Keyword(
                Keyword::All | Keyword::Role | Keyword::Function | Keyword::MBean | Keyword::MBeans
            )
        );
        if ambiguous && (follows_resource(self.peek()) || self.peek() == Symbol::Dot.into()) {
            return Ok(Resource::Table(self.table_name()?));
        }
        match self.kind() {
            TokenKind::Keyword(Keyword::Keyspace) => {
                self.advance();
                Ok(Resource::Keyspace(self.keyspace_name()?))
            }
            TokenKind::Keyword(Keyword::ColumnFamily) => {
                self.advance();
                Ok(Resource::Table(self.table_name()?))
            }
            TokenKind::Keyword(Keyword::All) => self.all_of_a_kind(),
            TokenKind::Keyword(Keyword::Role) => {
                self.advance();
                Ok(Resource::Role(self.role_name()?))
            }
            TokenKind::Keyword(Keyword::Function) => {
                self.advance();
                Ok(Resource::Function(self.function_name()?, self.signature()?))
            }
            TokenKind::Keyword(Keyword::MBean | Keyword::MBeans) if self.peek() != TokenKind::String => {
                Err(self.no_viable_ahead(1))
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
                let after = self.peek_nth(2);
                if !follows_resource(after) && after != TokenKind::Keyword(Keyword::In) {
                    return Err(self.no_viable_ahead(2));
                }
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
}

/// The permission that a keyword names.
fn permission(keyword: Keyword) -> Option<Permission> {
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

/// Returns whether a token of this kind can follow a resource.
fn follows_resource(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Keyword(Keyword::To | Keyword::From | Keyword::Of | Keyword::NoRecursive)
            | TokenKind::Symbol(Symbol::Semicolon)
            | TokenKind::Eof
    )
}
