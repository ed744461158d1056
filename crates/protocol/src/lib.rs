//! The CQL native protocol, versions 3, 4 and 5, message by message; no I/O.
//!
//! ```text
//! bytes off a socket -> Decoder -> Envelope -> Request::decode  -> DecodedRequest
//! bytes to a socket  <- Encoder <- Response::encode, or RowsEncoder straight into the Encoder's buffer
//! ```
//!
//! Both directions are implemented for both sides: a server decodes requests and encodes responses,
//! a client the reverse. Decoded messages share the memory of their input; encoded ones are
//! appended to one buffer. Every length that a peer announces is checked before an allocation.
//!
//! Sources: `native_protocol_v4.spec` and `native_protocol_v5.spec` of Apache Cassandra, and the
//! behaviour of `org.apache.cassandra.transport` in Cassandra 5.0.8 where they are silent.

mod compression;
mod consistency;
pub mod crc;
mod data_type;
pub mod decoder;
mod encoder;
mod envelope;
mod error;
pub mod frame;
mod metadata;
pub mod notation;
mod opcode;
mod query_parameters;
pub mod request;
pub mod response;
mod rows;
mod value;
mod version;

pub use bytestring::ByteString as Text;
pub use cassette_rows::Consistency;
pub use compression::Compression;
pub use decoder::{Decoded, Decoder, MESSAGE_LENGTH_MAX_DEFAULT, Rejected};
pub use encoder::{Begun, Encoder};
pub use envelope::{Envelope, Flags, Header, RejectedHeader};
pub use error::ProtocolError;
pub use frame::FrameFormat;
pub use metadata::{ColumnSpec, ResultMetadata};
pub use opcode::{Direction, Opcode};
pub use query_parameters::QueryParameters;
pub use request::{DecodedRequest, Request};
pub use response::{Prelude, Response, ResultKind, ResultMessage};
pub use rows::{Cells, EncodedRows, MetadataMode, Rows, RowsEncoder, RowsIter};
pub use value::{Value, Values};
pub use version::Version;
