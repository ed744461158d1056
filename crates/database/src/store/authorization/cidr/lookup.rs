//! The CIDR groups of addresses, for lookups without locks.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use cassette_engine::metrics::BusyCounter;

use crate::schema::authorization::Cidr;

/// The name under which accesses are counted whose address is in no group.
pub(super) const UNDEFINED: &str = "Undefined";

/// A CIDR group, with its counts of accesses.
#[derive(Debug)]
pub(crate) struct CidrGroup {
    pub name: Box<str>,
    pub accepted: BusyCounter,
    pub rejected: BusyCounter,
}

impl CidrGroup {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), accepted: BusyCounter::default(), rejected: BusyCounter::default() }
    }
}

/// Groups with the same CIDR.
type Groups = Arc<[Arc<CidrGroup>]>;

/// The groups of all addresses: those whose CIDR contains the address and has the longest prefix.
#[derive(Debug, Default)]
pub(super) struct GroupTable {
    v4: Ranges,
    v6: Ranges,
}

impl GroupTable {
    pub fn new(cidrs: impl IntoIterator<Item = (Cidr, Arc<CidrGroup>)>) -> Self {
        let mut by_cidr: BTreeMap<Cidr, Vec<Arc<CidrGroup>>> = BTreeMap::new();
        for (cidr, group) in cidrs {
            by_cidr.entry(cidr).or_default().push(group);
        }
        let (v4, v6): (Vec<_>, Vec<_>) = by_cidr
            .into_iter()
            .map(|(cidr, groups)| (cidr, groups.into()))
            .partition(|(cidr, _)| cidr.first().is_ipv4());
        Self { v4: Ranges::new(v4), v6: Ranges::new(v6) }
    }

    /// Returns the groups of an address; empty if it is in none.
    pub fn groups_of(&self, address: IpAddr) -> &[Arc<CidrGroup>] {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.find(address.to_bits().into()),
            IpAddr::V6(address) => self.v6.find(address.to_bits()),
        }
    }
}

/// Disjoint ranges of addresses, in order. Each ends where the next one starts.
#[derive(Debug, Default)]
struct Ranges {
    starts: Vec<u128>,
    /// The groups of each range; none for those between CIDRs.
    groups: Vec<Option<Groups>>,
}

impl Ranges {
    /// Makes the ranges of CIDRs in their order, in which a CIDR is after those that contain it.
    /// Two CIDRs are disjoint, or one contains the other.
    fn new(cidrs: Vec<(Cidr, Groups)>) -> Self {
        let mut ranges = Self::default();
        // The CIDRs that contain the current one, with the last address of each.
        let mut open: Vec<(u128, Groups)> = Vec::new();
        for (cidr, groups) in cidrs {
            let (first, last) = cidr.bounds();
            ranges.end_before(first, &mut open);
            ranges.begin(first, Some(groups.clone()));
            open.push((last, groups));
        }
        ranges.end_before(u128::MAX, &mut open);
        ranges
    }

    /// Ends the open CIDRs whose last address is before `first`.
    fn end_before(&mut self, first: u128, open: &mut Vec<(u128, Groups)>) {
        while let Some((last, _)) = open.pop_if(|(last, _)| *last < first) {
            self.begin(last + 1, open.last().map(|(_, groups)| groups.clone()));
        }
    }

    /// Begins a range, in place of one that begins at the same address.
    fn begin(&mut self, start: u128, groups: Option<Groups>) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.groups.pop();
        }
        self.starts.push(start);
        self.groups.push(groups);
    }

    fn find(&self, address: u128) -> &[Arc<CidrGroup>] {
        let after = self.starts.partition_point(|start| *start <= address);
        let range = after.checked_sub(1).and_then(|range| self.groups.get(range));
        range.and_then(Option::as_deref).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cidrs: &[(&str, &str)]) -> GroupTable {
        let cidr = |(cidr, group): &(&str, &str)| {
            (Cidr::parse(cidr).unwrap_or_else(|| panic!("{cidr}")), Arc::new(CidrGroup::new(group)))
        };
        GroupTable::new(cidrs.iter().map(cidr))
    }

    fn found(table: &GroupTable, address: &str) -> Vec<String> {
        let groups = table.groups_of(address.parse().unwrap());
        groups.iter().map(|group| group.name.to_string()).collect()
    }

    #[test]
    fn the_cidr_with_the_longest_prefix_determines_the_groups() {
        let table = table(&[
            ("10.0.0.0/8", "a"),
            ("10.1.0.0/16", "b"),
            ("10.1.2.0/24", "c"),
            ("10.1.2.0/24", "d"),
            ("10.1.255.0/24", "e"),
            ("11.0.0.0/8", "f"),
            ("255.255.255.255/32", "g"),
            ("2001:db8::/32", "h"),
            ("2001:db8::1/128", "i"),
        ]);
        for (address, expected) in [
            ("9.255.255.255", &[][..]),
            ("10.0.0.0", &["a"]),
            ("10.1.0.0", &["b"]),
            ("10.1.1.255", &["b"]),
            ("10.1.2.0", &["c", "d"]),
            ("10.1.2.255", &["c", "d"]),
            ("10.1.3.0", &["b"]),
            ("10.1.255.255", &["e"]),
            ("10.2.0.0", &["a"]),
            ("10.255.255.255", &["a"]),
            ("11.0.0.0", &["f"]),
            ("12.0.0.0", &[]),
            ("255.255.255.254", &[]),
            ("255.255.255.255", &["g"]),
            ("::ffff:10.1.2.3", &["c", "d"]),
            ("2001:db8::", &["h"]),
            ("2001:db8::1", &["i"]),
            ("2001:db8::2", &["h"]),
            ("2001:db9::", &[]),
            ("::a01:203", &[]),
        ] {
            assert_eq!(found(&table, address), expected, "{address}");
        }
        assert!(found(&GroupTable::default(), "1.2.3.4").is_empty());
    }

    #[test]
    fn a_prefix_of_zero_contains_all_addresses_of_its_kind() {
        let table = table(&[("0.0.0.0/0", "four"), ("::/0", "six"), ("ffff::/16", "last")]);
        for (address, expected) in [
            ("0.0.0.0", "four"),
            ("255.255.255.255", "four"),
            ("::", "six"),
            ("fffe::", "six"),
            ("ffff::1", "last"),
        ] {
            assert_eq!(found(&table, address), [expected], "{address}");
        }
    }

    #[test]
    fn lookups_agree_with_a_search_of_all_cidrs() {
        // A generator of numbers with a fixed seed.
        let mut state = 7u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            // Addresses of eight bits, so that CIDRs often contain each other.
            let cidrs: Vec<String> =
                (0..random(12)).map(|_| format!("0.0.0.{}/{}", random(256), 24 + random(9))).collect();
            let named: Vec<(&str, &str)> = cidrs.iter().map(|cidr| (&**cidr, &**cidr)).collect();
            let table = table(&named);
            for last in 0..=255u128 {
                let containing = cidrs.iter().filter_map(|text| Cidr::parse(text)).filter(|cidr| {
                    let (first, end) = cidr.bounds();
                    (first..=end).contains(&last)
                });
                let longest = containing.max_by_key(Cidr::prefix_length);
                let mut expected: Vec<&String> =
                    cidrs.iter().filter(|text| Cidr::parse(text) == longest && longest.is_some()).collect();
                expected.sort();
                let mut groups = found(&table, &format!("0.0.0.{last}"));
                groups.sort();
                assert_eq!(groups.iter().collect::<Vec<_>>(), expected, "{cidrs:?} {last}");
            }
        }
    }
}
