//! Compression of Data's chunks, and CompressionInfo.db, which describes it.

mod compressor;
mod info;

pub use compressor::{Compressor, Workspace};
pub(crate) use info::CHUNK_CRC_LENGTH;
pub use info::{CompressionInfo, StoredChunk};

use cassette_rows::schema::CompressionParams;

/// The largest accepted chunk length: Cassandra accepts any power of two, 1 MiB is the largest in
/// practice.
const MAX_CHUNK_LENGTH: u32 = 64 << 20;

/// The chunk length and compression of an SSTable's Data.
///
/// Cassandra writes new files of slow compressors with LZ4 first (`flush_compression: fast`); the
/// caller makes that choice.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkFormat {
    /// The algorithm.
    pub compressor: Compressor,
    /// Its options in CompressionInfo.db, from which the compressor was created.
    pub options: Vec<(String, String)>,
    /// Bytes of the stream per chunk, a power of two.
    pub chunk_length: u32,
    /// A chunk that is not compressed below this length is stored raw; `i32::MAX` if every chunk is
    /// compressed.
    pub max_compressed_length: i32,
}

impl ChunkFormat {
    /// Returns the format of a table's options; `None` if they disable compression. The error is a
    /// text for users.
    pub fn from_params(params: &CompressionParams) -> Result<Option<Self>, String> {
        let Some(compressor) = params.compressor else { return Ok(None) };
        let length = params.chunk_length;
        if !length.is_power_of_two() || length > MAX_CHUNK_LENGTH {
            return Err(format!("chunk length {length}: a power of two up to {MAX_CHUNK_LENGTH} expected"));
        }
        let max_compressed_length = match params.min_compress_ratio {
            // Saturates, like a cast in Java.
            Some(ratio) if ratio > 0.0 => (f64::from(length) / ratio).ceil() as i32,
            _ => i32::MAX,
        };
        let options = params.options.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        Ok(Some(Self {
            compressor: Compressor::from_class(compressor.class_name(), options)?,
            options: params.options.clone().into_iter().collect(),
            chunk_length: length,
            max_compressed_length,
        }))
    }
}
