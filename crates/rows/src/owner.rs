//! The client on whose behalf a thread works.
//!
//! Where requests wait for a shared resource, such as memory for writes, those of one client must
//! not stall those of the others. Only the server can identify clients; in the layers below, an
//! [`Owner`] is a number that all requests of one client share:
//!
//! ```
//! use cassette_rows::owner::{self, Owner};
//!
//! assert_eq!(owner::current(), Owner::default());
//! owner::on_behalf_of(Owner(7), || assert_eq!(owner::current(), Owner(7)));
//! ```

use std::cell::Cell;

/// The originator of a request: a client. The default stands for the database itself and for an
/// embedding program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Owner(pub u64);

thread_local! {
    static CURRENT: Cell<Owner> = const { Cell::new(Owner(0)) };
}

/// Runs `work` on behalf of `owner`.
pub fn on_behalf_of<T>(owner: Owner, work: impl FnOnce() -> T) -> T {
    /// Also when `work` panics: the thread serves other requests afterwards.
    struct Restore(Owner);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(owner));
    work()
}

/// Returns the owner of the current thread's work.
pub fn current() -> Owner {
    CURRENT.get()
}
