//! The optional parts before the message in a response's body, each announced by a flag of the
//! header.

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    Flags, ProtocolError, Version,
    notation::{Reader, write_bytes_map, write_string_list, write_uuid},
};

/// `[<tracing_id>][<warnings>][<custom_payload>]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prelude {
    /// The session that traced the request.
    pub tracing_id: Option<Uuid>,
    /// Warnings for the user of a successful request (v4 and later).
    pub warnings: Vec<String>,
    /// Data of a custom query handler (v4 and later).
    pub custom_payload: Vec<(String, Option<Bytes>)>,
}

impl Prelude {
    /// Returns the flags of the present parts.
    pub(crate) fn flags(&self, version: Version) -> Flags {
        let mut flags = Flags::default();
        if self.tracing_id.is_some() {
            flags = flags.with(Flags::TRACING);
        }
        if !self.warnings.is_empty() && version >= Version::V4 {
            flags = flags.with(Flags::WARNING);
        }
        if !self.custom_payload.is_empty() && version >= Version::V4 {
            flags = flags.with(Flags::CUSTOM_PAYLOAD);
        }
        flags
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, flags: Flags) -> Result<Self, ProtocolError> {
        let mut prelude = Self::default();
        if flags.contains(Flags::TRACING) {
            prelude.tracing_id = Some(reader.read_uuid()?);
        }
        if flags.contains(Flags::WARNING) {
            prelude.warnings = reader.read_string_list()?;
        }
        if flags.contains(Flags::CUSTOM_PAYLOAD) {
            prelude.custom_payload = reader.read_bytes_map()?;
        }
        Ok(prelude)
    }

    pub(crate) fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        let flags = self.flags(version);
        if let Some(tracing_id) = self.tracing_id {
            write_uuid(tracing_id, buffer);
        }
        if flags.contains(Flags::WARNING) {
            write_string_list(&self.warnings, buffer);
        }
        if flags.contains(Flags::CUSTOM_PAYLOAD) {
            write_bytes_map(&self.custom_payload, buffer);
        }
    }
}
