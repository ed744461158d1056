//! Rows loaded into a table: converted and sent by several threads, each with requests in flight.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cassette_cql::quote_identifier;
use cassette_cql::values::text;
use cassette_protocol::request::{Batch, BatchStatement, BatchType, Prepare, StatementSource};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{Consistency, QueryParameters, Request, Response, ResultMessage, Value, Values};
use cassette_rows::DataType;

use crate::error::{Result, command, server_text};
use crate::link::Link;
use crate::schema::{Column, ColumnKind};
use crate::session::{Session, unexpected};

/// Batches of a thread that are in flight together.
const IN_FLIGHT: usize = 32;
/// Bytes of a batch of more than one row: below the size at which servers warn.
const BATCH_BYTES_MAX: usize = 4 << 10;
/// Maximum time for a response: as in cqlsh.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before the first repeat of a failed batch; it doubles.
const PAUSE: Duration = Duration::from_millis(50);

/// The values of a row in the order of the columns; `None` is null.
pub type RowValues = Vec<Option<Vec<u8>>>;

/// A table with the columns to load.
#[derive(Clone, Debug)]
pub struct Target {
    /// The statement that writes a row.
    pub statement: String,
    /// The columns in the order of the rows.
    pub columns: Vec<String>,
    /// The types of the columns, once the statement is prepared.
    pub types: Vec<DataType>,
    /// Whether the table has counters, whose columns are increments.
    pub is_counter: bool,
}

impl Target {
    /// Plans the writes of `columns` of a table.
    ///
    /// # Errors
    /// If a column does not exist, or one of the primary key is missing.
    pub fn new(
        keyspace: &str,
        table: &str,
        known: &[Column],
        columns: &[String],
        ttl: Option<i64>,
    ) -> Result<Self> {
        for column in columns {
            if !known.iter().any(|known| known.name == *column) {
                return Err(command(format!("Invalid column name {column}")));
            }
        }
        let is_key = |column: &&Column| column.kind < ColumnKind::Static;
        if let Some(missing) = known.iter().filter(is_key).find(|key| !columns.contains(&key.name)) {
            return Err(command(format!("Primary key column '{}' missing or skipped", missing.name)));
        }
        let table = format!("{}.{}", quote_identifier(keyspace), quote_identifier(table));
        let using = ttl.map_or_else(String::new, |ttl| format!(" USING TTL {ttl}"));
        let is_counter = known.iter().any(|column| column.data_type == "counter");
        let names: Vec<String> = columns.iter().map(|name| quote_identifier(name).into_owned()).collect();
        if !is_counter {
            let markers = vec!["?"; columns.len()].join(", ");
            let statement = format!("INSERT INTO {table} ({}) VALUES ({markers}){using}", names.join(", "));
            return Ok(Self { statement, columns: columns.to_vec(), types: Vec::new(), is_counter });
        }
        // The markers of an update are in another order: increments first.
        let kind = |name: &String| known.iter().find(|column| column.name == *name).map(|column| column.kind);
        let (keys, counters): (Vec<&String>, Vec<&String>) =
            columns.iter().partition(|name| kind(name).is_some_and(|kind| kind < ColumnKind::Static));
        let set: Vec<String> =
            counters.iter().map(|name| format!("{0} = {0} + :{0}", quote_identifier(name))).collect();
        let place: Vec<String> =
            keys.iter().map(|name| format!("{0} = :{0}", quote_identifier(name))).collect();
        let statement = format!("UPDATE {table}{using} SET {} WHERE {}", set.join(", "), place.join(" AND "));
        let columns = counters.into_iter().chain(keys).cloned().collect();
        Ok(Self { statement, columns, types: Vec::new(), is_counter })
    }

    /// Prepares the statement, which determines the types.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn prepare(&mut self, session: &mut Session) -> Result<()> {
        let prepared = session.prepare(&self.statement)?;
        self.types = prepared.bind_markers.columns().iter().map(|column| column.data_type.clone()).collect();
        Ok(())
    }
}

/// How rows are loaded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Threads that convert and send.
    pub threads: usize,
    /// The most rows of a batch.
    pub batch_rows_max: usize,
    /// Attempts of a batch.
    pub attempts_max: u32,
    /// Rows a second; `None` for no limit.
    pub rate_max: Option<u64>,
    /// Whether values are bound to a prepared statement, or written into its text.
    pub prepared: bool,
    /// Whether null leaves a column as it is, which costs no tombstone.
    pub unset_nulls: bool,
    /// The consistency level.
    pub consistency: Consistency,
    /// Rejected rows that end the load: those that could not be converted.
    pub conversion_errors_max: Option<u64>,
    /// Rejected rows that end the load: those that the server refused.
    pub insert_errors_max: Option<u64>,
}

