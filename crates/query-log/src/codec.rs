//! Fields of records: big-endian numbers, and byte strings after their length.

/// A record whose checksum is correct but whose fields are not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed record: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// The length of an absent byte string, and that of an unset value.
const ABSENT: i32 = -1;

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Longer ones never come from a client: a message has at most 256 MiB.
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes.get(..length as usize).unwrap_or_default());
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_bytes(out, text.as_bytes()),
        None => out.extend_from_slice(&ABSENT.to_be_bytes()),
    }
}

/// Reads the fields of a record.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends within a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed("it ends within a field"))
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads a byte string that may be absent.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            ABSENT => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("a length is negative"))?;
                self.take(length).map(Some)
            }
        }
    }

    /// Reads a text that may be absent.
    pub fn text(&mut self) -> Result<Option<String>, Malformed> {
        let text = |bytes: &[u8]| {
            std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed("a text is not UTF-8"))
        };
        self.bytes()?.map(text).transpose()
    }

    pub fn required_text(&mut self) -> Result<String, Malformed> {
        self.text()?.ok_or(Malformed("a required text is absent"))
    }

    /// Checks that nothing follows.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes follow its last field")) }
    }
}
