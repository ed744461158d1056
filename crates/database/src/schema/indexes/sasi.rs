//! SASI indexes: their options, the terms of a value, and the patterns of LIKE. The rules are
//! Cassandra's.

use std::borrow::Cow;
use std::collections::BTreeSet;

use cassette_rows::{ColumnKind, ColumnMetadata, DataType};
use smallvec::{SmallVec, smallvec};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::basics::error::{Result, bail_config};
use crate::schema::system::TextMap;

/// The class name.
pub(crate) const SASI: &str = "org.apache.cassandra.index.sasi.SASIIndex";

const ANALYZERS: &str = "org.apache.cassandra.index.sasi.analyzer.";

/// Terms of this length or more, in bytes, are not indexed.
const TERM_LENGTH_LIMIT: usize = 1024;

/// The maximum number of terms of a value: each costs an entry with the key of the row, so that a
/// value of many short terms would take many times its own memory.
pub(crate) const TERMS_MAX: usize = 10_000;

/// The maximum length of a word, in UTF-16 units.
const WORD_LENGTH_MAX: usize = 255;

/// What an index can be searched for besides equal terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Prefix,
    Contains,
    Sparse,
}

/// How a value is divided into terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tokenizer {
    /// `NoOpAnalyzer`, or no analyzer: the value is the term.
    None,
    /// `NonTokenizingAnalyzer`
    Whole(Case),
    /// `StandardAnalyzer`: words, as Unicode defines them.
    Words(Case),
    /// `DelimiterAnalyzer`
    Delimited(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Kept,
    Lower,
    Upper,
}

/// The options of a SASI index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sasi {
    mode: Mode,
    /// Whether terms are compared byte by byte, so that LIKE is supported and ranges are not.
    is_literal: bool,
    tokenizer: Tokenizer,
}

/// The terms of a value; mostly one.
pub(crate) type Terms<'v> = SmallVec<[Cow<'v, [u8]>; 1]>;

impl Sasi {
    /// Returns the index of `column` with these options.
    ///
    /// # Errors
    /// Config, with Cassandra's texts; and for options that would need Cassandra's lists of words.
    pub fn new(column: &ColumnMetadata, options: &TextMap) -> Result<Self> {
        if column.data_type.is_multi_cell() {
            bail_config!("complex columns are not yet supported by SASI");
        }
        if column.kind == ColumnKind::PartitionKey {
            bail_config!("partition key columns are not yet supported by SASI");
        }
        let is_text = matches!(column.data_type, DataType::Text | DataType::Ascii);
        let analyzer =
            options.get("analyzer_class").map(|class| analyzer(class, column, is_text)).transpose()?;
        let tokenizer = analyzer.map(|analyzer| analyzer.tokenizer(options)).transpose()?;
        let mode = match options.get("mode").map(|mode| mode.to_ascii_uppercase()).as_deref() {
            None | Some("PREFIX") => Mode::Prefix,
            Some("CONTAINS") => Mode::Contains,
            Some("SPARSE") => Mode::Sparse,
            Some(_) => {
                bail_config!("Incorrect index mode: {}", options.get("mode").map_or("", String::as_str))
            }
        };
        let is_analyzed = is_true(options, "analyzed").unwrap_or(tokenizer.is_some());
        // Cassandra does not recognize the type of a column in descending order.
        let is_literal = is_true(options, "is_literal").unwrap_or(is_text && !column.reversed);
        if options.get("max_compaction_flush_memory_in_mb").is_some_and(|size| size.parse::<i64>().is_err()) {
            let listed: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            bail_config!("Failed to validate custom indexer options: {{{}}}", listed.join(", "));
        }
        if mode == Mode::Sparse && is_literal {
            bail_config!("SPARSE mode is only supported on non-literal columns.");
        }
        if mode == Mode::Sparse && is_analyzed {
            bail_config!("SPARSE mode doesn't support analyzers.");
        }
        let tokenizer = match tokenizer {
            _ if !is_analyzed => Tokenizer::None,
            Some(tokenizer) => tokenizer,
            None if is_text => AnalyzerClass::Standard.tokenizer(options)?,
            None => Tokenizer::None,
        };
        Ok(Self { mode, is_literal, tokenizer })
    }

