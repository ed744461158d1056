#!/usr/bin/env bash
# Sustained random overwrites under leveled compaction: what Cassette's LeveledCompactionStrategy and RocksDB's leveled style write to
# disk for each byte given, and what they keep for each byte that is live, at like settings: tables of SIZE_MB / 125, L1 ten times a
# table, each further level ten times the one above, L0 compacted from two tables on, memtables of a table, LZ4.
#
#   SIZE_MB=20000 TIMES=2 RATE=6000 ROUNDS=1 ENGINES="cassette rocksdb rocksdb-dynamic" benches/leveled_amplification.sh
#
# SIZE_MB of records of 1 KB are loaded, then overwritten at random TIMES times at RATE records a second, which both can keep up with: amplification
# is then a figure of the strategy, not of the machine. rocksdb-dynamic is RocksDB's default, levels sized from the last one up.
# Prints the laboratory's report, then a table; leaves the runs in bench-results/.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
size=${SIZE_MB:-20000} times=${TIMES:-2} rate=${RATE:-6000} rounds=${ROUNDS:-1}
engines=${ENGINES:-cassette rocksdb rocksdb-dynamic}
cassette=${CASSETTE_BINARY:-$root/target/release/cassette}
results=${RESULTS:-$root/bench-results}
data=${DATA:-$(mktemp -d)}
mkdir -p "$results" && cd "$results"

table_mb=$(((size + 124) / 125))
table=$((table_mb << 20))
records=$((size * 1000))
cat > leveled-amplification.toml <<EOF
name = "leveled-amplification"
title = "Random overwrites of $size MB under leveled compaction"
repeats = $rounds

[[engine]]
name = "cassette"
kind = "embedded"
# A row of 1 KB takes about 1.3 KB of a memtable, and a third of the space is flushed at a time.
options = { memtable_heap_space = "$((table_mb * 4))MiB", memtable_flush_writers = 2, concurrent_compactors = 2, compaction_throughput = "0" }

[[engine]]
name = "rocksdb"
kind = "rocksdb"
options = { statistics = "true", write_buffer_size = $table, target_file_size_base = $table, max_bytes_for_level_base = $((table * 10)), max_bytes_for_level_multiplier = 10, level0_file_num_compaction_trigger = 2, level_compaction_dynamic_level_bytes = false }

[[engine]]
name = "rocksdb-dynamic"
kind = "rocksdb"
options = { statistics = "true", write_buffer_size = $table, target_file_size_base = $table, max_bytes_for_level_base = $((table * 10)), max_bytes_for_level_multiplier = 10, level0_file_num_compaction_trigger = 2, level_compaction_dynamic_level_bytes = true }

[[configuration]]
name = "leveled"
table = "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': $table_mb, 'fanout_size': 10} AND compression = {'class': 'LZ4Compressor'}"

[[workload]]
name = "overwrite"
ycsb = "a"
properties = { recordcount = $records, fieldcount = 1, fieldlength = 1000, readproportion = 0, updateproportion = 1, writeallfields = true, requestdistribution = "uniform" }

[[phase]]
load = "overwrite"

[[phase]]
wait = 30

[[phase]]
name = "overwrite"
run = "overwrite"
threads = 2
rate = $rate
operations = $((records * times))
seconds = $((records * times / rate * 4))
warm-up = 0

[[phase]]
wait = 30

[[phase]]
name = "settled"
run = "overwrite"
operations = 1
seconds = 60
warm-up = 0
EOF
asked=$(for engine in $engines; do echo --engine "$engine"; done)
# shellcheck disable=SC2086
TMPDIR=$data "$cassette" lab run leveled-amplification.toml $asked
run=$(find lab-results -maxdepth 1 -name 'leveled-amplification-*' | sort | tail -1)
python3 "$root/benches/amplification.py" "$run" "$records"
