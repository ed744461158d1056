//! A queue with concurrent producers and consumers: each job is taken once and in order. Taking a
//! job and processing it is one transaction: if that fails, the job is available again.

use cassette_transactions::{Column, Columns, ConflictHandler, Result, Transaction, Transactions};

/// Jobs by queue and number, and the next number of each queue.
pub struct Queue {
    transactions: Transactions,
    jobs: Columns<String, u64, String>,
    next: Column<String, u64>,
}

impl Queue {
    /// Opens the tables, creating them if needed.
    pub fn open(transactions: Transactions) -> Result<Self> {
        let jobs = transactions.table("jobs", ConflictHandler::WriteWriteByCell)?.columns();
        let next = transactions.table("counters", ConflictHandler::WriteWriteByCell)?.column("next");
        Ok(Self { transactions, jobs, next })
    }

    /// Two concurrent puts would use the same number: the second one to commit finds the counter
    /// changed and runs again.
    pub fn put(&self, queue: &str, job: &str) -> Result<()> {
        self.transactions.run(|tx| {
            let number = self.next.get(tx, queue)?.unwrap_or(0);
            self.next.put(tx, queue, number + 1)?;
            self.jobs.put(tx, queue, number, job)
        })
    }

    /// Takes the first job and processes it; `None` if there is none. Two consumers that take the
    /// same job both delete it: the second one to commit runs again.
    pub fn take<T>(
        &self,
        queue: &str,
        mut work: impl FnMut(&mut Transaction, &str) -> Result<T>,
    ) -> Result<Option<T>> {
        self.transactions.run(|tx| {
            let Some((number, job)) = self.jobs.range(tx, queue, .., 1)?.pop() else { return Ok(None) };
            self.jobs.delete(tx, queue, number)?;
            work(tx, &job).map(Some)
        })
    }
}

/// Fills a queue and processes its jobs in two threads.
pub fn run(transactions: Transactions) -> Result<()> {
    let done = transactions.table("done", ConflictHandler::WriteWriteByCell)?.columns::<String, String, ()>();
    let queue = Queue::open(transactions.clone())?;
    for n in 0..10 {
        queue.put("mail", &format!("letter {n}"))?;
    }
    let failed = queue.take("mail", |_, _| Err::<(), _>(cassette_transactions::Error::caller("no stamps")));
    assert_eq!(failed.unwrap_err().to_string(), "no stamps");
    let first = queue.take("mail", |tx, job| done.put(tx, "mail", job, ()).map(|()| job.to_owned()))?;
    assert_eq!(first.as_deref(), Some("letter 0"), "a job that failed is available again");
    let work = || -> Result<()> {
        while queue.take("mail", |tx, job| done.put(tx, "mail", job, ()))?.is_some() {}
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })?;
    assert_eq!(transactions.read(|tx| done.range(tx, "mail", .., 100))?.len(), 10);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let database = cassette_database::Database::open(directory.path())?;
    Ok(run(Transactions::embedded(database, "post")?)?)
}
