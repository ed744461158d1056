//! Commands about CIDR groups.

use std::net::IpAddr;

use cassette_admin_api::{CidrFilteringReport, CidrGroupReport, Operation};

use super::arguments::Invocation;
use super::text::{Table, double};
use super::{Failure, Result};

/// Returns the names of the groups, or the CIDRs of the one that is named: none if it does not
/// exist.
pub(super) fn listed(groups: &[CidrGroupReport], name: Option<&String>) -> Vec<String> {
    match name {
        None => groups.iter().map(|group| group.name.clone()).collect(),
        Some(name) => groups
            .iter()
            .filter(|group| group.name == *name)
            .flat_map(|group| group.cidrs.iter().cloned())
            .collect(),
    }
}

/// Formats names below a title; nothing without names.
pub(super) fn column(title: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let mut table = Table::default();
    table.row([format!("{title}: ")]);
    names.iter().for_each(|name| table.row([name.as_str()]));
    table.text(" ")
}

/// Returns the address of `getcidrgroupsofip`.
pub(super) fn address(invocation: &Invocation) -> Result<IpAddr> {
    let [address] = &invocation.arguments[..] else {
        return Err(Failure::usage("Requires IP address as input"));
    };
    address.parse().map_err(|_| Failure::usage(format!("Invalid IP {address}")))
}

/// Formats `cidrfilteringstats`.
pub(super) fn filtering(report: &CidrFilteringReport) -> String {
    let mut counts = Table::default();
    counts.row(["name", "value"]);
    for (name, count) in &report.counts {
        counts.row([name.clone(), count.to_string()]);
    }
    let mut latencies = Table::default();
    latencies.row(["name", "p50th", "p95th", "p99th", "p999th", "max"]);
    for (name, values) in &report.latencies {
        latencies.row(std::iter::once(name.clone()).chain(values.iter().map(|value| double(*value))));
    }
    format!(
        "cidr_filtering_metrics_counts: \n{}\ncidr_filtering_metrics_latencies: \n{}\n",
        counts.text(" "),
        latencies.text(" ")
    )
}

/// Returns the operation of `updatecidrgroup`.
pub(super) fn update(invocation: &Invocation) -> Result<Operation> {
    match &invocation.arguments[..] {
        [group, cidrs @ ..] if !cidrs.is_empty() => {
            Ok(Operation::UpdateCidrGroup { group: group.clone(), cidrs: cidrs.to_vec() })
        }
        _ => Err(Failure::usage("updatecidrgroup command requires a cidr group name and atleast one CIDR")),
    }
}

/// Returns the operation of `dropcidrgroup`.
pub(super) fn drop(invocation: &Invocation) -> Result<Operation> {
    match &invocation.arguments[..] {
        [group] => Ok(Operation::DropCidrGroup { group: group.clone() }),
        _ => Err(Failure::usage("dropcidrgroup command requires a cidr group name")),
    }
}
