//! Types of old schemas that have no name in CQL: columns have them by class name.
//!
//! ```text
//! LexicalUUIDType        16 bytes
//! CompositeType(…)       [u16 0xffff: of a static column] then for each component, from the first:
//!                        u16 length, value, i8 end
//! DynamicCompositeType(a=>…)
//!                        for each component: u16 0x8000 | alias, or u16 length, class name;
//!                        then as above
//! ```
//! The end of a component is 0. Bounds of searches have -1 or 1, which nothing can follow.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{DataType, InvalidValue, parse_class_name};

/// Marks a component type that is an alias.
const ALIAS: u16 = 0x8000;
/// The first bytes of a composite of a static column.
const STATIC: [u8; 2] = [0xff, 0xff];

/// A type without a name in CQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CustomType {
    /// `LexicalUUIDType`: a UUID in the order of two signed numbers.
    LexicalUuid,
    /// `CompositeType`: values of the first of these types.
    Composite(Box<[DataType]>),
    /// `DynamicCompositeType`: values of any types, each with its alias or class name.
    DynamicComposite(Box<[Alias]>),
}

/// A type that values of a `DynamicCompositeType` can name by one character. Aliases are in the
/// order in which Cassandra writes them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Alias {
    /// The ASCII character.
    pub name: u8,
    /// The type, without `ReversedType`.
    pub data_type: DataType,
    /// Whether the order is reversed.
    pub reversed: bool,
}

/// A component of a composite.
#[derive(Debug, Clone)]
pub struct Component<'v> {
    /// The alias or the class name, of a dynamic composite.
    pub named: Option<&'v [u8]>,
    /// The type, without `ReversedType`.
    pub data_type: Cow<'v, DataType>,
    /// Whether the order is reversed.
    pub reversed: bool,
    /// The value.
    pub value: &'v [u8],
    /// The end of the component.
    pub end: i8,
}

/// The components of a value, until the first that is malformed.
#[derive(Debug, Clone)]
pub struct Components<'v> {
    of: &'v CustomType,
    index: usize,
    rest: &'v [u8],
}

impl CustomType {
    /// Returns the components of a composite; none of a UUID.
    pub fn components<'v>(&'v self, bytes: &'v [u8]) -> Components<'v> {
        let rest: &[u8] = match self {
            Self::LexicalUuid => &[],
            Self::Composite(_) => bytes.strip_prefix(&STATIC).unwrap_or(bytes),
            Self::DynamicComposite(_) => bytes,
        };
        Components { of: self, index: 0, rest }
    }

    /// Returns the type that a dynamic composite calls `name`: an alias, or the class name of a
    /// native type, maybe within `ReversedType`.
    pub fn component_type(&self, name: &str) -> Option<(Cow<'_, DataType>, bool)> {
        if let ([alias], Self::DynamicComposite(aliases)) = (name.as_bytes(), self)
            && let Some(found) = aliases.iter().find(|candidate| candidate.name == *alias)
        {
            return Some((Cow::Borrowed(&found.data_type), found.reversed));
        }
        named_type(name)
    }

    pub(super) fn validate(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        if *self == Self::LexicalUuid {
            return match bytes.len() {
                0 | 16 => Ok(()),
                len => Err(InvalidValue(format!("UUID should be 16 or 0 bytes ({len})"))),
            };
        }
        let mut components = self.components(bytes);
        while !components.rest.is_empty() {
            let index = components.index;
            let component = components.read()?;
            component.data_type.validate(component.value)?;
            if component.end != 0 && !components.rest.is_empty() {
                return Err(InvalidValue(format!(
                    "Invalid bytes remaining after an end-of-component at component{index}"
                )));
            }
        }
        Ok(())
    }

    /// Compares values in Cassandra's order, which is made total: a malformed component sorts
    /// before all others at its position.
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if *self == Self::LexicalUuid {
            return compare_lexical(a, b);
        }
        if let Self::Composite(_) = self {
            let is_static = |bytes: &[u8]| bytes.starts_with(&STATIC);
            match is_static(b).cmp(&is_static(a)) {
                Ordering::Equal => {}
                // An empty value sorts before all others.
                _ if a.is_empty() || b.is_empty() => return a.len().cmp(&b.len()),
                order => return order,
            }
        }
        let (mut a, mut b) = (self.components(a), self.components(b));
        loop {
            if a.rest.is_empty() || b.rest.is_empty() {
                return a.rest.len().min(1).cmp(&b.rest.len().min(1));
            }
            let order = match (a.read(), b.read()) {
                (Ok(a), Ok(b)) => a.compare(&b),
                (Err(_), Err(_)) => return a.rest.cmp(b.rest),
                (a, b) => a.is_ok().cmp(&b.is_ok()),
            };
            if order.is_ne() {
                return order;
            }
        }
    }
}

