//! Builds values from the bytes of their elements, by the order and rules of their type.

use cassette_rows::types::{DataType, collection, vector};

use super::ValueError;

/// The bytes of a list.
pub fn build_list(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    collection::write_list(&mut bytes, elements.iter().map(Vec::as_slice));
    bytes
}

/// The bytes of a set: the elements in the order of their type, each once.
pub fn build_set(element: &DataType, mut elements: Vec<Vec<u8>>) -> Vec<u8> {
    elements.sort_by(|a, b| element.compare(a, b));
    elements.dedup_by(|b, a| element.compare(a, b).is_eq());
    build_list(&elements)
}

/// Returns the bytes of a map: the entries in the order of their keys; of equal keys, the last
/// entry wins.
pub fn build_map(key: &DataType, mut entries: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    entries.sort_by(|(a, _), (b, _)| key.compare(a, b));
    entries.dedup_by(|later, earlier| {
        let same = key.compare(&earlier.0, &later.0).is_eq();
        if same {
            std::mem::swap(&mut earlier.1, &mut later.1);
        }
        same
    });
    let mut bytes = Vec::new();
    collection::write_map(&mut bytes, entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
    bytes
}

/// The bytes of a tuple or UDT: one item per item of the type.
pub fn build_tuple(items: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    collection::write_tuple(&mut bytes, items.iter().map(Option::as_deref));
    bytes
}

/// Returns the bytes of a vector of the type `vector<element, dimension>`; the number of elements
/// must match, and their width if it is fixed: an empty `int` cannot be in a vector.
pub fn build_vector(element: &DataType, dimension: u32, elements: &[Vec<u8>]) -> Result<Vec<u8>, ValueError> {
    if elements.len() != dimension as usize {
        return Err(ValueError::invalid(format!(
            "Invalid vector literal: expected {dimension} elements but given {}",
            elements.len()
        )));
    }
    let mut bytes = Vec::new();
    for item in elements {
        if element.fixed_width().is_some_and(|width| width != item.len()) {
            return Err(ValueError::invalid(format!(
                "Invalid vector literal: a value of {} bytes is no {element} that a vector can hold",
                item.len()
            )));
        }
        vector::write_element(&mut bytes, element, item);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_maps_are_sorted_by_their_type_and_hold_each_key_once() {
        let int = |n: i32| n.to_be_bytes().to_vec();
        let set = build_set(&DataType::Int, vec![int(2), int(-1), int(2)]);
        assert_eq!(set, build_list(&[int(-1), int(2)]));
        let map = build_map(
            &DataType::Int,
            vec![(int(1), b"a".to_vec()), (int(-1), vec![]), (int(1), b"b".to_vec())],
        );
        let entries: Vec<_> = collection::read_map(&map).collect();
        assert_eq!(entries, [(&int(-1)[..], b"".as_slice()), (&int(1)[..], b"b")]);
    }
}
