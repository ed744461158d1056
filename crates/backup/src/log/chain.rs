//! Records of archived segments, and the segments that a restore needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_engine::commitlog::{CommitLogOptions, Position};
use serde::{Deserialize, Serialize};

use super::point::Until;
use crate::error::{Error, Result};
use crate::manifest::{LogPosition, is_single_name};
use crate::marker::MARKER;
use crate::objects::{Objects, put_json, read_json};

/// The version of the records that this crate writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The maximum length of a segment in bytes.
const SEGMENT_LENGTH_MAX: u64 = CommitLogOptions::SEGMENT_SIZE_MAX as u64;

/// The record of an archived segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentFile {
    pub format: u32,
    /// The name of the segment's file.
    pub name: String,
    pub id: u64,
    /// The segment before it in its chain.
    pub previous: Option<u64>,
    pub bytes: u64,
    pub crc32: u32,
    /// The earliest and the latest time of its records, microseconds since 1970.
    pub earliest_micros: Option<i64>,
    pub latest_micros: Option<i64>,
}

/// What a chain contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Through {
    pub format: u32,
    /// Every write that was acknowledged before this is in the chain, microseconds since 1970.
    pub until_micros: i64,
    /// The last segment at that time.
    pub segment: Option<u64>,
}

/// Which segments of a chain are not needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Removed {
    format: u32,
    below: u64,
}

/// The archived log of a repository.
#[derive(Debug, Clone)]
pub(crate) struct LogRepository {
    /// Decrypted, if the repository is encrypted.
    pub objects: Arc<dyn Objects>,
    /// As they are stored.
    pub plain: Arc<dyn Objects>,
}

/// The segments for a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needed {
    pub chain: String,
    pub segments: Vec<SegmentFile>,
}

pub(crate) fn chain_name(chain: u128) -> String {
    format!("{chain:032x}")
}

fn name_of(chain: &str, file: &str) -> String {
    format!("log/{chain}/{file}")
}

fn record_name(chain: &str, segment: &str) -> String {
    name_of(chain, &format!("{}.json", segment.strip_suffix(".log").unwrap_or(segment)))
}

