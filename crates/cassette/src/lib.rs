//! Cassandra boxed: a CQL database to embed.
//!
//! The public library is the database floor's: [`Database`] and [`Session`].

pub use cassette_database::*;
