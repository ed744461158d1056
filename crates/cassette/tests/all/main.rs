//! The public library, used as programs use it.

mod asynchronous;
mod derive;
mod embedded;
mod errors;
mod examples;
mod opening;
mod operations;
mod read_only;
mod statements;
mod types;
