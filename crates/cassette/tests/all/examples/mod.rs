//! The examples, run.

#[path = "."]
#[expect(dead_code, reason = "the tests call what the mains of the examples call")]
mod sources {
    #[path = "../../../examples/hello.rs"]
    pub mod hello;
    #[path = "../../../examples/in_memory_tests.rs"]
    pub mod in_memory_tests;
    #[path = "../../../examples/outbox.rs"]
    pub mod outbox;
    #[path = "../../../examples/queue.rs"]
    pub mod queue;
    #[path = "../../../examples/snapshot.rs"]
    pub mod snapshot;
    #[path = "../../../examples/time_series.rs"]
    pub mod time_series;
    #[path = "../../../examples/transactions.rs"]
    pub mod transactions;
    #[path = "../../../examples/typed_rows.rs"]
    pub mod typed_rows;
}

use cassette::Database;

use sources::{hello, in_memory_tests, outbox, queue, snapshot, time_series, transactions, typed_rows};

#[test]
fn rows_are_there_after_the_directory_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    hello::run(directory.path()).unwrap();
}

#[test]
fn an_update_leaves_omitted_columns_as_they_are() {
    typed_rows::run(Database::in_memory().unwrap()).unwrap();
}

#[test]
fn the_newest_measurement_is_first_and_expires() {
    time_series::run(Database::in_memory().unwrap()).unwrap();
}

#[test]
fn each_job_is_claimed_by_one_worker() {
    queue::run(Database::in_memory().unwrap()).unwrap();
}

#[test]
fn a_transfer_keeps_the_sum() {
    transactions::run(Database::in_memory().unwrap()).unwrap();
}

#[test]
fn messages_are_sent_with_the_transaction_or_not_at_all() {
    outbox::run(Database::in_memory().unwrap()).unwrap();
}

#[test]
fn tests_in_memory_do_not_see_each_other() {
    in_memory_tests::run().unwrap();
}

#[test]
fn a_snapshot_is_read_and_restored() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    snapshot::run(directories[0].path(), directories[1].path()).unwrap();
}
