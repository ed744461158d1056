//! What else happened on the machine during a phase, from `/proc`.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::format::rounded;

/// From this share of all processors on, other programs disturb a phase.
const SHARE_MAX: f64 = 0.1;

/// What a phase did not get of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Processors that programs outside of the benchmark used, on average; absent if a server may
    /// run on this machine whose process is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_processors: Option<f64>,
    /// Processors that the hypervisor gave to other machines, on average.
    pub stolen_processors: f64,
    /// Share of the time in which some thread of the machine, also of the benchmark, waited for a
    /// processor: pressure stall information. Absent if the kernel does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// Lowest and highest frequency of the processors at the end, MHz; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz: Option<(f64, f64)>,
}

impl Disturbance {
    /// Returns the processors that were missing, if they are enough to change results on a machine
    /// with so many `processors`.
    pub fn missing(&self, processors: usize) -> Option<f64> {
        let missing = self.other_processors.unwrap_or(0.0) + self.stolen_processors;
        (missing >= SHARE_MAX * processors as f64).then_some(missing)
    }

    /// Describes what was missing, if that is enough to change results.
    pub fn text(&self, processors: usize) -> Option<String> {
        self.missing(processors)?;
        let mut text = format!(
            "other programs used {} of {processors} processors",
            rounded(self.other_processors.unwrap_or(0.0))
        );
        if self.stolen_processors >= 0.01 {
            text.push_str(&format!(", and other machines of this host {}", rounded(self.stolen_processors)));
        }
        Some(text)
    }
}

/// What the machine has done since its start, and when that was read.
#[derive(Debug, Clone, Copy)]
pub struct MachineUse {
    at: Instant,
    used_seconds: f64,
    stolen_seconds: f64,
    waited_seconds: Option<f64>,
}

impl MachineUse {
    /// Reads the use of this machine; `None` where `/proc/stat` does not exist.
    pub fn now() -> Option<Self> {
        let (used_seconds, stolen_seconds) = parse_stat(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        Some(Self {
            at: Instant::now(),
            used_seconds,
            stolen_seconds,
            waited_seconds: parse_pressure(&pressure),
        })
    }

    /// Returns what happened since `before`, of which `own_seconds` of processor time are the
    /// benchmark's; `None` if those are not known.
    pub fn since(&self, before: &Self, own_seconds: Option<f64>) -> Disturbance {
        let seconds = (self.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let used = self.used_seconds - before.used_seconds;
        let waited = self.waited_seconds.zip(before.waited_seconds);
        Disturbance {
            other_processors: own_seconds.map(|own| ((used - own) / seconds).max(0.0)),
            stolen_processors: ((self.stolen_seconds - before.stolen_seconds) / seconds).max(0.0),
            waiting: waited.map(|(now, before)| ((now - before) / seconds).clamp(0.0, 1.0)),
            mhz: frequencies(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        }
    }
}

/// Returns the processors that other programs use on this machine at the moment, from a sample that
/// takes `time`.
pub fn others_now(time: Duration) -> Option<Disturbance> {
    let before = MachineUse::now()?;
    std::thread::sleep(time);
    Some(MachineUse::now()?.since(&before, Some(0.0)))
}

/// Parses the first line of `/proc/stat`, proc(5): `cpu user nice system idle iowait irq softirq
/// steal …`, in ticks. Returns the seconds of programs and the stolen ones. Interrupts are left
/// out: no process has them, so those of the benchmark could not be distinguished.
fn parse_stat(stat: &str) -> Option<(f64, f64)> {
    let fields: Vec<&str> = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().collect();
    let seconds = |index: usize| {
        let ticks: u64 = fields.get(index)?.parse().ok()?;
        Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    };
    Some((seconds(0)? + seconds(1)? + seconds(2)?, seconds(7)?))
}

/// Parses `/proc/pressure/cpu`: `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`.
fn parse_pressure(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    let micros: u64 = some.rsplit_once("total=")?.1.trim().parse().ok()?;
    Some(micros as f64 / 1e6)
}

/// Returns the lowest and the highest frequency of `/proc/cpuinfo`.
fn frequencies(cpuinfo: &str) -> Option<(f64, f64)> {
    let mhz = cpuinfo.lines().filter(|line| line.starts_with("cpu MHz"));
    let mhz = mhz.filter_map(|line| line.split_once(':')?.1.trim().parse::<f64>().ok());
    mhz.fold(None, |range, mhz| {
        let (low, high) = range.unwrap_or((mhz, mhz));
        Some((mhz.min(low), mhz.max(high)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_what_the_benchmark_did_not() {
        let before = MachineUse {
            at: Instant::now(),
            used_seconds: 100.0,
            stolen_seconds: 5.0,
            waited_seconds: Some(1.0),
        };
        let after = MachineUse {
            at: before.at + Duration::from_secs(10),
            used_seconds: 115.0,
            stolen_seconds: 6.0,
            waited_seconds: Some(6.0),
        };
        let found = after.since(&before, Some(12.0));
        assert_eq!((found.other_processors, found.stolen_processors), (Some(0.3), 0.1));
        assert_eq!(found.waiting, Some(0.5));
        assert_eq!(found.missing(2), Some(0.4));
        assert_eq!(
            found.text(2).unwrap(),
            "other programs used 0.30 of 2 processors, and other machines of this host 0.10"
        );
        assert_eq!(found.missing(8), None, "half a per cent of eight processors is no disturbance");
        let unknown = after.since(&before, None);
        assert_eq!((unknown.other_processors, unknown.missing(2)), (None, None));
        // Ticks of processes and of the machine differ by roundings.
        assert_eq!(after.since(&before, Some(15.1)).other_processors, Some(0.0));
    }

    #[test]
    fn files_of_the_kernel_are_parsed() {
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        let stat = "cpu  300 100 200 9000 50 70 80 40 300 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(parse_stat(stat), Some((600.0 / hertz, 40.0 / hertz)));
        assert_eq!([parse_stat(""), parse_stat("cpu  1 2 3"), parse_stat("cpu  a b c d e f g h")], [None; 3]);
        let pressure = "some avg10=0.10 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=7\n";
        assert_eq!((parse_pressure(pressure), parse_pressure("")), (Some(2.5), None));
        let cpuinfo = "cpu MHz\t\t: 2250.5\nflags: x\ncpu MHz\t\t: 1800\n";
        assert_eq!((frequencies(cpuinfo), frequencies("")), (Some((1800.0, 2250.5)), None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_use_of_this_machine_is_read_and_grows() {
        let before = MachineUse::now().unwrap();
        assert!(before.used_seconds > 0.0 && before.stolen_seconds >= 0.0, "{before:?}");
        let start = Instant::now();
        while MachineUse::now().unwrap().used_seconds == before.used_seconds {
            assert!(start.elapsed() < Duration::from_secs(60), "this thread uses a processor");
        }
    }
}
