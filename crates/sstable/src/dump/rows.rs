//! Partitions, rows, markers and cells of a dump, in both layouts.

use std::io::{self, Write};

use cassette_rows::types::quote_identifier;
use cassette_rows::{
    Cell, Clustering, ColumnMetadata, DataType, DeletionTime, LivenessInfo, PartitionHeader,
    RangeTombstoneMarker, Row, Side, Unfiltered, merge::counter,
};

use super::json::JsonWriter;
use super::time::{micros_to_text, seconds_to_text};
use super::{DumpError, Hex, Shown, ValueText};
use crate::data::Cursor;

type Written = io::Result<()>;

/// As JSON.
impl Shown<'_> {
    pub fn partition_key(&self, json: &mut JsonWriter<'_>, bytes: &[u8]) -> Written {
        json.compact_objects(true);
        json.compact_arrays(true);
        json.begin_array()?;
        for text in self.key_texts(bytes) {
            json.string(&text)?;
        }
        json.end_array()?;
        json.compact_objects(false);
        json.compact_arrays(false);
        Ok(())
    }

    pub fn partition(
        &self,
        json: &mut JsonWriter<'_>,
        header: PartitionHeader,
        cursor: &mut Cursor,
    ) -> Result<(), DumpError> {
        let mut position = cursor.offset();
        json.begin_object()?;
        json.string_field("table kind", "REGULAR")?;
        json.name("partition")?;
        json.begin_object()?;
        json.name("key")?;
        self.partition_key(json, header.key.key())?;
        json.raw_field("position", position)?;
        if !header.deletion.is_live() {
            self.deletion(json, header.deletion)?;
        }
        json.end_object()?;
        json.name("rows")?;
        json.begin_array()?;
        if let Some(row) = &header.static_row {
            self.row(json, row, position, true)?;
        }
        loop {
            let pending = cursor.next_head()?;
            if pending.is_end() {
                break;
            }
            match cursor.body(pending)? {
                Some(Unfiltered::Row(row)) => self.row(json, &row, position, false)?,
                Some(Unfiltered::Marker(marker)) => self.marker(json, &marker)?,
                None => {}
            }
            position = cursor.offset();
        }
        json.end_array()?;
        Ok(json.end_object()?)
    }

    fn row(&self, json: &mut JsonWriter<'_>, row: &Row, position: u64, is_static: bool) -> Written {
        json.begin_object()?;
        json.string_field("type", if is_static { "static_block" } else { "row" })?;
        json.raw_field("position", position)?;
        if !is_static {
            self.clustering(json, row.clustering())?;
        }
        let liveness = row.liveness();
        if !liveness.is_empty() {
            json.compact_objects(false);
            json.name("liveness_info")?;
            json.compact_objects(true);
            json.begin_object()?;
            json.string_field("tstamp", &self.micros(liveness.timestamp))?;
            if liveness.is_expiring() {
                let expired = liveness.local_expiration < self.options.now;
                self.expiration(json, liveness.ttl, liveness.local_expiration, expired)?;
            }
            json.end_object()?;
            json.compact_objects(false);
        }
        if !row.deletion().is_live() {
            self.deletion(json, row.deletion())?;
        }
        json.name("cells")?;
        json.begin_array()?;
        self.for_each_column_data(row, |column, data| match data {
            ColumnData::Deletion(deletion) => {
                json.compact_objects(true);
                json.begin_object()?;
                json.string_field("name", &quote_identifier(&column.name))?;
                self.deletion(json, deletion)?;
                json.compact_objects(true);
                json.end_object()?;
                json.compact_objects(false);
                Ok(())
            }
            ColumnData::Cell(cell) => self.cell(json, column, &cell, &liveness),
        })?;
        json.end_array()?;
        json.end_object()
    }

    fn cell(
        &self,
        json: &mut JsonWriter<'_>,
        column: &ColumnMetadata,
        cell: &Cell<'_>,
        liveness: &LivenessInfo,
    ) -> Written {
        json.begin_object()?;
        json.compact_objects(true);
        json.string_field("name", &quote_identifier(&column.name))?;
        let mut data_type = &column.data_type;
        if let Some(path) = cell.path {
            json.name("path")?;
            json.compact_arrays(true);
            json.begin_array()?;
            json.string(&self.path(data_type, path))?;
            json.end_array()?;
            json.compact_arrays(false);
            data_type = data_type.cell_type(path).unwrap_or(&DataType::Blob);
        }
        if cell.is_tombstone() {
            json.name("deletion_info")?;
            json.compact_objects(true);
            json.begin_object()?;
            json.string_field("local_delete_time", &self.seconds(cell.local_deletion_time))?;
            json.end_object()?;
            json.compact_objects(false);
        } else {
            json.raw_field("value", self.cell_json(data_type, cell.value))?;
        }
        if liveness.is_empty() || cell.timestamp != liveness.timestamp {
            json.string_field("tstamp", &self.micros(cell.timestamp))?;
        }
        if cell.is_expiring() && (liveness.is_empty() || cell.ttl != liveness.ttl) {
            let expired = cell.local_deletion_time <= self.options.now;
            self.expiration(json, cell.ttl, cell.local_deletion_time, expired)?;
        }
        json.end_object()?;
        json.compact_objects(false);
        Ok(())
    }

    /// A counter's cell is a context of shards, of which Cassandra's tool shows the first eight
    /// bytes as if they were a number.
    fn cell_json(&self, data_type: &DataType, value: &[u8]) -> String {
        match (data_type, value.first_chunk::<8>()) {
            (DataType::Counter, Some(first)) => i64::from_be_bytes(*first).to_string(),
            (DataType::Counter, None) => "null".to_owned(),
            _ => self.values.json(data_type, value),
        }
    }

    fn expiration(&self, json: &mut JsonWriter<'_>, ttl: u32, expires_at: u32, expired: bool) -> Written {
        json.raw_field("ttl", ttl)?;
        json.string_field("expires_at", &self.seconds(expires_at))?;
        json.raw_field("expired", expired)
    }

    fn marker(&self, json: &mut JsonWriter<'_>, marker: &RangeTombstoneMarker) -> Written {
        let boundary = marker.open.is_some() && marker.close.is_some();
        json.begin_object()?;
        json.string_field(
            "type",
            if boundary { "range_tombstone_boundary" } else { "range_tombstone_bound" },
        )?;
        for (name, deletion, inclusive) in [
            ("start", marker.open, marker.bound.side == Side::Before),
            ("end", marker.close, marker.bound.side == Side::After),
        ] {
            let Some(deletion) = deletion else { continue };
            json.name(name)?;
            json.begin_object()?;
            json.string_field("type", if inclusive { "inclusive" } else { "exclusive" })?;
            self.clustering(json, &marker.bound.prefix)?;
            self.deletion(json, deletion)?;
            json.end_object()?;
        }
        json.end_object()?;
        json.compact_objects(false);
        Ok(())
    }

    fn clustering(&self, json: &mut JsonWriter<'_>, prefix: &Clustering) -> Written {
        if prefix.is_empty() {
            return Ok(());
        }
        json.name("clustering")?;
        json.compact_objects(true);
        json.begin_array()?;
        json.compact_arrays(true);
        let mut values = prefix.values();
        for column in &self.table.clustering {
            match values.next() {
                Some(Some(value)) => json.raw(&self.values.json(&column.data_type, value))?,
                Some(None) => json.raw("null")?,
                // A bound has no values for the columns after its prefix.
                None => json.string("*")?,
            }
        }
        json.end_array()?;
        json.compact_objects(false);
        json.compact_arrays(false);
        Ok(())
    }

    fn deletion(&self, json: &mut JsonWriter<'_>, deletion: DeletionTime) -> Written {
        json.name("deletion_info")?;
        json.compact_objects(true);
        json.begin_object()?;
        json.string_field("marked_deleted", &self.micros(deletion.timestamp))?;
        json.string_field("local_delete_time", &self.seconds(deletion.local_deletion_time))?;
        json.end_object()?;
        json.compact_objects(false);
        Ok(())
    }

    fn micros(&self, micros: i64) -> String {
        if self.options.raw_timestamps { micros.to_string() } else { micros_to_text(micros) }
    }

    fn seconds(&self, seconds: u32) -> String {
        if self.options.raw_timestamps { seconds.to_string() } else { seconds_to_text(seconds.into()) }
    }
}

