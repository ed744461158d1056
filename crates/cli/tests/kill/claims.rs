//! Names for which writers compete by `INSERT … IF NOT EXISTS`: each has one owner permanently.

use std::collections::{BTreeMap, HashMap};

use scylla::client::caching_session::CachingSession;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::value::Row;

use super::support::cql::rows;

/// The owners that one writer has observed.
#[derive(Debug, Default)]
pub struct Claims {
    next: i32,
    /// Owners that an answer named.
    owners: BTreeMap<i32, i32>,
    /// The name in a request without an answer.
    pending: Option<i32>,
}

impl Claims {
    /// Claims the next name for `writer`.
    pub async fn claim(&mut self, session: &CachingSession, writer: i32) -> Result<(), ExecutionError> {
        let name = self.next;
        self.next += 1;
        self.pending = Some(name);
        let insert = "INSERT INTO claims (name, owner) VALUES (?, ?) IF NOT EXISTS";
        let answer = session.execute_unpaged(insert, (name, writer)).await?.into_rows_result().unwrap();
        let row = answer.single_row::<Row>().unwrap();
        let applied = row.columns[0].as_ref().and_then(|value| value.as_boolean()).unwrap();
        let owner = if applied {
            writer
        } else {
            let (_, found, owner) = answer.single_row::<(bool, i32, i32)>().unwrap();
            assert_eq!(found, name);
            owner
        };
        self.owners.insert(name, owner);
        self.pending = None;
        Ok(())
    }
}

/// Every observed owner is still the owner, and names without an observed owner belong to a pending
/// claim.
pub async fn check<'a>(session: &Session, all: impl Iterator<Item = &'a mut Claims>) {
    let mut all: Vec<_> = all.collect();
    let found: HashMap<i32, i32> =
        rows::<(i32, i32)>(session, "SELECT name, owner FROM claims", ()).await.into_iter().collect();
    for claims in &all {
        for (name, owner) in &claims.owners {
            assert_eq!(found.get(name), Some(owner), "owner of {name}");
        }
    }
    for name in found.keys() {
        let told = all.iter().any(|claims| claims.owners.contains_key(name) || claims.pending == Some(*name));
        assert!(told, "{name} is owned without a claim");
    }
    let next = all.iter().map(|claims| claims.next).max().unwrap_or(0);
    for claims in &mut all {
        // A claim that succeeded without an answer owns its name from now on.
        if let Some(name) = claims.pending.take()
            && let Some(owner) = found.get(&name)
        {
            claims.owners.insert(name, *owner);
        }
        claims.next = next;
    }
}
