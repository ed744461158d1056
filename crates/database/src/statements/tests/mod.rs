//! Statements that concern several modules of this layer, executed through the public API.

mod compact_storage;
mod functions;
mod masks;
mod role_testing;
mod user_types;
