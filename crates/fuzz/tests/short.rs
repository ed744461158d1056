//! A short run of every target, the same every time: the corpus, where the inputs are that found
//! bugs, and some thousand random changes. `CASSETTE_FUZZ_SECONDS` makes it longer, and different
//! every time.

use cassette_fuzz::{TARGETS, memory, run, target};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

macro_rules! targets {
    ($($name:ident),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                println!("{} inputs", run::short(target(stringify!($name)).unwrap()));
            }
        )+
    };
}

targets!(
    frames,
    cql,
    values,
    json,
    class_names,
    components,
    sstable,
    mutations,
    messages,
    segments,
    data_directory,
    paging_state,
    http,
    experiments,
    sasl,
    keystores,
    query_logs,
    streams,
    shell,
    agents
);

#[test]
fn every_target_has_a_short_run() {
    let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(NAMES, all);
}
