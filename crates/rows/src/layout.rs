//! How a table maps the rows of CQL to stored rows: as CQL does, or in a layout of COMPACT STORAGE.

/// The layout of a table's rows.
///
/// Cassandra's releases before CQL stored one cell for each clustering. Tables with COMPACT STORAGE
/// still do: they have one regular column and clustering columns, some of which statements cannot
/// name, and no [liveness](crate::LivenessInfo), so a row exists only by its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// Every column can be named, and an INSERT leaves a row with liveness.
    #[default]
    Cql,
    /// COMPACT STORAGE without clustering columns. The declared columns are stored as static ones;
    /// the clustering column `column1` and the regular column `value` are hidden.
    StaticCompact,
    /// COMPACT STORAGE with one clustering column. If no column besides the key is declared, there
    /// is a hidden one of type [`Empty`](crate::DataType::Empty).
    Dense,
    /// COMPACT STORAGE with several clustering columns, the last of which can be null. Otherwise as
    /// [`Dense`](Self::Dense).
    DenseCompound,
}

impl Layout {
    /// Returns whether this is a layout of COMPACT STORAGE.
    pub const fn is_compact(self) -> bool {
        !matches!(self, Self::Cql)
    }

    /// Returns the flags in `system_schema.tables`, besides `counter`.
    pub const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Cql => &["compound"],
            Self::StaticCompact => &[],
            Self::Dense => &["dense"],
            Self::DenseCompound => &["compound", "dense"],
        }
    }

    /// Returns the layout with these flags; `None` for super columns, which no version since 4.0
    /// reads.
    pub fn from_flags(has: impl Fn(&str) -> bool) -> Option<Self> {
        Some(match (has("super"), has("dense"), has("compound")) {
            (true, ..) => return None,
            (_, false, true) => Self::Cql,
            (_, false, false) => Self::StaticCompact,
            (_, true, false) => Self::Dense,
            (_, true, true) => Self::DenseCompound,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_layout_lead_back_to_it() {
        for layout in [Layout::Cql, Layout::StaticCompact, Layout::Dense, Layout::DenseCompound] {
            let flags = layout.flags();
            assert_eq!(Layout::from_flags(|flag| flags.contains(&flag)), Some(layout));
            assert_eq!(Layout::from_flags(|flag| flag == "super" || flags.contains(&flag)), None);
        }
    }
}
