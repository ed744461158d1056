//! The lease that excludes other commands from changing a repository of objects.
//!
//! The object `lock` contains who holds it and until when. It is created only if it does not exist,
//! and replaced only in the version that was read, so two commands cannot hold it. A thread renews
//! it; after a crash it expires.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::SharedObjects;
use crate::error::{Error, Result};

const NAME: &str = "lock";
/// How long a lease is valid without being renewed. Clocks may differ by less.
const VALID: Duration = Duration::from_secs(300);
const RENEWED: Duration = Duration::from_secs(60);
/// How long before its end a lease is not relied on: a request takes less.
const MARGIN: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    holder: String,
    until_millis: i64,
}

impl Content {
    fn new(holder: &str, from: Since) -> Self {
        Self { holder: holder.to_owned(), until_millis: from.millis + VALID.as_millis() as i64 }
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers can be encoded")
    }
}

/// When the request that acquired or renewed a lease began: by two clocks, because one of them can
/// be set, and the other one need not count while a machine is suspended.
#[derive(Debug, Clone, Copy)]
struct Since {
    millis: i64,
    instant: Instant,
}

impl Since {
    fn now() -> Self {
        Self { millis: Timestamp::now().as_millisecond(), instant: Instant::now() }
    }

    fn elapsed(self) -> Duration {
        let by_clock = Timestamp::now().as_millisecond().saturating_sub(self.millis);
        self.instant.elapsed().max(Duration::from_millis(u64::try_from(by_clock).unwrap_or(0)))
    }
}

struct State {
    stopping: bool,
    since: Since,
    /// Why the lease may be held by another.
    lost: Option<String>,
}

/// A held lease. Released on drop.
pub(crate) struct Lease {
    objects: Arc<dyn SharedObjects>,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Lease {
    /// Acquires the lease without waiting.
    ///
    /// # Errors
    /// Invalid, if another holds it.
    pub fn acquire(objects: &Arc<dyn SharedObjects>) -> Result<Self> {
        let holder = format!("process {} at {}", std::process::id(), Timestamp::now());
        let since = Since::now();
        let content = Content::new(&holder, since).encode();
        let is_held = match objects.read_version(NAME)? {
            None => objects.create(NAME, &content)?,
            Some((found, version)) => {
                let found: Content = serde_json::from_slice(&found)
                    .map_err(|error| Error::damaged(&objects.describe(NAME), error.to_string()))?;
                if found.until_millis > Timestamp::now().as_millisecond() {
                    return Err(busy(objects.as_ref(), &found.holder));
                }
                objects.replace(NAME, &content, &version)?
            }
        };
        if !is_held {
            return Err(busy(objects.as_ref(), "another command"));
        }
        let state = State { stopping: false, since, lost: None };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let thread = {
            let (objects, shared) = (Arc::clone(objects), Arc::clone(&shared));
            Builder::new().name("backup-lease".to_owned()).spawn(move || renew(&objects, &shared, &holder))
        };
        let thread = thread.map_err(|error| Error::invalid(format!("cannot start a thread: {error}")))?;
        Ok(Self { objects: Arc::clone(objects), shared, thread: Some(thread) })
    }

    /// Checks that no other command can have acquired the lease. Called before what cannot be
    /// undone.
    ///
    /// # Errors
    /// Invalid, if it could not be renewed.
    pub fn check(&self) -> Result<()> {
        let state = self.shared.0.lock();
        // The renewing thread may have been suspended together with this one.
        let elapsed = state.since.elapsed();
        let expired = (elapsed + MARGIN > VALID).then(|| format!("renewed {} s ago", elapsed.as_secs()));
        match state.lost.clone().or(expired) {
            None => Ok(()),
            Some(reason) => Err(Error::invalid(format!(
                "{}: the lock could not be renewed, so another command may change the repository ({reason}); try again",
                self.objects.describe(NAME).display()
            ))),
        }
    }
}

fn busy(objects: &dyn SharedObjects, holder: &str) -> Error {
    Error::invalid(format!(
        "{}: another command changes the backups ({holder}); try again when it is done, or {} s after it was \
         interrupted",
        objects.describe("").display(),
        VALID.as_secs()
    ))
}

fn renew(objects: &Arc<dyn SharedObjects>, shared: &(Mutex<State>, Condvar), holder: &str) {
    let (mutex, changed) = shared;
    let mut state = mutex.lock();
    loop {
        if !state.stopping {
            changed.wait_for(&mut state, RENEWED);
        }
        if state.stopping {
            return;
        }
        drop(state);
        let since = Since::now();
        let renewed = attempt(objects.as_ref(), holder, since);
        state = mutex.lock();
        state.record(renewed, since);
    }
}

/// Renews the lease of `holder`. Returns whether its object was replaced; `None` if
/// another one holds it.
fn attempt(objects: &dyn SharedObjects, holder: &str, since: Since) -> Result<Option<bool>> {
    let Some((found, version)) = objects.read_version(NAME)? else { return Ok(None) };
    if !serde_json::from_slice::<Content>(&found).is_ok_and(|found| found.holder == holder) {
        return Ok(None);
    }
    objects.replace(NAME, &Content::new(holder, since).encode(), &version).map(Some)
}

impl State {
    /// Records an attempt that began at `since`. After a failed one, the lease is valid until it
    /// expires, and the next one may succeed. So may one after an object that was not replaced: a
    /// repeated request fails if its first attempt had succeeded.
    fn record(&mut self, renewed: Result<Option<bool>>, since: Since) {
        match renewed {
            Ok(Some(true)) => self.since = since,
            Ok(Some(false)) => tracing::warn!("the lock of a repository was not replaced; trying again"),
            Ok(None) => self.lost = Some("another command has acquired it".to_owned()),
            Err(error) => tracing::warn!(%error, "the lock of a repository was not renewed; trying again"),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.0.lock().stopping = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // If it was lost, it is another's.
        if self.check().is_ok()
            && let Err(error) = self.objects.remove(NAME)
        {
            tracing::warn!(%error, "the lock of a repository stays until it expires");
        }
    }
}

#[cfg(all(test, feature = "s3"))]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::objects::RemoteObjects;

