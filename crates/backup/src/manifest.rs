//! manifest.json of a backup: what it contains, with lengths and checksums.

use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The keyspace of the schema. It is part of a backup that the archived commit log continues,
/// because schema changes are records of its tables.
pub(crate) const SCHEMA: &str = "system_schema";

/// The contents of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// The version of the program that created the backup.
    pub cassette_version: String,
    /// The start of the backup, milliseconds since 1970. The backup contains every write that was
    /// acknowledged before.
    pub started_at_millis: i64,
    /// The end of the backup, milliseconds since 1970.
    pub ended_at_millis: i64,
    /// The order of creation, which times do not show if a clock is set back. Later backups have
    /// higher numbers; those of earlier versions have 0.
    #[serde(default)]
    pub number: u64,
    /// The alias of the key that the backup is encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The files with the definitions of keyspaces, relative to the backup.
    pub keyspaces: Vec<FileRecord>,
    /// The tables.
    pub tables: Vec<TableRecord>,
    /// Where the archived commit log continues the backup; `None` if the log was not archived, or
    /// the backup does not contain all keyspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogPosition>,
}

/// A position in the commit log of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// The chain of segments.
    pub chain: String,
    /// The segment.
    pub segment: u64,
    /// The offset in it. The backup contains every record up to here.
    pub offset: u32,
}

/// A table in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRecord {
    /// The keyspace.
    pub keyspace: String,
    /// The name.
    pub table: String,
    /// The name of its directory below that of the keyspace: `<table>-<id>`.
    pub directory: String,
    /// Its files, by name.
    pub files: Vec<FileRecord>,
}

/// A file in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The name in its directory; for keyspaces, the name of the keyspace.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
    /// The CRC-32 of the content.
    pub crc32: u32,
    /// In an object store, the SHA-256 of the content, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// In an object store, the name of the object with the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

impl TableRecord {
    /// Returns `keyspace.table`.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.table)
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |bytes, file| bytes.saturating_add(file.bytes))
    }

    /// Returns the number of SSTables.
    pub fn sstables(&self) -> usize {
        self.files.iter().filter(|file| file.name.ends_with("-Data.db")).count()
    }
}

impl Manifest {
    pub(crate) fn new(started_at_millis: i64) -> Self {
        Self {
            format: FORMAT,
            cassette_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_millis,
            ended_at_millis: started_at_millis,
            number: 0,
            key: None,
            keyspaces: Vec::new(),
            tables: Vec::new(),
            log: None,
        }
    }

    /// Returns all files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileRecord> {
        self.keyspaces.iter().chain(self.tables.iter().flat_map(|table| &table.files))
    }

    /// Returns the bytes of the files of all tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().fold(0, |bytes, table| bytes.saturating_add(table.bytes()))
    }

    /// Returns the numbers of tables and of their SSTables, without those of the schema.
    pub fn counts(&self) -> (usize, usize) {
        let tables = || self.tables.iter().filter(|table| table.keyspace != SCHEMA);
        (tables().count(), tables().map(TableRecord::sstables).sum())
    }

    /// Returns the record of a table with this directory.
    pub(crate) fn table(&self, keyspace: &str, directory: &str) -> Option<&TableRecord> {
        self.tables.iter().find(|table| table.keyspace == keyspace && table.directory == directory)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("strings and numbers can be encoded");
        text.push(b'\n');
        text
    }

    /// Reads a manifest. All names in the result are names of single files or directories.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub(crate) fn decode(content: &[u8]) -> Result<Self, String> {
        // Before the rest: later versions may have other fields.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let explain = |error: serde_json::Error| error.to_string();
        let Version { format } = serde_json::from_slice(content).map_err(explain)?;
        if format == 0 || format > FORMAT {
            return Err(format!(
                "expected format 1 to {FORMAT}, found {format}: use the version of cassette that wrote it"
            ));
        }
        let manifest: Self = serde_json::from_slice(content).map_err(explain)?;
        let keyspaces = manifest.keyspaces.iter().map(|file| &file.name);
        let tables = manifest.tables.iter().flat_map(|table| {
            [&table.keyspace, &table.directory].into_iter().chain(table.files.iter().map(|file| &file.name))
        });
        let chain = manifest.log.iter().map(|log| &log.chain);
        let objects = manifest.files().filter_map(|file| file.object.as_ref());
        if let Some(name) =
            keyspaces.chain(tables).chain(chain).chain(objects).find(|name| !is_single_name(name))
        {
            return Err(format!("expected the name of a file, found {name:?}"));
        }
        Ok(manifest)
    }
}

/// Whether `name` names an entry of a directory, and neither the directory itself nor one above.
pub(crate) fn is_single_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']) && name.len() <= 255
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let file = |name: &str| FileRecord {
            name: name.to_owned(),
            bytes: 7,
            crc32: u32::MAX,
            sha256: None,
            object: None,
        };
        let mut manifest = Manifest::new(1_795_249_800_120);
        manifest.keyspaces.push(file("ks"));
        manifest.tables.push(TableRecord {
            keyspace: "ks".to_owned(),
            table: "t".to_owned(),
            directory: "t-0123".to_owned(),
            files: vec![file("nb-1-big-Data.db"), file("schema.cql")],
        });
        manifest
    }

    #[test]
    fn a_manifest_reads_back_as_written() {
        let manifest = manifest();
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest.clone()));
        assert_eq!((manifest.bytes(), manifest.tables[0].sstables()), (14, 1));
    }

    #[test]
    fn lengths_that_no_files_have_can_be_shown() {
        let mut manifest = manifest();
        manifest.tables[0].files[0].bytes = u64::MAX;
        manifest.tables.push(manifest.tables[0].clone());
        let decoded = Manifest::decode(&manifest.encode()).unwrap();
        assert_eq!((decoded.bytes(), decoded.tables[0].bytes()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_manifest_of_a_later_format_or_with_a_path_is_rejected() {
        let mut later = manifest();
        later.format = FORMAT + 1;
        assert_eq!(
            Manifest::decode(&later.encode()).unwrap_err(),
            "expected format 1 to 1, found 2: use the version of cassette that wrote it"
        );
        for name in ["..", "", "a/b", ".hidden", "a\\b", "a\0"] {
            let mut other = manifest();
            other.tables[0].files[0].name = name.to_owned();
            assert!(Manifest::decode(&other.encode()).is_err(), "{name:?}");
            let mut other = manifest();
            other.tables[0].keyspace = name.to_owned();
            assert!(Manifest::decode(&other.encode()).is_err(), "{name:?}");
            let mut other = manifest();
            other.keyspaces[0].name = name.to_owned();
            assert!(Manifest::decode(&other.encode()).is_err(), "{name:?}");
        }
        assert!(Manifest::decode(b"{").is_err());
    }
}
