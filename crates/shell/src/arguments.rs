//! Arguments of `cassette cql`.

use std::path::PathBuf;

use clap::Args;

use crate::output::Format;

const EXAMPLES: &str = "\
Examples:
  A shell on the server of this machine, port 9042:
    cassette cql

  A statement, and its result for a program:
    cassette cql -e 'SELECT * FROM shop.orders' --format json | jq .item

  A script on another server, with TLS and a login:
    cassette cql db1:9142 --ssl --username ada --tls-ca ca.pem -f schema.cql

  The database in a directory that no server has open:
    cassette cql --data cassette-data

  A snapshot, or the data of a stopped Cassandra, which stay unchanged:
    cassette cql --read-only /var/lib/cassandra/data

HELP in the shell lists its commands: those of cqlsh, and FORMAT and .import. Settings are read from \
~/.cassandra/cqlshrc, user and password also from ~/.cassandra/credentials. CQLSH_HOST, CQLSH_PORT, \
CQL_HISTORY, SSL_CERTFILE, SSL_VALIDATE and TZ have their meanings of cqlsh. The exit status is 0, \
1 if there is no connection, and 2 if a statement of -e, -f or a pipe failed.";

/// Arguments of `cassette cql`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CqlArguments {
    /// The server: HOST or HOST:PORT [default: 127.0.0.1:9042]
    #[arg(value_name = "HOST[:PORT]", conflicts_with_all = ["data", "read_only"])]
    pub host: Option<String>,

    /// The port, as cqlsh accepts it
    #[arg(value_name = "PORT", requires = "host")]
    pub port: Option<u16>,

    /// Open the database in a directory that no server has open
    #[arg(long, value_name = "DIR", conflicts_with = "read_only")]
    pub data: Option<PathBuf>,

    /// Query directories without writing to them: a data directory of Cassette, a snapshot, or data
    /// directories of Cassandra
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub read_only: Vec<PathBuf>,

    /// A configuration file with cassandra.yaml's keys, for --data and --read-only
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Execute these statements, and end; can be repeated
    #[arg(short, long, value_name = "STATEMENT")]
    pub execute: Vec<String>,

    /// Execute the statements of a file, and end; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "execute")]
    pub file: Option<PathBuf>,

    /// The format of results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// The keyspace to use
    #[arg(short, long, value_name = "KEYSPACE")]
    pub keyspace: Option<String>,

    /// The user to log in as
    #[arg(short, long, value_name = "USER")]
    pub username: Option<String>,

    /// The password; other users of this machine can see it, so a credentials file is better
    #[arg(short, long, value_name = "PASSWORD", requires = "username")]
    pub password: Option<String>,

    /// A file with `username` and `password` in a section `[plain_text_auth]`, which only its owner
    /// may read [default: ~/.cassandra/credentials]
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,

    /// The configuration file of cqlsh [default: ~/.cassandra/cqlshrc]
    #[arg(long, value_name = "FILE")]
    pub cqlshrc: Option<PathBuf>,

    /// Use TLS; the authorities are those of --tls-ca, SSL_CERTFILE, or `certfile` of cqlshrc
    #[arg(long)]
    pub ssl: bool,

    /// Certificates of the authorities that sign those of servers; implies --ssl
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// Certificate of this client
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,

    /// Private key of this client, if the file of its certificate does not have it
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,

    /// The version of the native protocol: 3, 4 or 5 [default: the newest of the server]
    #[arg(long, value_name = "VERSION")]
    pub protocol_version: Option<u8>,

    /// How long to wait for a response, in seconds [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub request_timeout: Option<u64>,

    /// Use colors, also if the output is no terminal
    #[arg(short = 'C', long, overrides_with = "no_color")]
    pub color: bool,

    /// Use no colors
    #[arg(long)]
    pub no_color: bool,

    /// Behave as on a terminal: wait between pages, and show a prompt
    #[arg(short, long)]
    pub tty: bool,

    /// Do not keep a history
    #[arg(long)]
    pub disable_history: bool,
}
