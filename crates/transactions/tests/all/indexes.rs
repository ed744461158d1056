//! Maintained secondary indexes: every snapshot contains exactly the entries of its values.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cassette_transactions::store::{EmbeddedStore, MemoryStore, Store};
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{
    Column, ConflictHandler, Error, Index, IndexDeclaration, Json, Result, Savepoint, Table, Transaction,
    Transactions,
};
use proptest::prelude::*;

use super::conformance::database;
use super::transactions::{in_memory, options, over};

type Words = Column<u32, String>;
type ByWord = Index<(String, bool), u32>;
pub type Entry = ((String, bool), u32);

pub fn words(table: &Table) -> Words {
    table.column("words")
}

/// The keys of a row: each word of its text, and whether the row is even.
fn keys(row: u32, text: &str) -> BTreeSet<(String, bool)> {
    text.split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| (word.to_owned(), row.is_multiple_of(2)))
        .collect()
}

pub fn by_word(words: &Words) -> IndexDeclaration<(String, bool), u32> {
    // Duplicate words are one entry.
    words.index("by word", |row, text| {
        let keys = keys(*row, text);
        keys.clone().into_iter().chain(keys).collect::<Vec<_>>()
    })
}

/// Returns the entries that the values in the transaction's snapshot have.
pub fn recomputed(tx: &Transaction, table: &Table) -> Vec<Entry> {
    let mut entries = Vec::new();
    for cell in tx.cells(table) {
        let (cell, value) = cell.unwrap();
        if cell.column[..] == *b"words" {
            let row = u32::from_be_bytes(cell.row[..].try_into().unwrap());
            let text = String::from_utf8(value.to_vec()).unwrap();
            entries.extend(keys(row, &text).into_iter().map(|key| (key, row)));
        }
    }
    entries.sort();
    entries
}

/// Reads an index in every way, and compares it with the values of the same snapshot.
pub fn check(tx: &Transaction, table: &Table, index: &ByWord) {
    let expected = recomputed(tx, table);
    let found: Vec<Entry> = index.range(tx, ..).collect::<Result<_>>().unwrap();
    assert_eq!(found, expected);
    let mut reversed: Vec<Entry> = index.range(tx, ..).rev().collect::<Result<_>>().unwrap();
    reversed.reverse();
    assert_eq!(reversed, expected);
    let distinct: BTreeSet<&(String, bool)> = expected.iter().map(|(key, _)| key).collect();
    for key in distinct {
        let with_key: Vec<u32> = index.get(tx, key.clone()).collect::<Result<_>>().unwrap();
        let wanted: Vec<u32> = expected.iter().filter(|(k, _)| k == key).map(|(_, row)| *row).collect();
        assert_eq!(with_key, wanted);
        let of_word: Vec<Entry> = index.prefix(tx, (key.0.clone(),)).collect::<Result<_>>().unwrap();
        assert!(of_word.iter().eq(expected.iter().filter(|(k, _)| k.0 == key.0)));
        let until: Vec<Entry> = index.range(tx, ..key.clone()).collect::<Result<_>>().unwrap();
        assert!(until.iter().eq(expected.iter().filter(|(k, _)| k < key)));
        let from: Vec<Entry> = index.range(tx, key.clone()..).collect::<Result<_>>().unwrap();
        assert!(from.iter().eq(expected.iter().filter(|(k, _)| k >= key)));
    }
    // Both ends of one iterator meet without losing or repeating an entry.
    let mut ends = index.range(tx, ..);
    let mut met = BTreeSet::new();
    for turn in 0.. {
        let next = if turn % 3 == 0 { ends.next_back() } else { ends.next() };
        let Some(next) = next else { break };
        assert!(met.insert(next.unwrap()));
    }
    assert!(met.iter().eq(&expected));
}

