//! A queue whose jobs are claimed with conditional writes: each by one worker only.

use cassette::{Applied, Database, Result};

const WORKERS: usize = 4;
const JOBS: i32 = 20;

fn main() -> Result<()> {
    run(Database::in_memory()?)
}

/// Lets several threads claim all jobs.
pub fn run(database: Database) -> Result<()> {
    let session = database.session();
    session.execute(
        "CREATE KEYSPACE work WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        (),
    )?;
    session.execute("CREATE TABLE work.jobs (queue text, id int, owner int, PRIMARY KEY (queue, id))", ())?;
    for id in 0..JOBS {
        session.execute("INSERT INTO work.jobs (queue, id) VALUES ('mail', ?)", (id,))?;
    }
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let database = database.clone();
            std::thread::spawn(move || claim_all(&database, worker as i32))
        })
        .collect();
    let mut claimed = 0;
    for worker in workers {
        claimed += worker.join().expect("a worker panicked")?;
    }
    assert_eq!(claimed, JOBS);
    println!("{WORKERS} workers claimed {claimed} jobs");
    Ok(())
}

/// Claims the jobs that have no owner; returns how many it got.
fn claim_all(database: &Database, worker: i32) -> Result<i32> {
    let session = database.session();
    let mut claimed = 0;
    for job in session.execute("SELECT id FROM work.jobs WHERE queue = 'mail'", ())?.typed::<(i32,)>() {
        let claim = "UPDATE work.jobs SET owner = ? WHERE queue = 'mail' AND id = ? IF owner = null";
        match session.execute(claim, (worker, job?.0))?.applied::<(i32,)>()? {
            Applied::Yes => claimed += 1,
            Applied::No(present) => assert!(present.is_some(), "a job without an owner is free"),
        }
    }
    Ok(claimed)
}
