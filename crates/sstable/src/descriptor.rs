//! The names of an SSTable's files: `nb-1-big-Data.db`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use uuid::Uuid;

/// The versions of Cassandra's format that this crate reads, ascending. It writes [`Version::Nb`].
///
/// Rows and Index of the BIG format are the same from `ma` to `nb`; the versions differ in
/// Statistics.db, CompressionInfo.db and Filter.db.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Version {
    /// `ma` of the BIG format: Cassandra 3.0.0 to 3.0.6 and 3.1 to 3.6.
    Ma,
    /// `mb`: Cassandra 3.0.7 and 3.7.
    Mb,
    /// `mc`: Cassandra 3.0.8 to 3.0.17 and 3.8 to 3.11.3.
    Mc,
    /// `md`: Cassandra 3.0.18 to 3.0.24 and 3.11.4 to 3.11.10.
    Md,
    /// `me`: Cassandra 3.0.25 and 3.11.11, and later versions of both.
    Me,
    /// `na`: previews of Cassandra 4.0.
    Na,
    /// `nb` of the BIG format: Cassandra 4.0 and later, and 5.0 in its default storage
    /// compatibility mode.
    #[default]
    Nb,
    /// `oa` of the BIG format: Cassandra 5.0 with `storage_compatibility_mode: NONE`.
    Oa,
    /// `da` of the BTI format, the trie-indexed one: Cassandra 5.0 with `sstable.selected_format:
    /// bti`.
    Da,
}

impl Version {
    /// All versions.
    pub const ALL: [Version; 9] =
        [Self::Ma, Self::Mb, Self::Mc, Self::Md, Self::Me, Self::Na, Self::Nb, Self::Oa, Self::Da];

    /// The version letters in file names.
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Ma => "ma",
            Self::Mb => "mb",
            Self::Mc => "mc",
            Self::Md => "md",
            Self::Me => "me",
            Self::Na => "na",
            Self::Nb => "nb",
            Self::Oa => "oa",
            Self::Da => "da",
        }
    }

    /// The format's name in file names.
    pub const fn format(self) -> &'static str {
        if self.is_trie_indexed() { "bti" } else { "big" }
    }

    /// Returns whether the index is a pair of tries, Partitions.db and Rows.db, instead of Index.db
    /// and Summary.db.
    pub const fn is_trie_indexed(self) -> bool {
        matches!(self, Self::Da)
    }

    /// Returns whether deletion times are unsigned and short, and Statistics.db has the additions
    /// of 5.0.
    pub const fn is_of_cassandra_5(self) -> bool {
        matches!(self, Self::Oa | Self::Da)
    }

    /// Returns whether Cassandra 3 wrote it: Statistics.db has no checksums, CompressionInfo.db no
    /// maximum compressed length, and the words of Filter.db are big-endian.
    pub const fn is_of_cassandra_3(self) -> bool {
        matches!(self, Self::Ma | Self::Mb | Self::Mc | Self::Md | Self::Me)
    }
}

/// The identifier of an SSTable within its table.
///
/// Both kinds are read; the engine chooses the kind for new files. Cassandra 4.0 supports numbers
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SSTableId {
    /// A number, one larger than the largest present: `1`.
    Sequence(u64),
    /// A version 1 UUID in Cassandra's own spelling (`uuid_sstable_identifiers_enabled`).
    Uuid(Uuid),
}

/// 100 ns ticks in a second, the unit of version 1 UUIDs.
const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

impl fmt::Display for SSTableId {
    /// ```text
    /// dddd_ssss_nnnnnrrrrrrrrrrrrr     base 36: days (4), seconds of the day (4), ticks (5), low half of the UUID (13)
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence(number) => write!(f, "{number}"),
            Self::Uuid(uuid) => {
                let (high, low) = uuid.as_u64_pair();
                let ticks = (high & 0x0fff) << 48 | (high >> 16 & 0xffff) << 32 | high >> 32;
                let seconds = ticks / TICKS_PER_SECOND;
                write!(
                    f,
                    "{}_{}_{}{}",
                    Base36(seconds / SECONDS_PER_DAY, 4),
                    Base36(seconds % SECONDS_PER_DAY, 4),
                    Base36(ticks % TICKS_PER_SECOND, 5),
                    Base36(low, 13)
                )
            }
        }
    }
}