    /// Whether terms are compared byte by byte.
    pub fn is_literal(&self) -> bool {
        self.is_literal
    }

    /// Whether the index finds equal values.
    pub fn supports_equality(&self) -> bool {
        !self.is_tokenizing()
    }

    /// Whether the index finds values within a range.
    pub fn supports_ranges(&self) -> bool {
        !self.is_literal && self.mode != Mode::Contains
    }

    /// Whether the index finds values by patterns of this kind.
    pub fn supports_like(&self, kind: LikeKind) -> bool {
        self.is_literal
            && match kind {
                LikeKind::Matches => true,
                LikeKind::Prefix => self.mode == Mode::Prefix || !self.is_tokenizing(),
                LikeKind::Suffix | LikeKind::Contains => self.mode == Mode::Contains,
            }
    }

    /// Whether a value can have several terms.
    fn is_tokenizing(&self) -> bool {
        matches!(self.tokenizer, Tokenizer::Words(_) | Tokenizer::Delimited(_))
    }

    /// Whether terms differ from the values.
    pub fn changes_values(&self) -> bool {
        self.tokenizer != Tokenizer::None
    }

    /// Returns the terms of a value, each once: see [`distinct_terms`].
    pub fn terms<'v>(&self, value: Cow<'v, [u8]>) -> Terms<'v> {
        let text = std::str::from_utf8(&value);
        match (self.tokenizer, text) {
            (Tokenizer::None, _) => one_term(value),
            (_, Err(_)) => Terms::new(),
            (Tokenizer::Whole(case), Ok(text)) => one_term(Cow::Owned(case.apply(text).into_bytes())),
            (Tokenizer::Words(case), Ok(text)) => distinct_terms(words(text).map(|word| case.apply(word))),
            (Tokenizer::Delimited(delimiter), Ok(text)) => {
                distinct_terms(text.split(delimiter).map(str::to_owned))
            }
        }
    }
}

fn is_indexed(term: &[u8]) -> bool {
    !term.is_empty() && term.len() < TERM_LENGTH_LIMIT
}

fn one_term(term: Cow<'_, [u8]>) -> Terms<'_> {
    if is_indexed(&term) { smallvec![term] } else { Terms::new() }
}

/// Returns each term once, in order: if there are more than [`TERMS_MAX`], the first of them and
/// one more.
fn distinct_terms<'v>(terms: impl Iterator<Item = String>) -> Terms<'v> {
    let mut distinct = BTreeSet::new();
    for term in terms.filter(|term| is_indexed(term.as_bytes())) {
        distinct.insert(term);
        if distinct.len() > TERMS_MAX {
            break;
        }
    }
    distinct.into_iter().map(|term| Cow::Owned(term.into_bytes())).collect()
}

impl Case {
    /// Returns the text in this case and in canonical composition.
    fn apply(self, text: &str) -> String {
        match self {
            Self::Kept => text.nfc().collect(),
            Self::Lower => text.to_lowercase().nfc().collect(),
            Self::Upper => text.to_uppercase().nfc().collect(),
        }
    }
}

/// Returns the words of a text. A run of letters of a script without blanks between words is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_run = |word: &str| word.chars().all(is_of_run);
    let mut words = text.unicode_word_indices().peekable();
    let runs = std::iter::from_fn(move || {
        let (start, word) = words.next()?;
        let mut end = start + word.len();
        if is_run(word) {
            while let Some((_, more)) = words.next_if(|(next, more)| *next == end && is_run(more)) {
                end += more.len();
            }
        }
        text.get(start..end)
    });
    runs.filter(|word| word.encode_utf16().count() <= WORD_LENGTH_MAX)
}

