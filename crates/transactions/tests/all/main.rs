//! Stores, services and transactions, from outside.

mod conformance;
mod services;