impl FromStr for SSTableId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() == 28 && text.is_ascii() {
            let (day, rest) = text.split_at(4);
            let (second, rest) = rest.strip_prefix('_').ok_or(())?.split_at(4);
            let (tick, low) = rest.strip_prefix('_').ok_or(())?.split_at(5);
            let number = |digits: &str| {
                if digits.starts_with('+') {
                    Err(())
                } else {
                    u64::from_str_radix(digits, 36).map_err(|_| ())
                }
            };
            let seconds = number(day)? * SECONDS_PER_DAY + number(second)?;
            let ticks = seconds * TICKS_PER_SECOND + number(tick)?;
            if ticks >> 60 != 0 {
                return Err(());
            }
            let high = ticks << 32 | (ticks >> 32 & 0xffff) << 16 | 0x1000 | ticks >> 48;
            return Ok(Self::Uuid(Uuid::from_u64_pair(high, number(low)?)));
        }
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(());
        }
        text.parse().map(Self::Sequence).map_err(|_| ())
    }
}

/// A number in base 36, padded with zeros to a width.
struct Base36(u64, usize);

impl fmt::Display for Base36 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [b'0'; 13];
        let mut rest = self.0;
        for place in digits.iter_mut().rev() {
            *place = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
        }
        let shown = digits.iter().position(|&d| d != b'0').unwrap_or(13).min(13 - self.1);
        f.write_str(std::str::from_utf8(&digits[shown..]).unwrap_or_default())
    }
}

/// One of the files of an SSTable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Checksums of the files that have none in Cassandra's format. Cassandra ignores it.
    Checksums,
    /// The compression and the offset of each compressed chunk of Data. Compressed tables only.
    CompressionInfo,
    /// A checksum per 64 KiB of Data. Uncompressed tables only.
    Crc,
    /// The rows.
    Data,
    /// The checksum of the whole Data file.
    Digest,
    /// The Bloom filter of the partition keys.
    Filter,
    /// Every partition's key and position.
    Index,
    /// Statistics about the rows, and their encoding.
    Statistics,
    /// A sample of Index.
    Summary,
    /// The trie of partition keys. BTI tables only.
    Partitions,
    /// The tries of rows within large partitions. BTI tables only.
    Rows,
    /// The index of an oa or da SSTable in the format of nb's Index; see
    /// [`derived_index`](crate::derived_index). Cassandra ignores it.
    DerivedIndex,
    /// The deletions of partitions, ranges and rows alone; see [`deletions`](crate::deletions).
    /// Only of SSTables that have some. Cassandra ignores it.
    Deletions,
    /// The list of components.
    Toc,
}

impl Component {
    /// All components.
    pub const ALL: [Component; 14] = [
        Self::Crc,
        Self::Checksums,
        Self::CompressionInfo,
        Self::Data,
        Self::Digest,
        Self::Filter,
        Self::Index,
        Self::Statistics,
        Self::Summary,
        Self::Partitions,
        Self::Rows,
        Self::DerivedIndex,
        Self::Deletions,
        Self::Toc,
    ];

    /// The last part of the file's name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Checksums => "Checksums.db",
            Self::CompressionInfo => "CompressionInfo.db",
            Self::Crc => "CRC.db",
            Self::Data => "Data.db",
            Self::Digest => "Digest.crc32",
            Self::Filter => "Filter.db",
            Self::Index => "Index.db",
            Self::Statistics => "Statistics.db",
            Self::Summary => "Summary.db",
            Self::Partitions => "Partitions.db",
            Self::Rows => "Rows.db",
            Self::DerivedIndex => "NbIndex.db",
            Self::Deletions => "Deletions.db",
            Self::Toc => "TOC.txt",
        }
    }

    /// The component with this [`Component::file_name`].
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.file_name() == name)
    }
}

/// The location of an SSTable: its directory and the prefix of its file names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// The table's directory.
    pub directory: PathBuf,
    /// The version of the format.
    pub version: Version,
    /// The number or UUID in the names.
    pub id: SSTableId,
}

/// The parsed name of an SSTable's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileName {
    /// A component of a version that this crate reads.
    Known(Version, SSTableId, Component),
    /// An SSTable of another version or format, such as `la-1-big-Data.db`.
    OtherVersion {
        /// The version letters.
        version: String,
        /// The format's name.
        format: String,
    },
}

