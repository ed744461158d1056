//! Encodes rows of the database into a response.

use std::sync::Arc;

use cassette_database as db;
use cassette_protocol::{
    ColumnSpec, MetadataMode, ResultKind, ResultMessage, ResultMetadata, RowsEncoder, Version,
};

use crate::body::{Body, PIECE_LENGTH, Room};

/// The metadata that a client requests with its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetadataWanted<'a> {
    /// All columns.
    Full,
    /// None: the client has it.
    Skip,
    /// The client has the columns with this id (v5): others are sent, with their id; these only if
    /// `skip` is not set.
    UnlessKnown { known_id: &'a [u8], skip: bool },
}

/// Encodes rows into the body of a RESULT while the database reads them.
pub(crate) struct ResultSink<'a> {
    version: Version,
    wanted: MetadataWanted<'a>,
    /// The body, until the rows have started.
    body: Option<&'a mut Vec<u8>>,
    /// Receives the start of long rows, until the rows have started.
    pieces: Option<&'a mut Vec<Vec<u8>>>,
    room: Room<'a>,
    rows: Option<RowsEncoder<'a>>,
    /// The reason why no more rows are accepted.
    refused: Option<db::DatabaseError>,
}

/// The contract of [`db::RowSink`] for its implementors.
const BEGINS_ONCE: &str = "rows, and only they, begin with their metadata, once";

impl<'a> ResultSink<'a> {
    pub fn new(body: Body<'a>, version: Version, wanted: MetadataWanted<'a>) -> Self {
        let Body { buffer, pieces, room } = body;
        Self { version, wanted, body: Some(buffer), pieces, room, rows: None, refused: None }
    }

    /// Completes a result with rows.
    pub fn finish_rows(self, paging_state: Option<&[u8]>) {
        self.rows.expect(BEGINS_ONCE).finish(paging_state);
    }

    /// Completes a result without rows.
    pub fn finish(self, result: &ResultMessage) {
        let buffer = self.body.expect(BEGINS_ONCE);
        result.encode(self.version, buffer);
    }

    fn rows(&mut self) -> &mut RowsEncoder<'a> {
        self.rows.as_mut().expect(BEGINS_ONCE)
    }

    /// Charges a piece that has become long enough, and starts the next.
    #[inline]
    fn cut_if_long(&mut self) {
        if self.rows().buffered_length() >= PIECE_LENGTH {
            self.cut();
        }
    }

    #[cold]
    fn cut(&mut self) {
        // Space for a row beyond the length at which the piece is cut, so that most pieces never
        // move.
        const CAPACITY: usize = PIECE_LENGTH + PIECE_LENGTH / 8;
        if !matches!(self.room, Room::Metered(_)) || self.refused.is_some() {
            return;
        }
        let length = self.rows().buffered_length();
        match self.room.charge(length) {
            Ok(()) => self.rows().cut(CAPACITY),
            Err(refused) => self.refused = Some(refused),
        }
    }
}

impl db::RowSink for ResultSink<'_> {
    fn begin(&mut self, metadata: &Arc<db::ResultMetadata>) {
        let buffer = self.body.take().expect(BEGINS_ONCE);
        let mode = match self.wanted {
            MetadataWanted::Full => MetadataMode::Full,
            MetadataWanted::Skip => MetadataMode::Skip,
            MetadataWanted::UnlessKnown { known_id, .. } if known_id != metadata.id() => {
                MetadataMode::Changed { new_metadata_id: metadata.id() }
            }
            MetadataWanted::UnlessKnown { skip: true, .. } => MetadataMode::Skip,
            MetadataWanted::UnlessKnown { skip: false, .. } => MetadataMode::Full,
        };
        ResultKind::Rows.encode(buffer);
        let rows = RowsEncoder::begin(buffer, self.version, &result_metadata(metadata), mode)
            .limit(self.room.length_max());
        self.rows = Some(match self.pieces.take() {
            Some(pieces) => rows.in_pieces(pieces),
            None => rows,
        });
    }

    fn value(&mut self, value: Option<&[u8]>) {
        self.rows().push(value);
        self.cut_if_long();
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.rows().push_with(write);
        self.cut_if_long();
    }

    fn end_row(&mut self) -> db::Result<()> {
        let rows = self.rows();
        rows.end_row();
        if rows.has_exceeded() {
            return Err(self.room.too_long());
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    fn is_full(&self) -> bool {
        let length = self.rows.as_ref().map_or(0, RowsEncoder::length);
        matches!(self.room, Room::Metered(_)) && length >= self.room.length_max() / 2
    }
}

/// Returns the protocol's form of a result's metadata; its encoding is cached with it.
pub(crate) fn result_metadata(metadata: &db::ResultMetadata) -> ResultMetadata {
    match metadata.derived(|metadata| columns(&metadata.columns)) {
        Some(kept) => kept.clone(),
        None => columns(&metadata.columns),
    }
}

/// Returns the protocol's form of columns or bind markers.
pub(crate) fn columns(specs: &[db::ColumnSpec]) -> ResultMetadata {
    let column = |spec: &db::ColumnSpec| ColumnSpec {
        keyspace: Arc::clone(&spec.keyspace),
        table: Arc::clone(&spec.table),
        name: Arc::clone(&spec.name),
        data_type: spec.data_type.clone(),
    };
    ResultMetadata::new(specs.iter().map(column).collect())
}

#[cfg(test)]
mod tests {
    use cassette_database::RowSink;
    use cassette_protocol::EncodedRows;
    use cassette_rows::DataType;

    use super::*;

    fn metadata() -> Arc<db::ResultMetadata> {
        let column = db::ColumnSpec {
            keyspace: "ks".into(),
            table: "t".into(),
            name: "v".into(),
            data_type: DataType::Text,
        };
        db::ResultMetadata::new(vec![column])
    }

    /// Returns whether the columns, and whether their new id, are sent with one row.
    fn encode(
        metadata: &Arc<db::ResultMetadata>,
        version: Version,
        wanted: MetadataWanted<'_>,
    ) -> (bool, bool) {
        let mut body = Vec::new();
        let mut sink = ResultSink::new(Body::new(&mut body), version, wanted);
        sink.begin(metadata);
        sink.value_with(&mut |buffer| buffer.extend_from_slice(b"one"));
        sink.end_row().unwrap();
        sink.finish_rows(None);
        let rows = body.strip_prefix(&[0, 0, 0, 2]).expect("the kind is Rows");
        let rows = EncodedRows::new(rows.to_vec().into(), version).decode(None).unwrap();
        assert_eq!(rows.iter().next().unwrap().next(), Some(Some(&b"one"[..])));
        (!rows.metadata.columns().is_empty(), rows.new_metadata_id.is_some_and(|id| id == metadata.id()[..]))
    }

    #[test]
    fn metadata_is_left_out_only_for_those_who_know_it() {
        let metadata = metadata();
        let known = |skip| MetadataWanted::UnlessKnown { known_id: metadata.id(), skip };
        let other = |skip| MetadataWanted::UnlessKnown { known_id: &[1; 16], skip };
        assert_eq!(encode(&metadata, Version::V4, MetadataWanted::Full), (true, false));
        assert_eq!(encode(&metadata, Version::V4, MetadataWanted::Skip), (false, false));
        assert_eq!(encode(&metadata, Version::V5, known(true)), (false, false));
        assert_eq!(encode(&metadata, Version::V5, known(false)), (true, false));
        assert_eq!(encode(&metadata, Version::V5, other(true)), (true, true));
        assert_eq!(encode(&metadata, Version::V5, other(false)), (true, true));
    }
}
