//! Data.db: partitions, rows and cells as bytes, and the chunks that these bytes are read in.

pub mod clustering_codec;
pub mod deletion_codec;
