//! CREATE, ALTER and DROP of keyspaces, tables, types, indexes, views, functions, aggregates and triggers.

use super::identifiers::{Identifier, QualifiedName};
use super::relations::WhereClause;
use super::select::Direction;
use super::selectors::Selection;
use super::terms::{Literal, Term};
use super::types::CqlType;

/// The options after WITH, in the order written; no name comes twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(pub Vec<(Identifier, PropertyValue)>);

impl Properties {
    /// The value of the option with this name.
    pub fn get(&self, name: &str) -> Option<&PropertyValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Whether no option was given.
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
    /// A constant, or a bare unreserved keyword (given as a string, as written).
    Simple(Literal),
    /// `{name: value, ...}`, in the order written, keys unique; both as the literals' bare text.
    Map(Vec<(Box<str>, Box<str>)>),
}

/// `CREATE KEYSPACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKeyspace {
    /// The keyspace.
    pub name: Identifier,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ...`
    pub properties: Properties,
}

/// `ALTER KEYSPACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterKeyspace {
    /// The keyspace.
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ...`
    pub properties: Properties,
}

/// `DROP KEYSPACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropKeyspace {
    /// The keyspace.
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `DROP` of a table, type, index or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropElement {
    /// What to drop.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// `CREATE TABLE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    /// The table.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The columns in the order written. A name may come twice: that is for the catalog to refuse.
    pub columns: Vec<ColumnDefinition>,
    /// Every primary key that was declared, in order, by `PRIMARY KEY (...)` or beside a column. A table needs
    /// exactly one; the catalog says so.
    pub primary_keys: Vec<PrimaryKey>,
    /// `WITH CLUSTERING ORDER BY (...)`
    pub clustering_order: Vec<(Identifier, Direction)>,
    /// The other options.
    pub properties: Properties,
}

/// A column of a CREATE TABLE or ALTER TABLE ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The column.
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

/// `MASKED WITH function(arguments)`, or `MASKED WITH DEFAULT` (the function `mask_default`, no arguments).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMask {
    /// The masking function.
    pub function: QualifiedName,
    /// Its arguments after the column itself.
    pub arguments: Vec<Term>,
}

/// `ALTER TABLE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// The table.
    pub name: QualifiedName,
    /// `IF EXISTS` after TABLE
    pub if_exists: bool,
    /// What to change.
    pub change: AlterTableChange,
}

/// What an ALTER TABLE changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTableChange {
    /// `ALTER column TYPE type`
    AlterType {
        /// The column.
        column: Identifier,
        /// The wanted type.
        column_type: CqlType,
    },
    /// `ALTER [IF EXISTS] column MASKED WITH ...` or `... DROP MASKED`
    Mask {
        /// `IF EXISTS` before the column
        if_exists: bool,
        /// The column.
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
        /// Microseconds since the epoch: cells written before are gone.
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
    /// The type.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Fields and their types, in order; never empty.
    pub fields: Vec<(Identifier, CqlType)>,
}

/// `ALTER TYPE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterType {
    /// The type.
    pub name: QualifiedName,
    /// `IF EXISTS` after TYPE
    pub if_exists: bool,
    /// What to change.
    pub change: AlterTypeChange,
}

/// What an ALTER TYPE changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterTypeChange {
    /// `ALTER field TYPE type`
    AlterField {
        /// The field.
        field: Identifier,
        /// The wanted type.
        field_type: CqlType,
    },
    /// `ADD [IF NOT EXISTS] field type`
    Add {
        /// `IF NOT EXISTS` before the field
        if_not_exists: bool,
        /// The field.
        field: Identifier,
        /// Its type.
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
    /// The index's name, if given.
    pub name: Option<Identifier>,
    /// The table.
    pub table: QualifiedName,
    /// What is indexed; possibly nothing.
    pub targets: Vec<IndexTarget>,
    /// `USING 'class'`
    pub using: Option<Box<str>>,
    /// `WITH ...`
    pub properties: Properties,
}

/// A column to index, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    /// The column.
    pub column: Identifier,
    /// Which part of a collection.
    pub kind: IndexTargetKind,
}

/// What of a column is indexed.
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
    /// The view.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The selected expressions; empty for `*`.
    pub selections: Vec<Selection>,
    /// The base table.
    pub base_table: QualifiedName,
    /// `WHERE ...`
    pub where_clause: WhereClause,
    /// `PRIMARY KEY (...)`
    pub primary_key: PrimaryKey,
    /// `WITH CLUSTERING ORDER BY (...)`
    pub clustering_order: Vec<(Identifier, Direction)>,
    /// The other options.
    pub properties: Properties,
}

/// `ALTER MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    /// The view.
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
    /// The function.
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
    /// The aggregate.
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
    /// What to drop.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The types of the arguments, if a signature was given.
    pub arguments: Option<Vec<CqlType>>,
}

/// `CREATE TRIGGER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTrigger {
    /// The trigger.
    pub name: Identifier,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The table.
    pub table: QualifiedName,
    /// `USING 'class'`
    pub class: Box<str>,
}

/// `DROP TRIGGER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTrigger {
    /// The trigger.
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The table.
    pub table: QualifiedName,
}