/// Whether a character is of Thai, Lao, Burmese or Khmer.
fn is_of_run(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

#[derive(Clone, Copy)]
enum AnalyzerClass {
    NoOp,
    NonTokenizing,
    Standard,
    Delimiter,
}

fn analyzer(class: &str, column: &ColumnMetadata, is_text: bool) -> Result<AnalyzerClass> {
    let (name, analyzer) = match class.strip_prefix(ANALYZERS) {
        Some("NoOpAnalyzer") => return Ok(AnalyzerClass::NoOp),
        Some(name @ "NonTokenizingAnalyzer") => (name, AnalyzerClass::NonTokenizing),
        Some(name @ "StandardAnalyzer") => (name, AnalyzerClass::Standard),
        Some(name @ "DelimiterAnalyzer") => (name, AnalyzerClass::Delimiter),
        _ => bail_config!("Invalid analyzer class option specified [{class}]"),
    };
    if !is_text || column.reversed {
        bail_config!("{name} does not support type {}", column.data_type);
    }
    Ok(analyzer)
}

impl AnalyzerClass {
    fn tokenizer(self, options: &TextMap) -> Result<Tokenizer> {
        Ok(match self {
            Self::NoOp => Tokenizer::None,
            Self::NonTokenizing => {
                let (lower, upper) = ("normalize_lowercase", "normalize_uppercase");
                let is_normalized = options.contains_key(lower) || options.contains_key(upper);
                if options.contains_key("case_sensitive") && is_normalized {
                    bail_config!(
                        "case_sensitive option cannot be specified together with either {lower} or {upper}"
                    );
                }
                match is_true(options, "case_sensitive") {
                    Some(false) => Tokenizer::Whole(Case::Lower),
                    _ => Tokenizer::Whole(case(options, lower, upper)?),
                }
            }
            Self::Standard => {
                for option in ["tokenization_enable_stemming", "tokenization_skip_stop_words"] {
                    if is_true(options, option) == Some(true) {
                        bail_config!("{option} is not supported: omit it, or set it to false");
                    }
                }
                let (lower, upper) = ("tokenization_normalize_lowercase", "tokenization_normalize_uppercase");
                Tokenizer::Words(case(options, lower, upper)?)
            }
            Self::Delimiter => {
                let delimiter = options.get("delimiter").map_or(",", String::as_str);
                let mut characters = delimiter.chars();
                match (characters.next(), characters.next()) {
                    (Some(delimiter), None) if delimiter.len_utf16() == 1 => Tokenizer::Delimited(delimiter),
                    _ => bail_config!("Only single character delimiters supported, was {delimiter}"),
                }
            }
        })
    }
}

fn case(options: &TextMap, lower: &str, upper: &str) -> Result<Case> {
    let wanted = |option| is_true(options, option) == Some(true);
    Ok(match (wanted(lower), wanted(upper)) {
        (true, true) => {
            bail_config!("Options to normalize terms cannot be both uppercase and lowercase at the same time")
        }
        (true, false) => Case::Lower,
        (false, true) => Case::Upper,
        (false, false) => Case::Kept,
    })
}

/// Returns a boolean option, where everything but `true` is false; `None` if it is absent.
fn is_true(options: &TextMap, option: &str) -> Option<bool> {
    options.get(option).map(|value| value.eq_ignore_ascii_case("true"))
}

/// The kinds of patterns: `%` has a meaning at the start and at the end only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LikeKind {
    Prefix,
    Suffix,
    Contains,
    Matches,
}

