//! CIDR groups at the admin endpoint.

use std::net::IpAddr;

use cassette_admin_api::{CidrAccessReport, CidrFilteringReport, CidrGroupReport, Done, Refused};
use cassette_database::CidrGroup;
use cassette_engine::metrics::HistogramSnapshot;

use super::Admin;
use super::operations::of_database;
use super::report::histogram;

/// Reports the stored groups.
pub(super) fn groups(admin: &Admin) -> Result<Vec<CidrGroupReport>, Refused> {
    let groups = admin.database.cidr_groups().map_err(of_database)?.into_iter();
    Ok(groups.map(|CidrGroup { name, cidrs }| CidrGroupReport { name, cidrs }).collect())
}

/// Reports the names of the groups of an address, as of the last reload.
pub(super) fn groups_of(admin: &Admin, address: IpAddr) -> Result<Vec<String>, Refused> {
    admin.database.cidr_groups_of(address).map_err(of_database)
}

/// Reports the checks of addresses.
pub(super) fn filtering(admin: &Admin) -> CidrFilteringReport {
    let filtering = admin.database.cidr_filtering();
    let distribution =
        |snapshot: &Option<HistogramSnapshot>| snapshot.as_ref().map(histogram).unwrap_or_default();
    CidrFilteringReport {
        counts: filtering.counts().into_iter().collect(),
        latencies: filtering.latencies().map(|(name, values)| (name.to_owned(), values)).to_vec(),
        accesses: filtering
            .accesses
            .iter()
            .map(|(group, accepted, rejected)| CidrAccessReport {
                group: group.clone(),
                accepted: *accepted,
                rejected: *rejected,
            })
            .collect(),
        reloads: filtering.reloads,
        check_latency: distribution(&filtering.checks),
        lookup_latency: distribution(&filtering.lookups),
        reload_latency: distribution(&filtering.reload_times),
    }
}

/// Removes the cached access of roles, or of all. Returns Cassandra's messages.
pub(super) fn invalidate(admin: &Admin, roles: &[String]) -> Result<Done, Refused> {
    if roles.is_empty() {
        admin.database.invalidate_cidr_access(None).map_err(of_database)?;
        return Ok(Done { messages: vec!["Invalidated CIDR permissions cache".to_owned()] });
    }
    let message = |role: &String| {
        let is_found = admin.database.invalidate_cidr_access(Some(role)).map_err(of_database)?;
        Ok(if is_found {
            format!("Invalidated the role {role} from CIDR permissions cache")
        } else {
            format!("Not found role {role} in CIDR permissions cache, nothing to invalidate")
        })
    };
    Ok(Done { messages: roles.iter().map(message).collect::<Result<_, Refused>>()? })
}
