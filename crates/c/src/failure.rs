//! Codes of results, and why a call failed.

use cassette::ErrorKind;

/// The result of a call. Codes keep their meaning in later versions, which may add others.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// The text is not valid CQL; the error has the line and the column.
    Syntax = 1,
    /// The statement or its values are invalid; executing it again does not help.
    Invalid = 2,
    /// The keyspace, table or type to create exists.
    AlreadyExists = 3,
    /// The operation is not permitted, such as a write to a system table.
    Unauthorized = 4,
    /// The statement writes, and the database is open for reading only.
    ReadOnly = 5,
    /// An option has an invalid value.
    Config = 6,
    /// The directory is open in another process, or in this one.
    Locked = 7,
    /// The database was closed.
    Closed = 8,
    /// A file or a stored definition is damaged.
    Corrupt = 9,
    /// Files of another version or program.
    Incompatible = 10,
    /// The disk, or the limit of files in memory, is full.
    DiskFull = 11,
    /// The operating system failed to read or write a file.
    Io = 12,
    /// A consistency level needs more replicas than there are.
    Unavailable = 13,
    /// The read took longer than its timeout.
    ReadTimeout = 14,
    /// The write took longer than its timeout, and was applied as a whole or not at all.
    WriteTimeout = 15,
    /// Too many operations are in progress.
    Overloaded = 16,
    /// The statement was interrupted, and nothing was changed.
    Interrupted = 17,
    /// A limit of the database ended the statement.
    LimitExceeded = 18,
    /// The database stopped after a fault and has to be opened again.
    Stopped = 19,
    /// An internal error of the database.
    Internal = 20,
    /// The call was wrong: a null pointer, an index out of range, a value that is null.
    Misuse = 21,
    /// `cassette_step` has the next row.
    Row = 100,
    /// `cassette_step` has reached the end.
    Done = 101,
}

/// Why a call failed.
pub enum Failure {
    Misuse(String),
    Database(cassette::Error),
}

impl Failure {
    pub fn misuse(message: impl Into<String>) -> Self {
        Self::Misuse(message.into())
    }

    pub fn null(name: &str) -> Self {
        Self::Misuse(format!("{name}: expected a pointer, found null"))
    }

    pub fn status(&self) -> Status {
        match self {
            Self::Misuse(_) => Status::Misuse,
            Self::Database(error) => status_of(error.kind()),
        }
    }
}

impl From<cassette::Error> for Failure {
    fn from(error: cassette::Error) -> Self {
        Self::Database(error)
    }
}

fn status_of(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::Syntax => Status::Syntax,
        ErrorKind::Invalid => Status::Invalid,
        ErrorKind::AlreadyExists => Status::AlreadyExists,
        ErrorKind::Unauthorized => Status::Unauthorized,
        ErrorKind::ReadOnly => Status::ReadOnly,
        ErrorKind::Config => Status::Config,
        ErrorKind::Locked => Status::Locked,
        ErrorKind::Closed => Status::Closed,
        ErrorKind::Corrupt => Status::Corrupt,
        ErrorKind::Incompatible => Status::Incompatible,
        ErrorKind::DiskFull => Status::DiskFull,
        ErrorKind::Io => Status::Io,
        ErrorKind::Unavailable => Status::Unavailable,
        ErrorKind::ReadTimeout => Status::ReadTimeout,
        ErrorKind::WriteTimeout => Status::WriteTimeout,
        ErrorKind::Overloaded => Status::Overloaded,
        ErrorKind::Interrupted => Status::Interrupted,
        ErrorKind::LimitExceeded => Status::LimitExceeded,
        ErrorKind::Stopped => Status::Stopped,
        _ => Status::Internal,
    }
}
