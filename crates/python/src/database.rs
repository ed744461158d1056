//! Databases and sessions.

use std::path::PathBuf;

use cassette::{OpenOptions, StatementOptions, options};
use pyo3::prelude::*;

use crate::call::call;
use crate::owned::Owned;
use crate::parameters::Parameters;
use crate::rows::{Rows, Source};

/// An open database.
#[pyclass(frozen)]
pub struct Database(Owned<cassette::Database>);

#[pymethods]
impl Database {
    /// Opens the database of a directory, or an empty one in memory without a path. Options have
    /// the names of cassandra.yaml.
    #[staticmethod]
    fn open(py: Python<'_>, path: Option<PathBuf>, settings: Vec<(String, String)>) -> PyResult<Self> {
        let opened = call(py, || {
            let set =
                |options: OpenOptions, (name, value): (String, String)| options::set(options, &name, &value);
            let options = settings.into_iter().try_fold(OpenOptions::new(), set)?;
            match path {
                Some(path) => options.open(path),
                None => options.open_in_memory(),
            }
        });
        Ok(Self(Owned::new(opened?)))
    }

    /// Opens a directory or a snapshot for reading only.
    #[staticmethod]
    fn open_read_only(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = call(py, || cassette::Database::open_read_only(path))?;
        Ok(Self(Owned::new(opened)))
    }

    /// Returns a session.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        Ok(Session(Owned::new(self.0.get(py)?.session())))
    }

    /// Writes memtables to SSTables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let database = self.0.get(py)?;
        call(py, || database.flush())
    }

    /// Closes the database. Does nothing in a forked process, where the database stays open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.0.is_inherited() {
            return Ok(());
        }
        let database = self.0.get(py)?;
        call(py, || database.close())
    }
}

/// A session with its own current keyspace.
#[pyclass(frozen)]
pub struct Session(Owned<cassette::Session>);

#[pymethods]
impl Session {
    /// The current keyspace.
    #[getter]
    fn keyspace(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.0.get(py)?.keyspace().map(|keyspace| keyspace.to_string()))
    }

    /// Executes a statement, with values by position or by name. Its rows are read in pages of
    /// `page_size` rows, or all at once without one.
    #[pyo3(signature = (cql, parameters, page_size))]
    fn execute(
        &self,
        py: Python<'_>,
        cql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
        page_size: Option<i32>,
    ) -> PyResult<Rows> {
        let session = self.0.get(py)?;
        let parameters = Parameters::new(parameters)?;
        let options = StatementOptions { page_size, ..StatementOptions::default() };
        let executed = call(py, || match page_size {
            Some(_) => session.query_iter_with(cql, &parameters, &options).map(Source::pages),
            None => session.execute_with(cql, &parameters, &options).map(Source::all),
        });
        match parameters.raised() {
            Some(raised) => Err(raised),
            None => Ok(Rows::new(executed?)),
        }
    }
}
