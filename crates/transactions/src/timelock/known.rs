//! Timestamps that are known to be given out, for the recovery of a lost bound.

use std::sync::Arc;

use crate::error::Result;
use crate::service::Coordination;
use crate::store::Store;
use crate::sweep;
use crate::timestamp::Timestamp;

/// Returns the greatest timestamp known to be given out for this store, found without reading its
/// tables: from the coordination row and the progress of sweeping. Greater ones may have been given
/// out. `None` if nothing is recorded. Read-only.
///
/// # Errors
/// The store's error, or a malformed row.
pub fn known_timestamp(store: &Arc<dyn Store>) -> Result<Option<Timestamp>> {
    let agreed = Coordination::peek(&**store)?.map(|agreed| agreed.given_out());
    let swept = sweep::progress(store.clone(), Timestamp::ATOMIC)?;
    let swept = swept.and_then(|shards| shards.iter().map(|shard| shard.swept).max());
    Ok(agreed.max(swept).filter(|known| *known >= Timestamp::FIRST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::timelock::{LocalTimeLock, TimeLock};
    use crate::{ConflictHandler, Options, Transactions};

    #[test]
    fn known_timestamp_covers_committed_and_swept_transactions() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        assert_eq!(known_timestamp(&store).unwrap(), None);
        let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
        let transactions = Transactions::open(store.clone(), timelock.clone(), Options::default()).unwrap();
        let opened = known_timestamp(&store).unwrap().unwrap();
        assert!(opened < timelock.timestamp().unwrap());
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        transactions.run(|tx| tx.put(&table, "row", "column", "v")).unwrap();
        let committed = timelock.timestamp().unwrap();
        transactions.sweep().unwrap();
        let swept = known_timestamp(&store).unwrap().unwrap();
        assert!(swept >= committed && swept < timelock.timestamp().unwrap());
    }
}
