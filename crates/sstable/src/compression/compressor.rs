//! The compressors, one chunk at a time.

use std::io::{Read, Write};

/// The algorithm of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compressor {
    /// `LZ4Compressor`: u32 **little-endian** plain length, then an LZ4 block.
    ///
    /// `high` is the level of `lz4_compressor_type: high`: smaller blocks, slower to compress and
    /// as fast to read.
    Lz4 {
        /// `lz4_high_compressor_level`, if the type is `high`.
        high: Option<u8>,
    },
    /// `SnappyCompressor`: the raw Snappy format, which begins with its own length.
    Snappy,
    /// `ZstdCompressor`: one frame.
    Zstd {
        /// `compression_level`; 3 by default.
        level: i32,
    },
    /// `DeflateCompressor`: a zlib stream.
    Deflate,
    /// `NoopCompressor`: the plain bytes, with the checksum of a compressed chunk.
    Noop,
}

/// The level that Cassandra's ZstdCompressor has without an option.
const ZSTD_DEFAULT_LEVEL: i32 = 3;
/// The level of `lz4_compressor_type: high` without an option.
const LZ4_HIGH_DEFAULT_LEVEL: u8 = 9;

impl Compressor {
    /// Returns the class name without its package, as in CompressionInfo.db and table options.
    pub fn class_name(&self) -> &'static str {
        match self {
            Self::Lz4 { .. } => "LZ4Compressor",
            Self::Snappy => "SnappyCompressor",
            Self::Zstd { .. } => "ZstdCompressor",
            Self::Deflate => "DeflateCompressor",
            Self::Noop => "NoopCompressor",
        }
    }

    /// Creates a compressor from a class name, with or without the package
    /// `org.apache.cassandra.io.compress`, and its options.
    ///
    /// Unknown options are an error, as is a level out of range. The error is a text for users.
    pub fn from_class<'a>(
        class: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let name = class.strip_prefix("org.apache.cassandra.io.compress.").unwrap_or(class);
        let mut compressor = match name {
            "LZ4Compressor" => Self::Lz4 { high: None },
            "SnappyCompressor" => Self::Snappy,
            "ZstdCompressor" => Self::Zstd { level: ZSTD_DEFAULT_LEVEL },
            "DeflateCompressor" => Self::Deflate,
            "NoopCompressor" => Self::Noop,
            _ => return Err(format!("unknown compressor {class:?}")),
        };
        let (mut lz4_high, mut lz4_level) = (false, LZ4_HIGH_DEFAULT_LEVEL);
        for (option, value) in options {
            let refused = || format!("option {option:?} = {value:?} is not one of {name}");
            match (&mut compressor, option) {
                (Self::Lz4 { .. }, "lz4_compressor_type") => match value {
                    "fast" => lz4_high = false,
                    "high" => lz4_high = true,
                    _ => return Err(refused()),
                },
                (Self::Lz4 { .. }, "lz4_high_compressor_level") => {
                    lz4_level =
                        value.parse().ok().filter(|level| (1..=17).contains(level)).ok_or_else(refused)?;
                }
                (Self::Zstd { level }, "compression_level") => {
                    let range = zstd::compression_level_range();
                    *level = value.parse().ok().filter(|level| range.contains(level)).ok_or_else(refused)?;
                }
                _ => return Err(refused()),
            }
        }
        if let (Self::Lz4 { high }, true) = (&mut compressor, lz4_high) {
            *high = Some(lz4_level);
        }
        Ok(compressor)
    }

    /// Appends `plain` compressed to `out`.
    pub fn compress(
        &self,
        plain: &[u8],
        workspace: &mut Workspace,
        out: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let start = out.len();
        match self {
            Self::Lz4 { high } => {
                out.resize(start + 4 + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
                let (length, block) = out[start..].split_at_mut(4);
                length.copy_from_slice(&(plain.len() as u32).to_le_bytes());
                let length = match high {
                    Some(level) => {
                        let mode = lz4::block::CompressionMode::HIGHCOMPRESSION((*level).into());
                        lz4::block::compress_to_buffer(plain, Some(mode), false, block)?
                    }
                    None => lz4_flex::block::compress_into_with_table(plain, block, &mut workspace.lz4)
                        .map_err(std::io::Error::other)?,
                };
                out.truncate(start + 4 + length);
            }
            Self::Snappy => {
                out.resize(start + snap::raw::max_compress_len(plain.len()), 0);
                let length =
                    workspace.snappy.compress(plain, &mut out[start..]).map_err(std::io::Error::other)?;
                out.truncate(start + length);
            }
            Self::Zstd { level } => {
                let bulk = match &mut workspace.zstd {
                    Some((at, bulk)) if at == level => bulk,
                    _ => {
                        let mut bulk = zstd::bulk::Compressor::new(*level)?;
                        // Cassandra 5.0 also writes the frame's checksum.
                        bulk.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true))?;
                        &mut workspace.zstd.insert((*level, bulk)).1
                    }
                };
                out.resize(start + zstd::zstd_safe::compress_bound(plain.len()), 0);
                let length = bulk.compress_to_buffer(plain, &mut out[start..])?;
                out.truncate(start + length);
            }
            Self::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(&mut *out, flate2::Compression::default());
                encoder.write_all(plain)?;
                encoder.finish()?;
            }
            Self::Noop => out.extend_from_slice(plain),
        }
        Ok(())
    }

    /// Fills `plain` from a stored chunk, whose checksum has been verified. The error is a text for
    /// users: the chunk does not contain exactly `plain.len()` bytes in this compressor's format.
    pub fn decompress(&self, stored: &[u8], plain: &mut [u8]) -> Result<(), String> {
        let length = match self {
            Self::Lz4 { .. } => {
                let (length, block) =
                    stored.split_first_chunk::<4>().ok_or("an LZ4 chunk without a length")?;
                let length = u32::from_le_bytes(*length) as usize;
                if length != plain.len() {
                    return Err(format!("LZ4 chunk of {} bytes expected, of {length} found", plain.len()));
                }
                lz4_flex::block::decompress_into(block, plain).map_err(|e| format!("LZ4: {e}"))?
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(stored).map_err(|e| format!("Snappy: {e}"))?;
                if length != plain.len() {
                    return Err(format!("Snappy chunk of {} bytes expected, of {length} found", plain.len()));
                }
                snap::raw::Decoder::new().decompress(stored, plain).map_err(|e| format!("Snappy: {e}"))?
            }
            Self::Zstd { .. } => {
                zstd::bulk::decompress_to_buffer(stored, plain).map_err(|e| format!("Zstd: {e}"))?
            }
            Self::Deflate => {
                let mut decoder = flate2::read::ZlibDecoder::new(stored);
                decoder.read_exact(plain).map_err(|e| format!("Deflate: {e}"))?;
                if decoder.read(&mut [0]).map_err(|e| format!("Deflate: {e}"))? != 0 {
                    return Err(format!("Deflate chunk of {} bytes expected, more found", plain.len()));
                }
                plain.len()
            }
            Self::Noop => {
                if stored.len() != plain.len() {
                    return Err(format!("chunk of {} bytes expected, {} found", plain.len(), stored.len()));
                }
                plain.copy_from_slice(stored);
                plain.len()
            }
        };
        if length == plain.len() {
            Ok(())
        } else {
            Err(format!("{} plain bytes expected, {length} found", plain.len()))
        }
    }
}

