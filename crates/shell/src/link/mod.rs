//! What executes requests: a connection to a server, or a database in this process.

mod embedded;
mod remote;

use std::time::Duration;

use cassette_protocol::{Prelude, Request, Response, Version};

use crate::error::Result;

pub use embedded::Embedded;
pub use remote::{Credentials, Remote};

/// Where statements are executed. It can be shared between threads, each of which opens a link.
pub trait Endpoint: Send + Sync {
    /// Opens a link. `timeout` is the maximum time for a response, if it is not the usual one.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the login.
    fn open(&self, timeout: Option<Duration>) -> Result<Box<dyn Link>>;

    /// Returns the same place with another login.
    ///
    /// # Errors
    /// If it has no logins.
    fn with_login(&self, credentials: Credentials) -> Result<Box<dyn Endpoint>>;

    /// Returns the user that logs in.
    fn user(&self) -> Option<&str>;

    /// Returns the place as users know it: `host:port`, or a directory.
    fn place(&self) -> String;
}

/// Executes the requests of one session.
pub trait Link: Send {
    /// Executes a request. With `trace`, its execution is recorded.
    ///
    /// # Errors
    /// `Lost` if the connection failed; the link must not be used any more.
    fn call(&mut self, request: &Request, trace: bool) -> Result<(Response, Prelude)>;

    /// Executes requests together, and returns the responses in order. Their number must be small.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    fn call_all(&mut self, requests: &[Request]) -> Result<Vec<Response>>;

    /// Returns the version of the protocol.
    fn version(&self) -> Version;
}