/// A row that was not loaded.
pub struct Rejected<R> {
    /// The row.
    pub row: R,
    /// The reason.
    pub reason: String,
    /// Whether it could not be converted; else the server refused it.
    pub is_conversion: bool,
}

/// Counts of a load while it runs.
#[derive(Default)]
pub struct Progress {
    /// Rows that were loaded or rejected.
    pub done: AtomicU64,
    conversion_errors: AtomicU64,
    insert_errors: AtomicU64,
    is_over: AtomicBool,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Rows that were loaded.
    pub rows: u64,
    /// Rows that were rejected.
    pub rejected: u64,
    /// Whether there were too many errors.
    pub gave_up: bool,
}

/// Loads the rows that `next` returns in chunks.
///
/// # Errors
/// If rows cannot be read, or a connection cannot be opened or is lost. Rows before may have been
/// loaded.
pub fn load<R: Send>(
    session: &Session,
    target: &Target,
    settings: &Settings,
    mut next: impl FnMut() -> Result<Option<Vec<R>>>,
    convert: impl Fn(&R) -> std::result::Result<RowValues, String> + Sync,
    reject: impl FnMut(Rejected<R>) + Send,
    mut report: impl FnMut(&Progress),
) -> Result<Loaded> {
    let progress = Progress::default();
    let reject = Mutex::new(reject);
    let links: Vec<Box<dyn Link>> = (0..settings.threads.max(1))
        .map(|_| session.open_link(Some(REQUEST_TIMEOUT)))
        .collect::<Result<_>>()?;
    let began = Instant::now();
    // Two chunks wait for each thread.
    let (sender, receiver) = sync_channel::<Vec<R>>(settings.threads * 2);
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        let workers: Vec<_> = links
            .into_iter()
            .map(|link| {
                let mut worker = Worker { link, id: None, target, settings, progress: &progress };
                let (receiver, convert, reject) = (&receiver, &convert, &reject);
                scope.spawn(move || worker.run(receiver, convert, reject))
            })
            .collect();
        let fed = feed(&mut next, sender, settings, &progress, began, &mut report);
        let mut failed = None;
        for worker in workers {
            while !worker.is_finished() {
                report(&progress);
                std::thread::sleep(Duration::from_millis(5));
            }
            match worker.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(command("a thread that loads rows has ended")),
            }
        }
        report(&progress);
        fed?;
        failed.map_or(Ok(()), Err)
    })?;
    let rejected =
        progress.conversion_errors.load(Ordering::Relaxed) + progress.insert_errors.load(Ordering::Relaxed);
    Ok(Loaded {
        rows: progress.done.load(Ordering::Relaxed).saturating_sub(rejected),
        rejected,
        gave_up: progress.is_over.load(Ordering::Relaxed),
    })
}

