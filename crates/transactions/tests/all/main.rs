//! Integration tests of stores, services and transactions.

mod backup;
mod checker;
mod conformance;
mod cql_writes;
mod crashes;
mod examples;
mod for_update;
mod halts;
mod histories;
mod hosts;
mod index_builds;
mod indexes;
mod iterators;
mod limits;
mod lost_replies;
mod migration;
mod reads;
mod replicated;
mod retries;
mod services;
mod sessions;
mod suite;
mod sweeping;
mod timelock;
mod tokens;
mod transactions;
