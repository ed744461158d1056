//! What a statement does: catalog, planning, execution, conditions, system tables.
