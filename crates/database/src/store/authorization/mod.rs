//! Roles and permissions as they are stored in `system_auth`, and caches of them.
//!
//! All changes by statements are made under one lock, in one record of the commit log that is
//! synced before the statement is acknowledged: a revoked permission stays revoked after a crash.

mod cache;
mod granted;
mod identities;
mod permissions;
mod roles;
mod rows;

use std::sync::Arc;

use cassette_engine::Mutation;
use cassette_rows::interrupt;
use parking_lot::{Mutex, MutexGuard};

use crate::basics::error::{DatabaseError, Result};
use crate::store::Store;

use cache::AuthCache;
pub use cache::AuthCacheSettings;
pub(crate) use granted::Granted;
pub(crate) use permissions::StoredPermission;
pub(crate) use roles::{Role, RoleChange};

/// Which clients are to be authenticated and authorized, and the caches of that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// Whether clients log in with passwords (`authenticator: PasswordAuthenticator`, or
    /// `MutualTlsWithPasswordFallbackAuthenticator`): then roles can have passwords.
    pub passwords: bool,
    /// Whether clients log in with certificates (`authenticator: MutualTlsAuthenticator`).
    pub certificates: bool,
    /// Whether permissions are checked (`authorizer: CassandraAuthorizer`).
    pub permissions: bool,
    /// The caches of the hashes of passwords and of the roles of certificates (`credentials_…`).
    pub credentials_cache: AuthCacheSettings,
    /// The cache of the permissions of roles (`permissions_…`).
    pub permissions_cache: AuthCacheSettings,
    /// The cache of the roles that roles are granted (`roles_…`).
    pub roles_cache: AuthCacheSettings,
}

/// The state of authentication and authorization.
#[derive(Debug)]
pub(crate) struct Authorization {
    settings: AuthSettings,
    /// Held while roles or permissions change.
    changing: Mutex<()>,
    credentials: AuthCache<Option<String>>,
    /// The roles of the identities of certificates.
    identities: AuthCache<Option<String>>,
    granted: AuthCache<Granted>,
    /// The roles that a role has, itself among them.
    memberships: AuthCache<Vec<Role>>,
}

impl Authorization {
    pub fn new(settings: AuthSettings) -> Self {
        Self {
            settings,
            changing: Mutex::new(()),
            credentials: AuthCache::new(settings.credentials_cache),
            identities: AuthCache::new(settings.credentials_cache),
            granted: AuthCache::new(settings.permissions_cache),
            memberships: AuthCache::new(settings.roles_cache),
        }
    }

    pub fn settings(&self) -> &AuthSettings {
        &self.settings
    }

    /// Removes all cached entries.
    pub fn invalidate(&self) {
        self.credentials.invalidate();
        self.identities.invalidate();
        self.memberships.invalidate();
        self.granted.invalidate();
    }
}

impl Store {
    /// Keeps others from changing roles and permissions while it is held.
    pub fn lock_roles(&self) -> MutexGuard<'_, ()> {
        self.authorization().changing.lock()
    }

    /// Writes a change of roles or permissions, durably, and invalidates the caches. The caller
    /// holds [`lock_roles`](Self::lock_roles).
    pub fn write_roles(&self, mutations: &[Mutation]) -> Result<()> {
        if mutations.is_empty() {
            return Ok(());
        }
        let written = interrupt::shielded(|| self.engine().apply_schema(mutations, &|_| false));
        // Also after a failure, which may have had an effect.
        self.authorization().invalidate();
        written.map_err(|error| DatabaseError::storage_in("cannot write system_auth", error))
    }

    /// Returns the hash of the password of a role; `None` without a role or password.
    pub fn password_hash(&self, role: &str) -> Result<Arc<Option<String>>> {
        let read = || Ok(self.role(role)?.and_then(|role| role.salted_hash));
        self.authorization().credentials.get(role, self.clock().monotonic(), read)
    }

    /// Returns the roles that a role has, itself first; empty if it does not exist.
    pub fn roles_of(&self, role: &str) -> Result<Arc<Vec<Role>>> {
        let read = || self.read_roles_of(role, true);
        self.authorization().memberships.get(role, self.clock().monotonic(), read)
    }

    /// Returns whether a role is a superuser, by itself or by a role that it has.
    pub fn is_superuser(&self, role: &str) -> Result<bool> {
        Ok(self.roles_of(role)?.iter().any(|role| role.is_superuser))
    }

    /// Returns what a role is permitted, by itself and by the roles that it has.
    pub fn granted(&self, role: &str) -> Result<Arc<Granted>> {
        let read = || {
            let roles = self.roles_of(role)?;
            let mut granted = Granted::new(roles.iter().any(|role| role.is_superuser));
            for role in roles.iter() {
                for permission in self.permissions_of(&role.name)? {
                    granted.add(permission.resource, permission.permissions);
                }
            }
            Ok(granted)
        };
        self.authorization().granted.get(role, self.clock().monotonic(), read)
    }
}
