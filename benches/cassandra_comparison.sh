#!/usr/bin/env bash
# YCSB on `cassette serve` and on Apache Cassandra, one after the other in each round: same machine, same client, 16 requests in
# flight, commit log periodic in both. Prints the laboratory's tables and leaves its JSON beside them in bench-results/.
#
#   RECORDS=1000000 OPERATIONS=1000000 SCANS=50000 ROUNDS=3 HEAP=2G benches/cassandra_comparison.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
records=${RECORDS:-1000000} operations=${OPERATIONS:-1000000} scans=${SCANS:-50000} rounds=${ROUNDS:-3}
cassette=$root/target/release/cassette
results=${RESULTS:-$root/bench-results}
node=(--directory "$root/.cache/cassandra/comparison")
mkdir -p "$results" && cd "$results"

measure() { # name, contact, pid
  local common=(--threads 16 --engine cql --contact "$2" --server-pid "$3" --records "$records")
  "$cassette" lab ycsb "${common[@]}" --workload a,b,c,f,d --operations "$operations" --replace | tee "$1.txt"
  "$cassette" lab ycsb "${common[@]}" --workload e --operations "$scans" --phase run | tee -a "$1.txt"
}

for round in $(seq "$rounds"); do
  data=$(mktemp -d)
  "$cassette" serve --data "$data" --listen 127.0.0.1:9241 >/dev/null 2>"$results/serve.log" &
  pid=$!
  until (exec 3<>/dev/tcp/127.0.0.1/9241) 2>/dev/null; do sleep 0.1; done
  measure "cassette-$round" 127.0.0.1:9241 "$pid"
  kill "$pid" && wait "$pid"
  rm -rf "$data"

  "$cassette" lab cassandra start "${node[@]}" --heap "${HEAP:-2G}" --network 127.0.78 --port 9242
  pid=$("$cassette" lab cassandra status "${node[@]}" | sed -n 's/^node 1: process \([0-9]*\),.*/\1/p')
  measure "cassandra-$round" 127.0.78.1:9242 "$pid"
  "$cassette" lab cassandra stop "${node[@]}"
  sleep 5
done
