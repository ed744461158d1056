//! Cases in processes of their own under callgrind.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cases::Case;
use crate::counts::Counts;
use crate::meter::COUNTED_FUNCTION;

/// Variables of the environment that the processes get. Its size moves the stack, so that copies
/// are aligned differently.
const VARIABLES: [&str; 2] = ["PATH", "TMPDIR"];

/// Lets glibc copy and fill memory of any length with vectors. It uses string instructions for long
/// memory, and callgrind counts those once for each byte.
const GLIBC_TUNABLES: &str =
    "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824";

/// Counts the instructions per operation of cases, several at once.
///
/// # Errors
/// If valgrind is absent, if a case fails, or if nothing was counted in it.
pub fn count(cases: &[Case]) -> Result<Counts, String> {
    check_machine()?;
    let program = std::env::current_exe().map_err(|error| format!("path of this program: {error}"))?;
    let outputs = outputs()?;
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let counted = count_case(&program, case, &outputs);
            let mut results = results.lock().expect("no thread panics");
            results.push(counted.map(|count| (case.name.to_owned(), count)));
            if io::stderr().is_terminal() {
                eprint!("\r{} of {} cases ", results.len(), cases.len());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    results.into_inner().expect("no thread panics").into_iter().collect()
}

fn check_machine() -> Result<(), String> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return Err("the recorded counts are those of Linux on x86-64: run the guard there".into());
    }
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("valgrind --version failed: {}", output.status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("valgrind is not installed: install the system's package valgrind".into())
        }
        Err(error) => Err(format!("valgrind --version: {error}")),
    }
}

/// Creates the directory of callgrind's outputs, beside this program.
fn outputs() -> Result<PathBuf, String> {
    let mut path = std::env::current_exe().map_err(|error| format!("path of this program: {error}"))?;
    path.set_file_name("callgrind");
    std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Returns the file with callgrind's output of a case.
pub fn output_of(case: &str) -> Result<PathBuf, String> {
    Ok(outputs()?.join(format!("{case}.out")))
}

/// Returns the instructions per operation of one case.
fn count_case(program: &Path, case: &Case, outputs: &Path) -> Result<u64, String> {
    let output = outputs.join(format!("{}.out", case.name));
    let mut command = Command::new("valgrind");
    command.env_clear();
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.env("GLIBC_TUNABLES", GLIBC_TUNABLES);
    command
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED_FUNCTION}"))
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .args(["run", case.name]);
    let finished = command.output().map_err(|error| format!("valgrind: {error}"))?;
    if !finished.status.success() {
        let messages = String::from_utf8_lossy(&finished.stderr);
        return Err(format!("case {} failed: {}\n{messages}", case.name, finished.status));
    }
    let text = std::fs::read_to_string(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    match total(&text) {
        Some(total) if total > 0 => Ok((total + case.operations / 2) / case.operations),
        _ => Err(format!("{}: expected a number of instructions, found none", output.display())),
    }
}

/// Returns the sum of an output of callgrind.
fn total(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

/// Returns the versions of what counts depend on besides the code of this workspace.
pub fn tools() -> String {
    let commands = [
        ("rustc", "rustc", "--version"),
        ("cc", "cc", "-dumpfullversion"),
        ("glibc", "getconf", "GNU_LIBC_VERSION"),
        ("valgrind", "valgrind", "--version"),
    ];
    let tool = |(name, program, argument): (&str, &str, &str)| {
        let output = Command::new(program).arg(argument).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        format!("{name} {}", text.as_deref().ok().and_then(version).unwrap_or("unknown"))
    };
    commands.map(tool).join(", ")
}

/// Returns the first version in a text: digits with points, perhaps after a name.
fn version(text: &str) -> Option<&str> {
    let mut words =
        text.split_whitespace().map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()));
    words.find(|word| word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_callgrinds_output_is_found() {
        let output =
            "version: 1\ncreator: callgrind-3.19.0\nevents: Ir\nsummary: 12\n\nfn=(1)\n0 12\n\ntotals: 12\n";
        assert_eq!(total(output), Some(12));
        assert_eq!(total("totals: 0\n"), Some(0));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn versions_are_found_in_the_outputs_of_tools() {
        let outputs =
            ["rustc 1.95.0 (59807616e 2026-04-14)\n", "12.2.0\n", "glibc 2.36\n", "valgrind-3.19.0\n"];
        let versions = outputs.map(|output| version(output).unwrap());
        assert_eq!(versions, ["1.95.0", "12.2.0", "2.36", "3.19.0"]);
        assert_eq!(version("command not found\n"), None);
    }
}
