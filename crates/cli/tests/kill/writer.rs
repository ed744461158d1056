//! A client that writes one request after the other into its own rows, and records the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scylla::client::caching_session::CachingSession;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{CqlValue, Row};
use tokio::sync::Notify;

use super::claims::Claims;
use super::counts::Counts;
use super::model::{Change, Key, Model, Rows, TABLES, filler};
use super::support::cql::rows;

const PARTITIONS: i32 = 4;
const IDS: i32 = 40;

/// Shared state of the writers of a round.
pub struct Load {
    enough: u64,
    acknowledged: AtomicU64,
    is_enough: Notify,
    stopping: AtomicBool,
}

impl Load {
    /// Creates a load that is sufficient after this many acknowledged requests.
    pub fn new(enough: u64) -> Arc<Self> {
        let (acknowledged, is_enough) = (AtomicU64::new(0), Notify::new());
        Arc::new(Self { enough, acknowledged, is_enough, stopping: AtomicBool::new(false) })
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub async fn wait_until_enough(&self) {
        self.is_enough.notified().await;
    }

    /// Returns whether requests may fail.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// From now on requests may fail.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn count(&self) {
        if self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == self.enough {
            self.is_enough.notify_one();
        }
    }
}

/// See the module.
pub struct Writer {
    id: i32,
    rng: StdRng,
    /// The number of its last write.
    number: i64,
    model: Model,
    claims: Claims,
    counts: Counts,
}

impl Writer {
    pub fn new(id: i32, seed: u64) -> Self {
        let number = i64::from(id) << 32;
        Self {
            id,
            rng: StdRng::seed_from_u64(seed),
            number,
            model: Model::default(),
            claims: Claims::default(),
            counts: Counts::default(),
        }
    }

    pub fn id(&self) -> i32 {
        self.id
    }

    pub fn claims(&mut self) -> &mut Claims {
        &mut self.claims
    }

    pub fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Fails the test unless these rows are the expected ones.
    pub fn settle(&mut self, found: Rows) {
        if let Err(differences) = self.model.settle(found) {
            panic!("writer {}:\n{differences}", self.id);
        }
    }

    /// Reads some rows by their keys, present and absent ones, and partitions backwards.
    pub async fn check_some_rows_by_key(&mut self, session: &Session) {
        for _ in 0..10 {
            let key = self.random_key();
            let cql = format!(
                "SELECT number, filler FROM {} WHERE writer = ? AND partition = ? AND id = ?",
                TABLES[key.table]
            );
            let found: Vec<(i64, Vec<u8>)> = rows(session, &cql, (self.id, key.partition, key.id)).await;
            let expected = self.model.rows().get(&key).map(|number| (*number, filler(*number)));
            assert!(found == Vec::from_iter(expected), "writer {}: {key:?}", self.id);
        }
        let Key { table, partition, .. } = self.random_key();
        let cql =
            format!("SELECT id FROM {} WHERE writer = ? AND partition = ? ORDER BY id DESC", TABLES[table]);
        let found: Vec<(i32,)> = rows(session, &cql, (self.id, partition)).await;
        let of_partition = |key: &&Key| key.table == table && key.partition == partition;
        let expected: Vec<(i32,)> =
            self.model.rows().keys().filter(of_partition).map(|key| (key.id,)).rev().collect();
        assert_eq!(found, expected, "writer {}: partition {partition} of {}", self.id, TABLES[table]);
    }

    /// Writes until a request fails, which is permitted only after the stop has been announced.
    pub async fn write_until_stopped(&mut self, session: &CachingSession, load: &Load) {
        loop {
            match self.step(session).await {
                Ok(()) => load.count(),
                Err(_) if load.is_stopping() => return,
                Err(error) => panic!("writer {}: {error:?}", self.id),
            }
        }
    }

