//! The operating system's statistics of this process.

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
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = kibibytes(&read("/proc/meminfo"), "MemTotal:");
    let group = read("/sys/fs/cgroup/memory.max").trim().parse().unwrap_or(u64::MAX);
    Memory { resident: kibibytes(&read("/proc/self/status"), "VmRSS:"), limit: machine.min(group) }
}

/// Returns the bytes in a line such as `VmRSS:   1234 kB`; 0 without such a line.
fn kibibytes(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
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
    }
}
