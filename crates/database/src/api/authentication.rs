//! Logging in: passwords, the default superuser, and roles of clients.

use cassette_cql::ast::Permission;

use crate::api::database::Database;
use crate::basics::error::Result;
use crate::basics::passwords;
use crate::schema::authorization::{AuthCacheKind, Resource};
use crate::store::authorization::{AuthSettings, RoleChange};

/// The name and the password of the superuser that the first start with authentication creates.
pub const DEFAULT_SUPERUSER: &str = "cassandra";

/// The result of checking a name and a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// The role can log in, and the password is its own.
    Accepted,
    /// The password is right, but the role must not log in.
    NotPermitted,
    /// There is no such role, it has no password, or it has another one.
    Rejected,
}

/// The result of a login with a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityLogin {
    /// The identity has this role, which can log in.
    Accepted(String),
    /// The identity has this role, which must not log in.
    NotPermitted(String),
    /// The identity has no role.
    Unknown,
}

/// The superuser that a database has after [`Database::set_up_superuser`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superuser {
    /// The default superuser has the default password.
    HasDefaultPassword,
    /// The default superuser got the configured password just now.
    PasswordWasSet,
    /// The default superuser does not exist, or has another password than the default one.
    Changed,
}

/// What a role may do at the admin endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminAccess {
    /// Nothing.
    None,
    /// Read metrics and reports.
    ReadOnly,
    /// Read metrics and reports, and execute operations.
    Operator,
}

impl Database {
    /// Which clients of a server are authenticated and authorized.
    pub fn auth_settings(&self) -> &AuthSettings {
        self.store().authorization().settings()
    }

    /// Checks the name and the password of a client. Takes tens of milliseconds of a processor,
    /// whether or not there is such a role, and waits for a disk.
    ///
    /// # Errors
    /// If roles cannot be read.
    pub fn log_in(&self, role: &str, password: &str) -> Result<Login> {
        let store = self.store();
        let hash = store.password_hash(role)?;
        if !passwords::verify(password, hash.as_deref()) {
            return Ok(Login::Rejected);
        }
        // A role is permitted to log in by its own attribute, not by those of its roles.
        let role = store.role(role)?;
        Ok(if role.is_some_and(|role| role.can_login) { Login::Accepted } else { Login::NotPermitted })
    }

    /// Looks up the role of a client whose verified certificate contains `identity`. Waits for a
    /// disk.
    ///
    /// # Errors
    /// If roles cannot be read, or no role can have such an identity.
    pub fn log_in_with_identity(&self, identity: &str) -> Result<IdentityLogin> {
        let store = self.store();
        let Some(name) = (*store.login_role_of_identity(identity)?).clone() else {
            return Ok(IdentityLogin::Unknown);
        };
        let can_login = store.role(&name)?.is_some_and(|role| role.can_login);
        Ok(if can_login { IdentityLogin::Accepted(name) } else { IdentityLogin::NotPermitted(name) })
    }

    /// Returns whether any certificate can log in.
    ///
    /// # Errors
    /// If identities cannot be read.
    pub fn has_identities(&self) -> Result<bool> {
        self.store().has_identities()
    }

    /// Returns what a role may do at the admin endpoint. With an authorizer, as in Cassandra for
    /// JMX: superusers everything, other roles what they are permitted on ALL MBEANS.
    ///
    /// # Errors
    /// If roles cannot be read.
    pub fn admin_access(&self, role: &str) -> Result<AdminAccess> {
        let store = self.store();
        // A role that was dropped, or that lost LOGIN, has no access any more.
        if !store.roles_of(role)?.first().is_some_and(|role| role.can_login) {
            return Ok(AdminAccess::None);
        }
        if !self.auth_settings().permissions {
            return Ok(AdminAccess::Operator);
        }
        let granted = store.granted(role)?;
        let permits = |permission| granted.permits(permission, Resource::AllMBeans);
        Ok(if permits(Permission::Execute) || permits(Permission::Modify) {
            AdminAccess::Operator
        } else if permits(Permission::Select) {
            AdminAccess::ReadOnly
        } else {
            AdminAccess::None
        })
    }

