//! The operating system's statistics of a process.

use std::fs;

/// Resident memory, bytes.
pub fn resident_bytes(id: u32) -> u64 {
    status(id, "VmRSS:") * 1024
}

/// Peak resident memory, bytes.
pub fn peak_resident_bytes(id: u32) -> u64 {
    status(id, "VmHWM:") * 1024
}

/// Threads.
pub fn threads(id: u32) -> u64 {
    status(id, "Threads:")
}

/// Open file descriptors.
pub fn open_files(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

/// The number on a line of `/proc/<id>/status`.
fn status(id: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
