//! CQL values of the model, with their literals and their wire encoding.

use std::collections::{BTreeMap, BTreeSet};

/// The types of the simulated columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `int`
    Int,
    /// `text`
    Text,
    /// `frozen<list<int>>`
    FrozenList,
    /// `list<int>`, one cell per element.
    List,
    /// `set<int>`, one cell per element.
    Set,
    /// `map<int, int>`, one cell per key.
    Map,
    /// The user-defined type `pair`, one cell per field, with this many fields of type `int`.
    Udt(u8),
    /// `frozen<pair>`
    FrozenUdt(u8),
    /// `counter`
    Counter,
}

/// The names of the fields of the type `pair`, in order. It is created with the first two.
pub const FIELDS: [&str; 4] = ["a", "b", "c", "d"];

impl Type {
    /// The type in CQL.
    pub fn cql(self) -> &'static str {
        match self {
            Type::Int => "int",
            Type::Text => "text",
            Type::FrozenList => "frozen<list<int>>",
            Type::List => "list<int>",
            Type::Set => "set<int>",
            Type::Map => "map<int, int>",
            Type::Udt(_) => "pair",
            Type::FrozenUdt(_) => "frozen<pair>",
            Type::Counter => "counter",
        }
    }

    /// The type after `pair` was altered to have this many fields.
    pub fn with_fields(self, fields: u8) -> Self {
        match self {
            Type::Udt(_) => Type::Udt(fields),
            Type::FrozenUdt(_) => Type::FrozenUdt(fields),
            other => other,
        }
    }

    /// Returns whether the value consists of several cells.
    pub fn is_complex(self) -> bool {
        matches!(self, Type::List | Type::Set | Type::Map | Type::Udt(_))
    }

    /// Reads a value in its wire encoding.
    pub fn decode(self, bytes: &[u8]) -> Result<Val, String> {
        let mut reader = Reader(bytes);
        let val = match self {
            Type::Int => Val::Int(reader.int()?),
            Type::Text => return String::from_utf8(bytes.to_vec()).map(Val::Text).map_err(|e| e.to_string()),
            Type::FrozenList | Type::List => Val::List(reader.elements()?),
            Type::Set => {
                let elements = reader.elements()?;
                let set: BTreeSet<i32> = elements.iter().copied().collect();
                if !set.iter().eq(&elements) {
                    return Err(format!("a set out of order: {elements:?}"));
                }
                Val::Set(set)
            }
            Type::Map => {
                let mut map = BTreeMap::new();
                for _ in 0..reader.int()? {
                    let (key, value) = (reader.sized_int()?, reader.sized_int()?);
                    if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
                        return Err(format!("a map out of order at key {key}"));
                    }
                    map.insert(key, value);
                }
                Val::Map(map)
            }
            Type::Udt(fields) => {
                let values = reader.fields()?;
                if values.len() != usize::from(fields) {
                    return Err(format!("a value of {} fields, expected {fields}", values.len()));
                }
                Val::Udt(values)
            }
            // A value keeps the fields that it was written with.
            Type::FrozenUdt(_) => Val::Udt(reader.fields()?),
            Type::Counter => {
                let (bytes, rest) = reader.0.split_first_chunk().ok_or("a counter of less than 8 bytes")?;
                reader.0 = rest;
                Val::Count(i64::from_be_bytes(*bytes))
            }
        };
        if reader.0.is_empty() { Ok(val) } else { Err(format!("{} bytes left over", reader.0.len())) }
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Val {
    /// `int`
    Int(i32),
    /// `text`
    Text(String),
    /// `frozen<list<int>>`, `list<int>`
    List(Vec<i32>),
    /// `set<int>`
    Set(BTreeSet<i32>),
    /// `map<int, int>`
    Map(BTreeMap<i32, i32>),
    /// `pair`, `frozen<pair>`: the values of the fields.
    Udt(Vec<Option<i32>>),
    /// `counter`
    Count(i64),
}

impl Val {
    /// The value as a CQL literal.
    pub fn literal(&self) -> String {
        let ints =
            |ints: &mut dyn Iterator<Item = &i32>| ints.map(i32::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Val::Int(value) => value.to_string(),
            Val::Text(text) => format!("'{text}'"),
            Val::List(list) => format!("[{}]", ints(&mut list.iter())),
            Val::Set(set) => format!("{{{}}}", ints(&mut set.iter())),
            Val::Map(map) => {
                let pairs = map.iter().map(|(key, value)| format!("{key}: {value}"));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }
            Val::Udt(values) => {
                let number = |value: &Option<i32>| value.map_or_else(|| "null".to_owned(), |v| v.to_string());
                let fields = FIELDS.iter().zip(values);
                let fields = fields.map(|(name, value)| format!("{name}: {}", number(value)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            Val::Count(count) => count.to_string(),
        }
    }

    /// The value in its wire encoding.
    pub fn encode(&self) -> Vec<u8> {
        let elements = |count: usize, elements: &mut dyn Iterator<Item = &i32>| {
            let mut out = (count as i32).to_be_bytes().to_vec();
            for element in elements {
                out.extend(4i32.to_be_bytes());
                out.extend(element.to_be_bytes());
            }
            out
        };
        match self {
            Val::Int(value) => value.to_be_bytes().to_vec(),
            Val::Text(text) => text.clone().into_bytes(),
            Val::List(list) => elements(list.len(), &mut list.iter()),
            Val::Set(set) => elements(set.len(), &mut set.iter()),
            Val::Map(map) => elements(map.len(), &mut map.iter().flat_map(|(key, value)| [key, value])),
            Val::Udt(values) => {
                let mut out = Vec::new();
                for value in values {
                    match value {
                        Some(value) => {
                            out.extend(4i32.to_be_bytes());
                            out.extend(value.to_be_bytes());
                        }
                        None => out.extend((-1i32).to_be_bytes()),
                    }
                }
                out
            }
            Val::Count(count) => count.to_be_bytes().to_vec(),
        }
    }
}

/// Reads the encodings of collections and numbers.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn int(&mut self) -> Result<i32, String> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or("an int of less than 4 bytes")?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*bytes))
    }

    fn sized_int(&mut self) -> Result<i32, String> {
        match self.int()? {
            4 => self.int(),
            length => Err(format!("an element of {length} bytes, expected 4")),
        }
    }

    fn fields(&mut self) -> Result<Vec<Option<i32>>, String> {
        let mut fields = Vec::new();
        while !self.0.is_empty() {
            fields.push(match self.int()? {
                -1 => None,
                4 => Some(self.int()?),
                length => return Err(format!("a field of {length} bytes, expected 4")),
            });
        }
        Ok(fields)
    }

    fn elements(&mut self) -> Result<Vec<i32>, String> {
        let count = self.int()?;
        (0..count).map(|_| self.sized_int()).collect()
    }
}
