//! JSON in the layout of sstabledump: Jackson's pretty printer with an indenter that can be made
//! compact.

use std::io::{self, Write};

/// Writes JSON, a token at a time. Objects and arrays are multi-line or compact depending on
/// [`compact_objects`] and [`compact_arrays`](Self::compact_arrays) when they are opened.
///
/// [`compact_objects`]: Self::compact_objects
pub(super) struct JsonWriter<'a> {
    out: &'a mut dyn Write,
    /// Without blanks, as with `-l`.
    plain: bool,
    objects_compact: bool,
    arrays_compact: bool,
    /// The number of entries so far of each open object and array.
    open: Vec<usize>,
    /// Top-level values so far.
    roots: usize,
    /// A field's name has been written, but not yet its value.
    after_name: bool,
}

impl<'a> JsonWriter<'a> {
    pub fn new(out: &'a mut dyn Write, plain: bool) -> Self {
        Self {
            out,
            plain,
            objects_compact: false,
            arrays_compact: false,
            open: Vec::new(),
            roots: 0,
            after_name: false,
        }
    }

    pub fn compact_objects(&mut self, compact: bool) {
        self.objects_compact = compact;
    }

    pub fn compact_arrays(&mut self, compact: bool) {
        self.arrays_compact = compact;
    }

    fn indent(&mut self, compact: bool) -> io::Result<()> {
        match (self.plain, compact) {
            (true, _) => Ok(()),
            (false, true) => self.out.write_all(b" "),
            (false, false) => write!(self.out, "\n{:1$}", "", 2 * self.open.len()),
        }
    }

    /// Writes the separator before a value.
    fn place(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.after_name) {
            return Ok(());
        }
        match self.open.last_mut() {
            Some(entries) => {
                *entries += 1;
                if *entries > 1 {
                    self.out.write_all(b",")?;
                }
                self.indent(self.arrays_compact)
            }
            None => {
                self.roots += 1;
                if self.roots > 1 { self.out.write_all(b"\n") } else { Ok(()) }
            }
        }
    }

    fn begin(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.place()?;
        self.out.write_all(bracket)?;
        self.open.push(0);
        Ok(())
    }

    fn end(&mut self, bracket: &[u8], compact: bool) -> io::Result<()> {
        match self.open.pop() {
            Some(0) if !self.plain => self.out.write_all(b" ")?,
            Some(0) => {}
            _ => self.indent(compact)?,
        }
        self.out.write_all(bracket)
    }

    pub fn begin_object(&mut self) -> io::Result<()> {
        self.begin(b"{")
    }

    pub fn end_object(&mut self) -> io::Result<()> {
        self.end(b"}", self.objects_compact)
    }

    pub fn begin_array(&mut self) -> io::Result<()> {
        self.begin(b"[")
    }

    pub fn end_array(&mut self) -> io::Result<()> {
        self.end(b"]", self.arrays_compact)
    }

    pub fn name(&mut self, name: &str) -> io::Result<()> {
        if let Some(entries) = self.open.last_mut() {
            *entries += 1;
            if *entries > 1 {
                self.out.write_all(b",")?;
            }
        }
        self.indent(self.objects_compact)?;
        write_string(self.out, name)?;
        self.after_name = true;
        self.out.write_all(if self.plain { b":" } else { b" : " })
    }

    pub fn string(&mut self, text: &str) -> io::Result<()> {
        self.place()?;
        write_string(self.out, text)
    }

    /// Writes a value that is already JSON.
    pub fn raw(&mut self, json: &str) -> io::Result<()> {
        self.place()?;
        self.out.write_all(json.as_bytes())
    }

    pub fn string_field(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.name(name)?;
        self.string(text)
    }

    pub fn raw_field(&mut self, name: &str, json: impl std::fmt::Display) -> io::Result<()> {
        self.name(name)?;
        self.raw(&json.to_string())
    }
}

fn write_string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'"' => "\\\"".to_owned(),
            b'\\' => "\\\\".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\t' => "\\t".to_owned(),
            0x08 => "\\b".to_owned(),
            0x0c => "\\f".to_owned(),
            0..0x20 => format!("\\u{byte:04X}"),
            _ => continue,
        };
        out.write_all(&text.as_bytes()[plain..at])?;
        out.write_all(escaped.as_bytes())?;
        plain = at + 1;
    }
    out.write_all(&text.as_bytes()[plain..])?;
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(plain: bool, write: impl Fn(&mut JsonWriter<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut JsonWriter::new(&mut out, plain)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn control_characters_are_escaped_and_others_are_not() {
        let text = written(false, |json| json.string("a\"\\\n\t\u{1f}é\u{7f}"));
        assert_eq!(text, "\"a\\\"\\\\\\n\\t\\u001Fé\u{7f}\"");
    }

    #[test]
    fn what_is_compact_stays_on_the_line_and_what_is_empty_has_a_blank() {
        let write = |json: &mut JsonWriter<'_>| {
            json.begin_array()?;
            json.begin_object()?;
            json.string_field("a", "1")?;
            json.compact_objects(true);
            json.raw_field("b", 2)?;
            json.name("c")?;
            json.begin_array()?;
            json.end_array()?;
            json.end_object()?;
            json.end_array()
        };
        assert_eq!(written(false, write), "[\n  {\n    \"a\" : \"1\", \"b\" : 2, \"c\" : [ ] }\n]");
        assert_eq!(written(true, write), "[{\"a\":\"1\",\"b\":2,\"c\":[]}]");
    }
}
