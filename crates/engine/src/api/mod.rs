//! The public interface: [`Engine`], and the threads that work in the background.

pub(crate) mod background;
pub(crate) mod engine;

pub use engine::{Engine, Mutation, Promise, ReplaySummary, SSTableInfo};
