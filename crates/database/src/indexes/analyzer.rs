//! What becomes of a value before it is indexed, and before it is looked for.

use std::borrow::Cow;

use cassette_rows::DataType;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::error::{Result, bail_invalid};
use crate::system::TextMap;

/// The options of storage-attached indexes that say how text is analyzed; all are booleans.
pub(crate) const BOOLEAN_OPTIONS: [&str; 3] = ["case_sensitive", "normalize", "ascii"];

/// Makes values alike that are to be found as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Analyzer {
    /// Text, in this order: lower case, canonical composition, letters without their marks.
    Text { lower_case: bool, normalize: bool, ascii: bool },
    /// Addresses: those of IPv4 as the IPv6 ones that stand for them.
    Inet,
}

impl Analyzer {
    /// Of a storage-attached index with these options; `None` if values stay as they are.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for options that do not fit the type, or are no booleans.
    pub fn new(data_type: &DataType, options: &TextMap) -> Result<Option<Self>> {
        if !BOOLEAN_OPTIONS.iter().any(|option| options.contains_key(*option)) {
            return Ok((*data_type == DataType::Inet).then_some(Self::Inet));
        }
        if !matches!(data_type, DataType::Text | DataType::Ascii) {
            bail_invalid!("CQL type {data_type} cannot be analyzed.");
        }
        let mut values = [true, false, false];
        for (name, value) in BOOLEAN_OPTIONS.iter().zip(&mut values) {
            let Some(text) = options.get(*name) else { continue };
            *value = match text.to_ascii_lowercase().as_str() {
                "true" => true,
                "false" => false,
                "" => bail_invalid!("Empty value for boolean option '{name}'"),
                _ => bail_invalid!("Illegal value for boolean option '{name}': {text}"),
            };
        }
        let [case_sensitive, normalize, ascii] = values;
        let changes = !case_sensitive || normalize || ascii;
        Ok(changes.then_some(Self::Text { lower_case: !case_sensitive, normalize, ascii }))
    }

    /// What is indexed and looked for in the place of a value.
    pub fn analyze<'v>(&self, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
        match self {
            Self::Inet => match <[u8; 4]>::try_from(&*value) {
                Ok(v4) => Cow::Owned(std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets().to_vec()),
                Err(_) => value,
            },
            Self::Text { lower_case, normalize, ascii } => {
                let Ok(text) = std::str::from_utf8(&value) else { return value };
                let mut text = if *lower_case { text.to_lowercase() } else { text.to_owned() };
                if *normalize {
                    text = text.nfc().collect();
                }
                if *ascii && !text.is_ascii() {
                    text = fold(&text);
                }
                Cow::Owned(text.into_bytes())
            }
        }
    }
}

/// Letters without their marks, and those that stand for two as two.
fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfkd().filter(|c| !is_combining_mark(*c)) {
        match c {
            'Æ' => out.push_str("AE"),
            'æ' => out.push_str("ae"),
            'Œ' => out.push_str("OE"),
            'œ' => out.push_str("oe"),
            'ß' => out.push_str("ss"),
            'ẞ' => out.push_str("SS"),
            'Þ' => out.push_str("TH"),
            'þ' => out.push_str("th"),
            'Ø' => out.push('O'),
            'ø' => out.push('o'),
            'Đ' | 'Ð' => out.push('D'),
            'đ' | 'ð' => out.push('d'),
            'Ł' => out.push('L'),
            'ł' => out.push('l'),
            'Ħ' => out.push('H'),
            'ħ' => out.push('h'),
            'ı' => out.push('i'),
            '‘' | '’' | '‚' | '‛' => out.push('\''),
            '“' | '”' | '„' => out.push('"'),
            '‐' | '‑' | '‒' | '–' | '—' => out.push('-'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analyze(options: &[(&str, &str)], text: &str) -> String {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let analyzer = Analyzer::new(&DataType::Text, &options).unwrap();
        let value = Cow::Borrowed(text.as_bytes());
        let value = analyzer.map_or(value.clone(), |analyzer| analyzer.analyze(value));
        String::from_utf8(value.into_owned()).unwrap()
    }

    #[test]
    fn texts_are_made_alike_as_the_options_say() {
        assert_eq!(analyze(&[], "Äb"), "Äb");
        assert_eq!(analyze(&[("case_sensitive", "true")], "Äb"), "Äb");
        assert_eq!(analyze(&[("case_sensitive", "FALSE")], "ÄB"), "äb");
        assert_eq!(analyze(&[("normalize", "true")], "A\u{30a}"), "\u{c5}");
        assert_eq!(analyze(&[("ascii", "true")], "Éclair Straße Łódź"), "Eclair Strasse Lodz");
    }

    #[test]
    fn an_address_of_either_family_is_indexed_in_sixteen_bytes() {
        let v4 = Analyzer::Inet.analyze(Cow::Borrowed(&[10, 0, 0, 7]));
        assert_eq!(v4[10..], [0xff, 0xff, 10, 0, 0, 7]);
    }
}
