//! The values that a query looks for in an index.

/// What a query looks for.
#[derive(Debug)]
pub(crate) enum Wanted<'e> {
    /// A value, of a column or of an element.
    Value(&'e [u8]),
    /// A map's entry.
    Entry(&'e [u8], &'e [u8]),
    /// The values between two, each with whether it is one of them.
    Range { lower: Option<(&'e [u8], bool)>, upper: Option<(&'e [u8], bool)> },
}
