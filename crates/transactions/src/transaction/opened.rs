//! Transactions that are open in this process. Opening the same store again shares them.
//!
//! Two independent instances would not see each other's timestamps and locks, and would lose
//! updates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::manager::{Transactions, WeakTransactions};
use crate::error::{Error, Result};
use crate::store::{Store, StoreId};
use crate::timelock::TimeLockError;

static OPENED: Mutex<BTreeMap<StoreId, WeakTransactions>> = Mutex::new(BTreeMap::new());

/// How long to wait for another thread that is closing the store: its sweeper completes its last
/// step.
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// Returns the transactions that are open on `store`, or those that `open` creates. The lock is
/// held during `open`, so that two threads that open a store at the same time share it.
pub(super) fn share(store: Arc<dyn Store>, open: impl Fn() -> Result<Transactions>) -> Result<Transactions> {
    let Some(id) = store.id() else { return open() };
    let mut opened = OPENED.lock();
    let before = opened.remove(&id);
    let transactions = match before.as_ref().and_then(WeakTransactions::upgrade) {
        Some(shared) => shared?,
        None => {
            let until = Instant::now() + CLOSING_MAX;
            loop {
                match open() {
                    Err(Error::TimeLock(TimeLockError::AlreadyOpen { .. }))
                        if before.is_some() && Instant::now() < until =>
                    {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    result => break result?,
                }
            }
        }
    };
    opened.retain(|_, transactions| transactions.is_open());
    opened.insert(id, WeakTransactions::new(&transactions));
    Ok(transactions)
}
