//! Values as text: as cqlsh shows them, and as JSON.

mod number;
mod parse;
mod python_time;
mod show;
mod text;

pub use parse::ParseFormats;
pub use python_time::{TimestampFormat, format_time, zone};
pub use show::Formats;
pub use text::{Color, Shown, escaped};
