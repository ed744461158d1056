//! CIDR groups: networks of clients, to which the access of roles can be restricted.

use std::net::IpAddr;

use crate::api::database::Database;
use crate::basics::error::Result;
use crate::store::authorization::CidrFiltering;

/// A CIDR group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidrGroup {
    /// Its name.
    pub name: String,
    /// Its CIDRs as Cassandra shows them, in order.
    pub cidrs: Vec<String>,
}

impl Database {
    /// Reads the stored CIDR groups, in the order of their names.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn cidr_groups(&self) -> Result<Vec<CidrGroup>> {
        let groups = self.store().cidr_groups()?.into_iter();
        Ok(groups
            .map(|(name, cidrs)| CidrGroup { name, cidrs: cidrs.iter().map(ToString::to_string).collect() })
            .collect())
    }

    /// Replaces the CIDRs of a group, or creates it. Takes effect with the next reload.
    ///
    /// # Errors
    /// Invalid, for CIDRs that are none.
    pub fn update_cidr_group(&self, name: &str, cidrs: &[String]) -> Result<()> {
        self.store().update_cidr_group(name, cidrs)
    }

    /// Removes a CIDR group. Takes effect with the next reload.
    ///
    /// # Errors
    /// Invalid, if it does not exist.
    pub fn drop_cidr_group(&self, name: &str) -> Result<()> {
        self.store().drop_cidr_group(name)
    }

    /// Makes checks use the CIDR groups as they are stored now.
    ///
    /// # Errors
    /// Invalid, without [`AuthSettings::cidr`](crate::AuthSettings::cidr).
    pub fn reload_cidr_groups(&self) -> Result<()> {
        self.store().reload_cidr_groups()
    }

    /// Returns the groups of an address as of the last reload, in the order of their names.
    ///
    /// # Errors
    /// Invalid, without [`AuthSettings::cidr`](crate::AuthSettings::cidr).
    pub fn cidr_groups_of(&self, address: IpAddr) -> Result<Vec<String>> {
        self.store().cidr_groups_of(address)
    }

    /// Removes the cached CIDR groups of a role, or of all roles. Returns whether there were any.
    ///
    /// # Errors
    /// Invalid, without [`AuthSettings::cidr`](crate::AuthSettings::cidr).
    pub fn invalidate_cidr_access(&self, role: Option<&str>) -> Result<bool> {
        self.store().invalidate_cidr_access(role)
    }

    /// Returns the metrics of checks of addresses.
    pub fn cidr_filtering(&self) -> CidrFiltering {
        CidrFiltering::of(self.store())
    }
}
