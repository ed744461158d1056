//! ERROR.

use std::{fmt, net::IpAddr};

use bytes::Bytes;

use crate::{
    Consistency, ProtocolError, Version,
    consistency::{read_consistency, write_consistency},
    notation::{
        Reader, write_byte, write_inetaddr, write_int, write_short, write_short_bytes, write_string,
        write_string_list,
    },
};

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The error's code, with its specific fields.
    pub detail: ErrorDetail,
    /// The message for the user.
    pub message: String,
}

/// The error codes, each with its specific fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants and fields are the specification's names")]
pub enum ErrorDetail {
    /// An unexpected error: a bug of the server.
    ServerError,
    /// The client has violated the protocol.
    ProtocolError,
    /// Authentication failed.
    BadCredentials,
    Unavailable {
        consistency: Consistency,
        required: i32,
        alive: i32,
    },
    Overloaded,
    IsBootstrapping,
    TruncateError,
    WriteTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        write_type: WriteType,
        /// The number of competing conditional writes; sent from v5 on with [`WriteType::Cas`].
        contentions: u16,
    },
    ReadTimeout {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        data_present: bool,
    },
    ReadFailure {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        failures: Failures,
        data_present: bool,
    },
    FunctionFailure {
        keyspace: String,
        function: String,
        arg_types: Vec<String>,
    },
    WriteFailure {
        consistency: Consistency,
        received: i32,
        block_for: i32,
        failures: Failures,
        write_type: WriteType,
    },
    CdcWriteFailure,
    CasWriteUnknown {
        consistency: Consistency,
        received: i32,
        block_for: i32,
    },
    SyntaxError,
    Unauthorized,
    /// The statement is valid but cannot be executed.
    Invalid,
    ConfigError,
    AlreadyExists {
        keyspace: String,
        /// Empty if it is the keyspace that exists.
        table: String,
    },
    /// No statement with this id is prepared: the client must prepare it again.
    Unprepared {
        id: Bytes,
    },
}

/// The replicas that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failures {
    /// Their number, which is all that v4 supports.
    Count(i32),
    /// Their addresses and the reasons (v5), by `RequestFailureReason`'s codes.
    Reasons(Vec<(IpAddr, u16)>),
}

/// The kind of a failed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum WriteType {
    Simple,
    Batch,
    UnloggedBatch,
    Counter,
    BatchLog,
    Cas,
    View,
    Cdc,
}

impl WriteType {
    const ALL: [Self; 8] = [
        Self::Simple,
        Self::Batch,
        Self::UnloggedBatch,
        Self::Counter,
        Self::BatchLog,
        Self::Cas,
        Self::View,
        Self::Cdc,
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Counter => "COUNTER",
            Self::BatchLog => "BATCH_LOG",
            Self::Cas => "CAS",
            Self::View => "VIEW",
            Self::Cdc => "CDC",
        }
    }

    /// Returns the write type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|write_type| write_type.name() == name)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let name = reader.read_string()?;
        Self::from_name(name)
            .ok_or_else(|| ProtocolError::Invalid(format!("Invalid value '{name}' for WriteType")))
    }
}

impl Failures {
    fn count(&self) -> i32 {
        match self {
            Self::Count(count) => *count,
            Self::Reasons(reasons) => reasons.len() as i32,
        }
    }

    fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        if version < Version::V5 {
            return Ok(Self::Count(reader.read_int()?));
        }
        let count = reader.read_length("the map of failure reasons")?;
        // The shortest entry: an IPv4 address with its size, and a reason.
        let mut reasons = Vec::with_capacity(reader.bounded(count, 7));
        for _ in 0..count {
            reasons.push((reader.read_inetaddr()?, reader.read_short()?));
        }
        Ok(Self::Reasons(reasons))
    }

    fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        if version < Version::V5 {
            return write_int(self.count(), buffer);
        }
        let reasons = match self {
            Self::Count(_) => &[][..],
            Self::Reasons(reasons) => reasons,
        };
        write_int(reasons.len() as i32, buffer);
        for (address, reason) in reasons {
            write_inetaddr(*address, buffer);
            write_short(*reason, buffer);
        }
    }
}

