//! Text for the terminal: with colors, and with the width of its characters.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

/// What a piece of output is, which determines its color: those of cqlsh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// Text values.
    Text,
    /// Numbers, times, addresses, ids.
    Number,
    /// Blobs, and escapes in text.
    Blob,
    /// Brackets and separators.
    Collection,
    /// Null, errors, columns of the partition key.
    Error,
    /// Clustering columns.
    Clustering,
    /// Static columns.
    Static,
    /// Other columns.
    Column,
    /// Names of clusters.
    Blue,
}

impl Color {
    /// Returns the escape sequence that switches the color on.
    pub fn code(self) -> &'static str {
        match self {
            Self::Text => "\x1b[0;1;33m",
            Self::Number => "\x1b[0;1;32m",
            Self::Blob => "\x1b[0;35m",
            Self::Collection | Self::Blue => "\x1b[0;1;34m",
            Self::Error => "\x1b[0;1;31m",
            Self::Clustering => "\x1b[0;1;36m",
            Self::Static => "\x1b[0;1;37m",
            Self::Column => "\x1b[0;1;35m",
        }
    }

    /// Returns `text` in this color if colors are on.
    pub fn paint(self, text: &str, is_on: bool) -> String {
        if is_on { format!("{}{text}{RESET}", self.code()) } else { text.to_owned() }
    }
}

/// Switches colors off.
pub const RESET: &str = "\x1b[0m";

/// A piece of output that is built up: its text, and the columns that it fills.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The text, with colors if they are on.
    pub text: String,
    /// The number of columns on a terminal.
    pub width: usize,
    colored: bool,
}

impl Shown {
    /// Creates an empty piece.
    pub fn new(colored: bool) -> Self {
        Self { text: String::new(), width: 0, colored }
    }

    /// Appends ASCII text that is one column a character.
    pub fn push(&mut self, color: Color, text: &str) {
        if self.colored {
            let _ = write!(self.text, "{}{text}{RESET}", color.code());
        } else {
            self.text.push_str(text);
        }
        self.width += text.len();
    }

    /// Appends text whose width is not counted.
    pub fn push_zero_width(&mut self, color: Color, text: &str) {
        let width = self.width;
        self.push(color, text);
        self.width = width;
    }

    /// Appends text with escapes for control characters. With colors, backslashes of the text are
    /// not doubled, since escapes have another color.
    pub fn push_text(&mut self, color: Color, text: &str, quote: bool) {
        let quoted = |text: String| if quote { format!("'{}'", text.replace('\'', "''")) } else { text };
        let plain = quoted(escaped(text));
        let width = UnicodeWidthStr::width(plain.as_str());
        if !self.colored {
            self.text.push_str(&plain);
            self.width += width;
            return;
        }
        self.text.push_str(color.code());
        let source = quoted(text.to_owned());
        for c in source.chars() {
            match escape(c) {
                Some(escape) => {
                    let _ = write!(self.text, "{}{escape}{}", Color::Blob.code(), color.code());
                }
                None => self.text.push(c),
            }
        }
        self.text.push_str(RESET);
        self.width += width - text.matches('\\').count();
    }

    /// Writes the text with spaces before it up to `width` columns.
    pub fn write_right(&self, width: usize, out: &mut String) {
        out.extend(std::iter::repeat_n(' ', width.saturating_sub(self.width)));
        out.push_str(&self.text);
    }

    /// Writes the text with spaces after it up to `width` columns.
    pub fn write_left(&self, width: usize, out: &mut String) {
        out.push_str(&self.text);
        out.extend(std::iter::repeat_n(' ', width.saturating_sub(self.width)));
    }
}

/// Python's escape of a control character.
fn escape(c: char) -> Option<String> {
    match c {
        '\t' => Some("\\t".to_owned()),
        '\n' => Some("\\n".to_owned()),
        '\r' => Some("\\r".to_owned()),
        '\0'..='\x1f' | '\x7f'..='\u{a0}' => Some(format!("\\x{:02x}", u32::from(c))),
        _ => None,
    }
}

/// Returns the text with doubled backslashes, and control characters as Python escapes them.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match escape(c) {
            Some(escape) => out.push_str(&escape),
            None if c == '\\' => out.push_str("\\\\"),
            None => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_backslashes_doubled() {
        assert_eq!(escaped("a\tb\nc\\d\x1b\u{a0}é"), "a\\tb\\nc\\\\d\\x1b\\xa0é");
    }

    #[test]
    fn wide_characters_count_two_columns() {
        let mut shown = Shown::new(false);
        shown.push_text(Color::Text, "日本", false);
        assert_eq!(shown.width, 4);
        let mut out = String::new();
        shown.write_right(6, &mut out);
        assert_eq!(out, "  日本");
    }

    #[test]
    fn colors_change_the_text_and_not_the_width() {
        let (mut plain, mut colored) = (Shown::new(false), Shown::new(true));
        for shown in [&mut plain, &mut colored] {
            shown.push(Color::Number, "12");
            shown.push_text(Color::Text, "it's\n", true);
        }
        assert_eq!(plain.text, "12'it''s\\n'");
        assert_eq!(plain.width, colored.width);
        assert!(colored.text.contains("\x1b[0;1;32m12\x1b[0m"));
    }
}
