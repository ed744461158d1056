//! COPY TO.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cassette_cql::quote_identifier;
use cassette_protocol::request::{Execute, Prepare};
use cassette_protocol::response::{Error, ErrorDetail, Prepared};
use cassette_protocol::{
    Consistency, QueryParameters, Request, Response, ResultMessage, Rows, Value, Values,
};
use cassette_rows::DataType;

use super::dialect::Dialect;
use super::meter::Meter;
use super::options::CopyOptions;
use super::ranges::{TokenRange, divide};
use super::{Copy, describe_interval};
use crate::error::{Result, ShellError, command};
use crate::link::Link;
use crate::schema::ColumnKind;
use crate::session::unexpected;
use crate::shell::Shell;
use crate::values::Formats;

/// Ranges for each request in flight: short ones keep all threads busy until the end.
const RANGES_PER_REQUEST: usize = 4;
/// The pause before the first repeat of a failed read; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes the rows of a table to a file or to standard output.
///
/// # Errors
/// If the file or the server fails.
pub fn run(shell: &mut Shell, copy: &Copy) -> Result<()> {
    let options = &copy.options;
    let mut meter = Meter::new(options.reportfrequency, options.ratefile.as_deref(), copy.files.is_some())?;
    let plan = plan(shell, copy)?;
    let mut writer = Writer::open(copy, &mut shell.out)?;
    if let Some((_, message)) = &copy.files.as_ref().map(|file| (file, starting(copy))) {
        writer.shell.say(message);
        writer.shell.flush();
    }
    let threads = options.numprocesses.min(plan.ranges.len()).max(1);
    let links: Vec<Box<dyn Link>> =
        (0..threads).map(|_| shell.session.open_link(Some(options.pagetimeout))).collect::<Result<_>>()?;
    let queue = Mutex::new(VecDeque::from(plan.ranges.clone()));
    let mut rows = 0;
    let consistency = shell.session.consistency;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<(Vec<u8>, u64)>(threads * 2);
        let workers: Vec<_> = links
            .into_iter()
            .map(|link| {
                let (sender, queue, plan) = (sender.clone(), &queue, &plan);
                let reader = Reader { link, prepared: None, plan, options, consistency };
                scope.spawn(move || {
                    let done = reader.run(queue, &sender);
                    if done.is_err() {
                        queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    }
                    done
                })
            })
            .collect();
        drop(sender);
        let written = loop {
            match receiver.recv_timeout(options.reportfrequency.max(Duration::from_millis(10))) {
                Ok((data, count)) => {
                    if let Err(error) = writer.write(&data, count) {
                        queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                        break Err(error);
                    }
                    rows += count;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
            meter.update(rows, false);
        };
        // The threads that wait to pass on rows end.
        drop(receiver);
        let ended = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(command("a thread that reads rows has ended")))
        });
        let ended: Vec<Result<()>> = ended.collect();
        written.and_then(|()| ended.into_iter().collect::<Result<Vec<()>>>().map(drop))
    })?;
    meter.update(rows, true);
    let files = writer.finish()?;
    if copy.files.is_some() {
        let interval = describe_interval(meter.seconds());
        shell.out.say(&format!("\n{rows} rows exported to {files} files in {interval}.\n"));
    }
    Ok(())
}

fn starting(copy: &Copy) -> String {
    let columns = copy.columns.join(", ");
    format!("\nStarting copy of {}.{} with columns [{columns}].\n", copy.keyspace, copy.table)
}

/// What is read.
struct Plan {
    statement: String,
    /// Whether the statement has two tokens to bind, one, or none.
    ranges: Vec<TokenRange>,
    formats: Formats,
}

