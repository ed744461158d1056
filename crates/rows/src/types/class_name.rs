//! The Java class names of types in SSTable headers and in some schema tables.
//!
//! ```text
//! Int32Type                                  all in org.apache.cassandra.db.marshal
//! FrozenType(ListType(UTF8Type))             a frozen collection or UDT; nested ones are not wrapped again
//! TupleType(Int32Type,ListType(Int32Type))   nothing inside a tuple is wrapped
//! UserType(ks,hex name,hex field:Type,…)     names in hexadecimal UTF-8, the keyspace in plain text
//! VectorType(FloatType , 3)                  with blanks
//! ReversedType(Int32Type)                    a descending clustering column
//! CompositeType(Int32Type,UTF8Type)          a partition key of several columns, and a type of old schemas
//! DynamicCompositeType(a=>Int32Type)         a type of old schemas, with aliases
//! LexicalUUIDType                            a type of old schemas
//! ```

use std::fmt::Write;
use std::sync::Arc;

use super::{Alias, CustomType, DataType, NESTING_MAX, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

const SIMPLE: [(&str, DataType); 21] = [
    ("AsciiType", DataType::Ascii),
    ("LongType", DataType::BigInt),
    ("BytesType", DataType::Blob),
    ("BooleanType", DataType::Boolean),
    ("CounterColumnType", DataType::Counter),
    ("SimpleDateType", DataType::Date),
    ("DecimalType", DataType::Decimal),
    ("DoubleType", DataType::Double),
    ("DurationType", DataType::Duration),
    ("EmptyType", DataType::Empty),
    ("FloatType", DataType::Float),
    ("InetAddressType", DataType::Inet),
    ("Int32Type", DataType::Int),
    ("ShortType", DataType::SmallInt),
    ("UTF8Type", DataType::Text),
    ("TimeType", DataType::Time),
    ("TimestampType", DataType::Timestamp),
    ("TimeUUIDType", DataType::TimeUuid),
    ("ByteType", DataType::TinyInt),
    ("UUIDType", DataType::Uuid),
    ("IntegerType", DataType::VarInt),
];

/// The name of no known type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("type name {name:?}: {reason} at byte {at}")]
pub struct InvalidClassName {
    /// The whole name.
    pub name: String,
    /// The offset of the error.
    pub at: usize,
    /// The reason.
    pub reason: String,
}

impl DataType {
    /// The type's full Java class name, as Cassandra writes it into SSTable headers.
    pub fn class_name(&self) -> String {
        let mut out = String::new();
        write_type(self, Freezing::Flag, &mut out);
        out
    }

    /// Returns the class name of a clustering column of this type: within `ReversedType(…)` if it
    /// descends.
    pub fn clustering_class_name(&self, descending: bool) -> String {
        if descending { format!("{PACKAGE}ReversedType({})", self.class_name()) } else { self.class_name() }
    }
}

/// The class name of a partition key of these columns.
pub fn key_class_name(columns: &[DataType]) -> String {
    match columns {
        [column] => column.class_name(),
        columns => {
            let names: Vec<String> = columns.iter().map(DataType::class_name).collect();
            format!("{PACKAGE}CompositeType({})", names.join(","))
        }
    }
}

/// How a collection or UDT is written, depending on its context.
#[derive(Clone, Copy, PartialEq)]
enum Freezing {
    /// At the top level: wrapped if its flag is set.
    Flag,
    /// Directly inside a non-frozen type: wrapped whatever its flag.
    Wrapped,
    /// Inside something frozen or a tuple: bare.
    Bare,
}

fn write_type(data_type: &DataType, freezing: Freezing, out: &mut String) {
    let wrap = |frozen: bool| freezing == Freezing::Wrapped || freezing == Freezing::Flag && frozen;
    let inside = |frozen: bool| match freezing {
        Freezing::Flag if !frozen => Freezing::Wrapped,
        _ => Freezing::Bare,
    };
    match data_type {
        DataType::List { element, frozen } => {
            write_wrapped(wrap(*frozen), "ListType", out, |out| write_type(element, inside(*frozen), out));
        }
        DataType::Set { element, frozen } => {
            write_wrapped(wrap(*frozen), "SetType", out, |out| write_type(element, inside(*frozen), out));
        }
        DataType::Map { key, value, frozen } => write_wrapped(wrap(*frozen), "MapType", out, |out| {
            write_type(key, inside(*frozen), out);
            out.push(',');
            write_type(value, inside(*frozen), out);
        }),
        DataType::Udt { definition, frozen } => write_wrapped(wrap(*frozen), "UserType", out, |out| {
            out.push_str(&definition.keyspace);
            out.push(',');
            write_hex(&definition.name, out);
            for (name, field) in &definition.fields {
                out.push(',');
                write_hex(name, out);
                out.push(':');
                write_type(field, inside(*frozen), out);
            }
        }),
        DataType::Tuple(items) => write_wrapped(false, "TupleType", out, |out| {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_type(item, Freezing::Bare, out);
            }
        }),
        DataType::Vector { element, dimension } => write_wrapped(false, "VectorType", out, |out| {
            let inside = if freezing == Freezing::Bare { Freezing::Bare } else { Freezing::Flag };
            write_type(element, inside, out);
            // Writing to a string cannot fail.
            let _ = write!(out, " , {dimension}");
        }),
        DataType::Custom(custom) => write_custom(custom, out),
        simple => {
            let name = SIMPLE.iter().find(|(_, candidate)| candidate == simple).map_or("", |(name, _)| name);
            out.push_str(PACKAGE);
            out.push_str(name);
        }
    }
}

