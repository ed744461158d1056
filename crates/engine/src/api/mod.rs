//! The public interface: [`Engine`] by concern, and the threads that work in the background.

mod background;
mod caches;
mod compaction;
mod data;
mod engine;
mod files;
mod metrics;
mod tables;

pub use engine::Engine;
