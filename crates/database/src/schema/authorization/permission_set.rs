//! Sets of permissions.

use cassette_cql::ast::Permission;

/// A set of permissions: a bit for each, in the order of [`Permission::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PermissionSet(u16);

impl PermissionSet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self((1 << Permission::ALL.len()) - 1);

    pub const fn of(permissions: &[Permission]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < permissions.len() {
            bits |= 1 << permissions[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// Reads the elements of a stored set. Skips names that this version does not have.
    pub fn from_names<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let permission = |name: &[u8]| Permission::ALL.into_iter().find(|p| p.name().as_bytes() == name);
        names.filter_map(permission).fold(Self::EMPTY, |set, permission| set.union(Self::of(&[permission])))
    }

    pub const fn contains(self, permission: Permission) -> bool {
        self.0 & 1 << permission as u16 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Iterates in Cassandra's order.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |permission| self.contains(*permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bit_of_a_permission_is_its_position() {
        for (i, permission) in Permission::ALL.into_iter().enumerate() {
            assert_eq!(permission as usize, i);
            assert!(PermissionSet::ALL.contains(permission));
            assert_eq!(PermissionSet::of(&[permission]).iter().collect::<Vec<_>>(), [permission]);
        }
    }

    #[test]
    fn unknown_stored_names_are_skipped() {
        let names: [&[u8]; 3] = [b"SELECT", b"FLY", b"MODIFY"];
        let expected = PermissionSet::of(&[Permission::Select, Permission::Modify]);
        assert_eq!(PermissionSet::from_names(names.into_iter()), expected);
    }
}