fn write_custom(custom: &CustomType, out: &mut String) {
    match custom {
        CustomType::LexicalUuid => {
            out.push_str(PACKAGE);
            out.push_str("LexicalUUIDType");
        }
        CustomType::Composite(types) => write_wrapped(false, "CompositeType", out, |out| {
            for (i, data_type) in types.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_type(data_type, Freezing::Flag, out);
            }
        }),
        CustomType::DynamicComposite(aliases) => write_wrapped(false, "DynamicCompositeType", out, |out| {
            for (i, alias) in aliases.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push(char::from(alias.name));
                out.push_str("=>");
                out.push_str(&alias.data_type.clustering_class_name(alias.reversed));
            }
        }),
    }
}

fn write_wrapped(frozen: bool, name: &str, out: &mut String, parameters: impl FnOnce(&mut String)) {
    if frozen {
        out.push_str(PACKAGE);
        out.push_str("FrozenType(");
    }
    out.push_str(PACKAGE);
    out.push_str(name);
    out.push('(');
    parameters(out);
    out.push(')');
    if frozen {
        out.push(')');
    }
}

fn write_hex(text: &str, out: &mut String) {
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}

/// Parses a class name, with or without its package; the flag is true inside `ReversedType(…)`.
pub fn parse_class_name(name: &str) -> Result<(DataType, bool), InvalidClassName> {
    Parser::whole(name, |parser| match parser.class()? {
        "ReversedType" => Ok((parser.single_parameter(0)?, true)),
        class => Ok((parser.type_of_class(class, 0)?, false)),
    })
}

/// Parses the class name of a partition key into the types of its columns.
pub fn parse_key_class_name(name: &str) -> Result<Vec<DataType>, InvalidClassName> {
    Parser::whole(name, |parser| match parser.class()? {
        "CompositeType" => parser.parameters(0),
        class => Ok(vec![parser.type_of_class(class, 0)?]),
    })
}