impl<'v> Components<'v> {
    /// Reads the next component.
    fn read(&mut self) -> Result<Component<'v>, InvalidValue> {
        let index = self.index;
        let short = |what: &str| InvalidValue(format!("Not enough bytes to {what} {index}"));
        let mut rest = self.rest;
        let (named, data_type, reversed) = match self.of {
            CustomType::LexicalUuid => return Err(InvalidValue("a UUID has no components".to_owned())),
            CustomType::Composite(types) => match types.get(index) {
                Some(data_type) => (None, Cow::Borrowed(data_type), false),
                None => return Err(InvalidValue("Too many bytes for comparator".to_owned())),
            },
            CustomType::DynamicComposite(_) => {
                let what = "header of the comparator part of component";
                let header = read_short(&mut rest).ok_or_else(|| short(what))?;
                let name = if header & ALIAS == 0 {
                    let what = "read comparator name of component";
                    split(&mut rest, header).ok_or_else(|| short(what))?
                } else {
                    // The alias is the second byte of the header.
                    self.rest.get(1..2).unwrap_or_default()
                };
                let text = std::str::from_utf8(name).ok();
                let found = match self.of {
                    of if header & ALIAS != 0 => text.and_then(|name| of.component_type(name)),
                    _ => text.and_then(named_type),
                };
                let (data_type, reversed) = found
                    .ok_or_else(|| InvalidValue(format!("Cannot find comparator for component {index}")))?;
                (Some(name), data_type, reversed)
            }
        };
        let length = read_short(&mut rest).ok_or_else(|| short("read value size of component"))?;
        let value = split(&mut rest, length).ok_or_else(|| short("read value of component"))?;
        let Some((end, rest)) = rest.split_first() else {
            return Err(InvalidValue(format!(
                "Not enough bytes to read the end-of-component byte of component{index}"
            )));
        };
        self.rest = rest;
        self.index += 1;
        Ok(Component { named, data_type, reversed, value, end: *end as i8 })
    }
}

impl<'v> Iterator for Components<'v> {
    type Item = Component<'v>;

    fn next(&mut self) -> Option<Component<'v>> {
        if self.rest.is_empty() {
            return None;
        }
        self.read().ok()
    }
}

impl Component<'_> {
    /// Compares components of one position: those of different types by the names of their classes.
    fn compare(&self, other: &Self) -> Ordering {
        if self.reversed != other.reversed || self.data_type != other.data_type {
            let classes = |component: &Self| {
                let full = component.data_type.class_name();
                let class = full.split('(').next().unwrap_or_default();
                let simple = class.rsplit('.').next().unwrap_or_default().to_owned();
                (if component.reversed { "ReversedType".to_owned() } else { simple.clone() }, simple, full)
            };
            let order = classes(self).cmp(&classes(other));
            if order.is_ne() {
                return order;
            }
        }
        let order = self.data_type.compare(self.value, other.value);
        let order = if self.reversed { order.reverse() } else { order };
        order.then_with(|| self.end.cmp(&other.end))
    }
}

/// Returns the type of a class name in a value: types with parts are not permitted there, so that
/// reading a value does not recurse.
fn named_type(name: &str) -> Option<(Cow<'static, DataType>, bool)> {
    let is_reversed = name.contains("ReversedType(");
    if !is_reversed && name.contains('(') {
        return None;
    }
    let (data_type, reversed) = parse_class_name(name).ok()?;
    let is_simple = !matches!(
        data_type,
        DataType::List { .. }
            | DataType::Set { .. }
            | DataType::Map { .. }
            | DataType::Tuple(_)
            | DataType::Udt { .. }
            | DataType::Vector { .. }
            | DataType::Custom(_)
    );
    is_simple.then_some((Cow::Owned(data_type), reversed))
}

/// By the high half, then by the low half, both signed. Values of other lengths sort first.
fn compare_lexical(a: &[u8], b: &[u8]) -> Ordering {
    let halves = |bytes: &[u8]| {
        let uuid = u128::from_be_bytes(<[u8; 16]>::try_from(bytes).ok()?);
        Some(((uuid >> 64) as i64, uuid as i64))
    };
    match (halves(a), halves(b)) {
        (None, None) => a.cmp(b),
        (a, b) => a.cmp(&b),
    }
}

fn read_short(bytes: &mut &[u8]) -> Option<u16> {
    let (short, rest) = bytes.split_first_chunk::<2>()?;
    *bytes = rest;
    Some(u16::from_be_bytes(*short))
}

fn split<'v>(bytes: &mut &'v [u8], length: u16) -> Option<&'v [u8]> {
    let (found, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(found)
}

