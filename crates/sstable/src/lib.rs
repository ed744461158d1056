//! Cassandra's SSTable files, version `nb` of the BIG format: read, written, verified.
//!
//! One module per component, each working on bytes alone; [`reader`] and [`writer`] put them together over a file
//! system. All fields are big-endian but for those that their drawings call little-endian (LZ4's length, and offsets
//! and positions in Summary.db): never change that, the files are Cassandra's.

pub mod compression;
pub mod crc;
pub mod data;
pub mod descriptor;
pub mod digest;
pub mod error;
pub mod filter;
pub mod index;
pub mod input;
pub mod output;
pub mod statistics;
pub mod summary;
pub mod toc;

pub use descriptor::{Component, Descriptor, SSTableId};
