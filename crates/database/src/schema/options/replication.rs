//! Replication strategies. A node holds one replica regardless, but strategies are stored, shown
//! and validated as in Cassandra, so the schema can be moved to a cluster.

use std::collections::BTreeMap;

use super::properties::Entries;
use crate::basics::error::{Result, bail_config, bail_invalid};
use crate::schema::catalog::Replication;

const PACKAGE: &str = "org.apache.cassandra.locator.";
pub(crate) const SIMPLE: &str = "org.apache.cassandra.locator.SimpleStrategy";
const NETWORK_TOPOLOGY: &str = "org.apache.cassandra.locator.NetworkTopologyStrategy";
pub(crate) const LOCAL: &str = "org.apache.cassandra.locator.LocalStrategy";
const FACTOR: &str = "replication_factor";
/// `default_keyspace_rf`.
const FACTOR_DEFAULT: &str = "1";

/// The data centers of the cluster, with the numbers of their nodes: one node, unless a server for
/// tests has virtual ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataCenters(BTreeMap<String, u32>);

impl DataCenters {
    /// Returns the data centers of nodes.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a str>) -> Self {
        let mut counts = BTreeMap::new();
        for name in nodes {
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
        Self(counts)
    }

    fn nodes(&self) -> u32 {
        self.0.values().sum()
    }
}

impl Replication {
    /// Returns `SimpleStrategy` with this replication factor.
    pub(crate) fn simple(factor: u32) -> Self {
        Self { class: SIMPLE.into(), options: [(FACTOR.to_owned(), factor.to_string())].into() }
    }

    /// Returns the replication of local keyspaces.
    pub(crate) fn local() -> Self {
        Self { class: LOCAL.into(), options: BTreeMap::new() }
    }

    /// Whether it has a factor for each data center.
    pub(crate) fn is_by_data_center(&self) -> bool {
        self.class == NETWORK_TOPOLOGY
    }

    /// Returns the class without Cassandra's package, as in DESCRIBE.
    pub(crate) fn short_class(&self) -> &str {
        self.class.strip_prefix(PACKAGE).unwrap_or(&self.class)
    }
}

/// Reads and validates the map of `replication = {…}`. `previous` holds the options before an
/// ALTER, which supply omitted ones.
pub(crate) fn parse(
    keyspace: &str,
    entries: &Entries,
    previous: &BTreeMap<String, String>,
    data_centers: &DataCenters,
) -> Result<Replication> {
    let mut options: BTreeMap<String, String> =
        entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let Some(class) = options.remove("class") else {
        bail_config!("Missing replication strategy class");
    };
    let class = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
    match class.as_str() {
        "org.apache.cassandra.locator.OldNetworkTopologyStrategy" => bail_config!(
            "The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. The \
             keyspace strategy should be switch to NetworkTopologyStrategy"
        ),
        LOCAL => {
            bail_invalid!("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
        }
        SIMPLE => {
            let factor = previous.get(FACTOR).map_or(FACTOR_DEFAULT, String::as_str);
            options.entry(FACTOR.to_owned()).or_insert_with(|| factor.to_owned());
            factor_of(&options[FACTOR])?;
            refuse_others(keyspace, &options, "SimpleStrategy", |key| key == FACTOR)?;
        }
        NETWORK_TOPOLOGY => {
            expand_data_centers(&mut options, previous, data_centers);
            if options.is_empty() {
                bail_config!("Configuration for at least one datacenter must be present");
            }
            for factor in options.values() {
                factor_of(factor)?;
            }
            refuse_others(keyspace, &options, "NetworkTopologyStrategy", |key| {
                data_centers.0.contains_key(key)
            })?;
        }
        other => bail_config!("Unable to find replication strategy class '{other}'"),
    }
    Ok(Replication { class, options })
}

/// Expands `replication_factor` to a factor for each data center, and removes those with factor 0.
fn expand_data_centers(
    options: &mut BTreeMap<String, String>,
    previous: &BTreeMap<String, String>,
    data_centers: &DataCenters,
) {
    let mut factor = options.remove(FACTOR);
    if factor.is_none() && options.is_empty() {
        factor = Some(previous.get(FACTOR).cloned().unwrap_or_else(|| FACTOR_DEFAULT.to_owned()));
    }
    if let Some(factor) = factor
        && factor_of(&factor).is_ok()
    {
        // ALTER keeps the factors of existing data centers.
        for (key, value) in previous.iter().filter(|(key, _)| *key != FACTOR) {
            options.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for name in data_centers.0.keys() {
            options.entry(name.clone()).or_insert_with(|| factor.clone());
        }
    }
    options.retain(|_, factor| factor != "0");
}

fn refuse_others(
    keyspace: &str,
    options: &BTreeMap<String, String>,
    strategy: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<()> {
    match options.keys().find(|key| !is_known(key)) {
        Some(other) => bail_config!(
            "Unrecognized strategy option {{{other}}} passed to {strategy} for keyspace {keyspace}"
        ),
        None => Ok(()),
    }
}

/// Returns the number of full replicas in `text`.
fn factor_of(text: &str) -> Result<u32> {
    if text.contains('/') {
        bail_config!("Transient replication is not enabled on this node");
    }
    match text.parse::<i32>() {
        Ok(factor) => match u32::try_from(factor) {
            Ok(factor) => Ok(factor),
            Err(_) => bail_config!("Replication factor must be non-negative, found {factor}"),
        },
        Err(_) => bail_config!("For input string: \"{text}\""),
    }
}

/// Returns the replicas of `replication` in each data center.
pub(crate) fn factors(replication: &Replication) -> impl Iterator<Item = i64> {
    replication.options.values().filter_map(|factor| factor_of(factor).ok()).map(i64::from)
}

/// Returns the data centers of `replication`, or the name of the option, with their replicas.
pub(crate) fn factors_by_name(replication: &Replication) -> impl Iterator<Item = (&str, i32)> {
    replication.options.iter().filter_map(|(name, factor)| {
        Some((name.as_str(), i32::try_from(factor_of(factor).ok()?).unwrap_or(i32::MAX / 2)))
    })
}

/// Returns the total number of replicas of `replication`.
pub(crate) fn total_factor(replication: &Replication) -> u32 {
    replication.options.values().filter_map(|factor| factor_of(factor).ok()).sum()
}

/// Returns Cassandra's warnings about fewer nodes than replicas.
pub(crate) fn warnings(keyspace: &str, replication: &Replication, data_centers: &DataCenters) -> Vec<String> {
    let warning = |(key, factor): (&String, &String)| {
        let nodes = data_centers.0.get(key).copied().unwrap_or_else(|| data_centers.nodes());
        let factor = factor_of(factor).ok().filter(|factor| *factor > nodes)?;
        let place = if key == FACTOR { String::new() } else { format!(" for datacenter {key}") };
        Some(format!(
            "Your replication factor {factor} for keyspace {keyspace} is higher than the number of nodes {nodes}{place}"
        ))
    };
    replication.options.iter().filter_map(warning).collect()
}
