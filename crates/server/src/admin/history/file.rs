//! The file that keeps the history over restarts. It is replaced every minute, without a sync: a
//! crash of the machine may lose it, and a damaged one is ignored.
//!
//! ```text
//! magic "cassette history"      16 bytes
//! version                       u32 little-endian
//! checksum of the shapes        u32: the names of what is recorded
//! length of the content         u32
//! checksum of the content       u32 (CRC-32)
//! content: number of series, then for each
//!   name (empty: the node)      length, bytes
//!   rings: for each
//!     step, number of points, and for each point
//!       end                     seconds since the previous point's, or since 1970
//!       covered milliseconds
//!       counts
//!       levels                  f32 each
//!       latencies               number of buckets, then bucket and count of each
//! ```
//!
//! Numbers of the content are unsigned LEB128.

use std::io;
use std::path::Path;

use cassette_vfs::FileSystem;

use super::latencies::Latencies;
use super::series::{Point, Series, Shape};

const MAGIC: &[u8; 16] = b"cassette history";
const VERSION: u32 = 1;
const HEADER_LENGTH: usize = 32;

/// The maximum length of a file, bytes: several times that of a busy node.
const LENGTH_MAX: u64 = 64 << 20;

/// The maximum number of series in a file.
const SERIES_MAX: u64 = 1000;

/// A series with the name of its table; that of the node is empty.
pub(super) type Named = (String, Series);

/// Returns the shape of a series with this name.
pub(super) type ShapeOf = fn(name: &str) -> &'static Shape;

/// Replaces the file.
pub(super) fn write(fs: &dyn FileSystem, path: &Path, series: &[Named], shape_of: ShapeOf) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let mut file = fs.create(temporary)?;
    file.write_all(&encode(series, shape_of))?;
    drop(file);
    fs.rename(temporary, path)
}

/// Reads the file; no series if there is none.
///
/// # Errors
/// If it cannot be read, is damaged, or is one of another version.
pub(super) fn read(fs: &dyn FileSystem, path: &Path, shape_of: ShapeOf) -> Result<Vec<Named>, String> {
    let content = match fs.read_start(path, LENGTH_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        content => content.map_err(|error| error.to_string())?,
    };
    decode(&content, shape_of)
}

fn encode(series: &[Named], shape_of: ShapeOf) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, series.len() as u64);
    for (name, series) in series {
        put(&mut content, name.len() as u64);
        content.extend_from_slice(name.as_bytes());
        for ring in &series.rings {
            put(&mut content, ring.step);
            put(&mut content, ring.points.len() as u64);
            let mut before = 0;
            for point in &ring.points {
                put(&mut content, point.end - before);
                before = point.end;
                put_point(&mut content, point);
            }
        }
    }
    let mut file = MAGIC.to_vec();
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    for number in [VERSION, checksum_of_shapes(shape_of), length, crc32fast::hash(&content)] {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&content);
    file
}

