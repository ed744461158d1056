//! Detection of a running Cassandra.

use std::path::{Path, PathBuf};

/// A running process of Cassandra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCassandra {
    /// Its process id.
    pub pid: u32,
    /// A file that it has open in the directories; `None` if its files cannot be examined.
    pub file: Option<PathBuf>,
}

/// Returns the processes of Cassandra that have files open in `directories`, or whose open files
/// this process may not examine. Always empty where there is no `/proc`.
pub fn running_cassandra(directories: &[PathBuf]) -> Vec<RunningCassandra> {
    let canonical: Vec<PathBuf> =
        directories.iter().filter_map(|directory| std::fs::canonicalize(directory).ok()).collect();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let path = process.path();
        let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
        if !is_cassandra(&command) {
            continue;
        }
        match open_files(&path) {
            Some(files) => {
                let is_within = |file: &PathBuf| canonical.iter().any(|above| file.starts_with(above));
                if let Some(file) = files.into_iter().find(is_within) {
                    found.push(RunningCassandra { pid, file: Some(file) });
                }
            }
            None => found.push(RunningCassandra { pid, file: None }),
        }
    }
    found
}

/// Whether a command line runs Cassandra's server.
fn is_cassandra(command: &[u8]) -> bool {
    let mut arguments = command.split(|byte| *byte == 0);
    arguments.any(|argument| argument == b"org.apache.cassandra.service.CassandraDaemon")
}

/// Returns the paths of a process's open and mapped files; `None` if they cannot be examined.
fn open_files(process: &Path) -> Option<Vec<PathBuf>> {
    let descriptors = std::fs::read_dir(process.join("fd")).ok()?;
    let mut files: Vec<PathBuf> =
        descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    // Segments of the commit log are mapped, and closed.
    let maps = std::fs::read_to_string(process.join("maps")).ok()?;
    files.extend(
        maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)).map(PathBuf::from)),
    );
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_recognised_by_its_class_and_other_programs_are_not() {
        assert!(is_cassandra(b"java\0-cp\0x\0org.apache.cassandra.service.CassandraDaemon\0"));
        assert!(!is_cassandra(b"java\0org.apache.cassandra.tools.NodeTool\0"));
        assert!(!is_cassandra(b"grep\0-r\0something org.apache.cassandra.service.CassandraDaemon\0"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_files_of_a_process_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("open");
        let _open = std::fs::File::create(&path).unwrap();
        let files = open_files(Path::new("/proc/self")).unwrap();
        assert!(files.contains(&path.canonicalize().unwrap()), "{files:?}");
    }
}
