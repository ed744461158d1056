#!/bin/bash
# fuzz.sh SECONDS [TARGET…]: runs targets under libFuzzer, one after the other, all of them if none is named.
#
# The instrumentation is LLVM's SanitizerCoverage alone, which the stable compiler can insert; no nightly compiler and no
# cargo-fuzz is needed. Inputs that reach new code are kept in target/fuzz/corpus/TARGET, inputs that fail in
# target/fuzz/findings: copy these into crates/fuzz/corpus/TARGET with the fix.
set -eu
cd "$(dirname "$0")/../.."
seconds=$1
shift
triple=$(rustc -vV | sed -n 's/^host: //p')
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions --cfg fuzzing"
# With --target, build scripts and procedural macros are not instrumented.
RUSTFLAGS=$flags CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo build --package cassette-fuzz --release --features libfuzzer --bins \
    --target "$triple" --target-dir target/fuzz/build
[ $# -gt 0 ] || set -- $(sed -n 's/^    \([a-z_]*\)::TARGET,$/\1/p' crates/fuzz/src/targets/mod.rs) configuration
mkdir -p target/fuzz/findings
failed=0
for target in "$@"; do
    seeds=target/fuzz/seeds/$target grown=target/fuzz/corpus/$target committed=crates/fuzz/corpus/$target
    rm -rf "$seeds"
    mkdir -p "$seeds" "$grown"
    corpora=("$grown" "$seeds")
    [ ! -d "$committed" ] || corpora+=("$committed")
    [ "$target" = configuration ] && binary=libfuzzer-configuration || binary=libfuzzer
    echo "$target: $seconds s"
    CASSETTE_FUZZ_TARGET=$target CASSETTE_FUZZ_SEEDS=$seeds RUST_BACKTRACE=1 \
        target/fuzz/build/"$triple"/release/"$binary" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
        -rss_limit_mb=4096 -artifact_prefix=target/fuzz/findings/"$target"- -print_final_stats=1 -verbosity=0 \
        "${corpora[@]}" || failed=1
done
exit $failed
