//! The target `configuration` under libFuzzer. `make fuzz` builds and runs this.
//!
//! The configuration is in the crate of the `cassette` command, which is no library and does not
//! depend on this one.

#![no_main]

#[path = "../../../cli/src/address.rs"]
mod address;
#[path = "../../../cli/src/config/mod.rs"]
#[allow(dead_code, reason = "the target reads a configuration, and does not serve with it")]
mod config;
#[path = "../../../cli/src/config/fuzz.rs"]
mod fuzz;

use cassette_fuzz::{memory, run};
use config::Config;
use fuzz::TARGET;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: run::prepare(&TARGET), |input: &[u8]| run::one(&TARGET, input));