fn put_point(out: &mut Vec<u8>, point: &Point) {
    put(out, point.millis);
    point.counts.iter().for_each(|count| put(out, *count));
    point.levels.iter().for_each(|level| out.extend_from_slice(&level.to_le_bytes()));
    for latencies in &point.latencies {
        put(out, latencies.pairs().len() as u64);
        for (bucket, count) in latencies.pairs() {
            out.push(*bucket);
            put(out, (*count).into());
        }
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Files of other metrics or resolutions must not be read as these.
fn checksum_of_shapes(shape_of: ShapeOf) -> u32 {
    crc32fast::hash(format!("{:?} {:?}", shape_of(""), shape_of("ks.t")).as_bytes())
}

fn decode(file: &[u8], shape_of: ShapeOf) -> Result<Vec<Named>, String> {
    let (header, content) = file.split_at_checked(HEADER_LENGTH).ok_or("it is too short")?;
    let (magic, numbers) = header.split_at(MAGIC.len());
    let mut numbers =
        numbers.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let mut number = || numbers.next().unwrap_or(0);
    if magic != MAGIC {
        return Err("it is no history".to_owned());
    }
    if (number(), number()) != (VERSION, checksum_of_shapes(shape_of)) {
        return Err("it is of another version".to_owned());
    }
    if number() as usize != content.len() || number() != crc32fast::hash(content) {
        return Err("it fails its checksum".to_owned());
    }
    let mut content = Content(content);
    let count = content.number()?;
    if count > SERIES_MAX {
        return Err(format!("expected at most {SERIES_MAX} series, found {count}"));
    }
    let mut all = Vec::new();
    for _ in 0..count {
        let length = content.length()?;
        let name = String::from_utf8(content.bytes(length)?.to_vec()).map_err(|error| error.to_string())?;
        let series = content.series(shape_of(&name))?;
        all.push((name, series));
    }
    Ok(all)
}

/// What is left to read.
struct Content<'a>(&'a [u8]);

impl<'a> Content<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or("it ends early")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has too many bytes".to_owned())
    }

    /// Reads the number of things that have at least a byte each.
    fn length(&mut self) -> Result<usize, String> {
        let length = self.number()?;
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.0.len())
            .ok_or_else(|| "it ends early".into())
    }

    fn series(&mut self, shape: &Shape) -> Result<Series, String> {
        let mut series = Series::new(shape);
        for ring in &mut series.rings {
            let (step, count) = (self.number()?, self.length()?);
            if step != ring.step || count > ring.max {
                return Err("a ring has another size".to_owned());
            }
            let mut end = 0u64;
            for i in 0..count {
                let since = self.number()?;
                end = end.checked_add(since).ok_or("a point has no time")?;
                if i > 0 && since == 0 {
                    return Err("its points do not ascend".to_owned());
                }
                ring.points.push_back(self.point(end, shape)?);
            }
        }
        Ok(series)
    }

    fn point(&mut self, end: u64, shape: &Shape) -> Result<Point, String> {
        let millis = self.number()?;
        let counts = shape.counts.iter().map(|_| self.number()).collect::<Result<_, _>>()?;
        let level = |_: &&str| {
            let bytes = self.bytes(4)?.try_into().map_err(|_| "it ends early")?;
            Ok::<f32, String>(f32::from_le_bytes(bytes))
        };
        let levels = shape.levels.iter().map(level).collect::<Result<_, _>>()?;
        let latencies = shape.latencies.iter().map(|_| self.latencies()).collect::<Result<_, _>>()?;
        Ok(Point { end, millis, counts, levels, latencies })
    }

    fn latencies(&mut self) -> Result<Latencies, String> {
        let count = self.length()?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let bucket = self.bytes(1)?[0];
            pairs.push((bucket, u32::try_from(self.number()?).map_err(|error| error.to_string())?));
        }
        Ok(Latencies::from_pairs(pairs)?)
    }
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;

    const SHAPE: Shape =
        Shape { counts: &["a", "b"], levels: &["c"], latencies: &["d"], resolutions: &[(10, 20), (60, 20)] };

    fn shape_of(_name: &str) -> &'static Shape {
        &SHAPE
    }

    fn recorded() -> Vec<Named> {
        let mut series = Series::new(&SHAPE);
        for end in (1_700_000_000u64..).step_by(7).take(40) {
            series.push(&Point {
                end,
                millis: 7000,
                counts: [end, 1].into(),
                levels: [1.5].into(),
                latencies: [Latencies::from_pairs(vec![(3, 9), (200, 1)]).unwrap()].into(),
            });
        }
        vec![(String::new(), series.clone()), ("ks.t".to_owned(), series)]
    }

    #[test]
    fn what_was_written_is_read() {
        let fs = FakeFileSystem::new();
        let path = Path::new("/history");
        assert_eq!(read(&fs, path, shape_of).unwrap(), []);
        write(&fs, path, &recorded(), shape_of).unwrap();
        assert_eq!(read(&fs, path, shape_of).unwrap(), recorded());
    }

    #[test]
    fn damage_is_found_and_nothing_crashes() {
        let file = encode(&recorded(), shape_of);
        assert_eq!(decode(&file, shape_of).unwrap(), recorded());
        for length in 0..file.len() {
            assert!(decode(&file[..length], shape_of).is_err(), "{length}");
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, shape_of).is_err(), "{at}");
            // The same with a matching checksum: any answer but a panic.
            let checksum = crc32fast::hash(&damaged[HEADER_LENGTH..]);
            damaged[HEADER_LENGTH - 4..HEADER_LENGTH].copy_from_slice(&checksum.to_le_bytes());
            let _ = decode(&damaged, shape_of);
        }
    }
}
