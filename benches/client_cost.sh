#!/usr/bin/env bash
# What a request costs the client: the laboratory's beside YCSB's (its core from Maven Central, with the DataStax driver and the
# binding in benches/ycsb), one after the other against one Apache Cassandra. Processor time is of the client's whole process;
# two lengths of run tell what Java needs to start and to compile from what a request costs after that.
#
#   RECORDS=100000 SHORT=200000 LONG=800000 ROUNDS=3 WORKLOADS="c a" benches/client_cost.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
records=${RECORDS:-100000} short=${SHORT:-200000} long=${LONG:-800000} rounds=${ROUNDS:-3} threads=${THREADS:-16}
cassette=${CASSETTE:-$root/target/release/cassette}
work=${WORK:-$root/.cache/ycsb}
mkdir -p "$work/classes"
[ -e "$work/jars/core-0.17.0.jar" ] ||
  (cd "$root/benches/ycsb" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$work/jars")
javac -d "$work/classes" -cp "$work/jars/*" "$root/benches/ycsb/CassandraClient.java"

cluster=(--directory "$work/cluster" --network 127.0.78 --port 9278)
"$cassette" lab cassandra start "${cluster[@]}" --heap "${HEAP:-2G}"
trap '"$cassette" lab cassandra stop --directory "$work/cluster"' EXIT
server=(--engine cql --contact 127.0.78.1:9278 --threads "$threads" --records "$records" --no-json)
"$cassette" lab ycsb "${server[@]}" --phase load --workload a --replace >/dev/null

TIMEFORMAT='%U %S'
laboratory() { "$cassette" lab ycsb "${server[@]}" --phase run --workload "$1" --operations "$2"; }
ycsb() {
  local share='readproportion=1 -p updateproportion=0'
  [ "$1" = a ] && share='readproportion=0.5 -p updateproportion=0.5'
  # shellcheck disable=SC2086
  java -Xmx512m -cp "$work/classes:$work/jars/*" site.ycsb.Client -t -db CassandraClient -threads "$threads" \
    -p workload=site.ycsb.workloads.CoreWorkload -p requestdistribution=zipfian -p scanproportion=0 -p insertproportion=0 \
    -p recordcount="$records" -p operationcount="$2" -p hosts=127.0.78.1 -p port=9278 -p $share
}
echo "client workload operations round cpu_seconds throughput failed"
for round in $(seq "$rounds"); do
  for workload in ${WORKLOADS:-c a}; do
    for operations in "$short" "$long"; do
      for client in laboratory ycsb; do
        { time "$client" "$workload" "$operations" >"$work/out" 2>"$work/errors"; } 2>"$work/time"
        cpu=$(awk '{ print $1 + $2 }' "$work/time")
        case $client in
          laboratory) rate=$(sed -n 's/^run.* \([0-9,]*\) ops\/s.*/\1/p' "$work/out" | tr -d ,)
            failed=$(grep -c FAILED "$work/out" || true) ;;
          ycsb) rate=$(sed -n 's/^\[OVERALL\], Throughput(ops\/sec), //p' "$work/out" | cut -d. -f1)
            failed=$(sed -n 's/.*Return=\(ERROR\|NOT_FOUND\), //p' "$work/out" | paste -sd+ | bc) ;;
        esac
        echo "$client $workload $operations $round $cpu $rate ${failed:-0}"
      done
    done
  done
done | tee "$work/figures"
awk '{ key = $1 " " $2; n = $3; if (!(key in low) || n < low[key]) low[key] = n; if (n > high[key]) high[key] = n
       cpu[key " " n] += $5; runs[key " " n]++ }
     END { for (key in low) { a = cpu[key " " low[key]] / runs[key " " low[key]]; b = cpu[key " " high[key]] / runs[key " " high[key]]
           printf "%s: %.1f us CPU a request over %d, start included; %.1f us each once warm\n", key, b / high[key] * 1e6, high[key],
                  (b - a) / (high[key] - low[key]) * 1e6 } }' "$work/figures" | sort
