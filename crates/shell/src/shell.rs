//! Executes input: statements, and the shell's own commands.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cassette_protocol::Rows;

use crate::cqlshrc::Cqlshrc;
use crate::error::{Result, ShellError};
use crate::input::{self, Unit};
use crate::output::{
    Format, Header, Target, expanded, header_only, table, write_csv, write_json, write_markdown,
};
use crate::pointer;
use crate::schema::{ColumnKind, Schema};
use crate::session::{Done, RequestOptions, Session};
use crate::values::{Color, Formats, Shown};

/// The state of a shell.
pub struct Shell {
    /// The session.
    pub session: Session,
    /// Where output goes.
    pub out: Target,
    /// How values are shown.
    pub formats: Formats,
    /// The format of results.
    pub format: Format,
    /// Whether rows are shown one below the other.
    pub is_expanded: bool,
    /// Whether a user sits at a terminal: pages wait, and errors have no position.
    pub is_terminal: bool,
    /// Whether a statement has failed.
    pub has_failed: bool,
    /// Whether EXIT has been executed.
    pub has_ended: bool,
    /// The longest wait for a trace.
    pub trace_wait_max: Duration,
    /// The file with the history of an interactive shell.
    pub history: Option<PathBuf>,
    /// The settings of cqlshrc.
    pub cqlshrc: Cqlshrc,
    /// Whether the user interrupts what is executed.
    pub interrupt: Arc<AtomicBool>,
    /// Files that SOURCE is executing.
    pub source_depth: usize,
    schema: Option<Schema>,
}

/// Where input comes from.
pub struct Source<'a> {
    /// The name for errors.
    pub name: &'a str,
    /// The number of the input's first line.
    pub first_line: usize,
}

impl Shell {
    /// Creates a shell with the default settings.
    pub fn new(session: Session, out: Target) -> Self {
        Self {
            session,
            out,
            formats: Formats::default(),
            format: Format::default(),
            is_expanded: false,
            is_terminal: false,
            has_failed: false,
            has_ended: false,
            trace_wait_max: Duration::from_secs(10),
            history: None,
            cqlshrc: Cqlshrc::default(),
            interrupt: Arc::default(),
            source_depth: 0,
            schema: None,
        }
    }

    /// Executes a whole input; its last statement needs no semicolon if `is_complete`.
    pub fn run(&mut self, text: &str, source: &Source<'_>, is_complete: bool) {
        // The last line of a file can lack its end, which ends commands and comments.
        let text = &format!("{text}\n");
        let split = input::split(text);
        for unit in &split.units {
            if self.has_ended || self.out.is_closed || self.interrupt.load(Ordering::Relaxed) {
                return;
            }
            self.run_unit(unit, text, source);
        }
        let Some(start) = split.incomplete.filter(|_| !self.has_ended) else { return };
        let rest = input::rest(text, start);
        if is_complete && rest.problem.is_none() {
            self.run_unit(&rest, text, source);
        } else {
            let error = ShellError::Command("Incomplete statement at end of file".to_owned());
            self.report(&error, &Unit { problem: None, ..rest }, text, source);
        }
    }

    /// Executes a statement or a command, and reports its error.
    pub fn run_unit(&mut self, unit: &Unit<'_>, text: &str, source: &Source<'_>) {
        let done = match &unit.problem {
            Some((message, _)) => Err(ShellError::Command(format!("Invalid syntax: {message}"))),
            None => match self.command(unit) {
                Some(done) => done,
                None => self.statement(unit.text),
            },
        };
        if let Err(error) = done {
            self.report(&error, unit, text, source);
        }
        self.out.flush();
    }

    /// Prints an error, the statement, and a caret at the place in it.
    fn report(&mut self, error: &ShellError, unit: &Unit<'_>, text: &str, source: &Source<'_>) {
        self.has_failed = true;
        let offset = match (&unit.problem, error) {
            (Some((_, at)), _) => Some(at - unit.start),
            (None, ShellError::Server(error)) => pointer::offset_of(error, unit.text),
            _ => None,
        };
        let place = input::place_of(text, unit.start + offset.unwrap_or(0));
        let prefix = if self.is_terminal {
            String::new()
        } else {
            format!("{}:{}:", source.name, source.first_line + place.line - 1)
        };
        let statement = cassette_cql::obscure_passwords(unit.text);
        let excerpt = pointer::excerpt(&statement, offset.filter(|_| statement == unit.text));
        self.out.error(&format!("{prefix}{error}\n{excerpt}"));
    }

    /// Executes a statement of the server, and prints its result.
    fn statement(&mut self, text: &str) -> Result<()> {
        let is_query = ["select", "list"].iter().any(|word| starts_with(text, word));
        let is_of_traces = starts_with(text, "select") && text.to_lowercase().contains("system_traces");
        let traced = !is_of_traces;
        let done = self.session.execute(text, RequestOptions { traced, ..RequestOptions::default() })?;
        if done.schema_changed {
            self.schema = None;
        }
        let mut traces = vec![done.trace];
        let warnings = done.warnings.clone();
        match done.rows {
            Some(rows) if is_query => self.print_pages(text, rows, traced, &mut traces)?,
            Some(rows) => self.print_rows_alone(&rows),
            None => {}
        }
        for warning in &warnings {
            let start = if warning == &warnings[0] { "\nWarnings :\n" } else { "" };
            self.out.result(&format!("{start}{warning}\n\n"));
        }
        for trace in traces.into_iter().flatten() {
            self.print_trace(trace, false)?;
        }
        Ok(())
    }

