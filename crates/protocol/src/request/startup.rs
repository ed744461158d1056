//! STARTUP.

use crate::{
    Compression, ProtocolError, Version,
    notation::{Reader, write_string_map},
};

/// Opens a connection: must be its first message, except for OPTIONS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Startup {
    /// The options by their upper-case names.
    pub options: Vec<(String, String)>,
}

impl Startup {
    /// Option: the CQL version, mandatory.
    pub const CQL_VERSION: &'static str = "CQL_VERSION";
    /// Option: the compression algorithm.
    pub const COMPRESSION: &'static str = "COMPRESSION";
    /// Option of SUPPORTED only: the protocol versions.
    pub const PROTOCOL_VERSIONS: &'static str = "PROTOCOL_VERSIONS";
    /// Option: the name of the driver.
    pub const DRIVER_NAME: &'static str = "DRIVER_NAME";
    /// Option: the driver's version.
    pub const DRIVER_VERSION: &'static str = "DRIVER_VERSION";
    /// Option: `1` if the client prefers an Overloaded error to back-pressure.
    pub const THROW_ON_OVERLOAD: &'static str = "THROW_ON_OVERLOAD";

    /// Returns the value of the option with this upper-case name. The last one wins.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Checks that the CQL version is present and at least 3.
    pub fn check_cql_version(&self) -> Result<(), ProtocolError> {
        let cql_version = self
            .option(Self::CQL_VERSION)
            .ok_or_else(|| ProtocolError::Invalid("Missing value CQL_VERSION in STARTUP message".into()))?;
        let major = cql_version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(3..) => Ok(()),
            Some(_) => Err(ProtocolError::Invalid(format!(
                "CQL version {cql_version} is not supported by the binary protocol (supported version are >= 3.0.0)"
            ))),
            None => Err(ProtocolError::Invalid(format!("Invalid version value: {cql_version}"))),
        }
    }

    /// Returns the requested compression, checked against `version`.
    pub fn compression(&self, version: Version) -> Result<Option<Compression>, ProtocolError> {
        match self.option(Self::COMPRESSION).map(Compression::from_name).transpose()? {
            Some(Compression::Snappy) if version >= Version::V5 => {
                Err(ProtocolError::Invalid("Snappy compression is not supported in protocol V5".into()))
            }
            compression => Ok(compression),
        }
    }

    /// \[string map\]; keys can be in any case.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let mut options = reader.read_string_map()?;
        for (key, _) in &mut options {
            *key = key.to_uppercase();
        }
        Ok(Self { options })
    }

    /// The reverse of [`Startup::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_string_map(&self.options, buffer);
    }
}
