//! Sources and targets, and how to query them.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{self as db, BoundValue, Database, Outcome, ResultMetadata, StatementOptions};

use crate::client::{Client, Cluster, ClusterSettings};
use crate::error::{MoveError, Result};
use crate::page::{Page, PageRequest, Values};

/// A source or target.
#[derive(Clone)]
pub enum Place {
    /// A running cluster of one or more nodes, Cassandra's or Cassette's.
    Cluster(ClusterSettings),
    /// A data directory of Cassette that no process has open; it is not written to.
    Directory(PathBuf),
}

impl Place {
    /// Returns its name for messages and the progress file.
    pub fn name(&self) -> String {
        match self {
            Self::Cluster(settings) => settings.address(),
            Self::Directory(path) => path.display().to_string(),
        }
    }
}

/// Data directories of all nodes of a target, as one database.
#[derive(Clone)]
pub struct TargetFiles {
    /// The database.
    pub database: Database,
    /// The directories, for messages.
    pub name: String,
}

/// An open source or target, shared by all workers.
pub enum Endpoint {
    Cluster(Cluster),
    Directory { database: Database, path: PathBuf },
}

/// The connections of one worker.
pub enum Session<'e> {
    Cluster(Client<'e>),
    Directory { database: &'e Database, path: &'e PathBuf },
}

impl Endpoint {
    /// Opens a place.
    pub fn open(place: &Place) -> Result<Self> {
        match place {
            Place::Cluster(settings) => Ok(Self::Cluster(Cluster::connect(settings.clone())?)),
            Place::Directory(path) => {
                let database = Database::open_read_only(path).map_err(|error| MoveError::Directory {
                    path: path.display().to_string(),
                    reason: format!("{error}; while a server has it open, move from the server"),
                })?;
                Ok(Self::Directory { database, path: path.clone() })
            }
        }
    }

    /// Returns the files of a target as an endpoint.
    pub fn of_files(files: TargetFiles) -> Self {
        Self::Directory { database: files.database, path: files.name.into() }
    }

    /// Starts a session.
    pub fn session(&self) -> Session<'_> {
        match self {
            Self::Cluster(cluster) => Session::Cluster(Client::new(cluster)),
            Self::Directory { database, path } => Session::Directory { database, path },
        }
    }
}

impl Session<'_> {
    /// Executes a statement without values, and returns all its rows.
    pub fn query(&mut self, text: &str) -> Result<Page> {
        match self {
            Self::Cluster(client) => client.query(text),
            Self::Directory { database, path } => {
                let mut page = Collected::default();
                let options = StatementOptions::default();
                let executed = database.query(None, text, db::Values::NONE, &options, &mut page);
                executed.map_err(|error| unreadable(path, &error))?;
                Ok(page.page)
            }
        }
    }

    /// Reads a page, and calls `visit` with the values of each row. Returns where the next page
    /// starts.
    ///
    /// # Errors
    /// If the source fails for too long, or the first error of `visit`.
    pub fn visit_page(
        &mut self,
        request: &PageRequest<'_>,
        visit: &mut dyn FnMut(Values<'_>) -> Result<()>,
    ) -> Result<Option<Bytes>> {
        match self {
            Self::Cluster(client) => {
                let Some(rows) = client.rows(request)? else { return Ok(None) };
                let mut values = Vec::with_capacity(rows.columns_count());
                for row in &rows {
                    values.clear();
                    values.extend(row);
                    visit(&values)?;
                }
                Ok(rows.paging_state)
            }
            Self::Directory { database, path } => {
                let values: Vec<_> = request.values.iter().map(|value| BoundValue::Set(value)).collect();
                let options = StatementOptions {
                    page_size: Some(request.page_size),
                    paging_state: request.paging_state.clone(),
                    now_in_seconds: Some(request.now),
                    ..StatementOptions::default()
                };
                let mut visited = Visited { visit, content: Vec::new(), ends: Vec::new(), error: None };
                let values = db::Values { values: &values, names: None };
                let executed = database.query(None, request.text, values, &options, &mut visited);
                if let Some(error) = visited.error {
                    return Err(error);
                }
                match executed.map_err(|error| unreadable(path, &error))?.outcome {
                    Outcome::Rows { paging_state } => Ok(paging_state),
                    _ => Ok(None),
                }
            }
        }
    }
}

/// Returns an error about a directory.
pub fn unreadable(path: &std::path::Path, error: &dyn std::fmt::Display) -> MoveError {
    MoveError::Directory { path: path.display().to_string(), reason: error.to_string() }
}

/// Calls a function with each row of a database.
struct Visited<'v> {
    visit: &'v mut dyn FnMut(Values<'_>) -> Result<()>,
    /// The values of the row, one after the other.
    content: Vec<u8>,
    /// Where each value ends in `content`; `None` for nulls.
    ends: Vec<Option<usize>>,
    error: Option<MoveError>,
}

impl db::RowSink for Visited<'_> {
    fn begin(&mut self, _: &Arc<ResultMetadata>) {}

    fn value(&mut self, value: Option<&[u8]>) {
        self.content.extend_from_slice(value.unwrap_or_default());
        self.ends.push(value.map(|_| self.content.len()));
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        write(&mut self.content);
        self.ends.push(Some(self.content.len()));
    }

    fn end_row(&mut self) -> db::Result<()> {
        let mut start = 0;
        let values: Vec<Option<&[u8]>> = self
            .ends
            .iter()
            .map(|end| end.map(|end| &self.content[std::mem::replace(&mut start, end)..end]))
            .collect();
        if self.error.is_none() {
            self.error = (self.visit)(&values).err();
        }
        self.content.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Collects the rows of a database.
#[derive(Default)]
struct Collected {
    page: Page,
    row: Vec<Option<Bytes>>,
}

impl db::RowSink for Collected {
    fn begin(&mut self, metadata: &Arc<ResultMetadata>) {
        self.page.columns = metadata.columns.iter().map(|column| column.name.to_string()).collect();
    }

    fn value(&mut self, value: Option<&[u8]>) {
        self.row.push(value.map(Bytes::copy_from_slice));
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.row.push(Some(value.into()));
    }

    fn end_row(&mut self) -> db::Result<()> {
        self.page.rows.push(std::mem::take(&mut self.row));
        Ok(())
    }
}
