//! Data.db: partitions, rows and cells as bytes, and the chunks that these bytes are read in.

pub mod clustering_codec;
mod cursor;
mod decode;
pub mod deletion_codec;
mod encode;
mod flags;
pub mod row_format;

pub use cursor::{Cursor, Pending};
pub use decode::Head;
pub use encode::{RowEncoder, WrongWidth};
pub use row_format::RowFormat;