/// Plans the statement and the ranges of tokens.
fn plan(shell: &mut Shell, copy: &Copy) -> Result<Plan> {
    let options = &copy.options;
    let names: Vec<String> = copy.columns.iter().map(|name| quote_identifier(name).into_owned()).collect();
    let table = format!("{}.{}", quote_identifier(&copy.keyspace), quote_identifier(&copy.table));
    let known = shell.schema()?.table(&copy.keyspace, &copy.table)?;
    let key: Vec<String> = known
        .iter()
        .filter(|column| column.kind == ColumnKind::PartitionKey)
        .map(|column| quote_identifier(&column.name).into_owned())
        .collect();
    let statement = format!("SELECT {} FROM {table}", names.join(", "));
    let local = shell.session.query("SELECT partitioner FROM system.local")?;
    let is_divided = local.text(0, "partitioner").ends_with("Murmur3Partitioner")
        && !["system_views", "system_virtual_schema"].contains(&copy.keyspace.as_str());
    if !is_divided {
        if options.begintoken.is_some() || options.endtoken.is_some() {
            return Err(command("BEGINTOKEN and ENDTOKEN need a table of Murmur3Partitioner"));
        }
        let ranges = vec![TokenRange { start: None, end: None }];
        return Ok(Plan { statement, ranges, formats: options.formats() });
    }
    let ranges = divide(
        options.begintoken,
        options.endtoken,
        options.numprocesses * options.maxrequests * RANGES_PER_REQUEST,
    );
    if ranges.is_empty() {
        return Err(command("Found no ranges to query: expected BEGINTOKEN below ENDTOKEN"));
    }
    let token = format!("token({})", key.join(", "));
    let statement = format!("{statement} WHERE {token} > ? AND {token} <= ?");
    Ok(Plan { statement, ranges, formats: options.formats() })
}

/// A range of which a part was read.
struct Open {
    range: TokenRange,
    paging_state: Option<Bytes>,
    attempts: u32,
}

/// A thread that reads ranges.
struct Reader<'a> {
    link: Box<dyn Link>,
    prepared: Option<Prepared>,
    plan: &'a Plan,
    options: &'a CopyOptions,
    consistency: Consistency,
}

impl Reader<'_> {
    fn run(mut self, queue: &Mutex<VecDeque<TokenRange>>, sender: &SyncSender<(Vec<u8>, u64)>) -> Result<()> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                while open.len() < self.options.maxrequests
                    && let Some(range) = queue.pop_front()
                {
                    open.push(Open { range, paging_state: None, attempts: 0 });
                }
            }
            if open.is_empty() {
                return Ok(());
            }
            let requests: Vec<Request> = open.iter().map(|open| self.request(open)).collect::<Result<_>>()?;
            let answers = self.link.call_all(&requests)?;
            let mut pause = None;
            let mut next = Vec::new();
            for (mut range, answer) in open.drain(..).zip(answers) {
                match answer {
                    Response::Result(ResultMessage::Rows(rows)) => {
                        let rows = rows.decode(None);
                        let rows =
                            rows.map_err(|error| ShellError::Lost(format!("invalid rows: {error}")))?;
                        if !rows.is_empty() && sender.send((self.format(&rows), rows.len() as u64)).is_err() {
                            // The writer has failed, which it reports.
                            return Ok(());
                        }
                        range.paging_state = rows.paging_state.clone();
                        range.attempts = 0;
                        if range.paging_state.is_some() {
                            next.push(range);
                        }
                    }
                    Response::Error(error) if self.is_temporary(&error, &mut range.attempts) => {
                        pause = Some(PAUSE * 2u32.pow(range.attempts.min(8)));
                        next.push(range);
                    }
                    other => return Err(unexpected(other)),
                }
            }
            open = next;
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
        }
    }

    /// Returns whether a read can be repeated.
    fn is_temporary(&mut self, error: &Error, attempts: &mut u32) -> bool {
        *attempts += 1;
        match error.detail {
            ErrorDetail::Unprepared { .. } => self.prepared = None,
            ErrorDetail::Unavailable { .. }
            | ErrorDetail::Overloaded
            | ErrorDetail::IsBootstrapping
            | ErrorDetail::ReadTimeout { .. }
            | ErrorDetail::ReadFailure { .. } => {}
            _ => return false,
        }
        *attempts < self.options.maxattempts
    }

    fn request(&mut self, open: &Open) -> Result<Request> {
        if self.prepared.is_none() {
            let prepare = Prepare { query: self.plan.statement.as_str().into(), keyspace: None };
            match self.link.call(&Request::Prepare(prepare), false)? {
                (Response::Result(ResultMessage::Prepared(prepared)), _) => self.prepared = Some(prepared),
                (other, _) => return Err(unexpected(other)),
            }
        }
        let Some(prepared) = &self.prepared else { return Err(command("the statement is not prepared")) };
        let start = open.range.start.unwrap_or(i64::MIN).to_be_bytes();
        let end = open.range.end.unwrap_or(i64::MAX).to_be_bytes();
        let has_tokens = !prepared.bind_markers.columns().is_empty();
        let tokens: &[&[u8]] = if has_tokens { &[&start, &end] } else { &[] };
        let parameters = QueryParameters {
            consistency: self.consistency,
            values: Values::new(tokens.iter().map(|token| Value::Set(token))),
            page_size: Some(self.options.pagesize),
            paging_state: open.paging_state.clone(),
            ..QueryParameters::default()
        };
        Ok(Request::Execute(Execute {
            id: prepared.id.clone(),
            result_metadata_id: prepared.result_metadata_id.clone(),
            parameters,
        }))
    }

    /// Formats a page.
    fn format(&self, rows: &Rows) -> Vec<u8> {
        let dialect = Dialect::of(self.options);
        let types: Vec<&DataType> = rows.metadata.columns().iter().map(|column| &column.data_type).collect();
        let mut out = Vec::new();
        let mut fields = vec![String::new(); types.len()];
        for row in rows {
            for ((field, data_type), cell) in fields.iter_mut().zip(&types).zip(row) {
                field.clear();
                self.plan.formats.write_plain(data_type, cell, field);
            }
            dialect.write(fields.iter().map(String::as_str), &mut out);
        }
        out
    }
}

