//! SUPPORTED.

use crate::{
    Compression, ProtocolError, Version,
    notation::{Reader, write_string_multimap},
    request::Startup,
};

/// The options that STARTUP supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supported {
    /// The supported values of each option.
    pub options: Vec<(String, Vec<String>)>,
}

impl Supported {
    /// Returns the options of this crate, with this CQL version.
    pub fn with_cql_version(cql_version: &str) -> Self {
        let versions = Version::SUPPORTED.map(|version| version.to_string()).to_vec();
        let compressions = Compression::ALL.map(|compression| compression.name().to_owned()).to_vec();
        Self {
            options: vec![
                (Startup::PROTOCOL_VERSIONS.to_owned(), versions),
                (Startup::COMPRESSION.to_owned(), compressions),
                (Startup::CQL_VERSION.to_owned(), vec![cql_version.to_owned()]),
            ],
        }
    }

    /// \[string multimap\]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self { options: reader.read_string_multimap()? })
    }

    /// The reverse of [`Supported::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_string_multimap(&self.options, buffer);
    }
}
