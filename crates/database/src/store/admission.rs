//! Admission of writes that read before they write: they do not wait for it with locked partitions.
//!
//! The size of such a write is known only after its partitions are locked and their rows read. If
//! it waited then, small writes of the same partitions would wait, too. So it is an attempt: one
//! that cannot be admitted immediately fails with [`Unapplied::MustWait`], releases its locks and
//! rows, waits, and is repeated, including its reads.
//!
//! ```text
//! 1. LargeWrites    the write may hold more than a small share of view rows in memory
//! 2. WritePermit    the engine admits the write: memory, compactions, the commit log
//! 3. partitions     locked
//! ```
//!
//! These are acquired in this order: no thread waits for one while it holds a later one, so an
//! admitted write can wait for partitions. Permits are kept for the following attempts, except that
//! a wait for the first returns the second. So there are at most six attempts: one without permits,
//! one after each of a small and a large permit, and the same again with the first.

use cassette_engine::{WriteDemand, WritePermit, may_wait};
use parking_lot::MutexGuard;

use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::planning::context::BindContext;
use crate::store::Store;

/// The permits that a write holds.
#[derive(Default)]
pub(crate) struct Admission<'s> {
    /// The permit to hold more than a small share of view rows.
    pub view_rows: Option<MutexGuard<'s, ()>>,
    /// The permit to be written.
    pub permit: Option<WritePermit<'s>>,
    /// Set before the mutations are written: what fails later may have had an effect.
    pub is_written: bool,
}

/// The permit that an attempt has to wait for.
#[derive(Debug)]
pub(crate) enum Need {
    ViewRows,
    Permit(WriteDemand),
}

/// The reason why an attempt has written nothing.
#[derive(Debug)]
pub(crate) enum Unapplied {
    /// The attempt can be repeated after a wait.
    MustWait(Need),
    Failed(DatabaseError),
}

impl Unapplied {
    /// Returns the error of an attempt that has to wait: WouldBlock, if its thread must not wait.
    pub fn must_wait(need: Need) -> Self {
        if may_wait() { Self::MustWait(need) } else { Self::Failed(DatabaseError::WouldBlock) }
    }
}

impl<E: Into<DatabaseError>> From<E> for Unapplied {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Store {
    /// Repeats `attempt`, which locks partitions, reads and writes, until it does not have to wait.
    ///
    /// # Errors
    /// Those of the attempt; those of waiting, if the write cannot be admitted or the request is
    /// interrupted. Nothing was written then.
    pub fn admitted<'s, T>(
        &'s self,
        cx: &BindContext<'_>,
        write_type: WriteType,
        mut attempt: impl FnMut(&mut Admission<'s>) -> Result<T, Unapplied>,
    ) -> Result<T> {
        let mut admission = Admission::default();
        loop {
            let need = match attempt(&mut admission) {
                Ok(done) => return Ok(done),
                Err(Unapplied::Failed(error)) => return Err(error),
                Err(Unapplied::MustWait(need)) => need,
            };
            admission.permit = None;
            match need {
                Need::ViewRows => admission.view_rows = Some(self.large_view_writes.lock()?),
                Need::Permit(demand) => {
                    let permit = self.engine.admit(&demand);
                    let failed =
                        |error| DatabaseError::write_failure(cx.options.consistency, write_type, error);
                    admission.permit = Some(permit.map_err(failed)?);
                }
            }
        }
    }
}
