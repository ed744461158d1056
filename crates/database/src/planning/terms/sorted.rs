//! Sorting of bound sets and maps, whose elements clients may send in any order and repeatedly.

use std::borrow::Cow;

use cassette_rows::DataType;
use cassette_rows::types::collection;

use super::bind::assemble_elements;
use crate::basics::error::Result;

/// Returns a valid value of a type with its sets and maps sorted and without repeated keys; the
/// last of equal keys wins. Borrowed if the value is already sorted.
///
/// As in Cassandra, the contents of tuples, UDTs and vectors are not sorted.
pub(crate) fn sorted<'a>(data_type: &DataType, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    if is_sorted(data_type, bytes) {
        return Ok(Cow::Borrowed(bytes));
    }
    let items = collection::read_list(bytes).flatten();
    let parts: Vec<Cow<'a, [u8]>> = match data_type {
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            items.map(|item| sorted(element, item)).collect::<Result<_>>()?
        }
        DataType::Map { key, value, .. } => collection::read_map(bytes)
            .flat_map(|(k, v)| [sorted(key, k), sorted(value, v)])
            .collect::<Result<_>>()?,
        _ => return Ok(Cow::Borrowed(bytes)),
    };
    Ok(Cow::Owned(assemble_elements(data_type, parts.iter().map(|part| Some(&**part)).collect())?))
}

fn is_sorted(data_type: &DataType, bytes: &[u8]) -> bool {
    match data_type {
        DataType::List { element, .. } => {
            !holds_keys(element)
                || collection::read_list(bytes).flatten().all(|item| is_sorted(element, item))
        }
        DataType::Set { element, .. } => {
            let elements = || collection::read_list(bytes).flatten();
            (!holds_keys(element) || elements().all(|item| is_sorted(element, item)))
                && elements().is_sorted_by(|a, b| element.compare(a, b).is_lt())
        }
        DataType::Map { key, value, .. } => {
            let entries = || collection::read_map(bytes);
            (!holds_keys(key) || entries().all(|(k, _)| is_sorted(key, k)))
                && (!holds_keys(value) || entries().all(|(_, v)| is_sorted(value, v)))
                && entries().is_sorted_by(|(a, _), (b, _)| key.compare(a, b).is_lt())
        }
        _ => true,
    }
}

/// Whether values of the type can be out of order.
fn holds_keys(data_type: &DataType) -> bool {
    match data_type {
        DataType::Set { .. } | DataType::Map { .. } => true,
        DataType::List { element, .. } => holds_keys(element),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        collection::write_list(&mut bytes, parts.iter().copied());
        bytes
    }

    fn ints(numbers: &[i32]) -> Vec<u8> {
        let numbers: Vec<[u8; 4]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
        list(&numbers.iter().map(|number| &number[..]).collect::<Vec<_>>())
    }

    fn map(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        collection::write_map(&mut bytes, entries.iter().copied());
        bytes
    }

    #[test]
    fn sets_and_maps_in_order_are_not_copied() {
        let set = DataType::set(DataType::Int);
        let nested = DataType::list(DataType::map(DataType::Int, set.clone()));
        let one_two = ints(&[-1, 2]);
        let map = map(&[(&[0, 0, 0, 1], &one_two), (&[0, 0, 0, 2], &ints(&[]))]);
        for (data_type, bytes) in
            [(&set, one_two.clone()), (&nested, list(&[&map, &map])), (&DataType::Int, vec![])]
        {
            assert!(matches!(sorted(data_type, &bytes), Ok(Cow::Borrowed(same)) if same == bytes));
        }
    }

    #[test]
    fn sets_and_maps_are_sorted_by_their_type_wherever_a_collection_holds_them() {
        let set = DataType::set(DataType::Int);
        assert_eq!(*sorted(&set, &ints(&[1, -1, 1])).unwrap(), ints(&[-1, 1]));
        assert_eq!(*sorted(&set, &ints(&[1, 1])).unwrap(), ints(&[1]));

        let list_of_sets = DataType::list(set.clone());
        let sent = list(&[&ints(&[2, 1]), &ints(&[1, 2]), &ints(&[0])]);
        let kept = list(&[&ints(&[1, 2]), &ints(&[1, 2]), &ints(&[0])]);
        assert_eq!(*sorted(&list_of_sets, &sent).unwrap(), kept);

        // Elements that differ only in the order of their contents are equal.
        let set_of_sets = DataType::set(set.clone());
        assert_eq!(*sorted(&set_of_sets, &sent).unwrap(), list(&[&ints(&[0]), &ints(&[1, 2])]));

        let map_of_sets = DataType::map(DataType::Int, set);
        let (one, two): (&[u8], &[u8]) = (&[0, 0, 0, 1], &[0, 0, 0, 2]);
        let sent = map(&[(two, &ints(&[7, 6])), (one, &ints(&[3])), (two, &ints(&[9, 8]))]);
        let kept = map(&[(one, &ints(&[3])), (two, &ints(&[8, 9]))]);
        assert_eq!(*sorted(&map_of_sets, &sent).unwrap(), kept);
    }

    #[test]
    fn sets_in_tuples_stay_as_they_were_sent() {
        let tuple = DataType::tuple([DataType::set(DataType::Int)]);
        let mut sent = Vec::new();
        collection::write_tuple(&mut sent, [Some(&ints(&[2, 1])[..])]);
        assert_eq!(*sorted(&tuple, &sent).unwrap(), sent);
        let list_of_tuples = list(&[&sent]);
        assert_eq!(*sorted(&DataType::list(tuple), &list_of_tuples).unwrap(), list_of_tuples);
    }
}
