//! Changes of partitions in Cassandra's commit logs.
//!
//! ```text
//! a mutation: number of updates, and each update with the id of its table
//! ```

use bytes::Bytes;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableId, TableMetadata};
use cassette_sstable::data::message::{UpdateFormats, table_of_update, updates_of_mutation};
use cassette_sstable::input::Input;
use uuid::Uuid;

use crate::Target;

pub const TARGET: Target =
    Target { name: "messages", run, seeds, words: &[b"\x01s", b"\x02\x01v\x01m", &ID], inputs: 20_000 };

const ID: [u8; 16] = [7; 16];

fn table() -> TableMetadata {
    use ColumnKind::{Clustering, PartitionKey, Regular, Static};
    let columns = [
        ("k", PartitionKey, DataType::Int),
        ("c", Clustering, DataType::Int),
        ("d", Clustering, DataType::Text),
        ("s", Static, DataType::Text),
        ("v", Regular, DataType::Text),
        ("m", Regular, DataType::map(DataType::Int, DataType::Text)),
    ];
    let columns = columns.map(|(name, kind, data_type)| {
        let position = usize::from(name == "d");
        ColumnMetadata::new(name, kind, position, data_type)
    });
    TableMetadata::new(TableId(Uuid::from_bytes(ID)), "ks", "t", columns.into(), Default::default())
}

fn run(input: &[u8]) {
    let (table, data) = (table(), Bytes::copy_from_slice(input));
    let mut formats = UpdateFormats::default();
    let mut input = Input::new(&data);
    let Ok(count) = updates_of_mutation(&mut input) else { return };
    for _ in 0..count {
        if table_of_update(&mut input).is_err() {
            return;
        }
        let Ok(update) = formats.decode(&table, &data, &mut input) else { return };
        let ascending = update
            .rows
            .windows(2)
            .all(|pair| table.comparator.compare_rows(pair[0].clustering(), pair[1].clustering()).is_lt());
        assert!(ascending);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let start = [&[1][..], &ID, &[4, 0, 0, 0, 1]].concat();
    let pieces: [&[u8]; 9] = [
        &start,
        &[0x1c, 5, 0, 0, 1, 1, b's', 2, 1, b'v', 1, b'm', 0, 0],
        // The static row, and the number of rows.
        &[0xa0, 1, 0, 1, 1, b'x', 1],
        // A row with an element of a map.
        &[0x64, 0, 0, 0, 0, 1, 1, b'd', 4],
        &[8, 2, b'h', b'i'],
        &[2, 0, 1, 8, 4, 0, 0, 0, 7, 1, b'e'],
        // A range tombstone.
        &[2, 1, 0, 1, 0, 0, 0, 0, 5, 3, 0],
        &[2, 6, 0, 1, 0, 0, 0, 0, 9, 3, 0],
        &[1],
    ];
    vec![pieces.concat(), [&start[..], &[1]].concat()]
}
