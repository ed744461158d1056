//! Prepared statements of the workload, and their EXECUTE messages.

use std::collections::HashMap;

use bytes::Bytes;
use cassette_protocol::notation::{write_byte, write_bytes, write_int, write_short, write_short_bytes};
use cassette_protocol::request::Prepare;
use cassette_protocol::{Consistency, Encoder, Flags, Opcode, Request, Version};

use super::CqlSettings;
use super::connection::Connection;
use crate::LabError;
use crate::engine::statements::Statements;
use crate::workload::TableShape;
use crate::ycsb::FieldValues;

/// `<flags>` of the query parameters: values follow; the result may omit its metadata.
const VALUES_AND_SKIP_METADATA: u8 = 0x01 | 0x02;

/// A prepared statement.
#[derive(Debug, Clone)]
struct Prepared {
    id: Bytes,
    result_metadata_id: Option<Bytes>,
}

/// All statements of a workload, prepared on one connection.
#[derive(Debug)]
pub(super) struct Requests {
    version: Version,
    consistency: Consistency,
    statements: Option<Statements<Prepared>>,
    /// Steps of a workload of statements with their consistency levels; the other statements are
    /// then unset.
    steps: Vec<(Prepared, Consistency)>,
    /// CQL texts by statement id.
    texts: HashMap<Bytes, String>,
}

impl Requests {
    /// Prepares the statements.
    pub fn prepare(
        connection: &mut Connection,
        settings: &CqlSettings,
        shape: &TableShape,
    ) -> Result<Self, LabError> {
        let mut texts = HashMap::new();
        let mut prepare = |cql: &str| {
            let prepared = connection.prepare(cql)?;
            texts.insert(prepared.id.clone(), cql.to_owned());
            Ok::<_, LabError>(Prepared { id: prepared.id, result_metadata_id: prepared.result_metadata_id })
        };
        let (mut statements, mut steps) = (None, Vec::new());
        match &shape.statements {
            None => statements = Some(Statements::prepare(&settings.keyspace, shape, prepare)?),
            Some(workload) => {
                for step in &workload.steps {
                    let consistency = step.consistency.unwrap_or(settings.consistency);
                    steps.push((prepare(&step.cql)?, consistency));
                }
            }
        }
        Ok(Self { version: settings.version, consistency: settings.consistency, statements, steps, texts })
    }

    /// Encodes the PREPARE of an evicted statement; `false` if its id is unknown.
    pub fn prepare_again(&self, encoder: &mut Encoder, stream: i16, id: &Bytes) -> bool {
        let Some(query) = self.texts.get(id) else { return false };
        let request = Request::Prepare(Prepare { query: query.clone().into(), keyspace: None });
        encoder.request(stream, &request, false);
        true
    }

    /// Returns whether this is the id of one of these statements.
    pub fn knows(&self, id: &Bytes) -> bool {
        self.texts.contains_key(id)
    }

    /// Encodes the insertion of a whole record.
    pub fn insert(&self, encoder: &mut Encoder, stream: i16, key: &str, values: &FieldValues) {
        let Some(statements) = &self.statements else { return };
        self.execute(encoder, stream, &statements.insert, self.consistency, values.len() + 1, |body| {
            write_bytes(Some(key.as_bytes()), body);
            values.iter().for_each(|(_, value)| write_bytes(Some(value), body));
        });
    }

    /// Encodes the update of one field or of all fields.
    pub fn update(&self, encoder: &mut Encoder, stream: i16, key: &str, values: &FieldValues) {
        let Some(statements) = &self.statements else { return };
        let statement = statements.update.of(values.only_field());
        self.execute(encoder, stream, statement, self.consistency, values.len() + 1, |body| {
            values.iter().for_each(|(_, value)| write_bytes(Some(value), body));
            write_bytes(Some(key.as_bytes()), body);
        });
    }

    /// Encodes the read of a record.
    pub fn read(&self, encoder: &mut Encoder, stream: i16, key: &str, field: Option<usize>) {
        let Some(statements) = &self.statements else { return };
        let statement = statements.read.of(field);
        self.execute(encoder, stream, statement, self.consistency, 1, |body| {
            write_bytes(Some(key.as_bytes()), body)
        });
    }

    /// Encodes the scan of `length` records from `key` on.
    pub fn scan(&self, encoder: &mut Encoder, stream: i16, key: &str, length: u32, field: Option<usize>) {
        let Some(statements) = &self.statements else { return };
        self.execute(encoder, stream, statements.scan.of(field), self.consistency, 2, |body| {
            write_bytes(Some(key.as_bytes()), body);
            write_bytes(Some(&length.to_be_bytes()), body);
        });
    }

    /// Encodes a step of a workload of statements, which binds `values` in order.
    pub fn statement(&self, encoder: &mut Encoder, stream: i16, step: usize, values: &FieldValues) {
        let Some((statement, consistency)) = self.steps.get(step) else { return };
        self.execute(encoder, stream, statement, *consistency, values.len(), |body| {
            values.iter().for_each(|(_, value)| write_bytes(Some(value), body));
        });
    }

    /// ```text
    /// EXECUTE, v3, v4: <id><consistency><flags: byte><n: short><value>*n
    ///          v5:     <id><result_metadata_id><consistency><flags: int><n: short><value>*n
    /// ```
    fn execute(
        &self,
        encoder: &mut Encoder,
        stream: i16,
        statement: &Prepared,
        consistency: Consistency,
        values: usize,
        write_values: impl FnOnce(&mut Vec<u8>),
    ) {
        let begun = encoder.begin();
        let body = encoder.body();
        write_short_bytes(&statement.id, body);
        if self.version >= Version::V5 {
            write_short_bytes(statement.result_metadata_id.as_deref().unwrap_or_default(), body);
        }
        write_short(consistency as u16, body);
        if self.version >= Version::V5 {
            write_int(i32::from(VALUES_AND_SKIP_METADATA), body);
        } else {
            write_byte(VALUES_AND_SKIP_METADATA, body);
        }
        write_short(values as u16, body);
        write_values(body);
        encoder.finish(begun, stream, Opcode::Execute, Flags::default());
    }
}