    async fn step(&mut self, session: &CachingSession) -> Result<(), ExecutionError> {
        let key = self.random_key();
        let table = TABLES[key.table];
        match self.rng.random_range(0..100) {
            0..40 => {
                let number = self.next_number();
                self.model.send(vec![(key, Some(number))]);
                let cql = format!(
                    "INSERT INTO {table} (writer, partition, id, number, filler) VALUES (?, ?, ?, ?, ?)"
                );
                let values = (self.id, key.partition, key.id, number, filler(number));
                session.execute_unpaged(cql, values).await?;
            }
            40..55 => self.update_if(session, key).await?,
            55..65 => {
                self.model.send(vec![(key, None)]);
                let cql = format!("DELETE FROM {table} WHERE writer = ? AND partition = ? AND id = ?");
                session.execute_unpaged(cql, (self.id, key.partition, key.id)).await?;
            }
            65..68 => {
                let end = key.id + self.rng.random_range(1..IDS / 2);
                self.model.send((key.id..end).map(|id| (Key { id, ..key }, None)).collect());
                let cql =
                    format!("DELETE FROM {table} WHERE writer = ? AND partition = ? AND id >= ? AND id < ?");
                session.execute_unpaged(cql, (self.id, key.partition, key.id, end)).await?;
            }
            68..69 => {
                self.model.send((0..IDS).map(|id| (Key { id, ..key }, None)).collect());
                let cql = format!("DELETE FROM {table} WHERE writer = ? AND partition = ?");
                session.execute_unpaged(cql, (self.id, key.partition)).await?;
            }
            69..90 => self.batch(session).await?,
            90..95 => {
                let by = self.rng.random_range(1..100);
                return self.counts.add(session, self.id, by).await;
            }
            _ => return self.claims.claim(session, self.id).await,
        }
        self.model.acknowledge();
        Ok(())
    }

    /// A conditional write with a known outcome, because there is no other writer of the row.
    async fn update_if(&mut self, session: &CachingSession, key: Key) -> Result<(), ExecutionError> {
        let number = self.next_number();
        let before = self.model.rows().get(&key).copied();
        self.model.send(vec![(key, Some(number))]);
        let table = TABLES[key.table];
        let outcome = match before {
            Some(before) => {
                let cql = format!(
                    "UPDATE {table} SET number = ?, filler = ? WHERE writer = ? AND partition = ? AND id = \
                     ? IF number = ?"
                );
                let values = (number, filler(number), self.id, key.partition, key.id, before);
                session.execute_unpaged(cql, values).await?
            }
            None => {
                let cql = format!(
                    "INSERT INTO {table} (writer, partition, id, number, filler) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
                );
                let values = (self.id, key.partition, key.id, number, filler(number));
                session.execute_unpaged(cql, values).await?
            }
        };
        let row = outcome.into_rows_result().unwrap().single_row::<Row>().unwrap();
        assert_eq!(
            row.columns[0],
            Some(CqlValue::Boolean(true)),
            "writer {}: {key:?} was {before:?}",
            self.id
        );
        Ok(())
    }

    /// A logged batch over several partitions of both tables; all its rows have one number.
    async fn batch(&mut self, session: &CachingSession) -> Result<(), ExecutionError> {
        let number = self.next_number();
        let mut change = Change::new();
        for _ in 0..self.rng.random_range(2..8) {
            let key = self.random_key();
            if change.iter().all(|(other, _)| *other != key) {
                change.push((key, self.rng.random_ratio(4, 5).then_some(number)));
            }
        }
        let mut batch = Batch::new(BatchType::Logged);
        let mut values: Vec<Vec<CqlValue>> = Vec::new();
        for (key, number) in &change {
            let table = TABLES[key.table];
            let mut row = vec![CqlValue::Int(self.id), CqlValue::Int(key.partition), CqlValue::Int(key.id)];
            let cql = match number {
                Some(number) => {
                    row.extend([CqlValue::BigInt(*number), CqlValue::Blob(filler(*number))]);
                    format!(
                        "INSERT INTO {table} (writer, partition, id, number, filler) VALUES (?, ?, ?, ?, ?)"
                    )
                }
                None => format!("DELETE FROM {table} WHERE writer = ? AND partition = ? AND id = ?"),
            };
            batch.append_statement(cql.as_str());
            values.push(row);
        }
        self.model.send(change);
        session.batch(&batch, values).await?;
        Ok(())
    }

    fn random_key(&mut self) -> Key {
        Key {
            table: self.rng.random_range(0..TABLES.len()),
            partition: self.rng.random_range(0..PARTITIONS),
            id: self.rng.random_range(0..IDS),
        }
    }

    fn next_number(&mut self) -> i64 {
        self.number += 1;
        self.number
    }
}