/// Appends a component as [`Components`] reads it; `name` is the alias or class name of a dynamic
/// composite's component, with whether it is an alias.
pub fn write_component(out: &mut Vec<u8>, name: Option<(&[u8], bool)>, value: &[u8], end: i8) {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
    match name {
        None => {}
        Some((alias, true)) => out.extend_from_slice(&[0x80, alias.first().copied().unwrap_or_default()]),
        Some((class, false)) => {
            out.extend_from_slice(&length(class));
            out.extend_from_slice(class);
        }
    }
    out.extend_from_slice(&length(value));
    out.extend_from_slice(value);
    out.push(end as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composite() -> DataType {
        parse_class_name("CompositeType(Int32Type,UTF8Type)").unwrap().0
    }

    fn dynamic() -> DataType {
        parse_class_name("DynamicCompositeType(i=>Int32Type,r=>ReversedType(Int32Type),s=>UTF8Type)")
            .unwrap()
            .0
    }

    fn pair(number: i32, text: &str, end: i8) -> Vec<u8> {
        let mut out = Vec::new();
        write_component(&mut out, None, &number.to_be_bytes(), 0);
        write_component(&mut out, None, text.as_bytes(), end);
        out
    }

    #[test]
    fn names_of_custom_types_are_written_as_they_are_read() {
        let package = "org.apache.cassandra.db.marshal.";
        for name in [
            format!("{package}LexicalUUIDType"),
            format!("{package}CompositeType({package}Int32Type,{package}UTF8Type)"),
            format!(
                "{package}DynamicCompositeType(a=>{package}Int32Type,s=>{package}ReversedType({package}UTF8Type))"
            ),
        ] {
            let data_type = parse_class_name(&name).unwrap().0;
            assert_eq!(data_type.class_name(), name);
            assert_eq!(data_type.to_string(), format!("'{name}'"));
        }
        for name in
            ["CompositeType()", "DynamicCompositeType(ii=>Int32Type)", "DynamicCompositeType(i>Int32Type)"]
        {
            assert!(parse_class_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn composites_are_ordered_by_their_components() {
        let values = [
            Vec::new(),
            [&STATIC[..], &pair(9, "z", 0)].concat(),
            pair(-1, "b", 0),
            pair(1, "a", -1),
            pair(1, "a", 0),
            pair(1, "a", 1),
            pair(1, "b", 0),
            pair(2, "a", 0),
        ];
        let data_type = composite();
        for (i, a) in values.iter().enumerate() {
            data_type.validate(a).unwrap();
            for (j, b) in values.iter().enumerate() {
                assert_eq!(data_type.compare(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn components_of_dynamic_composites_name_their_types() {
        let one = |name: (&[u8], bool), value: &[u8]| {
            let mut out = Vec::new();
            write_component(&mut out, Some(name), value, 0);
            out
        };
        let values = [
            one((b"i", true), &1_i32.to_be_bytes()),
            one((b"Int32Type", false), &2_i32.to_be_bytes()),
            one((b"r", true), &5_i32.to_be_bytes()),
            one((b"ReversedType(Int32Type)", false), &4_i32.to_be_bytes()),
            one((b"s", true), b"a"),
        ];
        let data_type = dynamic();
        for (i, a) in values.iter().enumerate() {
            data_type.validate(a).unwrap();
            for (j, b) in values.iter().enumerate() {
                assert_eq!(data_type.compare(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        let reason = |bytes: &[u8]| data_type.validate(bytes).unwrap_err().0;
        assert_eq!(reason(&one((b"x", true), b"")), "Cannot find comparator for component 0");
        assert_eq!(
            reason(&one((b"ListType(Int32Type)", false), b"")),
            "Cannot find comparator for component 0"
        );
        assert_eq!(reason(&[0x80]), "Not enough bytes to header of the comparator part of component 0");
    }

    #[test]
    fn malformed_composites_are_refused_and_have_an_order() {
        let data_type = composite();
        let whole = pair(1, "a", 0);
        for length in 1..whole.len() {
            // A composite may lack its last components.
            assert_eq!(data_type.validate(&whole[..length]).is_ok(), length == 7, "{length}");
        }
        assert!(data_type.validate(&[&whole[..], &whole].concat()).is_err());
        assert!(data_type.validate(&[0, 1, 5, 0]).is_err());
        for a in 0..whole.len() {
            for b in 0..whole.len() {
                let (a, b) = (&whole[..a], &whole[..b]);
                assert_eq!(data_type.compare(a, b), data_type.compare(b, a).reverse());
            }
        }
    }

    #[test]
    fn lexical_uuids_are_ordered_as_signed_numbers() {
        let data_type = parse_class_name("LexicalUUIDType").unwrap().0;
        let negative = [0xff; 16];
        let zero = [0; 16];
        assert_eq!(data_type.compare(&negative, &zero), Ordering::Less);
        assert_eq!(data_type.compare(&[], &negative), Ordering::Less);
        assert!(data_type.validate(&[1]).is_err());
    }
}
