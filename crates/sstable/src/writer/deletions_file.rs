//! Writes Deletions.db; [`deletions`](crate::deletions) draws it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::schema::CompressionParams;
use cassette_rows::{
    DecoratedKey, DeletionTime, RangeTombstoneMarker, Result, Row, RowBuilder, StorageError,
};
use cassette_vfs::FileSystem;

use super::END_OF_PARTITION;
use super::chunk_writer::{ChunkWriter, Chunks};
use super::data_file::DataFile;
use crate::compression::ChunkFormat;
use crate::data::{RowEncoder, RowFormat, WrongWidth, deletion_codec};
use crate::deletions::{Belongs, MOST, encode_end};
use crate::output::Output;

/// An incomplete Deletions.db. The file is created for the first deletion.
pub struct DeletionsFile {
    file_system: Arc<dyn FileSystem>,
    path: PathBuf,
    file: Option<DataFile>,
    encoder: RowEncoder,
    has_static: bool,
    /// Whether the current partition has been started here.
    begun: bool,
    /// The start of its last row or marker, or of the partition itself.
    previous: u64,
}

impl DeletionsFile {
    /// Creates a file at `path` once there is anything to write. `format` is that of Data.
    pub fn new(file_system: Arc<dyn FileSystem>, path: PathBuf, format: RowFormat) -> Self {
        let has_static = !format.statics.is_empty();
        let encoder = RowEncoder::new(format);
        Self { file_system, path, file: None, encoder, has_static, begun: false, previous: 0 }
    }

    /// Starts a partition of Data.
    pub fn begin(
        &mut self,
        key: &DecoratedKey,
        deletion: DeletionTime,
        static_row: Option<&Row>,
    ) -> Result<()> {
        let deleted_static = static_row.filter(|row| !row.deletion().is_live());
        if deletion.is_live() && deleted_static.is_none() {
            Ok(())
        } else {
            self.header(key, deletion, deleted_static)
        }
    }

    /// Adds a deleted row.
    pub fn row(&mut self, key: &DecoratedKey, row: &Row) -> Result<()> {
        let deletion = only_deletion(row);
        self.append(key, |encoder, previous, out| encoder.encode_row(&deletion, previous, out))
    }

    /// Adds a marker.
    pub fn marker(&mut self, key: &DecoratedKey, marker: &RangeTombstoneMarker) -> Result<()> {
        self.append(key, |encoder, previous, out| encoder.encode_marker(marker, previous, out))
    }

    fn header(&mut self, key: &DecoratedKey, deletion: DeletionTime, static_row: Option<&Row>) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(create(self.file_system.as_ref(), &self.path)?),
        };
        self.begun = true;
        self.previous = file.position();
        file.stream.put_bytes16(key.key());
        deletion_codec::encode_plain(deletion, &mut file.stream);
        if self.has_static {
            let encoded =
                self.encoder.encode_static_row(static_row.map(only_deletion).as_ref(), &mut file.stream);
            encoded.map_err(|wrong| wrong_width(&self.path, wrong))?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        key: &DecoratedKey,
        encode: impl FnOnce(&mut RowEncoder, u64, &mut Vec<u8>) -> Result<(), WrongWidth>,
    ) -> Result<()> {
        if !self.begun {
            self.header(key, DeletionTime::LIVE, None)?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let start = file.position();
        let encoded = encode(&mut self.encoder, start - self.previous, &mut file.stream);
        encoded.map_err(|wrong| wrong_width(&self.path, wrong))?;
        self.previous = start;
        file.advance()
    }

    /// Ends the partition, with the present length of Data. Returns `false` if the deletions take
    /// too much space in comparison and must be given up.
    pub fn end(&mut self, data_length: u64) -> Result<bool> {
        let Some(file) = &mut self.file else { return Ok(true) };
        if std::mem::take(&mut self.begun) {
            file.stream.push(END_OF_PARTITION);
            file.advance()?;
        }
        let (share, least) = MOST;
        Ok(file.position() <= least.max(data_length / share))
    }

    /// Makes the file durable; returns `false` if there is none. With `wanted` an empty one is
    /// created: by Statistics.db alone the SSTable could have deletions, where only cells are
    /// deleted or expire.
    pub fn finish(mut self, belongs: Belongs, wanted: bool) -> Result<bool> {
        let file = match self.file.take() {
            None if wanted => create(self.file_system.as_ref(), &self.path)?,
            None => return Ok(false),
            Some(file) => file,
        };
        file.finish(|chunks| match chunks {
            Chunks::Compressed(info) => encode_end(info, belongs),
            Chunks::Plain(_) => Vec::new(),
        })?;
        Ok(true)
    }
}

#[cold]
fn wrong_width(path: &Path, wrong: WrongWidth) -> StorageError {
    let detail = format!("a value of {} bytes and not {}", wrong.found, wrong.expected);
    StorageError::Unwritable { path: path.to_owned(), detail }
}

impl Drop for DeletionsFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Given up. It is in no list of components: a remaining file is ignored.
            let _ = self.file_system.remove_file(&self.path);
        }
    }
}

/// Compressed by the default of tables, whatever the table's compression is.
fn create(file_system: &dyn FileSystem, path: &std::path::Path) -> Result<DataFile> {
    let format = ChunkFormat::from_params(&CompressionParams::default());
    let format = format.map_err(|detail| StorageError::Unsupported { path: path.to_path_buf(), detail })?;
    let file = file_system.create(path).map_err(|e| StorageError::io(path, "create the file", e))?;
    let chunks = ChunkWriter::new(path.to_path_buf(), file, format);
    Ok(DataFile::new(path.to_path_buf(), chunks, false))
}

/// Returns the row without its cells and liveness.
fn only_deletion(row: &Row) -> Row {
    let mut deletion = RowBuilder::new(row.clustering().clone());
    deletion.deletion(row.deletion());
    deletion.finish()
}
