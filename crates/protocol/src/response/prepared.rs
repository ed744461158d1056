//! RESULT of PREPARE.

use bytes::Bytes;

use crate::{
    ProtocolError, Version,
    metadata::{ResultMetadata, metadata_flag},
    notation::{Reader, write_int, write_short, write_short_bytes},
};

/// A statement's id, its bind markers, and the metadata of its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The id for EXECUTE; at most 65535 bytes, in practice an MD5 digest.
    pub id: Bytes,
    /// The id of `result_metadata` (v5).
    pub result_metadata_id: Option<Bytes>,
    /// The bind markers.
    pub bind_markers: ResultMetadata,
    /// The index of the bind marker for each component of the partition key. Empty if some
    /// component has none, and in v3, which does not encode it.
    pub partition_key_indexes: Vec<u16>,
    /// The columns of the result; without columns for statements that return none.
    pub result_metadata: ResultMetadata,
}

impl Prepared {
    /// `<id>[<result_metadata_id>]<metadata><result_metadata>`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let id = reader.read_short_bytes()?;
        let result_metadata_id = if version >= Version::V5 { Some(reader.read_short_bytes()?) } else { None };

        let flags = reader.read_int()?;
        let columns_count = reader.read_length("the list of bind markers")?;
        let mut partition_key_indexes = Vec::new();
        if version >= Version::V4 {
            let pk_count = reader.read_length("the list of partition key indexes")?;
            partition_key_indexes.reserve(reader.bounded(pk_count, 2));
            for _ in 0..pk_count {
                partition_key_indexes.push(reader.read_short()?);
            }
        }
        let bind_markers = ResultMetadata::decode_columns(
            reader,
            columns_count,
            flags & metadata_flag::GLOBAL_TABLES_SPEC != 0,
        )?;

        let flags = reader.read_int()?;
        let columns_count = reader.read_length("the list of result columns")?;
        let result_metadata = if flags & metadata_flag::NO_METADATA != 0 {
            ResultMetadata::default()
        } else {
            ResultMetadata::decode_columns(
                reader,
                columns_count,
                flags & metadata_flag::GLOBAL_TABLES_SPEC != 0,
            )?
        };
        Ok(Self { id, result_metadata_id, bind_markers, partition_key_indexes, result_metadata })
    }

    /// The reverse of [`Prepared::decode`].
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_short_bytes(&self.id, buffer);
        if version >= Version::V5 {
            write_short_bytes(self.result_metadata_id.as_deref().unwrap_or_default(), buffer);
        }

        let bind_markers = self.bind_markers.encoded(version);
        write_int(bind_markers.flags(), buffer);
        write_int(bind_markers.count(), buffer);
        if version >= Version::V4 {
            // Indexes would be misleading if the markers belong to several tables.
            let indexes =
                if bind_markers.has_global_table() { self.partition_key_indexes.as_slice() } else { &[] };
            write_int(indexes.len() as i32, buffer);
            for index in indexes {
                write_short(*index, buffer);
            }
        }
        buffer.extend_from_slice(bind_markers.specs());

        let result_metadata = self.result_metadata.encoded(version);
        write_int(result_metadata.flags_or_no_metadata(), buffer);
        write_int(result_metadata.count(), buffer);
        buffer.extend_from_slice(result_metadata.specs());
    }
}
