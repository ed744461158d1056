//! Memory of a process, as the operating system reports it.

use std::fs;

/// Resident memory, bytes.
pub fn resident_bytes(id: u32) -> u64 {
    status(id, "VmRSS:") * 1024
}

/// Resident memory without mapped files, such as the program's code, bytes.
pub fn anonymous_bytes(id: u32) -> u64 {
    status(id, "RssAnon:") * 1024
}

/// Peak resident memory, bytes.
pub fn peak_resident_bytes(id: u32) -> u64 {
    status(id, "VmHWM:") * 1024
}

/// The number on a line of `/proc/<id>/status`.
fn status(id: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
