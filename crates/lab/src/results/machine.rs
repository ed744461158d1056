//! The machine of a benchmark.

use serde::{Deserialize, Serialize};

/// Description of the machine, as far as available.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// Number of processors available to this process.
    pub processors: usize,
    /// Memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// Kernel of the operating system, with its version.
    pub system: String,
}

impl Machine {
    /// Describes this machine.
    pub fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let uname = rustix::system::uname();
        Self {
            processor: processor_name(&read("/proc/cpuinfo")).unwrap_or("unknown").to_string(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
            system: format!(
                "{} {} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
        }
    }
}

fn processor_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// Parses `MemTotal` of /proc/meminfo, in kibibytes.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_name_and_memory_are_parsed() {
        let cpuinfo =
            "processor\t: 0\nvendor_id\t: X\nmodel name\t: Fast CPU @ 3.00GHz\nmodel name\t: other\n";
        assert_eq!(processor_name(cpuinfo), Some("Fast CPU @ 3.00GHz"));
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       1024 kB\n"), Some(1 << 20));
        assert_eq!((processor_name(""), memory_bytes("MemTotal: much")), (None, None));
    }
}
