//! Work on independent items by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

/// More threads than this would only wait for one disk.
const THREADS_MAX: usize = 8;

/// Returns the number of threads that work on files: that of the processors, within a limit.
pub fn threads() -> usize {
    // Each start opens some thirty tables, and the system answers in some twenty calls.
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX))
}

/// Calls `work` with each item, on at most `threads` threads, and `done` in this thread with each
/// item that has succeeded, in the order of completion. With one thread, all happens in this one.
/// Returns the results in the order of the items.
///
/// # Errors
/// The error of the first item, in their order, that failed. No item is begun after an error.
pub fn for_each<T: Sync, R: Send + Sync, E: Send + Sync>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
    mut done: impl FnMut(&T) -> Result<(), E>,
) -> Result<Vec<R>, E> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        let one = |item| work(item).and_then(|result| done(item).map(|()| result));
        return items.iter().map(one).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<Result<R, E>>> = items.iter().map(|_| OnceLock::new()).collect();
    let (sender, receiver) = mpsc::channel();
    let reported = thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, results, next, work) = (sender.clone(), &results, &next, &work);
            scope.spawn(move || {
                while let (at, Some(item)) = next_item(items, next) {
                    let result = work(item);
                    let has_failed = result.is_err();
                    if let Some(slot) = results.get(at) {
                        let _ = slot.set(result);
                    }
                    if has_failed || sender.send(at).is_err() {
                        // No thread takes a further item.
                        next.store(items.len(), Ordering::Relaxed);
                    }
                }
            });
        }
        drop(sender);
        // Returning drops the receiver, after which no item is begun.
        receiver.into_iter().filter_map(|at| items.get(at)).try_for_each(&mut done)
    });
    let mut all = Vec::with_capacity(items.len());
    for slot in results {
        match slot.into_inner() {
            Some(result) => all.push(result?),
            // Not begun, because of an error of a later item, or of `done`.
            None => continue,
        }
    }
    reported.map(|()| all)
}

fn next_item<'t, T>(items: &'t [T], next: &AtomicUsize) -> (usize, Option<&'t T>) {
    // Does not overflow: each thread ends with the first number that is too large.
    let at = next.fetch_add(1, Ordering::Relaxed);
    (at, items.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [0, 1, 2, 7, 5000] {
            let mut seen = Vec::new();
            let doubled = for_each(
                threads,
                &items,
                |item| Ok::<_, ()>(item * 2),
                |item| {
                    seen.push(*item);
                    Ok(())
                },
            );
            assert_eq!(doubled, Ok(items.iter().map(|item| item * 2).collect()), "{threads} threads");
            seen.sort_unstable();
            assert_eq!(seen, items, "{threads} threads");
        }
        assert_eq!(for_each(4, &[] as &[u32], |_| Ok::<_, ()>(1), |_| Ok(())), Ok(Vec::new()));
    }

    #[test]
    fn the_first_item_that_fails_determines_the_error() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 2, 8] {
            let begun = AtomicUsize::new(0);
            let failing = |item: &u32| {
                begun.fetch_add(1, Ordering::Relaxed);
                if item % 2 == 1 { Err(*item) } else { Ok(()) }
            };
            assert_eq!(for_each(threads, &items, failing, |_| Ok(())), Err(1), "{threads} threads");
            assert!(begun.into_inner() < 1000);
        }
    }

    #[test]
    fn an_error_of_the_report_ends_the_work() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 4] {
            let failed = for_each(threads, &items, |_| Ok(()), |_| Err("stop"));
            assert_eq!(failed, Err("stop"), "{threads} threads");
        }
    }
}
