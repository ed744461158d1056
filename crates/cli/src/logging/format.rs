//! Events of the log as JSON.
//!
//! ```json
//! {"timestamp":"2026-11-22T10:15:00.123456Z","level":"WARN","target":"cassette_engine::tables","message":"…","fields":{"path":"…"}}
//! ```

use std::fmt::{self, Debug};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// One event as one line of JSON.
pub struct Json;

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'static str,
    target: &'a str,
    #[serde(flatten)]
    content: Content,
}

/// The message of an event, and its other fields.
#[derive(Debug, Default, Serialize)]
pub struct Content {
    message: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
}

impl Content {
    /// Returns the content of an event.
    pub fn of(event: &Event<'_>) -> Self {
        let mut content = Self::default();
        event.record(&mut content);
        content
    }

    /// Returns the message, followed by the fields.
    pub fn text(&self) -> String {
        let field = |(name, value): (&String, &Value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            other => format!(" {name}={other}"),
        };
        std::iter::once(self.message.clone()).chain(self.fields.iter().map(field)).collect()
    }

    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
        } else {
            self.fields.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Content {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let content = Content::of(event);
        let metadata = event.metadata();
        let line = Line {
            timestamp: format!("{:.6}", Timestamp::now()),
            level: metadata.level().as_str(),
            target: metadata.target(),
            content,
        };
        // All keys are texts, so that this cannot fail.
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Memory {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn every_event_is_one_line_of_json_whatever_it_contains() {
        let memory = Memory::default();
        let subscriber = tracing_subscriber::fmt().event_format(Json).with_writer(memory.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = io::Error::other("a \"quoted\"\nline");
            let text = "open\n\u{1b}[0m";
            tracing::warn!(target: "cassette_engine", %error, count = 3, is_open = true, "cannot {text}");
            tracing::info!("second");
        });
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["message"], "cannot open\n\u{1b}[0m");
        assert_eq!(lines[0]["level"], "WARN");
        assert_eq!(lines[0]["target"], "cassette_engine");
        let fields = serde_json::json!({"error": "a \"quoted\"\nline", "count": 3, "is_open": true});
        assert_eq!(lines[0]["fields"], fields);
        let timestamp = lines[1]["timestamp"].as_str().unwrap();
        assert!(timestamp.parse::<Timestamp>().is_ok() && timestamp.ends_with('Z'), "{timestamp}");
        assert!(lines[1].get("fields").is_none());
    }
}
