//! What a cache held, in a file: enough to find it again, never the data itself.
//!
//! Written under another name and renamed. Readers trust nothing: each block has a checksum, and is
//! of one table; what a reader does not know any more, it leaves out.
//!
//! ```text
//! "CASSCACH", u32 version, u8 kind (1 keys, 2 rows, 3 counters)
//! blocks: u32 length, u32 crc32 of the payload, payload                                          all big-endian
//!
//! payload of keys      u128 table, u16 n, the SSTable's id as text, u32 crc of Data, u64 length of Data, u64 length of Index,
//!                      places: u64 * 2 hash of the key, u64 in Data, u64 in Index, u32 length of the index of rows
//! payload of rows      u128 table, partitions: u16 n, key
//! payload of counters  u128 table, rows: u16 n, key, u16 clustering columns, of each: u32 n, value
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use cassette_rows::{Clustering, DecoratedKey, Result, StorageError, TableId};
use cassette_sstable::{Fingerprint, PartitionPlace, SSTableId};
use cassette_vfs::{FileSystem, RandomAccessFile, WritableFile};
use uuid::Uuid;

use crate::basics::options::CacheKind;

const MAGIC: [u8; 8] = *b"CASSCACH";
/// Never reuse a number for another layout.
const VERSION: u32 = 1;
const HEADER_LENGTH: usize = 13;
/// A block is full from this many bytes on.
const BLOCK_FULL: usize = 64 << 10;
/// The maximum length of a block: a full one, and one more entry with a key and a clustering of 64
/// KiB each, rounded up.
const BLOCK_MAX: usize = 1 << 20;
/// 16 hash + 8 in Data + 8 in Index + 4 length.
const PLACE_LENGTH: usize = 36;

/// The contents of one block.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Keys { table: TableId, sstable: SSTableId, fingerprint: Fingerprint, places: Vec<Place> },
    Rows { table: TableId, keys: Vec<DecoratedKey> },
    Counters { table: TableId, rows: Vec<(DecoratedKey, Clustering)> },
}

/// The hash of a key, and its position.
pub(super) type Place = ((u64, u64), PartitionPlace);

fn header(kind: CacheKind) -> [u8; HEADER_LENGTH] {
    let mut header = [0; HEADER_LENGTH];
    let mut out = &mut header[..];
    out.put_slice(&MAGIC);
    out.put_u32(VERSION);
    out.put_u8(match kind {
        CacheKind::Key => 1,
        CacheKind::Row => 2,
        CacheKind::Counter => 3,
    });
    header
}

/// A file being written, which takes effect when it is [finished](Self::finish).
pub(super) struct Writer {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    temporary: PathBuf,
    file: Box<dyn WritableFile>,
    block: Vec<u8>,
}

