//! Runs the built-in experiments at a small scale through the command line.

use std::path::Path;

use cassette_lab::LabError;
use cassette_lab::cli::LabCommand;
use clap::Parser;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

fn lab(arguments: &[&str]) -> Result<bool, LabError> {
    Cli::parse_from(["lab"].iter().chain(arguments)).command.run()
}

fn run(name: &str, scale: &str, results: &Path) {
    let results = results.to_str().unwrap();
    let fine =
        lab(&["run", name, "--accept-disturbed", "--scale", scale, "--repeats", "1", "--results", results]);
    assert!(fine.unwrap_or_else(|error| panic!("{name}: {error}")), "{name}: operations failed");
    let kept = std::fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.filter(|path| path.to_str().unwrap().contains(name)).collect();
    let report = std::fs::read_to_string(kept[0].join("report.md")).unwrap();
    assert!(report.contains("## Verdict") && report.contains("## Settings"), "{report}");
    assert!(!report.contains("Not finished"), "{report}");
    let page = std::fs::read_to_string(kept[0].join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
}

#[test]
fn caches_and_levels_run_small() {
    run("cassandra-caches-and-lcs", "0.0005", tempfile::tempdir().unwrap().path());
}

#[test]
fn overlapping_tombstones_run_small() {
    run("overlapping-tombstones", "0.0005", tempfile::tempdir().unwrap().path());
}

#[test]
fn leveldb_tuning_runs_small() {
    run("leveldb-tuning", "0.01", tempfile::tempdir().unwrap().path());
}

#[test]
fn scale_out_runs_small() {
    run("scale-out-quorum", "0.0005", tempfile::tempdir().unwrap().path());
}
