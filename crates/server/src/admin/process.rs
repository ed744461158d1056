//! The operating system's statistics of this process.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// Resident now; 0 if unknown.
    pub resident: u64,
    /// The limit of the control group, or the memory of the machine.
    pub limit: u64,
}

/// Returns the memory of this process.
pub(super) fn memory() -> Memory {
    let machine = kibibytes(&read("/proc/meminfo"), "MemTotal:");
    let group = read("/sys/fs/cgroup/memory.max").trim().parse().unwrap_or(u64::MAX);
    Memory { resident: kibibytes(&read("/proc/self/status"), "VmRSS:"), limit: machine.min(group) }
}

/// Returns the processor time of all threads in seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns when the process started, in seconds since 1970.
pub(super) fn start_time() -> Option<f64> {
    let uptime: f64 = read("/proc/uptime").split(' ').next()?.parse().ok()?;
    let age = uptime - start_after_boot(&read("/proc/self/stat"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.as_secs_f64() - age)
}

/// Returns the number of open file descriptors.
pub(super) fn descriptors() -> Option<u64> {
    // One of them is the directory being read.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    Some(open.saturating_sub(1))
}

/// Returns the limit of open file descriptors; `None` without a limit.
pub(super) fn descriptors_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the bytes in a line such as `VmRSS:   1234 kB`; 0 without such a line.
fn kibibytes(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// Returns the seconds from the boot to the start of a process, given its `/proc/<pid>/stat`.
fn start_after_boot(stat: &str) -> Option<f64> {
    // The second field is the name in parentheses, which may contain spaces and parentheses itself.
    // The start is field 22, in units of which `/proc` has 100 a second on every architecture.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let ticks: u64 = after_name.split(' ').nth(22 - 3)?.parse().ok()?;
    Some(ticks as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let text = "Name:\tcassette\nVmRSS:\t    1234 kB\n";
        assert_eq!(kibibytes(text, "VmRSS:"), 1234 * 1024);
        assert_eq!(kibibytes(text, "VmSwap:"), 0);
        assert_eq!(kibibytes("VmRSS: much\n", "VmRSS:"), 0);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 3 2 0 0 20 0 1 0 12345 1 1";
        assert_eq!(start_after_boot(stat), Some(123.45));
        assert_eq!(start_after_boot("7 (a) S 1"), None);
    }

    #[test]
    fn a_process_knows_its_descriptors_start_and_processor_time() {
        let before = descriptors().unwrap();
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        // Other tests of this process open and close files, too.
        assert!(descriptors().unwrap() > before.saturating_sub(40), "{before}");
        drop(files);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let start = start_time().unwrap();
        assert!(start < now + 1.0 && start > now - 86_400.0, "{start} {now}");
        assert!(cpu_seconds() > 0.0);
    }
}
