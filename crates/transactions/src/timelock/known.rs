//! What a store says of the timestamps that were given out, beside their bound: for when that is lost.

use std::sync::Arc;

use crate::error::Result;
use crate::service::Coordination;
use crate::store::Store;
use crate::sweep;
use crate::timestamp::Timestamp;

/// A timestamp that was given out for this store, as great a one as can be known without reading its tables: by the coordination row and by how far
/// it is swept. Others may have been given out above it. `None` where nothing says so. Changes nothing.
///
/// # Errors
/// What the store answers; a row that is none.
pub fn known_timestamp(store: &Arc<dyn Store>) -> Result<Option<Timestamp>> {
    let agreed = Coordination::look(&**store)?.map(|agreed| agreed.given_out());
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
    fn a_store_that_lost_its_bound_knows_how_far_timestamps_were() {
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