struct Parser<'a> {
    name: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn whole<T>(
        name: &'a str,
        parse: impl FnOnce(&mut Self) -> Result<T, InvalidClassName>,
    ) -> Result<T, InvalidClassName> {
        let mut parser = Self { name, at: 0 };
        let parsed = parse(&mut parser)?;
        parser.skip_blanks();
        if parser.at < name.len() {
            return parser.fail("unexpected text after the type");
        }
        Ok(parsed)
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, InvalidClassName> {
        Err(InvalidClassName { name: self.name.to_owned(), at: self.at, reason: reason.into() })
    }

    fn rest(&self) -> &'a str {
        self.name.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n']).len();
    }

    /// Consumes `expected` if it comes next, after blanks.
    fn take(&mut self, expected: char) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(expected);
        self.at += if found { expected.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, expected: char) -> Result<(), InvalidClassName> {
        if self.take(expected) { Ok(()) } else { self.fail(format!("expected '{expected}'")) }
    }

    fn identifier(&mut self) -> Result<&'a str, InvalidClassName> {
        self.skip_blanks();
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_' | '&')))
            .unwrap_or(rest.len());
        if end == 0 {
            return self.fail("expected a name");
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn class(&mut self) -> Result<&'a str, InvalidClassName> {
        let identifier = self.identifier()?;
        Ok(identifier.strip_prefix(PACKAGE).unwrap_or(identifier))
    }

    fn hex_name(&mut self) -> Result<String, InvalidClassName> {
        let hex = self.identifier()?;
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            if hex.len() % 2 == 0 { hex.as_bytes().chunks(2).map(byte).collect() } else { None };
        match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(name) => Ok(name),
            None => self.fail(format!("{hex:?} is not a name in hexadecimal")),
        }
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType, InvalidClassName> {
        let class = self.class()?;
        self.type_of_class(class, depth)
    }

    /// Parses the rest of a type after its class. `depth` is the number of enclosing types.
    fn type_of_class(&mut self, class: &str, depth: usize) -> Result<DataType, InvalidClassName> {
        if depth >= NESTING_MAX {
            return self.fail(format!("nested more than {NESTING_MAX} deep"));
        }
        match class {
            "FrozenType" => Ok(self.single_parameter(depth)?.freeze()),
            "ListType" => Ok(DataType::list(self.single_parameter(depth)?)),
            "SetType" => Ok(DataType::set(self.single_parameter(depth)?)),
            "MapType" => match <[DataType; 2]>::try_from(self.parameters(depth)?) {
                Ok([key, value]) => Ok(DataType::map(key, value)),
                Err(_) => self.fail("MapType takes exactly 2 type parameters"),
            },
            "TupleType" => Ok(DataType::tuple(self.parameters(depth)?)),
            "UserType" => self.user_type(depth),
            "VectorType" => self.vector(depth),
            "LexicalUUIDType" => Ok(DataType::Custom(Arc::new(CustomType::LexicalUuid))),
            "CompositeType" => match self.parameters(depth)? {
                types if types.is_empty() => self.fail("CompositeType takes type parameters"),
                types => Ok(DataType::Custom(Arc::new(CustomType::Composite(types.into())))),
            },
            "DynamicCompositeType" => self.dynamic_composite(depth),
            _ => match SIMPLE.iter().find(|(name, _)| *name == class) {
                Some((_, simple)) => Ok(simple.clone()),
                None => self.fail(format!("unsupported type {class:?}")),
            },
        }
    }

    fn parameters(&mut self, depth: usize) -> Result<Vec<DataType>, InvalidClassName> {
        let mut types = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            if !types.is_empty() {
                self.expect(',')?;
            }
            types.push(self.data_type(depth + 1)?);
        }
        Ok(types)
    }

    fn single_parameter(&mut self, depth: usize) -> Result<DataType, InvalidClassName> {
        self.expect('(')?;
        let parameter = self.data_type(depth + 1)?;
        self.expect(')')?;
        Ok(parameter)
    }

    fn dynamic_composite(&mut self, depth: usize) -> Result<DataType, InvalidClassName> {
        let mut aliases: Vec<Alias> = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            if !aliases.is_empty() {
                self.expect(',')?;
            }
            let name = match self.identifier()?.as_bytes() {
                [name] => *name,
                _ => return self.fail("an alias is a single character"),
            };
            self.expect('=')?;
            self.expect('>')?;
            let (data_type, reversed) = match self.class()? {
                "ReversedType" => (self.single_parameter(depth)?, true),
                class => (self.type_of_class(class, depth + 1)?, false),
            };
            aliases.retain(|alias| alias.name != name);
            aliases.push(Alias { name, data_type, reversed });
        }
        // Cassandra writes them in the order of a hash map.
        let mut buckets = 16;
        while aliases.len() > buckets / 4 * 3 {
            buckets *= 2;
        }
        aliases.sort_by_key(|alias| usize::from(alias.name) & (buckets - 1));
        Ok(DataType::Custom(Arc::new(CustomType::DynamicComposite(aliases.into()))))
    }

    fn user_type(&mut self, depth: usize) -> Result<DataType, InvalidClassName> {
        self.expect('(')?;
        let keyspace = self.identifier()?.to_owned();
        self.expect(',')?;
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        while !self.take(')') {
            self.expect(',')?;
            let field = self.hex_name()?;
            self.expect(':')?;
            fields.push((field, self.data_type(depth + 1)?));
        }
        let definition = Arc::new(UserType::new(keyspace, name, fields));
        Ok(DataType::Udt { definition, frozen: false })
    }

    fn vector(&mut self, depth: usize) -> Result<DataType, InvalidClassName> {
        self.expect('(')?;
        let element = self.data_type(depth + 1)?;
        self.expect(',')?;
        let dimension = match self.identifier()?.parse::<i32>() {
            Ok(dimension) if dimension > 0 => dimension as u32,
            _ => return self.fail("a vector's dimension is a positive number"),
        };
        self.expect(')')?;
        Ok(DataType::vector(element.freeze(), dimension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(short: &str) -> String {
        // A class is a word that ends in "Type" and is not hexadecimal.
        let mut out = String::new();
        let mut word = String::new();
        for c in short.chars().chain(['\0']) {
            if c.is_ascii_alphanumeric() {
                word.push(c);
                continue;
            }
            if word.ends_with("Type") {
                out.push_str(PACKAGE);
            }
            out.push_str(&word);
            word.clear();
            if c != '\0' {
                out.push(c);
            }
        }
        out
    }

    /// Names from the headers of SSTables that Cassandra 5.0.8 wrote, without their packages.
    const HEADERS: [&str; 12] = [
        "Int32Type",
        "ListType(FrozenType(ListType(Int32Type)))",
        "MapType(UTF8Type,FrozenType(MapType(Int32Type,SetType(UTF8Type))))",
        "FrozenType(MapType(Int32Type,ListType(SetType(Int32Type))))",
        "TupleType(TupleType(Int32Type,Int32Type),UTF8Type)",
        "TupleType(Int32Type,UTF8Type,ListType(Int32Type))",
        "MapType(UTF8Type,TupleType(Int32Type,Int32Type))",
        "UserType(golden,61646472,737472656574:UTF8Type,7a6970:Int32Type)",
        "ListType(FrozenType(UserType(golden,61646472,737472656574:UTF8Type,7a6970:Int32Type)))",
        "FrozenType(UserType(golden,706572736f6e,6e616d65:UTF8Type,6164647273:ListType(UserType(golden,61646472,\
         7a6970:Int32Type))))",
        "VectorType(FrozenType(ListType(Int32Type)) , 2)",
        "VectorType(FloatType , 3)",
    ];

    #[test]
    fn names_from_headers_are_read_and_written_unchanged() {
        for short in HEADERS {
            let name = full(short);
            let (data_type, reversed) = parse_class_name(&name).unwrap();
            assert!(!reversed);
            assert_eq!(data_type.class_name(), name);
            assert_eq!(parse_class_name(short).unwrap().0, data_type);
        }
    }

    #[test]
    fn reversed_clusterings_and_composite_keys_are_read_and_written() {
        let name = full("ReversedType(FrozenType(ListType(Int32Type)))");
        let (data_type, reversed) = parse_class_name(&name).unwrap();
        assert!(reversed);
        assert_eq!(data_type, DataType::list(DataType::Int).freeze());
        assert_eq!(data_type.clustering_class_name(true), name);

        let name = full("CompositeType(Int32Type,UTF8Type,UUIDType)");
        let columns = parse_key_class_name(&name).unwrap();
        assert_eq!(columns, [DataType::Int, DataType::Text, DataType::Uuid]);
        assert_eq!(key_class_name(&columns), name);
        assert_eq!(parse_key_class_name(&full("BytesType")).unwrap(), [DataType::Blob]);
    }

    #[test]
    fn collections_in_the_fields_of_an_unfrozen_udt_are_wrapped() {
        let fields = vec![("l".to_owned(), DataType::list(DataType::Int))];
        let definition = Arc::new(UserType::new("ks", "u", fields));
        let udt = DataType::Udt { definition, frozen: false };
        assert_eq!(udt.class_name(), full("UserType(ks,75,6c:FrozenType(ListType(Int32Type)))"));
        assert_eq!(udt.freeze().class_name(), full("FrozenType(UserType(ks,75,6c:ListType(Int32Type)))"));
    }

    #[test]
    fn elements_of_a_vector_are_wrapped_by_their_own_flags() {
        let list = DataType::list(DataType::Int);
        let vector = DataType::vector(list.clone(), 2);
        assert_eq!(vector.class_name(), full("VectorType(ListType(Int32Type) , 2)"));
        assert_eq!(vector.to_string(), "vector<list<int>, 2>");
        assert_eq!(vector.freeze(), vector);
        let in_list = DataType::list(vector);
        assert_eq!(in_list.class_name(), full("ListType(VectorType(ListType(Int32Type) , 2))"));
        let frozen = DataType::vector(list.freeze(), 2);
        assert_eq!(frozen.class_name(), full("VectorType(FrozenType(ListType(Int32Type)) , 2)"));
        assert_eq!(frozen.to_string(), "vector<frozen<list<int>>, 2>");
        // Cassandra freezes what it reads.
        assert_eq!(parse_class_name("VectorType(ListType(Int32Type) , 2)").unwrap().0, frozen);
    }

    #[test]
    fn every_simple_type_has_a_name() {
        for (name, data_type) in &SIMPLE {
            assert_eq!(data_type.class_name(), format!("{PACKAGE}{name}"));
        }
    }

    #[test]
    fn what_is_no_type_is_an_error_that_says_where() {
        for name in [
            "",
            "NoSuchType",
            "ListType",
            "ListType(",
            "ListType(Int32Type",
            "ListType(Int32Type,Int32Type)",
            "MapType(Int32Type)",
            "Int32Type)",
            "VectorType(FloatType , 0)",
            "VectorType(FloatType , 99999999999)",
            "UserType(ks,6)",
            "UserType(ks,61,é:Int32Type)",
            "ListType(ReversedType(Int32Type))",
        ] {
            assert!(parse_class_name(name).is_err(), "{name}");
        }
        let deep = "ListType(".repeat(100_000);
        assert!(parse_class_name(&deep).unwrap_err().reason.contains("nested more than"));
    }
}