#[derive(Debug, Clone)]
enum Step {
    Put(u32, String),
    PutBytes(u32, String),
    Delete(u32),
    Append(u32, String),
    Savepoint,
    RollBack,
    Check,
    Commit,
    Abort,
    Declare,
    Build,
    Sweep,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let row = || 0..4u32;
    let text = || prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "c"]), 1..4);
    let text = move || text().prop_map(|words| words.join(" "));
    let step = prop_oneof![
        4 => (row(), text()).prop_map(|(row, text)| Step::Put(row, text)),
        1 => (row(), text()).prop_map(|(row, text)| Step::PutBytes(row, text)),
        2 => row().prop_map(Step::Delete),
        2 => (row(), text()).prop_map(|(row, text)| Step::Append(row, text)),
        1 => Just(Step::Savepoint),
        1 => Just(Step::RollBack),
        3 => Just(Step::Check),
        5 => Just(Step::Commit),
        1 => Just(Step::Abort),
        1 => Just(Step::Declare),
        1 => Just(Step::Build),
        1 => Just(Step::Sweep),
    ];
    (0..3usize, step)
}

/// Runs a step within a transaction.
fn step_of_transaction(
    (tx, savepoints): &mut (Transaction, Vec<Savepoint>),
    step: &Step,
    table: &Table,
    words: &Column<u32, String>,
    index: Option<&ByWord>,
) {
    match step {
        Step::Put(row, text) => words.put(tx, *row, text).unwrap(),
        Step::PutBytes(row, text) => tx.put(table, row.to_be_bytes(), "words", text).unwrap(),
        Step::Delete(row) => words.delete(tx, *row).unwrap(),
        Step::Append(row, text) => {
            let appended = tx.update(table, row.to_be_bytes(), "words", |before| {
                let before = before.unwrap_or_default();
                Ok(Some(Bytes::from([&before[..], b" ", text.as_bytes()].concat())))
            });
            appended.unwrap();
        }
        Step::Savepoint => savepoints.push(tx.savepoint()),
        Step::RollBack => {
            if let Some(savepoint) = savepoints.last() {
                tx.roll_back_to(*savepoint).unwrap();
            }
        }
        _ => {
            let Some(index) = index else { return };
            match index.range(tx, ..).next().transpose() {
                Ok(_) => check(tx, table, index),
                Err(Error::IndexIncomplete { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Runs steps of three transactions at a time.
fn history(store: Arc<dyn Store>, handler: ConflictHandler, shards: u16, steps: &[(usize, Step)]) {
    let transactions = over(store, options().lock_timeout(Duration::from_millis(20)));
    let table = transactions.table("t", handler).unwrap();
    let words = words(&table);
    let declare = || by_word(&words).shards(shards).open(&transactions).unwrap();
    let mut open: [Option<(Transaction, Vec<Savepoint>)>; 3] = [None, None, None];
    let mut index: Option<ByWord> = None;
    let mut is_built = false;
    // A transaction that began before the build ended.
    let mut early = None;
    for (slot, step) in steps {
        let slot = &mut open[*slot];
        match step {
            Step::Commit => {
                if let Some((tx, _)) = slot.take()
                    && let Err(error) = tx.commit()
                {
                    assert!(error.is_retriable(), "{error}");
                }
            }
            Step::Abort => *slot = None,
            Step::Declare => drop(index.get_or_insert_with(declare)),
            Step::Build => {
                if let Some(index) = &index {
                    if early.is_none() && !is_built {
                        early = Some(transactions.start_read_only().unwrap());
                    }
                    match index.build(&transactions) {
                        Ok(_) => is_built = true,
                        Err(error) => assert!(matches!(error, Error::IndexBusy { .. }), "{error}"),
                    }
                    if !is_built {
                        early = None;
                    }
                }
            }
            Step::Sweep => drop(transactions.sweep().unwrap()),
            _ => {
                let open = slot.get_or_insert_with(|| (transactions.start().unwrap(), Vec::new()));
                step_of_transaction(open, step, &table, &words, index.as_ref());
            }
        }
    }
    if let (Some(early), Some(index), true) = (&early, &index, is_built) {
        let refused = index.range(early, ..).next().unwrap();
        assert!(matches!(refused, Err(Error::IndexIncomplete { .. })), "{refused:?}");
    }
    drop((open, early));
    let index = index.unwrap_or_else(declare);
    index.build(&transactions).unwrap();
    transactions.sweep().unwrap();
    check(&transactions.start_read_only().unwrap(), &table, &index);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn an_index_equals_its_recomputation_at_every_snapshot(
        steps in prop::collection::vec(step(), 1..80),
        handler in prop::sample::select(vec![
            ConflictHandler::WriteWriteByCell, ConflictHandler::WriteWriteByRow, ConflictHandler::SerializableByCell,
        ]),
        shards in prop::sample::select(vec![1, 3]),
        built_first: bool,
    ) {
        let mut steps = steps;
        if built_first {
            steps.splice(0..0, [(0, Step::Declare), (0, Step::Build)]);
        }
        history(Arc::new(MemoryStore::new()), handler, shards, &steps);
        history(Arc::new(EmbeddedStore::open(database(), "tx").unwrap()), handler, shards, &steps);
    }
}

#[test]
fn a_cluster_store_maintains_indexes() {
    super::conformance::on_served_cluster("indexes", |store| {
        let transactions = over(Arc::new(store), options());
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let words = words(&table);
        transactions.run(|tx| (0..40).try_for_each(|row| words.put(tx, row, "old first"))).unwrap();
        let index = by_word(&words).shards(3).open(&transactions).unwrap();
        let built = index.build(&transactions).unwrap();
        assert_eq!((built.cells, built.entries), (40, 80));
        transactions.run(|tx| (0..10).try_for_each(|row| words.put(tx, row, "new first"))).unwrap();
        transactions.run(|tx| words.delete(tx, 39)).unwrap();
        check(&transactions.start_read_only().unwrap(), &table, &index);
        transactions.drop_index("t", "by word").unwrap();
    });
}

#[test]
fn numbers_and_columns_that_are_data_are_indexed() {
    let transactions = in_memory();
    let table = transactions.table("scores", ConflictHandler::WriteWriteByCell).unwrap();
    let scores = table.columns::<String, u32, i64>();
    let by_score = scores.index("by score", |_, _, score| Some(*score)).open(&transactions).unwrap();
    by_score.build(&transactions).unwrap();
    transactions
        .run(|tx| {
            scores.add(tx, "ada", 1, 5)?;
            scores.add(tx, "ada", 1, 5)?;
            scores.max(tx, "ada", 2, -3)?;
            scores.min(tx, "b\0b", 1, 7)?;
            scores.put(tx, "b\0b", 2, 7)
        })
        .unwrap();
    transactions.run(|tx| scores.add(tx, "ada", 2, 10)).unwrap();
    let tx = transactions.start_read_only().unwrap();
    let best: Vec<(i64, (String, u32))> = by_score.range(&tx, 7..).rev().collect::<Result<_>>().unwrap();
    let owner = |name: &str, column| (name.to_owned(), column);
    assert_eq!(
        best,
        [(10, owner("ada", 1)), (7, owner("b\0b", 2)), (7, owner("b\0b", 1)), (7, owner("ada", 2))]
    );
    assert_eq!(by_score.range(&tx, ..7).count(), 0);
    assert_eq!(by_score.get(&tx, 10).collect::<Result<Vec<_>>>().unwrap(), [owner("ada", 1)]);
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct User {
    mail: Option<String>,
}

fn user(mail: &str) -> User {
    User { mail: Some(mail.to_owned()) }
}

#[test]
fn a_unique_key_belongs_to_one_cell() {
    for handler in [ConflictHandler::WriteWriteByRow, ConflictHandler::SerializableByRow] {
        let transactions = in_memory();
        let users = transactions.table("users", handler).unwrap();
        let user_of = users.column::<u32, Json<User>>("user");
        let by_mail = user_of.index("by mail", |_, Json(user)| user.mail.clone()).unique();
        let by_mail = by_mail.open(&transactions).unwrap();
        by_mail.build(&transactions).unwrap();
        transactions.run(|tx| user_of.put(tx, 1, &user("a"))).unwrap();
        let taken = transactions.run(|tx| user_of.put(tx, 2, &user("a"))).unwrap_err();
        assert!(matches!(&taken, Error::UniqueViolation { index, .. } if index == "by mail"), "{taken}");
        assert!(!taken.is_retriable());
        // The failed write buffered nothing.
        transactions
            .run(|tx| {
                assert!(user_of.put(tx, 2, &user("a")).is_err());
                assert_eq!(user_of.get(tx, 2)?, None);
                user_of.put(tx, 1, &user("b"))?;
                user_of.put(tx, 2, &user("a"))
            })
            .unwrap();
        // Two concurrent owners of a new key: one fails with a conflict.
        let (mut first, mut second) = (transactions.start().unwrap(), transactions.start().unwrap());
        user_of.put(&mut first, 3, &user("new")).unwrap();
        user_of.put(&mut second, 4, &user("new")).unwrap();
        first.commit().unwrap();
        assert!(second.commit().unwrap_err().is_retriable());
        let read =
            |key: &str| -> Vec<u32> { transactions.read(|tx| by_mail.get(tx, key).collect()).unwrap() };
        assert_eq!((read("a"), read("b"), read("new")), (vec![2], vec![1], vec![3]));
        transactions.run(|tx| user_of.delete(tx, 2)).unwrap();
        transactions.run(|tx| user_of.put(tx, 1, &User { mail: None })).unwrap();
        transactions.run(|tx| user_of.put(tx, 9, &user("a"))).unwrap();
        assert_eq!((read("a"), read("b")), (vec![9], vec![]));
    }
}

#[test]
fn mistakes_with_indexes_are_named() {
    let transactions = in_memory();
    let ignored = transactions.table("ignored", ConflictHandler::Ignore).unwrap();
    let refused = by_word(&words(&ignored)).open(&transactions).unwrap_err();
    assert!(matches!(refused, Error::NoConflictChecks { .. }), "{refused}");

    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let words = words(&table);
    let index = by_word(&words).open(&transactions).unwrap();
    let unbuilt = transactions.read(|tx| index.get(tx, ("a".to_owned(), true)).collect::<Result<Vec<_>>>());
    assert!(matches!(unbuilt, Err(Error::IndexIncomplete { .. })), "{unbuilt:?}");
    for other in [by_word(&words).version(2), by_word(&words).unique(), by_word(&words).shards(2)] {
        let refused = other.open(&transactions).unwrap_err();
        assert!(matches!(&refused, Error::OtherIndex { .. }), "{refused}");
        assert_eq!(refused.outcome(), cassette_transactions::Outcome::NotCommitted);
    }
    index.build(&transactions).unwrap();
    // A value that the index cannot read.
    let odd = transactions.run(|tx| tx.put(&table, 1u32.to_be_bytes(), "words", [0xff]));
    assert!(matches!(odd, Err(Error::OtherType { .. })), "{odd:?}");
    // It does not cover other columns.
    transactions.run(|tx| tx.put(&table, 1u32.to_be_bytes(), "other", [0xff])).unwrap();
    // An entry has the name of the key and of the row.
    let long = transactions.run(|tx| words.put(tx, 1, &"w".repeat(70_000)));
    assert!(matches!(long, Err(Error::Name { .. })), "{long:?}");

    let reader = transactions.start_read_only().unwrap();
    let dropping = transactions.drop_index("t", "by word").unwrap_err();
    assert!(matches!(dropping, Error::IndexBusy { .. }), "{dropping}");
    assert_eq!(index.range(&reader, ..).count(), 0, "an open transaction still has it");
    drop(reader);
    transactions.drop_index("t", "by word").unwrap();
    let gone = transactions.read(|tx| index.range(tx, ..).collect::<Result<Vec<_>>>());
    assert!(matches!(gone, Err(Error::NoIndex { .. })), "{gone:?}");
    let gone = transactions.drop_index("t", "by word").unwrap_err();
    assert!(matches!(gone, Error::NoIndex { .. }), "{gone}");
    transactions.run(|tx| words.put(tx, 5, "later")).unwrap();
    let again = by_word(&words).version(2).open(&transactions).unwrap();
    again.build(&transactions).unwrap();
    check(&transactions.start_read_only().unwrap(), &table, &again);
}

#[test]
fn a_process_that_has_not_declared_an_index_cannot_bypass_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let client = || Transactions::open(store.clone(), timelock.clone(), options()).unwrap();
    let (one, other) = (client(), client());
    let open = |transactions: &Transactions| {
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        (words(&table), table)
    };
    let ((words, table), (others, _)) = (open(&one), open(&other));
    // The other client has written, so it knows that there is no index.
    other.run(|tx| others.put(tx, 1, "early")).unwrap();
    let mut late = other.start().unwrap();
    others.put(&mut late, 2, "late").unwrap();
    let index = by_word(&words).open(&one).unwrap();
    let building = std::thread::scope(|scope| {
        let building = scope.spawn(|| index.build(&one).unwrap());
        // The build waits for the transaction that may not maintain the index.
        std::thread::sleep(Duration::from_millis(30));
        assert!(!building.is_finished());
        late.commit().unwrap();
        building.join().unwrap()
    });
    assert_eq!((building.cells, building.entries), (2, 2));
    let refused = other.run(|tx| others.put(tx, 1, "bypassed")).unwrap_err();
    assert!(matches!(refused, Error::IndexNotDeclared { .. }), "{refused}");
    let refused = other.run(|tx| others.delete(tx, 1)).unwrap_err();
    assert!(matches!(refused, Error::IndexNotDeclared { .. }), "{refused}");
    by_word(&others).open(&other).unwrap();
    other.run(|tx| others.put(tx, 1, "declared")).unwrap();
    check(&one.start_read_only().unwrap(), &table, &index);
    // After a deletion, no client maintains it, and none reads it.
    one.drop_index("t", "by word").unwrap();
    other.run(|tx| others.put(tx, 1, "free")).unwrap();
    let gone = one.read(|tx| index.range(tx, ..).collect::<Result<Vec<_>>>());
    assert!(matches!(gone, Err(Error::NoIndex { .. })), "{gone:?}");
}

#[test]
fn a_read_of_an_index_of_a_serializable_table_is_validated() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::SerializableByCell).unwrap();
    let words = words(&table);
    let index = by_word(&words).open(&transactions).unwrap();
    index.build(&transactions).unwrap();
    let mut tx = transactions.start().unwrap();
    assert_eq!(index.get(&tx, ("free".to_owned(), true)).count(), 0);
    words.put(&mut tx, 4, "taken").unwrap();
    transactions.run(|tx| words.put(tx, 2, "free")).unwrap();
    let conflict = tx.commit().unwrap_err();
    assert!(matches!(conflict, Error::ReadWriteConflict { .. }), "{conflict}");
}

#[test]
fn a_restore_is_refused_where_an_index_is_declared() {
    let source = in_memory();
    let table = source.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let index = by_word(&words(&table)).open(&source).unwrap();
    index.build(&source).unwrap();
    source.run(|tx| words(&table).put(tx, 1, "saved")).unwrap();
    let mut backup = Vec::new();
    source.backup(&mut backup).unwrap();
    let target = in_memory();
    let table = target.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let index = by_word(&words(&table)).open(&target).unwrap();
    let refused = target.restore(&backup[..]).unwrap_err().to_string();
    assert!(refused.contains("by word"), "{refused}");
    target.drop_index("t", "by word").unwrap();
    target.restore(&backup[..]).unwrap();
    drop(index);
    let index = by_word(&words(&table)).open(&target).unwrap();
    assert_eq!(index.build(&target).unwrap().entries, 1);
    check(&target.start_read_only().unwrap(), &table, &index);
}
