//! The public interface: [`Engine`], and the threads that work in the background.

mod background;
mod engine;

pub use engine::Engine;
