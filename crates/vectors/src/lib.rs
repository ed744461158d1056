//! Similarity of vectors of floats, and graphs that find the most similar ones.
//!
//! ```text
//! similarity  Cassandra's similarity functions, and the distances that graphs compare
//! graph       a graph of vectors that finds the nearest ones of a vector
//! kernels     dot products and squared distances, with the instructions of the processor
//! ```
//!
//! No I/O.

mod graph;
mod kernels;
mod similarity;

pub use graph::{Found, Graph, LINKS, NodeId, NodeState, SavedLinks};
pub use similarity::{Invalid, Similarity, floats, reciprocal_length};
