//! The compression of new SSTables.

use std::borrow::Cow;

use cassette_rows::schema::{CompressionParams, Compressor};
use cassette_sstable::compression::ChunkFormat;

use crate::basics::options::FlushCompression;

/// Returns the compression of a table's flushed SSTables.
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

/// By default, chunks that shrink by less are stored uncompressed. Data that hardly compresses is
/// then read without decompression, at the cost of at most an eighth more on disk; LevelDB and
/// RocksDB have the same rule.
const MIN_COMPRESS_RATIO: f64 = 8.0 / 7.0;

/// Returns the compression of a table's SSTables.
pub(super) fn chunk_format(params: &CompressionParams) -> Result<Option<ChunkFormat>, String> {
    let min_compress_ratio = params.min_compress_ratio.or(Some(MIN_COMPRESS_RATIO));
    ChunkFormat::from_params(&CompressionParams { min_compress_ratio, ..params.clone() })
}

/// Whether Cassandra classifies a compressor as fast.
fn is_fast(compressor: Compressor, params: &CompressionParams) -> bool {
    match compressor {
        Compressor::Lz4 => params.options.get("lz4_compressor_type").is_none_or(|kind| kind != "high"),
        Compressor::Snappy | Compressor::Noop => true,
        Compressor::Zstd | Compressor::Deflate => false,
    }
}