    /// Creates the default superuser if there are no roles, and reports its password. With
    /// `password`, a default superuser that has the default password gets that one.
    ///
    /// # Errors
    /// If roles cannot be read or written.
    pub fn set_up_superuser(&self, password: Option<&str>) -> Result<Superuser> {
        let store = self.store();
        let _changing = store.lock_roles();
        let is_new = match store.role(DEFAULT_SUPERUSER)? {
            Some(role) if passwords::verify(DEFAULT_SUPERUSER, role.salted_hash.as_deref()) => false,
            None if store.all_roles()?.is_empty() => true,
            _ => return Ok(Superuser::Changed),
        };
        if !is_new && password.is_none() {
            return Ok(Superuser::HasDefaultPassword);
        }
        let change = RoleChange {
            is_superuser: is_new.then_some(true),
            can_login: is_new.then_some(true),
            salted_hash: Some(passwords::hash(password.unwrap_or(DEFAULT_SUPERUSER))?),
        };
        // Like Cassandra's: any later change of the role wins, whatever the clocks.
        let timestamp = match password {
            None => 0,
            Some(_) => store.next_timestamp(store.clock().now_micros())?,
        };
        let put = store.put_role(DEFAULT_SUPERUSER, &change, timestamp)?;
        store.write_roles(&[put])?;
        Ok(if password.is_some() { Superuser::PasswordWasSet } else { Superuser::HasDefaultPassword })
    }

    /// Removes the entry of a role from a cache, or all entries.
    pub fn invalidate_auth_cache(&self, kind: AuthCacheKind, role: Option<&str>) {
        let authorization = self.store().authorization();
        match role {
            Some(role) => authorization.invalidate_role(kind, role),
            None => authorization.invalidate_cache(kind),
        }
    }

