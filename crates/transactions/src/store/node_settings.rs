//! Settings of a cluster's nodes on which transactions depend: `system_views.settings`.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use tokio::task::JoinSet;

const SETTINGS: &str = "SELECT name, value FROM system_views.settings";
/// Timeout of a node's response. Nodes that do not respond are not checked.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Upper bound on the bytes of a request besides names and values.
const OVERHEAD: usize = 4096;

/// Settings of the nodes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct NodeSettings {
    /// Nodes that acknowledge writes before they sync them.
    pub periodic: Vec<String>,
    /// Nodes that responded without their sync mode.
    pub silent: Vec<String>,
    /// Nodes that did not respond.
    pub unreachable: Vec<String>,
    /// Maximum bytes of names and values that every node accepts in one write; `None` without a
    /// limit.
    pub write_max: Option<usize>,
}

/// Response of one node.
enum Answered {
    Settings(Vec<(String, Option<String>)>),
    /// The node has no such table.
    NoTable,
    Unreachable(String),
}

impl NodeSettings {
    /// Reads the settings of every known node, or of those of one data center.
    pub async fn read(session: &Arc<Session>, data_center: Option<&str>) -> Self {
        let state = session.get_cluster_state();
        let is_asked = |name: Option<&str>| data_center.is_none() || data_center == name;
        let mut asked = JoinSet::new();
        for node in state.get_nodes_info().iter().filter(|node| is_asked(node.datacenter.as_deref())) {
            let mut statement = Statement::new(SETTINGS);
            let target = NodeIdentifier::Node(node.clone());
            statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
            statement.set_request_timeout(Some(ANSWER_MAX));
            statement.set_consistency(Consistency::One);
            let (session, address) = (session.clone(), node.address.to_string());
            asked.spawn(async move { (address, ask(&session, statement).await) });
        }
        let mut found = Self::default();
        while let Some(answered) = asked.join_next().await {
            if let Ok((address, answered)) = answered {
                found.add(address, answered);
            }
        }
        found
    }

    fn add(&mut self, address: String, answered: Answered) {
        let settings = match answered {
            Answered::Settings(settings) => settings,
            Answered::NoTable => return self.silent.push(address),
            Answered::Unreachable(why) => return self.unreachable.push(format!("{address} ({why})")),
        };
        let value = |wanted: &str| {
            let (_, value) = settings.iter().find(|(name, _)| name == wanted)?;
            value.as_deref().filter(|value| *value != "null")
        };
        match value("commitlog_sync") {
            Some("periodic") => self.periodic.push(address),
            Some(_) => {}
            None => self.silent.push(address),
        }
        let size = |name: &str| value(name).and_then(size_of);
        let (mib, kib) = (|name| size(name).map(|size| size << 20), |name| size(name).map(|size| size << 10));
        // Names have units since Cassandra 4.1, suffixes before.
        let segment = size("commitlog_segment_size").or_else(|| mib("commitlog_segment_size_in_mb"));
        let mutation = size("max_mutation_size").or_else(|| kib("max_mutation_size_in_kb"));
        let mutation = mutation.or(segment.map(|segment| segment / 2));
        let frame = size("native_transport_max_frame_size");
        let frame = frame.or_else(|| mib("native_transport_max_frame_size_in_mb"));
        let limits = [self.write_max, mutation.map(without_overhead), frame.map(without_overhead)];
        self.write_max = limits.into_iter().flatten().min();
    }
}

fn without_overhead(bytes: usize) -> usize {
    bytes.saturating_sub(OVERHEAD)
}

/// Parses a size as nodes report it: `16MiB`, `16384KiB`, `100B`, or a number in the unit of the
/// name.
fn size_of(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

async fn ask(session: &Session, statement: Statement) -> Answered {
    let result = match session.query_unpaged(statement, ()).await {
        Ok(result) => result,
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Invalid | DbError::Unauthorized,
            _,
        ))) => return Answered::NoTable,
        Err(error) => return Answered::Unreachable(error.to_string()),
    };
    let Ok(rows) = result.into_rows_result() else { return Answered::NoTable };
    match rows.rows::<(String, Option<String>)>().map(|rows| rows.collect::<Result<Vec<_>, _>>()) {
        Ok(Ok(settings)) => Answered::Settings(settings),
        _ => Answered::NoTable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &[&[(&str, &str)]]) -> NodeSettings {
        let mut found = NodeSettings::default();
        for (number, settings) in nodes.iter().enumerate() {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), Some((*value).to_owned()));
            found.add(number.to_string(), Answered::Settings(settings.iter().map(owned).collect()));
        }
        found
    }

    #[test]
    fn the_smallest_mutation_limit_of_all_nodes_applies() {
        let default = [
            ("commitlog_sync", "batch"),
            ("commitlog_segment_size", "32MiB"),
            ("native_transport_max_frame_size", "16MiB"),
        ];
        let limit = |bytes: usize| Some(bytes - OVERHEAD);
        assert_eq!(of(&[&default]).write_max, limit(16 << 20));
        let small = [("commitlog_sync", "group"), ("max_mutation_size", "512KiB")];
        assert_eq!(of(&[&default, &small]).write_max, limit(512 << 10));
        let old = [
            ("commitlog_sync", "batch"),
            ("commitlog_segment_size_in_mb", "8"),
            ("max_mutation_size_in_kb", "null"),
            ("native_transport_max_frame_size_in_mb", "256"),
        ];
        assert_eq!(of(&[&old, &default]).write_max, limit(4 << 20));
        assert_eq!(of(&[&[("max_mutation_size", "a lot")]]).write_max, None);
        assert_eq!(size_of("99999999999999999999GiB"), None);
    }

    #[test]
    fn nodes_are_classified_by_their_sync_mode() {
        let sync = |value| [("commitlog_sync", value)];
        let mut found = of(&[&sync("batch"), &sync("periodic"), &sync("group"), &[], &sync("null")]);
        found.add("5".to_owned(), Answered::NoTable);
        found.add("6".to_owned(), Answered::Unreachable("gone".to_owned()));
        assert_eq!(found.periodic, ["1"]);
        assert_eq!(found.silent, ["3", "4", "5"]);
        assert_eq!(found.unreachable, ["6 (gone)"]);
    }
}