/// The files that rows are written to.
struct Writer<'a> {
    copy: &'a Copy,
    shell: &'a mut crate::output::Target,
    file: Option<BufWriter<File>>,
    files: u64,
    /// Rows in the current file.
    rows: u64,
}

impl<'a> Writer<'a> {
    fn open(copy: &'a Copy, shell: &'a mut crate::output::Target) -> Result<Self> {
        let mut writer = Self { copy, shell, file: None, files: 0, rows: 0 };
        if let Some(name) = &copy.files {
            writer.file = Some(create(name)?);
            writer.files = 1;
        }
        if copy.options.header {
            let mut header = Vec::new();
            Dialect::of(&copy.options).write(copy.columns.iter().map(String::as_str), &mut header);
            writer.write_bytes(&header)?;
        }
        Ok(writer)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|error| self.failed(&error)),
            None => {
                self.shell.say(&String::from_utf8_lossy(bytes));
                if self.shell.is_closed { Err(command("standard output is closed")) } else { Ok(()) }
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> ShellError {
        command(format!("cannot write to {}: {error}", self.copy.files.as_deref().unwrap_or_default()))
    }

    /// Writes `count` rows. A file has at most MAXOUTPUTSIZE of them.
    fn write(&mut self, data: &[u8], count: u64) -> Result<()> {
        let (Some(limit), Some(name)) = (self.copy.options.maxoutputsize, &self.copy.files) else {
            return self.write_bytes(data);
        };
        if self.rows + count <= limit {
            self.rows += count;
            return self.write_bytes(data);
        }
        let dialect = Dialect::of(&self.copy.options);
        let mut input = data;
        loop {
            let before = input;
            if dialect.read(&mut input)?.is_none() {
                return Ok(());
            }
            if self.rows == limit {
                self.flush()?;
                self.file = Some(create(&format!("{name}.{}", self.files))?);
                self.files += 1;
                self.rows = 0;
            }
            self.rows += 1;
            self.write_bytes(&before[..before.len() - input.len()])?;
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some(file) => file.flush().map_err(|error| self.failed(&error)),
            None => Ok(()),
        }
    }

    /// Completes the files, and returns their number.
    fn finish(mut self) -> Result<u64> {
        self.flush()?;
        Ok(self.files)
    }
}

fn create(name: &str) -> Result<BufWriter<File>> {
    let file = File::create(crate::cqlshrc::expand_home(name));
    file.map(|file| BufWriter::with_capacity(1 << 20, file))
        .map_err(|error| command(format!("Can't open '{name}' for writing: {error}")))
}