impl LogRepository {
    /// Checks that the repository exists.
    pub fn check_exists(&self) -> Result<()> {
        if self.plain.read(MARKER)?.is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: expected a directory of backups, found no {MARKER} in it; is its volume mounted?",
            self.objects.describe("").display()
        )))
    }

    /// Returns the names of the chains.
    pub fn chains(&self) -> Result<Vec<String>> {
        let mut chains: Vec<String> = Vec::new();
        for entry in self.objects.list("log")? {
            if let Some(chain) = entry.name.split('/').nth(1)
                && chains.last().is_none_or(|last| last != chain)
            {
                chains.push(chain.to_owned());
            }
        }
        Ok(chains)
    }

    /// Returns the records of a chain, by id.
    pub fn records(&self, chain: &str) -> Result<BTreeMap<u64, SegmentFile>> {
        let mut records = BTreeMap::new();
        for entry in self.objects.list(&format!("log/{chain}"))? {
            let file = entry.name.rsplit('/').next().unwrap_or_default();
            if !file.starts_with("CommitLog-") || !file.ends_with(".json") {
                continue;
            }
            let Some(record) = read_json::<SegmentFile>(self.objects.as_ref(), &entry.name)? else {
                continue;
            };
            self.check_format(&entry.name, record.format)?;
            let is_own = is_single_name(&record.name)
                && entry.name == record_name(chain, &record.name)
                && cassette_engine::commitlog::segment_id(&record.name) == Some(record.id)
                && record.previous.is_none_or(|previous| previous < record.id);
            if !is_own || record.bytes > SEGMENT_LENGTH_MAX {
                let detail = format!(
                    "expected the record of this segment, found that of segment {} of {} bytes after {:?} in {:?}",
                    record.id, record.bytes, record.previous, record.name
                );
                return Err(Error::damaged(&self.objects.describe(&entry.name), detail));
            }
            records.insert(record.id, record);
        }
        Ok(records)
    }

    fn check_format(&self, name: &str, format: u32) -> Result<()> {
        if format == FORMAT {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: expected format {FORMAT}, found {format}: use the version of cassette that wrote it",
            self.objects.describe(name).display()
        )))
    }

    /// Stores a segment and then its record. The caller knows of no record of it.
    ///
    /// # Errors
    /// Damaged, if there is the record of another one.
    pub fn put(
        &self,
        chain: &str,
        name: &str,
        previous: Option<u64>,
        id: u64,
        content: &cassette_engine::commitlog::SegmentContent,
    ) -> Result<SegmentFile> {
        let record = SegmentFile {
            format: FORMAT,
            name: name.to_owned(),
            id,
            previous,
            bytes: content.bytes.len() as u64,
            crc32: crc32fast::hash(&content.bytes),
            earliest_micros: content.earliest,
            latest_micros: content.latest,
        };
        let at = record_name(chain, name);
        // Of a copy of the data directory that archives, too.
        if let Some(found) = read_json::<SegmentFile>(self.objects.as_ref(), &at)?
            && (found.bytes, found.crc32) != (record.bytes, record.crc32)
        {
            let detail = format!(
                "expected CRC-32 {:08x} as of the segment in the data directory, found {:08x}; use another \
                 repository for a copy of a data directory",
                record.crc32, found.crc32
            );
            return Err(Error::damaged(&self.objects.describe(&at), detail));
        }
        self.objects.put(&name_of(chain, name), &content.bytes)?;
        put_json(self.objects.as_ref(), &at, &record)?;
        Ok(record)
    }

    pub fn put_through(&self, chain: &str, until_micros: i64, segment: Option<u64>) -> Result<()> {
        let through = Through { format: FORMAT, until_micros, segment };
        put_json(self.objects.as_ref(), &name_of(chain, "through.json"), &through)
    }

    pub fn through(&self, chain: &str) -> Result<Option<Through>> {
        let name = name_of(chain, "through.json");
        let through = read_json::<Through>(self.objects.as_ref(), &name)?;
        if let Some(through) = &through {
            self.check_format(&name, through.format)?;
        }
        Ok(through)
    }

    /// Returns the segments with everything after `from` up to the moment, without a gap.
    ///
    /// # Errors
    /// Invalid, if the moment is not archived; Damaged, if a segment is missing.
    pub fn needed(&self, from: &LogPosition, until: Until) -> Result<Needed> {
        let chain = from.chain.clone();
        let through = self.through(&chain)?.ok_or_else(|| {
            Error::invalid(format!(
                "{}: nothing has been archived since the backup; restore without --until",
                self.objects.describe(&format!("log/{chain}")).display()
            ))
        })?;
        if let Until::Time(micros) = until
            && micros > through.until_micros
        {
            return Err(Error::invalid(format!(
                "{}: the commit log is archived until {}: specify an earlier time, or `--until latest`",
                self.objects.describe(&format!("log/{chain}")).display(),
                super::point::time_text(through.until_micros)
            )));
        }
        let mut records = self.records(&chain)?;
        records.retain(|id, _| *id >= from.segment);
        let missing = |id: u64, after: &str| {
            let path = self.objects.describe(&format!("log/{chain}"));
            Error::damaged(&path, format!("segment {id} of the commit log is missing {after}"))
        };
        let mut previous: Option<u64> = None;
        for record in records.values() {
            match (previous, record.previous) {
                (Some(before), link) if link != Some(before) => {
                    let lost = link.unwrap_or(before);
                    return Err(missing(lost, &format!("between {before} and {}", record.id)));
                }
                (None, Some(link)) if link >= from.segment => {
                    return Err(missing(link, "after the backup"));
                }
                // The first of the chain: it has the backup's records, if there are any.
                (None, None) if record.id > from.segment && from.offset > 0 => {
                    return Err(missing(from.segment, "after the backup"));
                }
                _ => {}
            }
            previous = Some(record.id);
        }
        if let Some(last) = through.segment.filter(|last| *last >= from.segment)
            && previous.is_none_or(|previous| previous < last)
        {
            return Err(missing(last, "at the end"));
        }
        let mut segments: Vec<SegmentFile> = records.into_values().collect();
        if let Until::Time(micros) = until {
            while segments.last().is_some_and(|last| last.earliest_micros.is_some_and(|time| time > micros)) {
                segments.pop();
            }
        }
        Ok(Needed { chain, segments })
    }

    /// Returns the files of segments, verified: those of the repository, or copies in `scratch`.
    pub fn fetch(
        &self,
        fs: &Arc<dyn cassette_vfs::FileSystem>,
        needed: &Needed,
        scratch: &Path,
    ) -> Result<Vec<PathBuf>> {
        needed.segments.iter().map(|record| self.fetch_segment(fs, &needed.chain, record, scratch)).collect()
    }

    fn fetch_segment(
        &self,
        fs: &Arc<dyn cassette_vfs::FileSystem>,
        chain: &str,
        record: &SegmentFile,
        scratch: &Path,
    ) -> Result<PathBuf> {
        if let Some(path) = self.objects.file(&name_of(chain, &record.name)) {
            self.read_segment(chain, record, &mut |_| Ok(()))?;
            return Ok(path);
        }
        fs.create_dir_all(scratch).map_err(Error::io(scratch, "create the directory"))?;
        let path = scratch.join(&record.name);
        let mut out = fs.create(&path).map_err(Error::io(&path, "create"))?;
        self.read_segment(chain, record, &mut |part| out.write_all(part).map_err(Error::io(&path, "write")))?;
        Ok(path)
    }

    /// Passes the content of a segment to `each`, and compares it with its record.
    pub fn read_segment(
        &self,
        chain: &str,
        record: &SegmentFile,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let name = name_of(chain, &record.name);
        let damaged = |detail: String| Error::damaged(&self.objects.describe(&name), detail);
        let mut found = crate::copy::Digest::default();
        let exists = self.objects.stream(&name, &mut |part| {
            found.update(part);
            if found.bytes() > record.bytes {
                return Err(damaged(format!("expected {} bytes, found more", record.bytes)));
            }
            each(part)
        })?;
        if !exists {
            return Err(damaged("the segment is missing".to_owned()));
        }
        let found = found.finish();
        if (found.bytes, found.crc32) != (record.bytes, record.crc32) {
            return Err(damaged(format!(
                "expected {} bytes with CRC-32 {:08x}, found {} with {:08x}",
                record.bytes, record.crc32, found.bytes, found.crc32
            )));
        }
        Ok(())
    }

    /// Removes segments that no backup needs: those before the oldest position of each chain in
    /// `needed`, and chains without one.
    pub fn remove_unneeded(&self, needed: &BTreeMap<String, u64>) -> Result<()> {
        for chain in self.chains()? {
            let below = needed.get(&chain).copied().unwrap_or(u64::MAX);
            let is_unneeded = |name: &str| {
                let file = name.rsplit('/').next().unwrap_or_default();
                let segment = file.replace(".json", ".log");
                cassette_engine::commitlog::segment_id(&segment).is_some_and(|id| id < below)
            };
            let mut unneeded = self.objects.list(&format!("log/{chain}"))?;
            unneeded.retain(|entry| is_unneeded(&entry.name));
            if unneeded.is_empty() {
                continue;
            }
            // What a crash leaves is removed by the next command: no restore needs it.
            let removed = Removed { format: FORMAT, below };
            put_json(self.objects.as_ref(), &name_of(&chain, "removed.json"), &removed)?;
            for entry in unneeded {
                self.objects.remove(&entry.name)?;
            }
        }
        Ok(())
    }
}

impl LogPosition {
    /// Returns the position in the log.
    pub(crate) fn position(&self) -> Position {
        Position { segment: self.segment, offset: self.offset }
    }
}
