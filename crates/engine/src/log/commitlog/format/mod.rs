//! The bytes of a segment. All integers are big-endian. Never change any of this under the same
//! [`VERSION`].
//!
//! ```text
//! segment = header record* (end | zeros up to the reserved size | end of file)
//!
//! header   0  magic     "CASSTLOG"
//!          8  u32       version
//!         12  u64       segment id
//!         20  u128      boot id of the machine that wrote it, 0 when unknown
//!         36  u32       crc32 of bytes 0..36
//!
//! record   0  u32       length n of the body, at least 1
//!          4  u32       crc32 of (u64 segment id, u32 offset of this record, u32 n): a length is believed only where it was written
//!          8  n bytes   body: u8 kind, then by kind
//!      8 + n  u32       crc32 of the body, started from the crc32 at 4
//!
//! end          kind 1   the segment was finished here
//! sync mark    kind 2   u64 segment id, u32 offset: everything up to this position had been synced when this was written
//! dictionary   kind 3   u16 index, u128 table, u32 schema version, bytes: what the index stands for in this segment
//! entry        kind 4   u16 count, count x u16 dictionary index, bytes
//!
//! in segments of version 102, dictionaries and entries are encrypted:
//!
//! encryption   kind 5   the first record: parameters of the segment's cipher (`cassette_vfs::encryption`)
//! encrypted    kind 6   n bytes: the body of a dictionary or an entry, encrypted; 16 bytes: its tag
//!                       the number of the piece is the record's offset; its context is what the length's checksum is of
//!
//! in segments of versions 103 and, encrypted, 104, which are archived:
//!
//! time         kind 7   i64 microseconds since 1970 by the clock: the following records were appended then or within a
//!                       millisecond after it
//! event        kind 8   u8 what: 1 truncated | 2 imported, u128 table, u64 segment id, u32 offset:
//!                       1: the table has no record up to this position any more
//!                       2: the table has SSTables that no record contains, since this position
//! ```

mod encode;

use cassette_vfs::encryption::{PARAMETERS_MAX, PieceCipher};
use crc32fast::Hasher;

pub(super) use self::encode::{DetachedEntry, Encoder, seal};
use super::{Position, TableVersion};

/// Distinct from the versions of Cassandra's commit logs, which use small numbers in the same kind
/// of file name.
pub(super) const VERSION: u32 = 101;

/// The version of encrypted segments.
pub(super) const ENCRYPTED_VERSION: u32 = 102;

/// The versions of segments that are archived: plain, and encrypted.
pub(super) const ARCHIVED_VERSION: u32 = 103;
pub(super) const ARCHIVED_ENCRYPTED_VERSION: u32 = 104;

const MAGIC: [u8; 8] = *b"CASSTLOG";

/// 8 magic + 4 version + 8 id + 16 boot id + 4 checksum.
pub(super) const HEADER_LEN: u32 = 40;

/// 4 length + 4 checksum of it + 4 checksum of the body.
const FRAMING_LEN: usize = 12;

/// The framing and one byte of kind.
pub(super) const END_LEN: u32 = FRAMING_LEN as u32 + 1;

/// The maximum length of the record with the parameters of a cipher.
pub(super) const ENCRYPTION_LEN_MAX: u32 = FRAMING_LEN as u32 + 1 + PARAMETERS_MAX as u32;

/// The framing, one byte of kind, 8 segment id and 4 offset.
pub(super) const SYNC_MARK_LEN: u32 = FRAMING_LEN as u32 + 13;

/// The framing, one byte of kind, 8 microseconds.
pub(super) const TIME_LEN: u32 = FRAMING_LEN as u32 + 9;

/// The framing, one byte of kind, 1 what, 16 table, 8 segment id and 4 offset.
pub(super) const EVENT_LEN: u32 = FRAMING_LEN as u32 + 30;

