//! The classification of errors for callers of the library.

use std::path::Path;

use cassette_engine::EngineError;
use cassette_engine::commitlog::{AppendError, OpenError};
use cassette_rows::StorageError;

use crate::basics::error::DatabaseError;

/// The kind of a [`DatabaseError`], which determines how to respond. Returned by
/// [`DatabaseError::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not valid CQL: [`position`](DatabaseError::position) returns the position of the
    /// error.
    Syntax,
    /// The statement or its values are invalid; executing it again does not help.
    Invalid,
    /// The keyspace, table or type to create exists.
    AlreadyExists,
    /// The operation is not permitted, such as a write to a system table.
    Unauthorized,
    /// The statement writes, and the database is open for reading only.
    ReadOnly,
    /// An option or setting has an invalid value.
    Config,
    /// The directory is open in a process: [`lock_holder`](DatabaseError::lock_holder) returns its
    /// id.
    Locked,
    /// The database has been closed.
    Closed,
    /// A file or stored definition is damaged: [`path`](DatabaseError::path) returns the file.
    Corrupt,
    /// Files of another version or program: [`path`](DatabaseError::path) returns their location.
    Incompatible,
    /// The disk is full; the call may succeed when space is available.
    DiskFull,
    /// The operating system failed to read or write a file.
    Io,
    /// The keyspace has fewer replicas than the consistency level needs, and
    /// `enforce_replica_counts` is set.
    Unavailable,
    /// The read took longer than its timeout.
    ReadTimeout,
    /// The write took longer than its timeout, and was applied as a whole or not at all.
    WriteTimeout,
    /// Too many operations are in progress; the call may succeed later.
    Overloaded,
    /// The statement was interrupted, and nothing was changed.
    Interrupted,
    /// A limit of the database ended the statement.
    LimitExceeded,
    /// The call would block on a thread that must not block; nothing was done.
    WouldBlock,
    /// The database stopped after a fault and has to be opened again.
    Stopped,
    /// An internal error of the database.
    Internal,
}

impl DatabaseError {
    /// Returns the kind of the error. Errors of the storage engine have the kind of their cause.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Syntax { .. } => ErrorKind::Syntax,
            Self::Invalid(_)
            | Self::Refused(_)
            | Self::Protocol(_)
            | Self::FunctionFailure { .. }
            | Self::Unprepared { .. } => ErrorKind::Invalid,
            Self::Failed { cause, .. } => cause.kind(),
            Self::SchemaCorrupt { .. } => ErrorKind::Corrupt,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::Unauthorized(_) => ErrorKind::Unauthorized,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Config(_) => ErrorKind::Config,
            Self::ReadTimeout { .. } => ErrorKind::ReadTimeout,
            Self::WriteTimeout { .. } => ErrorKind::WriteTimeout,
            Self::Overloaded(_) => ErrorKind::Overloaded,
            Self::Interrupted(_) => ErrorKind::Interrupted,
            Self::ReadAborted { .. } => ErrorKind::LimitExceeded,
            Self::WouldBlock => ErrorKind::WouldBlock,
            Self::Truncate { .. }
            | Self::Server(_)
            | Self::Storage { .. }
            | Self::ReadFailure { .. }
            | Self::WriteFailure { .. } => self.engine_error().map_or(ErrorKind::Internal, kind_of_engine),
        }
    }

    /// Returns the line, counted from 1, and the column, counted from 0, of a syntax error, if it
    /// has a position.
    pub fn position(&self) -> Option<(u32, u32)> {
        match self {
            Self::Syntax { line, column, .. } => line.zip(*column),
            _ => None,
        }
    }

    /// Returns the damaged or inaccessible file or directory.
    pub fn path(&self) -> Option<&Path> {
        self.engine_error().and_then(path_of_engine)
    }

    /// Returns the id of the process that has the directory open, if that is the error and the id
    /// is known.
    pub fn lock_holder(&self) -> Option<u32> {
        match self.engine_error() {
            Some(EngineError::Locked { holder, .. }) => *holder,
            _ => None,
        }
    }

    /// Returns the error of the storage engine that caused it.
    fn engine_error(&self) -> Option<&EngineError> {
        match self {
            Self::Storage { cause, .. } | Self::Refused(cause) => Some(cause.engine_error()),
            Self::Failed { cause, .. } => cause.engine_error(),
            Self::ReadFailure { cause, .. }
            | Self::WriteFailure { cause, .. }
            | Self::Truncate { cause, .. } => cause.as_ref().map(|cause| cause.engine_error()),
            _ => None,
        }
    }
}

