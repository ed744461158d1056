//! The parameters of QUERY, EXECUTE and BATCH.

use bytes::Bytes;

use crate::{
    Consistency, ProtocolError, Values, Version,
    consistency::{read_consistency, write_consistency},
    notation::{Reader, write_byte, write_bytes, write_int, write_long, write_string},
};

/// The bits of `<flags>` in the query parameters: a \[byte\] in v3 and v4, an \[int\] in v5.
mod flag {
    pub const VALUES: u32 = 0x01;
    pub const SKIP_METADATA: u32 = 0x02;
    pub const PAGE_SIZE: u32 = 0x04;
    pub const WITH_PAGING_STATE: u32 = 0x08;
    pub const WITH_SERIAL_CONSISTENCY: u32 = 0x10;
    pub const WITH_DEFAULT_TIMESTAMP: u32 = 0x20;
    pub const WITH_NAMES_FOR_VALUES: u32 = 0x40;
    pub const WITH_KEYSPACE: u32 = 0x80;
    pub const WITH_NOW_IN_SECONDS: u32 = 0x100;
}

/// `<query_parameters>`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryParameters {
    /// The requested consistency level.
    pub consistency: Consistency,
    /// The bound values. Empty in a BATCH, whose statements have their own.
    pub values: Values,
    /// Whether the result may omit its metadata.
    pub skip_metadata: bool,
    /// The maximum number of rows per page; negative means no paging. Zero is rejected, as in
    /// Cassandra.
    pub page_size: Option<i32>,
    /// The start of the page, from an earlier page.
    pub paging_state: Option<Bytes>,
    /// The level of the serial phase of a conditional statement. Not checked here.
    pub serial_consistency: Option<Consistency>,
    /// Write time in microseconds for statements without one; never `i64::MIN`.
    pub timestamp: Option<i64>,
    /// The keyspace for unqualified names, instead of the connection's (v5).
    pub keyspace: Option<String>,
    /// The present time for expiration, in seconds since the epoch (v5).
    pub now_in_seconds: Option<u32>,
}

impl QueryParameters {
    /// Decodes `<consistency><flags>…`.
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let consistency = read_consistency(reader)?;
        let flags =
            if version >= Version::V5 { reader.read_int()? as u32 } else { u32::from(reader.read_byte()?) };
        let has = |flag| flags & flag != 0;
        let mut parameters = Self { consistency, skip_metadata: has(flag::SKIP_METADATA), ..Self::default() };
        if has(flag::VALUES) {
            parameters.values = Values::decode(reader, version, has(flag::WITH_NAMES_FOR_VALUES))?;
        }
        if has(flag::PAGE_SIZE) {
            let page_size = reader.read_int()?;
            if page_size == 0 {
                return Err(ProtocolError::Invalid("The page size cannot be 0".into()));
            }
            parameters.page_size = Some(page_size);
        }
        if has(flag::WITH_PAGING_STATE) {
            parameters.paging_state = reader.read_bytes_shared()?;
        }
        if has(flag::WITH_SERIAL_CONSISTENCY) {
            parameters.serial_consistency = Some(read_consistency(reader)?);
        }
        if has(flag::WITH_DEFAULT_TIMESTAMP) {
            let timestamp = reader.read_long()?;
            if timestamp == i64::MIN {
                return Err(ProtocolError::Invalid(format!(
                    "Out of bound timestamp, must be in [{}, {}] (got {timestamp})",
                    i64::MIN + 1,
                    i64::MAX
                )));
            }
            parameters.timestamp = Some(timestamp);
        }
        if has(flag::WITH_KEYSPACE) {
            parameters.keyspace = Some(reader.read_string()?.to_owned());
        }
        if has(flag::WITH_NOW_IN_SECONDS) {
            parameters.now_in_seconds = Some(reader.read_int()? as u32);
        }
        Ok(parameters)
    }

    /// The reverse of [`QueryParameters::decode`]. Before v5 `keyspace` and `now_in_seconds` cannot
    /// be encoded and are omitted.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        let is_v5 = version >= Version::V5;
        let keyspace = self.keyspace.as_deref().filter(|_| is_v5);
        let now_in_seconds = self.now_in_seconds.filter(|_| is_v5);
        let flags = [
            (flag::VALUES, !self.values.is_empty()),
            (flag::SKIP_METADATA, self.skip_metadata),
            (flag::PAGE_SIZE, self.page_size.is_some()),
            (flag::WITH_PAGING_STATE, self.paging_state.is_some()),
            (flag::WITH_SERIAL_CONSISTENCY, self.serial_consistency.is_some()),
            (flag::WITH_DEFAULT_TIMESTAMP, self.timestamp.is_some()),
            (flag::WITH_NAMES_FOR_VALUES, self.values.are_named()),
            (flag::WITH_KEYSPACE, keyspace.is_some()),
            (flag::WITH_NOW_IN_SECONDS, now_in_seconds.is_some()),
        ];
        let flags = flags.into_iter().filter(|(_, set)| *set).fold(0, |flags, (flag, _)| flags | flag);

        write_consistency(self.consistency, buffer);
        if is_v5 {
            write_int(flags as i32, buffer);
        } else {
            write_byte(flags as u8, buffer);
        }
        if !self.values.is_empty() {
            self.values.encode(buffer);
        }
        if let Some(page_size) = self.page_size {
            write_int(page_size, buffer);
        }
        if let Some(paging_state) = &self.paging_state {
            write_bytes(Some(paging_state), buffer);
        }
        if let Some(serial_consistency) = self.serial_consistency {
            write_consistency(serial_consistency, buffer);
        }
        if let Some(timestamp) = self.timestamp {
            write_long(timestamp, buffer);
        }
        if let Some(keyspace) = keyspace {
            write_string(keyspace, buffer);
        }
        if let Some(now_in_seconds) = now_in_seconds {
            write_int(now_in_seconds as i32, buffer);
        }
    }
}
