//! Cassandra's SSTable files: versions `ma` to `nb`, `oa` and `da` are read and verified, `nb` is
//! written.
//!
//! One module per component, each working on bytes alone; [`reader`] and [`writer`] combine them
//! over a file system. All fields are big-endian except for those that their drawings call
//! little-endian (LZ4's length, and offsets and positions in Summary.db): never change that, the
//! files are Cassandra's.

pub mod checksums;
pub mod chunk_cache;
pub mod chunked_file;
pub mod clustering_codec;
pub mod compression;
pub mod crc;
pub mod data;
pub mod deletions;
mod derived_index;
pub mod descriptor;
pub mod digest;
pub mod dump;
pub mod error;
pub mod filter;
pub mod header_schema;
pub mod index;
pub mod input;
pub mod key_cache;
mod large_partition;
mod line_filter;
pub mod output;
mod passage;
mod read_ahead;
pub mod reader;
mod row_filter;
pub mod row_index_reads;
mod row_marks;
pub mod scrub;
pub mod statistics;
pub mod summary;
pub mod toc;
mod token_search;
mod verify;
mod verify_values;
pub mod waiting;
pub mod writer;

pub use chunk_cache::ChunkCache;
pub use chunked_file::Caching;
pub use descriptor::{Component, Descriptor, SSTableId, Version};
pub use key_cache::KeyCache;
pub use large_partition::PartitionPlace;
pub use reader::{Fingerprint, ForeignFiles, OpenOptions, SSTableReader};
pub use verify::Verified;
pub use writer::{EncodingStats, FinishedSSTable, SSTableWriter, WriterOptions};
