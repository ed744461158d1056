//! Admission of writes that read before they write: none waits for it with its partitions locked.
//!
//! Such a write knows its size only when it has locked its partitions and read their rows. If it had
//! to wait then, small writes of the same partitions would wait with it. So it is an attempt: one
//! that cannot be admitted at once fails with [`Unapplied::MustWait`], which releases its locks and
//! rows, and is repeated, reads included, after the wait.
//!
//! ```text
//! 1. LargeWrites    the write may hold more than a small share of view rows in memory
//! 2. WritePermit    the engine admits the write: memory, compactions, the commit log
//! 3. partitions     locked
//! ```
//!
//! Nobody waits for something in this list while holding what stands below it, so an admitted write
//! may wait for partitions. What has been admitted is kept for the following attempts, except that
//! a wait for the first returns the second. So there are at most six: one without either, one after
//! each of a small and a large permit, and with the first the same again.

use cassette_engine::{WriteDemand, WritePermit, may_wait};
use parking_lot::MutexGuard;

use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::planning::context::BindContext;
use crate::store::Store;

/// What a write has been admitted to so far.
#[derive(Default)]
pub(crate) struct Admission<'s> {
    /// To hold more than a small share of view rows.
    pub view_rows: Option<MutexGuard<'s, ()>>,
    /// To be written.
    pub permit: Option<WritePermit<'s>>,
}

/// What an attempt has to wait for.
#[derive(Debug)]
pub(crate) enum Need {
    ViewRows,
    Permit(WriteDemand),
}

/// Why an attempt has written nothing.
#[derive(Debug)]
pub(crate) enum Unapplied {
    /// It can be repeated after a wait.
    MustWait(Need),
    Failed(DatabaseError),
}

impl Unapplied {
    /// The result of an attempt that has to wait: WouldBlock, if its thread may not.
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
    /// Those of the attempt. If the write cannot be admitted, or the request is interrupted while it
    /// waits: then nothing was written.
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
