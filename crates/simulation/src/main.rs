//! `make simulate`: runs seeds, and shortens failing runs.

use std::sync::atomic::{AtomicU64, Ordering};

use cassette_simulation::{OPERATIONS, Profile, operations, run, run_seed};
use clap::Parser;

/// Runs the simulation for a range of seeds.
#[derive(Parser)]
struct Arguments {
    /// Number of seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of operations per seed.
    #[arg(long, default_value_t = OPERATIONS)]
    operations: usize,
    /// Number of threads.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Print every step of every run.
    #[arg(long)]
    trace: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let (next, failed) = (AtomicU64::new(arguments.from), AtomicU64::new(0));
    let end = arguments.from + arguments.seeds;
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    if arguments.trace {
                        trace(seed, arguments.operations);
                    }
                    if let Err(failure) = run_seed(seed, arguments.operations) {
                        println!("{failure}\n");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    let Arguments { seeds, from, operations, .. } = arguments;
    println!("{seeds} seeds from {from}, {operations} operations each: {failed} failed");
    if failed > 0 {
        std::process::exit(1);
    }
}

fn trace(seed: u64, count: usize) {
    let profile = Profile::of(seed);
    let trace = match run(&profile, &operations(seed, &profile, count)) {
        Ok(trace) => trace,
        Err(failure) => failure.trace,
    };
    println!("seed {seed}\n{}", trace.join("\n"));
}
