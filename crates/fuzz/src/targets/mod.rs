//! One module per target.

mod agents;
mod class_names;
mod components;
mod cql;
mod data_directory;
mod experiments;
mod frames;
mod http;
mod json;
mod keystores;
mod messages;
mod mutations;
mod paging_state;
mod query_logs;
mod sasl;
mod segments;
mod shell;
mod sstable;
mod streams;
mod values;

use crate::Target;

/// All targets.
pub const TARGETS: &[Target] = &[
    frames::TARGET,
    cql::TARGET,
    values::TARGET,
    json::TARGET,
    class_names::TARGET,
    components::TARGET,
    sstable::TARGET,
    mutations::TARGET,
    messages::TARGET,
    segments::TARGET,
    data_directory::TARGET,
    paging_state::TARGET,
    http::TARGET,
    experiments::TARGET,
    sasl::TARGET,
    keystores::TARGET,
    query_logs::TARGET,
    streams::TARGET,
    shell::TARGET,
    agents::TARGET,
];

/// The first byte, which most targets use to choose what the rest is for; 0 for no input.
fn split(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, input), |(first, rest)| (*first, rest))
}
