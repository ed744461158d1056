#!/usr/bin/env bash
# What the caches are good for: YCSB C with the row cache, E with file caches of several sizes, increments with the counter cache, all
# embedded and in one thread, every configuration several times in an order of its own; then C served, the row cache off and
# on by turns. Throughput stands beside CPU time an operation, which other programs on the machine disturb less.
#
#   SCALE=1 RECORDS=100000 OPERATIONS=300000 ROUNDS=5 benches/caches.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
scale=${SCALE:-1} records=${RECORDS:-100000} operations=${OPERATIONS:-300000} rounds=${ROUNDS:-5}
cassette=${CASSETTE_BINARY:-$root/target/release/cassette}
results=${RESULTS:-$root/bench-results}
mkdir -p "$results" && cd "$results"

for experiment in ${EXPERIMENTS:-row-cache file-cache counter-cache}; do
  "$cassette" lab run "$root/benches/caches/$experiment.toml" --scale "$scale"
done

served() { # on|off, round
  local data size rows pid contact=127.0.0.1:9243
  data=$(mktemp -d)
  case $1 in on) size=1GiB rows=ALL ;; *) size=0MiB rows=NONE ;; esac
  echo "row_cache_size: $size" >"$data/cassandra.yaml"
  "$cassette" serve --config "$data/cassandra.yaml" --data "$data/data" --listen "$contact" --admin off >/dev/null 2>"$results/serve.log" &
  pid=$!
  until (exec 3<>"/dev/tcp/${contact/:/\/}") 2>/dev/null; do sleep 0.1; done
  local common=(--engine cql --contact "$contact" --server-pid "$pid" --threads 16 --records "$records" --workload c)
  "$cassette" lab ycsb "${common[@]}" --phase load --no-json --table-options "caching = {'keys': 'ALL', 'rows_per_partition': '$rows'}" >/dev/null
  "$cassette" lab ycsb "${common[@]}" --phase run --no-json --operations "$operations" >/dev/null
  "$cassette" lab ycsb "${common[@]}" --phase run --operations "$operations" | tee "row-cache-$1-$2.txt"
  kill "$pid" && wait "$pid"
  rm -rf "$data"
}

for round in $(seq "$rounds"); do
  served off "$round"
  served on "$round"
done
