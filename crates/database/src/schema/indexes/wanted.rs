//! The values that a query searches in an index.

use super::LikeKind;

/// A search in an index.
#[derive(Debug)]
pub(crate) enum Wanted<'e> {
    /// A value of a column or of an element.
    Value(&'e [u8]),
    /// A map's entry.
    Entry(&'e [u8], &'e [u8]),
    /// The values with a term that fits one of these.
    Like { kind: LikeKind, terms: &'e [Vec<u8>] },
    /// The values between two bounds, each with whether it is inclusive.
    Range { lower: Option<(&'e [u8], bool)>, upper: Option<(&'e [u8], bool)> },
}
