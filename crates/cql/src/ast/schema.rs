//! CREATE, ALTER and DROP of keyspaces, tables, types, indexes, views, functions, aggregates and
//! triggers.

use super::identifiers::{Identifier, QualifiedName};
use super::relations::WhereClause;
use super::select::Direction;
use super::selectors::Selection;
use super::terms::{Literal, Term};
use super::types::CqlType;

/// The options after WITH, in the order written, without duplicate names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(pub Vec<(Identifier, PropertyValue)>);

impl Properties {
    /// The value of the option with this name.
    pub fn get(&self, name: &str) -> Option<&PropertyValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns whether there are no options.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&Identifier, &PropertyValue)> {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant, or a bare unreserved keyword (as a string with its original case).
    Simple(Literal),
    /// `{name: value, ...}`, in the order written, keys unique; both as the literals' bare text.
    Map(Vec<(Box<str>, Box<str>)>),
}

/// `CREATE KEYSPACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    pub name: Identifier,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ...`
    pub properties: Properties,
}

/// `ALTER KEYSPACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterKeyspace {
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ...`
    pub properties: Properties,
}

/// `DROP KEYSPACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropKeyspace {
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `DROP` of a table, type, index or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropElement {
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `CREATE TABLE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The columns in the order written. The catalog rejects duplicate names.
    pub columns: Vec<ColumnDefinition>,
    /// Every declared primary key, in order, by `PRIMARY KEY (...)` or beside a column. The catalog
    /// requires exactly one.
    pub primary_keys: Vec<PrimaryKey>,
    /// `WITH CLUSTERING ORDER BY (...)`
    pub clustering_order: Vec<(Identifier, Direction)>,
    /// `WITH COMPACT STORAGE`
    pub is_compact: bool,
    pub properties: Properties,
}

/// A column of a CREATE TABLE or ALTER TABLE ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: Identifier,
    /// Its type as written.
    pub column_type: CqlType,
    /// `STATIC`
    pub is_static: bool,
    /// `MASKED WITH ...`
    pub mask: Option<ColumnMask>,
}

/// A primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// The columns of the partition key; never empty.
    pub partition_key: Vec<Identifier>,
    /// The clustering columns.
    pub clustering: Vec<Identifier>,
}

/// `MASKED WITH function(arguments)`, or `MASKED WITH DEFAULT` (the function `mask_default`, no
/// arguments).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMask {
    /// The masking function.
    pub function: QualifiedName,
    /// The arguments after the column.
    pub arguments: Vec<Term>,
}

/// `ALTER TABLE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    pub name: QualifiedName,
    /// `IF EXISTS` after TABLE
    pub if_exists: bool,
    pub change: AlterTableChange,
}

/// The change of an ALTER TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTableChange {
    /// `ALTER column TYPE type`
    AlterType {
        column: Identifier,
        /// The new type.
        column_type: CqlType,
    },
    /// `ALTER [IF EXISTS] column MASKED WITH ...` or `... DROP MASKED`
    Mask {
        /// `IF EXISTS` before the column
        if_exists: bool,
        column: Identifier,
        /// The mask; `None` to drop it.
        mask: Option<ColumnMask>,
    },
    /// `ADD [IF NOT EXISTS] column type` or `ADD (...)`
    Add {
        /// `IF NOT EXISTS` before the columns
        if_not_exists: bool,
        /// The columns; never empty.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP [IF EXISTS] column [USING TIMESTAMP t]` or `DROP (...)`
    Drop {
        /// `IF EXISTS` before the columns
        if_exists: bool,
        /// The columns; never empty.
        columns: Vec<Identifier>,
        /// Microseconds since the epoch: cells written before are dropped.
        timestamp: Option<i64>,
    },
    /// `RENAME [IF EXISTS] a TO b AND ...`
    Rename {
        /// `IF EXISTS` before the columns
        if_exists: bool,
        /// Old and new names; never empty.
        columns: Vec<(Identifier, Identifier)>,
    },
    /// `DROP COMPACT STORAGE`
    DropCompactStorage,
    /// `WITH ...`
    Properties(Properties),
}

/// `CREATE TYPE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateType {
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Fields and their types, in order; never empty.
    pub fields: Vec<(Identifier, CqlType)>,
}

