//! A row per line, in the format of `SELECT JSON`.

use std::io::Write;

use cassette_cql::values::json::encode_row;

use super::RowWriter;
use super::rows::Column;

pub struct JsonRows {
    out: Box<dyn Write>,
    columns: Vec<Column>,
}

impl JsonRows {
    pub fn new(out: Box<dyn Write>, columns: &[Column]) -> Self {
        Self { out, columns: columns.to_vec() }
    }
}

impl RowWriter for JsonRows {
    fn write(&mut self, values: &[Option<Vec<u8>>]) -> anyhow::Result<()> {
        let columns = self.columns.iter().zip(values);
        let columns =
            columns.map(|(column, value)| (column.name.as_str(), &column.data_type, value.as_deref()));
        Ok(writeln!(self.out, "{}", encode_row(columns))?)
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}
