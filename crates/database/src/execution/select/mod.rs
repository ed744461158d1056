//! SELECT: execution.
//!
//! ```text
//! plan + values + where a page goes on --reader--> rows one by one --outputs, aggregation--> straight into the sink
//! ```

mod aggregation;
mod execute;
mod index_reader;
mod query_text;
mod read_limits;
mod reader;
mod result_size;
#[cfg(test)]
mod tests;
