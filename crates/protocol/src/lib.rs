//! The CQL native protocol, frame by frame; no I/O.
