//! The messages of a session, except for STREAM.
//!
//! ```text
//! u8 1   PREPARE_SYN      i32 requests = 0, i32 summaries, summary*
//! u8 2   STREAM           see `header`
//! u8 3   RECEIVED         16 bytes table id, i32 sequence number of the file
//! u8 5   COMPLETE
//! u8 6   SESSION_FAILED
//! u8 7   KEEP_ALIVE
//! u8 8   PREPARE_SYNACK   i32 summaries, summary*
//! u8 10  STREAM_INIT      endpoint of the sender, i32 session, 16 bytes plan id, utf operation,
//!                         u8 1 and 16 bytes repair id | u8 0, i32 kind of preview
//!
//! summary                 16 bytes table id, i32 files, i64 bytes
//! ```
//!
//! Source: `streaming.messages`. A whole SSTable counts as many files as it has components.

use std::net::SocketAddr;

use bytes::{Buf, BufMut};
use uuid::Uuid;

use super::wire::Fields;

const PREPARE_SYN: u8 = 1;
const RECEIVED: u8 = 3;
const COMPLETE: u8 = 5;
const SESSION_FAILED: u8 = 6;
const KEEP_ALIVE: u8 = 7;
const PREPARE_SYNACK: u8 = 8;
const STREAM_INIT: u8 = 10;

/// The operation of sstableloader: nodes then also update materialized views.
const BULK_LOAD: &str = "Bulk Load";
/// Not a preview of a repair.
const NO_PREVIEW: i32 = 0;
const SUMMARY_LENGTH: usize = 16 + 4 + 8;
/// Maximum number of summaries in a response, which has none if the node sends nothing.
const SUMMARIES_MAX: i32 = 1 << 16;

/// A message of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The node is prepared.
    Prepared {
        /// The number of files that it will send itself.
        files: u64,
    },
    /// It has written a file.
    Received {
        /// The id of the file's table.
        table: Uuid,
        /// The number of the file in the session.
        sequence: i32,
    },
    /// It has added all files to its tables.
    Complete,
    /// It has failed, and removed what it received.
    Failed,
    /// Without meaning.
    KeepAlive,
}

/// Encodes STREAM_INIT of the only session of a plan.
pub fn init(from: SocketAddr, plan: Uuid) -> Vec<u8> {
    let mut out = vec![STREAM_INIT];
    out.put_endpoint(from);
    out.put_i32(0);
    out.put_slice(plan.as_bytes());
    out.put_utf(BULK_LOAD);
    out.put_u8(0);
    out.put_i32(NO_PREVIEW);
    out
}

/// Encodes PREPARE_SYN for one table.
pub fn prepare(table: Uuid, files: u32, bytes: u64) -> Vec<u8> {
    let mut out = vec![PREPARE_SYN];
    out.put_i32(0);
    out.put_i32(1);
    out.put_slice(table.as_bytes());
    out.put_u32(files);
    out.put_u64(bytes);
    out
}

/// KEEP_ALIVE.
pub const KEEP_ALIVE_MESSAGE: [u8; 1] = [KEEP_ALIVE];

impl Message {
    /// Decodes a message at the start of `bytes`, and returns it with its length; `None` if it is
    /// incomplete.
    ///
    /// # Errors
    /// A text, if it is no message that a node sends to a sender.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some((kind, mut body)) = bytes.split_first() else { return Ok(None) };
        let message = match *kind {
            PREPARE_SYNACK => {
                let Some((count, rest)) = body.split_first_chunk::<4>() else { return Ok(None) };
                let count = i32::from_be_bytes(*count);
                if !(0..=SUMMARIES_MAX).contains(&count) {
                    return Err(format!("expected up to {SUMMARIES_MAX} summaries, found {count}"));
                }
                let length = count as usize * SUMMARY_LENGTH;
                let Some(summaries) = rest.get(..length) else { return Ok(None) };
                let files = |mut summary: &[u8]| {
                    summary.advance(16);
                    u64::from(summary.get_u32())
                };
                body = &rest[length..];
                Self::Prepared { files: summaries.chunks_exact(SUMMARY_LENGTH).map(files).sum() }
            }
            RECEIVED => {
                if body.len() < 20 {
                    return Ok(None);
                }
                Self::Received { table: Uuid::from_u128(body.get_u128()), sequence: body.get_i32() }
            }
            COMPLETE => Self::Complete,
            SESSION_FAILED => Self::Failed,
            KEEP_ALIVE => Self::KeepAlive,
            other => return Err(format!("expected a message of a stream, found one of kind {other}")),
        };
        Ok(Some((message, bytes.len() - body.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

    #[test]
    fn init_and_prepare_have_the_bytes_that_cassandra_expects() {
        let init = init(([10, 0, 0, 9], 0).into(), ID);
        let expected = [
            &[10, 6, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0][..],
            ID.as_bytes(),
            &[0, 9],
            b"Bulk Load",
            &[0, 0, 0, 0, 0],
        ];
        assert_eq!(init, expected.concat());
        let prepare = prepare(ID, 8, 0x1_0000_0002);
        let expected =
            [&[1, 0, 0, 0, 0, 0, 0, 0, 1][..], ID.as_bytes(), &[0, 0, 0, 8], &[0, 0, 0, 1, 0, 0, 0, 2]];
        assert_eq!(prepare, expected.concat());
    }

    #[test]
    fn messages_are_decoded_only_when_they_are_complete() {
        let received = [&[3][..], ID.as_bytes(), &[0, 0, 0, 7]].concat();
        let synack = [&[8, 0, 0, 0, 1][..], ID.as_bytes(), &[0, 0, 0, 2], &[0; 8]].concat();
        let known = [
            (received, Message::Received { table: ID, sequence: 7 }),
            (synack, Message::Prepared { files: 2 }),
            (vec![8, 0, 0, 0, 0], Message::Prepared { files: 0 }),
            (vec![5], Message::Complete),
            (vec![6], Message::Failed),
            (vec![7], Message::KeepAlive),
        ];
        for (bytes, message) in known {
            for length in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..length]), Ok(None), "{message:?} cut to {length}");
            }
            assert_eq!(Message::decode(&bytes), Ok(Some((message, bytes.len()))));
            let followed = [&bytes[..], &[99]].concat();
            assert_eq!(Message::decode(&followed), Ok(Some((message, bytes.len()))));
        }
        assert!(Message::decode(&[4]).is_err());
        assert!(Message::decode(&[8, 0xff, 0, 0, 0]).is_err());
    }
}
