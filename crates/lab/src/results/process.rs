//! Resource usage of a process, from `/proc`.

use std::io;

use serde::{Deserialize, Serialize};

use crate::LabError;

/// Resources that a process has used since its start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Processor time in user mode, in seconds.
    pub user_seconds: f64,
    /// Processor time in the kernel, in seconds.
    pub system_seconds: f64,
    /// Current resident memory, in bytes.
    pub rss_bytes: u64,
    /// Current number of threads.
    pub threads: u64,
    /// Currently open files, sockets and the like; `None` if unavailable.
    pub open_files: Option<u64>,
    /// Bytes written to disk; `None` if unavailable (another user's process).
    pub written_bytes: Option<u64>,
    /// Bytes read from disk; `None` if unavailable.
    pub read_bytes: Option<u64>,
}

impl ProcessUse {
    /// Returns the processor time in both modes, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Adds the usage of another process.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a.unwrap_or(0) + b?).or(a);
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.rss_bytes += other.rss_bytes;
        self.threads += other.threads;
        self.open_files = sum(self.open_files, other.open_files);
        self.written_bytes = sum(self.written_bytes, other.written_bytes);
        self.read_bytes = sum(self.read_bytes, other.read_bytes);
    }

    /// Reads the usage of process `pid`.
    pub fn of(pid: u32) -> Result<Self, LabError> {
        let path = format!("/proc/{pid}/stat");
        let attempt = || format!("reading {path} for the usage of process {pid}");
        let stat = std::fs::read_to_string(&path).map_err(|error| LabError::io(attempt(), error))?;
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let (written_bytes, read_bytes) = (parse_io(&io, "write_bytes:"), parse_io(&io, "read_bytes:"));
        let open_files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok().map(|files| files.count() as u64);
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let page_bytes = rustix::param::page_size() as u64;
        let parsed = parse_stat(&stat, ticks_per_second, page_bytes)
            .ok_or_else(|| LabError::io(attempt(), io::Error::other(format!("malformed: {stat:?}"))))?;
        let mut now = Self { written_bytes, read_bytes, open_files, ..parsed };
        if pid == std::process::id() {
            // The process's clock counts nanoseconds; /proc counts ticks of 10 ms, a tenth of a
            // short phase.
            let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            let seconds = clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9;
            now.user_seconds = (seconds - now.system_seconds).max(now.user_seconds);
        }
        Ok(now)
    }
}

/// Parses a line of `/proc/<pid>/stat`, proc(5): `pid (comm) state …`; `comm` may hold anything, so
/// what follows its last `)` is counted: state is the 3rd field, utime the 14th, stime the 15th,
/// num_threads the 20th, rss the 24th.
fn parse_stat(stat: &str, ticks_per_second: u64, page_bytes: u64) -> Option<ProcessUse> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
    Some(ProcessUse {
        user_seconds: seconds(field(14)?),
        system_seconds: seconds(field(15)?),
        threads: field(20)?,
        rss_bytes: field(24)?.checked_mul(page_bytes)?,
        open_files: None,
        written_bytes: None,
        read_bytes: None,
    })
}

/// Parses a line of `/proc/<pid>/io`.
fn parse_io(io: &str, name: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_fields_are_parsed_after_any_process_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 1000 123456 2000 \
            18446744073709551615 1";
        let expected = ProcessUse {
            user_seconds: 2.5,
            system_seconds: 0.5,
            rss_bytes: 2000 * 4096,
            threads: 9,
            open_files: None,
            written_bytes: None,
            read_bytes: None,
        };
        assert_eq!(parse_stat(stat, 100, 4096), Some(expected));
        assert_eq!(parse_stat("7 (a) S 1 2", 100, 4096), None);
        assert_eq!(parse_stat("", 100, 4096), None);
        let io = "rchar: 1\nread_bytes: 512\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n";
        assert_eq!((parse_io(io, "write_bytes:"), parse_io(io, "read_bytes:")), (Some(4096), Some(512)));
    }

    #[test]
    fn processor_time_of_this_process_is_finer_than_ticks() {
        let looked: Vec<f64> =
            (0..5).map(|_| ProcessUse::of(std::process::id()).unwrap().cpu_seconds()).collect();
        assert!(looked.iter().any(|seconds| (seconds * 100.0).fract() > 1e-6), "{looked:?}");
        assert!(looked.is_sorted(), "{looked:?}");
    }

    #[test]
    fn usage_of_a_missing_process_reports_its_pid() {
        assert!(ProcessUse::of(std::process::id()).unwrap().rss_bytes > 0);
        assert!(ProcessUse::of(u32::MAX).unwrap_err().to_string().contains("4294967295"));
    }
}
