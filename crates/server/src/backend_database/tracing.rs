//! Descriptions of traced requests, with Cassandra's names and texts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use cassette_cql::obscure_passwords;
use cassette_database::{Database, TracedRequest};
use cassette_protocol::{Consistency, QueryParameters, Request, Value};

use super::ClientSession;

/// The number of characters shown of a bound value.
const VALUE_LENGTH_MAX: usize = 1000;

/// Describes a request to be traced.
pub(super) fn describe(database: &Database, session: &ClientSession, request: &Request) -> TracedRequest {
    let mut parameters = BTreeMap::new();
    let request = match request {
        Request::Query(query) => {
            add_options(&query.parameters, &mut parameters);
            parameters.insert("query".into(), obscure_passwords(&query.query).into_owned());
            "Execute CQL3 query"
        }
        Request::Prepare(prepare) => {
            parameters.insert("query".into(), obscure_passwords(&prepare.query).into_owned());
            "Preparing CQL3 query"
        }
        Request::Execute(execute) => {
            add_options(&execute.parameters, &mut parameters);
            if let Ok(prepared) = database.prepared(&execute.id) {
                parameters.insert("query".into(), obscure_passwords(prepared.cql()).into_owned());
                let markers = prepared.description();
                for (i, (marker, value)) in
                    markers.markers().iter().zip(execute.parameters.values.iter()).enumerate()
                {
                    let mut text = match value {
                        Value::Unset => "<unset>".to_owned(),
                        Value::Null => marker.literal(None),
                        Value::Set(bytes) => marker.literal(Some(bytes)),
                    };
                    if let Some((end, _)) = text.char_indices().nth(VALUE_LENGTH_MAX) {
                        text.truncate(end);
                        text.push_str("...'");
                    }
                    parameters.insert(format!("bound_var_{i}_{}", marker.name), text);
                }
            }
            "Execute CQL3 prepared query"
        }
        Request::Batch(batch) => {
            add_options(&QueryParameters { page_size: None, ..batch.parameters.clone() }, &mut parameters);
            "Execute batch of CQL3 queries"
        }
        _ => "Other",
    };
    TracedRequest {
        node: session.node.load(Ordering::Relaxed),
        client: session.peer.map(|peer| peer.ip()),
        request,
        parameters,
    }
}

fn add_options(options: &QueryParameters, parameters: &mut BTreeMap<String, String>) {
    if let Some(page_size) = options.page_size.filter(|size| *size > 0) {
        parameters.insert("page_size".into(), page_size.to_string());
    }
    parameters.insert("consistency_level".into(), options.consistency.to_string());
    let serial = options.serial_consistency.unwrap_or(Consistency::Serial);
    parameters.insert("serial_consistency_level".into(), serial.to_string());
}
