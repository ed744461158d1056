//! Opens the component with an SSTable's deletions.

use std::sync::Arc;

use cassette_rows::{Result, StorageError};
use cassette_vfs::RandomAccessFile;

use super::SSTableReader;
use crate::chunked_file::{ChunkedFile, Layout};
use crate::deletions::{Belongs, Deletions, TAIL, decode_end, decode_tail};
use crate::descriptor::Component;
use crate::digest;

impl SSTableReader {
    /// Returns its deletions, if it has the component. Fails if the component does not belong to
    /// this SSTable.
    pub fn deletions(&self) -> Result<Option<Deletions>> {
        if !self.components().contains(&Component::Deletions) {
            return Ok(None);
        }
        let path = self.descriptor().path(Component::Deletions);
        let io = |action: &'static str| {
            let path = path.clone();
            move |e| StorageError::io(path, action, e)
        };
        let file = self.file_system().open(&path).map_err(io("open the file"))?;
        let length = file.len().map_err(io("find the file's length"))?;
        let read = |from: u64, to: u64| {
            let mut bytes = vec![0; (to - from) as usize];
            file.read_exact_at(&mut bytes, from).map(|()| bytes).map_err(io("read the file's end"))
        };
        let Some(tail) = length.checked_sub(TAIL) else {
            return Err(StorageError::corrupt(
                path,
                format!("at least {TAIL} bytes expected, {length} found"),
            ));
        };
        let places = decode_tail(&read(tail, length)?, length).map_err(|e| e.at(&path))?;
        let chunks_length = tail - places;
        let (info, belongs) =
            decode_end(&read(chunks_length, length)?, chunks_length).map_err(|e| e.at(&path))?;
        let expected = Belongs {
            data_length: self.uncompressed_bytes(),
            digest: self.digest()?.unwrap_or(belongs.digest),
        };
        if belongs != expected {
            return Err(StorageError::corrupt(path, format!("{expected:?} expected, {belongs:?} found")));
        }
        let chunks = self.beside_data(path, file, chunks_length, Layout::Compressed(info));
        Deletions::new(chunks, self.row_format().clone()).map(Some)
    }

    /// Returns the content of Digest.crc32, if it exists.
    pub(crate) fn digest(&self) -> Result<Option<u32>> {
        if !self.components().contains(&Component::Digest) {
            return Ok(None);
        }
        let path = self.descriptor().path(Component::Digest);
        let bytes =
            self.file_system().read(&path).map_err(|e| StorageError::io(&path, "read the file", e))?;
        digest::decode(&bytes).map(Some).map_err(|e| e.at(&path))
    }

    /// Another file of this SSTable.
    fn beside_data(
        &self,
        path: std::path::PathBuf,
        file: Arc<dyn RandomAccessFile>,
        length: u64,
        layout: Layout,
    ) -> Arc<ChunkedFile> {
        Arc::new(ChunkedFile::new(path, file, length, layout, self.cache().clone()))
    }
}