/// An item of a column in a row.
enum ColumnData<'a> {
    /// The deletion of a complex column; precedes its cells.
    Deletion(DeletionTime),
    Cell(Cell<'a>),
}

impl Shown<'_> {
    fn for_each_column_data(
        &self,
        row: &Row,
        mut show: impl FnMut(&ColumnMetadata, ColumnData<'_>) -> Written,
    ) -> Written {
        let mut deletions = row.complex_deletions().iter().peekable();
        let mut cells = row.cells().peekable();
        loop {
            let cell_column = cells.peek().map(|cell| cell.column);
            let deletion = deletions.next_if(|(column, _)| cell_column.is_none_or(|cell| *column <= cell));
            if let Some((column, deletion)) = deletion {
                if let Some(column) = self.table.column_by_id(*column) {
                    show(column, ColumnData::Deletion(*deletion))?;
                }
                continue;
            }
            let Some(cell) = cells.next() else { return Ok(()) };
            if let Some(column) = self.table.column_by_id(cell.column) {
                show(column, ColumnData::Cell(cell))?;
            }
        }
    }

    fn path(&self, data_type: &DataType, path: &[u8]) -> String {
        let text = match data_type {
            DataType::Udt { definition, .. } => {
                let index = path.try_into().map_or(usize::MAX, |bytes| u16::from_be_bytes(bytes).into());
                definition.fields.get(index).map(|(name, _)| name.clone())
            }
            _ => data_type.path_type().map(|path_type| self.values.text(path_type, path)),
        };
        text.unwrap_or_else(|| Hex.text(data_type, path))
    }
}

