//! Stores, services and transactions, from outside.

mod backup;
mod conformance;
mod crashes;
mod examples;
mod histories;
mod services;
mod transactions;
