//! One target under libFuzzer: `CASSETTE_FUZZ_TARGET` names it. `make fuzz` builds and runs this.

#![no_main]

use std::sync::OnceLock;

use cassette_fuzz::{Target, memory, run, target};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn prepare() {
    let name = std::env::var("CASSETTE_FUZZ_TARGET").expect("CASSETTE_FUZZ_TARGET: the name of a target");
    let target = target(&name).unwrap_or_else(|| panic!("CASSETTE_FUZZ_TARGET: no target is called {name}"));
    TARGET.set(target).unwrap_or_else(|_| panic!("prepared twice"));
    run::prepare(target);
}

libfuzzer_sys::fuzz_target!(
    init: prepare(),
    |input: &[u8]| run::one(TARGET.get().expect("libFuzzer prepares first"), input)
);
