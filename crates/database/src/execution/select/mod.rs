//! SELECT: execution.
//!
//! ```text
//! plan + values + paging position --reader--> one row at a time --outputs, aggregation--> sink
//! ```

mod aggregation;
mod ann;
#[cfg(test)]
mod ann_tests;
#[cfg(test)]
mod count_tests;
mod execute;
mod index_reader;
mod query_text;
mod read_limits;
mod reader;
mod result_size;
mod skim;
#[cfg(test)]
mod skim_kind_tests;
#[cfg(test)]
mod skim_tests;
#[cfg(test)]
mod skim_type_tests;
#[cfg(test)]
mod tests;
