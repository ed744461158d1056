//! An engine that does nothing, to measure the overhead of the measurement itself.

use super::{Engine, Session};
use crate::LabError;
use crate::results::EngineInfo;
use crate::workload::{Failure, RowSink, TableShape};
use crate::ycsb::FieldValues;

/// Responds to every operation at once; reads return one empty row.
#[derive(Debug, Default)]
pub struct Noop;

impl Engine for Noop {
    fn describe(&self) -> EngineInfo {
        EngineInfo { name: "noop".into(), version: "-".into(), ..EngineInfo::default() }
    }

    fn create_table(&mut self, _shape: &TableShape, _replace: bool) -> Result<(), LabError> {
        Ok(())
    }

    fn use_table(&mut self, _shape: &TableShape) -> Result<(), LabError> {
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, LabError> {
        Ok(Box::new(Self))
    }
}

impl Session for Noop {
    fn insert(&mut self, _key: &str, _values: &FieldValues) -> Result<(), Failure> {
        Ok(())
    }

    fn update(&mut self, _key: &str, _values: &FieldValues) -> Result<(), Failure> {
        Ok(())
    }

    fn read(&mut self, key: &str, _field: Option<usize>, rows: &mut RowSink) -> Result<(), Failure> {
        rows.row(key.as_bytes());
        Ok(())
    }

    fn scan(
        &mut self,
        key: &str,
        _length: usize,
        _field: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure> {
        rows.row(key.as_bytes());
        Ok(())
    }
}
