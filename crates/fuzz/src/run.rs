//! Running a target: with a fuzzing engine, or without one on the corpus, the seeds, and random
//! changes of both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::Target;
use crate::memory::measure;
use crate::mutate::mutate;

/// An input that takes longer hangs: the slowest takes milliseconds.
const HANG: Duration = Duration::from_secs(20);

/// What a target may hold for an input of `length` bytes.
fn memory_max(length: usize) -> usize {
    (64 << 20) + 256 * length
}

/// Runs one input and panics on a bug, including one of memory.
pub fn one(target: &Target, input: &[u8]) {
    let held = measure(|| (target.run)(input));
    let most = memory_max(input.len());
    assert!(held <= most, "memory of {}: expected at most {most} bytes, found {held}", target.name);
}

/// Before a run under libFuzzer: writes the target's seeds to the directory `CASSETTE_FUZZ_SEEDS`,
/// if that is set, which libFuzzer then reads as one of its corpora.
///
/// # Panics
/// If they cannot be written.
pub fn prepare(target: &Target) {
    if let Ok(directory) = std::env::var("CASSETTE_FUZZ_SEEDS") {
        std::fs::create_dir_all(&directory).expect("a directory for seeds");
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(format!("{directory}/seed-{number}"), seed).expect("a file for a seed");
        }
    }
    (target.run)(&[]);
}

/// Runs the target's corpus and seeds, then `target.inputs` changes of them, which are the same
/// every time; or changes that differ every time for as many seconds as `CASSETTE_FUZZ_SECONDS`
/// specifies. Returns how many inputs ran.
///
/// # Panics
/// On the first bug, after writing the input to `target/fuzz/findings/`.
pub fn short(target: &Target) -> u64 {
    let seconds = std::env::var("CASSETTE_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("CASSETTE_FUZZ_SECONDS: a number of seconds"));
    let watchdog = Watchdog::start(target);
    let corpus: Vec<Vec<u8>> = target.corpus().into_iter().map(|(_, input)| input).collect();
    let mut seeds = (target.seeds)();
    // What the target prepares once is not charged to the first input.
    (target.run)(&[]);
    let mut inputs = 0;
    let mut run = |input: &[u8]| {
        inputs += 1;
        watchdog.begin(input);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| one(target, input))) {
            eprintln!("the input is in {}", save(target, input).display());
            std::panic::resume_unwind(panic);
        }
    };
    corpus.iter().chain(&seeds).for_each(|input| run(input));
    seeds.extend(corpus);
    let entropy = if seconds.is_some() { rand::random() } else { 1 };
    let mut rng = SmallRng::seed_from_u64(entropy);
    let began = Instant::now();
    match seconds {
        None => (0..target.inputs).for_each(|_| run(&mutate(&mut rng, &seeds, target.words))),
        Some(seconds) => {
            while began.elapsed() < Duration::from_secs(seconds) {
                run(&mutate(&mut rng, &seeds, target.words));
            }
        }
    }
    inputs
}

/// Writes an input where it can be taken into the corpus.
fn save(target: &Target, input: &[u8]) -> PathBuf {
    let directory: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../target/fuzz/findings"].iter().collect();
    let path = directory.join(format!("{}-{:08x}", target.name, crc32fast::hash(input)));
    std::fs::create_dir_all(&directory).expect("a directory for findings");
    std::fs::write(&path, input).expect("a file for the finding");
    path
}

/// Ends the process when an input hangs, after saving it.
struct Watchdog(Sender<Vec<u8>>);

impl Watchdog {
    fn start(target: &Target) -> Self {
        let (sender, receiver) = channel::<Vec<u8>>();
        let target = *target;
        std::thread::spawn(move || {
            let mut current: Option<Vec<u8>> = None;
            loop {
                match (receiver.recv_timeout(HANG), &current) {
                    (Ok(input), _) => current = Some(input),
                    (Err(RecvTimeoutError::Disconnected), _) => return,
                    (Err(RecvTimeoutError::Timeout), None) => {}
                    (Err(RecvTimeoutError::Timeout), Some(input)) => {
                        let path = save(&target, input);
                        eprintln!("{}: hangs for {HANG:?}; the input is in {}", target.name, path.display());
                        std::process::abort();
                    }
                }
            }
        });
        Self(sender)
    }

    fn begin(&self, input: &[u8]) {
        self.0.send(input.to_vec()).expect("the watchdog runs as long as the target");
    }
}
