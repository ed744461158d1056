//! The startup time of `cassette serve` on an empty directory, and its resident memory then.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use support::{Server, process};

const RUNS: usize = 11;

fn main() {
    let (mut ready_ms, mut resident_mb) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let directory = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let server = Server::start(&directory.path().join("data"));
        ready_ms.push(began.elapsed().as_secs_f64() * 1e3);
        resident_mb.push(process::resident_bytes(server.id()) as f64 / 1e6);
        server.stop();
    }
    print("ready after", "ms", ready_ms);
    print("resident", "MB", resident_mb);
}

fn print(what: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (least, median, most) = (values[0], values[RUNS / 2], values[RUNS - 1]);
    println!("{what}: median {median:.1} {unit} of {RUNS} runs ({least:.1} to {most:.1})");
}
