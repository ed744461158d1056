//! The rows of a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_cql::values::json::Json;

use super::parquet_rows::ParquetRows;
use crate::error::{Result, command};

/// Rows of a chunk.
const CHUNK_ROWS: usize = 2000;
/// Bytes of the longest object in a JSON file.
const OBJECT_LENGTH_MAX: usize = 64 << 20;
/// Rows of a JSON file whose names are the columns.
const SAMPLED_ROWS: usize = 1000;

/// A row with the names of its fields.
#[derive(Debug, Default)]
pub struct Row {
    /// The number in the file, counted from 1.
    pub number: u64,
    /// The fields by name.
    pub fields: Vec<(String, Field)>,
    /// Why it has no fields.
    pub problem: Option<String>,
}

/// A field of a file.
#[derive(Debug)]
pub enum Field {
    /// None.
    Null,
    /// Text of a CSV file.
    Text(String),
    /// A value of a JSON file.
    Json(Json),
    /// A value of a Parquet file.
    Parquet(parquet::record::Field),
}

/// An open file.
pub struct FileRows {
    length: u64,
    position: Arc<AtomicU64>,
    number: u64,
    /// Rows that were read to learn the columns.
    sampled: std::collections::VecDeque<Row>,
    format: Format,
}

enum Format {
    Csv { reader: Box<csv::Reader<Counted<File>>>, names: Vec<String> },
    Json(Objects<BufReader<Counted<File>>>),
    Parquet(ParquetRows),
}

/// A reader that counts its bytes.
pub struct Counted<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.count.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl FileRows {
    /// Opens a file, whose extension is its format.
    ///
    /// # Errors
    /// If it cannot be read, or has another format.
    pub fn open(path: &Path) -> Result<Self> {
        let failed =
            |error: &dyn std::fmt::Display| command(format!("cannot read {}: {error}", path.display()));
        let position = Arc::new(AtomicU64::new(0));
        let open = || File::open(path).map_err(|error| failed(&error));
        let file = open()?;
        let mut length = file.metadata().map_err(|error| failed(&error))?.len();
        let counted = Counted { input: file, count: position.clone() };
        let format = match super::extension(path).as_str() {
            "csv" => {
                let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(counted);
                let names = reader.headers().map_err(|error| failed(&error))?;
                let names = names.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
                Format::Csv { reader: Box::new(reader), names }
            }
            "json" | "jsonl" | "ndjson" => Format::Json(Objects { input: BufReader::new(counted) }),
            "parquet" => {
                let rows = ParquetRows::open(open()?).map_err(|error| failed(&error))?;
                length = rows.count();
                Format::Parquet(rows)
            }
            other => {
                let text = format!(
                    "{}: expected .csv, .json, .jsonl, .ndjson or .parquet, found .{other}",
                    path.display()
                );
                return Err(command(text));
            }
        };
        Ok(Self { length, position, number: 0, sampled: std::collections::VecDeque::new(), format })
    }

    /// Returns the length of the file, in the unit of [`position`](Self::position).
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns how much has been read.
    pub fn position(&self) -> Arc<AtomicU64> {
        self.position.clone()
    }

    /// Returns the names of the columns.
    ///
    /// # Errors
    /// If the file cannot be read, or is empty.
    pub fn columns(&mut self) -> Result<Vec<String>> {
        let names = match &self.format {
            Format::Csv { names, .. } => names.clone(),
            Format::Parquet(rows) => rows.names(),
            Format::Json(_) => {
                let mut names: Vec<String> = Vec::new();
                while self.sampled.len() < SAMPLED_ROWS
                    && let Some(row) = self.read()?
                {
                    for (name, _) in &row.fields {
                        if !names.contains(name) {
                            names.push(name.clone());
                        }
                    }
                    self.sampled.push_back(row);
                }
                names
            }
        };
        if names.is_empty() { Err(command("the file has no rows")) } else { Ok(names) }
    }

