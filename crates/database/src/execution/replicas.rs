//! Cassandra's errors for consistency levels that the replicas of a partition cannot satisfy: with
//! `enforce_replica_counts`, those of one node; in a server for tests, those of its virtual nodes.

use std::collections::BTreeMap;

use cassette_engine::Mutation;
use cassette_rows::{TableMetadata, Token};

use super::Execution;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::Consistency;
use crate::schema::catalog::{KeyspaceKind, Replication};
use crate::schema::options::replication::factors_by_name;
use crate::store::virtual_nodes::{NodeState, View, VirtualNodes};

impl Execution<'_> {
    /// Rejects a consistency level that one node cannot satisfy, if the setting requires it.
    /// Virtual nodes are checked when the partitions are known, by
    /// [`require_replicas_of`](Self::require_replicas_of).
    ///
    /// # Errors
    /// Unavailable.
    pub fn require_replicas(&self, table: &TableMetadata, level: Consistency) -> Result<()> {
        if !self.store.enforces_replica_counts() || self.store.virtual_nodes().is_some() {
            return Ok(());
        }
        let Some(replication) = self.replication(table) else { return Ok(()) };
        let data_center = &self.store.node().data_center;
        let has_replica = !replication.is_by_data_center()
            || factors_by_name(replication).any(|(name, factor)| name == data_center && factor > 0);
        let alive = [(data_center.as_str(), i32::from(has_replica))].into();
        require(replication, data_center, &alive, level)
    }

    /// [`require_replicas`](Self::require_replicas) for a conditional write, which reads with a
    /// quorum first. Rejects a level of its commit that the replication strategy does not support.
    ///
    /// # Errors
    /// Invalid; Unavailable.
    pub fn require_replicas_of_conditional(&self, table: &TableMetadata) -> Result<()> {
        let keyspace = self.catalog.keyspace(&table.keyspace);
        if self.options.consistency == Consistency::EachQuorum
            && let Some(keyspace) = keyspace
            && !keyspace.params.replication.is_by_data_center()
        {
            bail_invalid!(
                "consistency level EACH_QUORUM not compatible with replication strategy ({})",
                keyspace.params.replication.class
            );
        }
        self.require_replicas(table, self.serial_read_level())
    }

    /// Returns the level of the reads of a conditional write.
    pub fn serial_read_level(&self) -> Consistency {
        read_level(self.options.serial_consistency.unwrap_or(Consistency::Serial))
    }

    /// Rejects a consistency level that the virtual nodes which are up cannot satisfy for
    /// partitions of a table, and notes whether the node that coordinates the request has replicas
    /// of them, for [`count_for_node`](Self::count_for_node). No-op without virtual nodes.
    ///
    /// # Errors
    /// Unavailable.
    pub fn require_replicas_of(
        &self,
        table: &TableMetadata,
        tokens: &[Token],
        level: Consistency,
    ) -> Result<()> {
        let Some(nodes) = self.store.virtual_nodes() else { return Ok(()) };
        let Some(replication) = self.replication(table) else { return Ok(()) };
        let (view, coordinator) = (nodes.view(), usize::from(self.options.node));
        let is_own = |token: &Token| view.ring.replicas(*token, replication).contains(&coordinator);
        let was_own = self.is_own_of_coordinator.get().unwrap_or(false);
        self.is_own_of_coordinator.set(Some(was_own || tokens.iter().any(is_own)));
        let data_center = nodes.node(coordinator).map_or("", |node| node.place.data_center.as_str());
        tokens.iter().try_for_each(|token| {
            require(replication, data_center, &alive(nodes, &view, *token, replication), level)
        })
    }

    /// Counts the request for the virtual node that coordinates it, if it is on tables with
    /// replicas. One that has to be executed again on another thread is counted there.
    pub fn count_for_node(&self, is_repeated: bool) {
        if let Some(is_own) = self.is_own_of_coordinator.get()
            && let Some(nodes) = self.store.virtual_nodes()
            && !is_repeated
        {
            nodes.count(usize::from(self.options.node), is_own);
        }
    }

    /// [`require_replicas_of`](Self::require_replicas_of) for all partitions of a table.
    ///
    /// # Errors
    /// Unavailable.
    pub fn require_all_replicas_of(&self, table: &TableMetadata, level: Consistency) -> Result<()> {
        let Some(nodes) = self.store.virtual_nodes() else { return Ok(()) };
        let tokens: Vec<Token> = nodes.view().ring.ranges().collect();
        self.require_replicas_of(table, &tokens, level)
    }

    /// [`require_replicas_of`](Self::require_replicas_of) for the partitions of mutations.
    ///
    /// # Errors
    /// Unavailable.
    pub fn require_replicas_of_mutations(&self, mutations: &[Mutation], level: Consistency) -> Result<()> {
        if self.store.virtual_nodes().is_none() {
            return Ok(());
        }
        let mut list =
            mutations.iter().map(|mutation| (&*mutation.table, mutation.update.key.token())).peekable();
        while let Some((table, token)) = list.next() {
            let mut tokens = vec![token];
            while let Some((_, token)) = list.next_if(|(next, _)| next.id == table.id) {
                tokens.push(token);
            }
            self.require_replicas_of(table, &tokens, level)?;
        }
        Ok(())
    }

    /// Returns the replication of a table that has replicas.
    fn replication(&self, table: &TableMetadata) -> Option<&Replication> {
        let keyspace = self.catalog.keyspace(&table.keyspace)?;
        matches!(keyspace.kind, KeyspaceKind::Replicated | KeyspaceKind::User)
            .then_some(&keyspace.params.replication)
    }
}

