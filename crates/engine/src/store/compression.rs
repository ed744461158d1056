//! How new SSTables are compressed.

use std::borrow::Cow;

use cassette_rows::schema::{CompressionParams, Compressor};
use cassette_sstable::compression::ChunkFormat;

use crate::basics::options::FlushCompression;

/// How a table's first SSTables are compressed.
pub(crate) fn flush_compression(
    params: &CompressionParams,
    flush: FlushCompression,
) -> Cow<'_, CompressionParams> {
    match (flush, params.compressor) {
        (FlushCompression::None, Some(_)) => {
            Cow::Owned(CompressionParams { compressor: None, ..params.clone() })
        }
        (FlushCompression::Fast, Some(compressor)) if !is_fast(compressor, params) => {
            Cow::Owned(CompressionParams::default())
        }
        _ => Cow::Borrowed(params),
    }
}

/// Chunks that shrink by less are stored raw where the table does not say. What hardly compresses
/// is then read without being decompressed, for an eighth more on disk at most; LevelDB and RocksDB
/// have the same rule.
const MIN_COMPRESS_RATIO: f64 = 8.0 / 7.0;

/// How the table's options have its SSTables compressed.
pub(super) fn chunk_format(params: &CompressionParams) -> Result<Option<ChunkFormat>, String> {
    let min_compress_ratio = params.min_compress_ratio.or(Some(MIN_COMPRESS_RATIO));
    ChunkFormat::from_params(&CompressionParams { min_compress_ratio, ..params.clone() })
}

/// Whether Cassandra calls a compressor fast.
fn is_fast(compressor: Compressor, params: &CompressionParams) -> bool {
    match compressor {
        Compressor::Lz4 => params.options.get("lz4_compressor_type").is_none_or(|kind| kind != "high"),
        Compressor::Snappy | Compressor::Noop => true,
        Compressor::Zstd | Compressor::Deflate => false,
    }
}
