//! Images of one partition: read from the copy, and merged with the update of a record.

use std::sync::Arc;

use cassette_engine::Engine;
use cassette_rows::{
    Clustering, MergedStream, PartitionStream, PartitionUpdate, Row, Selection, Slice, Slices, TableMetadata,
    Unfiltered,
};

use super::super::json::{key_object, object};
use super::values::{row_object, static_object};

/// The size of the JSON of a list of rows from which it is cut off, bytes.
const LIST_BYTES_MAX: usize = 8 << 20;

/// Reads the images of a partition.
pub(super) struct PartitionImages<'a> {
    pub engine: &'a Engine,
    /// The table of the copy.
    pub stored: &'a Arc<TableMetadata>,
    /// The table of the change, whose columns are shown.
    pub shown: &'a TableMetadata,
    /// The update of the record.
    pub update: &'a PartitionUpdate,
    /// The time at which the images are read, seconds since 1970.
    pub now: u32,
    /// The maximum number of rows in the image of a range or a partition.
    pub rows: usize,
}

/// An image as JSON.
pub(super) struct Image {
    pub json: String,
    /// Whether all rows of a range or a partition are in it.
    pub is_complete: bool,
}

impl Image {
    fn of(object: Option<String>) -> Self {
        Self { json: object.unwrap_or_else(|| "null".to_owned()), is_complete: true }
    }
}

impl PartitionImages<'_> {
    /// Returns the image of one row: before the record without an `update`, after it with one.
    pub fn row(&self, clustering: &Clustering, update: Option<&PartitionUpdate>) -> anyhow::Result<Image> {
        let slices = Slices::new(vec![Slice::prefix(clustering.clone())], &self.stored.comparator);
        let update = update.map(|update| self.part_of(update, clustering));
        let mut stream = self.read(slices, update)?;
        let mut found = None;
        while stream.next_partition()?.is_some() {
            while let Some(next) = stream.next_unfiltered()? {
                if let Unfiltered::Row(row) = next {
                    found = row_object(&row, self.stored, self.shown, self.now);
                }
            }
        }
        Ok(Image::of(found))
    }

    /// Returns the image of the static row.
    pub fn static_row(&self, update: Option<&PartitionUpdate>) -> anyhow::Result<Image> {
        let update = update.map(|update| PartitionUpdate {
            deletion: update.deletion,
            static_row: update.static_row.clone(),
            ..PartitionUpdate::new(update.key.clone())
        });
        let mut stream = self.read(Slices::none(), update)?;
        let header = stream.next_partition()?;
        let row = header.as_ref().and_then(|header| header.static_row.as_ref());
        Ok(Image::of(static_object(row, self.stored, self.shown, self.now)))
    }

    /// Returns the image of the rows in a range: a list of their keys and columns.
    pub fn range(&self, slice: &Slice, update: Option<&PartitionUpdate>) -> anyhow::Result<Image> {
        self.list(Slices::new(vec![slice.clone()], &self.stored.comparator), update, false)
    }

    /// Returns the image of all rows, the static one first.
    pub fn partition(&self, update: Option<&PartitionUpdate>) -> anyhow::Result<Image> {
        self.list(Slices::all(), update, true)
    }

    fn list(
        &self,
        slices: Slices,
        update: Option<&PartitionUpdate>,
        with_static: bool,
    ) -> anyhow::Result<Image> {
        let mut stream = self.read(slices, update.cloned())?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let entry = |row: Option<&Row>, columns: String| {
            let key = key_object(self.shown, self.update.key.key(), row.map(Row::clustering));
            let mut fields = vec![("key".to_owned(), key)];
            if row.is_none() {
                fields.push(("static".to_owned(), "true".to_owned()));
            }
            fields.push(("row".to_owned(), columns));
            object(&fields)
        };
        let mut is_complete = true;
        while let Some(header) = stream.next_partition()? {
            if with_static
                && let Some(columns) =
                    static_object(header.static_row.as_ref(), self.stored, self.shown, self.now)
            {
                entries.push(entry(None, columns));
            }
            while let Some(next) = stream.next_unfiltered()? {
                let Unfiltered::Row(row) = next else { continue };
                let Some(columns) = row_object(&row, self.stored, self.shown, self.now) else { continue };
                if entries.len() >= self.rows || bytes > LIST_BYTES_MAX {
                    is_complete = false;
                    break;
                }
                let entry = entry(Some(&row), columns);
                bytes += entry.len();
                entries.push(entry);
            }
        }
        Ok(Image { json: format!("[{}]", entries.join(",")), is_complete })
    }

    /// Returns the part of an update that changes one row.
    fn part_of(&self, update: &PartitionUpdate, clustering: &Clustering) -> PartitionUpdate {
        let comparator = &self.stored.comparator;
        let found = update.rows.binary_search_by(|row| comparator.compare_rows(row.clustering(), clustering));
        let row = found.ok().and_then(|place| update.rows.get(place)).cloned();
        PartitionUpdate {
            deletion: update.deletion,
            rows: row.into_iter().collect(),
            range_tombstones: update.range_tombstones.clone(),
            ..PartitionUpdate::new(update.key.clone())
        }
    }

    fn read(
        &self,
        slices: Slices,
        update: Option<PartitionUpdate>,
    ) -> anyhow::Result<Box<dyn PartitionStream>> {
        let selection = Selection { slices, reversed: false };
        let stored = self.engine.read(self.stored.id, &self.update.key, &selection)?;
        let Some(update) = update else { return Ok(stored) };
        let update = update.into_stream(self.stored.clone(), &selection);
        let sources: Vec<Box<dyn PartitionStream>> = vec![stored, Box::new(update)];
        Ok(Box::new(MergedStream::new(sources, self.stored.clone(), false)))
    }
}