const KIND_END: u8 = 1;
const KIND_SYNC_MARK: u8 = 2;
const KIND_DICTIONARY: u8 = 3;
const KIND_ENTRY: u8 = 4;
const KIND_ENCRYPTION: u8 = 5;
const KIND_ENCRYPTED: u8 = 6;
const KIND_TIME: u8 = 7;
const KIND_EVENT: u8 = 8;

const EVENT_TRUNCATED: u8 = 1;
const EVENT_IMPORTED: u8 = 2;

/// A change of a table that its records do not contain, for readers of archived segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The table.
    pub table: u128,
    /// What has happened to it.
    pub kind: EventKind,
    /// The end of the last record before it.
    pub position: Position,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The table was truncated.
    Truncated,
    /// SSTables from elsewhere were added to it.
    Imported,
}

/// Returns the name of a segment's file.
pub(super) fn file_name(version: u32, id: u64) -> String {
    format!("CommitLog-{version}-{id}.log")
}

/// Returns the version and id in a file's name; `None` for files that are not segments.
pub(super) fn parse_file_name(name: &str) -> Option<(u64, u64)> {
    let (version, id) = name.strip_prefix("CommitLog-")?.strip_suffix(".log")?.split_once('-')?;
    Some((version.parse().ok()?, id.parse().ok()?))
}

/// Returns the version of a segment's format.
pub(super) fn version(encrypted: bool, archived: bool) -> u32 {
    match (encrypted, archived) {
        (false, false) => VERSION,
        (true, false) => ENCRYPTED_VERSION,
        (false, true) => ARCHIVED_VERSION,
        (true, true) => ARCHIVED_ENCRYPTED_VERSION,
    }
}

/// Whether this code reads segments of a version.
pub(super) fn is_known_version(version: u64) -> bool {
    (u64::from(VERSION)..=u64::from(ARCHIVED_ENCRYPTED_VERSION)).contains(&version)
}

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) id: u64,
    pub(super) boot_id: Option<u128>,
}

impl Header {
    pub(super) fn new(version: u32, id: u64, boot_id: Option<u128>) -> Self {
        Self { version, id, boot_id }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.boot_id.unwrap_or(0).to_be_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    /// Decodes the header at the start of a segment.
    pub(super) fn decode(segment: &[u8]) -> Result<Self, &'static str> {
        let mut bytes = Reader(segment.get(..HEADER_LEN as usize).ok_or("header cut short")?);
        let checked = crc32fast::hash(&segment[..HEADER_LEN as usize - 4]);
        let magic: [u8; 8] = bytes.take().ok_or("header cut short")?;
        let mut fields = || {
            let version = u32::from_be_bytes(bytes.take()?);
            let id = u64::from_be_bytes(bytes.take()?);
            let boot_id = u128::from_be_bytes(bytes.take()?);
            let checksum = u32::from_be_bytes(bytes.take()?);
            Some((version, id, boot_id, checksum))
        };
        let (version, id, boot_id, checksum) = fields().ok_or("header cut short")?;
        if magic != MAGIC {
            return Err("header without the magic bytes of a commit log segment");
        }
        if checksum != checked {
            return Err("header fails its checksum");
        }
        Ok(Self { version, id, boot_id: (boot_id != 0).then_some(boot_id) })
    }
}

/// An encrypted body whose checksum matched.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) struct Sealed<'a>(&'a [u8]);

impl Sealed<'_> {
    /// Decrypts the body of the record that ends at `end` of the segment; `None` if it was not
    /// encrypted there with this cipher.
    pub(super) fn open(&self, segment: u64, end: usize, cipher: &dyn PieceCipher) -> Option<Vec<u8>> {
        // With the byte of its kind.
        let length = self.0.len() + 1;
        let offset = u32::try_from(end.checked_sub(length + FRAMING_LEN)?).ok()?;
        let context = length_context(segment, offset, u32::try_from(length).ok()?);
        let mut bytes = self.0.to_vec();
        let opened = cipher.open(offset.into(), &context, &mut bytes)?.len();
        bytes.truncate(opened);
        Some(bytes)
    }
}

