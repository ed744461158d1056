//! Transactions that are open in this process: who opens the same store again shares them.
//!
//! Two that gave themselves timestamps and locks would not see each other's, and lose updates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::manager::{Transactions, WeakTransactions};
use crate::error::{Error, Result};
use crate::store::{Store, StoreId};
use crate::timelock::TimeLockError;

static OPENED: Mutex<BTreeMap<StoreId, WeakTransactions>> = Mutex::new(BTreeMap::new());

/// How long a store that is just being closed by another thread is waited for: its sweeper is at the last step.
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// The transactions that are open on `store`, or those that `open` opens. Held over `open`: two threads that open a store at once share it.
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
