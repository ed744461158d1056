//! Settings to search, and their values.

/// A setting to choose a value for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// Name of the engine's option; `table` for table options (WITH …).
    pub name: String,
    /// Values to choose from.
    pub values: Vec<String>,
    /// Index of the engine's default.
    pub default: usize,
}

/// Returns the settings of an engine that are worth searching; `None` for an engine without any.
pub fn space_of(engine: &str) -> Option<Vec<Dimension>> {
    const MIB: u64 = 1 << 20;
    let bytes = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>();
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let dimension =
        |name: &str, values: Vec<String>, default| Dimension { name: name.to_owned(), values, default };
    let compaction = || {
        texts(&[
            "compaction = {'class': 'SizeTieredCompactionStrategy'}",
            "compaction = {'class': 'LeveledCompactionStrategy'}",
            "compaction = {'class': 'SizeTieredCompactionStrategy'} AND compression = {'enabled': false}",
            "compaction = {'class': 'LeveledCompactionStrategy'} AND compression = {'class': 'LZ4Compressor', \
             'chunk_length_in_kb': 4}",
        ])
    };
    Some(match engine {
        "leveldb" => vec![
            dimension("write_buffer_size", bytes(&[2 * MIB, 4 * MIB, 16 * MIB, 64 * MIB]), 1),
            dimension("max_file_size", bytes(&[2 * MIB, 8 * MIB, 32 * MIB]), 0),
            dimension("cache_size", bytes(&[8 * MIB, 14 * MIB, 64 * MIB, 256 * MIB]), 0),
            dimension("block_size", bytes(&[4096, 16_384, 65_536, 2 * MIB]), 0),
            dimension("block_restart_interval", bytes(&[4, 16, 32]), 1),
            dimension("filter_bits", bytes(&[0, 10, 16]), 1),
            dimension("compression", texts(&["snappy", "none"]), 0),
        ],
        "rocksdb" => vec![
            dimension("write_buffer_size", bytes(&[16 * MIB, 64 * MIB, 256 * MIB]), 1),
            dimension("max_write_buffer_number", bytes(&[2, 4]), 0),
            dimension("level0_file_num_compaction_trigger", bytes(&[2, 4, 8]), 1),
            dimension("max_bytes_for_level_base", bytes(&[64 * MIB, 256 * MIB, 1024 * MIB]), 1),
            dimension("target_file_size_base", bytes(&[16 * MIB, 64 * MIB]), 1),
            dimension("compression", texts(&["kLZ4Compression", "kNoCompression"]), 0),
        ],
        "fjall" => vec![
            dimension("cache_size", bytes(&[32 * MIB, 128 * MIB, 512 * MIB]), 0),
            dimension("max_memtable_size", bytes(&[16 * MIB, 64 * MIB, 256 * MIB]), 1),
            dimension("data_block_size_policy", bytes(&[4096, 16_384, 65_536]), 0),
            dimension("data_block_compression_policy", texts(&["none", "lz4"]), 1),
        ],
        "embedded" => vec![
            dimension("memtable_heap_space", texts(&["64MiB", "256MiB", "1GiB"]), 1),
            dimension("file_cache_size", texts(&["64MiB", "256MiB", "1GiB"]), 1),
            dimension("flush_compression", texts(&["none", "fast", "table"]), 1),
            dimension("concurrent_compactors", texts(&["1", "2", "4"]), 1),
            dimension("compaction_throughput", texts(&["16MiB/s", "64MiB/s", "0"]), 1),
            dimension("table", compaction(), 0),
        ],
        "cassandra" => vec![
            dimension("memtable_heap_space", texts(&["128MiB", "256MiB"]), 1),
            dimension("file_cache_size", texts(&["64MiB", "128MiB", "512MiB"]), 1),
            dimension("row_cache_size", texts(&["0MiB", "128MiB"]), 0),
            dimension("compaction_throughput", texts(&["16MiB/s", "64MiB/s", "0MiB/s"]), 1),
            dimension("table", compaction(), 0),
        ],
        // A running server: only table options can be chosen.
        "cql" => vec![dimension("table", compaction(), 0)],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_searched_and_the_embedded_engine_accepts_every_value() {
        for engine in ["leveldb", "rocksdb", "fjall", "embedded", "cassandra", "cql"] {
            for dimension in space_of(engine).unwrap() {
                assert!(dimension.default < dimension.values.len(), "{engine} {}", dimension.name);
                if engine == "embedded" && dimension.name != "table" {
                    for value in &dimension.values {
                        let options = [(dimension.name.clone(), value.clone())].into();
                        crate::engine::embedded::Embedded::check_options(&options).unwrap();
                    }
                }
            }
        }
        assert_eq!(space_of("noop"), None);
    }
}
