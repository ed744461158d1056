//! Reports of benchmarks and runs: for the terminal, as Markdown, HTML and CSV.

mod agents;
mod charts;
pub mod csv;
pub mod html;
pub mod markdown;
mod matrix;
pub mod text;
