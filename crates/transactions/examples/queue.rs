//! A queue: many put jobs in, many take them out, each job is taken once and in order. It is taken in the same transaction as what is done with
//! it: if that fails, it is there again.

use cassette_transactions::{Column, Columns, ConflictHandler, Result, Transaction, Transactions};

/// Jobs by queue and number, and the number of each queue's next.
pub struct Queue {
    transactions: Transactions,
    jobs: Columns<String, u64, String>,
    next: Column<String, u64>,
}

impl Queue {
    /// With its tables made if they are not there.
    pub fn open(transactions: Transactions) -> Result<Self> {
        let jobs = transactions.table("jobs", ConflictHandler::WriteWriteByCell)?.columns();
        let next = transactions.table("counters", ConflictHandler::WriteWriteByCell)?.column("next");
        Ok(Self { transactions, jobs, next })
    }

    /// Two that put at once would take the same number: the second to commit finds the counter written, and runs again.
    pub fn put(&self, queue: &str, job: &str) -> Result<()> {
        self.transactions.run(|tx| {
            let number = self.next.get(tx, queue)?.unwrap_or(0);
            self.next.put(tx, queue, number + 1)?;
            self.jobs.put(tx, queue, number, job)
        })
    }

    /// Takes the first job and does it; `None` if there is no job. Two that take the same one both delete it: the second to commit runs again.
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

/// Fills a queue, and has two threads do its jobs.
pub fn run(transactions: Transactions) -> Result<()> {
    let done = transactions.table("done", ConflictHandler::WriteWriteByCell)?.columns::<String, String, ()>();
    let queue = Queue::open(transactions.clone())?;
    for n in 0..10 {
        queue.put("mail", &format!("letter {n}"))?;
    }
    let failed = queue.take("mail", |_, _| Err::<(), _>(cassette_transactions::Error::caller("no stamps")));
    assert_eq!(failed.unwrap_err().to_string(), "no stamps");
    let first = queue.take("mail", |tx, job| done.put(tx, "mail", job, ()).map(|()| job.to_owned()))?;
    assert_eq!(first.as_deref(), Some("letter 0"), "what could not be done is there again");
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