    /// Empties the caches of credentials, roles and permissions.
    pub fn invalidate_auth_caches(&self) {
        self.store().authorization().invalidate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::database::Options;

    fn open() -> Database {
        let auth = AuthSettings { passwords: true, permissions: true, ..AuthSettings::default() };
        Database::open(Options { auth, ..Options::in_memory() }).unwrap()
    }

    #[test]
    fn only_the_password_of_a_role_that_can_log_in_is_accepted() {
        let database = open();
        let session = database.session();
        // Copied from Cassandra 5.0.8: the hash of "cassandra".
        let hash = "$2a$10$zObOFimTY907Fj4jkmC2oe4PFZS.SkLxNdY8lcd95ki2HSgJoSLRa";
        for cql in [
            "CREATE ROLE u WITH PASSWORD = 'geheim' AND LOGIN = true".to_owned(),
            "CREATE ROLE off WITH PASSWORD = 'geheim'".to_owned(),
            "CREATE ROLE none WITH LOGIN = true".to_owned(),
            format!("CREATE ROLE copied WITH HASHED PASSWORD = '{hash}' AND LOGIN = true"),
        ] {
            session.execute(cql.as_str(), ()).unwrap();
        }
        for (role, password, expected) in [
            ("u", "geheim", Login::Accepted),
            ("u", "Geheim", Login::Rejected),
            ("u", "", Login::Rejected),
            ("off", "geheim", Login::NotPermitted),
            ("off", "x", Login::Rejected),
            ("none", "", Login::Rejected),
            ("unknown", "", Login::Rejected),
            ("", "", Login::Rejected),
            ("copied", "cassandra", Login::Accepted),
        ] {
            assert_eq!(database.log_in(role, password).unwrap(), expected, "{role} {password}");
        }
        session.execute("ALTER ROLE u WITH PASSWORD = 'neu'", ()).unwrap();
        assert_eq!(database.log_in("u", "geheim").unwrap(), Login::Rejected);
        session.execute("DROP ROLE u", ()).unwrap();
        assert_eq!(database.log_in("u", "neu").unwrap(), Login::Rejected);
    }

    #[test]
    fn the_default_superuser_is_created_once_and_only_without_roles() {
        let database = open();
        assert_eq!(database.set_up_superuser(None).unwrap(), Superuser::HasDefaultPassword);
        assert_eq!(database.log_in("cassandra", "cassandra").unwrap(), Login::Accepted);
        assert!(database.store().is_superuser("cassandra").unwrap());
        assert_eq!(database.set_up_superuser(None).unwrap(), Superuser::HasDefaultPassword);
        assert_eq!(database.set_up_superuser(Some("geheim")).unwrap(), Superuser::PasswordWasSet);
        assert_eq!(database.log_in("cassandra", "geheim").unwrap(), Login::Accepted);
        assert_eq!(database.set_up_superuser(Some("other")).unwrap(), Superuser::Changed);
        assert_eq!(database.log_in("cassandra", "other").unwrap(), Login::Rejected);
        let session = database.session();
        session.execute("CREATE ROLE other WITH SUPERUSER = true", ()).unwrap();
        session.execute("DROP ROLE cassandra", ()).unwrap();
        assert_eq!(database.set_up_superuser(None).unwrap(), Superuser::Changed);
        assert_eq!(database.log_in("cassandra", "cassandra").unwrap(), Login::Rejected);
    }

    #[test]
    fn a_default_superuser_without_a_password_stays_without() {
        let database = open();
        let session = database.session();
        session.execute("CREATE ROLE cassandra WITH LOGIN = true", ()).unwrap();
        assert_eq!(database.set_up_superuser(Some("geheim")).unwrap(), Superuser::Changed);
        assert_eq!(database.log_in("cassandra", "geheim").unwrap(), Login::Rejected);
    }

    #[test]
    fn an_identity_logs_in_as_its_role_until_it_or_the_role_is_dropped() {
        let database = open();
        let session = database.session();
        let log_in = || database.log_in_with_identity("spiffe://a/b").unwrap();
        assert_eq!(log_in(), IdentityLogin::Unknown);
        assert!(!database.has_identities().unwrap());
        session.execute("CREATE ROLE u", ()).unwrap();
        session.execute("ADD IDENTITY 'spiffe://a/b' TO ROLE 'u'", ()).unwrap();
        assert!(database.has_identities().unwrap());
        assert_eq!(log_in(), IdentityLogin::NotPermitted("u".to_owned()));
        session.execute("ALTER ROLE u WITH LOGIN = true", ()).unwrap();
        assert_eq!(log_in(), IdentityLogin::Accepted("u".to_owned()));
        session.execute("DROP IDENTITY 'spiffe://a/b'", ()).unwrap();
        assert_eq!(log_in(), IdentityLogin::Unknown);
        session.execute("ADD IDENTITY 'spiffe://a/b' TO ROLE 'u'", ()).unwrap();
        session.execute("DROP ROLE u", ()).unwrap();
        assert_eq!(log_in(), IdentityLogin::Unknown);
        assert!(!database.has_identities().unwrap());
    }

    #[test]
    fn permissions_on_all_mbeans_select_what_a_role_may_do_at_the_admin_endpoint() {
        use AdminAccess::{None, Operator, ReadOnly};
        let database = open();
        let session = database.session();
        for cql in [
            "CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true",
            "CREATE ROLE off WITH SUPERUSER = true",
            "CREATE ROLE operators",
            "GRANT EXECUTE ON ALL MBEANS TO operators",
            "CREATE ROLE u WITH LOGIN = true",
        ] {
            session.execute(cql, ()).unwrap();
        }
        for (role, expected) in [("root", Operator), ("off", None), ("unknown", None), ("u", None)] {
            assert_eq!(database.admin_access(role).unwrap(), expected, "{role}");
        }
        for (cql, expected) in [
            ("GRANT DESCRIBE ON ALL MBEANS TO u", None),
            ("GRANT SELECT ON ALL KEYSPACES TO u", None),
            ("GRANT SELECT ON ALL MBEANS TO u", ReadOnly),
            ("GRANT MODIFY ON ALL MBEANS TO u", Operator),
            ("REVOKE MODIFY ON ALL MBEANS FROM u", ReadOnly),
            ("GRANT operators TO u", Operator),
            ("ALTER ROLE u WITH LOGIN = false", None),
            ("ALTER ROLE u WITH LOGIN = true", Operator),
            ("DROP ROLE u", None),
        ] {
            session.execute(cql, ()).unwrap();
            assert_eq!(database.admin_access("u").unwrap(), expected, "{cql}");
        }
        // As statements of any role are, without an authorizer.
        let auth = AuthSettings { passwords: true, ..AuthSettings::default() };
        let database = Database::open(Options { auth, ..Options::in_memory() }).unwrap();
        database.session().execute("CREATE ROLE u WITH LOGIN = true", ()).unwrap();
        assert_eq!(database.admin_access("u").unwrap(), Operator);
        assert_eq!(database.admin_access("unknown").unwrap(), None);
    }
}
