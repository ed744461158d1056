//! Roles and permissions as they are stored in `system_auth`, and caches of them.
//!
//! All changes by statements are made under one lock, in one record of the commit log that is
//! synced before the statement is acknowledged: a revoked permission stays revoked after a crash.

mod cache;
mod cidr;
mod granted;
mod identities;
mod network;
mod permissions;
mod roles;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use cassette_engine::Mutation;
use cassette_rows::interrupt;
use parking_lot::{Mutex, MutexGuard};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::authorization::{AllowedNames, AuthCacheKind};
use crate::store::Store;

use cache::AuthCache;
pub use cache::AuthCacheSettings;
use cidr::CidrAuthorizer;
pub use cidr::{CidrFiltering, CidrSettings};
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
    /// Whether roles can use certain data centers only (`network_authorizer:
    /// CassandraNetworkAuthorizer`).
    pub network: bool,
    /// The restriction of roles to addresses; none unless `cidr_authorizer` is
    /// `CassandraCIDRAuthorizer`.
    pub cidr: Option<CidrSettings>,
    /// The caches of the hashes of passwords and of the roles of certificates (`credentials_…`).
    pub credentials_cache: AuthCacheSettings,
    /// The cache of the permissions of roles (`permissions_…`).
    pub permissions_cache: AuthCacheSettings,
    /// The caches of the roles that roles are granted, and of their data centers and CIDR groups
    /// (`roles_…`).
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
    data_centers: AuthCache<AllowedNames>,
    cidr: Option<CidrAuthorizer>,
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
            data_centers: AuthCache::new(settings.roles_cache),
            cidr: settings.cidr.map(|cidr| CidrAuthorizer::new(cidr, settings.roles_cache)),
        }
    }

    /// Returns the restriction of roles to addresses, if there is one.
    pub fn cidr(&self) -> Option<&CidrAuthorizer> {
        self.cidr.as_ref()
    }

    pub fn settings(&self) -> &AuthSettings {
        &self.settings
    }

    /// Removes all cached entries.
    pub fn invalidate(&self) {
        for kind in AuthCacheKind::ALL {
            self.invalidate_cache(kind);
        }
        if let Some(cidr) = &self.cidr {
            cidr.invalidate();
        }
    }

    /// Removes all entries of a cache.
    pub fn invalidate_cache(&self, kind: AuthCacheKind) {
        match kind {
            AuthCacheKind::Credentials => {
                self.credentials.invalidate();
                self.identities.invalidate();
            }
            AuthCacheKind::Permissions => self.granted.invalidate(),
            AuthCacheKind::Roles => self.memberships.invalidate(),
            AuthCacheKind::NetworkPermissions => self.data_centers.invalidate(),
            // It is always empty.
            AuthCacheKind::JmxPermissions => {}
        }
    }

    /// Removes the entry of a role from a cache.
    pub fn invalidate_role(&self, kind: AuthCacheKind, role: &str) {
        match kind {
            AuthCacheKind::Credentials => self.credentials.invalidate_key(role),
            AuthCacheKind::Permissions => self.granted.invalidate_key(role),
            AuthCacheKind::Roles => self.memberships.invalidate_key(role),
            AuthCacheKind::NetworkPermissions => self.data_centers.invalidate_key(role),
            AuthCacheKind::JmxPermissions => {}
        }
    }

    /// Returns the roles with an entry in a cache; of permissions with the stored name of a
    /// resource, for each on which the role has any. `now` is monotonic time.
    pub fn cached_keys(&self, kind: AuthCacheKind, now: Duration) -> Vec<(Box<str>, Option<Box<str>>)> {
        fn roles<V>(
            cache: &AuthCache<V>,
            now: Duration,
            exists: impl Fn(&V) -> bool,
        ) -> Vec<(Box<str>, Option<Box<str>>)> {
            let entries = cache.entries(now).into_iter().filter(|(_, value)| exists(value));
            entries.map(|(role, _)| (role, None)).collect()
        }
        match kind {
            AuthCacheKind::Credentials => roles(&self.credentials, now, Option::is_some),
            AuthCacheKind::Permissions => {
                let of_role = |(role, granted): (Box<str>, Arc<Granted>)| {
                    let resources: Vec<_> = granted.resources().map(Box::from).collect();
                    resources.into_iter().map(move |resource| (role.clone(), Some(resource)))
                };
                self.granted.entries(now).into_iter().flat_map(of_role).collect()
            }
            AuthCacheKind::Roles => roles(&self.memberships, now, |roles| !roles.is_empty()),
            AuthCacheKind::NetworkPermissions => roles(&self.data_centers, now, |_| true),
            AuthCacheKind::JmxPermissions => Vec::new(),
        }
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
