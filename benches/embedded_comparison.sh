#!/usr/bin/env bash
# YCSB on the embedded engine and on LevelDB, RocksDB and fjall, in one thread of one process, one after the other in each round.
# Prints the laboratory's tables and leaves them in bench-results/.
#
#   RECORDS=1000000 OPERATIONS=200000 SCANS=20000 ROUNDS=3 ENGINES="embedded rocksdb leveldb fjall" benches/embedded_comparison.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
records=${RECORDS:-1000000} operations=${OPERATIONS:-200000} scans=${SCANS:-20000} rounds=${ROUNDS:-3}
engines=${ENGINES:-embedded rocksdb leveldb fjall}
cassette=${CASSETTE_BINARY:-$root/target/release/cassette}
results=${RESULTS:-$root/bench-results}
mkdir -p "$results" && cd "$results"

for round in $(seq "$rounds"); do
  for engine in $engines; do
    data=$(mktemp -d)
    common=(--engine "$engine" --data "$data" --threads 1 --records "$records")
    "$cassette" lab ycsb "${common[@]}" --workload a,b,c,f,d --operations "$operations" | tee "$engine-$round.txt"
    "$cassette" lab ycsb "${common[@]}" --workload e --operations "$scans" --phase run | tee -a "$engine-$round.txt"
    rm -rf "$data"
  done
done