    fn objects() -> Arc<dyn SharedObjects> {
        Arc::new(RemoteObjects::with_store(Arc::new(InMemory::new()), "s3://bucket/p", "p").unwrap())
    }

    #[test]
    fn a_failed_renewal_loses_the_lease_only_if_another_command_has_it() {
        let objects = objects();
        let since = Since::now();
        assert_eq!(attempt(objects.as_ref(), "own", since).unwrap(), None, "it was removed");
        assert!(objects.create(NAME, &Content::new("own", since).encode()).unwrap());
        assert_eq!(attempt(objects.as_ref(), "own", since).unwrap(), Some(true));
        assert_eq!(attempt(objects.as_ref(), "another", since).unwrap(), None);
        let mut state = State { stopping: false, since, lost: None };
        state.record(Err(Error::invalid("unreachable")), since);
        state.record(Ok(Some(false)), since);
        assert_eq!(state.lost, None);
        state.record(Ok(None), since);
        assert!(state.lost.is_some());
    }

    #[test]
    fn a_lease_that_was_not_renewed_in_time_is_not_relied_on_nor_removed() {
        let objects = objects();
        let lease = Lease::acquire(&objects).unwrap();
        lease.check().unwrap();
        // The machine was suspended: no thread has run, and the clock has advanced.
        lease.shared.0.lock().since.millis -= VALID.as_millis() as i64;
        let error = lease.check().unwrap_err().to_string();
        assert!(error.contains("the lock could not be renewed"), "{error}");
        drop(lease);
        assert!(objects.read(NAME).unwrap().is_some(), "it may be another's");
        // It expires by itself.
        assert!(Lease::acquire(&objects).is_err());
    }
}
