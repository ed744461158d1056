//! Writes: single statements, conditional ones, batches, truncations.

use cassette_protocol::request::{Batch, BatchStatement, BatchType, StatementSource};
use cassette_protocol::{QueryParameters, Values};
use rand::RngExt;

use crate::model::WriteId;
use crate::schema::Stamps;
use crate::simulation::{Outcome, Simulation};
use crate::statements::{Change, Statements};
use crate::wire::{Cql, Reply};

impl Simulation {
    /// Draws a statement for a table.
    fn draw(&mut self, table: &str, expires: bool, conditional: bool) -> Option<(Change, Option<i64>)> {
        let number = self.next_number();
        let now = self.node.now_seconds();
        let found = self.model.tables.get(table)?;
        let expires = expires && self.profile.expires && found.shape.stamps == Stamps::Server;
        let mut statements = Statements {
            table: found,
            random: &mut self.random,
            expires_from: expires.then_some(now),
            number,
        };
        let change = if conditional { statements.conditional() } else { statements.change() };
        let stamp = statements.client_stamp().filter(|_| !found.shape.is_counter());
        Some((change, stamp))
    }

    pub(crate) fn write(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let Some((change, stamp)) = self.draw(&table, true, false) else { return Ok(()) };
        let write = self.begin(std::slice::from_ref(&change), stamp);
        let outcome = self.execute(&change.cql, stamp)?;
        self.end(write, &outcome);
        Ok(())
    }

    pub(crate) fn conditional_write(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        if shape.stamps == Stamps::Client || shape.is_counter() {
            return self.write();
        }
        let Some((change, _)) = self.draw(&table, false, true) else { return Ok(()) };
        if self.model.is_open(&table) && !self.look_at(&table, &change.key)? {
            return Ok(());
        }
        let now = self.node.now_seconds();
        let applies = change.applies(&shape, &self.model.rows(&table, &change.key, now));
        let write = self.begin(if applies { std::slice::from_ref(&change) } else { &[] }, None);
        let outcome = self.execute(&change.cql, None)?;
        if let Outcome::Done(reply) = &outcome {
            let Reply::Rows(rows) = reply else { return Err("a conditional write without a result".into()) };
            let applied = rows.iter().next().and_then(|mut row| row.next().flatten().map(<[u8]>::to_vec));
            if applied != Some(vec![u8::from(applies)]) {
                return Err(format!(
                    "{}: [applied] is {applied:?}, expected {applies}: the partition has {:?}",
                    change.cql.text,
                    self.model.rows(&table, &change.key, now)
                ));
            }
        }
        self.end(write, &outcome);
        Ok(())
    }

    pub(crate) fn batch(&mut self) -> Result<(), String> {
        let Some(first) = self.some_table() else { return Ok(()) };
        let of_counters = self.model.tables[&first].shape.is_counter();
        let mut changes = Vec::new();
        let count = self.random.random_range(1..6);
        let stamps = self.model.tables[&first].shape.stamps;
        for _ in 0..count {
            let Some(table) = self.some_table() else { continue };
            let shape = &self.model.tables[&table].shape;
            let table = if shape.is_counter() == of_counters && shape.stamps == stamps {
                table
            } else {
                first.clone()
            };
            changes.extend(self.draw(&table, false, false).map(|(change, _)| change));
        }
        if of_counters {
            // The partitions of a batch of counters are counted one by one.
            changes.truncate(1);
        }
        let stamp = (!of_counters && stamps == Stamps::Client).then(|| self.random.random_range(1..40) * 10);
        let partitions = changes.iter().map(|change| (&change.table, &change.key));
        let one_partition = partitions.collect::<std::collections::BTreeSet<_>>().len() <= 1;
        let batch_type = match (of_counters, one_partition) {
            (true, _) => BatchType::Counter,
            // Atomic within each partition only.
            (false, true) if self.one_in(2) => BatchType::Unlogged,
            _ => BatchType::Logged,
        };
        let statements = changes.iter().map(|change| BatchStatement {
            source: StatementSource::Query(change.cql.text.as_str().into()),
            values: Values::new(change.cql.values.iter().map(|value| value.as_deref().into())),
        });
        let parameters = QueryParameters { timestamp: stamp, ..QueryParameters::default() };
        let batch = Batch { batch_type, statements: statements.collect(), parameters };
        let texts: Vec<String> =
            changes.iter().map(|change| format!("{} {:?}", change.cql.text, change.cql.values)).collect();
        let write = self.begin(&changes, stamp);
        let text = format!("{batch_type:?} batch at {stamp:?}: {}", texts.join("; "));
        let outcome = self.execute_batch(batch, text)?;
        self.end(write, &outcome);
        Ok(())
    }

    pub(crate) fn truncate(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        self.truncate_table(&table).map(drop)
    }

    /// Truncates a table. Returns whether that was acknowledged.
    pub(crate) fn truncate_table(&mut self, table: &str) -> Result<bool, String> {
        let write = self.model.begin(self.life);
        self.model.truncate(write, table);
        let outcome = self.execute(&Cql::plain(format!("TRUNCATE {table}")), None)?;
        self.end(write, &outcome);
        Ok(matches!(outcome, Outcome::Done(_)))
    }

    /// Adds a write to the model before it is sent.
    fn begin(&mut self, changes: &[Change], stamp: Option<i64>) -> WriteId {
        let write = self.model.begin(self.life);
        // Later writes win, regardless of the clock.
        let stamp = stamp.unwrap_or(1_000_000 + 10 * write as i64);
        for change in changes {
            for (offset, effect) in &change.effects {
                self.model.add(write, &change.table, &change.key, stamp + offset, effect.clone());
            }
        }
        write
    }

    pub(crate) fn end(&mut self, write: WriteId, outcome: &Outcome) {
        if matches!(outcome, Outcome::Done(_)) {
            self.model.acknowledge(write, self.node.syncs_every_write());
        }
    }
}
