//! Consistency levels on the wire.

use cassette_rows::Consistency;

use crate::{
    ProtocolError,
    notation::{Reader, write_short},
};

/// \[consistency\]
pub(crate) fn read_consistency(reader: &mut Reader<'_>) -> Result<Consistency, ProtocolError> {
    let code = reader.read_short()?;
    Consistency::from_number(code)
        .ok_or_else(|| ProtocolError::Invalid(format!("Unknown code {code} for a consistency level")))
}

/// \[consistency\]
pub(crate) fn write_consistency(consistency: Consistency, buffer: &mut Vec<u8>) {
    write_short(consistency as u16, buffer);
}
