//! `enforce_replica_counts`: Cassandra's errors for consistency levels that need more replicas than
//! one node has.

use cassette_rows::TableMetadata;

use super::Execution;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::Consistency;
use crate::schema::catalog::{KeyspaceKind, Replication};
use crate::schema::options::replication::factors_by_name;

impl Execution<'_> {
    /// Rejects a consistency level that the replicas of a table cannot satisfy, if the setting
    /// requires it.
    ///
    /// # Errors
    /// Unavailable.
    pub fn require_replicas(&self, table: &TableMetadata, level: Consistency) -> Result<()> {
        if !self.store.enforces_replica_counts() {
            return Ok(());
        }
        match self.catalog.keyspace(&table.keyspace) {
            Some(keyspace) if matches!(keyspace.kind, KeyspaceKind::Replicated | KeyspaceKind::User) => {
                require(&keyspace.params.replication, &self.store.node().data_center, level)
            }
            _ => Ok(()),
        }
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
        let serial = self.options.serial_consistency.unwrap_or(Consistency::Serial);
        self.require_replicas(table, read_level(serial))
    }
}

/// Returns the level of the reads of a serial one.
pub(crate) fn read_level(level: Consistency) -> Consistency {
    match level {
        Consistency::Serial => Consistency::Quorum,
        Consistency::LocalSerial => Consistency::LocalQuorum,
        other => other,
    }
}

/// Compares what a level needs with the only node, which is in `data_center`.
fn require(replication: &Replication, data_center: &str, level: Consistency) -> Result<()> {
    let factors: Vec<(&str, i32)> = factors_by_name(replication).collect();
    let total: i32 = factors.iter().map(|(_, factor)| factor).sum();
    let local = if replication.is_by_data_center() {
        factors.iter().find(|(name, _)| *name == data_center).map_or(0, |(_, factor)| *factor)
    } else {
        total
    };
    let quorum = |factor: i32| factor / 2 + 1;
    let alive = local.min(1);
    let required = match level {
        // A hint on the node itself suffices.
        Consistency::Any => return Ok(()),
        Consistency::One | Consistency::LocalOne => 1,
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum | Consistency::Serial => quorum(total),
        Consistency::All => total,
        Consistency::LocalQuorum | Consistency::LocalSerial => quorum(local),
        Consistency::EachQuorum if replication.is_by_data_center() => {
            let here = |name: &str| if name == data_center { alive } else { 0 };
            let Some((name, factor)) = factors.iter().find(|(name, factor)| here(name) < quorum(*factor))
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
        Consistency::EachQuorum => quorum(total),
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
        match require(replication, "dc1", level) {
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
