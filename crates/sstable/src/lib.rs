//! Cassandra's SSTable files, one module per component: read, write, verify.
