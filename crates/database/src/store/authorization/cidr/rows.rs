//! Rows of `cidr_groups` and `cidr_permissions`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cassette_cql::ast::Access;
use cassette_engine::Mutation;
use cassette_rows::types::collection;

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::schema::authorization::{AllowedNames, Cidr, shown_address};
use crate::schema::system::encode::{StoredRow, Value, mutation, partition_deletion, row_update};
use crate::schema::system::{CIDR_GROUPS, CIDR_PERMISSIONS};
use crate::store::Store;

/// The longest partition key.
const NAME_LENGTH_MAX: usize = u16::MAX as usize;

impl Store {
    /// Reads all CIDR groups, with their CIDRs in order.
    ///
    /// # Errors
    /// If they cannot be read; WouldBlock, if this thread may not wait for a disk and would have
    /// to.
    pub fn cidr_groups(&self) -> Result<BTreeMap<String, BTreeSet<Cidr>>> {
        let mut found = BTreeMap::new();
        self.visit_auth_rows(&self.auth_table(CIDR_GROUPS)?, None, |name, row| {
            found.insert(name.to_owned(), cidrs_of(name, row));
        })?;
        Ok(found)
    }

    /// Replaces the CIDRs of a group, or creates it.
    ///
    /// # Errors
    /// Invalid, for CIDRs that are none.
    pub fn update_cidr_group(&self, name: &str, cidrs: &[String]) -> Result<()> {
        let parse = |text: &String| {
            Cidr::parse(text)
                .ok_or_else(|| DatabaseError::Invalid(format!("{text} is not a valid CIDR String")))
        };
        let cidrs: Vec<Cidr> = cidrs.iter().map(parse).collect::<Result<_>>()?;
        match name.len() {
            0 => bail_invalid!("Key may not be empty"),
            length if length > NAME_LENGTH_MAX => {
                bail_invalid!("Key length of {length} is longer than maximum of {NAME_LENGTH_MAX}")
            }
            _ => {}
        }
        let _changing = self.lock_roles();
        let table = self.auth_table(CIDR_GROUPS)?;
        let timestamp = self.next_timestamp(self.clock().now_micros())?;
        let row = row_update(&table, &[], &[("cidrs", Value::Bytes(encoded(&cidrs)))], timestamp);
        self.write_roles(&[mutation(&table, name, vec![row])])
    }

    /// Removes a CIDR group. Roles keep its name: they cannot connect by it.
    ///
    /// # Errors
    /// Invalid, if it does not exist or has no CIDRs.
    pub fn drop_cidr_group(&self, name: &str) -> Result<()> {
        let _changing = self.lock_roles();
        if self.cidr_groups()?.get(name).is_none_or(BTreeSet::is_empty) {
            bail_invalid!("CIDR group '{name}' doesn't exists");
        }
        let timestamp = self.next_timestamp(self.clock().now_micros())?;
        self.write_roles(&[partition_deletion(&self.auth_table(CIDR_GROUPS)?, name, timestamp)])
    }

    /// Checks that the groups of a statement's `ACCESS FROM CIDRS` exist.
    pub fn check_cidr_groups(&self, access: &Access) -> Result<()> {
        let Access::Only(names) = access else { return Ok(()) };
        let available = self.cidr_groups()?;
        if names.iter().all(|name| available.contains_key(&**name)) {
            return Ok(());
        }
        let names: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
        bail_invalid!(
            "Invalid CIDR group(s): [{}]. Available CIDR Groups are: [{}]",
            names.into_iter().collect::<Vec<_>>().join(", "),
            available.into_keys().collect::<Vec<_>>().join(", ")
        );
    }

    /// Reads the CIDR groups that a role can connect from, by itself: as in Cassandra, those of its
    /// roles do not apply.
    pub(super) fn read_cidr_access(&self, name: &str, checks_superusers: bool) -> Result<AllowedNames> {
        if !self.role(name)?.is_some_and(|role| role.can_login) {
            return Ok(AllowedNames::None);
        }
        if !checks_superusers && self.is_superuser(name)? {
            return Ok(AllowedNames::All);
        }
        let mut found = BTreeSet::new();
        self.visit_auth_rows(&self.auth_table(CIDR_PERMISSIONS)?, Some(name), |_, row| {
            found = row.text_list("cidr_groups").unwrap_or_default().into_iter().collect();
        })?;
        Ok(if found.is_empty() { AllowedNames::All } else { AllowedNames::Only(found) })
    }

    /// Writes the CIDR groups that a role can connect from.
    pub fn put_cidr_access(&self, role: &str, access: &Access, timestamp: i64) -> Result<Mutation> {
        let names: BTreeSet<&str> = match access {
            Access::All => BTreeSet::new(),
            Access::Only(names) => names.iter().map(|name| &**name).collect(),
        };
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let table = self.auth_table(CIDR_PERMISSIONS)?;
        let row = row_update(&table, &[], &[("cidr_groups", Value::from(names.as_slice()))], timestamp);
        Ok(mutation(&table, role, vec![row]))
    }
}

/// Returns the CIDRs of a row of `cidr_groups`. Those that no statement can make, but direct writes
/// can, are logged and left out.
fn cidrs_of(name: &str, row: &StoredRow<'_>) -> BTreeSet<Cidr> {
    let Some(stored) = row.bytes("cidrs") else { return BTreeSet::new() };
    let cidrs = collection::read_list(stored).flatten().filter_map(|tuple| {
        let mut items = collection::read_tuple(tuple);
        let (address, length) = (items.next()??, items.next()??);
        let address = <[u8; 4]>::try_from(address)
            .map(IpAddr::from)
            .or_else(|_| <[u8; 16]>::try_from(address).map(IpAddr::from))
            .ok()?;
        let length = i16::from_be_bytes(length.try_into().ok()?);
        let cidr = Cidr::new(address.to_canonical(), length);
        if cidr.is_none() {
            let address = shown_address(address);
            tracing::error!("CIDR group {name}: invalid CIDR {address}/{length}, which is ignored");
        }
        cidr
    });
    cidrs.collect()
}

/// Returns a frozen set of CIDRs: each once, in the order of tuples.
fn encoded(cidrs: &[Cidr]) -> Vec<u8> {
    let key = |cidr: &Cidr| {
        let address = match cidr.first() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        (address, i16::from(cidr.prefix_length()))
    };
    let tuples: Vec<Vec<u8>> = cidrs
        .iter()
        .map(key)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|(address, length)| {
            let mut tuple = Vec::new();
            collection::write_tuple(&mut tuple, [Some(&*address), Some(&length.to_be_bytes()[..])]);
            tuple
        })
        .collect();
    let mut out = Vec::new();
    collection::write_list(&mut out, tuples.iter().map(Vec::as_slice));
    out
}