impl Writer {
    pub fn create(fs: Arc<dyn FileSystem>, path: &Path, kind: CacheKind) -> Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let mut file = fs.create(&temporary).map_err(|e| StorageError::io(&temporary, "create", e))?;
        file.write_all(&header(kind)).map_err(|e| StorageError::io(&temporary, "write", e))?;
        Ok(Self { fs, path: path.to_owned(), temporary, file, block: Vec::new() })
    }

    /// Writes the positions of keys in one SSTable.
    pub fn keys(
        &mut self,
        table: TableId,
        sstable: SSTableId,
        fingerprint: Fingerprint,
        places: &[Place],
    ) -> Result<()> {
        for places in places.chunks(BLOCK_FULL / PLACE_LENGTH) {
            self.block.put_u128(table.0.as_u128());
            put_short(&mut self.block, sstable.to_string().as_bytes());
            self.block.put_u32(fingerprint.data_crc);
            self.block.put_u64(fingerprint.data_length);
            self.block.put_u64(fingerprint.index_length);
            for (hash, place) in places {
                self.block.put_u64(hash.0);
                self.block.put_u64(hash.1);
                self.block.put_u64(place.position);
                self.block.put_u64(place.promoted_start);
                self.block.put_u32(place.promoted_length);
            }
            self.end_block()?;
        }
        Ok(())
    }

    /// Writes the keys of partitions of one table.
    pub fn rows<'a>(&mut self, table: TableId, keys: impl Iterator<Item = &'a DecoratedKey>) -> Result<()> {
        self.entries(table, keys, |key, block| put_short(block, key.key()))
    }

    /// Writes the keys of rows of one table.
    pub fn counters<'a>(
        &mut self,
        table: TableId,
        rows: impl Iterator<Item = (&'a DecoratedKey, &'a Clustering)>,
    ) -> Result<()> {
        self.entries(table, rows, |(key, clustering), block| {
            put_short(block, key.key());
            block.put_u16(clustering.len() as u16);
            for value in clustering.values() {
                let value = value.unwrap_or_default();
                block.put_u32(value.len() as u32);
                block.put_slice(value);
            }
        })
    }

    fn entries<E>(
        &mut self,
        table: TableId,
        entries: impl Iterator<Item = E>,
        put: impl Fn(E, &mut Vec<u8>),
    ) -> Result<()> {
        for entry in entries {
            if self.block.is_empty() {
                self.block.put_u128(table.0.as_u128());
            }
            let before = self.block.len();
            put(entry, &mut self.block);
            if self.block.len() > BLOCK_MAX {
                // The length of clusterings is not limited otherwise. Such a row is not cached at
                // the start.
                self.block.truncate(before);
            }
            if self.block.len() >= BLOCK_FULL {
                self.end_block()?;
            }
        }
        if self.block.is_empty() { Ok(()) } else { self.end_block() }
    }

    fn end_block(&mut self) -> Result<()> {
        let mut head = Vec::with_capacity(8);
        head.put_u32(self.block.len() as u32);
        head.put_u32(crc32fast::hash(&self.block));
        let mut write = |bytes: &[u8]| {
            self.file.write_all(bytes).map_err(|e| StorageError::io(&self.temporary, "write", e))
        };
        write(&head)?;
        write(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Durably renames the file to its final name.
    pub fn finish(self) -> Result<()> {
        self.file.sync().map_err(|e| StorageError::io(&self.temporary, "sync", e))?;
        drop(self.file);
        self.fs.rename(&self.temporary, &self.path).map_err(|e| StorageError::io(&self.path, "put", e))?;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        self.fs.sync_dir(directory).map_err(|e| StorageError::io(directory, "sync the directory", e))
    }
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u16(bytes.len() as u16);
    out.put_slice(bytes);
}

/// A file being read.
pub(super) struct Reader {
    path: PathBuf,
    file: Arc<dyn RandomAccessFile>,
    kind: CacheKind,
    length: u64,
    offset: u64,
}

impl Reader {
    /// Returns `None` if the file does not exist.
    pub fn open(fs: &dyn FileSystem, path: &Path, kind: CacheKind) -> Result<Option<Self>> {
        if !fs.exists(path).map_err(|e| StorageError::io(path, "look for", e))? {
            return Ok(None);
        }
        let file = fs.open(path).map_err(|e| StorageError::io(path, "open", e))?;
        let length = file.len().map_err(|e| StorageError::io(path, "measure", e))?;
        let mut reader = Self { path: path.to_owned(), file, kind, length, offset: 0 };
        match reader.take(HEADER_LENGTH)? {
            Some(found) if found[..] == header(kind) => Ok(Some(reader)),
            _ => Err(StorageError::corrupt(path, format!("no saved {kind:?} cache of version {VERSION}"))),
        }
    }

    /// Returns the next block; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Block>> {
        if self.offset == self.length {
            return Ok(None);
        }
        let start = self.offset;
        let corrupt = |detail: &str| StorageError::corrupt(&self.path, format!("block at {start}: {detail}"));
        let torn = corrupt("the file ends within it");
        let wrong_length = corrupt("more bytes than a block has");
        let wrong_checksum = corrupt("its checksum does not fit");
        let wrong_content = corrupt("its content is none");
        let Some(head) = self.take(8)? else { return Err(torn) };
        let mut head = &head[..];
        let (length, checksum) = (head.get_u32() as usize, head.get_u32());
        if length > BLOCK_MAX {
            return Err(wrong_length);
        }
        let Some(payload) = self.take(length)? else { return Err(torn) };
        if crc32fast::hash(&payload) != checksum {
            return Err(wrong_checksum);
        }
        decode(self.kind, payload.into()).map(Some).ok_or(wrong_content)
    }

    /// Returns the next bytes; `None` if there are fewer.
    fn take(&mut self, length: usize) -> Result<Option<Vec<u8>>> {
        if self.length - self.offset < length as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        read.map_err(|e| StorageError::io(&self.path, format!("read at {}", self.offset), e))?;
        self.offset += length as u64;
        Ok(Some(bytes))
    }
}

