//! The fault that a request meets.

use cassette_database::{BatchPart, Database, Injected, RequestStatements, StatementOptions};
use cassette_protocol::{Request, request::StatementSource};

use super::{ClientSession, batch_kind, options};

/// Returns what a request meets by the rules of injected faults.
#[cold]
pub(super) fn injected(database: &Database, session: &ClientSession, request: &Request) -> Option<Injected> {
    let keyspace = session.keyspace();
    let keyspace = keyspace.as_deref().map(String::as_str);
    let fault = |statements: RequestStatements<'_>, options: &StatementOptions| {
        database.injected_fault(statements, keyspace, options)
    };
    match request {
        Request::Query(query) => {
            fault(RequestStatements::Query(&query.query), &options(&query.parameters, session))
        }
        Request::Execute(execute) => {
            fault(RequestStatements::Execute(&execute.id), &options(&execute.parameters, session))
        }
        Request::Prepare(prepare) => {
            let options = StatementOptions {
                keyspace: prepare.keyspace.clone(),
                ..options(&Default::default(), session)
            };
            fault(RequestStatements::Prepare(&prepare.query), &options)
        }
        Request::Batch(batch) => {
            let parts: Vec<_> = batch
                .statements
                .iter()
                .map(|statement| match &statement.source {
                    StatementSource::Query(query) => BatchPart::Query(query),
                    StatementSource::Prepared(id) => BatchPart::Prepared(id),
                })
                .collect();
            let statements = RequestStatements::Batch(batch_kind(batch.batch_type), &parts);
            fault(statements, &options(&batch.parameters, session))
        }
        _ => None,
    }
}
