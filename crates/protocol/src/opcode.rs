//! The kinds of messages, and who sends them.

use std::fmt;

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From client to server.
    Request,
    /// From server to client.
    Response,
}

/// Writes the text of error messages.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "REQUEST",
            Self::Response => "RESPONSE",
        })
    }
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
#[repr(u8)]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
    /// Returns the opcode with this number. 0x04 was CREDENTIALS in v1 and is unknown since.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0x00 => Self::Error,
            0x01 => Self::Startup,
            0x02 => Self::Ready,
            0x03 => Self::Authenticate,
            0x05 => Self::Options,
            0x06 => Self::Supported,
            0x07 => Self::Query,
            0x08 => Self::Result,
            0x09 => Self::Prepare,
            0x0A => Self::Execute,
            0x0B => Self::Register,
            0x0C => Self::Event,
            0x0D => Self::Batch,
            0x0E => Self::AuthChallenge,
            0x0F => Self::AuthResponse,
            0x10 => Self::AuthSuccess,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the direction of messages of this kind.
    pub fn direction(self) -> Direction {
        match self {
            Self::Startup
            | Self::Options
            | Self::Query
            | Self::Prepare
            | Self::Execute
            | Self::Register
            | Self::Batch
            | Self::AuthResponse => Direction::Request,
            Self::Error
            | Self::Ready
            | Self::Authenticate
            | Self::Supported
            | Self::Result
            | Self::Event
            | Self::AuthChallenge
            | Self::AuthSuccess => Direction::Response,
        }
    }
}

/// The specification's name, such as `AUTH_RESPONSE`.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "ERROR",
            Self::Startup => "STARTUP",
            Self::Ready => "READY",
            Self::Authenticate => "AUTHENTICATE",
            Self::Options => "OPTIONS",
            Self::Supported => "SUPPORTED",
            Self::Query => "QUERY",
            Self::Result => "RESULT",
            Self::Prepare => "PREPARE",
            Self::Execute => "EXECUTE",
            Self::Register => "REGISTER",
            Self::Event => "EVENT",
            Self::Batch => "BATCH",
            Self::AuthChallenge => "AUTH_CHALLENGE",
            Self::AuthResponse => "AUTH_RESPONSE",
            Self::AuthSuccess => "AUTH_SUCCESS",
        })
    }
}
