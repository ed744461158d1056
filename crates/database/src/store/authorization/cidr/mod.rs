//! Access of roles by the addresses of clients (`cidr_authorizer: CassandraCIDRAuthorizer`).
//!
//! A lookup uses the CIDR groups as of the last reload, an immutable table. Reloads read
//! `cidr_groups`: at the start, on command, and with the first check after the refresh interval.

mod lookup;
mod metrics;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use cassette_engine::may_wait;
use cassette_engine::metrics::{Counter, Histogram};
use parking_lot::Mutex;

use super::cache::{AuthCache, AuthCacheSettings};
use crate::basics::error::{DatabaseError, Result};
use crate::schema::authorization::{AllowedNames, Cidr, shown_address};
use crate::store::Store;

use lookup::{CidrGroup, GroupTable, UNDEFINED};
pub use metrics::CidrFiltering;

/// The time between two warnings of accesses that would be refused.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The parameters of `CassandraCIDRAuthorizer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CidrSettings {
    /// Whether to refuse access (`cidr_authorizer_mode: ENFORCE`) instead of logging it
    /// (`MONITOR`).
    pub enforces: bool,
    /// Whether the access of superusers can be restricted, too (`cidr_checks_for_superusers`).
    pub checks_superusers: bool,
    /// The time after which changed groups take effect without a reload
    /// (`cidr_groups_cache_refresh_interval`).
    pub refresh_interval: Duration,
}

/// The state of `CassandraCIDRAuthorizer`.
#[derive(Debug)]
pub(crate) struct CidrAuthorizer {
    settings: CidrSettings,
    /// The groups that roles can connect from.
    access: AuthCache<AllowedNames>,
    table: ArcSwap<GroupTable>,
    /// Held by reloads, so that none replaces the result of a later one.
    reloading: Mutex<()>,
    /// All groups since the start, by name: their counts outlast reloads.
    groups: Mutex<BTreeMap<Box<str>, Arc<CidrGroup>>>,
    /// When the groups were last read, successfully or not: microseconds of monotonic time.
    read_at: AtomicU64,
    /// When a warning was last logged: microseconds of monotonic time; 0 for never.
    warned_at: AtomicU64,
    pub metrics: CidrMetrics,
}

/// Metrics of the authorizer. Latencies are in nanoseconds.
#[derive(Debug)]
pub(crate) struct CidrMetrics {
    pub checks: Histogram,
    pub lookups: Histogram,
    pub reloads: Counter,
    pub reload_times: Histogram,
    /// Accesses from addresses in no group.
    undefined: CidrGroup,
}

impl CidrAuthorizer {
    pub fn new(settings: CidrSettings, roles_cache: AuthCacheSettings) -> Self {
        Self {
            settings,
            access: AuthCache::new(roles_cache),
            table: ArcSwap::default(),
            reloading: Mutex::default(),
            groups: Mutex::default(),
            read_at: AtomicU64::new(0),
            warned_at: AtomicU64::new(0),
            metrics: CidrMetrics {
                checks: Histogram::of_positive_counts(),
                lookups: Histogram::of_positive_counts(),
                reloads: Counter::default(),
                reload_times: Histogram::of_positive_counts(),
                undefined: CidrGroup::new(UNDEFINED),
            },
        }
    }

    /// Removes the cached access of all roles.
    pub fn invalidate(&self) {
        self.access.invalidate();
    }

    /// Returns the groups and their counts, in the order of their names.
    pub fn counts(&self) -> Vec<(String, u64, u64)> {
        let counts = |group: &CidrGroup| (group.name.to_string(), group.accepted.get(), group.rejected.get());
        let mut all: Vec<_> = self.groups.lock().values().map(|group| counts(group)).collect();
        all.push(counts(&self.metrics.undefined));
        all.sort();
        all
    }

    /// Returns the CIDRs of stored groups, with the groups that count their accesses.
    fn with_counts(&self, stored: BTreeMap<String, BTreeSet<Cidr>>) -> Vec<(Cidr, Arc<CidrGroup>)> {
        let mut groups = self.groups.lock();
        let mut cidrs = Vec::new();
        for (name, of_group) in stored {
            let group = groups.entry(name.as_str().into());
            let group = group.or_insert_with(|| Arc::new(CidrGroup::new(&name)));
            cidrs.extend(of_group.into_iter().map(|cidr| (cidr, group.clone())));
        }
        cidrs
    }

    /// Returns whether a role has access from an address, and counts it.
    fn permits(&self, role: &str, allowed: &AllowedNames, address: IpAddr, store: &Store) -> bool {
        if self.settings.enforces && *allowed == AllowedNames::All {
            return true;
        }
        let start = store.clock().monotonic();
        let table = self.table.load();
        let groups = table.groups_of(address);
        self.metrics.lookups.record(nanoseconds(store.clock().monotonic().saturating_sub(start)));
        let has_access =
            *allowed == AllowedNames::All || groups.iter().any(|group| allowed.contains(&group.name));
        if !has_access && !self.settings.enforces {
            self.warn(role, address, groups, start);
        }
        // As in Cassandra, all accesses are accepted where they are monitored.
        let is_accepted = has_access || !self.settings.enforces;
        let count = |group: &CidrGroup| if is_accepted { &group.accepted } else { &group.rejected }.add(1);
        if groups.is_empty() {
            count(&self.metrics.undefined);
        }
        groups.iter().for_each(|group| count(group));
        is_accepted
    }