impl LikeKind {
    /// Divides a pattern into its kind and the text without `%`; `None` if the text is empty.
    pub fn of_pattern(pattern: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, text) = match (pattern.strip_suffix(b"%"), pattern.strip_prefix(b"%")) {
            (Some(_), Some(rest)) => (Self::Contains, rest.strip_suffix(b"%").unwrap_or_default()),
            (Some(text), None) => (Self::Prefix, text),
            (None, Some(text)) => (Self::Suffix, text),
            (None, None) => (Self::Matches, pattern),
        };
        (!text.is_empty()).then_some((kind, text))
    }

    /// Returns the operator as shown in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefix => "LIKE '<term>%'",
            Self::Suffix => "LIKE '%<term>'",
            Self::Contains => "LIKE '%<term>%'",
            Self::Matches => "LIKE '<term>'",
        }
    }

    /// Whether a term of a value fits a term of the pattern, which is not empty.
    pub fn fits(self, term: &[u8], wanted: &[u8]) -> bool {
        match self {
            Self::Prefix => term.starts_with(wanted),
            Self::Suffix => term.ends_with(wanted),
            Self::Contains => memchr::memmem::find(term, wanted).is_some(),
            Self::Matches => term == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(options: &[(&str, &str)], text: &str) -> Vec<String> {
        let column = ColumnMetadata::new("v", ColumnKind::Regular, 0, DataType::Text);
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let sasi = Sasi::new(&column, &options).unwrap();
        let terms = sasi.terms(Cow::Borrowed(text.as_bytes()));
        terms.into_iter().map(|term| String::from_utf8(term.into_owned()).unwrap()).collect()
    }

    #[test]
    fn words_are_those_of_unicode() {
        let words = |text: &str| terms(&[("analyzed", "true")], text);
        assert_eq!(words("It's e-mail, foo_bar.baz 3.14!"), ["3.14", "It's", "e", "foo_bar.baz", "mail"]);
        assert_eq!(words("ไทย 日本 カタカナ 한국어"), ["ไทย", "カタカナ", "日", "本", "한국어"]);
        assert_eq!(words("- 😀 !"), [""; 0]);
        assert_eq!(words(&format!("{} b", "a".repeat(256))), ["b"]);
        assert_eq!(words(&format!("ไ{}", "ท".repeat(200))).len(), 1, "a run is one word");
    }

    #[test]
    fn many_terms_are_cut_off_and_repeated_ones_count_once() {
        let numbers = |count: usize| (0..count).map(|n| format!("{n} a ")).collect::<String>();
        let words = |text: &str| terms(&[("analyzed", "true")], text).len();
        assert_eq!(words(&numbers(TERMS_MAX - 1)), TERMS_MAX);
        assert_eq!(words(&numbers(3 * TERMS_MAX)), TERMS_MAX + 1);
        assert_eq!(words(&"a b ".repeat(TERMS_MAX)), 2);
    }

    #[test]
    fn terms_are_changed_and_divided_as_the_options_define() {
        let class = |name: &str| format!("{ANALYZERS}{name}");
        let (whole, delimiter) = (class("NonTokenizingAnalyzer"), class("DelimiterAnalyzer"));
        assert_eq!(terms(&[], "Äb c"), ["Äb c"]);
        assert_eq!(terms(&[("analyzer_class", &whole), ("case_sensitive", "false")], "Äb c"), ["äb c"]);
        assert_eq!(terms(&[("analyzer_class", &whole)], "A\u{30a}"), ["\u{c5}"]);
        assert_eq!(terms(&[("analyzer_class", &delimiter), ("delimiter", ";")], ";b;a c;;b"), ["a c", "b"]);
        let upper = ("tokenization_normalize_uppercase", "true");
        assert_eq!(terms(&[("analyzed", "true"), upper], "ß a"), ["A", "SS"]);
        assert_eq!(terms(&[], ""), [""; 0]);
        assert_eq!(terms(&[], &"a".repeat(TERM_LENGTH_LIMIT)), [""; 0]);
    }

    #[test]
    fn wildcards_have_a_meaning_at_the_ends_only() {
        for (pattern, expected) in [
            ("a%", Some((LikeKind::Prefix, "a"))),
            ("%a", Some((LikeKind::Suffix, "a"))),
            ("%a%", Some((LikeKind::Contains, "a"))),
            ("a%b", Some((LikeKind::Matches, "a%b"))),
            ("%%%", Some((LikeKind::Contains, "%"))),
            ("%%", None),
            ("%", None),
            ("", None),
        ] {
            let found = LikeKind::of_pattern(pattern.as_bytes());
            assert_eq!(found, expected.map(|(kind, text)| (kind, text.as_bytes())), "{pattern}");
        }
    }
}
