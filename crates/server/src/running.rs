//! The requests on dedicated threads. Requests answered from memory finish too soon to be listed.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use cassette_database::RunningRequest;
use cassette_rows::interrupt::{Cancellation, Interrupted};
use parking_lot::Mutex;

/// Running requests, and those that wait for a thread; each in a slot.
#[derive(Debug, Default)]
pub(crate) struct Running {
    places: Mutex<Vec<Option<Arc<Task>>>>,
    /// The number of requests so far.
    numbered: AtomicU64,
}

struct Task {
    /// Distinguishes the request from all others since the start.
    id: u64,
    cancellation: Cancellation,
    /// Returns the description; called only to list requests.
    describe: Box<dyn Fn() -> String + Send + Sync>,
    queued: Instant,
    started: OnceLock<Instant>,
}

/// A request's entry, removed on drop.
#[derive(Debug)]
pub(crate) struct Entered {
    running: Arc<Running>,
    place: usize,
    task: Arc<Task>,
}

impl Running {
    /// Adds a request that needs a dedicated thread. `of_all` interrupts all of its connection.
    pub fn enter(
        self: &Arc<Self>,
        of_all: &Cancellation,
        describe: impl Fn() -> String + Send + Sync + 'static,
    ) -> Entered {
        let task = Arc::new(Task {
            id: self.numbered.fetch_add(1, Ordering::Relaxed) + 1,
            cancellation: of_all.of_one(),
            describe: Box::new(describe),
            queued: Instant::now(),
            started: OnceLock::new(),
        });
        let mut places = self.places.lock();
        let place = places.iter().position(Option::is_none).unwrap_or_else(|| {
            places.push(None);
            places.len() - 1
        });
        places[place] = Some(Arc::clone(&task));
        drop(places);
        Entered { running: Arc::clone(self), place, task }
    }

    /// Cancels a request; returns its description, or `None` if it has ended.
    pub fn cancel(&self, id: u64) -> Option<String> {
        let task = self.places.lock().iter().flatten().find(|task| task.id == id).cloned()?;
        task.cancellation.cancel(Interrupted::Cancelled);
        Some((task.describe)())
    }

    /// Returns all entries.
    pub fn list(&self) -> Vec<RunningRequest> {
        let tasks: Vec<(usize, Arc<Task>)> = {
            let places = self.places.lock();
            places
                .iter()
                .enumerate()
                .filter_map(|(place, task)| Some((place, Arc::clone(task.as_ref()?))))
                .collect()
        };
        let now = Instant::now();
        let request = |(place, task): (usize, Arc<Task>)| {
            let started = task.started.get().copied();
            RunningRequest {
                id: task.id,
                thread: format!("Native-Transport-Requests-{}", place + 1),
                queued: started.unwrap_or(now).saturating_duration_since(task.queued),
                running: started.map(|started| now.saturating_duration_since(started)).unwrap_or_default(),
                description: (task.describe)(),
            }
        };
        tasks.into_iter().map(request).collect()
    }
}

impl Entered {
    /// Returns the flag that interrupts the request.
    pub fn cancellation(&self) -> &Cancellation {
        &self.task.cancellation
    }

    /// Records that the request has its thread.
    pub fn start(&self) {
        let _ = self.task.started.set(Instant::now());
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.running.places.lock()[self.place] = None;
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("queued", &self.queued).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_is_seen_from_when_it_waits_until_it_is_done() {
        let running = Arc::new(Running::default());
        let enter = |text: &'static str| running.enter(&Cancellation::new(), move || text.to_owned());
        let seen = || {
            let seen = |request: RunningRequest| {
                let number = request.thread.trim_start_matches("Native-Transport-Requests-").to_owned();
                format!("{number} {}", request.description)
            };
            running.list().into_iter().map(seen).collect::<Vec<_>>()
        };
        let (first, second) = (enter("a"), enter("b"));
        assert_eq!(seen(), ["1 a", "2 b"]);
        assert!(running.list().iter().all(|request| request.running == Duration::ZERO), "none has a thread");
        drop(first);
        let third = enter("c");
        assert_eq!(seen(), ["1 c", "2 b"], "threads are used again");
        third.start();
        let queued = running.list()[0].queued;
        assert_eq!(running.list()[0].queued, queued, "it waits no longer");
        drop((second, third));
        assert!(seen().is_empty());
    }

    #[test]
    fn a_request_is_cancelled_by_its_id_and_never_another_one() {
        let (running, connection) = (Arc::new(Running::default()), Cancellation::new());
        let first = running.enter(&connection, || "a".to_owned());
        let id = running.list()[0].id;
        drop(first);
        let second = running.enter(&connection, || "b".to_owned());
        assert_eq!(running.cancel(id), None, "its place is used again, and its id is not");
        assert_eq!(second.cancellation().reason(), None);
        assert_eq!(running.cancel(running.list()[0].id).as_deref(), Some("b"));
        assert_eq!(second.cancellation().reason(), Some(Interrupted::Cancelled));
        assert_eq!(connection.reason(), None);
    }
}
