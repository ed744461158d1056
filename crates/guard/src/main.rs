//! Counts the instructions of frequent operations, and compares them with the recorded counts.
//!
//! ```text
//! cassette-guard check [CASE...]    fails if a count has grown by more than 3 %
//! cassette-guard update [CASE...]   records counts
//! cassette-guard run CASE           performs a case, for callgrind and other profilers
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use crate::callgrind::{count, output_of, tools};
use crate::cases::Case;
use crate::counts::{Counts, Table, Verdict};
use crate::meter::Meter;

mod callgrind;
mod cases;
mod counts;
mod meter;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: cassette-guard check|update [CASE...] | run CASE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, names)) => execute(command, names),
        None => Err(USAGE.to_owned()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cassette-guard: {error}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: &str, names: &[String]) -> Result<ExitCode, String> {
    match (command, names) {
        ("check", names) => check(&selected(names)?),
        ("update", names) => update(&selected(names)?),
        ("run", [name]) => {
            for case in selected(std::slice::from_ref(name))? {
                (case.run)(Meter::new(case.operations));
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// Returns the cases of these names; all without names.
fn selected(names: &[String]) -> Result<Vec<Case>, String> {
    let mut cases = cases::all();
    if let Some(unknown) = names.iter().find(|name| !cases.iter().any(|case| case.name == *name)) {
        let known: Vec<&str> = cases.iter().map(|case| case.name).collect();
        return Err(format!("unknown case {unknown}: expected one of {}", known.join(", ")));
    }
    if !names.is_empty() {
        cases.retain(|case| names.iter().any(|name| name == case.name));
    }
    Ok(cases)
}

fn table_path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt"))
}

fn read_table() -> Result<Table, String> {
    let path = table_path();
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Table::parse(&text)
}

/// Compares cases with the table.
fn check(cases: &[Case]) -> Result<ExitCode, String> {
    let table = read_table()?;
    let counts = count(cases)?;
    let mut failures = Vec::new();
    let mut has_shrunk = false;
    for case in cases {
        let verdict = print(case, &table, &counts);
        has_shrunk |= verdict == Verdict::Shrunk;
        if verdict.is_failure() {
            failures.push(case.name);
        }
    }
    if has_shrunk {
        println!("\nRecord the lower counts: make bench-guard-update");
    }
    let Some(first) = failures.first() else { return Ok(ExitCode::SUCCESS) };
    println!(
        "\n{} of {} counts have grown or are not recorded: {}",
        failures.len(),
        cases.len(),
        failures.join(", ")
    );
    println!("Functions with their shares: callgrind_annotate {}", output_of(first)?.display());
    println!("If the growth is necessary, record it in the same commit: make bench-guard-update");
    let tools = tools();
    if tools != table.tools {
        println!("Other tools also change counts. Recorded with {}; counted with {tools}", table.tools);
    }
    Ok(ExitCode::FAILURE)
}

/// Prints the line of a case.
fn print(case: &Case, table: &Table, counts: &Counts) -> Verdict {
    let (recorded, count) = (table.counts.get(case.name).copied(), counts[case.name]);
    let verdict = Verdict::of(recorded, count);
    let percent = |recorded: u64| format!("{:+.2} %", 100.0 * (count as f64 / recorded as f64 - 1.0));
    let change = recorded.map(percent).unwrap_or_default();
    let remark = match verdict {
        Verdict::Same => "",
        Verdict::Grown => "GROWN",
        Verdict::Shrunk => "shrunk",
        Verdict::New => "NOT RECORDED",
    };
    println!("{:32}{count:>9}{change:>12}  {remark}", case.name);
    verdict
}

/// Records the counts of cases.
fn update(cases: &[Case]) -> Result<ExitCode, String> {
    let (mut table, tools) = (read_table()?, tools());
    if table.tools != tools && !table.counts.is_empty() && cases.len() != cases::all().len() {
        return Err(format!(
            "the table was recorded with {}, and this is {tools}: record all cases",
            table.tools
        ));
    }
    let counts = count(cases)?;
    for case in cases {
        print(case, &table, &counts);
    }
    table.update(&tools, &counts);
    let names: Vec<&str> = cases::all().iter().map(|case| case.name).collect();
    let path = table_path();
    std::fs::write(&path, table.to_text(&names)).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_exactly_the_cases() {
        let table = read_table().unwrap();
        let mut names: Vec<&str> = cases::all().iter().map(|case| case.name).collect();
        let text = std::fs::read_to_string(table_path()).unwrap();
        assert_eq!(table.to_text(&names), text, "run `make bench-guard-update`");
        names.sort_unstable();
        assert!(table.counts.keys().eq(names.iter()), "run `make bench-guard-update`");
    }

    #[test]
    fn unknown_cases_are_rejected_by_name() {
        let error = selected(&["reed_memtable".to_owned()]).unwrap_err();
        assert!(error.starts_with("unknown case reed_memtable: expected one of parse_insert, "), "{error}");
        assert_eq!(selected(&["insert".to_owned()]).unwrap().len(), 1);
    }
}