/// Returns `None` if the bytes are not a valid block.
fn decode(kind: CacheKind, mut payload: Bytes) -> Option<Block> {
    let table = TableId(Uuid::from_u128(payload.try_get_u128().ok()?));
    match kind {
        CacheKind::Key => {
            let id = take_short(&mut payload)?;
            let sstable = std::str::from_utf8(&id).ok()?.parse().ok()?;
            let fingerprint = Fingerprint {
                data_crc: payload.try_get_u32().ok()?,
                data_length: payload.try_get_u64().ok()?,
                index_length: payload.try_get_u64().ok()?,
            };
            let (places, rest) = payload.as_chunks::<PLACE_LENGTH>();
            let place = |mut fields: &[u8]| {
                let hash = (fields.get_u64(), fields.get_u64());
                let (position, promoted_start) = (fields.get_u64(), fields.get_u64());
                (hash, PartitionPlace { position, promoted_start, promoted_length: fields.get_u32() })
            };
            let places = places.iter().map(|fields| place(fields)).collect();
            rest.is_empty().then_some(Block::Keys { table, sstable, fingerprint, places })
        }
        CacheKind::Row => {
            let mut keys = Vec::new();
            while !payload.is_empty() {
                keys.push(DecoratedKey::new(take_short(&mut payload)?));
            }
            Some(Block::Rows { table, keys })
        }
        CacheKind::Counter => {
            let mut rows = Vec::new();
            while !payload.is_empty() {
                let key = DecoratedKey::new(take_short(&mut payload)?);
                let count = payload.try_get_u16().ok()?;
                let mut values = Vec::new();
                for _ in 0..count {
                    let length = payload.try_get_u32().ok()?;
                    values.push(take(&mut payload, length as usize)?);
                }
                let clustering = Clustering::new(values.iter().map(|value| Some(&value[..])));
                rows.push((key, clustering));
            }
            Some(Block::Counters { table, rows })
        }
    }
}

fn take_short(payload: &mut Bytes) -> Option<Bytes> {
    let length = payload.try_get_u16().ok()?;
    take(payload, length.into())
}

fn take(payload: &mut Bytes, length: usize) -> Option<Bytes> {
    (payload.len() >= length).then(|| payload.split_to(length))
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::engine_tests::testing::{clustering, key};

    fn read(fs: &FakeFileSystem, kind: CacheKind) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        let Some(mut reader) = Reader::open(fs, Path::new("cache"), kind)? else { return Ok(blocks) };
        while let Some(block) = reader.next()? {
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn write(fs: &FakeFileSystem, kind: CacheKind, write: impl FnOnce(&mut Writer) -> Result<()>) {
        let mut writer = Writer::create(Arc::new(fs.clone()), Path::new("cache"), kind).unwrap();
        write(&mut writer).unwrap();
        writer.finish().unwrap();
    }

    const TABLE: TableId = TableId(Uuid::from_u128(7));

    #[test]
    fn what_was_written_is_read_again_after_a_crash() {
        let fs = FakeFileSystem::new();
        assert_eq!(read(&fs, CacheKind::Row).unwrap(), []);
        let keys: Vec<_> = (0..20_000).map(key).collect();
        write(&fs, CacheKind::Row, |writer| writer.rows(TABLE, keys.iter()));
        let fs = fs.crash(1);
        let blocks = read(&fs, CacheKind::Row).unwrap();
        assert!(blocks.len() > 1, "{}", blocks.len());
        let of = |block: Block| match block {
            Block::Rows { table: TABLE, keys } => keys,
            other => panic!("{other:?}"),
        };
        assert_eq!(blocks.into_iter().flat_map(of).collect::<Vec<_>>(), keys);

        let rows = [(key(1), clustering(1, 2)), (key(2), Clustering::empty())];
        let borrowed = || rows.iter().map(|(key, clustering)| (key, clustering));
        write(&fs, CacheKind::Counter, |writer| writer.counters(TABLE, borrowed()));
        let expected = Block::Counters { table: TABLE, rows: rows.to_vec() };
        assert_eq!(read(&fs, CacheKind::Counter).unwrap(), [expected]);

        let fingerprint = Fingerprint { data_crc: 1, data_length: 2, index_length: 3 };
        let place =
            |n: u64| ((n, !n), PartitionPlace { position: n, promoted_start: n * 2, promoted_length: 9 });
        let places: Vec<_> = (0..5).map(place).collect();
        let sstable = SSTableId::Sequence(12);
        write(&fs, CacheKind::Key, |writer| writer.keys(TABLE, sstable, fingerprint, &places));
        let expected = Block::Keys { table: TABLE, sstable, fingerprint, places };
        assert_eq!(read(&fs, CacheKind::Key).unwrap(), [expected]);
    }

    #[test]
    fn every_flipped_or_missing_byte_is_found() {
        let fs = FakeFileSystem::new();
        let keys: Vec<_> = (0..20).map(key).collect();
        write(&fs, CacheKind::Row, |writer| writer.rows(TABLE, keys.iter()));
        let path = Path::new("cache");
        let content = (&fs as &dyn FileSystem).read(path).unwrap();
        let put = |content: &[u8]| (&fs as &dyn FileSystem).write_atomically(path, content).unwrap();
        for at in 0..content.len() {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            put(&flipped);
            assert!(read(&fs, CacheKind::Row).is_err(), "flipped at {at}");
            // A file that ends after the header is that of an empty cache.
            if at != HEADER_LENGTH {
                put(&content[..at]);
                assert!(read(&fs, CacheKind::Row).is_err(), "cut at {at}");
            }
        }
        put(&content);
        assert!(read(&fs, CacheKind::Key).is_err(), "a cache of another kind");
    }
}