fn length_checksum(segment: u64, offset: u32, length: u32) -> u32 {
    crc32fast::hash(&length_context(segment, offset, length))
}

fn length_context(segment: u64, offset: u32, length: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&segment.to_be_bytes());
    bytes[8..12].copy_from_slice(&offset.to_be_bytes());
    bytes[12..].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn body_checksum(length_checksum: u32, body: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(length_checksum);
    hasher.update(body);
    hasher.finalize()
}

/// The contents at an offset of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A record whose checksums match, and the offset after it.
    Body(&'a [u8], usize),
    /// The end of the file.
    EndOfFile,
    /// Zeros in place of a length: reserved and not written.
    Untouched,
    /// Anything else, with the reason why it is not a record.
    Damaged(&'static str),
}

/// Reads the record at `offset` of a segment's bytes.
pub(super) fn find(segment: u64, bytes: &[u8], offset: usize) -> Found<'_> {
    let Some(rest) = bytes.get(offset..) else { return Found::EndOfFile };
    if rest.is_empty() {
        return Found::EndOfFile;
    }
    let mut reader = Reader(rest);
    let (Some(length), Some(checksum)) =
        (reader.take().map(u32::from_be_bytes), reader.take().map(u32::from_be_bytes))
    else {
        return if rest.iter().all(|byte| *byte == 0) {
            Found::Untouched
        } else {
            Found::Damaged("record cut short")
        };
    };
    if length == 0 {
        return if checksum == 0 {
            Found::Untouched
        } else {
            Found::Damaged("record length fails its checksum")
        };
    }
    let (Ok(offset), Ok(end)) = (u32::try_from(offset), usize::try_from(length)) else {
        return Found::Damaged("record beyond the largest segment");
    };
    // Checked before the checksum, because it is cheaper: the search for the next record does this
    // at every byte.
    let Some(body) = reader.0.get(..end) else {
        return Found::Damaged("record longer than the rest of the file, or its length is wrong");
    };
    if length_checksum(segment, offset, length) != checksum {
        return Found::Damaged("record length fails its checksum");
    }
    reader.0 = &reader.0[end..];
    let Some(stored) = reader.take().map(u32::from_be_bytes) else {
        return Found::Damaged("record cut short");
    };
    if body_checksum(checksum, body) != stored {
        return Found::Damaged("record fails its checksum");
    }
    Found::Body(body, offset as usize + end + FRAMING_LEN)
}

/// A decoded record body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    End,
    SyncMark(Position),
    Dictionary {
        index: u16,
        table: TableVersion,
        content: &'a [u8],
    },
    Entry {
        indexes: Indexes<'a>,
        content: &'a [u8],
    },
    /// The parameters of the segment's cipher.
    Encryption(&'a [u8]),
    Encrypted(Sealed<'a>),
    /// The time of the following records, microseconds since 1970.
    Time(i64),
    Event(Event),
}

/// The dictionary indexes of an entry.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) struct Indexes<'a>(&'a [u8]);

impl Indexes<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
    }
}

