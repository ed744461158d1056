//! A rule as a user writes it: the columns of `system_testing.cassette_faults`.

/// A value of a column of a rule.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are CQL's types")]
pub enum FaultValue {
    Text(String),
    Int(i32),
    Double(f64),
    Boolean(bool),
}

/// The type of a column of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultColumnType {
    Text,
    Int,
    Double,
    Boolean,
}

impl FaultColumnType {
    /// Returns the name in CQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "int",
            Self::Double => "double",
            Self::Boolean => "boolean",
        }
    }
}

/// Declares the columns of a rule, in their order, with their contracts.
macro_rules! columns {
    ($($(#[$doc:meta])+ $name:ident: $variant:ident($type:ty),)+) => {
        /// A rule as written. Columns that are not set have defaults.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct FaultRule {
            /// The key: another rule with the same id is replaced.
            pub id: String,
            $($(#[$doc])+ pub $name: Option<$type>,)+
        }

        /// The names and types of the columns of a rule, without its id.
        pub(crate) const FAULT_COLUMNS: &[(&str, FaultColumnType)] =
            &[$((stringify!($name), FaultColumnType::$variant),)+];

        impl FaultRule {
            /// Returns the columns that are set.
            pub fn values(&self) -> Vec<(&'static str, FaultValue)> {
                let mut values = Vec::new();
                $(if let Some(value) = &self.$name {
                    values.push((stringify!($name), FaultValue::$variant(value.clone())));
                })+
                values
            }

            /// Sets or removes the value of a column. Returns whether there is a column with this
            /// name and type.
            pub fn set(&mut self, name: &str, value: Option<FaultValue>) -> bool {
                match (name, value) {
                    $((stringify!($name), None) => self.$name = None,
                    (stringify!($name), Some(FaultValue::$variant(value))) => self.$name = Some(value),)+
                    _ => return false,
                }
                true
            }
        }
    };
}

columns! {
    /// What happens: one of the names of [`EFFECTS`](super::EFFECTS).
    effect: Text(String),
    /// Matches requests with a statement like this: `%` stands for any characters, case and the
    /// amount of white space do not matter.
    statement: Text(String),
    /// Matches statements of this kind: one of the names of [`KINDS`](super::KINDS).
    kind: Text(String),
    /// Matches statements on this keyspace.
    keyspace_name: Text(String),
    /// Matches statements on a table with this name.
    table_name: Text(String),
    /// Matches requests from an address, or from those of a CIDR such as `10.0.0.0/8`.
    client: Text(String),
    /// Matches requests to the node with this address.
    node: Text(String),
    /// The fraction of matching requests that are affected; 1 by default.
    probability: Double(f64),
    /// How many requests are affected; no limit by default.
    times: Int(i32),
    /// How many matching requests pass before the first that is affected.
    skip: Int(i32),
    /// The delay of affected requests, milliseconds.
    delay_ms: Int(i32),
    /// Whether the statement is executed before it fails; false by default.
    applied: Boolean(bool),
    /// The consistency level of the error; that of the request by default.
    consistency: Text(String),
    /// How many replicas have answered; one less than `required` by default.
    received: Int(i32),
    /// How many replicas the level needs; by default as many as with three replicas.
    required: Int(i32),
    /// How many replicas are alive; one less than `required` by default.
    alive: Int(i32),
    /// Whether the replica with the data has answered; false by default.
    data_present: Boolean(bool),
    /// How many replicas have failed; 1 by default.
    failures: Int(i32),
    /// The reason of their failure, a code of the native protocol; 0, unknown, by default.
    failure_code: Int(i32),
    /// The write type of the error; that of the statement by default.
    write_type: Text(String),
    /// The maximum number of rows of a page.
    page_size: Int(i32),
    /// The message of the error; similar to Cassandra's by default.
    message: Text(String),
}