    /// Returns the next rows.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<Row>>> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_ROWS {
            let row = match self.sampled.pop_front() {
                Some(row) => Some(row),
                None => self.read()?,
            };
            let Some(row) = row else { break };
            chunk.push(row);
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }

    fn read(&mut self) -> Result<Option<Row>> {
        self.number += 1;
        let mut row = Row { number: self.number, ..Row::default() };
        match &mut self.format {
            Format::Csv { reader, names } => {
                let mut record = csv::ByteRecord::new();
                if !reader
                    .read_byte_record(&mut record)
                    .map_err(|error| command(format!("invalid file: {error}")))?
                {
                    return Ok(None);
                }
                if record.len() != names.len() {
                    row.problem = Some(format!("expected {} fields, found {}", names.len(), record.len()));
                }
                for (name, field) in names.iter().zip(&record) {
                    let text = String::from_utf8_lossy(field);
                    if matches!(text, std::borrow::Cow::Owned(_)) {
                        row.problem = Some(format!("column {name}: expected UTF-8"));
                    }
                    row.fields.push((name.clone(), Field::Text(text.into_owned())));
                }
            }
            Format::Json(objects) => {
                let Some(text) = objects.next()? else { return Ok(None) };
                match std::str::from_utf8(&text)
                    .map_err(|_| "expected UTF-8".to_owned())
                    .and_then(Json::parse)
                {
                    Ok(Json::Object(fields)) => row.fields = fields.into_iter().map(json_field).collect(),
                    Ok(_) => row.problem = Some("expected an object".to_owned()),
                    Err(reason) => row.problem = Some(reason),
                }
                if row.problem.is_some() {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    row.fields = vec![("text".to_owned(), Field::Text(text))];
                }
            }
            Format::Parquet(rows) => {
                let Some(fields) = rows.next().map_err(|error| command(format!("invalid file: {error}")))?
                else {
                    return Ok(None);
                };
                self.position.fetch_add(1, Ordering::Relaxed);
                row.fields = fields;
            }
        }
        Ok(Some(row))
    }
}

/// Names in quotes are those of SELECT JSON.
fn json_field((name, json): (String, Json)) -> (String, Field) {
    let name = match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name,
    };
    (name, if json == Json::Null { Field::Null } else { Field::Json(json) })
}

/// The objects of a JSON file: one after the other, or the elements of an array.
struct Objects<R> {
    input: R,
}

impl<R: BufRead> Objects<R> {
    /// Returns the text of the next object.
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut text = Vec::new();
        let (mut depth, mut is_string, mut is_escaped) = (0usize, false, false);
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                if !text.is_empty() {
                    return Err(command(
                        "invalid file: expected the end of an object, found the end of the file",
                    ));
                }
                return Ok(None);
            }
            let mut used = 0;
            let mut is_complete = false;
            for byte in buffer {
                used += 1;
                if depth == 0 {
                    match byte {
                        b'{' => depth = 1,
                        b'[' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf => continue,
                        other => {
                            let found = char::from(*other);
                            return Err(command(format!(
                                "invalid file: expected an object, found {found:?}"
                            )));
                        }
                    }
                } else if is_string {
                    match byte {
                        _ if is_escaped => is_escaped = false,
                        b'\\' => is_escaped = true,
                        b'"' => is_string = false,
                        _ => {}
                    }
                } else {
                    match byte {
                        b'"' => is_string = true,
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                }
                text.push(*byte);
                if depth == 0 {
                    is_complete = true;
                    break;
                }
            }
            self.input.consume(used);
            if is_complete {
                return Ok(Some(text));
            }
            if text.len() > OBJECT_LENGTH_MAX {
                return Err(command(format!(
                    "invalid file: an object has more than {OBJECT_LENGTH_MAX} bytes"
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Result<Vec<String>> {
        let mut objects = Objects { input: BufReader::with_capacity(4, text.as_bytes()) };
        let mut found = Vec::new();
        while let Some(object) = objects.next()? {
            found.push(String::from_utf8(object).unwrap());
        }
        Ok(found)
    }

    #[test]
    fn objects_are_found_in_arrays_and_lines() {
        let expected = ["{\"a\": \"}\\\"{\"}", "{\"b\": [{}, {}]}"];
        for text in [expected.join("\n"), format!("[{}]", expected.join(" ,\n"))] {
            assert_eq!(objects(&text).unwrap(), expected);
        }
        assert!(objects("{\"a\": 1").is_err());
        assert!(objects("1").is_err());
    }
}