    /// Logs an access that would be refused, unless another one was logged recently.
    fn warn(&self, role: &str, address: IpAddr, groups: &[Arc<CidrGroup>], now: Duration) {
        let now = microseconds(now).max(1);
        let last = self.warned_at.load(Ordering::Relaxed);
        let is_due = last == 0 || now.saturating_sub(last) >= microseconds(WARNING_INTERVAL);
        let swap = || self.warned_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && swap().is_ok() {
            let groups = groups.iter().map(|group| &*group.name).collect::<Vec<_>>().join(", ");
            let address = shown_address(address);
            tracing::warn!(
                "role {role} accessed from unauthorized address {address}, CIDR groups [{groups}]"
            );
        }
    }
}

impl Store {
    /// Checks that a role has access from the address of its client.
    ///
    /// # Errors
    /// Unauthorized; WouldBlock, if this thread may not wait for a disk and would have to.
    pub fn check_address(&self, role: &str, address: IpAddr) -> Result<()> {
        let Some(cidr) = self.authorization().cidr() else { return Ok(()) };
        let start = self.clock().monotonic();
        self.refresh_cidr_groups(cidr, start)?;
        let read = || self.read_cidr_access(role, cidr.settings.checks_superusers);
        let allowed = cidr.access.get(role, start, read)?;
        let is_permitted = cidr.permits(role, &allowed, address, self);
        cidr.metrics.checks.record(nanoseconds(self.clock().monotonic().saturating_sub(start)));
        if is_permitted {
            return Ok(());
        }
        let address = shown_address(address);
        Err(DatabaseError::Unauthorized(format!("You do not have access from this IP {address}")))
    }

    /// Reads the CIDR groups again, so that lookups use them as they are now.
    ///
    /// # Errors
    /// If they cannot be read, or `AllowAllCIDRAuthorizer` has no use for them.
    pub fn reload_cidr_groups(&self) -> Result<()> {
        let cidr = self.cidr_authorizer("Load CIDR groups cache")?;
        let _reloading = cidr.reloading.lock();
        self.read_cidr_groups(cidr)
    }

    /// Returns the names of the groups of an address, in order.
    ///
    /// # Errors
    /// With `AllowAllCIDRAuthorizer`.
    pub fn cidr_groups_of(&self, address: IpAddr) -> Result<Vec<String>> {
        let cidr = self.cidr_authorizer("'Get CIDR groups for IP'")?;
        let table = cidr.table.load();
        let names: BTreeSet<String> =
            table.groups_of(address).iter().map(|group| group.name.to_string()).collect();
        Ok(names.into_iter().collect())
    }

    /// Removes the cached access of a role, or of all roles. Returns whether there was any.
    ///
    /// # Errors
    /// With `AllowAllCIDRAuthorizer`.
    pub fn invalidate_cidr_access(&self, role: Option<&str>) -> Result<bool> {
        let cidr = self.cidr_authorizer("Invalidate CIDR permissions cache")?;
        let Some(role) = role else {
            cidr.access.invalidate();
            return Ok(true);
        };
        let cached = cidr.access.entries(self.clock().monotonic());
        cidr.access.invalidate_key(role);
        Ok(cached.iter().any(|(name, _)| **name == *role))
    }

    fn cidr_authorizer(&self, operation: &str) -> Result<&CidrAuthorizer> {
        self.authorization().cidr().ok_or_else(|| {
            DatabaseError::Invalid(format!("{operation} operation not supported by AllowAllCIDRAuthorizer"))
        })
    }

    /// Reads the groups again if the interval has passed. Other requests use the older ones
    /// meanwhile, and all do so after a failure.
    fn refresh_cidr_groups(&self, cidr: &CidrAuthorizer, now: Duration) -> Result<()> {
        let read_at = cidr.read_at.load(Ordering::Relaxed);
        if microseconds(now).saturating_sub(read_at) < microseconds(cidr.settings.refresh_interval) {
            return Ok(());
        }
        let Some(_reloading) = cidr.reloading.try_lock() else { return Ok(()) };
        if !may_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        if let Err(error) = self.read_cidr_groups(cidr) {
            tracing::error!(%error, "cannot refresh the CIDR groups: those of the last reload stay in use");
        }
        Ok(())
    }

    /// Reads the groups. The caller holds [`CidrAuthorizer::reloading`].
    fn read_cidr_groups(&self, cidr: &CidrAuthorizer) -> Result<()> {
        let start = self.clock().monotonic();
        cidr.read_at.store(microseconds(start), Ordering::Relaxed);
        let stored = self.cidr_groups()?;
        cidr.table.store(Arc::new(GroupTable::new(cidr.with_counts(stored))));
        cidr.metrics.reloads.add(1);
        let time = self.clock().monotonic().saturating_sub(start);
        cidr.metrics.reload_times.record(nanoseconds(time));
        Ok(())
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
