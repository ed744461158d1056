//! Data.db: the encoding of partitions, rows and cells, and cursors over its chunks.

mod cursor;
mod decode;
pub mod deletion_codec;
mod encode;
mod flags;
pub mod message;
mod probe;
pub mod row_format;

pub use cursor::{Cursor, Pending};
pub use decode::Head;
pub use encode::{RowEncoder, WrongWidth};
pub use probe::Probed;
pub use row_format::RowFormat;
