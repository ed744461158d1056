//! Outputs of the audit log other than files: a record is a line.

use std::io::{self, Write};

use cassette_query_log::Output;

/// Writes lines to standard output.
pub(super) struct StandardOutput;

impl Output for StandardOutput {
    fn write(&mut self, records: &[Vec<u8>]) -> (u64, Option<io::Error>) {
        let mut out = io::stdout().lock();
        for (written, record) in records.iter().enumerate() {
            if let Err(error) = out.write_all(record).and_then(|()| out.write_all(b"\n")) {
                return ((records.len() - written) as u64, Some(error));
            }
        }
        match out.flush() {
            Ok(()) => (0, None),
            Err(error) => (records.len() as u64, Some(error)),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines to the server's log, as Cassandra's `FileAuditLogger` does.
pub(super) struct ServerLog;

impl Output for ServerLog {
    fn write(&mut self, records: &[Vec<u8>]) -> (u64, Option<io::Error>) {
        for record in records {
            tracing::info!(target: "FileAuditLogger", "{}", String::from_utf8_lossy(record));
        }
        (0, None)
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