/// Passes chunks on to the workers, at most at the rate of `settings`.
fn feed<R>(
    next: &mut impl FnMut() -> Result<Option<Vec<R>>>,
    sender: SyncSender<Vec<R>>,
    settings: &Settings,
    progress: &Progress,
    began: Instant,
    report: &mut impl FnMut(&Progress),
) -> Result<()> {
    let mut sent = 0u64;
    while !progress.is_over.load(Ordering::Relaxed) {
        let Some(mut chunk) = next()? else { break };
        sent += chunk.len() as u64;
        loop {
            report(progress);
            match sender.try_send(chunk) {
                Ok(()) => break,
                Err(std::sync::mpsc::TrySendError::Full(back)) => chunk = back,
                // All workers have failed, which they report.
                Err(std::sync::mpsc::TrySendError::Disconnected(_)) => return Ok(()),
            }
            if progress.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(rate) = settings.rate_max {
            let due = Duration::from_secs_f64(sent as f64 / rate.max(1) as f64);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
    }
    Ok(())
}

/// A thread that converts and sends rows.
struct Worker<'a> {
    link: Box<dyn Link>,
    id: Option<Bytes>,
    target: &'a Target,
    settings: &'a Settings,
    progress: &'a Progress,
}

/// Rows of one batch, and how often it was attempted.
struct Pending<R> {
    rows: Vec<(R, RowValues)>,
    attempts: u32,
}

impl Worker<'_> {
    fn run<R>(
        &mut self,
        receiver: &Mutex<Receiver<Vec<R>>>,
        convert: &(impl Fn(&R) -> std::result::Result<RowValues, String> + Sync),
        reject: &Mutex<impl FnMut(Rejected<R>)>,
    ) -> Result<()> {
        let done = self.run_chunks(receiver, convert, reject);
        if done.is_err() {
            self.progress.is_over.store(true, Ordering::Relaxed);
        }
        done
    }

    fn run_chunks<R>(
        &mut self,
        receiver: &Mutex<Receiver<Vec<R>>>,
        convert: &(impl Fn(&R) -> std::result::Result<RowValues, String> + Sync),
        reject: &Mutex<impl FnMut(Rejected<R>)>,
    ) -> Result<()> {
        loop {
            let chunk = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(chunk) = chunk else { return Ok(()) };
            let mut pending = VecDeque::new();
            let mut open: Pending<R> = Pending { rows: Vec::new(), attempts: 0 };
            let mut bytes = 0;
            for row in chunk {
                match convert(&row) {
                    Err(reason) => self.reject(reject, Rejected { row, reason, is_conversion: true }),
                    Ok(values) => {
                        let length: usize = values.iter().flatten().map(|value| value.len() + 4).sum();
                        let is_full = open.rows.len() >= self.settings.batch_rows_max.max(1)
                            || !open.rows.is_empty() && bytes + length > BATCH_BYTES_MAX;
                        if is_full {
                            pending.push_back(std::mem::replace(
                                &mut open,
                                Pending { rows: Vec::new(), attempts: 0 },
                            ));
                            bytes = 0;
                        }
                        bytes += length;
                        open.rows.push((row, values));
                    }
                }
            }
            if !open.rows.is_empty() {
                pending.push_back(open);
            }
            while !pending.is_empty() {
                if self.progress.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.send(&mut pending, reject)?;
            }
        }
    }

    /// Sends batches together. Failed ones are repeated, divided, or rejected.
    fn send<R>(
        &mut self,
        pending: &mut VecDeque<Pending<R>>,
        reject: &Mutex<impl FnMut(Rejected<R>)>,
    ) -> Result<()> {
        let batches: Vec<Pending<R>> = pending.drain(..pending.len().min(IN_FLIGHT)).collect();
        let requests: Vec<Request> =
            batches.iter().map(|batch| self.request(batch)).collect::<Result<_>>()?;
        let answers = self.link.call_all(&requests)?;
        let mut pause = None;
        for (mut batch, answer) in batches.into_iter().zip(answers) {
            let error = match answer {
                Response::Result(_) => {
                    self.progress.done.fetch_add(batch.rows.len() as u64, Ordering::Relaxed);
                    continue;
                }
                Response::Error(error) => error,
                other => return Err(unexpected(other)),
            };
            batch.attempts += 1;
            if matches!(error.detail, ErrorDetail::Unprepared { .. }) {
                self.id = None;
                batch.attempts -= 1;
                pending.push_back(batch);
            } else if is_temporary(&error, self.target.is_counter)
                && batch.attempts < self.settings.attempts_max
            {
                pause = Some(PAUSE * 2u32.pow(batch.attempts.min(8)));
                pending.push_back(batch);
            } else if batch.rows.len() > 1 && !is_lost_counter(&error, self.target.is_counter) {
                // One of the rows may be the reason.
                pending.extend(batch.rows.into_iter().map(|row| Pending { rows: vec![row], attempts: 0 }));
            } else {
                let reason = server_text(&error);
                for (row, _) in batch.rows {
                    self.reject(reject, Rejected { row, reason: reason.clone(), is_conversion: false });
                }
            }
        }
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        Ok(())
    }

    fn request<R>(&mut self, batch: &Pending<R>) -> Result<Request> {
        let mut statements = Vec::with_capacity(batch.rows.len());
        for (_, values) in &batch.rows {
            let statement = if self.settings.prepared {
                let source = StatementSource::Prepared(self.prepare()?);
                let null = if self.settings.unset_nulls { Value::Unset } else { Value::Null };
                let values =
                    Values::new(values.iter().map(|value| value.as_deref().map_or(null, Value::Set)));
                BatchStatement { source, values }
            } else {
                let text = with_literals(&self.target.statement, &self.target.types, values);
                BatchStatement { source: StatementSource::Query(text.into()), values: Values::default() }
            };
            statements.push(statement);
        }
        let batch_type = if self.target.is_counter { BatchType::Counter } else { BatchType::Unlogged };
        let parameters =
            QueryParameters { consistency: self.settings.consistency, ..QueryParameters::default() };
        Ok(Request::Batch(Batch { batch_type, statements, parameters }))
    }

    fn prepare(&mut self) -> Result<Bytes> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let request =
            Request::Prepare(Prepare { query: self.target.statement.as_str().into(), keyspace: None });
        match self.link.call(&request, false)? {
            (Response::Result(ResultMessage::Prepared(prepared)), _) => {
                Ok(self.id.insert(prepared.id).clone())
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    fn reject<R>(&self, reject: &Mutex<impl FnMut(Rejected<R>)>, rejected: Rejected<R>) {
        let (count, limit) = if rejected.is_conversion {
            (&self.progress.conversion_errors, self.settings.conversion_errors_max)
        } else {
            (&self.progress.insert_errors, self.settings.insert_errors_max)
        };
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        self.progress.done.fetch_add(1, Ordering::Relaxed);
        (reject.lock().unwrap_or_else(PoisonError::into_inner))(rejected);
        if limit.is_some_and(|limit| count > limit) {
            self.progress.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns whether a write may succeed later. One of a counter must not be repeated if it may have
/// been applied.
fn is_temporary(error: &Error, is_counter: bool) -> bool {
    match error.detail {
        ErrorDetail::Unavailable { .. } | ErrorDetail::Overloaded | ErrorDetail::IsBootstrapping => true,
        ErrorDetail::WriteTimeout { .. } | ErrorDetail::WriteFailure { .. } => !is_counter,
        _ => false,
    }
}

/// Returns whether increments may have been applied, so that they cannot be sent again.
fn is_lost_counter(error: &Error, is_counter: bool) -> bool {
    is_counter && matches!(error.detail, ErrorDetail::WriteTimeout { .. } | ErrorDetail::WriteFailure { .. })
}

/// Replaces the markers of a statement by literals.
fn with_literals(statement: &str, types: &[DataType], values: &RowValues) -> String {
    use cassette_cql::lexer::{Lexer, Symbol, TokenKind};
    let mut literals =
        types.iter().zip(values).map(|(data_type, value)| text::to_literal(data_type, value.as_deref()));
    let (mut out, mut at) = (String::new(), 0);
    let mut lexer = Lexer::new(statement);
    loop {
        let token = lexer.next_token();
        let end = match token.kind {
            TokenKind::Eof | TokenKind::Error => break,
            TokenKind::Symbol(Symbol::QuestionMark) => token.end as usize,
            // A named marker is a colon and a name.
            TokenKind::Symbol(Symbol::Colon) => lexer.next_token().end as usize,
            _ => continue,
        };
        out.push_str(&statement[at..token.start as usize]);
        out.push_str(&literals.next().unwrap_or_else(|| "null".to_owned()));
        at = end;
    }
    out + &statement[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("k", ColumnKind::PartitionKey, "int"),
            Column::new("C", ColumnKind::Clustering, "int"),
            Column::new("n", ColumnKind::Regular, "counter"),
        ]
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn counters_are_incremented_and_other_columns_inserted() {
        let counter = Target::new("ks", "t", &columns(), &names(&["k", "n", "C"]), None).unwrap();
        assert_eq!(counter.statement, "UPDATE ks.t SET n = n + :n WHERE k = :k AND \"C\" = :\"C\"");
        assert_eq!(counter.columns, ["n", "k", "C"]);
        let plain = Target::new("ks", "T", &columns()[..2], &names(&["C", "k"]), Some(9)).unwrap();
        assert_eq!(plain.statement, "INSERT INTO ks.\"T\" (\"C\", k) VALUES (?, ?) USING TTL 9");
        let values = vec![Some(1i32.to_be_bytes().to_vec()), None];
        assert_eq!(
            with_literals(&plain.statement, &[DataType::Int, DataType::Int], &values),
            "INSERT INTO ks.\"T\" (\"C\", k) VALUES (1, null) USING TTL 9"
        );
    }

    #[test]
    fn columns_must_exist_and_have_the_primary_key() {
        let error =
            |list: &[&str]| Target::new("ks", "t", &columns(), &names(list), None).unwrap_err().to_string();
        assert_eq!(error(&["k", "C", "x"]), "Invalid column name x");
        assert_eq!(error(&["k"]), "Primary key column 'C' missing or skipped");
    }
}
