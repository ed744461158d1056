//! Cassandra boxed: the binary, and the public library.
