//! Maps types to columns of a Parquet file, and shreds values into them.
//!
//! ```text
//! list, set, vector   optional group (LIST) { repeated group list { optional element } }
//! map                 optional group (MAP)  { repeated group key_value { required key; optional value } }
//! tuple               optional group { optional _1; optional _2; … }
//! UDT                 optional group { optional <field>; … }
//! others              one optional column
//! ```
//!
//! Each column without parts (a leaf) has, for every value, its definition level (the number of
//! present optional and repeated groups around it, including itself) and its repetition level (the
//! repeated group in which a new element begins).

use std::ops::Range;
use std::sync::Arc;

use anyhow::bail;
use cassette_rows::DataType;
use cassette_rows::types::collection::{read_list, read_map, read_tuple};
use cassette_rows::types::vector::read_vector;
use parquet::basic::{LogicalType, Repetition};
use parquet::schema::types::Type;

use super::leaf::Leaf;

/// The shredding of a column's values.
pub struct Shape {
    /// Whether it can be null, which is an additional level.
    optional: bool,
    /// The leaves below, or the only one.
    leaves: Range<usize>,
    parts: Parts,
}

enum Parts {
    Leaf,
    /// `repetition` is the level of its next element.
    List {
        data_type: DataType,
        element: Box<Shape>,
        repetition: i16,
    },
    Map {
        key: Box<Shape>,
        value: Box<Shape>,
        repetition: i16,
    },
    Fields(Vec<Shape>),
}

/// Creates a column of a file, and the shape of its values; adds its leaves to `leaves`.
pub fn of(name: &str, data_type: &DataType, leaves: &mut Vec<Leaf>) -> anyhow::Result<(Type, Shape)> {
    Builder { leaves }.build(name, data_type, true, 0)
}

struct Builder<'a> {
    leaves: &'a mut Vec<Leaf>,
}

impl Builder<'_> {
    /// `repetition` is the number of enclosing repeated groups.
    fn build(
        &mut self,
        name: &str,
        data_type: &DataType,
        optional: bool,
        repetition: i16,
    ) -> anyhow::Result<(Type, Shape)> {
        let presence = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let first = self.leaves.len();
        let group = |fields: Vec<Type>, logical: Option<LogicalType>| {
            Type::group_type_builder(name)
                .with_repetition(presence)
                .with_logical_type(logical)
                .with_fields(fields.into_iter().map(Arc::new).collect())
                .build()
        };
        let repeated = |name: &str, fields: Vec<Type>| {
            Type::group_type_builder(name)
                .with_repetition(Repetition::REPEATED)
                .with_fields(fields.into_iter().map(Arc::new).collect())
                .build()
        };
        let (field, parts) = match data_type {
            DataType::List { element, .. }
            | DataType::Set { element, .. }
            | DataType::Vector { element, .. } => {
                let repetition = repetition + 1;
                let (field, element) = self.build("element", element, true, repetition)?;
                let parts =
                    Parts::List { data_type: data_type.clone(), element: Box::new(element), repetition };
                (group(vec![repeated("list", vec![field])?], Some(LogicalType::List))?, parts)
            }
            DataType::Map { key, value, .. } => {
                let repetition = repetition + 1;
                let (key_field, key) = self.build("key", key, false, repetition)?;
                let (value_field, value) = self.build("value", value, true, repetition)?;
                let entries = repeated("key_value", vec![key_field, value_field])?;
                let parts = Parts::Map { key: Box::new(key), value: Box::new(value), repetition };
                (group(vec![entries], Some(LogicalType::Map))?, parts)
            }
            DataType::Tuple(types) => {
                let names = (1..=types.len()).map(|number| format!("_{number}"));
                let fields = self.fields(names.zip(types.iter()), repetition)?;
                (group(fields.0, None)?, Parts::Fields(fields.1))
            }
            DataType::Udt { definition, .. } => {
                let fields = definition.fields.iter().map(|(name, field)| (name.clone(), field));
                let fields = self.fields(fields, repetition)?;
                (group(fields.0, None)?, Parts::Fields(fields.1))
            }
            plain => {
                let leaf = Leaf::new(plain, repetition > 0);
                let field = leaf.column(name, presence)?;
                self.leaves.push(leaf);
                (field, Parts::Leaf)
            }
        };
        Ok((field, Shape { optional, leaves: first..self.leaves.len(), parts }))
    }

    fn fields<'t>(
        &mut self,
        fields: impl Iterator<Item = (String, &'t DataType)>,
        repetition: i16,
    ) -> anyhow::Result<(Vec<Type>, Vec<Shape>)> {
        let built = fields.map(|(name, data_type)| self.build(&name, data_type, true, repetition));
        Ok(built.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip())
    }
}

impl Shape {
    /// Adds a column's value, in the encoding of the native protocol, to its leaves.
    pub fn shred(&self, value: Option<&[u8]>, leaves: &mut [Leaf]) -> anyhow::Result<()> {
        self.add(value, leaves, 0, 0)
    }

    /// `repetition` is the level at which this value begins, `definition` the number of present
    /// levels around it.
    fn add(
        &self,
        value: Option<&[u8]>,
        leaves: &mut [Leaf],
        repetition: i16,
        definition: i16,
    ) -> anyhow::Result<()> {
        let Some(bytes) = value else { return self.add_null(leaves, repetition, definition) };
        let defined = definition + i16::from(self.optional);
        let mut begins = repetition;
        match &self.parts {
            Parts::Leaf => {
                let Some(leaf) = leaves.get_mut(self.leaves.start) else { return Ok(()) };
                if !leaf.push(bytes, repetition, defined)? {
                    return self.add_null(leaves, repetition, definition);
                }
                return Ok(());
            }
            Parts::List { data_type, element, repetition: next } => {
                let mut add = |item: Option<&[u8]>| {
                    let added = element.add(item, leaves, begins, defined + 1);
                    begins = *next;
                    added
                };
                let mut is_empty = true;
                match data_type {
                    DataType::Vector { element, dimension } => {
                        for item in read_vector(element, *dimension, bytes) {
                            is_empty = false;
                            add(Some(item))?;
                        }
                    }
                    _ => {
                        for item in read_list(bytes) {
                            is_empty = false;
                            add(item)?;
                        }
                    }
                }
                if !is_empty {
                    return Ok(());
                }
            }
            Parts::Map { key, value, repetition: next } => {
                let mut is_empty = true;
                for (entry_key, entry_value) in read_map(bytes) {
                    is_empty = false;
                    key.add(Some(entry_key), leaves, begins, defined + 1)?;
                    value.add(Some(entry_value), leaves, begins, defined + 1)?;
                    begins = *next;
                }
                if !is_empty {
                    return Ok(());
                }
            }
            Parts::Fields(fields) => {
                // Trailing items may be missing.
                let mut items = read_tuple(bytes);
                for field in fields {
                    field.add(items.next().flatten(), leaves, repetition, defined)?;
                }
                return Ok(());
            }
        }
        self.add_nothing(leaves, repetition, defined);
        Ok(())
    }

    fn add_null(&self, leaves: &mut [Leaf], repetition: i16, definition: i16) -> anyhow::Result<()> {
        if !self.optional {
            bail!("a map has an empty value as key, which Parquet cannot represent");
        }
        self.add_nothing(leaves, repetition, definition);
        Ok(())
    }

    /// Adds an absent value beyond a level to all leaves below.
    fn add_nothing(&self, leaves: &mut [Leaf], repetition: i16, definition: i16) {
        for leaf in leaves.get_mut(self.leaves.clone()).into_iter().flatten() {
            leaf.push_nothing(repetition, definition);
        }
    }
}
