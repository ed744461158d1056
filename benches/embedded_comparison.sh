#!/usr/bin/env bash
# YCSB on the embedded engine and on LevelDB, RocksDB and fjall, in one thread of one process, one after the other in each round.
# Prints the laboratory's tables and leaves them in bench-results/.
#
#   RECORDS=1000000 OPERATIONS=200000 SCANS=20000 ROUNDS=3 ENGINES="embedded embedded-mmap rocksdb leveldb fjall" benches/embedded_comparison.sh
#
# "embedded-mmap" is the embedded engine with disk_access_mode mmap, which is how LevelDB reads its files.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
records=${RECORDS:-1000000} operations=${OPERATIONS:-200000} scans=${SCANS:-20000} rounds=${ROUNDS:-3}
engines=${ENGINES:-embedded embedded-mmap rocksdb leveldb fjall}
cassette=${CASSETTE_BINARY:-$root/target/release/cassette}
results=${RESULTS:-$root/bench-results}
mkdir -p "$results" && cd "$results"

for round in $(seq "$rounds"); do
  for engine in $engines; do
    data=$(mktemp -d)
    common=(--engine "${engine%-mmap}" --data "$data" --threads 1 --records "$records")
    if [[ $engine == *-mmap ]]; then common+=(--disk-access mmap); fi
    "$cassette" lab ycsb "${common[@]}" --workload a,b,c,f,d --operations "$operations" | tee "$engine-$round.txt"
    "$cassette" lab ycsb "${common[@]}" --workload e --operations "$scans" --phase run | tee -a "$engine-$round.txt"
    rm -rf "$data"
  done
done