/// `ALTER TYPE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType {
    pub name: QualifiedName,
    /// `IF EXISTS` after TYPE
    pub if_exists: bool,
    pub change: AlterTypeChange,
}

/// The change of an ALTER TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTypeChange {
    /// `ALTER field TYPE type`
    AlterField {
        field: Identifier,
        /// The new type.
        field_type: CqlType,
    },
    /// `ADD [IF NOT EXISTS] field type`
    Add {
        /// `IF NOT EXISTS` before the field
        if_not_exists: bool,
        field: Identifier,
        field_type: CqlType,
    },
    /// `RENAME [IF EXISTS] a TO b AND ...`
    Rename {
        /// `IF EXISTS` before the fields
        if_exists: bool,
        /// Old and new names; never empty.
        fields: Vec<(Identifier, Identifier)>,
    },
}

/// `CREATE [CUSTOM] INDEX`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// `CUSTOM`
    pub custom: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `None` for a default name.
    pub name: Option<Identifier>,
    pub table: QualifiedName,
    /// The indexed columns; possibly none.
    pub targets: Vec<IndexTarget>,
    /// `USING 'class'`
    pub using: Option<Box<str>>,
    /// `WITH ...`
    pub properties: Properties,
}

/// An indexed column and the indexed part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    pub column: Identifier,
    pub kind: IndexTargetKind,
}

/// The indexed part of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexTargetKind {
    /// `(c)`: the value; of a collection, its values.
    Simple,
    /// `values(c)`
    Values,
    /// `keys(c)`
    Keys,
    /// `entries(c)`
    Entries,
    /// `full(c)`
    Full,
}

/// `CREATE MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateView {
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The selected expressions; empty for `*`.
    pub selections: Vec<Selection>,
    pub base_table: QualifiedName,
    /// `WHERE ...`
    pub where_clause: WhereClause,
    /// `PRIMARY KEY (...)`
    pub primary_key: PrimaryKey,
    /// `WITH CLUSTERING ORDER BY (...)`
    pub clustering_order: Vec<(Identifier, Direction)>,
    pub properties: Properties,
}

/// `ALTER MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ...`
    pub properties: Properties,
}

/// `CREATE FUNCTION`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateFunction {
    /// `OR REPLACE`
    pub or_replace: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    pub name: QualifiedName,
    /// Names and types of the arguments.
    pub arguments: Vec<(Identifier, CqlType)>,
    /// `CALLED ON NULL INPUT`; otherwise it `RETURNS NULL ON NULL INPUT`.
    pub called_on_null_input: bool,
    /// The type it returns.
    pub return_type: CqlType,
    /// The language's name, as written.
    pub language: Box<str>,
    /// The source text.
    pub body: Box<str>,
}

/// `CREATE AGGREGATE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAggregate {
    /// `OR REPLACE`
    pub or_replace: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    pub name: QualifiedName,
    /// The types of the arguments.
    pub arguments: Vec<CqlType>,
    /// `SFUNC`
    pub state_function: Identifier,
    /// `STYPE`
    pub state_type: CqlType,
    /// `FINALFUNC`
    pub final_function: Option<Identifier>,
    /// `INITCOND`
    pub initial_value: Option<Term>,
}

/// `DROP FUNCTION` or `DROP AGGREGATE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropFunction {
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The types of the arguments; `None` without a signature.
    pub arguments: Option<Vec<CqlType>>,
}

/// `CREATE TRIGGER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTrigger {
    pub name: Identifier,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    pub table: QualifiedName,
    /// `USING 'class'`
    pub class: Box<str>,
}

/// `DROP TRIGGER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTrigger {
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
    pub table: QualifiedName,
}
