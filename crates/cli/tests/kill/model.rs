//! The expected rows of a writer.

use std::collections::{BTreeMap, HashMap};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::statement::Statement;

/// The tables, all of one shape: writer, partition, id, number, filler.
pub const TABLES: [&str; 2] = ["a", "b"];

/// A row of one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Index in [`TABLES`].
    pub table: usize,
    pub partition: i32,
    pub id: i32,
}

/// Rows with the number of the write that each is of; the rest of a row is [`filler`] of it.
pub type Rows = BTreeMap<Key, i64>;

/// What one request changes: rows with their numbers, `None` for those that it deletes.
pub type Change = Vec<(Key, Option<i64>)>;

/// A writer's rows: the acknowledged ones, and the one request with an unknown outcome.
#[derive(Debug, Default)]
pub struct Model {
    rows: Rows,
    pending: Option<Change>,
}

impl Model {
    /// The rows, if no request is pending.
    pub fn rows(&self) -> &Rows {
        assert!(self.pending.is_none());
        &self.rows
    }

    /// Records a request that is about to be sent.
    pub fn send(&mut self, change: Change) {
        assert!(self.pending.replace(change).is_none());
    }

    /// Records that the request was acknowledged.
    pub fn acknowledge(&mut self) {
        let change = self.pending.take().unwrap();
        apply(&mut self.rows, &change);
    }

    /// Checks that the rows are those acknowledged, and that the pending request was applied
    /// completely or not at all.
    pub fn settle(&mut self, found: Rows) -> Result<(), String> {
        let with_pending = self.pending.take().map(|change| {
            let mut rows = self.rows.clone();
            apply(&mut rows, &change);
            (rows, change)
        });
        if found == self.rows {
            return Ok(());
        }
        match with_pending {
            Some((rows, _)) if found == rows => {
                self.rows = rows;
                Ok(())
            }
            Some((_, change)) => {
                Err(format!("{}\nunacknowledged: {change:?}", differences(&self.rows, &found)))
            }
            None => Err(differences(&self.rows, &found)),
        }
    }
}

fn apply(rows: &mut Rows, change: &Change) {
    for (key, number) in change {
        match number {
            Some(number) => rows.insert(*key, *number),
            None => rows.remove(key),
        };
    }
}

fn differences(acknowledged: &Rows, found: &Rows) -> String {
    let mut lines = Vec::new();
    for (key, number) in acknowledged {
        match found.get(key) {
            Some(found) if found == number => {}
            Some(found) => lines.push(format!("{key:?}: acknowledged {number}, found {found}")),
            None => lines.push(format!("{key:?}: acknowledged {number}, found none")),
        }
    }
    for (key, number) in found.iter().filter(|(key, _)| !acknowledged.contains_key(key)) {
        lines.push(format!("{key:?}: acknowledged as deleted or never written, found {number}"));
    }
    lines.join("\n")
}

/// Returns incompressible bytes that are unique to this number's row.
pub fn filler(number: i64) -> Vec<u8> {
    let mut rng = SmallRng::seed_from_u64(number as u64);
    let mut bytes = vec![0; rng.random_range(0..1500)];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// All rows of all writers, by scans in small pages.
pub async fn read_all(session: &Session) -> HashMap<i32, Rows> {
    let mut found: HashMap<i32, Rows> = HashMap::new();
    for (table, name) in TABLES.iter().enumerate() {
        let select = Statement::new(format!("SELECT writer, partition, id, number, filler FROM {name}"));
        let select = select.with_page_size(500);
        let mut state = PagingState::start();
        loop {
            let (page, next) = session.query_single_page(select.clone(), (), state).await.unwrap();
            let page = page.into_rows_result().unwrap();
            for row in page.rows::<(i32, i32, i32, Option<i64>, Option<Vec<u8>>)>().unwrap() {
                let (writer, partition, id, number, bytes) = row.unwrap();
                let key = Key { table, partition, id };
                let number = number.unwrap_or_else(|| panic!("half a row: writer {writer}, {key:?}"));
                assert!(
                    bytes == Some(filler(number)),
                    "half a row: writer {writer}, {key:?}, number {number}"
                );
                let twice = found.entry(writer).or_default().insert(key, number);
                assert!(twice.is_none(), "twice in a scan: writer {writer}, {key:?}");
            }
            match next.into_paging_control_flow() {
                std::ops::ControlFlow::Continue(next) => state = next,
                std::ops::ControlFlow::Break(()) => break,
            }
        }
    }
    found
}
