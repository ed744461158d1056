//! Names of types as Cassandra's files and schema tables have them:
//! `org.apache.cassandra.db.marshal.…`.

use cassette_rows::types::{key_class_name, parse_class_name, parse_key_class_name};

use crate::Target;
use crate::subjects::with_world;

pub const TARGET: Target = Target {
    name: "class_names",
    run,
    seeds,
    words: &[
        b"org.apache.cassandra.db.marshal.",
        b"(",
        b")",
        b",",
        b":",
        b"ReversedType(",
        b"FrozenType(",
        b"ListType(",
        b"MapType(",
        b"UserType(",
        b"VectorType(",
        b"CompositeType(",
        b"Int32Type",
        b"UTF8Type",
        b" ",
    ],
    inputs: 20_000,
};

fn run(input: &[u8]) {
    let name = String::from_utf8_lossy(input);
    // What is written reads back as what is written the same. A type that only counts as frozen,
    // because it is inside another, is read as a frozen one, so the types themselves can differ.
    if let Ok((of, reversed)) = parse_class_name(&name) {
        let written = of.clustering_class_name(reversed);
        let (again, is_reversed) = parse_class_name(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
        assert_eq!(again.clustering_class_name(is_reversed), written);
    }
    if let Ok(types) = parse_key_class_name(&name) {
        let written = key_class_name(&types);
        let again = parse_key_class_name(&written).unwrap_or_else(|e| panic!("{written}: {e}"));
        assert_eq!(key_class_name(&again), written);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    with_world(|world| {
        let tables = world.database.engine().tables();
        let table = &tables.iter().find(|(_, table)| table.name == "v").expect("a table of all types").1;
        let mut names: Vec<Vec<u8>> = table
            .all_columns()
            .map(|column| column.data_type.clustering_class_name(false).into_bytes())
            .collect();
        let all: Vec<_> = table.all_columns().map(|column| column.data_type.clone()).collect();
        names.push(key_class_name(&all[..4]).into_bytes());
        names.push(all[0].clustering_class_name(true).into_bytes());
        names
    })
}
