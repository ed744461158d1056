//! Traces of requests, as cqlsh prints them.

use std::time::{Duration, Instant};

use cassette_cql::values::timeuuid;
use uuid::Uuid;

use crate::error::{Result, command};
use crate::output::table;
use crate::session::Table;
use crate::shell::Shell;
use crate::values::{Color, Shown, TimestampFormat, format_time};

/// The pause between two looks for a trace.
const PAUSE: Duration = Duration::from_millis(10);

impl Shell {
    /// Waits until a trace is complete, and prints it. With `as_is`, prints what there is.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn print_trace(&mut self, id: Uuid, as_is: bool) -> Result<()> {
        let began = Instant::now();
        let session = loop {
            let session = self.session.query(&format!(
                "SELECT request, started_at, coordinator, client, duration FROM system_traces.sessions WHERE \
                 session_id = {id}"
            ))?;
            let is_complete = session.cell(0, "duration").is_some();
            if is_complete || as_is && session.len() > 0 {
                break session;
            }
            if began.elapsed() > self.trace_wait_max {
                if session.len() == 0 {
                    return Err(command(format!("Session {id} wasn't found.")));
                }
                self.out.result(&format!(
                    "Statement trace did not complete within {} seconds; trace data may be incomplete.\n",
                    self.trace_wait_max.as_secs()
                ));
                break session;
            }
            std::thread::sleep(PAUSE);
        };
        let events = self.session.query(&format!(
            "SELECT event_id, activity, source, source_elapsed, thread FROM system_traces.events WHERE \
             session_id = {id}"
        ))?;
        if events.len() == 0 {
            return Err(command(format!("No rows for session {id} found.")));
        }
        self.print_events(id, &session, &events);
        Ok(())
    }

    fn print_events(&mut self, id: Uuid, session: &Table, events: &Table) {
        let colored = self.out.colored();
        let text = |color, text: &str| {
            let mut shown = Shown::new(colored);
            shown.push_text(color, text, false);
            shown
        };
        let row = |activity: &str, time: &str, source: &str, elapsed: Option<i64>, client: &str| {
            let elapsed = elapsed.filter(|elapsed| *elapsed != 0).map_or("--".to_owned(), |n| n.to_string());
            vec![
                text(Color::Text, activity),
                text(Color::Text, time),
                text(Color::Number, source),
                text(Color::Number, &elapsed),
                text(Color::Number, client),
            ]
        };
        let (coordinator, client) = (session.text(0, "coordinator"), session.text(0, "client"));
        let started = session.number(0, "started_at").unwrap_or(0) * 1000;
        let mut first = row(&session.text(0, "request"), &self.time(started), &coordinator, None, &client);
        first[3] = text(Color::Number, "0");
        let mut rows = vec![first];
        for event in 0..events.len() {
            let bytes = events.cell(event, "event_id").and_then(|bytes| bytes.try_into().ok());
            let activity = format!("{} [{}]", events.text(event, "activity"), events.text(event, "thread"));
            rows.push(row(
                &activity,
                &self.time(bytes.map_or(0, timeuuid::to_micros)),
                &events.text(event, "source"),
                events.number(event, "source_elapsed"),
                &client,
            ));
        }
        if let Some(duration) = session.number(0, "duration") {
            let end = self.time(started + duration);
            rows.push(row("Request complete", &end, &coordinator, Some(duration), &client));
        }
        let names = ["activity", "timestamp", "source", "source_elapsed", "client"];
        let header = names.iter().map(|name| text(Color::Column, name)).collect();
        let title = Color::Column.paint("Tracing session: ", colored);
        let body = table(&header, &rows, true, self.is_terminal);
        self.out.result(&format!("\n{title}{id}\n\n{body}\n"));
    }

    /// Formats microseconds since the epoch as Python formats a time.
    fn time(&self, micros: i64) -> String {
        let format = TimestampFormat {
            pattern: "%Y-%m-%d %H:%M:%S".to_owned(),
            zone: self.formats.timestamp.zone.clone(),
            milliseconds_only: false,
        };
        let text = format_time(micros.div_euclid(1000), &format);
        match micros.rem_euclid(1_000_000) {
            0 => text,
            fraction => format!("{text}.{fraction:06}"),
        }
    }
}
