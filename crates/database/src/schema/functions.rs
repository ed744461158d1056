//! User-defined functions and aggregates of keyspaces.

use std::sync::Arc;

use cassette_cql::values::functions::{UserAggregate, UserFunction};
use cassette_rows::DataType;
use cassette_rows::types::UserType;

use crate::schema::catalog::Keyspace;

/// What distinguishes the functions and aggregates of a keyspace: the name, and the types of the
/// arguments in CQL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature {
    /// The name, in the case it is stored in.
    pub name: String,
    /// The types of the arguments.
    pub types: Vec<String>,
}

impl Signature {
    /// Returns the signature of a function with arguments of these types.
    pub fn new<'t>(name: &str, types: impl IntoIterator<Item = &'t DataType>) -> Self {
        Self { name: name.to_owned(), types: types.into_iter().map(DataType::to_string).collect() }
    }

    /// Returns that of a function.
    pub fn of(function: &UserFunction) -> Self {
        Self::new(&function.name, function.arguments.iter().map(|(_, data_type)| data_type))
    }

    /// Returns that of an aggregate.
    pub fn of_aggregate(aggregate: &UserAggregate) -> Self {
        Self::new(&aggregate.name, &aggregate.arguments)
    }
}

/// Returns the name of a function as the last part of a resource of permissions, as Cassandra
/// stores it: `f[org.apache.cassandra.db.marshal.Int32Type^…]`.
pub(crate) fn resource_name(name: &str, types: &[DataType]) -> String {
    let types: Vec<_> = types.iter().map(DataType::class_name).collect();
    format!("{name}[{}]", types.join("^"))
}

impl Keyspace {
    /// Returns the functions called `name`, with all signatures.
    pub fn functions_named<'k>(&'k self, name: &'k str) -> impl Iterator<Item = &'k Arc<UserFunction>> {
        self.functions.values().filter(move |function| function.name == name)
    }

    /// Returns the aggregates called `name`, with all signatures.
    pub fn aggregates_named<'k>(&'k self, name: &'k str) -> impl Iterator<Item = &'k Arc<UserAggregate>> {
        self.aggregates.values().filter(move |aggregate| aggregate.name == name)
    }

    /// Returns the aggregates that call `function`.
    pub(crate) fn aggregates_using<'k>(
        &'k self,
        function: &'k UserFunction,
    ) -> impl Iterator<Item = &'k Arc<UserAggregate>> {
        self.aggregates.values().filter(move |aggregate| aggregate.calls(function))
    }

    /// Adds a function, or replaces the one with its signature, also in aggregates.
    pub(crate) fn put_function(&mut self, function: &Arc<UserFunction>) {
        let old = self.functions.insert(Signature::of(function), function.clone());
        let Some(old) = old else { return };
        for aggregate in self.aggregates.values_mut().filter(|aggregate| aggregate.calls(&old)) {
            let replaced = |called: &Arc<UserFunction>| {
                if **called == *old { function.clone() } else { called.clone() }
            };
            *aggregate = Arc::new(UserAggregate {
                state_function: replaced(&aggregate.state_function),
                final_function: aggregate.final_function.as_ref().map(replaced),
                ..(**aggregate).clone()
            });
        }
    }

    /// Replaces the older version of an altered user-defined type in functions and aggregates.
    pub(crate) fn change_type_in_functions(&mut self, altered: &Arc<UserType>) {
        let with_type = |function: &Arc<UserFunction>| {
            if function.uses_type(&altered.name) {
                Arc::new(function.with_type(altered))
            } else {
                function.clone()
            }
        };
        for function in self.functions.values_mut() {
            *function = with_type(function);
        }
        for aggregate in self.aggregates.values_mut() {
            *aggregate = Arc::new(UserAggregate {
                arguments: aggregate.arguments.iter().map(|argument| argument.with_udt(altered)).collect(),
                state_function: with_type(&aggregate.state_function),
                final_function: aggregate.final_function.as_ref().map(with_type),
                ..(**aggregate).clone()
            });
        }
    }
}