impl ErrorDetail {
    /// The error code on the wire.
    pub fn code(&self) -> i32 {
        match self {
            Self::ServerError => 0x0000,
            Self::ProtocolError => 0x000A,
            Self::BadCredentials => 0x0100,
            Self::Unavailable { .. } => 0x1000,
            Self::Overloaded => 0x1001,
            Self::IsBootstrapping => 0x1002,
            Self::TruncateError => 0x1003,
            Self::WriteTimeout { .. } => 0x1100,
            Self::ReadTimeout { .. } => 0x1200,
            Self::ReadFailure { .. } => 0x1300,
            Self::FunctionFailure { .. } => 0x1400,
            Self::WriteFailure { .. } => 0x1500,
            Self::CdcWriteFailure => 0x1600,
            Self::CasWriteUnknown { .. } => 0x1700,
            Self::SyntaxError => 0x2000,
            Self::Unauthorized => 0x2100,
            Self::Invalid => 0x2200,
            Self::ConfigError => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
            Self::Unprepared { .. } => 0x2500,
        }
    }

    /// Returns the nearest error that `version` supports, if it does not support this one.
    fn for_version(&self, version: Version) -> Option<Self> {
        match self {
            Self::ReadFailure { consistency, received, block_for, data_present, .. }
                if version < Version::V4 =>
            {
                Some(Self::ReadTimeout {
                    consistency: *consistency,
                    received: *received,
                    block_for: *block_for,
                    data_present: *data_present,
                })
            }
            Self::WriteFailure { consistency, received, block_for, write_type, .. }
                if version < Version::V4 =>
            {
                Some(Self::WriteTimeout {
                    consistency: *consistency,
                    received: *received,
                    block_for: *block_for,
                    write_type: *write_type,
                    contentions: 0,
                })
            }
            Self::FunctionFailure { .. } | Self::CdcWriteFailure if version < Version::V4 => {
                Some(Self::Invalid)
            }
            Self::CasWriteUnknown { consistency, received, block_for } if version < Version::V5 => {
                Some(Self::WriteTimeout {
                    consistency: *consistency,
                    received: *received,
                    block_for: *block_for,
                    write_type: WriteType::Cas,
                    contentions: 0,
                })
            }
            _ => None,
        }
    }

    fn decode(code: i32, reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        Ok(match code {
            0x0000 => Self::ServerError,
            0x000A => Self::ProtocolError,
            0x0100 => Self::BadCredentials,
            0x1000 => Self::Unavailable {
                consistency: read_consistency(reader)?,
                required: reader.read_int()?,
                alive: reader.read_int()?,
            },
            0x1001 => Self::Overloaded,
            0x1002 => Self::IsBootstrapping,
            0x1003 => Self::TruncateError,
            0x1100 => {
                let consistency = read_consistency(reader)?;
                let received = reader.read_int()?;
                let block_for = reader.read_int()?;
                let write_type = WriteType::decode(reader)?;
                let has_contentions = version >= Version::V5 && write_type == WriteType::Cas;
                let contentions = if has_contentions { reader.read_short()? } else { 0 };
                Self::WriteTimeout { consistency, received, block_for, write_type, contentions }
            }
            0x1200 => Self::ReadTimeout {
                consistency: read_consistency(reader)?,
                received: reader.read_int()?,
                block_for: reader.read_int()?,
                data_present: reader.read_byte()? != 0,
            },
            0x1300 => Self::ReadFailure {
                consistency: read_consistency(reader)?,
                received: reader.read_int()?,
                block_for: reader.read_int()?,
                failures: Failures::decode(reader, version)?,
                data_present: reader.read_byte()? != 0,
            },
            0x1400 => Self::FunctionFailure {
                keyspace: reader.read_string()?.to_owned(),
                function: reader.read_string()?.to_owned(),
                arg_types: reader.read_string_list()?,
            },
            0x1500 => Self::WriteFailure {
                consistency: read_consistency(reader)?,
                received: reader.read_int()?,
                block_for: reader.read_int()?,
                failures: Failures::decode(reader, version)?,
                write_type: WriteType::decode(reader)?,
            },
            0x1600 => Self::CdcWriteFailure,
            0x1700 => Self::CasWriteUnknown {
                consistency: read_consistency(reader)?,
                received: reader.read_int()?,
                block_for: reader.read_int()?,
            },
            0x2000 => Self::SyntaxError,
            0x2100 => Self::Unauthorized,
            0x2200 => Self::Invalid,
            0x2300 => Self::ConfigError,
            0x2400 => Self::AlreadyExists {
                keyspace: reader.read_string()?.to_owned(),
                table: reader.read_string()?.to_owned(),
            },
            0x2500 => Self::Unprepared { id: reader.read_short_bytes()? },
            other => return Err(ProtocolError::Invalid(format!("Unknown error code {other}"))),
        })
    }

    fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        let write_counts = |consistency: &Consistency, first: &i32, second: &i32, buffer: &mut Vec<u8>| {
            write_consistency(*consistency, buffer);
            write_int(*first, buffer);
            write_int(*second, buffer);
        };
        match self {
            Self::Unavailable { consistency, required, alive } => {
                write_counts(consistency, required, alive, buffer);
            }
            Self::WriteTimeout { consistency, received, block_for, write_type, contentions } => {
                write_counts(consistency, received, block_for, buffer);
                write_string(write_type.name(), buffer);
                if version >= Version::V5 && *write_type == WriteType::Cas {
                    write_short(*contentions, buffer);
                }
            }
            Self::ReadTimeout { consistency, received, block_for, data_present } => {
                write_counts(consistency, received, block_for, buffer);
                write_byte(u8::from(*data_present), buffer);
            }
            Self::ReadFailure { consistency, received, block_for, failures, data_present } => {
                write_counts(consistency, received, block_for, buffer);
                failures.encode(version, buffer);
                write_byte(u8::from(*data_present), buffer);
            }
            Self::FunctionFailure { keyspace, function, arg_types } => {
                write_string(keyspace, buffer);
                write_string(function, buffer);
                write_string_list(arg_types, buffer);
            }
            Self::WriteFailure { consistency, received, block_for, failures, write_type } => {
                write_counts(consistency, received, block_for, buffer);
                failures.encode(version, buffer);
                write_string(write_type.name(), buffer);
            }
            Self::CasWriteUnknown { consistency, received, block_for } => {
                write_counts(consistency, received, block_for, buffer);
            }
            Self::AlreadyExists { keyspace, table } => {
                write_string(keyspace, buffer);
                write_string(table, buffer);
            }
            Self::Unprepared { id } => write_short_bytes(id, buffer),
            Self::ServerError
            | Self::ProtocolError
            | Self::BadCredentials
            | Self::Overloaded
            | Self::IsBootstrapping
            | Self::TruncateError
            | Self::CdcWriteFailure
            | Self::SyntaxError
            | Self::Unauthorized
            | Self::Invalid
            | Self::ConfigError => {}
        }
    }
}

impl Error {
    /// Creates an error with this code and message.
    pub fn new(detail: ErrorDetail, message: impl Into<String>) -> Self {
        Self { detail, message: message.into() }
    }

    /// `<code><message>…`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let code = reader.read_int()?;
        let message = reader.read_string()?.to_owned();
        Ok(Self { detail: ErrorDetail::decode(code, reader, version)?, message })
    }

    /// The reverse of [`Error::decode`]. An error that `version` does not support becomes the
    /// nearest one.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        let replaced = self.detail.for_version(version);
        let detail = replaced.as_ref().unwrap_or(&self.detail);
        write_int(detail.code(), buffer);
        write_string(&self.message, buffer);
        detail.encode(version, buffer);
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}: {}", self.detail.code(), self.message)
    }
}

impl std::error::Error for Error {}

/// The ERROR that answers a message with this error.
impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Self {
        let detail = match &error {
            ProtocolError::TooLong { .. } => ErrorDetail::Invalid,
            ProtocolError::Overloaded(_) => ErrorDetail::Overloaded,
            ProtocolError::ResponseTooLong { .. } => ErrorDetail::ServerError,
            _ => ErrorDetail::ProtocolError,
        };
        Self::new(detail, error.to_string())
    }
}
