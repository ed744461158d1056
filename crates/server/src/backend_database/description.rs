//! Descriptions of requests in one line, as in Cassandra's `system_views.queries`.

use cassette_cql::{obscure_passwords, values::text::encode_hex};
use cassette_database::Database;
use cassette_protocol::{Request, request::StatementSource};

/// Describes a request. Includes the text of a prepared statement, where Cassandra has the id
/// alone.
pub(super) fn describe(database: &Database, request: &Request) -> String {
    match request {
        Request::Query(query) => {
            let options = &query.parameters;
            let page_size = options.page_size.unwrap_or(-1);
            let text = obscure_passwords(&query.query);
            format!("QUERY {text} [pageSize = {page_size}] at consistency {}", options.consistency)
        }
        Request::Prepare(prepare) => format!("PREPARE {}", obscure_passwords(&prepare.query)),
        Request::Execute(execute) => {
            let options = &execute.parameters;
            let prepared = database.prepared(&execute.id);
            let text = prepared.map(|prepared| format!(": {}", obscure_passwords(prepared.cql())));
            format!(
                "EXECUTE {} with {} values at consistency {}{}",
                encode_hex(&execute.id),
                options.values.len(),
                options.consistency,
                text.unwrap_or_default()
            )
        }
        Request::Batch(batch) => {
            let statement = |statement: &cassette_protocol::request::BatchStatement| {
                let source = match &statement.source {
                    StatementSource::Query(text) => obscure_passwords(text).into_owned(),
                    StatementSource::Prepared(id) => encode_hex(id),
                };
                format!("{source} with {} values", statement.values.len())
            };
            let statements: Vec<String> = batch.statements.iter().map(statement).collect();
            format!("BATCH of [{}] at consistency {}", statements.join(", "), batch.parameters.consistency)
        }
        other => other.opcode().to_string(),
    }
}