/// Tables and contexts that compression reuses from chunk to chunk.
pub struct Workspace {
    lz4: lz4_flex::block::CompressTable,
    snappy: snap::raw::Encoder,
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self { lz4: lz4_flex::block::CompressTable::default(), snappy: snap::raw::Encoder::new(), zstd: None }
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workspace")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Compressor; 6] {
        [
            Compressor::Lz4 { high: None },
            Compressor::Lz4 { high: Some(9) },
            Compressor::Snappy,
            Compressor::Zstd { level: 3 },
            Compressor::Deflate,
            Compressor::Noop,
        ]
    }

    #[test]
    fn every_compressor_gives_back_what_it_took() {
        let mut workspace = Workspace::default();
        let mut stored = Vec::new();
        let plain: Vec<u8> = (0..40_000u32).map(|i| (i / 7 * 31) as u8 ^ (i >> 9) as u8).collect();
        for compressor in all() {
            for length in [0, 1, 17, 16384, 40_000] {
                stored.clear();
                compressor.compress(&plain[..length], &mut workspace, &mut stored).unwrap();
                let mut back = vec![0; length];
                compressor.decompress(&stored, &mut back).unwrap();
                assert_eq!(back, plain[..length], "{compressor:?}, {length}");
                let mut wrong = vec![0; length + 1];
                assert!(compressor.decompress(&stored, &mut wrong).is_err(), "{compressor:?}, {length}");
            }
        }
    }

    #[test]
    fn higher_levels_give_smaller_chunks() {
        let words = ["cassette", "level", "tree", "merge", "row", "cell", "token", "of", "the", "a"];
        let mut state = 1_u32;
        let mut plain = Vec::new();
        while plain.len() < 16 << 10 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            plain.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
        }
        let length = |compressor: Compressor| {
            let mut stored = Vec::new();
            compressor.compress(&plain, &mut Workspace::default(), &mut stored).unwrap();
            stored.len()
        };
        let (fast, high) =
            (length(Compressor::Lz4 { high: None }), length(Compressor::Lz4 { high: Some(9) }));
        assert!(high < fast * 9 / 10, "{high} and {fast} bytes");
        assert!(length(Compressor::Lz4 { high: Some(1) }) >= high);
        assert!(length(Compressor::Zstd { level: 19 }) < length(Compressor::Zstd { level: -7 }) * 9 / 10);
    }

    #[test]
    fn a_class_takes_its_own_options_only() {
        for compressor in all() {
            let options: &[_] = match compressor {
                Compressor::Lz4 { high: Some(_) } => &[("lz4_compressor_type", "high")],
                _ => &[],
            };
            assert_eq!(
                Compressor::from_class(compressor.class_name(), options.iter().copied()),
                Ok(compressor)
            );
        }
        let full = "org.apache.cassandra.io.compress.ZstdCompressor";
        assert_eq!(
            Compressor::from_class(full, [("compression_level", "5")]),
            Ok(Compressor::Zstd { level: 5 })
        );
        assert!(Compressor::from_class(full, [("compression_level", "55")]).is_err());
        assert!(Compressor::from_class("SnappyCompressor", [("compression_level", "5")]).is_err());
        assert!(Compressor::from_class("LzoCompressor", []).is_err());
    }
}
