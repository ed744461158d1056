//! A CQL server in the process of a test, for any driver.
//!
//! ```
//! use cassette_test::Server;
//!
//! # fn main() -> Result<(), cassette_test::Error> {
//! let server = Server::start()?;
//! let keyspace = server.keyspace_of("CREATE TABLE users (id int PRIMARY KEY, name text);")?;
//! println!("a driver connects to {} and uses {}", server.address(), keyspace.name());
//! # Ok(())
//! # }
//! ```
//!
//! | type | is |
//! | --- | --- |
//! | [`Server`], [`Builder`] | a server on a free port of 127.0.0.1, and how it is started |
//! | [`Keyspace`] | a keyspace with a schema, which is dropped with it |
//! | [`Error`] | what failed, with the place in a file of CQL |
//!
//! Files are in memory, unless [`Builder::directory`] names a directory.

mod error;
mod keyspace;
mod script;
mod server;

pub use cassette_database::{Database, Options, Seed, Session};
pub use error::{Error, Result};
pub use keyspace::Keyspace;
pub use server::{Builder, LOCAL_DATACENTER, Server};

/// Compiles and runs the code of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackagePage;

/// Compiles and runs the code of the page about tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct TestingPage;
