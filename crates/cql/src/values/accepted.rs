//! The types whose values another type accepts, by the rules of Cassandra's `AbstractType`.

use cassette_rows::types::{DataType, UserType};

/// Returns whether the bytes of every value of type `given` are a value of type `wanted` as well,
/// and whether both are stored the same way: a frozen collection is not accepted by a non-frozen
/// one, nor the reverse.
pub fn accepts(wanted: &DataType, given: &DataType) -> bool {
    match (wanted, given) {
        (
            DataType::Udt { definition: wanted, frozen },
            DataType::Udt { definition: given, frozen: is_given_frozen },
        ) => {
            frozen == is_given_frozen
                && wanted.keyspace == given.keyspace
                && extends(fields(wanted), fields(given), orders_equally)
        }
        (DataType::Udt { .. }, _) => false,
        _ => accepts_bytes(wanted, given),
    }
}

/// [`accepts`] for elements of lists, where user-defined types are tuples.
fn accepts_bytes(wanted: &DataType, given: &DataType) -> bool {
    use DataType::*;
    match (wanted, given) {
        (Blob, _) => true,
        (List { frozen: true, .. }, List { frozen: false, .. }) => false,
        (Map { frozen: true, .. }, Map { frozen: false, .. }) => false,
        (List { element: wanted, frozen: true }, List { element: given, .. }) => accepts_bytes(wanted, given),
        (Map { key, value, frozen: true }, Map { key: given_key, value: given_value, .. }) => {
            orders_equally(key, given_key) && accepts(value, given_value)
        }
        (Tuple(_) | Udt { .. }, Tuple(_) | Udt { .. }) => extends(items(wanted), items(given), accepts),
        (BigInt, Timestamp)
        | (Timestamp | Time, BigInt)
        | (Date, Int)
        | (Uuid, TimeUuid)
        | (VarInt, Int | BigInt | Timestamp) => true,
        _ => orders_equally(wanted, given),
    }
}

/// Returns whether values of type `given` are values of type `wanted` in the same order, and stored
/// the same way.
fn orders_equally(wanted: &DataType, given: &DataType) -> bool {
    use DataType::*;
    match (wanted, given) {
        (Text, Ascii) | (Blob, Ascii | Text) => true,
        (List { element: wanted, frozen }, List { element: given, frozen: is_given_frozen }) => {
            let fits = if *frozen { orders_equally } else { accepts_cells };
            frozen == is_given_frozen && fits(wanted, given)
        }
        (Set { element: wanted, frozen }, Set { element: given, frozen: is_given_frozen }) => {
            frozen == is_given_frozen && orders_equally(wanted, given)
        }
        (Map { key, value, frozen }, Map { key: given_key, value: given_value, frozen: is_given_frozen }) => {
            let fits = if *frozen { orders_equally } else { accepts_cells };
            frozen == is_given_frozen && orders_equally(key, given_key) && fits(value, given_value)
        }
        (Tuple(_) | Udt { .. }, Tuple(_) | Udt { .. }) => {
            extends(items(wanted), items(given), orders_equally)
        }
        _ => wanted == given,
    }
}

/// Returns whether cells with values of type `given` can be read as cells of type `wanted`.
pub fn accepts_cells(wanted: &DataType, given: &DataType) -> bool {
    use DataType::*;
    let is_alike = match (wanted, given) {
        // The bytes of a collection have no meaning as a blob.
        (Blob, List { .. } | Set { .. } | Map { .. } | Udt { .. }) => false,
        (List { element: wanted, .. }, List { element: given, .. })
        | (Map { value: wanted, .. }, Map { value: given, .. }) => accepts_cells(wanted, given),
        _ => true,
    };
    is_alike
        && accepts(wanted, given)
        && wanted.fixed_width() == given.fixed_width()
        && wanted.is_multi_cell() == given.is_multi_cell()
}

fn fields(definition: &UserType) -> Vec<&DataType> {
    definition.fields.iter().map(|(_, data_type)| data_type).collect()
}

/// The types of the items of a tuple or user-defined type.
fn items(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::Tuple(items) => items.iter().collect(),
        DataType::Udt { definition, .. } => fields(definition),
        _ => Vec::new(),
    }
}

/// Returns whether the given items fit the first of the wanted ones.
fn extends(
    wanted: Vec<&DataType>,
    given: Vec<&DataType>,
    fits: impl Fn(&DataType, &DataType) -> bool,
) -> bool {
    given.len() <= wanted.len() && wanted.into_iter().zip(given).all(|(wanted, given)| fits(wanted, given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::*;

    #[test]
    fn types_accept_values_whose_bytes_they_can_read() {
        let tuple = |items: &[DataType]| DataType::tuple(items.iter().cloned());
        let list = |element: DataType| DataType::list(element).freeze();
        for (wanted, given) in [
            (Blob, DataType::list(Int)),
            (VarInt, Timestamp),
            (Text, Ascii),
            (list(VarInt), list(Int)),
            (DataType::map(Text, VarInt).freeze(), DataType::map(Ascii, BigInt).freeze()),
            (tuple(&[VarInt, Int]), tuple(&[Int])),
            (DataType::list(Blob), DataType::list(Text)),
            (DataType::set(Text), DataType::set(Ascii)),
        ] {
            assert!(accepts(&wanted, &given), "{wanted} of {given}");
        }
    }

    #[test]
    fn types_do_not_accept_other_bytes_orders_and_storage() {
        let list = DataType::list;
        for (wanted, given) in [
            (Ascii, Text),
            (Time, Timestamp),
            (list(Int), list(Int).freeze()),
            (list(Int).freeze(), list(Int)),
            // The cells of an `int` have no length.
            (list(VarInt), list(Int)),
            (DataType::set(VarInt).freeze(), DataType::set(Int).freeze()),
            (DataType::map(VarInt, Int).freeze(), DataType::map(Int, Int).freeze()),
            (DataType::vector(VarInt, 1), DataType::vector(Int, 1)),
            (DataType::tuple([Int]), DataType::tuple([Int, Int])),
            (list(Int), DataType::set(Int)),
        ] {
            assert!(!accepts(&wanted, &given), "{wanted} of {given}");
        }
    }
}
