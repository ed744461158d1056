//! SSTables on disk: those of Cassandra, damaged ones, and generated ones, read and written.

mod components;
mod damage;
mod deletions;
mod golden_rewrite;
mod golden_rows;
mod golden_slices;
mod newer_versions;
mod opening;
mod oracle;
mod pipelined;
mod probes;
mod properties;
mod row_marks;
mod scrub;
mod stored;
mod support;
