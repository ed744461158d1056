//! CQL statements that create functions and aggregates.

use cassette_cql::values::functions::user::qualified_name;
use cassette_cql::values::functions::{UserAggregate, UserFunction};
use cassette_cql::values::to_literal;
use cassette_cql::{quote_identifier, quote_string};
use cassette_rows::DataType;

/// Returns `name(types)`.
pub(crate) fn signature_text(name: &str, types: &[DataType]) -> String {
    let types: Vec<String> = types.iter().map(type_text).collect();
    format!("{}({})", quote_identifier(name), types.join(", "))
}

/// Returns `CREATE FUNCTION …`.
pub(crate) fn create_function(function: &UserFunction) -> String {
    let argument = |(name, data_type): &(String, DataType)| {
        format!("{} {}", quote_identifier(name), type_text(data_type))
    };
    let arguments: Vec<String> = function.arguments.iter().map(argument).collect();
    // As in Cassandra, except where its text could not be executed.
    let body = if function.body.contains("$$") {
        quote_string(&function.body)
    } else {
        format!("$${}$$", function.body)
    };
    format!(
        "CREATE FUNCTION {}({})\n    {} ON NULL INPUT\n    RETURNS {}\n    LANGUAGE {}\n    AS {body};",
        qualified_name(&function.keyspace, &function.name),
        arguments.join(", "),
        if function.called_on_null_input { "CALLED" } else { "RETURNS NULL" },
        type_text(&function.returns),
        function.language
    )
}

/// Returns `CREATE AGGREGATE …`.
pub(crate) fn create_aggregate(aggregate: &UserAggregate) -> String {
    let types: Vec<String> = aggregate.arguments.iter().map(type_text).collect();
    let state_type = aggregate.state_type();
    let mut out = format!(
        "CREATE AGGREGATE {}({})\n    SFUNC {}\n    STYPE {}",
        qualified_name(&aggregate.keyspace, &aggregate.name),
        types.join(", "),
        quote_identifier(&aggregate.state_function.name),
        type_text(state_type)
    );
    if let Some(function) = &aggregate.final_function {
        out += &format!("\n    FINALFUNC {}", quote_identifier(&function.name));
    }
    if let Some(value) = &aggregate.initial_value {
        out += &format!("\n    INITCOND {}", to_literal(state_type, Some(value)));
    }
    out + ";"
}

/// Returns a type as statements on functions accept it: a tuple without `frozen`.
fn type_text(data_type: &DataType) -> String {
    let text = data_type.to_string();
    match data_type {
        DataType::Tuple(_) => {
            let inner = text.strip_prefix("frozen<").and_then(|rest| rest.strip_suffix('>'));
            inner.map_or(text.clone(), str::to_owned)
        }
        _ => text,
    }
}
