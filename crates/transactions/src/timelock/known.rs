//! The greatest timestamp that is known to have been issued, for the recovery of a lost bound.

use bytes::Bytes;

use crate::encoding::coordination::{self, SequenceAndBound};
use crate::encoding::sweep::{self, Shard};
use crate::encoding::var_long;
use crate::store::{Store, StoreError, StoreResult};
use crate::timestamp::Timestamp;

/// Returns the greatest timestamp known to have been issued for this store, found without reading
/// its tables: from the coordination row and the progress of sweeping. Greater ones may have been
/// issued. `None` if nothing is recorded. Read-only.
///
/// # Errors
/// The store's error, or a malformed row.
pub fn known_timestamp(store: &dyn Store) -> StoreResult<Option<Timestamp>> {
    Ok(agreed(store)?.max(swept(store)?).filter(|known| *known >= Timestamp::FIRST))
}

/// Returns the timestamp that the coordination row proves.
fn agreed(store: &dyn Store) -> StoreResult<Option<Timestamp>> {
    if !store.open_table(coordination::TABLE)? {
        return Ok(None);
    }
    let column = Bytes::from(var_long::encode(0));
    let found = store.get_serial(coordination::TABLE, &Bytes::from_static(coordination::ROW), &[column])?;
    let Some(raw) = found.into_iter().next().flatten() else { return Ok(None) };
    let row = SequenceAndBound::decode(&raw)
        .map_err(|error| StoreError::refused("read the coordination row", error))?;
    Ok(Some(row.issued()))
}

/// Returns the last timestamp that a shard of the sweep queue completed.
fn swept(store: &dyn Store) -> StoreResult<Option<Timestamp>> {
    if !store.open_table(sweep::PROGRESS)? {
        return Ok(None);
    }
    let mut last = None;
    for shard in Shard::all() {
        let column = Bytes::from_static(sweep::LAST_DONE);
        let found = store.get_serial(sweep::PROGRESS, &shard.key(), &[column])?;
        if let Some(raw) = found.into_iter().next().flatten() {
            let progress = sweep::decode_progress(&raw)
                .map_err(|error| StoreError::refused("read the progress of sweeping", error))?;
            last = last.max(Some(Timestamp(progress)));
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
