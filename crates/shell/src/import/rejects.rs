//! The file with rejected rows and their reasons.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value};

use super::rows::{Field, Row};
use crate::error::{Result, command};
use crate::load::Rejected;

/// Reasons that are shown; the file has all.
const REASONS_MAX: usize = 5;

/// A file with a JSON object a line: the number of the row, the reason, and the fields as text. It
/// is created with the first rejected row.
pub struct Rejects<'a> {
    path: &'a Path,
    file: Option<BufWriter<File>>,
    failure: Option<String>,
    shown: usize,
}

impl<'a> Rejects<'a> {
    /// Rejected rows go to `path`.
    pub fn new(path: &'a Path) -> Self {
        Self { path, file: None, failure: None, shown: 0 }
    }

    /// Adds a row.
    pub fn add(&mut self, rejected: &Rejected<Row>) {
        self.shown += 1;
        if self.shown <= REASONS_MAX {
            eprintln!("row {}: {}", rejected.row.number, rejected.reason);
        }
        if let Err(error) = self.write(rejected) {
            self.failure.get_or_insert_with(|| error.to_string());
        }
    }

    fn write(&mut self, rejected: &Rejected<Row>) -> std::io::Result<()> {
        if self.file.is_none() {
            self.file = Some(BufWriter::new(File::create(self.path)?));
        }
        let mut fields = Map::new();
        for (name, field) in &rejected.row.fields {
            let value = match field {
                Field::Null => Value::Null,
                Field::Text(text) => Value::from(text.clone()),
                Field::Json(json) => Value::from(json.to_string()),
                Field::Parquet(field) => Value::from(field.to_string()),
            };
            fields.insert(name.clone(), value);
        }
        let mut line = Map::new();
        line.insert("row".to_owned(), rejected.row.number.into());
        line.insert("reason".to_owned(), rejected.reason.clone().into());
        line.insert("fields".to_owned(), fields.into());
        let Some(file) = &mut self.file else { return Ok(()) };
        writeln!(file, "{}", Value::from(line))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If rows were rejected.
    pub fn finish(mut self, count: u64, gave_up: bool) -> Result<()> {
        if let Some(file) = &mut self.file
            && let Err(error) = file.flush()
        {
            self.failure.get_or_insert_with(|| error.to_string());
        }
        if count == 0 {
            return Ok(());
        }
        let rest = if gave_up { "; there were too many, so the rest was not read" } else { "" };
        Err(command(match self.failure {
            None => format!(
                "{count} rows were rejected, and are in {} with the reasons{rest}",
                self.path.display()
            ),
            Some(error) => format!(
                "{count} rows were rejected, and cannot be written to {}: {error}",
                self.path.display()
            ),
        }))
    }
}
