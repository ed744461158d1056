//! The names of types in CQL, in schema tables and in DESCRIBE.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use super::DataType;

/// Writes the type as Cassandra does: `map<text, frozen<tuple<int, text>>>`. Everything inside a
/// collection, tuple or vector is frozen, and marked as such; a UDT is its name alone, quoted where
/// necessary.
impl Display for DataType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_type(self, false, f)
    }
}

fn write_type(data_type: &DataType, inside: bool, f: &mut Formatter<'_>) -> fmt::Result {
    let name = match data_type {
        DataType::Ascii => "ascii",
        DataType::BigInt => "bigint",
        DataType::Blob => "blob",
        DataType::Boolean => "boolean",
        DataType::Counter => "counter",
        DataType::Date => "date",
        DataType::Decimal => "decimal",
        DataType::Double => "double",
        DataType::Duration => "duration",
        DataType::Empty => "empty",
        DataType::Float => "float",
        DataType::Inet => "inet",
        DataType::Int => "int",
        DataType::SmallInt => "smallint",
        DataType::Text => "text",
        DataType::Time => "time",
        DataType::Timestamp => "timestamp",
        DataType::TimeUuid => "timeuuid",
        DataType::TinyInt => "tinyint",
        DataType::Uuid => "uuid",
        DataType::VarInt => "varint",
        DataType::List { element, frozen } => {
            return frozen_if(*frozen || inside, f, |f| write_parameters("list", [&**element], f));
        }
        DataType::Set { element, frozen } => {
            return frozen_if(*frozen || inside, f, |f| write_parameters("set", [&**element], f));
        }
        DataType::Map { key, value, frozen } => {
            return frozen_if(*frozen || inside, f, |f| write_parameters("map", [&**key, &**value], f));
        }
        DataType::Tuple(items) => return frozen_if(true, f, |f| write_parameters("tuple", items.iter(), f)),
        DataType::Udt { definition, frozen } => {
            return frozen_if(*frozen || inside, f, |f| f.write_str(&quote_identifier(&definition.name)));
        }
        DataType::Vector { element, dimension } => {
            f.write_str("vector<")?;
            write_type(element, false, f)?;
            return write!(f, ", {dimension}>");
        }
        DataType::Custom(_) => return write!(f, "'{}'", data_type.class_name()),
    };
    f.write_str(name)
}

fn frozen_if(
    frozen: bool,
    f: &mut Formatter<'_>,
    write: impl FnOnce(&mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if !frozen {
        return write(f);
    }
    f.write_str("frozen<")?;
    write(f)?;
    f.write_str(">")
}

fn write_parameters<'a>(
    name: &str,
    parameters: impl IntoIterator<Item = &'a DataType>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    write!(f, "{name}<")?;
    for (i, parameter) in parameters.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_type(parameter, true, f)?;
    }
    f.write_str(">")
}

/// Returns the name in CQL that is parsed to the same name: in double quotes unless it is a
/// lower-case identifier and neither a reserved word nor a boolean. (Cassandra writes `true` and
/// `false` bare and then cannot parse them.)
pub fn quote_identifier(name: &str) -> Cow<'_, str> {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain && !is_reserved(name) && name != "true" && name != "false" {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
    }
}

/// Returns whether `word`, in lower case, is reserved and needs quotes as an identifier.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

/// The reserved words of Cassandra 5.0, sorted.
#[rustfmt::skip]
const RESERVED: [&str; 57] = [
    "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin", "by",
    "columnfamily", "create", "delete", "desc", "describe", "drop", "entries", "execute", "from",
    "full", "grant", "if", "in", "index", "infinity", "insert", "into", "is", "keyspace", "limit",
    "materialized", "modify", "nan", "norecursive", "not", "null", "of", "on", "or", "order",
    "primary", "rename", "revoke", "schema", "select", "set", "table", "to", "token", "truncate",
    "unlogged", "update", "use", "using", "view", "where", "with",
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::UserType;

    #[test]
    fn types_are_written_as_in_the_schema_tables() {
        let udt = DataType::Udt { definition: Arc::new(UserType::new("ks", "Addr", vec![])), frozen: false };
        let tuple = DataType::tuple([DataType::Int, DataType::list(DataType::Text)]);
        for (data_type, text) in [
            (DataType::list(DataType::Int), "list<int>"),
            (DataType::list(DataType::Int).freeze(), "frozen<list<int>>"),
            (
                DataType::map(DataType::Text, tuple.clone()),
                "map<text, frozen<tuple<int, frozen<list<text>>>>>",
            ),
            (tuple, "frozen<tuple<int, frozen<list<text>>>>"),
            (udt.clone(), "\"Addr\""),
            (DataType::set(udt), "set<frozen<\"Addr\">>"),
            (DataType::vector(DataType::list(DataType::Int), 2), "vector<list<int>, 2>"),
        ] {
            assert_eq!(data_type.to_string(), text);
        }
    }

    #[test]
    fn names_are_quoted_when_they_must_be() {
        assert!(RESERVED.is_sorted());
        for (name, quoted) in [
            ("abc_1", "abc_1"),
            ("_a", "\"_a\""),
            ("1a", "\"1a\""),
            ("", "\"\""),
            ("A", "\"A\""),
            ("token", "\"token\""),
            ("ttl", "ttl"),
            ("true", "\"true\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(quote_identifier(name), quoted);
        }
    }
}
