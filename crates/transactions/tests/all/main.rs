//! Stores, services and transactions, from outside.

mod conformance;
mod crashes;
mod histories;
mod services;
mod transactions;
