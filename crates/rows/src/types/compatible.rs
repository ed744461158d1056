//! Whether data stored as one type can be read as another, after `AbstractType.isCompatibleWith`
//! and `isValueCompatibleWith` of Cassandra 5.0.8.
//!
//! Two answers differ. Cassandra's relation of values is not transitive (`time` accepts `bigint`,
//! which accepts `timestamp`): here it is, for columns that were dropped and added again more than
//! once. And user types are compared by name and by their fields' types, not by keyspace: a table
//! can be restored into a keyspace of another name.

use super::DataType;

/// The required compatibility.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    /// Values and their order.
    Order,
    /// Values alone.
    Values,
}

impl DataType {
    /// Returns whether values of type `previous` are values of this type with the same order: the
    /// requirement for keys, elements of sets and keys of maps.
    pub fn is_compatible_with(&self, previous: &Self) -> bool {
        fits(self, previous, Of::Order)
    }

    /// Returns whether values of type `previous` are values of this type, in whatever order.
    pub fn is_value_compatible_with(&self, previous: &Self) -> bool {
        fits(self, previous, Of::Values)
    }
}

/// Ignores the flags `frozen`: the caller distinguishes a column with one cell from one with many.
fn fits(now: &DataType, previous: &DataType, of: Of) -> bool {
    use DataType::*;
    match (now, previous) {
        (List { element, .. }, List { element: before, .. }) => fits(element, before, of),
        (Set { element, .. }, Set { element: before, .. }) => fits(element, before, Of::Order),
        (Map { key, value, .. }, Map { key: key_before, value: value_before, .. }) => {
            fits(key, key_before, Of::Order) && fits(value, value_before, of)
        }
        // The elements are adjacent, each with the width of its type.
        (Vector { element, dimension }, Vector { element: before, dimension: dimension_before }) => {
            dimension == dimension_before
                && element.fixed_width() == before.fixed_width()
                && fits(element, before, of)
        }
        (Udt { definition: now, .. }, Udt { definition: before, .. }) => {
            now.name == before.name && extends(fields(now), fields(before), Of::Order)
        }
        // A dropped column keeps no user types: they became tuples.
        (Udt { definition, .. }, Tuple(before)) => extends(fields(definition), before.iter(), of),
        (Tuple(now), Udt { definition, .. }) => extends(now.iter(), fields(definition), of),
        (Tuple(now), Tuple(before)) => extends(now.iter(), before.iter(), of),
        (Text, Ascii) | (Blob, Ascii | Text) => true,
        // Their bytes have no meaning as a blob.
        (Blob, Counter | List { .. } | Set { .. } | Map { .. } | Udt { .. }) => false,
        (Blob, _)
        | (Timestamp, BigInt)
        | (BigInt, Timestamp)
        | (Time, BigInt | Timestamp)
        | (Date, Int)
        | (Uuid, TimeUuid)
        | (VarInt, Int | BigInt | Timestamp)
            if of == Of::Values =>
        {
            true
        }
        _ => now == previous,
    }
}

fn fields(definition: &super::UserType) -> impl ExactSizeIterator<Item = &DataType> {
    definition.fields.iter().map(|(_, field)| field)
}

/// Returns whether the previous components are the first of the present ones.
fn extends<'a>(
    now: impl ExactSizeIterator<Item = &'a DataType>,
    before: impl ExactSizeIterator<Item = &'a DataType>,
    of: Of,
) -> bool {
    now.len() >= before.len() && now.zip(before).all(|(now, before)| fits(now, before, of))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::UserType;
    use super::*;

    fn udt(keyspace: &str, name: &str, fields: &[DataType]) -> DataType {
        let fields = fields.iter().map(|field| ("f".to_owned(), field.clone())).collect();
        let definition = Arc::new(UserType::new(keyspace, name, fields));
        DataType::Udt { definition, frozen: true }
    }

    #[test]
    fn values_are_read_as_types_that_have_them_all() {
        use DataType::*;
        for (now, before, order) in [
            (Int, Int, true),
            (Text, Ascii, true),
            (Blob, Text, true),
            (Blob, Int, false),
            (Blob, DataType::tuple([Int]), false),
            (VarInt, Int, false),
            (VarInt, BigInt, false),
            (Timestamp, BigInt, false),
            (BigInt, Timestamp, false),
            (Time, BigInt, false),
            (Date, Int, false),
            (Uuid, TimeUuid, false),
            (DataType::tuple([Int, Text]), DataType::tuple([Int]), true),
            (DataType::tuple([Uuid]), DataType::tuple([TimeUuid]), false),
            (DataType::list(Text), DataType::list(Ascii).freeze(), true),
            (DataType::list(Uuid), DataType::list(TimeUuid), false),
            (DataType::map(Int, Uuid), DataType::map(Int, TimeUuid), false),
            (DataType::set(Text), DataType::set(Ascii), true),
            (DataType::vector(BigInt, 2), DataType::vector(Timestamp, 2), false),
            (udt("ks", "u", &[Int, Text]), udt("other", "u", &[Int]), true),
            (udt("ks", "u", &[Int, Text]), DataType::tuple([Int]), true),
            (DataType::tuple([Int, Text]), udt("ks", "u", &[Int]), true),
        ] {
            assert!(now.is_value_compatible_with(&before), "{now} of {before}");
            assert_eq!(now.is_compatible_with(&before), order, "{now} of {before}");
        }
    }

    #[test]
    fn nothing_else_is() {
        use DataType::*;
        for (now, before) in [
            (Int, Text),
            (Int, BigInt),
            (Float, Int),
            (Text, Int),
            (Text, Blob),
            (VarInt, Text),
            (Decimal, Text),
            (TimeUuid, Uuid),
            (BigInt, Counter),
            (Counter, BigInt),
            (Blob, Counter),
            (Blob, DataType::list(Int)),
            (DataType::list(Text), DataType::list(Int)),
            (DataType::set(Int), DataType::list(Int)),
            (DataType::set(Uuid), DataType::set(TimeUuid)),
            (DataType::map(Text, Int), DataType::map(Int, Text)),
            (DataType::map(Uuid, Int), DataType::map(TimeUuid, Int)),
            (DataType::tuple([Int]), DataType::tuple([Int, Int])),
            (DataType::vector(Int, 2), DataType::vector(Int, 3)),
            (DataType::vector(VarInt, 2), DataType::vector(Int, 2)),
            (udt("ks", "u", &[Int]), udt("ks", "w", &[Int])),
            (udt("ks", "u", &[Int]), udt("ks", "u", &[Text])),
            (udt("ks", "u", &[Int]), udt("ks", "u", &[Int, Int])),
        ] {
            assert!(!now.is_value_compatible_with(&before), "{now} of {before}");
            assert!(!now.is_compatible_with(&before), "{now} of {before}");
        }
    }
}
