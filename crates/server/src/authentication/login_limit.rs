//! Limits of failed logins, by address and by role.
//!
//! Each failure fills a bucket that leaks at a constant rate. While the bucket of an address is
//! full, its logins are refused without hashing a password. The bucket of a role is shared by all
//! addresses; while it is full, only addresses with failures of their own are refused, so that an
//! attacker cannot lock out clients elsewhere.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

/// Failures that an address may have at once, and the time in which one is forgotten.
const OF_ADDRESS: Bucket = Bucket { failures: 20, leak: Duration::from_millis(500) };

/// The same for a role.
const OF_ROLE: Bucket = Bucket { failures: 50, leak: Duration::from_millis(200) };

/// The maximum number of addresses and of roles with failures that are remembered.
const ENTRIES_MAX: usize = 4096;

/// The longest role name that is remembered whole, in bytes: longer ones share the entry of their
/// first bytes.
const NAME_LENGTH_MAX: usize = 128;

/// A bucket of failures.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    failures: u32,
    leak: Duration,
}

/// Counts failed logins.
#[derive(Debug, Default)]
pub(crate) struct LoginLimit {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    addresses: Failures<IpAddr>,
    roles: Failures<Box<str>>,
}

/// The times at which buckets will be empty, by key. Empty buckets have no entry, or an old one.
#[derive(Debug)]
struct Failures<K>(HashMap<K, Duration>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl LoginLimit {
    /// Returns whether a login may be evaluated. `now` is monotonic time.
    pub fn permits(&self, address: IpAddr, role: Option<&str>, now: Duration) -> bool {
        let state = self.state.lock();
        let address = network(address);
        if state.addresses.is_full(&address, OF_ADDRESS, now) {
            return false;
        }
        let is_role_full = role.is_some_and(|role| state.roles.is_full(key(role), OF_ROLE, now));
        !(is_role_full && state.addresses.has_any(&address, now))
    }

    /// Counts a failed login.
    pub fn failed(&self, address: IpAddr, role: Option<&str>, now: Duration) {
        let mut state = self.state.lock();
        state.addresses.add(network(address), OF_ADDRESS, now);
        if let Some(role) = role {
            state.roles.add(key(role).into(), OF_ROLE, now);
        }
    }
}

impl<K: Hash + Eq + Clone> Failures<K> {
    fn is_full<Q>(&self, key: &Q, bucket: Bucket, now: Duration) -> bool
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let empty_at = self.0.get(key).copied().unwrap_or_default();
        empty_at.saturating_sub(now) > bucket.leak * (bucket.failures - 1)
    }

    fn has_any(&self, key: &K, now: Duration) -> bool {
        self.0.get(key).is_some_and(|empty_at| *empty_at > now)
    }

    fn add(&mut self, key: K, bucket: Bucket, now: Duration) {
        if self.0.len() >= ENTRIES_MAX && !self.0.contains_key(&key) {
            self.make_room(now);
        }
        let empty_at = self.0.entry(key).or_insert(now);
        *empty_at = (*empty_at).max(now) + bucket.leak;
    }

    /// Removes empty buckets, or else the emptiest one.
    fn make_room(&mut self, now: Duration) {
        self.0.retain(|_, empty_at| *empty_at > now);
        if self.0.len() >= ENTRIES_MAX {
            let emptiest = self.0.iter().min_by_key(|(_, empty_at)| **empty_at);
            if let Some(key) = emptiest.map(|(key, _)| key.clone()) {
                self.0.remove(&key);
            }
        }
    }
}

/// Returns the address, or of IPv6 the network that one client usually has.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX))),
        },
    }
}

fn key(role: &str) -> &str {
    let end = (0..=NAME_LENGTH_MAX.min(role.len())).rev().find(|end| role.is_char_boundary(*end));
    &role[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    const START: Duration = Duration::from_secs(1000);

    #[test]
    fn an_address_with_many_failures_is_refused_until_some_are_forgotten() {
        let limit = LoginLimit::default();
        for _ in 0..OF_ADDRESS.failures {
            assert!(limit.permits(address(1), Some("a"), START));
            limit.failed(address(1), Some("a"), START);
        }
        assert!(!limit.permits(address(1), Some("b"), START));
        assert!(limit.permits(address(2), Some("a"), START));
        assert!(limit.permits(address(1), Some("b"), START + OF_ADDRESS.leak));
    }

    #[test]
    fn a_role_under_attack_is_refused_only_to_addresses_that_have_failed() {
        let limit = LoginLimit::default();
        for n in 0..OF_ROLE.failures {
            limit.failed(address(n), Some("a"), START);
        }
        assert!(!limit.permits(address(1), Some("a"), START));
        assert!(limit.permits(address(1), Some("b"), START));
        assert!(limit.permits(address(1000), Some("a"), START));
    }

    #[test]
    fn the_tables_are_bounded_and_keep_the_worst() {
        let limit = LoginLimit::default();
        for _ in 0..OF_ADDRESS.failures {
            limit.failed(address(0), Some("worst"), START);
        }
        for n in 1..2 * ENTRIES_MAX as u32 {
            limit.failed(address(n), Some(&n.to_string()), START);
        }
        let state = limit.state.lock();
        assert_eq!((state.addresses.0.len(), state.roles.0.len()), (ENTRIES_MAX, ENTRIES_MAX));
        drop(state);
        assert!(!limit.permits(address(0), None, START));
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_a_bucket() {
        assert_eq!(network("2001:db8::1".parse().unwrap()), network("2001:db8::ffff:1".parse().unwrap()));
        assert_ne!(network("2001:db8::1".parse().unwrap()), network("2001:db8:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), address(10 << 24 | 1));
    }
}