/// A row or marker per line.
impl Shown<'_> {
    pub fn debug_partition(
        &self,
        out: &mut dyn Write,
        header: PartitionHeader,
        cursor: &mut Cursor,
    ) -> Result<(), DumpError> {
        let key = self.key_text(header.key.key());
        let mut position = cursor.offset();
        if !header.deletion.is_live() {
            writeln!(out, "[{key}]@{position} {}", debug_deletion(header.deletion))?;
        }
        if let Some(row) = &header.static_row {
            writeln!(out, "[{key}]@{position} {}", self.debug_row(row, true)?)?;
        }
        loop {
            let pending = cursor.next_head()?;
            if pending.is_end() {
                return Ok(());
            }
            match cursor.body(pending)? {
                Some(Unfiltered::Row(row)) => {
                    writeln!(out, "[{key}]@{position} {}", self.debug_row(&row, false)?)?;
                }
                Some(Unfiltered::Marker(marker)) => {
                    writeln!(out, "[{key}]@{position} {}", self.debug_marker(&marker))?;
                }
                None => {}
            }
            position = cursor.offset();
        }
    }

    fn debug_row(&self, row: &Row, is_static: bool) -> io::Result<String> {
        let liveness = row.liveness();
        let mut out = if liveness.is_expiring() {
            format!(
                "Row[info=[ts={} ttl={}, let={}]",
                liveness.timestamp, liveness.ttl, liveness.local_expiration
            )
        } else {
            format!("Row[info=[ts={}]", if liveness.is_empty() { i64::MIN } else { liveness.timestamp })
        };
        if !row.deletion().is_live() {
            out += &format!(" del={}", debug_deletion(row.deletion()));
        }
        out += " ]: ";
        if is_static {
            out += "STATIC";
        }
        let literals = self.table.clustering.iter().zip(row.clustering().values()).map(|(column, value)| {
            value.map_or("null".to_owned(), |value| self.values.literal(&column.data_type, value))
        });
        out += &literals.collect::<Vec<_>>().join(", ");
        out += " | ";
        let mut last = None;
        self.for_each_column_data(row, |column, data| {
            let is_first_of_column = last != Some(column.id);
            if is_first_of_column && last.is_some() {
                out += ", ";
            }
            last = Some(column.id);
            match data {
                ColumnData::Deletion(deletion) => {
                    out += &format!("del({})={}", column.name, debug_deletion(deletion));
                }
                ColumnData::Cell(cell) => {
                    // Cassandra's format of elements: a comma precedes the first one too.
                    if cell.path.is_some() {
                        out += ", ";
                    }
                    out += &self.debug_cell(column, &cell);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn debug_cell(&self, column: &ColumnMetadata, cell: &Cell<'_>) -> String {
        let name = &column.name;
        let mut data_type = &column.data_type;
        if matches!(data_type, DataType::Counter) && !cell.is_tombstone() {
            return format!("[{name}={} ts={}]", counter::total(cell.value), cell.timestamp);
        }
        let path = match (data_type, cell.path) {
            // The fields of a UDT are shown without their names, and as if each were the whole
            // value.
            (DataType::Udt { .. }, _) | (_, None) => String::new(),
            (_, Some(path)) => {
                let text = format!("[{}]", self.path(data_type, path));
                data_type = data_type.cell_type(path).unwrap_or(&DataType::Blob);
                text
            }
        };
        let value = if cell.is_tombstone() {
            "<tombstone>".to_owned()
        } else {
            self.values.text(data_type, cell.value)
        };
        let times = match (cell.is_expiring(), cell.is_tombstone()) {
            (true, _) => format!("ts={} ttl={} ldt={}", cell.timestamp, cell.ttl, cell.local_deletion_time),
            (_, true) => format!("ts={} ldt={}", cell.timestamp, cell.local_deletion_time),
            _ => format!("ts={}", cell.timestamp),
        };
        format!("[{name}{path}={value} {times}]")
    }

    fn debug_marker(&self, marker: &RangeTombstoneMarker) -> String {
        let kind = match (marker.close.is_some(), marker.open.is_some(), marker.bound.side) {
            (true, true, Side::Before) => "EXCL_END_INCL_START_BOUNDARY",
            (true, true, Side::After) => "INCL_END_EXCL_START_BOUNDARY",
            (true, _, Side::Before) => "EXCL_END_BOUND",
            (true, _, Side::After) => "INCL_END_BOUND",
            (_, _, Side::Before) => "INCL_START_BOUND",
            (_, _, Side::After) => "EXCL_START_BOUND",
        };
        let values = self.table.clustering.iter().zip(marker.bound.prefix.values()).map(|(column, value)| {
            value.map_or("null".to_owned(), |value| self.values.text(&column.data_type, value))
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let times = [marker.close, marker.open].into_iter().flatten();
        let times = times.map(|deletion| format!("{}/{}", deletion.timestamp, deletion.local_deletion_time));
        format!("Marker {kind}({values})@{}", times.collect::<Vec<_>>().join("-"))
    }
}

fn debug_deletion(deletion: DeletionTime) -> String {
    format!("deletedAt={}, localDeletion={}", deletion.timestamp, deletion.local_deletion_time)
}
