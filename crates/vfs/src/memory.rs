//! The memory limit of this process.

use std::fs;
use std::sync::OnceLock;

/// Returns the bytes of memory that this process may use: the machine's, or the limit of its
/// control group if that is less. `None` if the platform does not report it.
pub fn memory_limit() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).ok();
        let machine = read("/proc/meminfo").as_deref().and_then(total_of);
        // The paths under which a container sees its own group; version 2, then version 1.
        let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        let group = groups.iter().filter_map(|path| limit_of(&read(path)?)).min();
        [machine, group].into_iter().flatten().min()
    })
}

/// `MemTotal:       24638876 kB`, which means KiB.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A number of bytes, or `max`.
fn limit_of(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_understood() {
        let meminfo = "MemTotal:       24638876 kB\nMemFree:        18012340 kB\n";
        assert_eq!(total_of(meminfo), Some(24638876 * 1024));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert_eq!(limit_of("536870912\n"), Some(512 << 20));
        assert_eq!(limit_of("max\n"), None);
    }
}
