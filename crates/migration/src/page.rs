//! Pages of rows.

use bytes::Bytes;

use crate::cell::text;

/// The request of a page.
pub struct PageRequest<'a> {
    pub text: &'a str,
    pub values: &'a [Vec<u8>],
    /// Determines the node.
    pub token: i64,
    pub page_size: i32,
    pub paging_state: Option<Bytes>,
    /// The present time, in seconds since 1970.
    pub now: u32,
}

/// The values of a row, in the order of the selected columns.
pub type Values<'a> = &'a [Option<&'a [u8]>];

/// All rows of a result.
#[derive(Debug, Default)]
pub struct Page {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<Bytes>>>,
}

impl Page {
    /// Returns a cell as text.
    pub fn text(&self, row: usize, column: usize) -> Option<String> {
        text(self.rows.get(row)?.get(column)?.as_ref()?)
    }

    /// Returns the cell of a column.
    pub fn get(&self, row: usize, column: &str) -> Option<&Bytes> {
        let index = self.columns.iter().position(|name| name == column)?;
        self.rows.get(row)?.get(index)?.as_ref()
    }
}