impl Descriptor {
    /// Describes the SSTable `id` in `directory`, of the version that is written.
    pub fn new(directory: impl Into<PathBuf>, id: SSTableId) -> Self {
        Self::of_version(directory, Version::default(), id)
    }

    /// Describes the SSTable `id` in `directory`.
    pub fn of_version(directory: impl Into<PathBuf>, version: Version, id: SSTableId) -> Self {
        Self { directory: directory.into(), version, id }
    }

    /// The path of a component.
    pub fn path(&self, component: Component) -> PathBuf {
        self.directory.join(self.file_name(component))
    }

    /// The name of a component's file: `nb-1-big-Data.db`.
    pub fn file_name(&self, component: Component) -> String {
        self.file_prefix() + component.file_name()
    }

    /// Returns the prefix of all its file names: `nb-1-big-`.
    pub fn file_prefix(&self) -> String {
        format!("{}-{}-{}-", self.version.letters(), self.id, self.version.format())
    }

    /// Parses the path of one of the SSTable's files.
    pub fn from_path(path: &Path) -> Option<(Self, Component)> {
        match parse_file_name(path.file_name()?.to_str()?)? {
            FileName::Known(version, id, component) => {
                Some((Self::of_version(path.parent().unwrap_or(Path::new("")), version, id), component))
            }
            FileName::OtherVersion { .. } => None,
        }
    }
}

impl fmt::Display for Descriptor {
    /// The path without the component: `…/nb-1-big`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.directory.join(self.file_prefix());
        f.write_str(path.to_string_lossy().trim_end_matches('-'))
    }
}

/// Parses a file name; `None` if it is not that of an SSTable's component.
pub fn parse_file_name(name: &str) -> Option<FileName> {
    let mut parts = name.splitn(4, '-');
    let (version, id, format, component) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if version.len() != 2
        || !version.bytes().all(|b| b.is_ascii_lowercase())
        || !matches!(format, "big" | "bti")
    {
        return None;
    }
    let id = id.parse().ok()?;
    match Version::ALL.into_iter().find(|known| known.letters() == version && known.format() == format) {
        Some(version) => Some(FileName::Known(version, id, Component::from_file_name(component)?)),
        None => Some(FileName::OtherVersion { version: version.into(), format: format.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_name_reads_back() {
        let descriptor = Descriptor::new("/data/ks/t-0123", SSTableId::Sequence(17));
        let path = descriptor.path(Component::Statistics);
        assert_eq!(path, Path::new("/data/ks/t-0123/nb-17-big-Statistics.db"));
        assert_eq!(Descriptor::from_path(&path), Some((descriptor, Component::Statistics)));
    }

    #[test]
    fn a_uuid_id_has_cassandras_spelling() {
        // days_seconds_ticks and low half: the test composes the parts below.
        let id: SSTableId = "3fw2_0tj4_46w3k2cpidnirvjy7k".parse().unwrap();
        let SSTableId::Uuid(uuid) = id else { panic!("{id:?}") };
        assert_eq!(uuid.get_version_num(), 1);
        assert_eq!(id.to_string(), "3fw2_0tj4_46w3k2cpidnirvjy7k");
        let low = SSTableId::Uuid(Uuid::from_u64_pair(0x1000, 5));
        assert_eq!(low.to_string(), "0000_0000_000000000000000005");
        assert_eq!(low.to_string().parse(), Ok(low));
    }

    #[test]
    fn other_versions_are_told_from_strangers() {
        let other = |v: &str, f: &str| Some(FileName::OtherVersion { version: v.into(), format: f.into() });
        assert_eq!(parse_file_name("la-1-big-Data.db"), other("la", "big"));
        assert_eq!(parse_file_name("oa-1-bti-Data.db"), other("oa", "bti"));
        let known = FileName::Known(Version::Da, SSTableId::Sequence(1), Component::Rows);
        assert_eq!(parse_file_name("da-1-bti-Rows.db"), Some(known));
        assert_eq!(parse_file_name("nb_txn_flush_1234.log"), None);
        assert_eq!(parse_file_name("nb-x-big-Data.db"), None);
        assert_eq!(parse_file_name("nb-1-big-Data.db.tmp"), None);
    }
}
