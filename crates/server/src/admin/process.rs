//! What the operating system knows of this process.

/// Bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// Held now; 0 where that cannot be told.
    pub resident: u64,
    /// That may be held: the limit of the control group, or what the machine has.
    pub limit: u64,
}

/// The memory of this process.
pub(super) fn memory() -> Memory {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = kibibytes(&read("/proc/meminfo"), "MemTotal:");
    let group = read("/sys/fs/cgroup/memory.max").trim().parse().unwrap_or(u64::MAX);
    Memory { resident: kibibytes(&read("/proc/self/status"), "VmRSS:"), limit: machine.min(group) }
}

/// The bytes that a line such as `VmRSS:   1234 kB` says; 0 if there is none.
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
