//! What a benchmark ran on.

use serde::{Deserialize, Serialize};

/// The machine, as far as it tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many processors this process may use.
    pub processors: usize,
    /// Memory in bytes; 0 when not told.
    pub memory_bytes: u64,
    /// The operating system's kernel, with its version.
    pub system: String,
}

impl Machine {
    /// This machine.
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

/// `MemTotal` of /proc/meminfo, which is told in kibibytes.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_memory_are_found_among_the_other_lines() {
        let cpuinfo =
            "processor\t: 0\nvendor_id\t: X\nmodel name\t: Fast CPU @ 3.00GHz\nmodel name\t: other\n";
        assert_eq!(processor_name(cpuinfo), Some("Fast CPU @ 3.00GHz"));
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       1024 kB\n"), Some(1 << 20));
        assert_eq!((processor_name(""), memory_bytes("MemTotal: much")), (None, None));
    }
}
