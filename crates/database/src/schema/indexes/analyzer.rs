//! Analysis of values before they are indexed or searched.

use std::borrow::Cow;

use cassette_rows::DataType;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::{Part, Sasi};
use crate::basics::error::{Result, bail_invalid};
use crate::schema::system::TextMap;

/// The boolean options of text analysis of storage-attached indexes.
pub(crate) const BOOLEAN_OPTIONS: [&str; 3] = ["case_sensitive", "normalize", "ascii"];

/// Normalizes values that searches treat as equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Analyzer {
    /// Text, in this order: lower case, canonical composition, removal of diacritical marks.
    Text { lower_case: bool, normalize: bool, ascii: bool },
    /// Addresses: IPv4 addresses become IPv4-mapped IPv6 addresses.
    Inet,
    /// Terms of a SASI index that has one for each value.
    Sasi(Sasi),
}

/// The analyzers that are applied to the values of a column before a query compares them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Analyzers {
    /// For the value; for a collection, its elements; for a map, its values.
    pub values: Option<Analyzer>,
    /// For the keys of a map.
    pub keys: Option<Analyzer>,
}

impl Analyzer {
    /// Returns the analyzer of a storage-attached index on a part of a column; `None` if values are
    /// indexed unchanged.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_column(data_type: &DataType, part: Part, options: &TextMap) -> Result<Option<Self>> {
        let element = match (data_type, part) {
            (data_type, _) if !data_type.is_multi_cell() => return Self::new(data_type, options),
            (DataType::List { element, .. } | DataType::Set { element, .. }, _) => element,
            (DataType::Map { key, .. }, Part::Keys) => key,
            (DataType::Map { value, .. }, Part::Values | Part::Simple) => value,
            (DataType::Map { key, value, .. }, Part::Entries) => {
                if BOOLEAN_OPTIONS.iter().any(|option| options.contains_key(*option)) {
                    bail_invalid!("CQL type {} cannot be analyzed.", type_of_entries(key, value));
                }
                return Ok(None);
            }
            _ => return Self::new(data_type, options),
        };
        // Elements that are addresses are not changed: they are not searched by range.
        Ok(Self::new(element, options)?.filter(|analyzer| *analyzer != Self::Inet))
    }

    /// Returns the analyzer of values of this type.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for options that do not fit the type or are not booleans.
    fn new(data_type: &DataType, options: &TextMap) -> Result<Option<Self>> {
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

    /// Returns the form of a value that is indexed and searched.
    pub fn analyze<'v>(&self, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
        match self {
            Self::Sasi(sasi) => sasi.terms(value).into_iter().next().unwrap_or_default(),
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

/// Returns Cassandra's name of the type of a map's indexed entries.
pub(crate) fn type_of_entries(key: &DataType, value: &DataType) -> String {
    let of_one = |data_type: &DataType| data_type.class_name();
    format!("'org.apache.cassandra.db.marshal.CompositeType({},{})'", of_one(key), of_one(value))
}

/// Removes diacritical marks from letters, and expands ligatures.
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
