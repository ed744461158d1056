//! Apache Parquet: typed columns, in groups of rows, compressed with Snappy.

mod leaf;
mod shape;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use self::leaf::Leaf;
use self::shape::Shape;
use super::RowWriter;
use super::rows::Column;

/// A group of rows is written when it takes this many bytes in memory, or has this many rows.
const GROUP_BYTES: usize = 32 << 20;
const GROUP_ROWS: usize = 1 << 18;

pub struct ParquetRows {
    out: SerializedFileWriter<BufWriter<File>>,
    shapes: Vec<Shape>,
    leaves: Vec<Leaf>,
    names: Vec<String>,
    rows: usize,
}

impl ParquetRows {
    /// Begins the file.
    pub fn new(out: BufWriter<File>, columns: &[Column]) -> anyhow::Result<Self> {
        let mut leaves = Vec::new();
        let mut shapes = Vec::with_capacity(columns.len());
        let mut fields = Vec::with_capacity(columns.len());
        for column in columns {
            let (field, shape) = shape::of(&column.name, &column.data_type, &mut leaves)?;
            fields.push(Arc::new(field));
            shapes.push(shape);
        }
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("cassette ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Ok(Self { out, shapes, leaves, names, rows: 0 })
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for leaf in &mut self.leaves {
            let Some(mut column) = group.next_column()? else {
                anyhow::bail!("the file has fewer columns than the table has values");
            };
            leaf.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl RowWriter for ParquetRows {
    fn write(&mut self, values: &[Option<Vec<u8>>]) -> anyhow::Result<()> {
        for ((shape, value), name) in self.shapes.iter().zip(values).zip(&self.names) {
            let shredded = shape.shred(value.as_deref(), &mut self.leaves);
            shredded.map_err(|error| error.context(format!("column {name}")))?;
        }
        self.rows += 1;
        let bytes: usize = self.leaves.iter().map(Leaf::bytes).sum();
        if bytes >= GROUP_BYTES || self.rows >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        self.write_group()?;
        Ok(self.out.into_inner()?.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use cassette_cql::values::text::from_text;
    use cassette_rows::DataType;
    use cassette_rows::types::collection::{write_list, write_map, write_tuple};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    /// Returns the text of rows of these columns by a Parquet reader, a row per line; after the
    /// schema.
    fn written(columns: &[(&str, DataType)], rows: &[Vec<Option<Vec<u8>>>]) -> (String, Vec<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, data_type)| Column { name: (*name).to_owned(), data_type: data_type.clone() })
            .collect();
        let out = BufWriter::new(file.reopen().unwrap());
        let mut writer = Box::new(ParquetRows::new(out, &columns).unwrap());
        for row in rows {
            writer.write(row).unwrap();
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
        let mut schema = Vec::new();
        parquet::schema::printer::print_schema(&mut schema, reader.metadata().file_metadata().schema());
        let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        (String::from_utf8(schema).unwrap(), rows)
    }

    fn value(data_type: &DataType, text: &str) -> Option<Vec<u8>> {
        Some(from_text(data_type, text).unwrap())
    }

    #[test]
    fn each_type_maps_to_a_column_type() {
        let cases = [
            (DataType::Int, "-7", "INT32 c;", "-7"),
            (DataType::SmallInt, "-7", "INT32 c (INTEGER(16,true));", "-7"),
            (DataType::TinyInt, "-7", "INT32 c (INTEGER(8,true));", "-7"),
            (DataType::BigInt, "-7", "INT64 c;", "-7"),
            (DataType::Boolean, "true", "BOOLEAN c;", "true"),
            (DataType::Float, "1.5", "FLOAT c;", "1.5"),
            (DataType::Double, "2.5", "DOUBLE c;", "2.5"),
            (DataType::Text, "né", "BYTE_ARRAY c (STRING);", "\"né\""),
            (
                DataType::VarInt,
                "123456789012345678901",
                "BYTE_ARRAY c (STRING);",
                "\"123456789012345678901\"",
            ),
            (DataType::Decimal, "1.50", "BYTE_ARRAY c (STRING);", "\"1.50\""),
            (DataType::Inet, "127.0.0.1", "BYTE_ARRAY c (STRING);", "\"127.0.0.1\""),
            (DataType::Date, "1969-12-31", "INT32 c (DATE);", "1969-12-31"),
            (
                DataType::Timestamp,
                "1970-01-02 00:00:01Z",
                "INT64 c (TIMESTAMP(MILLIS,true));",
                "1970-01-02 00:00:01.000 +00:00",
            ),
            (DataType::Time, "00:00:01.000000002", "INT64 c (TIME(NANOS,false));", "1000000002"),
            (
                DataType::Uuid,
                "00000000-0000-0000-0000-0000000000ff",
                "FIXED_LEN_BYTE_ARRAY (16) c (UUID);",
                "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255]",
            ),
        ];
        for (data_type, text, column, shown) in cases {
            let rows = [vec![value(&data_type, text)], vec![None]];
            let (schema, rows) = written(&[("c", data_type.clone())], &rows);
            assert!(schema.contains(&format!("OPTIONAL {column}")), "{schema}");
            assert_eq!(rows, [format!("{{c: {shown}}}"), "{c: null}".to_owned()], "{data_type:?}");
        }
        let (schema, rows) = written(&[("b", DataType::Blob)], &[vec![Some(vec![1, 255])]]);
        assert!(schema.contains("OPTIONAL BYTE_ARRAY b;"), "{schema}");
        assert_eq!(rows, ["{b: [1, 255]}"]);
    }

    #[test]
    fn an_empty_text_is_not_null_but_an_empty_number_is() {
        let rows = [vec![Some(Vec::new()), Some(Vec::new())]];
        let (_, rows) = written(&[("t", DataType::Text), ("i", DataType::Int)], &rows);
        assert_eq!(rows, ["{t: \"\", i: null}"]);
    }

    #[test]
    fn collections_tuples_and_vectors_are_nested_columns() {
        let int = |n: i32| n.to_be_bytes();
        let ints = |numbers: &[i32]| {
            let items: Vec<_> = numbers.iter().map(|n| int(*n)).collect();
            let mut out = Vec::new();
            write_list(&mut out, items.iter().map(|item| item.as_slice()));
            out
        };
        let mut map = Vec::new();
        let (some, none) = (ints(&[1, 2]), ints(&[]));
        write_map(&mut map, [(b"a".as_slice(), some.as_slice()), (b"b".as_slice(), &none)].into_iter());
        let mut tuple = Vec::new();
        write_tuple(&mut tuple, [Some(int(5).as_slice()), None]);
        let mut vector = Vec::new();
        vector.put_f32(0.5);
        vector.put_f32(1.5);
        let columns = [
            ("l", DataType::list(DataType::Int)),
            ("m", DataType::map(DataType::Text, DataType::list(DataType::Int))),
            ("t", DataType::tuple([DataType::Int, DataType::Text])),
            ("v", DataType::Vector { element: Arc::new(DataType::Float), dimension: 2 }),
        ];
        let rows = [
            vec![Some(ints(&[7, 8, 9])), Some(map), Some(tuple), Some(vector)],
            vec![Some(none), None, None, None],
            vec![None, None, None, None],
            vec![Some(ints(&[1])), None, None, None],
        ];
        let (schema, rows) = written(&columns, &rows);
        assert_eq!(
            rows,
            [
                "{l: [7, 8, 9], m: {\"a\" -> [1, 2], \"b\" -> []}, t: {_1: 5, _2: null}, v: [0.5, 1.5]}",
                "{l: [], m: null, t: null, v: null}",
                "{l: null, m: null, t: null, v: null}",
                "{l: [1], m: null, t: null, v: null}",
            ]
        );
        assert!(schema.contains("OPTIONAL group l (LIST)"), "{schema}");
        assert!(schema.contains("OPTIONAL group m (MAP)"), "{schema}");
    }

    #[test]
    fn a_malformed_value_is_an_error_that_names_its_column() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let columns = [Column { name: "n".into(), data_type: DataType::Int }];
        let mut writer = ParquetRows::new(BufWriter::new(file.reopen().unwrap()), &columns).unwrap();
        let error = writer.write(&[Some(vec![1, 2, 3])]).unwrap_err();
        assert_eq!(format!("{error:#}"), "column n: 3 bytes are no int");
    }
}
