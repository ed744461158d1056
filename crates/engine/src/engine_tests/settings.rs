//! Each storage setting of a table affects the metrics, immediately for new SSTables and for old
//! ones when they are rewritten.

use cassette_rows::schema::{CompressionParams, Compressor};
use cassette_rows::{Clustering, ColumnId, LivenessInfo, PartitionUpdate, RowBuilder, TableParams};
use cassette_sstable::{Component, Descriptor, SSTableId};

use super::*;
use crate::TableStats;
use crate::engine_tests::testing::{insert, key, simple_table, table_with};

/// Incompressible bytes.
fn noise(k: i32) -> Vec<u8> {
    let mut state = u64::try_from(k).unwrap() + 1;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..400).map(step).collect()
}

/// The metrics of a table with these options, flushed; then with those options after an ALTER and
/// `upgradesstables`.
fn before_and_after(
    change: impl Fn(&mut TableParams),
    value: impl Fn(i32) -> Vec<u8>,
) -> (TableStats, TableStats) {
    let table = simple_table("t", TableParams::default());
    let mut world = World::new(vec![table.clone()]);
    // One flush.
    world.options.memtable_heap_space = 64 << 20;
    world.options.commitlog_total_space = 64 << 20;
    let engine = world.open().unwrap();
    for k in 0..600 {
        engine.apply(&[mutation(&table, insert(k, &value(k), 1))]).unwrap();
    }
    engine.flush(None).unwrap();
    let before = engine.table_stats(table.id).unwrap();
    let mut altered = TableMetadata::clone(&table);
    change(&mut altered.params);
    engine.alter_table(Arc::new(altered)).unwrap();
    assert_eq!(
        engine.table_stats(table.id).unwrap().live_disk_bytes,
        before.live_disk_bytes,
        "existing SSTables stay until they are rewritten"
    );
    engine.upgrade_sstables(table.id).unwrap();
    assert!(engine.verify(table.id, false).unwrap().iter().all(|sstable| sstable.result.is_ok()));
    (before, engine.table_stats(table.id).unwrap())
}

#[test]
fn bloom_filter_fp_chance_decides_how_large_filters_are() {
    let (before, after) = before_and_after(|params| params.bloom_filter_fp_chance = Some(0.0001), noise);
    assert!(after.bloom_filter_bytes > before.bloom_filter_bytes * 3 / 2, "{before:?} {after:?}");
    let (_, without) = before_and_after(|params| params.bloom_filter_fp_chance = Some(1.0), noise);
    assert_eq!((without.bloom_filter_bytes, without.bloom_filter_disk_bytes), (0, 0));
}

#[test]
fn min_index_interval_decides_how_large_summaries_are() {
    let (before, after) = before_and_after(|params| params.min_index_interval = 16, noise);
    assert!(after.index_summary_bytes > before.index_summary_bytes * 4, "{before:?} {after:?}");
}

#[test]
fn chunk_length_decides_how_many_chunks_there_are() {
    let change = |params: &mut TableParams| {
        params.compression = CompressionParams { chunk_length: 4096, ..CompressionParams::default() };
    };
    let (before, after) = before_and_after(change, noise);
    let chunks = |stats: &TableStats| stats.compression_metadata_bytes / 8;
    assert!(chunks(&after) >= chunks(&before) * 3, "{before:?} {after:?}");
}

#[test]
fn compression_shows_in_the_ratio() {
    let text = |k: i32| format!("{k:0400}").into_bytes();
    let (before, none) = before_and_after(|params| params.compression.compressor = None, text);
    assert!(before.compression_ratio.is_some_and(|ratio| ratio < 0.3), "{before:?}");
    assert_eq!((none.compression_ratio, none.compression_metadata_bytes), (None, 0));
    // Four bytes for each block of 4 KiB.
    assert!(none.checksum_bytes >= none.uncompressed_bytes / 1024, "{none:?}");
    assert!(none.live_disk_bytes > before.live_disk_bytes * 3);
    let zstd = |params: &mut TableParams| params.compression.compressor = Some(Compressor::Zstd);
    let (_, zstd) = before_and_after(zstd, text);
    assert!(zstd.compression_ratio < before.compression_ratio, "{zstd:?}");
}

#[test]
fn the_options_of_a_compressor_show_in_the_ratio() {
    let text = |k: i32| format!("{:x}", scattered(k)).repeat(6).into_bytes();
    let with = |compressor: Compressor, name: &str, value: &str| {
        let options = std::collections::BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let change = |params: &mut TableParams| {
            params.compression.compressor = Some(compressor);
            params.compression.options = options.clone();
        };
        before_and_after(change, text).1.compression_ratio.unwrap()
    };
    let lz4 = |kind| with(Compressor::Lz4, "lz4_compressor_type", kind);
    assert!(lz4("high") < lz4("fast"));
    let lz4_level = |level: &str| {
        let options = [("lz4_compressor_type", "high"), ("lz4_high_compressor_level", level)];
        let change = |params: &mut TableParams| {
            params.compression.compressor = Some(Compressor::Lz4);
            params.compression.options = options.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        };
        before_and_after(change, text).1.compression_ratio.unwrap()
    };
    assert!(lz4_level("17") < lz4_level("1"));
    let zstd = |level| with(Compressor::Zstd, "compression_level", level);
    assert!(zstd("19") < zstd("-7"));
}

/// 128 bits that depend on a number.
pub(super) fn scattered(k: i32) -> u128 {
    (u128::from(k.unsigned_abs()) + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

#[test]
fn min_compress_ratio_stores_what_does_not_shrink_as_it_is() {
    // Only the overhead of the noise shrinks, by less than the default minimum of an eighth.
    let any = |params: &mut TableParams| params.compression.min_compress_ratio = Some(0.0);
    let (unsaid, any) = before_and_after(any, noise);
    let ratio = |stats: &TableStats| stats.compression_ratio.unwrap();
    assert!(ratio(&unsaid) > 0.99, "{unsaid:?}");
    assert!(ratio(&any) < 0.98, "{any:?}");
}

#[test]
fn column_index_size_decides_how_finely_rows_are_indexed() {
    let index_bytes = |column_index_size| {
        let table = table_with("t", TableParams::default());
        let mut world = World::new(vec![table.clone()]);
        world.options.column_index_size = column_index_size;
        world.options.memtable_heap_space = 64 << 20;
        world.options.commitlog_total_space = 64 << 20;
        let engine = world.open().unwrap();
        for c in 0..2000_i32 {
            let mut update = PartitionUpdate::new(key(1));
            let mut row = RowBuilder::new(Clustering::of(&[&c.to_be_bytes(), &c.to_be_bytes()]));
            row.liveness(LivenessInfo::new(1)).live_cell(
                table.column("v").map_or(ColumnId(0), |column| column.id),
                &c.to_be_bytes(),
                1,
            );
            update.rows.push(row.finish());
            engine.apply(&[mutation(&table, update)]).unwrap();
        }
        engine.flush(None).unwrap();
        let directory = Path::new("db/data/ks").join(table.directory_name());
        let descriptor = Descriptor::new(&directory, SSTableId::Sequence(1));
        world.fs.metadata(&descriptor.path(Component::Index)).unwrap().len
    };
    let (coarse, fine) = (index_bytes(64 << 10), index_bytes(1 << 10));
    assert!(fine > coarse + 500, "{coarse} and {fine} bytes");
}
