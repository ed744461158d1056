//! Values as Cassandra's tools print them.

use cassette_cql::values::class_text::to_class_text;
use cassette_cql::values::json::encode_value;
use cassette_cql::values::text::to_literal;
use cassette_rows::DataType;
use cassette_sstable::dump::ValueText;

/// Cassandra's formats of values: those of its Java classes, not those of CQL.
#[derive(Debug, Clone, Copy)]
pub struct CassandraText;

impl ValueText for CassandraText {
    fn json(&self, data_type: &DataType, value: &[u8]) -> String {
        encode_value(data_type, value)
    }

    fn text(&self, data_type: &DataType, value: &[u8]) -> String {
        to_class_text(data_type, value)
    }

    fn literal(&self, data_type: &DataType, value: &[u8]) -> String {
        to_literal(data_type, Some(value))
    }
}
