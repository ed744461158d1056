//! Diagnoses why nodes stopped responding, in one sentence, before their files are removed.
//!
//! A Cassandra node that cannot write keeps running, but answers "Server is shutting down" to every
//! request. One whose memory-mapped commit log runs out of disk space fails with an `InternalError`
//! about memory, or dies of SIGBUS. In none of these cases do clients learn about the disk.

use std::fs;
use std::io;
use std::path::Path;

use super::{Cluster, running};
use crate::LabError;

/// Free space that a node needs to start: eight commit log segments of 32 MiB, and as much again
/// for flushes and compactions.
const FREE_BYTES_MIN: u64 = 2 * 8 * (32 << 20);
/// Below this free space Cassandra creates no commit log segment: the disk is full.
const FULL_BELOW_BYTES: u64 = 32 << 20;

/// Observations of a node.
struct Seen {
    number: usize,
    runs: bool,
    /// Its output and its log.
    texts: [String; 2],
}

/// Checks that `nodes` nodes can start on a disk with `free` bytes left. The error names
/// `directory`.
pub(super) fn check_room(directory: &Path, nodes: usize, free: u64) -> Result<(), LabError> {
    let needed = nodes as u64 * FREE_BYTES_MIN;
    if free >= needed {
        Ok(())
    } else {
        Err(LabError::Usage(format!(
            "not enough disk space in {2}: expected {0} MiB for {nodes} nodes, found {1} MiB",
            needed >> 20,
            free >> 20,
            directory.display()
        )))
    }
}

/// Returns the number of bytes that can still be written at `path`.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let of = rustix::fs::statvfs(path)?;
    Ok(of.f_bavail.saturating_mul(of.f_frsize))
}

/// Returns why nodes of `cluster` do not respond, as far as can be observed; `None` if all seem
/// healthy.
pub(super) fn of(cluster: &Cluster) -> Option<String> {
    let settings = cluster.settings();
    let processes = running(&settings.directory);
    let seen = |number: usize| {
        let directory = settings.node_directory(number);
        let read = |name: &str| {
            let bytes = fs::read(directory.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let runs = processes.iter().any(|(running, _)| *running == number);
        Seen { number, runs, texts: ["stdout.log", "system.log"].map(read) }
    };
    let nodes: Vec<Seen> = (1..=settings.nodes).map(seen).collect();
    let free = free_bytes(&settings.directory).ok();
    diagnose(&nodes, free.map(|free| (free, settings.directory.as_path())))
}

fn diagnose(nodes: &[Seen], disk: Option<(u64, &Path)>) -> Option<String> {
    let mut found = Vec::new();
    if let Some((free, directory)) = disk.filter(|(free, _)| *free < FULL_BELOW_BYTES) {
        let full = format!("the disk of {} is full: {} MiB are left", directory.display(), free >> 20);
        found.push(full);
    }
    for node in nodes {
        match (node.runs, telling_line(&node.texts)) {
            (true, None) => {}
            (true, Some(line)) => found.push(format!("node {} logged {line:?}", node.number)),
            (false, None) => found.push(format!("node {} has ended", node.number)),
            (false, Some(line)) => {
                found.push(format!("node {} has ended; its last message: {line:?}", node.number))
            }
        }
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// Returns the first error in a node's output, with the exception that follows it.
fn telling_line(texts: &[String]) -> Option<String> {
    let mut lines = texts.iter().flat_map(|text| text.lines());
    let is_telling = |line: &str| {
        line.starts_with("ERROR") || line.contains("OutOfMemoryError:") || line.starts_with("#  SIG")
    };
    let line = lines.find(|line| is_telling(line))?;
    let exception = lines.next().filter(|next| next.contains("Error:") || next.contains("Exception:"));
    let text = match exception {
        Some(exception) => format!("{} / {}", line.trim_end(), exception.trim()),
        None => line.trim_start_matches('#').trim().to_owned(),
    };
    Some(text.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(runs: bool, log: &str) -> Seen {
        Seen { number: 2, runs, texts: [String::new(), log.to_owned()] }
    }

    #[test]
    fn healthy_nodes_have_no_diagnosis() {
        let log = "INFO  x\nWARN  The JVM is not configured to stop on OutOfMemoryError which can\n";
        assert_eq!(diagnose(&[node(true, log)], Some((1 << 40, Path::new("/x")))), None);
    }

    #[test]
    fn a_full_disk_is_reported_before_its_consequences() {
        let log = "INFO  x\nERROR 2026 Stopping native transport\njava.lang.InternalError: a fault occurred\n\
            \tat x\nERROR y\n";
        let reported = diagnose(&[node(true, log)], Some((4 << 20, Path::new("/x")))).unwrap();
        assert!(reported.starts_with("the disk of /x is full: 4 MiB are left; node 2 logged"), "{reported}");
        assert!(
            reported.contains("Stopping native transport / java.lang.InternalError: a fault occurred"),
            "{reported}"
        );
    }

    #[test]
    fn an_ended_node_is_reported_with_its_last_message() {
        assert_eq!(diagnose(&[node(false, "INFO  x\n")], None).unwrap(), "node 2 has ended");
        let mut crashed = node(false, "INFO  x\n");
        crashed.texts[0] = "#\n#  SIGBUS (0x7) at pc=0x00, pid=1, tid=2\n#\n".into();
        let reported = diagnose(&[crashed], None).unwrap();
        assert_eq!(reported, "node 2 has ended; its last message: \"SIGBUS (0x7) at pc=0x00, pid=1, tid=2\"");
    }

    #[test]
    fn nodes_are_not_started_on_a_full_disk() {
        let reported = check_room(Path::new("/x"), 3, 600 << 20).unwrap_err().to_string();
        assert!(
            reported.contains("expected 1536 MiB for 3 nodes") && reported.contains("found 600 MiB"),
            "{reported}"
        );
        assert!(check_room(Path::new("/x"), 1, 600 << 20).is_ok());
        assert!(free_bytes(Path::new("/")).is_ok());
    }
}