fn kind_of_engine(error: &EngineError) -> ErrorKind {
    match error {
        _ if error.is_disk_full() => ErrorKind::DiskFull,
        EngineError::Storage(error) => kind_of_storage(error),
        EngineError::TableIncomplete { cause, .. } => kind_of_storage(cause),
        EngineError::OpenCommitLog(OpenError::Corrupt { .. }) => ErrorKind::Corrupt,
        EngineError::OpenCommitLog(OpenError::Io { .. })
        | EngineError::CommitLog(AppendError::Refused { .. } | AppendError::Failed { .. })
        | EngineError::OnlyInLog { .. }
        | EngineError::Thread(_) => ErrorKind::Io,
        EngineError::OpenCommitLog(OpenError::UnknownVersion { .. })
        | EngineError::AnotherVersion { .. }
        | EngineError::NotOurs { .. } => ErrorKind::Incompatible,
        EngineError::InvalidOptions { .. }
        | EngineError::InvalidSetting { .. }
        | EngineError::TooLargeForMemory { .. }
        | EngineError::OpenCommitLog(OpenError::SegmentSize { .. } | OpenError::Key { .. }) => {
            ErrorKind::Config
        }
        EngineError::UnknownTable(_)
        | EngineError::KeyTooLong { .. }
        | EngineError::InvalidSnapshot { .. }
        | EngineError::SnapshotExists { .. }
        | EngineError::ImportRefused { .. }
        | EngineError::CommitLog(AppendError::TooLarge { .. }) => ErrorKind::Invalid,
        EngineError::MemtablesFull { .. } | EngineError::CompactionDebt { .. } => ErrorKind::Overloaded,
        EngineError::Locked { .. } => ErrorKind::Locked,
        EngineError::Closed | EngineError::CommitLog(AppendError::Closed) => ErrorKind::Closed,
        EngineError::Stopped { .. } => ErrorKind::Stopped,
        EngineError::Interrupted(_) => ErrorKind::Interrupted,
        EngineError::NoSpaceToCompact { .. } | EngineError::CdcFull { .. } => ErrorKind::DiskFull,
        _ => ErrorKind::Internal,
    }
}

fn kind_of_storage(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::Corrupt { .. } => ErrorKind::Corrupt,
        StorageError::Unwritable { .. } => ErrorKind::Internal,
        StorageError::Unsupported { .. } => ErrorKind::Incompatible,
        StorageError::Io { .. } => ErrorKind::Io,
        StorageError::WouldBlock { .. } => ErrorKind::WouldBlock,
        StorageError::Interrupted(_) => ErrorKind::Interrupted,
    }
}

fn path_of_engine(error: &EngineError) -> Option<&Path> {
    match error {
        EngineError::Storage(error) | EngineError::OnlyInLog { cause: error } => path_of_storage(error),
        EngineError::TableIncomplete { cause, .. } => path_of_storage(cause),
        EngineError::OpenCommitLog(OpenError::Io { directory, .. })
        | EngineError::Locked { directory, .. }
        | EngineError::AnotherVersion { directory, .. }
        | EngineError::NotOurs { directory, .. }
        | EngineError::ImportRefused { directory, .. } => Some(directory),
        EngineError::OpenCommitLog(
            OpenError::UnknownVersion { file, .. }
            | OpenError::Corrupt { file, .. }
            | OpenError::Handler { file, .. },
        ) => Some(file),
        _ => None,
    }
}

fn path_of_storage(error: &StorageError) -> Option<&Path> {
    match error {
        StorageError::Corrupt { path, .. }
        | StorageError::Unwritable { path, .. }
        | StorageError::Io { path, .. }
        | StorageError::WouldBlock { path }
        | StorageError::Unsupported { path, .. } => Some(path),
        StorageError::Interrupted(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use cassette_engine::SnapshotOptions;

    use super::*;
    use crate::Database;
    use crate::schema::views::View;

    #[test]
    fn rejected_snapshots_carry_the_error_of_the_engine() {
        let database = Database::in_memory().unwrap();
        let session = database.session();
        let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
                        'replication_factor': 1}";
        session.execute(keyspace, ()).unwrap();
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY)", ()).unwrap();
        let table = database.catalog().table("ks", "t").unwrap().id;
        let options = SnapshotOptions { name: "a/b", skip_flush: false, ttl_seconds: None };
        let error = database.engine().snapshot(&[(table, String::new())], &options).unwrap_err();
        let text = error.to_string();
        let error = DatabaseError::of_operation(error);
        assert_eq!(
            (error.kind(), error.code(), error.to_string()),
            (ErrorKind::Invalid, 0x2200, text.clone())
        );
        assert_eq!(error.source().unwrap().to_string(), text);
    }

    #[test]
    fn definitions_that_cannot_be_parsed_are_corrupt_and_carry_the_syntax_error() {
        let error = View::parse_where("k IS NOT").unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Corrupt, 0));
        let cause = error.source().unwrap().downcast_ref::<std::sync::Arc<DatabaseError>>();
        let cause = cause.map(|cause| &**cause).or_else(|| error.source().unwrap().downcast_ref());
        assert_eq!(cause.unwrap().kind(), ErrorKind::Syntax);
        assert!(error.to_string().contains(&cause.unwrap().to_string()), "{error}");
    }

    #[test]
    fn an_operation_that_fails_in_a_step_has_the_kind_and_the_path_of_the_step() {
        let path = std::path::PathBuf::from("nb-1-big-Data.db");
        let step = DatabaseError::storage(StorageError::Corrupt { path, detail: "checksum".into() });
        let error = DatabaseError::failed_in("cannot build view v: writing", step.clone());
        assert_eq!(error.to_string(), format!("cannot build view v: writing: {step}"));
        assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, step.path()));
        assert!(error.source().is_some());
    }
}
