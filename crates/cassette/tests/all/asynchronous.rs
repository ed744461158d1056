//! Statements in an asynchronous program.

use cassette::options::SyncMode;
use cassette::{AsyncSession, Database, ErrorKind, StatementOptions, options::Options};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

async fn session(options: Options) -> AsyncSession {
    let session = AsyncSession::new(Database::open(options).unwrap().session());
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE app",
        "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))",
    ] {
        session.execute(statement, ()).await.unwrap();
    }
    session
}

#[test]
fn statements_are_awaited_and_spawned() {
    block_on(async {
        let session = session(Options::in_memory()).await;
        let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)").unwrap();
        let writes: Vec<_> =
            (0..50).map(|c| tokio::spawn(session.execute(&insert, (1, c, format!("row {c}"))))).collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        let (count,): (i64,) = session.query_one("SELECT count(*) FROM t", ()).await.unwrap();
        assert_eq!(count, 50);
        let found: Option<(String,)> =
            session.query_opt("SELECT v FROM t WHERE k = ? AND c = ?", (1, 7)).await.unwrap();
        assert_eq!(found.unwrap().0, "row 7");
        let mut rows = session.query_iter("SELECT c FROM t", ()).await.unwrap();
        let mut read = 0;
        while let Some(row) = rows.next().await {
            assert_eq!(row.unwrap().get::<i32>("c").unwrap(), read);
            read += 1;
        }
        assert_eq!(read, 50);
    });
}

#[test]
fn reads_and_writes_of_one_partition_in_memory_are_executed_at_once() {
    let session = block_on(session(Options::in_memory()));
    let session = session.session();
    // A background thread may have a lock just then.
    let executed = |cql: &str, values: &[i32]| {
        let is_executed = |_: &u32| {
            let bound = session.bind(cql, values, &StatementOptions::default()).unwrap();
            session.execute_bound_at_once(&bound).map(Result::unwrap).is_some()
        };
        (0..100).filter(is_executed).count()
    };
    assert!(executed("INSERT INTO t (k, c) VALUES (?, ?)", &[1, 1]) > 0);
    assert!(executed("SELECT v FROM t WHERE k = ? AND c = ?", &[1, 1]) > 0);
    for waiting in ["SELECT * FROM t", "TRUNCATE t", "ALTER TABLE t ADD w int"] {
        assert_eq!(executed(waiting, &[]), 0, "{waiting}");
    }
    assert_eq!(session.execute("SELECT * FROM t", ()).unwrap().len(), 1);
}

#[test]
fn writes_that_wait_for_a_sync_go_to_a_blocking_thread() {
    let mut options = Options::in_memory();
    options.engine.commitlog_sync = SyncMode::Batch;
    block_on(async {
        let session = session(options).await;
        session.execute("INSERT INTO t (k, c, v) VALUES (?, ?, ?)", (1, 1, "one")).await.unwrap();
        let batch = session.with(|session| {
            let mut batch = session.batch();
            batch.add("INSERT INTO t (k, c, v) VALUES (1, 2, 'two')", ())?;
            batch.execute().map(|_| ())
        });
        batch.await.unwrap();
        assert_eq!(session.execute("SELECT * FROM t WHERE k = 1", ()).await.unwrap().len(), 2);
    });
}

#[test]
fn a_dropped_future_has_no_effect_and_errors_are_those_of_the_session() {
    block_on(async {
        let session = session(Options::in_memory()).await;
        drop(session.execute("INSERT INTO t (k, c) VALUES (?, ?)", (1, 1)));
        assert!(session.execute("SELECT * FROM t", ()).await.unwrap().is_empty());
        let error = session.execute("SELECT * FROM nowhere", ()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}
