//! How chunks of Data are compressed, and CompressionInfo.db, which says so.

mod compressor;
mod info;

pub use compressor::{Compressor, Workspace};
pub(crate) use info::CHUNK_CRC_LENGTH;
pub use info::{CompressionInfo, StoredChunk};

use cassette_rows::schema::CompressionParams;

/// The largest chunk length that is believed: Cassandra takes any power of two, people use up to 1 MiB.
const MAX_CHUNK_LENGTH: u32 = 64 << 20;

/// How an SSTable's Data is cut into chunks and these are compressed.
///
/// Cassandra writes fresh files of slow compressors with LZ4 first (`flush_compression: fast`); that is the choice
/// of whoever makes this.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkFormat {
    /// The algorithm.
    pub compressor: Compressor,
    /// Its options as CompressionInfo.db lists them; the compressor has been made from them.
    pub options: Vec<(String, String)>,
    /// Bytes of the stream in a chunk, a power of two.
    pub chunk_length: u32,
    /// A chunk that does not get below this is stored raw; `i32::MAX` if every chunk is compressed.
    pub max_compressed_length: i32,
}

impl ChunkFormat {
    /// What a table's options ask for; `None` if they switch compression off. The error is a sentence for people.
    pub fn from_params(params: &CompressionParams) -> Result<Option<Self>, String> {
        let Some(compressor) = params.compressor else { return Ok(None) };
        let length = params.chunk_length;
        if !length.is_power_of_two() || length > MAX_CHUNK_LENGTH {
            return Err(format!("chunk length {length}: a power of two up to {MAX_CHUNK_LENGTH} expected"));
        }
        let max_compressed_length = match params.min_compress_ratio {
            // As a cast in Java: what does not fit becomes the largest number.
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
