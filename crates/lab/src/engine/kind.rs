//! Names of the engines under test.

use clap::ValueEnum;

/// Engines under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// Cassette in this process: prepared statements, no socket
    Embedded,
    /// A CQL server: `cassette serve`, Apache Cassandra
    Cql,
    /// Cassette's own server, started by this program (in experiments)
    Served,
    /// A private Apache Cassandra cluster from Maven Central (in experiments)
    Cassandra,
    /// The transactions' store, embedded or on a server: an operation loads thousands of cells (in
    /// experiments)
    Cells,
    /// LevelDB, if built with feature leveldb
    Leveldb,
    /// RocksDB, if built with feature rocksdb
    Rocksdb,
    /// fjall, if built with feature fjall
    Fjall,
    /// No engine: responds at once, which shows the overhead of the measurement itself
    Noop,
}