/// Returns the number of replicas of a token that are up, by data center.
fn alive<'a>(
    nodes: &'a VirtualNodes,
    view: &View,
    token: Token,
    replication: &Replication,
) -> BTreeMap<&'a str, i32> {
    let mut alive = BTreeMap::new();
    for replica in view.ring.replicas(token, replication) {
        if view.states.get(replica) == Some(&NodeState::Up)
            && let Some(node) = nodes.node(replica)
        {
            *alive.entry(node.place.data_center.as_str()).or_default() += 1;
        }
    }
    alive
}

/// Returns the level of the reads of a serial one.
pub(crate) fn read_level(level: Consistency) -> Consistency {
    match level {
        Consistency::Serial => Consistency::Quorum,
        Consistency::LocalSerial => Consistency::LocalQuorum,
        other => other,
    }
}

/// Compares what a level needs with the replicas that are alive, by data center. The coordinator is
/// in `data_center`.
fn require(
    replication: &Replication,
    data_center: &str,
    alive: &BTreeMap<&str, i32>,
    level: Consistency,
) -> Result<()> {
    let factors: Vec<(&str, i32)> = factors_by_name(replication).collect();
    let total: i32 = factors.iter().map(|(_, factor)| factor).sum();
    let local = if replication.is_by_data_center() {
        factors.iter().find(|(name, _)| *name == data_center).map_or(0, |(_, factor)| *factor)
    } else {
        total
    };
    let quorum = |factor: i32| factor / 2 + 1;
    let alive_in = |name: &str| alive.get(name).copied().unwrap_or(0);
    let all_alive: i32 = alive.values().sum();
    let (required, alive) = match level {
        // A hint on the coordinator itself suffices.
        Consistency::Any => return Ok(()),
        Consistency::One => (1, all_alive),
        Consistency::Two => (2, all_alive),
        Consistency::Three => (3, all_alive),
        Consistency::Quorum | Consistency::Serial => (quorum(total), all_alive),
        Consistency::All => (total, all_alive),
        Consistency::LocalOne => (1, alive_in(data_center)),
        Consistency::LocalQuorum | Consistency::LocalSerial => (quorum(local), alive_in(data_center)),
        Consistency::EachQuorum if replication.is_by_data_center() => {
            let Some((name, factor)) = factors.iter().find(|(name, factor)| alive_in(name) < quorum(*factor))
            else {
                return Ok(());
            };
            return Err(DatabaseError::Unavailable {
                consistency: level,
                required: quorum(*factor),
                // Cassandra reports none, whatever their number.
                alive: 0,
                message: format!("Cannot achieve consistency level {level} in DC {name}"),
            });
        }
        Consistency::EachQuorum => (quorum(total), all_alive),
    };
    if alive >= required {
        return Ok(());
    }
    let message = format!("Cannot achieve consistency level {level}");
    Err(DatabaseError::Unavailable { consistency: level, required, alive, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(replication: &Replication, level: Consistency) -> Option<(i32, i32)> {
        match require(replication, "dc1", &[("dc1", 1)].into(), level) {
            Ok(()) => None,
            Err(DatabaseError::Unavailable { required, alive, .. }) => Some((required, alive)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn levels_need_as_many_replicas_as_in_cassandra() {
        use Consistency::*;
        let three = Replication::simple(3);
        for level in [Any, One, LocalOne] {
            assert_eq!(required(&three, level), None);
        }
        for level in [Two, Quorum, LocalQuorum, EachQuorum, Serial, LocalSerial] {
            assert_eq!(required(&three, level), Some((2, 1)), "{level}");
        }
        assert_eq!(required(&three, All), Some((3, 1)));
        let one = Replication::simple(1);
        for level in [Quorum, LocalQuorum, EachQuorum, All, Serial, LocalSerial] {
            assert_eq!(required(&one, level), None, "{level}");
        }
        assert_eq!(required(&one, Two), Some((2, 1)));
        assert_eq!(required(&one, Three), Some((3, 1)));
    }

    #[test]
    fn a_data_center_without_the_node_has_no_replica() {
        let options = [("dc1".to_owned(), "1".to_owned()), ("dc2".to_owned(), "3".to_owned())].into();
        let class = "org.apache.cassandra.locator.NetworkTopologyStrategy".to_owned();
        let both = Replication { class, options };
        assert_eq!(required(&both, Consistency::LocalQuorum), None);
        assert_eq!(required(&both, Consistency::Quorum), Some((3, 1)));
        assert_eq!(required(&both, Consistency::EachQuorum), Some((2, 0)));
        assert_eq!(required(&both, Consistency::All), Some((4, 1)));
    }
}