    /// Prints the pages of a query, and how many rows there are.
    fn print_pages(
        &mut self,
        text: &str,
        mut rows: Rows,
        traced: bool,
        traces: &mut Vec<Option<uuid::Uuid>>,
    ) -> Result<()> {
        let is_table = self.format == Format::Table;
        if is_table {
            self.out.result("\n");
        }
        let mut count = 0;
        let mut is_first = true;
        loop {
            if !rows.is_empty() || is_first {
                self.print_page(&rows, is_first, count);
                count += rows.len();
            }
            let Some(paging_state) = rows.paging_state.clone() else { break };
            if self.is_terminal && self.out.captured().is_none() && !self.continues()? {
                break;
            }
            if self.out.is_closed || self.interrupt.load(Ordering::Relaxed) {
                return Ok(());
            }
            let options =
                RequestOptions { paging_state: Some(paging_state), traced, ..RequestOptions::default() };
            let Done { rows: next, trace, .. } = self.session.execute(text, options)?;
            let Some(next) = next else { break };
            traces.push(trace);
            rows = next;
            is_first = false;
        }
        if is_table {
            let gap = if self.is_terminal { "" } else { "\n" };
            self.out.result(&format!("{gap}({count} rows)\n"));
        }
        Ok(())
    }

    /// Waits for the user between two pages. Returns whether the next page is wanted.
    fn continues(&mut self) -> Result<bool> {
        self.out.say("---MORE---");
        self.out.flush();
        let mut line = String::new();
        let length = std::io::stdin().read_line(&mut line)?;
        Ok(length > 0 && !line.trim().eq_ignore_ascii_case("q"))
    }

    /// Prints a page in the selected format. `count` rows were printed before.
    fn print_page(&mut self, rows: &Rows, is_first: bool, count: usize) {
        let mut out = String::new();
        match self.format {
            Format::Json => write_json(rows, &mut out),
            Format::Csv => write_csv(rows, is_first, &self.formats, &mut out),
            Format::Markdown => write_markdown(rows, is_first, &self.formats, &mut out),
            Format::Table => {
                let header = self.header(rows);
                let cells = self.cells(rows);
                let with_header = is_first || self.is_terminal;
                out = if cells.is_empty() {
                    header_only(&header)
                } else if self.is_expanded {
                    expanded(&header, &cells, count + 1)
                } else {
                    table(&header, &cells, with_header, self.is_terminal)
                };
            }
        }
        self.out.result(&out);
    }

    /// Prints the rows of a statement that is no query, such as a conditional write.
    fn print_rows_alone(&mut self, rows: &Rows) {
        if self.format == Format::Table {
            self.out.result("\n");
        }
        self.print_page(rows, true, 0);
    }

    fn cells(&self, rows: &Rows) -> Vec<Vec<Shown>> {
        let columns = rows.metadata.columns();
        let colored = self.out.colored();
        let show = |row: cassette_protocol::Cells<'_>| {
            columns
                .iter()
                .zip(row)
                .map(|(column, cell)| self.formats.show(&column.data_type, cell, colored))
                .collect()
        };
        rows.iter().map(show).collect()
    }

    /// Returns the names of the columns; with colors, by their role in the table.
    fn header(&mut self, rows: &Rows) -> Header {
        let colored = self.out.colored();
        let columns = rows.metadata.columns().to_vec();
        // Names are shown without their roles if the schema cannot be read.
        let schema = if colored { self.schema().ok() } else { None };
        let shown = |column: &cassette_protocol::ColumnSpec| {
            let known = schema.and_then(|schema| schema.table(&column.keyspace, &column.table).ok());
            let kind = known.and_then(|known| known.iter().find(|known| *known.name == *column.name));
            let color = match kind.map(|column| column.kind) {
                Some(ColumnKind::PartitionKey) => Color::Error,
                Some(ColumnKind::Clustering) => Color::Clustering,
                Some(ColumnKind::Static) => Color::Static,
                _ => Color::Column,
            };
            let mut shown = Shown::new(colored);
            shown.push_text(color, &column.name, false);
            shown
        };
        columns.iter().map(shown).collect()
    }

    /// Returns the schema, which is read again after statements that change it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn schema(&mut self) -> Result<&Schema> {
        let schema = match self.schema.take() {
            Some(schema) => schema,
            None => Schema::read(&mut self.session)?,
        };
        Ok(self.schema.insert(schema))
    }

    /// Forgets the schema, since others may have changed it.
    pub fn forget_schema(&mut self) {
        self.schema = None;
    }
}

/// Returns whether a statement begins with a word, in any case.
pub fn starts_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}
