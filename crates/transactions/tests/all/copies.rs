//! Copies of stores that are in use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cassette_transactions::copy::{CopyError, Pass};
use cassette_transactions::service::Layout;
use cassette_transactions::store::{EmbeddedStore, FailingStore, Fault, MemoryStore};
use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::{Column, ConflictHandler, Error, Table, Timestamp, Transactions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::conformance::database;
use super::transactions::{in_memory, options, over};

const ACCOUNTS: i64 = 50;

fn accounts(transactions: &Transactions) -> Column<i64, i64> {
    transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap().column("balance")
}

fn sum(transactions: &Transactions) -> i64 {
    let balance = accounts(transactions);
    transactions.read(|tx| (0..ACCOUNTS).map(|a| Ok(balance.get(tx, a)?.unwrap_or(0))).sum()).unwrap()
}

fn bank(transactions: &Transactions) {
    let balance = accounts(transactions);
    transactions.run(|tx| (0..ACCOUNTS).try_for_each(|a| balance.put(tx, a, 100))).unwrap();
}

fn copy(source: &Transactions, target: &Transactions, pass: Pass) -> (u64, u64) {
    let copied = source.copy_to(target, pass, |_, _| {}).unwrap();
    (copied.different, copied.superfluous)
}

#[test]
fn passes_under_load_and_a_last_one_make_the_stores_equal() {
    let store = Arc::new(EmbeddedStore::open(database(), "bank").unwrap());
    let source = over(store, options().layout(Layout::of_version(1)));
    source.timelock().fast_forward(Timestamp(70_000_000)).unwrap();
    bank(&source);
    let target = over(Arc::new(MemoryStore::new()), options().layout(Layout::of_version(3)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (source, done) = (&source, &done);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(thread);
                let balance = accounts(source);
                while !done.load(Ordering::Relaxed) {
                    let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
                    if from == to {
                        continue;
                    }
                    let moved = source.run(|tx| {
                        let (a, b) = (balance.get(tx, from)?, balance.get(tx, to)?);
                        balance.put(tx, from, a.unwrap_or(0) - 1)?;
                        balance.put(tx, to, b.unwrap_or(0) + 1)
                    });
                    moved.unwrap();
                }
            });
        }
        copy(&source, &target, Pass::First);
        assert_eq!(sum(&target), 100 * ACCOUNTS, "a pass copies one snapshot");
        for _ in 0..5 {
            copy(&source, &target, Pass::Next);
            assert_eq!(sum(&target), 100 * ACCOUNTS);
        }
        done.store(true, Ordering::Relaxed);
    });
    copy(&source, &target, Pass::Next);
    assert_eq!(copy(&source, &target, Pass::Compare), (0, 0));
    assert!(target.timelock().timestamp().unwrap() > Timestamp(70_000_000));
    // It is an ordinary store, whose tables have the properties of the source's.
    let balance = accounts(&target);
    target.run(|tx| balance.put(tx, 0, 0)).unwrap();
    let other = target.table("accounts", ConflictHandler::Ignore).unwrap_err();
    assert!(matches!(other, Error::OtherHandler { .. }), "{other}");
    assert_eq!(copy(&source, &target, Pass::Compare), (1, 0));
}

type Model = BTreeMap<(String, u8, u8), String>;

/// Changes random cells, and the model with them.
fn change(transactions: &Transactions, tables: &[Table], model: &mut Model, random: &mut StdRng) {
    for _ in 0..random.random_range(0..40) {
        let table = &tables[random.random_range(0..tables.len())];
        let (row, column) = (random.random_range(0..6_u8), random.random_range(0..8_u8));
        let value = random.random_bool(0.6).then(|| random.random::<u32>().to_string());
        transactions
            .run(|tx| match &value {
                Some(value) => tx.put(table, [row], [column], value),
                None => tx.delete(table, [row], [column]),
            })
            .unwrap();
        let key = (table.name().to_owned(), row, column);
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

#[test]
fn a_pass_writes_exactly_the_cells_that_differ() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let (source, target) = (in_memory(), in_memory());
        let tables: Vec<Table> = [SweepStrategy::Conservative, SweepStrategy::Thorough]
            .iter()
            .enumerate()
            .map(|(n, sweep)| {
                source.table_swept(&format!("t{n}"), ConflictHandler::SerializableByRow, *sweep).unwrap()
            })
            .collect();
        let mut model = Model::new();
        let mut copied = Model::new();
        for pass in [Pass::First, Pass::Next, Pass::Next, Pass::Next] {
            change(&source, &tables, &mut model, &mut random);
            if random.random_bool(0.5) {
                source.sweep().unwrap();
            }
            let different = model.iter().filter(|(cell, value)| copied.get(*cell) != Some(*value)).count();
            let superfluous = copied.keys().filter(|cell| !model.contains_key(*cell)).count();
            let expected = (different as u64, superfluous as u64);
            if pass != Pass::First {
                assert_eq!(copy(&source, &target, Pass::Compare), expected, "seed {seed}");
            }
            assert_eq!(copy(&source, &target, pass), expected, "seed {seed}");
            assert_eq!(copy(&source, &target, Pass::Compare), (0, 0), "seed {seed}");
            copied.clone_from(&model);
        }
    }
}

#[test]
fn the_next_pass_completes_an_interrupted_one() {
    let source = in_memory();
    bank(&source);
    for fault in [Fault::Lost, Fault::Half, Fault::Unanswered] {
        for n in 1.. {
            let store = Arc::new(FailingStore::new(MemoryStore::new()));
            let target = over(store.clone(), options());
            let before = store.calls();
            store.fail_at(n, fault);
            let first = source.copy_to(&target, Pass::First, |_, _| {});
            let calls = store.calls() - before;
            // No more faults from here on.
            store.fail_at(1 << 40, fault);
            copy(&source, &target, Pass::Next);
            assert_eq!(copy(&source, &target, Pass::Compare), (0, 0), "after call {n}");
            if first.is_ok() && calls < n {
                break;
            }
        }
    }
}

#[test]
fn a_target_that_is_no_copy_is_refused() {
    let source = in_memory();
    bank(&source);
    let target = in_memory();
    bank(&target);
    let refused = |pass| source.copy_to(&target, pass, |_, _| {}).unwrap_err();
    let error = refused(Pass::First);
    assert!(matches!(&error, CopyError::NotEmpty { table } if table == "accounts"), "{error}");
    target.table("other", ConflictHandler::WriteWriteByCell).unwrap();
    for pass in [Pass::Next, Pass::Compare] {
        let error = refused(pass);
        assert!(matches!(&error, CopyError::Foreign { table } if table == "other"), "{error}");
    }
}

#[test]
fn a_store_is_not_copied_to_or_compared_with_itself() {
    let source = in_memory();
    bank(&source);
    for pass in [Pass::First, Pass::Next, Pass::Compare] {
        let error = source.copy_to(&source.clone(), pass, |_, _| {}).unwrap_err();
        assert!(matches!(error, CopyError::SameStore), "{error}");
    }
    assert_eq!(sum(&source), ACCOUNTS * 100);
}
