//! Reading the records of one segment in order, beside replay.

use std::borrow::Cow;

use cassette_vfs::encryption::PieceCipher;

use super::TableVersion;
use super::format::{self, Body, Event, Found, HEADER_LEN};

/// A record of a segment.
pub(crate) struct SegmentRecord<'a> {
    pub body: SegmentBody<'a>,
    /// The offset after it.
    pub end: usize,
}

/// The content of a record, decrypted.
pub(crate) enum SegmentBody<'a> {
    /// The segment ends here.
    End,
    Dictionary {
        index: u16,
        table: TableVersion,
        content: Cow<'a, [u8]>,
    },
    Entry {
        indexes: Vec<u16>,
        content: Cow<'a, [u8]>,
    },
    /// The time of the following records, microseconds since 1970.
    Time(i64),
    Event(Event),
    /// A sync mark, or the parameters of the cipher.
    Other,
}

/// Returns the offset of the first record.
pub(crate) fn first_record() -> usize {
    HEADER_LEN as usize
}

/// Returns the id of the segment with this file name; `None` for other files.
pub fn segment_id(name: &str) -> Option<u64> {
    let (version, id) = format::parse_file_name(name)?;
    format::is_known_version(version).then_some(id)
}

/// Reads the record at `offset`; `None` at the end of `bytes`.
///
/// # Errors
/// The reason why there is no intact record.
pub(crate) fn read_record<'a>(
    segment: u64,
    bytes: &'a [u8],
    offset: usize,
    cipher: Option<&dyn PieceCipher>,
) -> Result<Option<SegmentRecord<'a>>, &'static str> {
    let (body, end) = match format::find(segment, bytes, offset) {
        Found::Body(body, end) => (body, end),
        Found::EndOfFile => return Ok(None),
        Found::Untouched => return Err("nothing, where a record should be"),
        Found::Damaged(damage) => return Err(damage),
    };
    const UNKNOWN: &str = "a record of no known kind";
    let body = match Body::decode(body).ok_or(UNKNOWN)? {
        Body::Encrypted(sealed) => {
            let opened = cipher.and_then(|cipher| sealed.open(segment, end, cipher));
            let opened = opened.ok_or("an encrypted record that fails its authentication")?;
            match plain(Body::decode(&opened).ok_or(UNKNOWN)?) {
                SegmentBody::Dictionary { index, table, content } => {
                    SegmentBody::Dictionary { index, table, content: Cow::Owned(content.into_owned()) }
                }
                SegmentBody::Entry { indexes, content } => {
                    SegmentBody::Entry { indexes, content: Cow::Owned(content.into_owned()) }
                }
                _ => return Err(UNKNOWN),
            }
        }
        body => plain(body),
    };
    Ok(Some(SegmentRecord { body, end }))
}

fn plain(body: Body<'_>) -> SegmentBody<'_> {
    match body {
        Body::End => SegmentBody::End,
        Body::Dictionary { index, table, content } => {
            SegmentBody::Dictionary { index, table, content: Cow::Borrowed(content) }
        }
        Body::Entry { indexes, content } => {
            SegmentBody::Entry { indexes: indexes.iter().collect(), content: Cow::Borrowed(content) }
        }
        Body::Time(micros) => SegmentBody::Time(micros),
        Body::Event(event) => SegmentBody::Event(event),
        Body::SyncMark(_) | Body::Encryption(_) | Body::Encrypted(_) => SegmentBody::Other,
    }
}