impl<'a> Body<'a> {
    /// Decodes a body whose checksum matched; `None` if this version does not write such a body.
    pub(super) fn decode(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(body);
        let [kind] = reader.take()?;
        Some(match kind {
            KIND_END if reader.0.is_empty() => Body::End,
            KIND_SYNC_MARK if reader.0.len() == 12 => Body::SyncMark(Position {
                segment: u64::from_be_bytes(reader.take()?),
                offset: u32::from_be_bytes(reader.take()?),
            }),
            KIND_DICTIONARY => Body::Dictionary {
                index: u16::from_be_bytes(reader.take()?),
                table: TableVersion {
                    table: u128::from_be_bytes(reader.take()?),
                    schema: u32::from_be_bytes(reader.take()?),
                },
                content: reader.0,
            },
            KIND_ENTRY => {
                let count = usize::from(u16::from_be_bytes(reader.take()?));
                let (indexes, content) = reader.0.split_at_checked(count * 2)?;
                Body::Entry { indexes: Indexes(indexes), content }
            }
            KIND_ENCRYPTION => Body::Encryption(reader.0),
            KIND_ENCRYPTED => Body::Encrypted(Sealed(reader.0)),
            KIND_TIME if reader.0.len() == 8 => Body::Time(i64::from_be_bytes(reader.take()?)),
            KIND_EVENT if reader.0.len() == 29 => {
                let [kind] = reader.take()?;
                let kind = match kind {
                    EVENT_TRUNCATED => EventKind::Truncated,
                    EVENT_IMPORTED => EventKind::Imported,
                    _ => return None,
                };
                let table = u128::from_be_bytes(reader.take()?);
                let position = Position {
                    segment: u64::from_be_bytes(reader.take()?),
                    offset: u32::from_be_bytes(reader.take()?),
                };
                Body::Event(Event { table, kind, position })
            }
            _ => return None,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableVersion = TableVersion { table: 0x1234, schema: 7 };

    const EVENT: Event =
        Event { table: 0x1234, kind: EventKind::Truncated, position: Position { segment: 9, offset: 50 } };

    fn records() -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder { segment: 9, base: 100, encrypted: false, out: &mut out };
        encoder.sync_mark(Position { segment: 8, offset: 77 });
        encoder.dictionary(3, TABLE, |out| out.extend(b"columns"));
        encoder.entry([3, 4].into_iter(), |out| out.extend(b"row"));
        let written = encoder.out.len();
        encoder.time(1_795_500_000_123_456);
        assert_eq!(encoder.out.len() - written, TIME_LEN as usize);
        encoder.event(&EVENT);
        assert_eq!(encoder.out.len() - written, (TIME_LEN + EVENT_LEN) as usize);
        encoder.end();
        out
    }

    fn segment() -> Vec<u8> {
        let mut bytes = vec![0; 100];
        bytes.extend(records());
        bytes.extend([0; 50]);
        bytes
    }

    #[test]
    fn records_read_back_as_they_were_written() {
        let bytes = segment();
        let mut offset = 100;
        let mut bodies = Vec::new();
        while let Found::Body(body, end) = find(9, &bytes, offset) {
            bodies.push(Body::decode(body).unwrap());
            offset = end;
        }
        assert_eq!(find(9, &bytes, offset), Found::Untouched);
        assert_eq!(bodies[0], Body::SyncMark(Position { segment: 8, offset: 77 }));
        assert_eq!(bodies[1], Body::Dictionary { index: 3, table: TABLE, content: b"columns" });
        let Body::Entry { indexes, content } = &bodies[2] else { panic!("an entry") };
        assert_eq!((indexes.iter().collect::<Vec<_>>(), *content), (vec![3, 4], b"row".as_slice()));
        assert_eq!(bodies[3..], [Body::Time(1_795_500_000_123_456), Body::Event(EVENT), Body::End]);
    }

    #[test]
    fn an_entry_that_was_encoded_before_it_had_a_place_has_the_same_bytes() {
        for (indexes, content) in [(vec![], b"".as_slice()), (vec![3], b"row"), (vec![3, 400], &[7; 1000])] {
            let mut bytes = vec![1, 2, 3];
            for encrypted in [false, true] {
                bytes.truncate(3);
                let mut encoder = Encoder { segment: 9, base: 100, encrypted, out: &mut bytes };
                let size = encoder.entry(indexes.iter().copied(), |out| out.extend(content));
                let detached = DetachedEntry::encode(indexes.len(), 10, encrypted, |out| out.extend(content));
                assert_eq!(detached.len(), size);
                assert_eq!(detached.place(9, 103, &indexes), bytes[3..]);
            }
        }
    }

    #[test]
    fn a_record_is_believed_only_in_the_segment_and_at_the_offset_it_was_written_for() {
        let bytes = segment();
        assert!(matches!(find(10, &bytes, 100), Found::Damaged(_)));
        let mut shifted = vec![0; 101];
        shifted.extend(records());
        assert!(matches!(find(9, &shifted, 101), Found::Damaged(_)));
    }

    #[test]
    fn encrypted_records_open_only_where_they_were_written() {
        let cipher = super::super::tests::encryption("a").begin().unwrap().cipher;
        let mut bytes = vec![0; 100];
        let mut out = Vec::new();
        let mut encoder = Encoder { segment: 9, base: 100, encrypted: true, out: &mut out };
        encoder.sync_mark(Position { segment: 8, offset: 77 });
        encoder.dictionary(3, TABLE, |out| out.extend(b"columns"));
        encoder.entry([3].into_iter(), |out| out.extend(b"row"));
        encoder.end();
        seal(9, 100, &mut out, cipher.as_ref());
        bytes.extend(out);
        assert!(!bytes.windows(7).any(|window| window == b"columns"));
        let (mut offset, mut opened) = (100, Vec::new());
        while let Found::Body(body, end) = find(9, &bytes, offset) {
            if let Some(Body::Encrypted(sealed)) = Body::decode(body) {
                assert_eq!(sealed.open(10, end, cipher.as_ref()), None);
                assert_eq!(sealed.open(9, end + 1, cipher.as_ref()), None);
                opened.push(sealed.open(9, end, cipher.as_ref()).unwrap());
            }
            offset = end;
        }
        assert_eq!(offset, bytes.len());
        let dictionary = Body::Dictionary { index: 3, table: TABLE, content: b"columns" };
        assert_eq!(Body::decode(&opened[0]), Some(dictionary));
        assert!(matches!(Body::decode(&opened[1]), Some(Body::Entry { content: b"row", .. })));
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_noticed() {
        let bytes = segment();
        let Found::Body(_, end) = find(9, &bytes, 100) else { panic!("a record") };
        for bit in 100 * 8..end * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(find(9, &flipped, 100), Found::Damaged(_)), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_of_a_record_is_noticed() {
        let bytes = segment();
        let Found::Body(_, end) = find(9, &bytes, 100) else { panic!("a record") };
        assert_eq!(find(9, &bytes[..100], 100), Found::EndOfFile);
        for cut in 101..end {
            // The first bytes of a length are zeros, like bytes never written.
            let found = find(9, &bytes[..cut], 100);
            assert!(
                matches!(found, Found::Damaged(_)) || (found == Found::Untouched && cut < 104),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn bodies_of_no_known_shape_are_not_understood() {
        for body in [
            &[][..],
            &[0],
            &[9],
            &[KIND_TIME, 1],
            &[KIND_EVENT; 30],
            &[KIND_END, 0],
            &[KIND_SYNC_MARK, 1],
            &[KIND_DICTIONARY; 10],
            &[KIND_ENTRY, 0, 2, 1],
        ] {
            assert_eq!(Body::decode(body), None);
        }
    }

    #[test]
    fn headers_read_back_and_every_flipped_bit_is_noticed() {
        for boot_id in [None, Some(u128::MAX)] {
            let header = Header::new(VERSION, 42, boot_id);
            let bytes = header.encode();
            assert_eq!(bytes.len(), HEADER_LEN as usize);
            assert_eq!(Header::decode(&bytes), Ok(header));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Header::decode(&flipped).is_err());
            }
            assert!(Header::decode(&bytes[..39]).is_err());
        }
    }

    #[test]
    fn file_names_carry_version_and_id() {
        assert_eq!(parse_file_name(&file_name(VERSION, 17)), Some((u64::from(VERSION), 17)));
        for other in
            ["CommitLog-7.log", "CommitLog-a-1.log", "CommitLog-7-1.log.tmp", "lock", "CommitLog-7--1.log"]
        {
            assert_eq!(parse_file_name(other), None);
        }
    }
}
