//! Fuzz targets for every parser of outside bytes, and the drivers that run them.
//!
//! A [`Target`] is a function of bytes that panics when it finds a bug. Two drivers call it:
//! [`run::short`], which the test command uses and which repeats exactly, and libFuzzer
//! (`src/bin/libfuzzer.rs`, `make fuzz`), which is guided by coverage. Both start from the target's
//! generated seeds and from `corpus/<target>/`, where every input that found a bug stays.
//! `docs/reliability.md` lists the targets.

mod golden;
pub mod memory;
pub mod mutate;
pub mod run;
mod subjects;
pub mod targets;

use std::path::PathBuf;

pub use targets::TARGETS;

/// A parser of outside bytes, and what must hold of it for every input.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also that of its directory in the corpus.
    pub name: &'static str,
    /// Panics if the input makes anything untrue that must hold.
    pub run: fn(&[u8]),
    /// Generates inputs that are valid, for mutation.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Pieces of the grammar.
    pub words: &'static [&'static [u8]],
    /// Inputs that the test command runs.
    pub inputs: u32,
}

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// The directory of its committed inputs.
    pub fn corpus_directory(&self) -> PathBuf {
        [env!("CARGO_MANIFEST_DIR"), "corpus", self.name].iter().collect()
    }

    /// Its committed inputs with their file names, in the order of these.
    ///
    /// # Panics
    /// If a file cannot be read.
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let Ok(entries) = std::fs::read_dir(self.corpus_directory()) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }
}
