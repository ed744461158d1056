#!/usr/bin/env bash
# What the audit log costs a server: throughput of YCSB's workloads over CQL, and processor time of the server for an operation,
# without the log, with it, with it but without the category QUERY, and with entries that are dropped rather than waited for.
# The kinds take turns in each round; the last lines are medians with their ranges.
#
#   RECORDS=100000 OPERATIONS=600000 ROUNDS=5 WORKLOADS="c a" benches/audit_log.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
records=${RECORDS:-100000} operations=${OPERATIONS:-600000} rounds=${ROUNDS:-5} threads=${THREADS:-16}
cassette=${CASSETTE:-$root/target/release/cassette}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$work"' EXIT

declare -A options=(
  [off]="enabled: false"
  [on]="enabled: true"
  [without-QUERY]="enabled: true, excluded_categories: QUERY"
  [dropping]="enabled: true, block: false"
)
start() { # kind: sets server, contact
  mkdir -p "$work/$1"
  echo "audit_logging_options: {${options[$1]}}" >"$work/$1/cassandra.yaml"
  rm -rf "$work/$1/data/audit" "$work/out"
  "$cassette" serve --data "$work/$1/data" --config "$work/$1/cassandra.yaml" --listen 127.0.0.1:0 --admin off \
    >"$work/out" 2>"$work/$1/log" &
  server=$!
  until contact=$(grep -o '127\.0\.0\.1:[0-9]*' "$work/out" 2>/dev/null); do kill -0 "$server"; sleep 0.1; done
}
stop() { kill "$server"; wait "$server"; server=; }
ycsb() { "$cassette" lab ycsb --engine cql --contact "$contact" --threads "$threads" --records "$records" --no-json "$@"; }
# Processor time of the server until now, in seconds: fields 14 and 15 follow the name, which may contain blanks.
cpu() { sed 's/.*) //' "/proc/$server/stat" | awk -v hertz="$(getconf CLK_TCK)" '{ print ($12 + $13) / hertz }'; }

for kind in "${!options[@]}"; do
  start "$kind"
  ycsb --phase load --workload a --replace >/dev/null
  stop
done
for _ in $(seq "$rounds"); do
  for kind in off on without-QUERY dropping; do
    start "$kind"
    for workload in ${WORKLOADS:-c a}; do
      before=$(cpu)
      ycsb --phase run --workload "$workload" --operations "$operations" >"$work/run"
      if grep -q FAILED "$work/run"; then cat "$work/run" >&2; exit 1; fi
      rate=$(sed -n 's/^run.* \([0-9,]*\) ops\/s.*/\1/p' "$work/run" | tr -d ,)
      echo "$workload $kind $rate $(awk -v a="$before" -v b="$(cpu)" -v n="$operations" 'BEGIN { print (b - a) / n * 1e6 }')"
    done
    stop
  done
done >"$work/figures"
sort -k1,2 -k3n "$work/figures" | awk '
  function flush() { if (key != "") printf "%s: %d ops/s (%d-%d), %.2f us CPU of the server an operation\n", key,
                       rates[int((n + 1) / 2)], rates[1], rates[n], total / n }
  { if (key != $1 " " $2) { flush(); key = $1 " " $2; n = total = 0 } rates[++n] = $3; total += $4 }
  END { flush() }'
