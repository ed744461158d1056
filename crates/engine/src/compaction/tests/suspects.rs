//! SSTables with data that cannot be written again are not compacted, and others are.

use cassette_rows::schema::DroppedColumn;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType};

use super::*;

/// `v` dropped and added again as an `int`, so that a text written after that is invalid.
fn altered(table: &TableMetadata) -> Arc<TableMetadata> {
    let mut altered = table.clone();
    for column in altered.columns.iter_mut().flatten().filter(|column| column.name == "v") {
        *column = Arc::new(ColumnMetadata { data_type: DataType::Int, ..(**column).clone() });
    }
    altered.version = table.version + 1;
    let dropped = DroppedColumn { data_type: DataType::Text, kind: ColumnKind::Regular, dropped_at: 5 };
    altered.dropped_columns.insert("v".to_owned(), dropped);
    Arc::new(altered)
}

fn flush_one(engine: &Engine, table: &Arc<TableMetadata>, k: i32, v: &[u8]) {
    put(engine, table, insert(k, v, 10 + i64::from(k)));
    engine.flush(None).unwrap();
}

#[test]
fn inputs_that_cannot_be_written_again_are_left_alone_while_everything_else_is_compacted() {
    let params = || TableParams {
        compaction: CompactionParams {
            class: "SizeTieredCompactionStrategy".into(),
            options: [("min_threshold".to_owned(), "3".to_owned())].into(),
        },
        ..TableParams::default()
    };
    let (bad, good) = (simple_table("bad", params()), simple_table("good", params()));
    let world = World::new(vec![bad.clone(), good.clone()]);
    let engine = world.open().unwrap();
    for (k, v) in [(1, &b"four"[..]), (2, b"of another width"), (3, b"five")] {
        flush_one(&engine, &bad, k, v);
    }
    let as_int = altered(&bad);
    engine.alter_table(as_int.clone()).unwrap();
    assert_eq!(partitions(&engine, &as_int), 3);
    engine.run_pending_compactions();
    let exceptions = || engine.metrics().exceptions.get();
    assert_eq!((world.sstables(&bad), exceptions()), (3, 1), "it failed, and the inputs are there");
    let pending = |table: &TableMetadata| engine.table_stats(table.id).unwrap().pending_compactions;
    assert_eq!(pending(&bad), 0, "it is unknown which it was");
    engine.run_pending_compactions();
    assert_eq!(exceptions(), 1, "they are not read again and again");
    // Other SSTables of the table are compacted, and so are other tables.
    for k in 4..7 {
        flush_one(&engine, &as_int, k, b"four");
        flush_one(&engine, &good, k, b"of any width");
    }
    engine.run_pending_compactions();
    assert_eq!((world.sstables(&bad), world.sstables(&good), exceptions()), (4, 1, 1));
    assert_eq!(partitions(&engine, &as_int), 6);
    // A command skips them, too.
    engine.compact(bad.id).unwrap();
    assert_eq!((world.sstables(&bad), partitions(&engine, &as_int), exceptions()), (4, 6, 1));
}
